//! The runtime part of a session, which its record can't contain: connections to agent and servers.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::backend::events;
use crate::frontend::AppState;
use crate::gateway::{Affinity, AgentHandle, Caller, CallerQuota};
use crate::name::ServerRef;
use crate::state::{Capacity, RecordKey, SessionKey, SessionLease, StateRecord};
use crate::telemetry::SessionGuard;
use crate::wire::agent::Notifier;

const EVENTS: usize = 256;

/// The part of a session that stays when it is restored from its record.
pub(crate) struct SessionRuntime {
    pub(super) app: AppState,
    /// `None` if the session lasts for one request.
    pub(super) key: Option<SessionKey>,
    pub(super) tenure: SessionLease,
    pub(super) agent: AgentHandle,
    pub(super) quota: Arc<CallerQuota>,
    pub(super) notifier: Option<Notifier>,
    /// Reports to telemetry. `None` if the session lasts for one request.
    pub(super) guest: Option<SessionGuard>,
    /// Cancelled when no more requests are read.
    pub(super) closing: CancellationToken,
    pub(super) ended: CancellationToken,
    pub(super) ownership_lost: CancellationToken,
    /// When the state store last confirmed the ownership.
    confirmed: Mutex<Instant>,
    /// `true` if the record stays in the state store when the session ends here.
    outlives: AtomicBool,
    has_ended: AtomicBool,
}

pub(crate) struct RecordOwnership {
    pub(crate) key: SessionKey,
    pub(crate) tenure: SessionLease,
    /// Isolated servers whose state was lost in a takeover.
    pub(crate) lost: BTreeSet<ServerRef>,
}

impl RecordOwnership {
    pub(crate) fn new(key: SessionKey, app: &AppState) -> Self {
        let tenure = SessionLease { owner: app.replica.to_string(), epoch: 0 };
        Self { key, tenure, lost: BTreeSet::new() }
    }
}

impl SessionRuntime {
    pub(super) fn new(
        app: &AppState,
        caller: &Caller,
        quota: Arc<CallerQuota>,
        notifier: Option<Notifier>,
        place: Option<RecordOwnership>,
    ) -> (Arc<Self>, events::Receiver) {
        let (standing, events) = events::channel(EVENTS);
        let affinity = match (&notifier, &caller.agent) {
            (Some(_), _) => Affinity::Session,
            (None, Some(_)) => Affinity::AgentName,
            (None, None) => Affinity::None,
        };
        let agent = AgentHandle::new(notifier.is_some().then_some(standing));
        let agent = agent.with_affinity(affinity).with_name(caller.agent.clone());
        let agent = agent.with_quota(Arc::clone(&quota));
        let (key, tenure, lost) = match place {
            Some(RecordOwnership { key, tenure, lost }) => (Some(key), tenure, lost),
            None => (None, SessionLease::default(), BTreeSet::new()),
        };
        let agent = agent.with_lost_servers(lost);
        let guest = notifier.is_some().then(|| app.gateways.register_agent(caller, agent.id));
        let live = Self {
            app: app.clone(),
            key,
            tenure,
            agent,
            quota,
            notifier,
            guest,
            closing: CancellationToken::new(),
            ended: CancellationToken::new(),
            ownership_lost: CancellationToken::new(),
            confirmed: Mutex::new(Instant::now()),
            outlives: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
        };
        (Arc::new(live), events)
    }

    pub(super) fn is_shared(&self) -> bool {
        self.key.is_some() && self.app.gateways.store().is_shared()
    }

    pub(super) fn record_ownership(&self, is_ours: bool) {
        if is_ours {
            *self.confirmed.lock() = Instant::now();
        } else {
            self.ownership_lost.cancel();
        }
    }

    pub(super) fn unconfirmed_for(&self) -> Duration {
        self.confirmed.lock().elapsed()
    }

    pub(super) fn outlive(&self, outlives: bool) {
        self.outlives.store(outlives, Ordering::Relaxed);
    }

    pub(super) fn end(&self) {
        if self.has_ended.swap(true, Ordering::Relaxed) {
            return;
        }
        self.closing.cancel();
        self.ended.cancel();
        self.app.gateways.remove_agent(self.agent.id);
        self.remove_record();
    }

    /// Removes the record of an ended session, unless another process shall take it over.
    pub(super) fn remove_record(&self) {
        let Some(key) = &self.key else { return };
        if self.outlives.load(Ordering::Relaxed) {
            return;
        }
        let store = self.app.gateways.store();
        // The previous owner may not have noticed the takeover: leave a tombstone so that it can't
        // write the record back.
        let taken_over = self.is_shared() && self.tenure.epoch > 0;
        let Some(ended) =
            taken_over.then(|| crate::state::SessionRecord::ended(&self.tenure)).flatten()
        else {
            return store.end(key, &self.tenure);
        };
        let (store, key) = (Arc::clone(store), RecordKey::Session(key.clone()));
        self.app.tasks.spawn(async move {
            store.put(key, StateRecord::Session(Arc::new(ended)), Capacity::UNLIMITED).await;
        });
    }
}

/// Ends sessions that are never ended explicitly, such as those for one request.
impl Drop for SessionRuntime {
    fn drop(&mut self) {
        self.end();
    }
}
