//! The `auth` section: agent and operator tokens, the JWT issuer, and the policy for anonymous
//! callers over HTTP. Tokens are stored and compared only as SHA-256 digests.

pub(crate) mod raw;
mod validation;

use jsonwebtoken::Algorithm;

use mcp_workbench_settings::is_bearer;

/// The accepted JWT algorithms. All are asymmetric: a verification key can't sign tokens.
const ALGORITHMS: [Algorithm; 9] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::EdDSA,
];

/// Minimum length of a token from a variable or reference; shorter ones could be guessed.
const MIN_TOKEN_LENGTH: usize = 16;

const MAKE_TOKEN_HINT: &str = "`mcp-workbench token <agent>` creates a token and its entry; with \
                               `--from-stdin`, the entry of an existing token";

/// Returns `true` if `text` is a bearer token (RFC 6750 §2.1) of sufficient length.
pub fn is_valid_token(text: &str) -> bool {
    text.len() >= MIN_TOKEN_LENGTH && is_bearer(text)
}

fn algorithm_names() -> [String; 9] {
    ALGORITHMS.map(|algorithm| format!("{algorithm:?}"))
}
