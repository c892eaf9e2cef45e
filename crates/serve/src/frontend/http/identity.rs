//! Who asks over HTTP: from the head of a request to the caller, or to what is said instead of an
//! answer.
//!
//! A token is one that was given to an agent, of which we have the hash ([`AuthConfig`]), or a signed
//! one of an authorization server ([`jwt`]). It is taken out of the request here, so that nothing
//! behind this module can pass it on. It comes in a header or not at all.

pub(crate) mod bearer;
mod challenge;
mod issuer;
mod jwt;
mod keys;
mod pass;
mod sight;
#[cfg(test)]
#[path = "../../../../../tests/it/support/signer.rs"]
mod signer;
mod verifying;

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use hyper::StatusCode;
use hyper::http::request::Parts;
use subtle::ConstantTimeEq;
use tokio_util::sync::CancellationToken;

use crate::frontend::AppState;
use crate::frontend::http::connections::Peer;
use crate::frontend::http::identity::bearer::Presented;
use crate::frontend::http::identity::challenge::{Denied, Resource};
use crate::frontend::http::identity::issuer::Issuer;
use crate::frontend::http::identity::jwt::Jwt;
use crate::frontend::http::origin;
use crate::frontend::http::response::{Denial, Refusal, Reply};
use crate::frontend::http::tls::greeting::Holder;
use crate::gateway::{Caller, Gateways};
use crate::name::AgentName;
use crate::observe::{DeniedAccess, DeniedFor};
use crate::settings::{Anonymous, AuthConfig, Config, TokenConfig, token_digest};
use crate::wire::code::INVALID_REQUEST;

pub(crate) use crate::frontend::http::identity::challenge::WELL_KNOWN;
pub(crate) use crate::frontend::http::identity::pass::Pass;
pub(crate) use crate::frontend::http::identity::sight::Sight;

/// How many agents are remembered to have been here.
const MAX_MET: usize = 10_000;
/// How much of an agent's name an error repeats, in characters.
const MAX_NAME: usize = 100;

/// Who may come in where the configuration does not say.
#[derive(Clone, Debug, Default)]
pub struct Door {
    /// The agent that those are who have no token, in place of what the configuration says.
    pub agent: Option<AgentName>,
    /// `true` if everybody is served where the configuration asks for no token.
    pub is_open: bool,
}

/// Finds out who asks.
pub(crate) struct Identity {
    gateways: Arc<Gateways>,
    door: Door,
    /// `true` if only programs of this machine can reach us.
    is_local: bool,
    /// The rules of the configuration that is being served.
    rules: Mutex<Option<(Arc<Config>, Arc<Rules>)>>,
    /// Who has been here.
    met: Mutex<HashSet<AgentName>>,
    app: AppState,
    shutdown: CancellationToken,
}

/// The rules of one configuration.
#[derive(Default)]
struct Rules {
    /// `None`: it asks nobody for a token.
    auth: Option<AuthConfig>,
    /// The marks that are cancelled when a token is not in the configuration any more, in the order
    /// of [`AuthConfig::all_tokens`].
    revoked: Vec<CancellationToken>,
    jwt: Option<Jwt>,
}

impl Identity {
    /// Nothing is asked of an issuer yet.
    pub(crate) fn new(
        app: &AppState,
        address: Option<SocketAddr>,
        door: Door,
        shutdown: &CancellationToken,
    ) -> Self {
        Self {
            gateways: Arc::clone(&app.gateways),
            door,
            is_local: address.is_some_and(|address| address.ip().is_loopback()),
            rules: Mutex::default(),
            met: Mutex::default(),
            app: app.clone(),
            shutdown: shutdown.clone(),
        }
    }

    /// Who asks, and for how long that is so; or what is said instead of an answer. The token is
    /// taken out of the request. `config` is the one that is being served.
    pub(crate) async fn caller(
        &self,
        head: &mut Parts,
        config: &Arc<Config>,
    ) -> Result<(Caller, Pass), Reply> {
        let presented = bearer::take(&mut head.headers);
        check_origin(head, config).map_err(Denial::reply)?;
        let rules = self.rules(config);
        let resource = rules.resource(head);
        match self.agent(&rules, presented, &resource, holder_in(head)).await {
            Ok((agent, pass)) => {
                if let Some(agent) = &agent {
                    check_rules(agent, config).map_err(Denial::reply)?;
                    self.meet(agent);
                }
                Ok((Caller { agent, toolbox: None }, pass))
            }
            Err(denied) => Err(resource.refuse(denied)),
        }
    }

    /// Checks that the one who asks may see the figures, which name every server. Anybody of this
    /// machine may where no other can reach us, else agents that may know of all servers.
    pub(crate) async fn may_see_figures(&self, head: &mut Parts) -> Result<(), Reply> {
        let config = self.gateways.config();
        if self.is_local {
            return check_origin(head, &config).map_err(Denial::reply);
        }
        let (caller, _) = self.caller(head, &config).await?;
        if self.gateways.shows_every_server(&caller) {
            return Ok(());
        }
        let message = "there are servers that this agent may not know of";
        Err(forbidden(message, caller.agent, DeniedFor::Figures).reply())
    }

    /// The document that tells clients how to get a token (RFC 9728); nothing where signed tokens
    /// are not taken.
    pub(crate) fn metadata(&self, head: &Parts) -> Result<Option<Reply>, Denial> {
        let config = self.gateways.config();
        check_origin(head, &config)?;
        let rules = self.rules(&config);
        Ok(rules.jwt.as_ref().and_then(|jwt| challenge::metadata(head, &jwt.config)))
    }

    async fn agent(
        &self,
        rules: &Rules,
        presented: Presented,
        resource: &Resource<'_>,
        holder: Option<&Holder>,
    ) -> Result<(Option<AgentName>, Pass), Denied> {
        // A certificate is as good as a token of its agent, and a token beside it has to be of that agent.
        let certified = certified(holder)?;
        let Some(auth) = &rules.auth else {
            return match certified {
                Some((agent, pass)) => Ok((Some(agent), pass)),
                None if self.door.is_open => Ok((self.door.agent.clone(), Pass::default())),
                None => Err(Denied::Missing),
            };
        };
        match presented {
            Presented::Nothing => match (certified, &auth.anonymous, &self.door.agent) {
                (Some((agent, pass)), ..) => Ok((Some(agent), pass)),
                (None, Anonymous::Refused, _) => Err(Denied::Missing),
                (None, Anonymous::Nameless, named) => Ok((named.clone(), Pass::default())),
                (None, Anonymous::Named(_), Some(named))
                | (None, Anonymous::Named(named), None) => {
                    Ok((Some(named.clone()), Pass::default()))
                }
            },
            Presented::Other => Err(Denied::Missing),
            Presented::Malformed => Err(Denied::Malformed),
            Presented::Token(token) => {
                let (agent, pass) = Box::pin(rules.token(auth, &token, resource)).await?;
                match certified {
                    Some((other, _)) if other != agent => Err(Denied::OtherCertificate),
                    _ => Ok((Some(agent), pass)),
                }
            }
        }
    }

    /// The rules of the configuration that is being served, which may be a later one than the one of the
    /// request.
    fn rules(&self, config: &Arc<Config>) -> Arc<Rules> {
        let mut rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        let made = |of: &Arc<Config>| {
            let (known, rules) = rules.as_ref()?;
            Arc::ptr_eq(known, of).then(|| Arc::clone(rules))
        };
        if let Some(made) = made(config) {
            return made;
        }
        // Asked for under the lock, so that rules never give way to older ones.
        let config = self.gateways.config();
        if let Some(made) = made(&config) {
            return made;
        }
        let old = rules.as_ref().map(|(_, rules)| Arc::clone(rules)).unwrap_or_default();
        let before = old.jwt.as_ref();
        let jwt = config.auth.as_ref().and_then(|auth| auth.jwt.as_ref()).map(|jwt| {
            // Keys of the same issuer need not be asked for again.
            let same = before.filter(|before| before.is_of_the_issuer_of(jwt));
            let issuer = same.map_or_else(
                || Arc::new(Issuer::new(jwt, &self.app.tasks, &self.shutdown)),
                |same| Arc::clone(&same.issuer),
            );
            let kept = before.filter(|before| before.config == *jwt);
            let revoked = kept.map(|kept| kept.revoked.clone()).unwrap_or_default();
            Jwt { config: jwt.clone(), issuer, revoked }
        });
        let tokens = config.auth.iter().flat_map(told_apart);
        let revoked = tokens.map(|(token, is_operators)| {
            old.revoked_with(token, is_operators).cloned().unwrap_or_default()
        });
        let made = Arc::new(Rules { auth: config.auth.clone(), revoked: revoked.collect(), jwt });
        old.end_what_is_not_in(&made);
        *rules = Some((config, Arc::clone(&made)));
        made
    }

    /// Ends what was begun with tokens that the configuration has not any more.
    pub(crate) fn renew(&self) {
        drop(self.rules(&self.gateways.config()));
    }

    /// Says in the log that an agent is here, once.
    fn meet(&self, agent: &AgentName) {
        let mut met = self.met.lock().unwrap_or_else(PoisonError::into_inner);
        if met.len() < MAX_MET && met.insert(agent.clone()) {
            tracing::info!(%agent, "an agent asks for the first time");
        }
    }
}

impl Rules {
    /// The agent whose token it is, and for how long it is good.
    async fn token(
        &self,
        auth: &AuthConfig,
        token: &str,
        resource: &Resource<'_>,
    ) -> Result<(AgentName, Pass), Denied> {
        if let Some((index, agent)) = holder(&auth.tokens, token) {
            let pass = Pass { until: None, revoked: self.revoked.get(index).cloned() };
            return Ok((agent.clone(), pass));
        }
        let Some(jwt) = &self.jwt else { return Err(Denied::Invalid) };
        jwt.agent(token, resource.of_toolbox().as_deref()).await
    }

    /// The mark that is cancelled when this token is not there any more, for what it is.
    fn revoked_with(&self, token: &TokenConfig, is_operators: bool) -> Option<&CancellationToken> {
        let auth = self.auth.as_ref()?;
        let (tokens, before) =
            if is_operators { (&auth.operators, auth.tokens.len()) } else { (&auth.tokens, 0) };
        let is_same =
            |known: &TokenConfig| (&known.agent, known.digest) == (&token.agent, token.digest);
        self.revoked.get(before + tokens.iter().position(is_same)?)
    }

    /// Ends what was begun with tokens that hold no more.
    fn end_what_is_not_in(&self, next: &Self) {
        let tokens = self.auth.iter().flat_map(told_apart);
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

    fn resource<'a>(&'a self, head: &'a Parts) -> Resource<'a> {
        Resource::of(head, self.jwt.as_ref().map(|jwt| &jwt.config))
    }
}

/// Refuses an agent of whom the rules do not say what it may use.
fn check_rules(agent: &AgentName, config: &Config) -> Result<(), Denial> {
    if config.policy.knows(agent) {
        return Ok(());
    }
    let said: String = agent.as_str().chars().take(MAX_NAME).collect();
    let message = format!(
        "the rules of this workbench do not know the agent `{said}`; whoever runs it can add it \
         to `agentPolicies`, or say in `defaultPolicy` what other agents may use"
    );
    Err(forbidden(&message, Some(agent.clone()), DeniedFor::NoRules))
}

/// Refuses what is not for us, or comes from a page that may not ask us.
fn check_origin(head: &Parts, config: &Config) -> Result<(), Denial> {
    let denied = DeniedAccess { agent: None, why: DeniedFor::Origin };
    let checked = origin::check(head, &config.http);
    checked.map_err(|refusal| Denial { refusal, denied })
}

/// The certificate that the client of a request has shown.
fn holder_in(head: &Parts) -> Option<&Holder> {
    head.extensions.get::<Peer>()?.secured.as_ref()?.holder.as_ref()
}

/// The agent that a certificate names, and for how long it is good; nothing where there is none.
fn certified(holder: Option<&Holder>) -> Result<Option<(AgentName, Pass)>, Denied> {
    let Some(holder) = holder else { return Ok(None) };
    let left = holder.left().ok_or(Denied::OldCertificate)?;
    let agent = holder.agent.clone().ok_or(Denied::NamelessCertificate)?;
    Ok(Some((agent, Pass::lasting(left, holder.distrusted.clone()))))
}

/// The refusal of somebody who may not, with who that is where it is known.
fn forbidden(message: &str, agent: Option<AgentName>, why: DeniedFor) -> Denial {
    let refusal = Refusal::new(StatusCode::FORBIDDEN, INVALID_REQUEST, message);
    Denial { refusal, denied: DeniedAccess { agent, why } }
}

/// All tokens in the order of their marks, with `true` for those of operators.
fn told_apart(auth: &AuthConfig) -> impl Iterator<Item = (&TokenConfig, bool)> {
    let of_agents = auth.tokens.len();
    auth.all_tokens().enumerate().map(move |(index, token)| (token, index >= of_agents))
}

/// Which token it is, and whose. All are compared, and each in constant time, so that how long it takes says
/// nothing.
fn holder<'a>(tokens: &'a [TokenConfig], token: &str) -> Option<(usize, &'a AgentName)> {
    let digest = token_digest(token);
    tokens.iter().enumerate().fold(None, |found, (index, entry)| {
        if bool::from(entry.digest.ct_eq(&digest)) { Some((index, &entry.agent)) } else { found }
    })
}

#[cfg(test)]
mod tests;
