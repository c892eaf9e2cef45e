//! Who may ask over HTTP (`auth`): the tokens of agents, an issuer of signed tokens, and whether
//! agents without a token are served.
//!
//! Of a token only its SHA-256 is kept.

use std::collections::BTreeMap;
use std::time::Duration;

use jsonwebtoken::Algorithm;
use sha2::{Digest, Sha256};
use url::{Host, Url};

use crate::name::AgentName;
use crate::settings::Reference;

/// Who may ask over HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthConfig {
    /// The tokens that were given to agents.
    pub tokens: Vec<TokenConfig>,
    /// The tokens of those who run the workbench, with which the page lets them act.
    pub operators: Vec<TokenConfig>,
    /// The signed tokens that are accepted too.
    pub jwt: Option<JwtConfig>,
    /// How agents without a token are treated.
    pub anonymous: Anonymous,
}

impl AuthConfig {
    /// All tokens, those of agents before those of operators.
    pub fn all_tokens(&self) -> impl Iterator<Item = &TokenConfig> {
        self.tokens.iter().chain(&self.operators)
    }
}

/// A token, as far as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenConfig {
    /// The agent, or of an operator's token the person, that it belongs to.
    pub agent: AgentName,
    /// Its SHA-256.
    pub digest: [u8; 32],
    /// The environment variable that holds it; servers do not get that variable.
    pub variable: Option<String>,
    /// The place where it stands, if the file refers to one.
    pub referred: Option<Reference>,
}

/// How agents without a token are treated.
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

/// Which signed tokens (JWT) are accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JwtConfig {
    /// Who makes them, spelled as in the tokens.
    pub issuer: String,
    /// The audiences that mean this server; a token must name one of them.
    pub audience: Vec<String>,
    /// The address of `/mcp` as clients know it; `None`: the address that a client has asked.
    pub resource: Option<Url>,
    /// Where the issuer's keys are; `None`: where its metadata says.
    pub jwks_url: Option<Url>,
    /// The claim that names the agent.
    pub agent_claim: String,
    /// The agent for each value of that claim; `None`: the value is the agent's name.
    pub agents: Option<BTreeMap<String, AgentName>>,
    /// The scopes that every token must have.
    pub required_scopes: Vec<String>,
    /// The algorithms that they may be signed with.
    pub algorithms: Vec<Algorithm>,
    /// How far clocks may differ.
    pub leeway: Duration,
}

/// Returns the SHA-256 of a token, which is all that is kept of it.
pub fn token_digest(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

/// Returns `true` if a text can stand after `Bearer` (RFC 6750).
pub fn is_bearer(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "-._~+/=".contains(c))
}

/// Returns `true` if an address is on this machine.
pub fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name.eq_ignore_ascii_case("localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}
