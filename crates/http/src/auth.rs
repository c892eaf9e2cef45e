//! Authenticates HTTP requests by their head, and finds the caller.
//!
//! A token is an agent's own, stored as a hash ([`AuthConfig`]), or a JWT of an authorization
//! server ([`jwt`]). It must come in a header, and is removed from the request here, so that no
//! later code can forward it.

mod admin_access;

use parking_lot::Mutex;
pub(crate) mod bearer;
mod challenge;
mod credential_lifetime;
mod issuer;
mod jwks;
mod jwt;
mod signature;
#[cfg(test)]
#[path = "../../../tests/it/support/signer.rs"]
mod signer;

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;

use hyper::StatusCode;
use hyper::http::request::Parts;
use subtle::ConstantTimeEq;
use tokio_util::sync::CancellationToken;

use crate::auth::bearer::PresentedToken;
use crate::auth::challenge::{AuthError, ProtectedResource};
use crate::auth::issuer::Issuer;
use crate::auth::jwt::JwtValidator;
use crate::connections::connection_info::ConnectionInfo;
use crate::origin;
use crate::response::{AccessDenied, HttpError, HttpResponse};
use crate::tls::acceptor::ClientCertificate;
use mcp_workbench_core::gateway::{Caller, GatewayRegistry};
use mcp_workbench_core::telemetry::{AccessDenial, AccessDenialReason};
use mcp_workbench_names::AgentName;
use mcp_workbench_serve::frontend::AppState;
use mcp_workbench_settings::{AnonymousPolicy, AuthConfig, Config, TokenConfig, token_digest};
use mcp_workbench_wire::code::INVALID_REQUEST;

pub(crate) use crate::auth::admin_access::{AccessLevel, AdminAccess};
pub(crate) use crate::auth::credential_lifetime::CredentialLifetime;

/// Agents whose first request is logged.
const MAX_MET: usize = 10_000;
/// In characters, of an unknown agent's name that an error repeats.
const MAX_NAME: usize = 100;

/// Handling of requests without a token when the configuration doesn't say.
#[derive(Clone, Debug, Default)]
pub struct DefaultAccess {
    /// The name of the anonymous agent. Overrides the configuration.
    pub agent: Option<AgentName>,
    /// `true` to serve anonymous callers when the configuration requires no token.
    pub serves_anonymous: bool,
}

pub(crate) struct Authenticator {
    gateways: Arc<GatewayRegistry>,
    default_access: DefaultAccess,
    /// `true` if the listener's address is a loopback address.
    is_local: bool,
    rules: Mutex<Option<(Arc<Config>, Arc<AuthRules>)>>,
    met: Mutex<HashSet<AgentName>>,
    app: AppState,
    shutdown: CancellationToken,
}

#[derive(Default)]
struct AuthRules {
    /// `None` if the configuration requires no token.
    auth: Option<AuthConfig>,
    /// Cancelled when a token is no longer configured. In the order of [`AuthConfig::all_tokens`].
    revoked: Vec<CancellationToken>,
    jwt: Option<JwtValidator>,
    /// `true` if servers get exchanged tokens.
    has_exchanges: bool,
}

/// The agent of a request, and how long its credential is valid.
struct Authenticated {
    agent: Option<AgentName>,
    lifetime: CredentialLifetime,
    /// The agent's token, if it can be exchanged for tokens of servers.
    token: Option<SubjectToken>,
}

struct SubjectToken {
    /// Identifies the holder.
    subject: Arc<str>,
    value: String,
    /// In seconds since the Unix epoch.
    expires: u64,
}

impl Authenticated {
    fn new(agent: Option<AgentName>, lifetime: CredentialLifetime) -> Self {
        Self { agent, lifetime, token: None }
    }

    fn without_end(agent: Option<AgentName>) -> Self {
        Self::new(agent, CredentialLifetime::default())
    }
}

impl Authenticator {
    pub(crate) fn new(
        app: &AppState,
        address: Option<SocketAddr>,
        default_access: DefaultAccess,
        shutdown: &CancellationToken,
    ) -> Self {
        Self {
            gateways: Arc::clone(&app.gateways),
            default_access,
            is_local: address.is_some_and(|address| address.ip().is_loopback()),
            rules: Mutex::default(),
            met: Mutex::default(),
            app: app.clone(),
            shutdown: shutdown.clone(),
        }
    }

    /// Authenticates a request and removes its token. Returns the caller and how long its
    /// credential is valid, or the response to send.
    pub(crate) async fn authenticate(
        &self,
        head: &mut Parts,
        config: &Arc<Config>,
    ) -> Result<(Caller, CredentialLifetime), HttpResponse> {
        let presented = bearer::take_bearer_token(&mut head.headers);
        check_origin(head, config).map_err(AccessDenied::reply)?;
        let rules = self.rules(config);
        let resource = rules.resource(head);
        match self.authenticate_agent(&rules, presented, &resource, holder_in(head)).await {
            Ok(Authenticated { agent, lifetime, token }) => {
                if let Some(agent) = &agent {
                    require_known_agent(agent, config).map_err(AccessDenied::reply)?;
                    self.meet(agent);
                }
                let subject = token.map(|token| {
                    let SubjectToken { subject, value, expires } = token;
                    let audience = rules.jwt.as_ref().map(|jwt| jwt.config.audience.as_slice());
                    let audience = audience.unwrap_or_default();
                    self.gateways.present_token(&subject, &value, expires, audience);
                    subject
                });
                Ok((Caller { agent, toolbox: None, subject }, lifetime))
            }
            Err(denied) => Err(resource.refuse(denied)),
        }
    }

    /// Checks that the caller may read metrics, which name every server. On a loopback address any
    /// caller may; otherwise only agents that may see all servers.
    pub(crate) async fn authorize_metrics(&self, head: &mut Parts) -> Result<(), HttpResponse> {
        let config = self.gateways.config();
        if self.is_local {
            return check_origin(head, &config).map_err(AccessDenied::reply);
        }
        let (caller, _) = self.authenticate(head, &config).await?;
        if self.gateways.shows_every_server(&caller) {
            return Ok(());
        }
        let message = "access denied: the metrics name servers that are hidden from this agent";
        Err(forbidden(message, caller.agent, AccessDenialReason::MetricsDenied).reply())
    }

    /// Returns the protected resource metadata (RFC 9728), or `None` if JWTs aren't accepted.
    pub(crate) fn metadata(&self, head: &Parts) -> Result<Option<HttpResponse>, AccessDenied> {
        let config = self.gateways.config();
        check_origin(head, &config)?;
        let rules = self.rules(&config);
        Ok(rules.jwt.as_ref().and_then(|jwt| challenge::metadata(head, &jwt.config)))
    }

    async fn authenticate_agent(
        &self,
        rules: &AuthRules,
        presented: PresentedToken,
        resource: &ProtectedResource<'_>,
        holder: Option<&ClientCertificate>,
    ) -> Result<Authenticated, AuthError> {
        // A certificate counts as a token of its agent. A token sent with it must be the same
        // agent's.
        let certified = agent_of_certificate(holder)?;
        let Some(auth) = &rules.auth else {
            return match certified {
                Some((agent, lifetime)) => Ok(Authenticated::new(Some(agent), lifetime)),
                None if self.default_access.serves_anonymous => {
                    Ok(Authenticated::without_end(self.default_access.agent.clone()))
                }
                None => Err(AuthError::Missing),
            };
        };
        match presented {
            PresentedToken::Absent => {
                match (certified, &auth.anonymous, &self.default_access.agent) {
                    (Some((agent, lifetime)), ..) => Ok(Authenticated::new(Some(agent), lifetime)),
                    (None, AnonymousPolicy::Refused, _) => Err(AuthError::Missing),
                    (None, AnonymousPolicy::Nameless, named) => {
                        Ok(Authenticated::without_end(named.clone()))
                    }
                    (None, AnonymousPolicy::Named(_), Some(named))
                    | (None, AnonymousPolicy::Named(named), None) => {
                        Ok(Authenticated::without_end(Some(named.clone())))
                    }
                }
            }
            PresentedToken::Other => Err(AuthError::Missing),
            PresentedToken::Malformed => Err(AuthError::Malformed),
            PresentedToken::Token(token) => {
                let holder = Box::pin(rules.token(auth, &token, resource)).await?;
                match certified {
                    Some((other, _)) if Some(&other) != holder.agent.as_ref() => {
                        Err(AuthError::CertificateMismatch)
                    }
                    _ => Ok(holder),
                }
            }
        }
    }

    /// Returns the rules of the served configuration, which may be newer than the request's.
    fn rules(&self, config: &Arc<Config>) -> Arc<AuthRules> {
        let mut rules = self.rules.lock();
        let made = |of: &Arc<Config>| {
            let (known, rules) = rules.as_ref()?;
            Arc::ptr_eq(known, of).then(|| Arc::clone(rules))
        };
        if let Some(made) = made(config) {
            return made;
        }
        // Read under the lock, so that older rules never replace newer ones.
        let config = self.gateways.config();
        if let Some(made) = made(&config) {
            return made;
        }
        let old = rules.as_ref().map(|(_, rules)| Arc::clone(rules)).unwrap_or_default();
        let before = old.jwt.as_ref();
        let jwt = config.auth.as_ref().and_then(|auth| auth.jwt.as_ref()).map(|jwt| {
            // Don't fetch the keys of the same issuer again.
            let same = before.filter(|before| before.shares_issuer_with(jwt));
            let issuer = same.map_or_else(
                || Arc::new(Issuer::new(jwt, &self.app.tasks, &self.shutdown)),
                |same| Arc::clone(&same.issuer),
            );
            let kept = before.filter(|before| before.config == *jwt);
            let revoked = kept.map(|kept| kept.revoked.clone()).unwrap_or_default();
            JwtValidator { config: jwt.clone(), issuer, revoked }
        });
        let tokens = config.auth.iter().flat_map(tokens_with_role);
        let revoked = tokens.map(|(token, is_operators)| {
            old.revoked_with(token, is_operators).cloned().unwrap_or_default()
        });
        let made = Arc::new(AuthRules {
            auth: config.auth.clone(),
            revoked: revoked.collect(),
            jwt,
            has_exchanges: config.servers().any(|(_, server)| server.launch.has_exchange()),
        });
        old.revoke_removed_tokens(&made);
        if before.is_some_and(|before| before.revoked.is_cancelled()) || !made.has_exchanges {
            self.gateways.forget_callers();
        }
        *rules = Some((config, Arc::clone(&made)));
        made
    }

    /// Closes the streams opened with tokens that are no longer configured.
    pub(crate) fn refresh_rules(&self) {
        drop(self.rules(&self.gateways.config()));
    }

    fn meet(&self, agent: &AgentName) {
        let mut met = self.met.lock();
        if met.len() < MAX_MET && met.insert(agent.clone()) {
            tracing::info!(%agent, "first request of an agent");
        }
    }
}

impl AuthRules {
    async fn token(
        &self,
        auth: &AuthConfig,
        token: &str,
        resource: &ProtectedResource<'_>,
    ) -> Result<Authenticated, AuthError> {
        if let Some((index, agent)) = find_token(&auth.tokens, token) {
            let lifetime =
                CredentialLifetime { expires_at: None, revoked: self.revoked.get(index).cloned() };
            return Ok(Authenticated::new(Some(agent.clone()), lifetime));
        }
        let Some(jwt) = &self.jwt else { return Err(AuthError::Invalid) };
        let holder = jwt.validate(token, resource.of_toolbox().as_deref()).await?;
        let token = holder.subject.filter(|_| self.has_exchanges).map(|subject| SubjectToken {
            subject,
            value: token.to_owned(),
            expires: holder.expires,
        });
        Ok(Authenticated { token, ..Authenticated::new(Some(holder.agent), holder.lifetime) })
    }

    /// Returns the signal for the removal of a token, unless its agent or role has changed.
    fn revoked_with(&self, token: &TokenConfig, is_operators: bool) -> Option<&CancellationToken> {
        let auth = self.auth.as_ref()?;
        let (tokens, before) =
            if is_operators { (&auth.operators, auth.tokens.len()) } else { (&auth.tokens, 0) };
        let is_same =
            |known: &TokenConfig| (&known.agent, known.digest) == (&token.agent, token.digest);
        self.revoked.get(before + tokens.iter().position(is_same)?)
    }

    fn revoke_removed_tokens(&self, next: &Self) {
        let tokens = self.auth.iter().flat_map(tokens_with_role);
        for ((token, is_operators), revoked) in tokens.zip(&self.revoked) {
            if next.revoked_with(token, is_operators).is_none() {
                revoked.cancel();
            }
        }
        if let Some(jwt) = &self.jwt
            && next.jwt.as_ref().is_none_or(|next| next.config != jwt.config)
        {
            jwt.revoked.cancel();
        }
    }

    fn resource<'a>(&'a self, head: &'a Parts) -> ProtectedResource<'a> {
        ProtectedResource::of(head, self.jwt.as_ref().map(|jwt| &jwt.config))
    }
}

fn require_known_agent(agent: &AgentName, config: &Config) -> Result<(), AccessDenied> {
    if config.policy.knows(agent) {
        return Ok(());
    }
    let said: String = agent.as_str().chars().take(MAX_NAME).collect();
    let message = format!(
        "no access rules for agent `{said}`; the administrator can add it to `agentPolicies`, or \
         allow other agents in `defaultPolicy`"
    );
    Err(forbidden(&message, Some(agent.clone()), AccessDenialReason::NoPolicy))
}

fn check_origin(head: &Parts, config: &Config) -> Result<(), AccessDenied> {
    let denied = AccessDenial { agent: None, reason: AccessDenialReason::Origin };
    let checked = origin::check(head, &config.http);
    checked.map_err(|refusal| AccessDenied { refusal, denied })
}

fn holder_in(head: &Parts) -> Option<&ClientCertificate> {
    head.extensions.get::<ConnectionInfo>()?.secured.as_ref()?.holder.as_ref()
}

fn agent_of_certificate(
    holder: Option<&ClientCertificate>,
) -> Result<Option<(AgentName, CredentialLifetime)>, AuthError> {
    let Some(holder) = holder else { return Ok(None) };
    let left = holder.seconds_left().ok_or(AuthError::ExpiredCertificate)?;
    let agent = holder.agent.clone().ok_or(AuthError::UnnamedCertificate)?;
    Ok(Some((agent, CredentialLifetime::lasting(left, holder.distrusted.clone()))))
}

fn forbidden(message: &str, agent: Option<AgentName>, reason: AccessDenialReason) -> AccessDenied {
    let refusal = HttpError::new(StatusCode::FORBIDDEN, INVALID_REQUEST, message);
    AccessDenied { refusal, denied: AccessDenial { agent, reason } }
}

/// All tokens in the order of `revoked`, with `true` for operators' tokens.
fn tokens_with_role(auth: &AuthConfig) -> impl Iterator<Item = (&TokenConfig, bool)> {
    let of_agents = auth.tokens.len();
    auth.all_tokens().enumerate().map(move |(index, token)| (token, index >= of_agents))
}

/// Compares all tokens in constant time, so that timing reveals nothing.
fn find_token<'a>(tokens: &'a [TokenConfig], token: &str) -> Option<(usize, &'a AgentName)> {
    let digest = token_digest(token);
    tokens.iter().enumerate().fold(None, |found, (index, entry)| {
        if bool::from(entry.digest.ct_eq(&digest)) { Some((index, &entry.agent)) } else { found }
    })
}

#[cfg(test)]
mod tests;
