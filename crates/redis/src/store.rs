//! The Redis store, which passes each kind of record to its implementation.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::bounded_records::BoundedRecords;
use crate::client::StoreClient;
use crate::connection::StoreTimeouts;
use crate::listings::SealedListings;
use crate::logins::SealedLogins;
use crate::scripts::GCRA;
use crate::sealing::SealingKeys;
use crate::sessions::SessionRecords;
use crate::target::RedisTarget;
use mcp_workbench_core::backend::SharedListingCache;
use mcp_workbench_core::state::{
    Capacity, MemoryStateStore, PutOutcome, Rate, RecordKey, SessionKey, SessionLease, StateRecord,
    StateStore, StoreFuture,
};
use mcp_workbench_core::telemetry::Telemetry;

/// Settings of a store other than its URL.
#[derive(Clone, Debug)]
pub struct RedisStoreOptions {
    /// Idle timeout of sessions (`http.sessionIdleMs`).
    pub session_idle: Duration,
    pub limits: StoreTimeouts,
}

/// A store on Redis or Valkey. While it is down, records are stored in memory; callers wait for it
/// no longer than [`StoreTimeouts::response`].
pub struct RedisStore(Arc<Inner>);

struct Inner {
    client: Arc<StoreClient>,
    keys: Option<Arc<SealingKeys>>,
    local: Arc<MemoryStateStore>,
    sessions: SessionRecords,
    records: BoundedRecords,
    tasks: TaskTracker,
}

impl RedisStore {
    /// Connects to the store. If it is down, a background task on `tasks` retries until `stop` is
    /// cancelled.
    pub async fn open(
        address: RedisTarget,
        options: RedisStoreOptions,
        observer: Arc<Telemetry>,
        tasks: &TaskTracker,
        stop: CancellationToken,
    ) -> Self {
        let RedisStoreOptions { session_idle, limits } = options;
        let keys = address.keys.clone();
        let client = StoreClient::new(address, limits, observer, tasks.clone(), stop);
        client.connect().await;
        let local = Arc::new(MemoryStateStore::default());
        Self(Arc::new(Inner {
            sessions: SessionRecords::new(
                Arc::clone(&client),
                keys.clone(),
                Arc::clone(&local),
                session_idle,
            ),
            records: BoundedRecords::new(
                Arc::clone(&client),
                keys.clone(),
                Arc::clone(&local),
                tasks.clone(),
            ),
            local,
            client,
            keys,
            tasks: tasks.clone(),
        }))
    }

    /// Returns the shared logins; `None` without a sealing key.
    pub fn logins(&self) -> Option<Arc<dyn mcp_workbench_login::LoginStore>> {
        let Inner { client, keys, tasks, .. } = &*self.0;
        let keys = Arc::clone(keys.as_ref()?);
        Some(Arc::new(SealedLogins::new(Arc::clone(client), keys, tasks.clone())))
    }

    /// Returns the shared listings; `None` without a sealing key.
    pub fn listings(&self) -> Option<Arc<dyn SharedListingCache>> {
        let keys = Arc::clone(self.0.keys.as_ref()?);
        Some(Arc::new(SealedListings::new(Arc::clone(&self.0.client), keys)))
    }

    /// Returns `true` if the store is in use, `false` while records are stored only in memory.
    pub fn is_up(&self) -> bool {
        self.0.client.is_up()
    }
}

impl StateStore for RedisStore {
    fn is_shared(&self) -> bool {
        true
    }

    fn put(
        &self,
        key: RecordKey,
        record: StateRecord,
        capacity: Capacity,
    ) -> StoreFuture<'_, PutOutcome> {
        let inner = &self.0;
        Box::pin(async move {
            match (&key, record) {
                (RecordKey::Session(session), StateRecord::Session(record)) => {
                    if inner.sessions.put(session, record).await {
                        PutOutcome::Stored
                    } else {
                        PutOutcome::Superseded
                    }
                }
                (RecordKey::Rest(_) | RecordKey::Task(_), record) => {
                    inner.records.put(key, record, capacity).await
                }
                (_, record) => inner.local.put(key, record, capacity).await,
            }
        })
    }

    fn get<'a>(&'a self, key: &'a RecordKey) -> StoreFuture<'a, Option<StateRecord>> {
        match key {
            RecordKey::Session(session) => Box::pin(self.0.sessions.get(session)),
            RecordKey::Rest(_) | RecordKey::Task(_) => Box::pin(self.0.records.get(key)),
            RecordKey::Suspended(_) => self.0.local.get(key),
        }
    }

    fn take<'a>(&'a self, key: &'a RecordKey) -> StoreFuture<'a, Option<StateRecord>> {
        match key {
            RecordKey::Session(session) => Box::pin(self.0.sessions.take(session)),
            RecordKey::Rest(_) | RecordKey::Task(_) => Box::pin(self.0.records.take(key)),
            RecordKey::Suspended(_) => self.0.local.take(key),
        }
    }

    fn count<'a>(&'a self, subject: &'a str, rate: Rate) -> StoreFuture<'a, Result<(), Duration>> {
        Box::pin(async move {
            let client = &self.0.client;
            let often = rate.per_minute.to_string();
            let wait: Result<u64, _> =
                client.run(&GCRA, &client.names.count(subject), &[often.as_bytes()]).await;
            match wait {
                Ok(0) => Ok(()),
                Ok(wait) => Err(Duration::from_micros(wait).min(Rate::PERIOD)),
                Err(_) => self.0.local.count(subject, rate).await,
            }
        })
    }

    fn renew_lease<'a>(
        &'a self,
        session: &'a SessionKey,
        tenure: &'a SessionLease,
    ) -> StoreFuture<'a, bool> {
        Box::pin(self.0.sessions.renew_lease(session, tenure))
    }

    fn end(&self, session: &SessionKey, tenure: &SessionLease) {
        self.0.sessions.forget(session, tenure);
        let (inner, session, tenure) = (Arc::clone(&self.0), session.clone(), tenure.clone());
        self.0.tasks.spawn(async move {
            if inner.sessions.end(&session, &tenure).await {
                inner.records.end(&session).await;
            }
        });
    }

    fn remove(&self, key: &RecordKey) {
        self.0.local.remove(key);
        if matches!(key, RecordKey::Suspended(_)) {
            return;
        }
        let (inner, key) = (Arc::clone(&self.0), key.clone());
        self.0.tasks.spawn(async move {
            match &key {
                RecordKey::Session(session) => drop(inner.sessions.take(session).await),
                _ => drop(inner.records.take(&key).await),
            }
        });
    }
}
