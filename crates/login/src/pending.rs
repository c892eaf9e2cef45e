//! Sign-ins that wait for the user.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sha2::{Digest, Sha256};
use tokio::sync::{Mutex, watch};
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::attempt_record::{AttemptRecord, TIMEOUT};
use crate::callback::Callback;
use crate::login_state::LoginState;
use crate::record::{LoginRecord, Token};
use crate::target::{LoginError, LoginEvent};
use crate::token::{self, TokenResponse};

/// How often to check whether another process has signed in.
const LOOK: Duration = Duration::from_secs(1);
const AGAIN: &str = "sign in again";

/// Shared state of a pending login: polled by `PendingLogin`, completed by the listener or process
/// that gets the callback.
pub(crate) struct LoginAttempt {
    login: Arc<LoginState>,
    attempt: AttemptRecord,
    /// Held while the code is exchanged.
    turn: Mutex<()>,
    outcome: watch::Sender<Option<Result<(), LoginError>>>,
    ended: CancellationToken,
    deadline: Instant,
    /// `true` if other processes can complete the attempt.
    is_kept: AtomicBool,
}

impl LoginAttempt {
    pub(crate) fn new(login: &Arc<LoginState>, attempt: AttemptRecord) -> Arc<Self> {
        Arc::new(Self {
            login: Arc::clone(login),
            attempt,
            turn: Mutex::default(),
            outcome: watch::Sender::default(),
            ended: CancellationToken::new(),
            deadline: Instant::now() + TIMEOUT,
            is_kept: AtomicBool::default(),
        })
    }

    /// Completes the attempt when any other sign-in for the target succeeds, in this process or
    /// another.
    pub(crate) fn watch_others(self: &Arc<Self>) {
        let own = Arc::downgrade(self);
        self.spawn_until_ended(async move {
            loop {
                sleep(LOOK).await;
                let Some(own) = own.upgrade() else { return };
                let record = own.login.reload().await;
                if record.is_some_and(|it| it.token.is_some() && it.epoch != own.attempt.before) {
                    return own.finish(Ok(()));
                }
            }
        });
    }

    /// Lets other processes complete the attempt, if the store is shared.
    pub(crate) async fn share(&self) {
        let is_kept = self.login.shared.begin(&self.attempt).await;
        self.is_kept.store(is_kept, Ordering::Relaxed);
    }

    pub(crate) fn is_shared(&self) -> bool {
        self.is_kept.load(Ordering::Relaxed)
    }

    pub(crate) fn login(&self) -> &Arc<LoginState> {
        &self.login
    }

    pub(crate) fn attempt(&self) -> &AttemptRecord {
        &self.attempt
    }

    /// Spawns work that continues after the waiter has gone.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.login.shared.spawn_critical(work);
    }

    /// Spawns work that is canceled when the attempt ends.
    pub(crate) fn spawn_until_ended(&self, work: impl Future<Output = ()> + Send + 'static) {
        let ended = self.ended.clone();
        self.login.shared.spawn(async move {
            ended.run_until_cancelled(work).await;
        });
    }

    /// Returns `None` if the attempt ends before `work`.
    pub(crate) async fn until_ended<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        self.ended.run_until_cancelled(work).await
    }

    pub(crate) fn end(&self) {
        self.ended.cancel();
    }

    /// Returns `true` if the callback has the `state` of this attempt and arrived at its redirect
    /// URI, even if it is an error.
    pub(crate) fn is_for(&self, callback: &Callback) -> bool {
        let LoginRecord { client, authority, .. } = &self.attempt.record;
        // Compare digests, so that timing reveals nothing about the `state`.
        Sha256::digest(&callback.state) == Sha256::digest(&self.attempt.state)
            && callback.is_at(client.redirect_uri.as_ref(), &authority.issuer)
    }

    /// Exchanges the code of a callback. Only the first callback is accepted.
    pub(crate) async fn take(self: &Arc<Self>, callback: Callback) -> Result<(), LoginError> {
        if !self.is_for(&callback) {
            return Err(LoginError::new("this response belongs to another sign-in", AGAIN));
        }
        let _turn = self.turn.lock().await;
        if self.outcome.borrow().is_some() || self.ended.is_cancelled() {
            return Err(LoginError::new("this sign-in has already ended", AGAIN));
        }
        // The code is spent once sent, so go on even if the browser or the caller has gone.
        let own = Arc::clone(self);
        self.spawn(async move {
            let outcome = own.exchange(callback).await;
            own.finish(outcome);
        });
        self.outcome().await
    }

    async fn exchange(&self, callback: Callback) -> Result<(), LoginError> {
        let AttemptRecord { verifier, record, resource, .. } = &self.attempt;
        let authority = &record.authority;
        let code = callback.code(&authority.issuer, authority.sends_issuer)?;
        let mut fields = vec![
            ("grant_type", "authorization_code"),
            ("code", code.as_str()),
            ("code_verifier", verifier.as_str()),
        ];
        fields
            .extend(record.client.redirect_uri.as_ref().map(|uri| ("redirect_uri", uri.as_str())));
        fields.extend(resource.as_deref().map(|resource| ("resource", resource)));
        let (http, endpoint) = (self.login.http(), &authority.token_endpoint);
        let granted = token::request_token(http, endpoint, &record.client, None, fields).await;
        match granted {
            Ok(granted) => self.store_tokens(granted).await,
            Err(refusal) => {
                let hint = "sign in again; if that does not help, ask the server's operator";
                Err(LoginError::new(format!("no token was issued: {refusal}"), hint))
            }
        }
    }

    /// Stores the tokens and reports the sign-in.
    pub(crate) async fn store_tokens(&self, granted: TokenResponse) -> Result<(), LoginError> {
        self.login.learn(granted.secrets());
        let mut record = self.attempt.record.clone();
        record.scopes = granted.scopes(&self.attempt.asked, self.login.target.oauth.max_scopes());
        record.missing_scopes.clear();
        let mut login = [0; 8];
        getrandom::fill(&mut login).map_err(|error| {
            LoginError::new(format!("no random numbers available: {error}"), AGAIN)
        })?;
        record.epoch = u64::from_le_bytes(login);
        record.token = Some(Token::new(granted.access_token, granted.expires_in));
        record.refresh_token = granted.refresh_token;
        // Wait for a renewal in flight, which would otherwise overwrite the new token.
        let _guard = self.login.shared.lock(&self.login.key).await;
        self.login.save(record).await;
        self.login.clear_sign_in_required();
        self.login.shared.tell(LoginEvent::SignedIn(&self.login.target));
        Ok(())
    }

    /// Sets the outcome. Only the first one counts.
    pub(crate) fn finish(&self, outcome: Result<(), LoginError>) {
        self.outcome.send_if_modified(|known| {
            let is_first = known.is_none();
            known.get_or_insert(outcome);
            is_first
        });
    }

    /// Waits for the outcome, for at most 5 min after the start.
    pub(crate) async fn outcome(&self) -> Result<(), LoginError> {
        let mut outcome = self.outcome.subscribe();
        let done = timeout_at(self.deadline, outcome.wait_for(Option::is_some)).await;
        let done = done.ok().and_then(|done| done.ok().and_then(|done| done.clone()));
        done.unwrap_or_else(|| {
            self.end();
            Err(LoginError::new("the sign-in was not completed within 5 minutes", AGAIN))
        })
    }
}

/// A sign-in that waits for the user. Dropping it cancels the attempt.
pub struct PendingLogin {
    waiting: Arc<LoginAttempt>,
    address: Url,
    code: Option<String>,
}

impl PendingLogin {
    pub(crate) fn new(waiting: Arc<LoginAttempt>, address: Url, code: Option<String>) -> Self {
        Self { waiting, address, code }
    }

    pub(crate) fn waiting(&self) -> &Arc<LoginAttempt> {
        &self.waiting
    }

    /// The URL to open in a browser.
    pub fn address(&self) -> &Url {
        &self.address
    }

    /// The code to enter there. Only for
    /// [`GrantType::DeviceCode`](mcp_workbench_settings::GrantType::DeviceCode).
    pub fn user_code(&self) -> Option<&str> {
        self.code.as_deref()
    }

    /// Submits the URL that the browser was redirected to, as copied by the user. A rejected URL
    /// doesn't end the attempt, unless it is the authorization response and reports an error.
    ///
    /// # Errors
    ///
    /// Returns an error if the URL belongs to another attempt, or the authorization server issues
    /// no token.
    pub async fn submit_callback_url(&self, address: &str) -> Result<(), LoginError> {
        let hint = "copy the complete URL from the browser, starting with `http`";
        let address = Url::parse(address.trim())
            .map_err(|error| LoginError::new(format!("invalid URL: {error}"), hint))?;
        let callback = Callback::read(&address).ok_or_else(|| {
            LoginError::new("not the URL that the browser was redirected to", hint)
        })?;
        self.waiting.take(callback).await
    }

    /// Returns `true` if the attempt has an outcome, was canceled or has expired.
    pub fn is_over(&self) -> bool {
        let LoginAttempt { outcome, ended, deadline, .. } = &*self.waiting;
        outcome.borrow().is_some() || ended.is_cancelled() || Instant::now() >= *deadline
    }

    /// Waits for the sign-in, for at most 5 min after the start. It also succeeds if the user signs
    /// in another way, such as with `auth login` in a terminal. During the wait,
    /// [`submit_callback_url`](Self::submit_callback_url) can be called.
    ///
    /// # Errors
    ///
    /// Returns an error if the user doesn't agree in time, or the authorization server issues no
    /// token.
    pub async fn done(&self) -> Result<(), LoginError> {
        self.waiting.outcome().await
    }
}

impl Drop for PendingLogin {
    fn drop(&mut self) {
        self.waiting.end();
    }
}
