//! Logins for servers over HTTP: which account an agent uses, and the credentials sent to a server.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use reqwest::header::{AUTHORIZATION, HeaderMap};
use tokio::sync::Mutex;

use crate::telemetry::{
    Event, LimitReached, QuotaKind, QuotaOwner, SignInChange, SignInContext, Telemetry,
    drop_secrets, learn_secrets,
};
use mcp_workbench_login::{
    LoginError, LoginEvent, LoginLimit, LoginRegistry, LoginTarget, OAuthLogin, PendingLogin,
    RedirectTarget,
};
use mcp_workbench_names::{AgentName, ServerName, ServerRef, ToolboxName};
use mcp_workbench_settings::{AccountScope, HttpLaunch};
use mcp_workbench_wire::http_client::{
    BoxFuture, Challenge, Credentials, RetryDecision, StaticHeaders,
};

/// Selects the logins that an agent uses.
#[derive(Clone, Default)]
pub struct LoginScope {
    logins: Option<Arc<LoginRegistry>>,
    agent: Option<AgentName>,
    /// Identifies the caller whose token is exchanged.
    subject: Option<Arc<str>>,
    /// `true` if the agent's logins are its own, unless the entry's `account` says otherwise.
    has_own_logins: bool,
}

impl LoginScope {
    /// The only agent of this machine's user. It can name logins but not use them.
    pub fn only(agent: Option<&AgentName>) -> Self {
        Self::new(None, (agent, None), false)
    }

    pub(crate) fn new(
        logins: Option<&Arc<LoginRegistry>>,
        (agent, subject): (Option<&AgentName>, Option<&Arc<str>>),
        has_own_logins: bool,
    ) -> Self {
        let (agent, subject) = (agent.cloned(), subject.cloned());
        Self { logins: logins.cloned(), agent, subject, has_own_logins }
    }

    /// Returns the login that an entry uses; `None` if its headers authenticate it, OAuth is off, or
    /// the caller has no token to exchange.
    pub fn place(&self, server: &str, launch: &HttpLaunch) -> Option<LoginTarget> {
        if launch.oauth.is_off || launch.headers.iter().any(|(name, _)| name == AUTHORIZATION) {
            return None;
        }
        let is_own = match launch.oauth.account {
            AccountScope::Auto => self.has_own_logins,
            AccountScope::Shared => false,
            AccountScope::Agent => true,
        };
        let agent = self.agent.as_ref().filter(|_| is_own);
        let account = match launch.oauth.exchange() {
            Some(_) => Some(self.subject.as_ref()?.to_string()),
            None => agent.map(ToString::to_string),
        };
        Some(LoginTarget {
            server: server.to_owned(),
            url: launch.url.clone(),
            account,
            oauth: launch.oauth.clone(),
        })
    }

    /// Returns the login for a target; `None` without a login registry.
    pub(crate) fn login(&self, target: LoginTarget) -> Option<Arc<OAuthLogin>> {
        self.logins.as_ref().map(|logins| logins.get_or_create(target))
    }
}

/// Sign-ins in progress, at most one per target.
#[derive(Default)]
pub(crate) struct PendingLogins(Mutex<HashMap<LoginTarget, Weak<PendingLogin>>>);

impl PendingLogins {
    /// Returns `true` if a sign-in for this target is pending; can miss one that just begins.
    pub(crate) fn has(&self, target: &LoginTarget) -> bool {
        let all = self.0.try_lock();
        let pending = all.ok().and_then(|all| all.get(target).and_then(Weak::upgrade));
        pending.is_some_and(|pending| !pending.is_over())
    }

    /// Returns the pending sign-in for the login's target, or begins one.
    pub(crate) async fn join(
        &self,
        login: &Arc<OAuthLogin>,
        back: RedirectTarget,
    ) -> Result<Arc<PendingLogin>, LoginError> {
        // Held while a sign-in begins, so sign-ins for other targets wait too.
        let mut all = self.0.lock().await;
        if let Some(pending) = all.get(login.target()).and_then(Weak::upgrade)
            && !pending.is_over()
        {
            return Ok(pending);
        }
        all.retain(|_, pending| pending.strong_count() > 0);
        let pending = Arc::new(login.begin(back).await?);
        all.insert(login.target().clone(), Arc::downgrade(&pending));
        Ok(pending)
    }
}

/// Publishes a login change to the listeners.
pub fn tell_of_login(observer: &Telemetry, event: LoginEvent<'_>) {
    let (target, change, why) = match event {
        LoginEvent::SecretsLearned(target, secrets) => {
            return learn_secrets(&secrets_key(target), secrets);
        }
        LoginEvent::SecretsDropped(target) => return drop_secrets(&secrets_key(target)),
        LoginEvent::LimitReached(target, limit) => {
            let quota = match limit {
                LoginLimit::DiscoveryRequests => QuotaKind::DiscoveryRequests,
                LoginLimit::Scopes => QuotaKind::Scopes,
            };
            // A login can serve equal entries of several toolboxes.
            let (toolbox, server) = (ToolboxName::new(""), ServerName::new(&target.server));
            let owner = QuotaOwner::Server(ServerRef { toolbox, server });
            return observer.bus().emit(Event::LimitReached(&LimitReached { owner, quota }));
        }
        LoginEvent::SignedIn(target) => (target, SignInChange::SignedIn, ""),
        LoginEvent::Renewed(target) => (target, SignInChange::Renewed, ""),
        LoginEvent::SignInRequired(target, why) => (target, SignInChange::Required, why),
        LoginEvent::SignedOut(target) => (target, SignInChange::SignedOut, ""),
    };
    let context = SignInContext { server: &target.server, account: target.account.as_deref(), why };
    observer.bus().emit(Event::SignIn(&context, change));
}

fn secrets_key(target: &LoginTarget) -> String {
    format!("{}\n{}", target.server, target.account.as_deref().unwrap_or_default())
}

/// The headers of an entry plus the token of its login.
pub(crate) struct LoginCredentials {
    pub(crate) headers: StaticHeaders,
    pub(crate) login: Arc<OAuthLogin>,
}

impl Credentials for LoginCredentials {
    fn authorization(&self) -> BoxFuture<'_, HeaderMap> {
        Box::pin(async {
            let mut all = self.headers.authorization().await;
            all.extend(self.login.authorization().await);
            all
        })
    }

    fn on_challenge(&self, challenge: Challenge) -> BoxFuture<'_, RetryDecision> {
        self.login.on_challenge(challenge)
    }

    fn secrets(&self) -> Vec<String> {
        let mut all = self.headers.secrets();
        all.extend(self.login.secrets());
        all
    }

    fn is_token_required(&self) -> bool {
        self.login.is_token_required()
    }
}
