//! The live part of a session, which cannot be written down: the ways to its agent and to its servers.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::backend::events;
use crate::frontend::AppState;
use crate::gateway::{Caller, Presence, Purse, Tie};
use crate::name::ServerRef;
use crate::observe::Guest;
use crate::state::{Key, Record, Room, SessionKey, Tenure};
use crate::wire::agent::Notifier;

/// How much may wait for an agent that does not take what it is told.
const EVENTS: usize = 256;

/// The live part of a session, which stays when another session takes its place.
pub(crate) struct Live {
    pub(super) app: AppState,
    /// The key of its record; `None`: it is there for one request.
    pub(super) key: Option<SessionKey>,
    /// For how long it is ours.
    pub(super) tenure: Tenure,
    /// The agent as servers can reach it.
    pub(super) presence: Presence,
    /// The counts of everything that the agent holds.
    pub(super) purse: Arc<Purse>,
    pub(super) notifier: Option<Notifier>,
    /// The count of what the agent is given, if it is there for longer than a request.
    pub(super) guest: Option<Guest>,
    /// Cancelled when nothing more is read of the agent.
    pub(super) is_leaving: CancellationToken,
    pub(super) ended: CancellationToken,
    /// Cancelled once another process goes on with the session.
    pub(super) is_elsewhere: CancellationToken,
    /// When the store last said that the session is ours.
    confirmed: Mutex<Instant>,
    /// Set if the record stays in the store when the session ends here.
    outlives: AtomicBool,
    has_ended: AtomicBool,
}

/// A session's place in the store.
pub(crate) struct Place {
    pub(crate) key: SessionKey,
    pub(crate) tenure: Tenure,
    /// The servers whose state of it was lost with another process.
    pub(crate) lost: BTreeSet<ServerRef>,
}

impl Place {
    /// The place of a session that begins here.
    pub(crate) fn new(key: SessionKey, app: &AppState) -> Self {
        let tenure = Tenure { owner: app.replica.to_string(), epoch: 0 };
        Self { key, tenure, lost: BTreeSet::new() }
    }
}

impl Live {
    /// Returns what a new session needs, and what servers tell its agent.
    pub(super) fn new(
        app: &AppState,
        caller: &Caller,
        purse: Arc<Purse>,
        notifier: Option<Notifier>,
        place: Option<Place>,
    ) -> (Arc<Self>, events::Receiver) {
        let (standing, events) = events::channel(EVENTS);
        let tie = match (&notifier, &caller.agent) {
            (Some(_), _) => Tie::Session,
            (None, Some(_)) => Tie::Name,
            (None, None) => Tie::Nothing,
        };
        let presence = Presence::new(notifier.is_some().then_some(standing));
        let presence = presence.tied_by(tie).named(caller.agent.clone());
        let presence = presence.paying_with(Arc::clone(&purse));
        let (key, tenure, lost) = match place {
            Some(Place { key, tenure, lost }) => (Some(key), tenure, lost),
            None => (None, Tenure::default(), BTreeSet::new()),
        };
        let presence = presence.having_lost(lost);
        let guest = notifier.is_some().then(|| app.gateways.welcome(caller, presence.id));
        let live = Self {
            app: app.clone(),
            key,
            tenure,
            presence,
            purse,
            notifier,
            guest,
            is_leaving: CancellationToken::new(),
            ended: CancellationToken::new(),
            is_elsewhere: CancellationToken::new(),
            confirmed: Mutex::new(Instant::now()),
            outlives: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
        };
        (Arc::new(live), events)
    }

    /// Returns `true` if another process could go on with the session.
    pub(super) fn is_shared(&self) -> bool {
        self.key.is_some() && self.app.gateways.store().is_shared()
    }

    /// Takes note of the store's word that the session is ours, or is not any more.
    pub(super) fn is_confirmed(&self, is_ours: bool) {
        if is_ours {
            *self.confirmed.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        } else {
            self.is_elsewhere.cancel();
        }
    }

    /// How long ago the store said that the session is ours.
    pub(super) fn unconfirmed_for(&self) -> Duration {
        self.confirmed.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }

    /// Leaves the record in the store when the session ends here, for another process; or does not.
    pub(super) fn outlive(&self, outlives: bool) {
        self.outlives.store(outlives, Ordering::Relaxed);
    }

    /// Ends the session: what was for this agent alone ends with it.
    pub(super) fn end(&self) {
        if self.has_ended.swap(true, Ordering::Relaxed) {
            return;
        }
        self.is_leaving.cancel();
        self.ended.cancel();
        self.app.gateways.leave(self.presence.id);
        self.forget();
    }

    /// Forgets the record of a session that has ended, unless another process is to go on with it.
    pub(super) fn forget(&self) {
        let Some(key) = &self.key else { return };
        if self.outlives.load(Ordering::Relaxed) {
            return;
        }
        let store = self.app.gateways.store();
        // Whoever had it before it was taken over may not know yet, and must find that it is not there.
        let taken_over = self.is_shared() && self.tenure.epoch > 0;
        let Some(ended) = taken_over.then(|| crate::state::Session::ended(&self.tenure)).flatten()
        else {
            return store.end(key, &self.tenure);
        };
        let (store, key) = (Arc::clone(store), Key::Session(key.clone()));
        self.app.tasks.spawn(async move {
            store.put(key, Record::Session(Arc::new(ended)), Room::ENDLESS).await;
        });
    }
}

/// A session that nobody ends, such as that of a single request, ends when it is not needed any
/// more.
impl Drop for Live {
    fn drop(&mut self) {
        self.end();
    }
}
