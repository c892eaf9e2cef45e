//! OAuth client for servers over HTTP: discovery, token requests, storage and renewal.
//!
//! [`LoginRegistry`] holds the logins of a process. Each [`LoginTarget`] that requires a login has
//! an [`OAuthLogin`], which provides the credentials of connections to the server. An interactive
//! sign-in runs as a [`PendingLogin`], regardless of whether the command line, an agent or the
//! dashboard started it.
//!
//! *Theory of operation.* A target has one record (`record`), found under a deterministic key
//! (`store`), with everything needed to use and renew its token. A sign-in begins with `discovery`,
//! a client (`client_registration`) and an authorization URL (`begin`) or a `device` code. It ends
//! with a `callback`, which comes from a `listener`, from the user's clipboard or from another
//! process that loaded the attempt (`attempt_record`, `pending`). Afterwards `credentials` adds the
//! token to requests, and `renewal` renews it single-flight. All requests go through `http`, token
//! requests through `token`. A target with an `exchange` is different: its token comes from the
//! token of the caller (`caller_tokens`), exists only in memory, and needs no sign-in.

mod address_policy;
mod assertion;
mod attempt;
mod attempt_record;
mod begin;
mod callback;
mod caller_tokens;
mod client_registration;
mod context;
mod credentials;
mod device;
mod discovery;
mod exchange;
mod http;
mod issuer;
mod listener;
mod login_state;
mod metadata;
mod non_interactive;
mod page;
mod pending;
mod pkce;
mod record;
mod renewal;
mod revocation;
mod scopes;
mod store;
mod target;
mod token;

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio_util::task::TaskTracker;
use url::Url;

use crate::attempt_record::AttemptRecord;
use crate::callback::{Callback, UNEXPECTED_CALLBACK};
use crate::context::LoginContext;
use crate::login_state::{LoginState, RenewalOutcome};
use crate::pending::LoginAttempt;
use crate::record::LoginRecord;
use crate::renewal::renew;
use mcp_workbench_settings::OAuthConfig;
use mcp_workbench_wire::http_client::{BoxFuture, Challenge, Credentials, RetryDecision};

pub use crate::page::{PAGE_HEADERS, Page};
pub use crate::pending::PendingLogin;
pub use crate::store::{Keyring, LoginStore, RecordLockGuard, StorageBackend, SwitchableStore};
pub use crate::target::{
    LoginError, LoginEvent, LoginLimit, LoginStorage, LoginTarget, RedirectTarget, SignInStatus,
};

/// The logins of this process.
pub struct LoginRegistry {
    shared: Arc<LoginContext>,
    at: Mutex<HashMap<LoginTarget, Weak<OAuthLogin>>>,
    /// Attempts with a `RedirectTarget::External`.
    waiting: Arc<Mutex<Vec<Weak<LoginAttempt>>>>,
}

impl LoginRegistry {
    /// Creates a registry. Background work runs on `tasks`; events are passed to `told`.
    pub fn new(
        storage: LoginStorage,
        tasks: TaskTracker,
        event: impl Fn(LoginEvent<'_>) + Send + Sync + 'static,
    ) -> Arc<Self> {
        let shared = Arc::new(LoginContext::new(storage, tasks, Box::new(event)));
        Arc::new(Self { shared, at: Mutex::default(), waiting: Arc::default() })
    }

    /// Returns the login for `target`. Equal targets share one instance while it is in use.
    pub fn get_or_create(self: &Arc<Self>, target: LoginTarget) -> Arc<OAuthLogin> {
        let mut all = self.at.lock();
        if let Some(known) = all.get(&target).and_then(Weak::upgrade) {
            return known;
        }
        all.retain(|_, login| login.strong_count() > 0);
        let login = Arc::new(LoginState::new(Arc::clone(&self.shared), target.clone()));
        let sign_in = Arc::new(OAuthLogin { login, waiting: Arc::clone(&self.waiting) });
        all.insert(target, Arc::downgrade(&sign_in));
        sign_in
    }

    /// Returns all stored logins with their status. The `oauth` of the targets is left empty,
    /// because the store doesn't contain it.
    ///
    /// # Errors
    ///
    /// Returns an error if the store can't be read.
    pub async fn all(&self) -> Result<Vec<(LoginTarget, SignInStatus)>, LoginError> {
        let records = self.shared.all().await?;
        let all = records.into_iter().map(|record| {
            let standing = login_state::standing_of(&record);
            let (server, url, account) = (record.server, record.url, record.account);
            (LoginTarget { server, url, account, oauth: OAuthConfig::default() }, standing)
        });
        Ok(all.collect())
    }

    /// Passes the URL of a callback, with its path, to the login with its `state`, and returns the target that is
    /// signed in afterwards. Each `state` is accepted once, and only for
    /// [`RedirectTarget::External`].
    ///
    /// # Errors
    ///
    /// Returns an error if no login is pending for the `state`, or the authorization server issues
    /// no token.
    pub async fn complete_callback(&self, address: &Url) -> Result<LoginTarget, LoginError> {
        let stranger = || LoginError::new(UNEXPECTED_CALLBACK, "sign in again");
        let callback = Callback::read(address).ok_or_else(stranger)?;
        let waiting = {
            let waiting = self.waiting.lock();
            let mut waiting = waiting.iter().filter_map(Weak::upgrade);
            waiting.find(|waiting| waiting.is_for(&callback))
        };
        let kept = self.shared.take_attempt(&callback.state).await;
        let waiting = match (waiting, kept) {
            // Another process has taken the attempt.
            (Some(waiting), Ok(None)) if waiting.is_shared() => return Err(stranger()),
            (Some(waiting), _) => waiting,
            (None, Ok(Some(attempt))) => self.taken_over(attempt),
            (None, _) => return Err(stranger()),
        };
        waiting.take(callback).await?;
        Ok(waiting.login().target.clone())
    }

    fn taken_over(&self, attempt: AttemptRecord) -> Arc<LoginAttempt> {
        let LoginRecord { server, url, account, .. } = &attempt.record;
        let all = self.at.lock();
        let here = all.iter().find_map(|(target, sign_in)| {
            let is_it = (&target.server, &target.url, &target.account) == (server, url, account);
            sign_in.upgrade().filter(|_| is_it)
        });
        drop(all);
        let login = here.map_or_else(
            || {
                let (server, url, account) = (server.clone(), url.clone(), account.clone());
                let target = LoginTarget { server, url, account, oauth: OAuthConfig::default() };
                Arc::new(LoginState::new(Arc::clone(&self.shared), target))
            },
            |here| Arc::clone(&here.login),
        );
        LoginAttempt::new(&login, attempt)
    }

    /// Like [`Self::complete_callback`], but returns the page to show in the browser. The page
    /// contains no code, token or `state`.
    pub async fn page_for(&self, address: &Url) -> Page {
        match self.complete_callback(address).await {
            Ok(target) => Page::signed_in_at(&target),
            Err(mut failure) => {
                // The error of an authorization server can echo the code or the `state`.
                for (name, value) in address.query_pairs() {
                    if matches!(name.as_ref(), "code" | "state") && !value.is_empty() {
                        failure.reason = failure.reason.replace(value.as_ref(), "\u{2026}");
                    }
                }
                Page::failed(&failure)
            }
        }
    }

    /// Takes a verified token of a caller, to be exchanged for tokens of servers until `expires` (in
    /// seconds since the Unix epoch). It replaces the caller's former token. `audience` holds the
    /// audiences that this program accepts, which no exchanged token may have.
    pub fn present_token(&self, caller: &str, token: &str, expires: u64, audience: &[String]) {
        let presented = self.shared.callers.present(caller, token, expires, audience);
        if presented.is_new {
            for login in self.exchanges().filter(|login| login.is_of(caller)) {
                login.allow_retry();
            }
        }
        if presented.has_dropped {
            for login in self.exchanges().filter(|login| !self.shared.callers.has(login.account()))
            {
                login.forget();
            }
        }
    }

    /// Drops the tokens of all callers, and those exchanged for them.
    pub fn forget_callers(&self) {
        self.shared.callers.clear();
        self.exchanges().for_each(|login| login.forget());
    }

    fn exchanges(&self) -> impl Iterator<Item = Arc<LoginState>> + use<> {
        let all = self.at.lock();
        let all: Vec<_> = all.values().filter_map(Weak::upgrade).collect();
        all.into_iter().map(|one| Arc::clone(&one.login)).filter(|login| login.is_exchange())
    }

    /// Waits up to 5 s for token requests in flight, so that no renewed token is lost.
    pub async fn close(&self) {
        self.shared.close().await;
    }
}

/// The login at one target, and the credentials for connections to its server.
pub struct OAuthLogin {
    login: Arc<LoginState>,
    waiting: Arc<Mutex<Vec<Weak<LoginAttempt>>>>,
}

impl OAuthLogin {
    pub fn target(&self) -> &LoginTarget {
        &self.login.target
    }

    /// Returns the status according to the store. Doesn't contact the server.
    pub async fn status(&self) -> SignInStatus {
        self.login.standing().await
    }

    /// Returns `true` if the server has required a sign-in that hasn't happened yet.
    pub fn is_sign_in_required(&self) -> bool {
        self.login.is_wanted()
    }

    /// Returns `true` if the server has demanded more scopes than its limits allow since the last
    /// sign-in.
    pub fn demands_too_many_scopes(&self) -> bool {
        self.login.has_reached(LoginLimit::Scopes)
    }

    /// Returns why a non-interactive grant has no token. `None` for interactive grants, or if there
    /// is a token.
    pub fn why_no_token(&self) -> Option<String> {
        self.login.why_wanted().filter(|_| self.login.is_non_interactive())
    }

    /// Returns why the last attempt to get a token failed, until the next attempt can start. `None`
    /// if the user has to act.
    pub fn failed_renewal(&self) -> Option<String> {
        match self.login.backoff_outcome()? {
            RenewalOutcome::Transient(why) => Some(why),
            RenewalOutcome::Fresh | RenewalOutcome::SignInRequired(_) => None,
        }
    }

    /// Returns why the caller's token could not be exchanged, or the server rejects the exchanged
    /// one. `None` for other logins.
    pub fn exchange_failure(&self) -> Option<LoginError> {
        self.login.exchange_failure()
    }

    /// Starts a login. Probes the server first if its challenge isn't known yet.
    ///
    /// # Errors
    ///
    /// Returns an error if the server doesn't require a login, or discovery fails.
    pub async fn begin(self: &Arc<Self>, back: RedirectTarget) -> Result<PendingLogin, LoginError> {
        let is_elsewhere = matches!(back, RedirectTarget::External(_));
        let pending = begin::begin(&self.login, back).await?;
        if !is_elsewhere {
            return Ok(pending);
        }
        pending.waiting().share().await;
        let mut waiting = self.waiting.lock();
        waiting.retain(|waiting| waiting.strong_count() > 0);
        waiting.push(Arc::downgrade(pending.waiting()));
        Ok(pending)
    }

    /// Obtains a token with a non-interactive grant, or renews it.
    ///
    /// # Errors
    ///
    /// Returns an error if the grant is interactive, or the authorization server issues no token.
    pub async fn fetch_token(self: &Arc<Self>) -> Result<(), LoginError> {
        if !self.login.is_non_interactive() {
            let hint = format!("run `mcp-workbench auth login {}`", self.login.target.server);
            return Err(LoginError::new("this server requires an interactive sign-in", hint));
        }
        let token = self.login.reload().await.and_then(|record| record.token.clone());
        let stale = token.filter(record::Token::is_ending).map(|token| token.value);
        match renew(&self.login, stale.as_deref()).await {
            RenewalOutcome::Fresh => Ok(()),
            RenewalOutcome::SignInRequired(why) => {
                Err(LoginError::new(why, "check `oauth` in the server's entry"))
            }
            RenewalOutcome::Transient(why) => Err(LoginError::new(why, "try again later")),
        }
    }

    /// Waits until the status is `SignInStatus::SignedIn`, through this process or another.
    pub async fn wait_signed_in(&self) {
        self.login.signed_in().await;
    }

    /// Deletes the login and revokes its tokens if the authorization server supports it (RFC 7009).
    /// Returns `true` if there was a login.
    ///
    /// # Errors
    ///
    /// Returns an error if the record can't be deleted. A failed revocation isn't an error.
    pub async fn sign_out(&self) -> Result<bool, LoginError> {
        revocation::sign_out(&self.login).await
    }
}

impl Credentials for OAuthLogin {
    fn authorization(&self) -> BoxFuture<'_, reqwest::header::HeaderMap> {
        Box::pin(credentials::headers(&self.login))
    }

    fn on_challenge(&self, challenge: Challenge) -> BoxFuture<'_, RetryDecision> {
        Box::pin(credentials::handle_challenge(&self.login, challenge))
    }

    fn secrets(&self) -> Vec<String> {
        self.login.secrets()
    }

    fn is_token_required(&self) -> bool {
        self.login.is_exchange()
    }
}

#[cfg(test)]
mod tests;
