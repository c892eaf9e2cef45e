//! Validates JWT access tokens (RFC 7519, RFC 9068) and derives the agent from their claims.

use std::sync::Arc;

use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Validation, decode, decode_header, get_current_timestamp};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use crate::auth::challenge::AuthError;
use crate::auth::credential_lifetime::CredentialLifetime;
use crate::auth::issuer::Issuer;
use crate::auth::signature;
use mcp_workbench_names::AgentName;
use mcp_workbench_settings::{JwtConfig, token_digest};

/// Accepted `typ` headers. The issuer may sign other tokens, such as logout tokens, with the same
/// keys.
const TYPES: [&str; 3] = ["JWT", "at+jwt", "application/at+jwt"];

type Claims = Map<String, Value>;

pub(crate) struct JwtValidator {
    pub(crate) config: JwtConfig,
    pub(crate) issuer: Arc<Issuer>,
    /// Cancelled when the configuration no longer accepts tokens of this issuer.
    pub(crate) revoked: CancellationToken,
}

/// Who holds a valid token, and how long.
pub(crate) struct TokenHolder {
    pub(crate) agent: AgentName,
    pub(crate) lifetime: CredentialLifetime,
    /// The `exp` claim.
    pub(crate) expires: u64,
    /// Digest of the claims that identify the holder; `None` without a `sub`.
    pub(crate) subject: Option<Arc<str>>,
}

impl JwtValidator {
    pub(crate) fn shares_issuer_with(&self, jwt: &JwtConfig) -> bool {
        self.issuer.is_of(jwt)
    }

    /// Validates `token` and returns its holder. Accepts `resource` as an audience in
    /// addition to the configured ones.
    pub(crate) async fn validate(
        &self,
        token: &str,
        resource: Option<&str>,
    ) -> Result<TokenHolder, AuthError> {
        let claims = self.claims(token, resource).await?;
        self.check_scopes(&claims)?;
        let agent = self.named(&claims)?;
        let expires = claims.get("exp").and_then(whole_seconds).unwrap_or_default();
        let end = expires.saturating_add(self.config.leeway.as_secs());
        let left = end.saturating_sub(get_current_timestamp());
        let lifetime = CredentialLifetime::lasting(left, self.revoked.clone());
        Ok(TokenHolder { subject: subject(&agent, &claims), agent, lifetime, expires })
    }

    async fn claims(&self, token: &str, resource: Option<&str>) -> Result<Claims, AuthError> {
        let header = decode_header(token).map_err(|error| refuse(error.kind()))?;
        let is_known = header
            .typ
            .as_ref()
            .is_none_or(|said| TYPES.iter().any(|known| said.eq_ignore_ascii_case(known)));
        if !is_known || header.crit.is_some() {
            return Err(invalid("unsupported `typ` or `crit` header"));
        }
        if !self.config.algorithms.contains(&header.alg) {
            return Err(invalid("the signature algorithm is not allowed"));
        }
        let mut expected = Validation::new(header.alg);
        expected.leeway = self.config.leeway.as_secs();
        expected.validate_nbf = true;
        expected.set_required_spec_claims(&["exp", "iss", "aud"]);
        expected.set_issuer(&[&self.config.issuer]);
        let audience = self.config.audience.iter().map(String::as_str).chain(resource);
        expected.set_audience(&audience.collect::<Vec<_>>());
        signature::install();
        let keys = self.issuer.keys(header.kid.as_deref(), header.alg).await?;
        let mut denied = None;
        for key in &keys {
            match decode::<Claims>(token, key, &expected) {
                // RFC 7519 defines `iss` as a single string, but the library also accepts an array.
                Ok(good) if good.claims.get("iss").is_some_and(Value::is_string) => {
                    return Ok(good.claims);
                }
                Ok(_) => return Err(invalid("`iss` is not a string")),
                Err(error) => denied = Some(refuse(error.kind())),
            }
        }
        Err(denied.unwrap_or_else(|| invalid("the issuer has no matching key")))
    }

    fn check_scopes(&self, claims: &Claims) -> Result<(), AuthError> {
        let texts: Vec<&str> = ["scope", "scp"]
            .iter()
            .filter_map(|claim| claims.get(*claim))
            .flat_map(|said| match said {
                Value::Array(all) => all.iter().filter_map(Value::as_str).collect(),
                other => other.as_str().map_or_else(Vec::new, |all| all.split(' ').collect()),
            })
            .collect();
        let has = |scope: &String| texts.contains(&scope.as_str());
        if self.config.required_scopes.iter().all(has) {
            Ok(())
        } else {
            Err(AuthError::InsufficientScope)
        }
    }

    fn named(&self, claims: &Claims) -> Result<AgentName, AuthError> {
        let said = claims.get(&self.config.agent_claim).and_then(Value::as_str);
        let said = said.ok_or_else(|| invalid("the agent claim is missing"))?;
        if let Some(agents) = &self.config.agents {
            return agents.get(said).cloned().ok_or(AuthError::UnknownHolder);
        }
        AgentName::from_credential(said).ok_or(AuthError::UnknownHolder)
    }
}

/// Returns a digest of the claims that decide what an exchanged token allows. It stays the same
/// when the token is renewed, but tokens with other rights, clients or actors get another one.
fn subject(agent: &AgentName, claims: &Claims) -> Option<Arc<str>> {
    let sub = claims.get("sub")?.as_str()?;
    let words = |name: &str| {
        let mut words: Vec<&str> = match claims.get(name) {
            Some(Value::String(text)) => text.split(' ').collect(),
            Some(Value::Array(all)) => all.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        words.sort_unstable();
        words.dedup();
        json!(words)
    };
    let single = ["iss", "azp", "client_id", "appid", "act"].map(|name| claims.get(name));
    let lists = ["aud", "scope", "scp"].map(words);
    let mut all = json!([agent.as_str(), sub, single, lists]);
    all.sort_all_objects();
    let digest = token_digest(&all.to_string());
    let half = digest.iter().take(16).fold(0, |half: u128, byte| half << 8 | u128::from(*byte));
    Some(format!("{half:032x}").into())
}

fn whole_seconds(time: &Value) -> Option<u64> {
    let text = time.as_number()?.to_string();
    text.split('.').next()?.parse().ok()
}

/// Maps a validation error. The client learns only whether the token has expired; the reason is
/// logged, without any part of the token.
fn refuse(kind: &ErrorKind) -> AuthError {
    let reason = match kind {
        ErrorKind::ExpiredSignature => {
            tracing::debug!("rejected a token: it has expired");
            return AuthError::Expired;
        }
        ErrorKind::ImmatureSignature => "not valid yet (`nbf`)",
        ErrorKind::InvalidSignature => "invalid signature",
        ErrorKind::InvalidIssuer => "wrong issuer (`iss`)",
        ErrorKind::InvalidAudience => "wrong audience (`aud`)",
        ErrorKind::MissingRequiredClaim(_) => "missing `exp`, `iss` or `aud`",
        ErrorKind::InvalidAlgorithm => "the signature algorithm is not allowed",
        _ => "not a signed JWT",
    };
    invalid(reason)
}

fn invalid(reason: &str) -> AuthError {
    tracing::info!(reason, "rejected a token");
    AuthError::Invalid
}

#[cfg(test)]
mod tests;
