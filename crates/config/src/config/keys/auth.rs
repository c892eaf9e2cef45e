//! Who may ask over HTTP (`auth`): the tokens of agents, an issuer of signed ones, and whether
//! those are served that have none.
//!
//! A token itself is never kept: what is checked is its SHA-256.

mod check;
pub(crate) mod raw;

use jsonwebtoken::Algorithm;

use crate::settings::is_bearer;

/// The algorithms that may sign a token: whoever can check such a signature cannot make one.
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

/// The fewest characters of a token that is taken from the environment: fewer can be guessed.
const FEWEST: usize = 16;

/// The hint about a token in the file.
const MAKE: &str = "`mcp-workbench token <agent>` makes a token and its entry, and with \
                    `--from-stdin` the entry of a token that you have";

/// Returns `true` if a text can be a token: it can stand after `Bearer` (RFC 6750), and cannot be
/// guessed.
pub fn is_token(text: &str) -> bool {
    text.len() >= FEWEST && is_bearer(text)
}

fn names_of_all() -> [String; 9] {
    ALGORITHMS.map(|algorithm| format!("{algorithm:?}"))
}
