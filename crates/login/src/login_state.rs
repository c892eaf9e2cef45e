//! The in-memory state of one login.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use sha2::{Digest, Sha256};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use crate::context::LoginContext;
use crate::http::AuthHttpClient;
use crate::record::LoginRecord;
use crate::scopes;
use crate::target::{LoginError, LoginEvent, LoginLimit, LoginTarget, SignInStatus};
use mcp_workbench_settings::GrantType;

/// How often to check whether another process has signed in.
const LOOK: Duration = Duration::from_secs(1);
/// How many expired secrets are still redacted.
const SPENT: usize = 16;
/// How often a sign-in for the same scopes is required.
const MAX_STEP_UPS: u32 = 3;
/// How many different sets of scopes a server can demand until the next sign-in.
const MAX_SCOPE_SETS: usize = 64;
/// After how many failed exchanges in a row a new token of the caller no longer ends the backoff.
const MAX_FAILURES: u32 = 3;
/// Maximum length of a challenge, in bytes.
const MAX_CHALLENGE: usize = 16 * 1024;

pub(crate) struct LoginState {
    pub(crate) shared: Arc<LoginContext>,
    pub(crate) target: LoginTarget,
    pub(crate) key: String,
    http: OnceLock<Arc<AuthHttpClient>>,
    state: Mutex<State>,
    changed: watch::Sender<()>,
}

#[derive(Default)]
struct State {
    record: Option<Arc<LoginRecord>>,
    is_read: bool,
    /// The last `WWW-Authenticate` of the server.
    challenge: Option<String>,
    wanted: Option<SignInRequest>,
    /// How often each set of scopes was demanded since the last sign-in, by digest.
    steps: HashMap<[u8; 32], u32>,
    /// Whether each of the limits was reported since the last sign-in.
    reported: Vec<LoginLimit>,
    /// Former secrets, which servers can still mention in messages.
    spent: VecDeque<String>,
    renewal: Option<watch::Receiver<Option<RenewalOutcome>>>,
    /// Backoff after a failed renewal: its end, and the outcome until then.
    quiet: Option<(Instant, RenewalOutcome)>,
    /// Failed exchanges in a row.
    failures: u32,
    exchange_failure: Option<LoginError>,
}

struct SignInRequest {
    why: String,
    /// Login epoch and token that led to the request. A change of either ends it.
    login: u64,
    token: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RenewalOutcome {
    /// There is a usable token other than the rejected one.
    Fresh,
    /// The user has to act.
    SignInRequired(String),
    /// A retry can succeed.
    Transient(String),
}

impl LoginState {
    pub(crate) fn new(shared: Arc<LoginContext>, target: LoginTarget) -> Self {
        let key = target.key();
        Self {
            shared,
            target,
            key,
            http: OnceLock::new(),
            state: Mutex::default(),
            changed: watch::Sender::default(),
        }
    }

    pub(crate) fn http(&self) -> &Arc<AuthHttpClient> {
        self.http.get_or_init(|| match self.target.oauth.exchange() {
            // The configuration names the issuer, so its own URL determines the address policy.
            Some(exchange) => Arc::clone(&self.shared.issuers.get(&exchange.issuer).http),
            None => Arc::new(AuthHttpClient::new(&self.target.url)),
        })
    }

    /// Returns `true` if the token was exchanged for the caller's, and is only in memory.
    pub(crate) fn is_exchange(&self) -> bool {
        self.target.oauth.exchange().is_some()
    }

    pub(crate) fn account(&self) -> &str {
        self.target.account.as_deref().unwrap_or_default()
    }

    pub(crate) fn is_of(&self, caller: &str) -> bool {
        self.account() == caller
    }

    /// Lets the next exchange start without a backoff, because the caller has a new token. Only
    /// after a few failures in a row, so that no caller can flood the issuer with tokens.
    pub(crate) fn allow_retry(&self) {
        let mut state = self.state();
        if state.failures <= MAX_FAILURES {
            state.quiet = None;
        }
    }

    /// Drops the exchanged token.
    pub(crate) fn forget(&self) {
        self.adopt(None);
        self.state().spent.clear();
        self.shared.tell(LoginEvent::SecretsDropped(&self.target));
    }

    pub(crate) fn note_exchange(&self, failure: Option<LoginError>) {
        let mut state = self.state();
        state.failures = if failure.is_some() { state.failures.saturating_add(1) } else { 0 };
        state.exchange_failure = failure;
    }

    /// Notes why the server rejects the exchanged token, which isn't a failed exchange.
    pub(crate) fn note_rejection(&self, failure: LoginError) {
        self.state().exchange_failure = Some(failure);
    }

    pub(crate) fn exchange_failure(&self) -> Option<LoginError> {
        self.state().exchange_failure.clone()
    }

    /// Returns `true` if the grant needs no user.
    pub(crate) fn is_non_interactive(&self) -> bool {
        !matches!(self.target.oauth.grant, GrantType::AuthorizationCode | GrantType::DeviceCode)
    }

    pub(crate) fn cached_record(&self) -> Option<Arc<LoginRecord>> {
        self.state().record.clone()
    }

    /// Reloads the record. If the store is unavailable, returns the cached one.
    pub(crate) async fn reload(&self) -> Option<Arc<LoginRecord>> {
        if let Ok(record) = self.try_reload().await {
            return record;
        }
        let known = self.cached_record();
        if known.is_none() {
            let last = self.shared.last(&self.key).filter(|record| self.is_mine(record))?;
            self.adopt(Some(Arc::new(last)));
        }
        self.cached_record()
    }

    /// Reloads the record, without falling back to a cached one.
    pub(crate) async fn try_reload(&self) -> io::Result<Option<Arc<LoginRecord>>> {
        if self.is_exchange() {
            return Ok(self.cached_record());
        }
        let record = self.shared.load(&self.key).await?;
        let record = record.filter(|record| self.is_mine(record)).map(Arc::new);
        self.adopt(record.clone());
        Ok(record)
    }

    /// Returns `true` if the record belongs to this target and, for non-interactive grants, to its
    /// client.
    fn is_mine(&self, record: &LoginRecord) -> bool {
        let LoginTarget { server, url, account, oauth } = &self.target;
        let client = oauth.client_id.as_deref().unwrap_or_default();
        (&record.server, &record.url, &record.account) == (server, url, account)
            && (!self.is_non_interactive() || record.client.id == client)
    }

    /// Stores a record, and then uses it.
    pub(crate) async fn save(&self, record: LoginRecord) {
        if !self.is_exchange() {
            self.shared.save(&self.key, &record).await;
        }
        self.adopt(Some(Arc::new(record)));
    }

    /// Replaces the cached record.
    pub(crate) fn adopt(&self, record: Option<Arc<LoginRecord>>) {
        if let Some(record) = &record {
            self.learn(record.secrets().cloned());
        }
        let mut state = self.state();
        let before = state.record.take();
        if let Some(old) = &before {
            let new = record.as_ref();
            let is_current =
                |secret: &String| new.is_some_and(|new| new.secrets().any(|one| one == secret));
            for secret in old.secrets().filter(|secret| !is_current(secret)) {
                state.spent.push_back(secret.clone());
            }
            while state.spent.len() > SPENT {
                state.spent.pop_front();
            }
        }
        let is_over = state.wanted.as_ref().is_some_and(|wanted| {
            record.as_ref().is_some_and(|record| {
                let token = record.token.as_ref().map(|token| &token.value);
                let is_other =
                    wanted.token.is_some() && token.is_some() && token != wanted.token.as_ref();
                record.token.is_some() && (record.epoch != wanted.login || is_other)
            })
        });
        if is_over {
            state.wanted = None;
        }
        let login = |record: Option<&Arc<LoginRecord>>| record.map(|record| record.epoch);
        if login(before.as_ref()) != login(record.as_ref()) {
            state.quiet = None;
            state.steps.clear();
            state.reported.clear();
        }
        state.record = record;
        state.is_read = true;
        drop(state);
        self.changed.send_replace(());
    }

    /// Requires a sign-in. `token`: the rejected token, or `None` if only a new sign-in helps and
    /// not another token.
    pub(crate) fn require_sign_in(&self, why: &str, token: Option<&str>) {
        let mut state = self.state();
        let login = state.record.as_ref().map(|record| record.epoch).unwrap_or_default();
        let wanted = SignInRequest { why: why.to_owned(), login, token: token.map(str::to_owned) };
        let is_new = state.wanted.replace(wanted).is_none_or(|before| before.why != why);
        drop(state);
        if is_new {
            tracing::info!(server = self.target.server, why, "sign-in required");
            self.shared.tell(LoginEvent::SignInRequired(&self.target, why));
        }
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.state().wanted.is_some()
    }

    pub(crate) fn why_wanted(&self) -> Option<String> {
        self.state().wanted.as_ref().map(|wanted| wanted.why.clone())
    }

    pub(crate) fn clear_sign_in_required(&self) {
        self.state().wanted = None;
        self.changed.send_replace(());
    }

    pub(crate) fn hear(&self, challenge: String) {
        self.state().challenge = Some(bounded_challenge(challenge));
    }

    pub(crate) fn challenge(&self) -> Option<String> {
        self.state().challenge.clone()
    }

    /// Counts a demand for these scopes. Returns `false` once there were too many.
    pub(crate) fn count_step_up(&self, scopes: &[String]) -> bool {
        let mut sorted: Vec<_> = scopes.iter().collect();
        sorted.sort();
        let mut digest = Sha256::new();
        for scope in sorted {
            digest.update((scope.len() as u64).to_le_bytes());
            digest.update(scope);
        }
        let digest = digest.finalize().into();
        let mut state = self.state();
        if state.steps.len() >= MAX_SCOPE_SETS && !state.steps.contains_key(&digest) {
            return false;
        }
        let count = state.steps.entry(digest).or_default();
        *count = count.saturating_add(1);
        *count <= MAX_STEP_UPS
    }

    /// Returns `true` if the limit was reported since the last sign-in.
    pub(crate) fn has_reached(&self, limit: LoginLimit) -> bool {
        self.state().reported.contains(&limit)
    }

    /// Logs and reports a limit, once until the next sign-in.
    pub(crate) fn report_limit(&self, limit: LoginLimit, what: &str) {
        let mut state = self.state();
        if state.reported.contains(&limit) {
            return;
        }
        state.reported.push(limit);
        drop(state);
        tracing::warn!(server = self.target.server, "{what}");
        self.shared.tell(LoginEvent::LimitReached(&self.target, limit));
    }

    /// Reports secrets, before anything can repeat them.
    pub(crate) fn learn(&self, secrets: impl IntoIterator<Item = String>) {
        let secrets: Vec<_> = secrets.into_iter().collect();
        if !secrets.is_empty() {
            self.shared.tell(LoginEvent::SecretsLearned(&self.target, &secrets));
        }
    }

    /// Returns all texts to redact.
    pub(crate) fn secrets(&self) -> Vec<String> {
        let state = self.state();
        let current = state.record.iter().flat_map(|record| record.secrets());
        let configured = self.target.oauth.client_secret.iter();
        current.chain(configured).chain(&state.spent).cloned().collect()
    }

    /// Returns the status. Doesn't contact the server.
    pub(crate) async fn standing(&self) -> SignInStatus {
        if self.target.oauth.is_off {
            return SignInStatus::NotAsked;
        }
        self.reload().await;
        let state = self.state();
        if let Some(wanted) = &state.wanted {
            return SignInStatus::SignInRequired { why: wanted.why.clone() };
        }
        let Some(record) = &state.record else { return SignInStatus::NotAsked };
        if !record.missing_scopes.is_empty() {
            return SignInStatus::SignInRequired {
                why: missing_scopes_reason(&record.missing_scopes),
            };
        }
        standing_of(record)
    }

    pub(crate) async fn signed_in(&self) {
        let mut changed = self.changed.subscribe();
        loop {
            changed.mark_unchanged();
            if matches!(self.standing().await, SignInStatus::SignedIn { .. }) {
                return;
            }
            // `standing` reloads the record, which counts as a change.
            changed.mark_unchanged();
            let _ = timeout(LOOK, changed.changed()).await;
        }
    }

    /// Joins the renewal in flight, or starts one with `begin`.
    pub(crate) fn renewal(
        &self,
        begin: impl FnOnce(watch::Sender<Option<RenewalOutcome>>),
    ) -> watch::Receiver<Option<RenewalOutcome>> {
        let mut state = self.state();
        if let Some(renewal) = &state.renewal {
            return renewal.clone();
        }
        let (sender, receiver) = watch::channel(None);
        state.renewal = Some(receiver.clone());
        drop(state);
        begin(sender);
        receiver
    }

    /// Ends the renewal in flight. If it failed, no other one starts for `pause`.
    pub(crate) fn finish_renewal(&self, renewal: &RenewalOutcome, pause: Duration) {
        let mut state = self.state();
        state.renewal = None;
        state.quiet = match renewal {
            RenewalOutcome::Fresh => None,
            RenewalOutcome::SignInRequired(_) | RenewalOutcome::Transient(_) => {
                Some((Instant::now() + pause, renewal.clone()))
            }
        };
    }

    /// Returns the outcome of the last renewal during the backoff after a failure.
    pub(crate) fn backoff_outcome(&self) -> Option<RenewalOutcome> {
        let state = self.state();
        let quiet = state.quiet.as_ref().filter(|(until, _)| Instant::now() < *until);
        quiet.map(|(_, renewal)| renewal.clone())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl Drop for LoginState {
    fn drop(&mut self) {
        if self.is_exchange() {
            self.shared.tell(LoginEvent::SecretsDropped(&self.target));
        }
    }
}

/// Drops the parameters of a challenge that is too long.
pub(crate) fn bounded_challenge(challenge: String) -> String {
    if challenge.len() <= MAX_CHALLENGE { challenge } else { "Bearer".to_owned() }
}

/// The reason for a sign-in after the server has rejected the token.
pub(crate) const REFUSED: &str = "the server rejected the token";

/// Returns the status according to a record, without the state of this process.
pub(crate) fn standing_of(record: &LoginRecord) -> SignInStatus {
    match &record.token {
        Some(token) if token.is_refused => SignInStatus::SignInRequired { why: REFUSED.to_owned() },
        Some(token) if !token.has_ended() || record.refresh_token.is_some() => {
            SignInStatus::SignedIn {
                issuer: Some(record.authority.issuer.clone()),
                scopes: record.scopes.clone(),
                expires: token.expires(),
                is_renewable: record.refresh_token.is_some(),
            }
        }
        Some(_) => SignInStatus::SignInRequired { why: "the login has expired".to_owned() },
        None => SignInStatus::SignInRequired { why: "not signed in".to_owned() },
    }
}

pub(crate) fn missing_scopes_reason(scopes: &[String]) -> String {
    format!("additional scopes required: {}", scopes::shown(scopes))
}
