//! Session records: each is a Redis hash with the owner, the epoch and the encoded record, which is
//! sealed if there are keys.
//!
//! The replica that holds the lease keeps the record in memory and writes it back if the store
//! loses it. An ended session leaves a tombstone for the idle timeout, so that a former owner
//! cannot write it back.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::client::{QueryError, StoreClient};
use crate::scripts::{END_SESSION, GET_SESSION, PUT_SESSION, RENEW_SESSION};
use crate::sealing::{SEAL, SealingKeys, protect, reveal};
use mcp_workbench_core::state::{
    Capacity, MemoryStateStore, RecordKey, SessionKey, SessionLease, SessionRecord, StateRecord,
    StateStore,
};

/// Maximum length of an encoded session, in bytes.
pub(crate) const MAX_TEXT: usize = 16 * 1024;
/// Minimum time between two renewals of a lease. A short idle timeout reduces it.
const INTERVAL: Duration = Duration::from_secs(30);
/// Minimum time between two warnings about oversized records.
const PAUSE: Duration = Duration::from_mins(1);

pub(crate) struct SessionRecords {
    client: Arc<StoreClient>,
    keys: Option<Arc<SealingKeys>>,
    local: Arc<MemoryStateStore>,
    /// Idle timeout of a session in milliseconds.
    idle_ms: String,
    interval: Duration,
    /// The last renewal of each session that this process owns, with its lease.
    kept: Mutex<HashMap<SessionKey, (Instant, SessionLease)>>,
    warned: Mutex<Option<Instant>>,
}

impl SessionRecords {
    pub(crate) fn new(
        client: Arc<StoreClient>,
        keys: Option<Arc<SealingKeys>>,
        local: Arc<MemoryStateStore>,
        idle: Duration,
    ) -> Self {
        Self {
            client,
            keys,
            local,
            idle_ms: idle.as_millis().max(1).to_string(),
            interval: INTERVAL.min(idle / 3),
            kept: Mutex::default(),
            warned: Mutex::default(),
        }
    }

    fn keys(&self) -> Option<&SealingKeys> {
        self.keys.as_deref()
    }

    fn with_cached<T>(
        &self,
        f: impl FnOnce(&mut HashMap<SessionKey, (Instant, SessionLease)>) -> T,
    ) -> T {
        f(&mut self.kept.lock())
    }

    fn note_renewal(&self, session: &SessionKey, tenure: &SessionLease) {
        self.with_cached(|kept| kept.insert(session.clone(), (Instant::now(), tenure.clone())));
    }

    /// Forgets a session in this process, if the lease matches.
    pub(crate) fn forget(&self, session: &SessionKey, tenure: &SessionLease) {
        self.local.end(session, tenure);
        self.with_cached(|kept| kept.remove(session));
    }

    /// Forgets a session that another workbench owns or that has ended.
    fn forget_lost(&self, session: &SessionKey) {
        self.local.remove(&RecordKey::Session(session.clone()));
        self.with_cached(|kept| kept.remove(session));
    }

    /// Stores a record. Returns `false` if another workbench owns the session or it has ended.
    pub(crate) async fn put(&self, session: &SessionKey, record: Arc<SessionRecord>) -> bool {
        let tenure = record.tenure.clone();
        let text = StateRecord::Session(Arc::clone(&record)).encode().unwrap_or_default();
        let text = if text.len() > MAX_TEXT { self.warn_oversized(&text) } else { text.as_str() };
        let name = self.client.names.session(session);
        let sealed = if text.is_empty() { None } else { protect(self.keys(), &name, text) };
        let [owner, epoch] = words(&tenure);
        let words = [&*owner, &*epoch, &*self.idle_ms].map(str::as_bytes);
        let [owner, epoch, idle] = words;
        let arguments = [owner, epoch, idle, &sealed.unwrap_or_default()];
        let is_put = self.client.run(&PUT_SESSION, &name, &arguments).await;
        if is_put == Ok(0_u8) {
            self.forget_lost(session);
            return false;
        }
        let key = RecordKey::Session(session.clone());
        let put = self.local.put(key, StateRecord::Session(record), Capacity::UNLIMITED).await;
        let is_ours = put.is_stored();
        if is_put.is_ok() && is_ours {
            self.note_renewal(session, &tenure);
        }
        is_ours
    }

    /// Logs a warning and returns the empty text that is stored instead of an oversized record.
    fn warn_oversized(&self, text: &str) -> &'static str {
        let mut warned = self.warned.lock();
        if warned.is_none_or(|warned| warned.elapsed() >= PAUSE) {
            *warned = Some(Instant::now());
            tracing::warn!(
                "session record of {} bytes exceeds the shared limit of {MAX_TEXT}; no other \
                 workbench can continue this session",
                text.len()
            );
        }
        ""
    }

    pub(crate) async fn get(&self, session: &SessionKey) -> Option<StateRecord> {
        let key = RecordKey::Session(session.clone());
        let most = (MAX_TEXT + SEAL).to_string();
        let name = self.client.names.session(session);
        let found: Result<Vec<Vec<u8>>, _> =
            self.client.run(&GET_SESSION, &name, &[most.as_bytes()]).await;
        match found.as_deref() {
            Ok([is_over, ..]) if is_over == b"1" => {
                self.forget_lost(session);
                None
            }
            Ok([_, text]) => {
                let text = reveal(self.keys(), &name, text.clone())?;
                let record = StateRecord::decode(&text)?;
                matches!(record, StateRecord::Session(_)).then_some(record)
            }
            _ => self.local.get(&key).await,
        }
    }

    /// Removes and returns a record, even if another workbench owns it.
    pub(crate) async fn take(&self, session: &SessionKey) -> Option<StateRecord> {
        let record = self.get(session).await;
        self.forget_lost(session);
        let Some(StateRecord::Session(found)) = &record else { return None };
        let is_ended = self.end_as(session, &found.tenure).await;
        record.filter(|_| is_ended != Ok(0))
    }

    /// Renews the lease on a session. Returns `false` if another workbench owns it or it has ended.
    pub(crate) async fn renew_lease(&self, session: &SessionKey, tenure: &SessionLease) -> bool {
        let is_recent = self.with_cached(|kept| {
            kept.get(session)
                .is_some_and(|(since, whose)| whose == tenure && since.elapsed() < self.interval)
        });
        if is_recent {
            return true;
        }
        let [owner, epoch] = words(tenure);
        let arguments = [&*owner, &*epoch, &*self.idle_ms].map(str::as_bytes);
        let kept =
            self.client.run(&RENEW_SESSION, &self.client.names.session(session), &arguments).await;
        match kept {
            Ok(0_u8) => {
                self.forget_lost(session);
                false
            }
            Ok(1) => {
                self.note_renewal(session, tenure);
                true
            }
            Ok(_) => match self.local.get(&RecordKey::Session(session.clone())).await {
                Some(StateRecord::Session(record)) if record.tenure == *tenure => {
                    self.put(session, record).await
                }
                _ => true,
            },
            Err(_) => self.local.renew_lease(session, tenure).await,
        }
    }

    /// Ends a session in the store. Returns `false` if another workbench owns it or the store is
    /// down.
    pub(crate) async fn end(&self, session: &SessionKey, tenure: &SessionLease) -> bool {
        self.end_as(session, tenure).await == Ok(1)
    }

    async fn end_as(&self, session: &SessionKey, tenure: &SessionLease) -> Result<u8, QueryError> {
        let [owner, epoch] = words(tenure);
        let arguments = [&*owner, &*epoch, &*self.idle_ms].map(str::as_bytes);
        self.client.run(&END_SESSION, &self.client.names.session(session), &arguments).await
    }
}

fn words(tenure: &SessionLease) -> [String; 2] {
    [tenure.owner.clone(), tenure.epoch.to_string()]
}
