//! Authentication over HTTP (`auth`): agent tokens, JWTs, and the treatment of agents without a
//! token.
//!
//! Tokens are stored as SHA-256 digests.

use std::collections::BTreeMap;
use std::time::Duration;

use jsonwebtoken::Algorithm;
use sha2::{Digest, Sha256};
use url::{Host, Url};

use crate::SecretRef;
use mcp_workbench_names::AgentName;

/// Settings of authentication over HTTP.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AuthConfig {
    pub tokens: Vec<TokenConfig>,
    /// Tokens of operators, which allow actions in the dashboard.
    pub operators: Vec<TokenConfig>,
    /// Accepted JWTs; `None` if none are.
    pub jwt: Option<JwtConfig>,
    pub anonymous: AnonymousPolicy,
}

impl AuthConfig {
    /// Returns all tokens: agents first, then operators.
    pub fn all_tokens(&self) -> impl Iterator<Item = &TokenConfig> {
        self.tokens.iter().chain(&self.operators)
    }
}

/// A token of an agent or an operator.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TokenConfig {
    /// The agent, or the operator's name.
    pub agent: AgentName,
    /// SHA-256 of the token.
    pub digest: [u8; 32],
    /// The environment variable that holds the token. It isn't passed to servers.
    pub variable: Option<String>,
    /// The secret reference of the token, if the file has one.
    pub referred: Option<SecretRef>,
}

/// How agents without a token are treated.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum AnonymousPolicy {
    #[default]
    Refused,
    /// Served without a name.
    Nameless,
    /// Served as this agent.
    Named(AgentName),
}

/// Which JWTs are accepted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct JwtConfig {
    /// Must equal the `iss` claim exactly.
    pub issuer: String,
    /// Accepted audiences; a token must have one of them.
    pub audience: Vec<String>,
    /// The URL of `/mcp` as clients know it; `None`: the URL of the request.
    pub resource: Option<Url>,
    /// URL of the issuer's keys; `None`: taken from the issuer's metadata.
    pub jwks_url: Option<Url>,
    pub agent_claim: String,
    /// Maps values of that claim to agents; `None`: the value is the agent's name.
    pub agents: Option<BTreeMap<String, AgentName>>,
    pub required_scopes: Vec<String>,
    /// Accepted signature algorithms.
    pub algorithms: Vec<Algorithm>,
    /// Tolerated clock skew.
    pub leeway: Duration,
}

/// Returns the SHA-256 of a token. Tokens are stored only in this form.
pub fn token_digest(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

/// Returns `true` if `text` is a valid bearer token (RFC 6750 §2.1).
pub fn is_bearer(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "-._~+/=".contains(c))
}

/// Returns `true` if the host of a URL is `localhost` or a loopback address.
pub fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name.eq_ignore_ascii_case("localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}
