//! Who may ask over HTTP (`auth`): the tokens of agents, an issuer of signed ones, and whether
//! those are served that have none.
//!
//! A token itself is never kept: what is checked is its SHA-256.

mod check;
pub(crate) mod raw;

use std::collections::BTreeMap;
use std::time::Duration;

use jsonwebtoken::Algorithm;
use sha2::{Digest, Sha256};
use url::{Host, Url};

use crate::name::AgentName;

/// Who may ask over HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthConfig {
    /// The tokens that were given to agents.
    pub tokens: Vec<TokenConfig>,
    /// Whose signed tokens are taken besides.
    pub jwt: Option<JwtConfig>,
    /// What becomes of those that have no token.
    pub anonymous: Anonymous,
}

/// A token, as far as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenConfig {
    /// Whose it is.
    pub agent: AgentName,
    /// Its SHA-256.
    pub digest: [u8; 32],
    /// The environment variable that holds it, which is no business of servers.
    pub variable: Option<String>,
}

/// What becomes of those that have no token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Anonymous {
    /// They are refused.
    #[default]
    Refused,
    /// They are served as agents without a name.
    Nameless,
    /// They are all served as this agent.
    Named(AgentName),
}

/// Whose signed tokens (JWT) are taken, and what they have to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JwtConfig {
    /// Who makes them, spelled as in the tokens.
    pub issuer: String,
    /// Whom they are for: one of these is us.
    pub audience: Vec<String>,
    /// The address of `/mcp` as clients know it; where it is not known, they are told what they
    /// called us.
    pub resource: Option<Url>,
    /// Where the issuer's keys are; found out from its metadata where it is not said.
    pub jwks_url: Option<Url>,
    /// The claim that says who the agent is.
    pub agent_claim: String,
    /// Which agent is meant by what that claim says; the agent itself where there is no such list.
    pub agents: Option<BTreeMap<String, AgentName>>,
    /// What every token has to be allowed.
    pub required_scopes: Vec<String>,
    /// How they may be signed.
    pub algorithms: Vec<Algorithm>,
    /// How far clocks may differ.
    pub leeway: Duration,
}

/// What may sign a token: whoever can check such a signature cannot make one.
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

/// What to do about a token in the file.
const MAKE: &str = "`mcp-workbench token <agent>` makes a token and its entry, and with \
                    `--from-stdin` the entry of a token that you have";

/// What is kept of a token.
pub fn token_digest(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

/// Whether a text can be a token: what can stand after `Bearer` (RFC 6750), and cannot be guessed.
pub fn is_token(text: &str) -> bool {
    text.len() >= FEWEST && is_bearer(text)
}

/// Whether a text can stand after `Bearer`.
pub fn is_bearer(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "-._~+/=".contains(c))
}

/// Whether an address is on this machine.
pub fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name.eq_ignore_ascii_case("localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

fn names_of_all() -> [String; 9] {
    ALGORITHMS.map(|algorithm| format!("{algorithm:?}"))
}
