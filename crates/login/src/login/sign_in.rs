//! The login at one place: what is known of it now.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use crate::login::http::Http;
use crate::login::place::{Place, Standing, Told};
use crate::login::record::Record;
use crate::login::shared::Shared;
use crate::settings::Grant;

/// How often one looks whether another process has signed in.
const LOOK: Duration = Duration::from_secs(1);
/// How many secrets that are good no more are still blotted out.
const SPENT: usize = 16;
/// How often a person is asked for the same scopes.
const STEPS: u32 = 3;

/// The login at one place.
pub(crate) struct Login {
    pub(crate) shared: Arc<Shared>,
    pub(crate) place: Place,
    pub(crate) key: String,
    http: OnceLock<Arc<Http>>,
    state: Mutex<State>,
    changed: watch::Sender<()>,
}

/// All that is known of a login here.
#[derive(Default)]
struct State {
    record: Option<Arc<Record>>,
    is_read: bool,
    /// The last refusal of the server, in its words.
    challenge: Option<String>,
    wanted: Option<Wanted>,
    /// How often each set of scopes was wanted.
    steps: HashMap<Vec<String>, u32>,
    /// Secrets that were shown and are good no more; some server may still speak of them.
    spent: VecDeque<String>,
    renewal: Option<watch::Receiver<Option<Renewal>>>,
    /// Until when no token is asked for, and what is answered instead.
    quiet: Option<(Instant, Renewal)>,
}

/// A sign-in that is wanted.
struct Wanted {
    why: String,
    /// The login and the token with which it is wanted; another one puts an end to it.
    login: u64,
    token: Option<String>,
}

/// The outcome of getting a token without anybody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Renewal {
    /// There is one that is not the one that was refused.
    Fresh,
    /// Nothing but a person can help.
    Ended(String),
    /// It may be got another time.
    Trouble(String),
}

impl Login {
    pub(crate) fn new(shared: Arc<Shared>, place: Place) -> Self {
        let key = place.key();
        Self {
            shared,
            place,
            key,
            http: OnceLock::new(),
            state: Mutex::default(),
            changed: watch::Sender::default(),
        }
    }

    pub(crate) fn http(&self) -> &Arc<Http> {
        self.http.get_or_init(|| Arc::new(Http::new(&self.place.url)))
    }

    /// Returns `true` if tokens are got without anybody.
    pub(crate) fn is_machine(&self) -> bool {
        !matches!(self.place.oauth.grant, Grant::Browser | Grant::Device)
    }

    /// The record, as it was last read.
    pub(crate) fn known(&self) -> Option<Arc<Record>> {
        self.state().record.clone()
    }

    /// Reads the record again; the one that is known stays where that cannot be done.
    pub(crate) async fn reload(&self) -> Option<Arc<Record>> {
        if let Ok(record) = self.try_reload().await {
            return record;
        }
        let known = self.known();
        if known.is_none() {
            let last = self.shared.last(&self.key).filter(|record| self.is_mine(record))?;
            self.adopt(Some(Arc::new(last)));
        }
        self.known()
    }

    /// Reads the record again, for who must not go by an old one.
    pub(crate) async fn try_reload(&self) -> io::Result<Option<Arc<Record>>> {
        let record = self.shared.load(&self.key).await?;
        let record = record.filter(|record| self.is_mine(record)).map(Arc::new);
        self.adopt(record.clone());
        Ok(record)
    }

    /// Returns `true` if a record is of this place, and of the client that asks by itself where one does.
    fn is_mine(&self, record: &Record) -> bool {
        let Place { server, url, account, oauth } = &self.place;
        let client = oauth.client_id.as_deref().unwrap_or_default();
        (&record.server, &record.url, &record.account) == (server, url, account)
            && (!self.is_machine() || record.client.id == client)
    }

    /// Keeps a record, and then uses it.
    pub(crate) async fn keep(&self, record: Record) {
        self.shared.save(&self.key, &record).await;
        self.adopt(Some(Arc::new(record)));
    }

    /// Uses a record, or none.
    pub(crate) fn adopt(&self, record: Option<Arc<Record>>) {
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
                record.token.is_some() && (record.login != wanted.login || is_other)
            })
        });
        if is_over {
            state.wanted = None;
        }
        let login = |record: Option<&Arc<Record>>| record.map(|record| record.login);
        if login(before.as_ref()) != login(record.as_ref()) {
            state.quiet = None;
        }
        state.record = record;
        state.is_read = true;
        drop(state);
        self.changed.send_replace(());
    }

    /// Says that a person has to sign in, and why. `token` is the one that was refused; `None`: no other token
    /// helps but one of another login.
    pub(crate) fn want(&self, why: &str, token: Option<&str>) {
        let mut state = self.state();
        let login = state.record.as_ref().map(|record| record.login).unwrap_or_default();
        let wanted = Wanted { why: why.to_owned(), login, token: token.map(str::to_owned) };
        let is_new = state.wanted.replace(wanted).is_none_or(|before| before.why != why);
        drop(state);
        if is_new {
            tracing::info!(server = self.place.server, why, "a sign-in is wanted");
            self.shared.tell(Told::Wanted(&self.place, why));
        }
    }

    /// Returns `true` if a sign-in is wanted.
    pub(crate) fn is_wanted(&self) -> bool {
        self.state().wanted.is_some()
    }

    /// Why a sign-in is wanted, if one is.
    pub(crate) fn why_wanted(&self) -> Option<String> {
        self.state().wanted.as_ref().map(|wanted| wanted.why.clone())
    }

    /// Forgets that a sign-in is wanted.
    pub(crate) fn want_nothing(&self) {
        self.state().wanted = None;
        self.changed.send_replace(());
    }

    /// Remembers how the server refused.
    pub(crate) fn hear(&self, challenge: String) {
        self.state().challenge = Some(challenge);
    }

    pub(crate) fn challenge(&self) -> Option<String> {
        self.state().challenge.clone()
    }

    /// Counts that these scopes are wanted; `false`: they have been wanted too often already.
    pub(crate) fn steps_up(&self, scopes: &[String]) -> bool {
        let mut sorted = scopes.to_vec();
        sorted.sort();
        let mut state = self.state();
        let count = state.steps.entry(sorted).or_default();
        *count += 1;
        *count <= STEPS
    }

    /// Every text that must not be told to anybody else.
    pub(crate) fn secrets(&self) -> Vec<String> {
        let state = self.state();
        let current = state.record.iter().flat_map(|record| record.secrets());
        let configured = self.place.oauth.client_secret.iter();
        current.chain(configured).chain(&state.spent).cloned().collect()
    }

    /// How it stands, as far as is known here.
    pub(crate) async fn standing(&self) -> Standing {
        if self.place.oauth.is_off {
            return Standing::NotAsked;
        }
        self.reload().await;
        let state = self.state();
        if let Some(wanted) = &state.wanted {
            return Standing::Wanted { why: wanted.why.clone() };
        }
        let Some(record) = &state.record else { return Standing::NotAsked };
        if !record.wanted.is_empty() {
            return Standing::Wanted { why: wants_more(&record.wanted) };
        }
        standing_of(record)
    }

    /// Resolves when there is a login and nothing more is wanted.
    pub(crate) async fn signed_in(&self) {
        let mut changed = self.changed.subscribe();
        loop {
            changed.mark_unchanged();
            if matches!(self.standing().await, Standing::SignedIn { .. }) {
                return;
            }
            // `standing` has read the record, which is a change as well.
            changed.mark_unchanged();
            let _ = timeout(LOOK, changed.changed()).await;
        }
    }

    /// Joins the renewal that is under way, or begins one.
    pub(crate) fn renewal(
        &self,
        begin: impl FnOnce(watch::Sender<Option<Renewal>>),
    ) -> watch::Receiver<Option<Renewal>> {
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

    /// Ends the renewal that is under way. If it got no token, none is begun for `pause`.
    pub(crate) fn renewed(&self, renewal: &Renewal, pause: Duration) {
        let mut state = self.state();
        state.renewal = None;
        state.quiet = match renewal {
            Renewal::Fresh => None,
            Renewal::Ended(_) | Renewal::Trouble(_) => {
                Some((Instant::now() + pause, renewal.clone()))
            }
        };
    }

    /// The outcome of the last renewal, if no other is to be begun just now.
    pub(crate) fn is_quiet(&self) -> Option<Renewal> {
        let state = self.state();
        let quiet = state.quiet.as_ref().filter(|(until, _)| Instant::now() < *until);
        quiet.map(|(_, renewal)| renewal.clone())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why a sign-in is wanted where the server has refused the token.
pub(crate) const REFUSED: &str = "the server does not take the token any more";

/// How it stands with what is kept, whoever asks.
pub(crate) fn standing_of(record: &Record) -> Standing {
    match &record.token {
        Some(token) if token.is_refused => Standing::Wanted { why: REFUSED.to_owned() },
        Some(token) if !token.has_ended() || record.refresh_token.is_some() => Standing::SignedIn {
            issuer: Some(record.authority.issuer.clone()),
            scopes: record.scopes.clone(),
            expires: token.expires(),
            is_renewable: record.refresh_token.is_some(),
        },
        Some(_) => Standing::Wanted { why: "the login has expired".to_owned() },
        None => Standing::Wanted { why: "nobody has signed in".to_owned() },
    }
}

/// Why more scopes are wanted.
pub(crate) fn wants_more(scopes: &[String]) -> String {
    format!("more is to be allowed: {}", scopes.join(" "))
}
