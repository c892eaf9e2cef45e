//! Logins that wait for somebody to agree.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sha2::{Digest, Sha256};
use tokio::sync::{Mutex, watch};
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::login::begun::{Attempt, PATIENCE};
use crate::login::callback::Callback;
use crate::login::place::{Failure, Told};
use crate::login::record::Token;
use crate::login::sign_in::Login;
use crate::login::token::{self, Granted};

/// How often one looks whether somebody has signed in some other way.
const LOOK: Duration = Duration::from_secs(1);
const AGAIN: &str = "sign in again";

/// A login that waits for somebody to agree, as all see it who may hear of that.
pub(crate) struct Waiting {
    login: Arc<Login>,
    attempt: Attempt,
    /// Held by whoever exchanges the code.
    turn: Mutex<()>,
    outcome: watch::Sender<Option<Result<(), Failure>>>,
    ended: CancellationToken,
    deadline: Instant,
    /// `true` if others can take the answer, too.
    is_kept: AtomicBool,
}

impl Waiting {
    pub(crate) fn new(login: &Arc<Login>, attempt: Attempt) -> Arc<Self> {
        Arc::new(Self {
            login: Arc::clone(login),
            attempt,
            turn: Mutex::default(),
            outcome: watch::Sender::default(),
            ended: CancellationToken::new(),
            deadline: Instant::now() + PATIENCE,
            is_kept: AtomicBool::default(),
        })
    }

    /// Ends the wait well when somebody has signed in some other way, in this process or another.
    pub(crate) fn watch_others(self: &Arc<Self>) {
        let own = Arc::downgrade(self);
        self.spawn_until_ended(async move {
            loop {
                sleep(LOOK).await;
                let Some(own) = own.upgrade() else { return };
                let record = own.login.reload().await;
                if record.is_some_and(|it| it.token.is_some() && it.login != own.attempt.before) {
                    return own.finish(Ok(()));
                }
            }
        });
    }

    /// Lets others take the answer, too, where they share the store.
    pub(crate) async fn keep(&self) {
        let is_kept = self.login.shared.begin(&self.attempt).await;
        self.is_kept.store(is_kept, Ordering::Relaxed);
    }

    /// Returns `true` if others could have taken the answer.
    pub(crate) fn is_kept(&self) -> bool {
        self.is_kept.load(Ordering::Relaxed)
    }

    pub(crate) fn login(&self) -> &Arc<Login> {
        &self.login
    }

    pub(crate) fn attempt(&self) -> &Attempt {
        &self.attempt
    }

    /// Runs something that is to be done even when nobody waits any more.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.login.shared.spawn_token(work);
    }

    /// Runs something for as long as the login is waited for.
    pub(crate) fn spawn_until_ended(&self, work: impl Future<Output = ()> + Send + 'static) {
        let ended = self.ended.clone();
        self.login.shared.spawn(async move {
            ended.run_until_cancelled(work).await;
        });
    }

    /// The outcome of `work`, unless the login is not waited for any more.
    pub(crate) async fn until_ended<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        self.ended.run_until_cancelled(work).await
    }

    /// Ends the wait.
    pub(crate) fn end(&self) {
        self.ended.cancel();
    }

    /// Returns `true` if this is the answer to this attempt, whatever it says.
    pub(crate) fn is_for(&self, callback: &Callback) -> bool {
        // How long it takes says nothing of how much of it is right.
        Sha256::digest(&callback.state) == Sha256::digest(&self.attempt.state)
    }

    /// Takes the answer that a browser came back with. It counts once.
    pub(crate) async fn take(self: &Arc<Self>, callback: Callback) -> Result<(), Failure> {
        if !self.is_for(&callback) {
            return Err(Failure::new("that is the answer to another sign-in", AGAIN));
        }
        let _turn = self.turn.lock().await;
        if self.outcome.borrow().is_some() || self.ended.is_cancelled() {
            return Err(Failure::new("that sign-in is over", AGAIN));
        }
        // What has begun goes on when the browser, or who pasted, has left.
        let own = Arc::clone(self);
        self.spawn(async move {
            let outcome = own.exchange(callback).await;
            own.finish(outcome);
        });
        self.outcome().await
    }

    /// Gets a token for the code.
    async fn exchange(&self, callback: Callback) -> Result<(), Failure> {
        let Attempt { verifier, record, resource, .. } = &self.attempt;
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
        let granted = token::ask(http, endpoint, &record.client, None, fields).await;
        match granted {
            Ok(granted) => self.got(granted).await,
            Err(refusal) => {
                let hint = "sign in again; if that does not help, ask whoever runs the server";
                Err(Failure::new(format!("no token was given: {refusal}"), hint))
            }
        }
    }

    /// Keeps what was granted, and tells it.
    pub(crate) async fn got(&self, granted: Granted) -> Result<(), Failure> {
        let mut record = self.attempt.record.clone();
        record.scopes = granted.scopes(&self.attempt.asked);
        record.wanted.clear();
        let mut login = [0; 8];
        getrandom::fill(&mut login)
            .map_err(|error| Failure::new(format!("no random numbers: {error}"), AGAIN))?;
        record.login = u64::from_le_bytes(login);
        record.token = Some(Token::new(granted.access_token, granted.expires_in));
        record.refresh_token = granted.refresh_token;
        // Whoever renews the old token is waited for, so that it does not come in the place of the new one.
        let _guard = self.login.shared.lock(&self.login.key).await;
        self.login.keep(record).await;
        self.login.want_nothing();
        self.login.shared.tell(Told::SignedIn(&self.login.place));
        Ok(())
    }

    /// Says how it came out.
    pub(crate) fn finish(&self, outcome: Result<(), Failure>) {
        self.outcome.send_if_modified(|known| {
            let is_first = known.is_none();
            known.get_or_insert(outcome);
            is_first
        });
    }

    /// Waits until it has come out, for 5 min at most.
    pub(crate) async fn outcome(&self) -> Result<(), Failure> {
        let mut outcome = self.outcome.subscribe();
        let done = timeout_at(self.deadline, outcome.wait_for(Option::is_some)).await;
        let done = done.ok().and_then(|done| done.ok().and_then(|done| done.clone()));
        done.unwrap_or_else(|| {
            self.end();
            Err(Failure::new("nobody has agreed within 5 minutes", AGAIN))
        })
    }
}

/// A login that waits for somebody to agree in a browser. When it is dropped, it is not waited for any more.
pub struct Pending {
    waiting: Arc<Waiting>,
    address: Url,
    code: Option<String>,
}

impl Pending {
    pub(crate) fn new(waiting: Arc<Waiting>, address: Url, code: Option<String>) -> Self {
        Self { waiting, address, code }
    }

    pub(crate) fn waiting(&self) -> &Arc<Waiting> {
        &self.waiting
    }

    /// The address to open.
    pub fn address(&self) -> &Url {
        &self.address
    }

    /// The code to type there, for [`Grant::Device`](crate::settings::Grant::Device) alone.
    pub fn code(&self) -> Option<&str> {
        self.code.as_deref()
    }

    /// Takes the address that a browser was sent back to, as its user has copied it. One that is refused does not end
    /// the wait, unless it is the answer and says that nobody has agreed.
    ///
    /// # Errors
    ///
    /// When it is not the answer to this login, or no token is given for it.
    pub async fn pasted(&self, address: &str) -> Result<(), Failure> {
        let hint = "copy the whole address out of the browser, beginning with `http`";
        let address = Url::parse(address.trim())
            .map_err(|error| Failure::new(format!("that is no address: {error}"), hint))?;
        let callback = Callback::read(&address).ok_or_else(|| {
            Failure::new("that is not the address that the browser was sent to", hint)
        })?;
        self.waiting.take(callback).await
    }

    /// Returns `true` if it has come out, or is not waited for any more.
    pub fn is_over(&self) -> bool {
        let Waiting { outcome, ended, deadline, .. } = &*self.waiting;
        outcome.borrow().is_some() || ended.is_cancelled() || Instant::now() >= *deadline
    }

    /// Waits until it is done, for 5 min after it began at most; somebody may also sign in some other way, such as
    /// by `auth login` in a terminal. Addresses may be [pasted](Self::pasted) meanwhile.
    ///
    /// # Errors
    ///
    /// When nobody has agreed in time, or no token was given.
    pub async fn done(&self) -> Result<(), Failure> {
        self.waiting.outcome().await
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.waiting.end();
    }
}
