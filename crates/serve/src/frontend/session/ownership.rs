//! Which process owns the record of a session: another one can take the session over.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use mcp_workbench_core::state::{
    Capacity, RecordKey, SessionKey, SessionLease, SessionRecord, StateRecord, StateStore,
};

/// How long a confirmed ownership needs no new confirmation.
pub const OWNERSHIP_TTL: Duration = Duration::from_secs(5);

/// The ownership of a session's record in the state store.
pub struct RecordOwnership {
    store: Arc<dyn StateStore>,
    /// `None` if the session lasts for one request.
    key: Option<SessionKey>,
    tenure: SessionLease,
    lost: CancellationToken,
    /// When the state store last confirmed the ownership.
    confirmed: Mutex<Instant>,
    /// `true` if the record stays in the state store when the session ends here.
    outlives: AtomicBool,
}

impl RecordOwnership {
    pub(super) fn new(
        store: &Arc<dyn StateStore>,
        key: Option<SessionKey>,
        tenure: SessionLease,
    ) -> Self {
        Self {
            store: Arc::clone(store),
            key,
            tenure,
            lost: CancellationToken::new(),
            confirmed: Mutex::new(Instant::now()),
            outlives: AtomicBool::new(false),
        }
    }

    pub(super) fn key(&self) -> Option<&SessionKey> {
        self.key.as_ref()
    }

    pub(super) fn tenure(&self) -> &SessionLease {
        &self.tenure
    }

    /// Returns how often the session was taken over.
    pub fn epoch(&self) -> u64 {
        self.tenure.epoch
    }

    /// Returns `true` if another process could take the session over.
    pub(super) fn is_shared(&self) -> bool {
        self.shared_key().is_some()
    }

    fn shared_key(&self) -> Option<&SessionKey> {
        self.key.as_ref().filter(|_| self.store.is_shared())
    }

    /// Records whether the state store still accepts this process as the owner.
    pub(super) fn note(&self, is_ours: bool) {
        if is_ours {
            *self.confirmed.lock() = Instant::now();
        } else {
            self.lost.cancel();
        }
    }

    /// `true` unless another process has taken the session over. Asks the state store if the last
    /// confirmation is older than 5 s.
    pub async fn confirm(&self) -> bool {
        self.confirm_within(OWNERSHIP_TTL).await
    }

    pub async fn confirm_within(&self, good_for: Duration) -> bool {
        let Some(key) = self.shared_key() else { return true };
        if self.is_ours() && self.confirmed.lock().elapsed() >= good_for {
            let is_ours = self.store.renew_lease(key, &self.tenure).await;
            self.note(is_ours);
        }
        self.is_ours()
    }

    /// `true` unless a takeover is known. Doesn't ask the state store.
    fn is_ours(&self) -> bool {
        !self.lost.is_cancelled()
    }

    /// Resolves when another process takes the session over. `None` if none could.
    pub fn lost(&self) -> Option<impl Future<Output = ()> + Send + use<>> {
        self.is_shared().then(|| self.lost.clone().cancelled_owned())
    }

    /// Sets whether the record stays when the session ends here, so that another process can take
    /// it over.
    pub(super) fn keep_record(&self, outlives: bool) {
        self.outlives.store(outlives, Ordering::Relaxed);
    }

    /// Commits the takeover: when the session ends from now on, its record is removed.
    pub fn commit_takeover(&self) {
        self.keep_record(false);
    }

    /// Marks the record as ended, so that no process can take the session over.
    pub async fn end_record(&self) {
        let Some(key) = self.shared_key() else { return };
        let Some(ended) = SessionRecord::ended(&self.tenure) else { return };
        let (key, ended) = (RecordKey::Session(key.clone()), StateRecord::Session(Arc::new(ended)));
        self.store.put(key, ended, Capacity::UNLIMITED).await;
        self.keep_record(true);
    }

    /// Removes the record of an ended session, unless another process shall take it over.
    pub(super) fn remove_record(&self, tasks: &TaskTracker) {
        let Some(key) = &self.key else { return };
        if self.outlives.load(Ordering::Relaxed) {
            return;
        }
        // The previous owner may not have noticed the takeover: leave a tombstone so that it can't
        // write the record back.
        let taken_over = self.is_shared() && self.tenure.epoch > 0;
        let Some(ended) = taken_over.then(|| SessionRecord::ended(&self.tenure)).flatten() else {
            return self.store.end(key, &self.tenure);
        };
        let (store, key) = (Arc::clone(&self.store), RecordKey::Session(key.clone()));
        tasks.spawn(async move {
            store.put(key, StateRecord::Session(Arc::new(ended)), Capacity::UNLIMITED).await;
        });
    }
}
