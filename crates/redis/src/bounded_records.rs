//! Records with a bounded number: remainders of truncated results, and tasks.
//!
//! Each record has its own key. Sorted sets, ordered by expiry, index all records by kind, owner
//! and session; an entry has everything needed to find it in the other indexes. A record never
//! changes. It also stays in memory in the workbench that put it, because agents usually fetch it
//! there. Records are sealed if there are keys. Without keys, remainders stay in memory only: the
//! results of tools can be confidential, and agents rely on them.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use redis::cmd;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use crate::client::{ConnectionClass, QueryError, StoreClient};
use crate::key_names::{BoundedKind, hash, session_hash};
use crate::scripts::{INDEX_DRAIN, INDEX_INSERT};
use crate::sealing::{SealingKeys, protect, reveal};
use mcp_workbench_core::state::{
    Capacity, MemoryStateStore, PutOutcome, RecordKey, SessionKey, StateRecord, StateStore,
};
use mcp_workbench_names::AgentName;

const REMAINDER_TTL: Duration = Duration::from_mins(15);
const TASK_TTL: Duration = Duration::from_hours(24);
/// Capacity for the remainders of all callers together.
const TOTAL_REMAINDER_CAPACITY: Capacity = Capacity { count: 1000, bytes: 64 * 1024 * 1024 };
/// Capacity for the tasks of all callers together.
const TOTAL_TASK_CAPACITY: Capacity = Capacity { count: 100_000, bytes: usize::MAX };
/// Maximum size of a record in the store, in bytes.
const MAX_RECORD: usize = 2 * TOTAL_REMAINDER_CAPACITY.bytes;
/// Maximum number of records whose failed write is remembered.
const MAX_UNPUBLISHED: usize = 10_000;
/// Replaces the hash of a missing owner or session in an entry.
const NO_OWNER: &str = "-";

#[derive(Clone)]
pub(crate) struct BoundedRecords {
    client: Arc<StoreClient>,
    keys: Option<Arc<SealingKeys>>,
    local: Arc<MemoryStateStore>,
    /// Hashes of records that are only in memory.
    unpublished: Arc<Mutex<HashSet<String>>>,
    tasks: TaskTracker,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct IndexEntry {
    hash: String,
    bytes: usize,
    owner: String,
    session: Option<String>,
}

impl IndexEntry {
    fn new(hash: String, record: &StateRecord) -> Self {
        let (bytes, owner, session) = match record {
            StateRecord::Remainder(rest) => {
                (rest.text.len(), rest.owner.as_deref(), rest.session.as_ref())
            }
            StateRecord::Task { agent, .. } => (0, agent.as_ref().map(AgentName::as_str), None),
            StateRecord::Session(_) | StateRecord::Suspended(_) => (0, None, None),
        };
        let owner = owner.map_or_else(|| NO_OWNER.to_owned(), self::hash);
        Self { hash, bytes, owner, session: session.map(session_hash) }
    }

    fn text(&self) -> String {
        let Self { hash, bytes, owner: payer, session } = self;
        format!("{hash} {bytes} {payer} {}", session.as_deref().unwrap_or(NO_OWNER))
    }

    fn parse(text: &str) -> Option<Self> {
        let is_hash = |word: &str| {
            word == NO_OWNER
                || (word.len() == 32 && word.bytes().all(|byte| byte.is_ascii_hexdigit()))
        };
        let mut words = text.split(' ');
        let [hash, bytes, owner, session] = [(); 4].map(|()| words.next());
        let (hash, owner, session) = (hash?, owner?, session?);
        let is_whole = [hash, owner, session].into_iter().all(is_hash) && words.next().is_none();
        is_whole.then_some(())?;
        Some(Self {
            hash: hash.to_owned(),
            bytes: bytes?.parse().ok()?,
            owner: owner.to_owned(),
            session: (session != NO_OWNER).then(|| session.to_owned()),
        })
    }
}

impl BoundedRecords {
    pub(crate) fn new(
        client: Arc<StoreClient>,
        keys: Option<Arc<SealingKeys>>,
        local: Arc<MemoryStateStore>,
        tasks: TaskTracker,
    ) -> Self {
        Self { client, keys, local, unpublished: Arc::default(), tasks }
    }

    fn unpublished(&self) -> MutexGuard<'_, HashSet<String>> {
        self.unpublished.lock()
    }

    fn note_unpublished(&self, hash: String) {
        let mut unpublished = self.unpublished();
        if unpublished.len() >= MAX_UNPUBLISHED {
            unpublished.clear();
        }
        unpublished.insert(hash);
    }

    /// Returns `true` if records of this kind go to the store.
    fn is_shared(&self, kind: BoundedKind) -> bool {
        kind != BoundedKind::Rest || self.keys.is_some()
    }

    /// Stores a record in memory immediately, and in the store within the response timeout or in
    /// the background.
    pub(crate) async fn put(
        &self,
        key: RecordKey,
        record: StateRecord,
        capacity: Capacity,
    ) -> PutOutcome {
        if let Some((kind, hash)) = BoundedKind::of(&key).filter(|(kind, _)| self.is_shared(*kind))
            && let Ok(text) = record.encode()
        {
            self.note_unpublished(hash.clone());
            let (records, entry) = (self.clone(), IndexEntry::new(hash, &record));
            let sharing =
                self.tasks.spawn(async move { records.publish(kind, entry, text, capacity).await });
            let outcome = self.local.put(key, record, capacity).await;
            // On a timeout, publishing continues in the background.
            let _ = timeout(self.client.limits.response, sharing).await;
            outcome
        } else {
            self.local.put(key, record, capacity).await
        }
    }

    async fn publish(
        &self,
        kind: BoundedKind,
        entry: IndexEntry,
        text: String,
        capacity: Capacity,
    ) {
        let names = &self.client.names;
        let (lifetime, in_all) = match kind {
            BoundedKind::Rest => (REMAINDER_TTL, TOTAL_REMAINDER_CAPACITY),
            BoundedKind::Task => (TASK_TTL, TOTAL_TASK_CAPACITY),
        };
        let lists = [
            Some((names.index_of_owner(kind, &entry.owner), capacity)),
            Some((names.index_of_all(kind), larger(capacity, in_all))),
            entry
                .session
                .as_ref()
                .map(|it| (names.index_of_session(kind, it), Capacity::UNLIMITED)),
        ];
        let mut gone = Vec::new();
        for (list, capacity) in lists.into_iter().flatten() {
            let lifetime = lifetime.as_millis().to_string();
            let (count, bytes) =
                (number(capacity.count).to_string(), number(capacity.bytes).to_string());
            let words = [entry.text(), entry.hash.clone(), lifetime, count, bytes];
            let words = words.each_ref().map(String::as_bytes);
            let Ok(out) = self.client.run::<Vec<String>>(&INDEX_INSERT, &list, &words).await else {
                return;
            };
            gone.extend(out.iter().map(String::as_str).filter_map(IndexEntry::parse));
        }
        let name = names.record(kind, &entry.hash);
        if gone.contains(&entry) {
            self.unpublished().remove(&entry.hash);
        } else if let Some(text) = protect(self.keys.as_deref(), &name, &text) {
            let mut set = cmd("SET");
            let lifetime = u64::try_from(lifetime.as_millis()).unwrap_or(u64::MAX);
            set.arg(name).arg(text).arg("PX").arg(lifetime);
            if self.client.query::<()>(ConnectionClass::Bulk, &set).await.is_ok() {
                self.unpublished().remove(&entry.hash);
            }
        }
        for entry in gone {
            self.delete(kind, &entry).await;
        }
    }

    /// Removes a record from the store and from all indexes.
    async fn delete(&self, kind: BoundedKind, entry: &IndexEntry) {
        let mut del = cmd("DEL");
        del.arg(self.client.names.record(kind, &entry.hash));
        let _: Result<(), _> = self.client.query(ConnectionClass::Interactive, &del).await;
        self.remove_from_indexes(kind, entry).await;
    }

    async fn remove_from_indexes(&self, kind: BoundedKind, entry: &IndexEntry) {
        let names = &self.client.names;
        let lists = [
            Some(names.index_of_owner(kind, &entry.owner)),
            Some(names.index_of_all(kind)),
            entry.session.as_ref().map(|session| names.index_of_session(kind, session)),
        ];
        for list in lists.into_iter().flatten() {
            let mut strike = cmd("ZREM");
            strike.arg(list).arg(entry.text());
            let _: Result<(), _> = self.client.query(ConnectionClass::Interactive, &strike).await;
        }
    }

    /// Looks in memory first, then in the store.
    pub(crate) async fn get(&self, key: &RecordKey) -> Option<StateRecord> {
        if let Some(found) = self.local.get(key).await {
            return Some(found);
        }
        let (kind, hash) = BoundedKind::of(key).filter(|(kind, _)| self.is_shared(*kind))?;
        self.fetch(kind, &hash).await.ok()?
    }

    async fn fetch(
        &self,
        kind: BoundedKind,
        hash: &str,
    ) -> Result<Option<StateRecord>, QueryError> {
        let name = self.client.names.record(kind, hash);
        let mut get = cmd("GETRANGE");
        get.arg(&name).arg(0).arg(MAX_RECORD);
        let value = self.client.query(ConnectionClass::Bulk, &get).await?;
        Ok(read(kind, &reveal(self.keys.as_deref(), &name, value).unwrap_or_default()))
    }

    /// Removes and returns a record. The store decides between concurrent callers; if it is down or
    /// never got the record, memory does.
    pub(crate) async fn take(&self, key: &RecordKey) -> Option<StateRecord> {
        let local = self.local.take(key).await;
        let Some((kind, hash)) = BoundedKind::of(key).filter(|(kind, _)| self.is_shared(*kind))
        else {
            return local;
        };
        if self.unpublished().remove(&hash) && local.is_some() {
            return local;
        }
        let Ok(record) = self.fetch(kind, &hash).await else { return local };
        let mut delete = cmd("DEL");
        delete.arg(self.client.names.record(kind, &hash));
        match self.client.query::<u64>(ConnectionClass::Interactive, &delete).await {
            Ok(0) => return None,
            Ok(_) => {}
            Err(_) => return local,
        }
        let record = record?;
        self.remove_from_indexes(kind, &IndexEntry::new(hash, &record)).await;
        Some(record)
    }

    /// Removes the remainders of an ended session from the store.
    pub(crate) async fn end(&self, session: &SessionKey) {
        let list = self.client.names.index_of_session(BoundedKind::Rest, &session_hash(session));
        let entries =
            self.client.run::<Vec<String>>(&INDEX_DRAIN, &list, &[]).await.unwrap_or_default();
        for entry in entries.iter().map(String::as_str).filter_map(IndexEntry::parse) {
            self.delete(BoundedKind::Rest, &entry).await;
        }
    }
}

fn read(kind: BoundedKind, text: &str) -> Option<StateRecord> {
    let record = StateRecord::decode(text)?;
    let is_it = match kind {
        BoundedKind::Rest => matches!(record, StateRecord::Remainder(_)),
        BoundedKind::Task => matches!(record, StateRecord::Task { .. }),
    };
    is_it.then_some(record)
}

fn larger(one: Capacity, other: Capacity) -> Capacity {
    Capacity { count: one.count.max(other.count), bytes: one.bytes.max(other.bytes) }
}

/// Converts a limit for the scripts; -1 means unlimited.
fn number(limit: usize) -> i64 {
    if limit == usize::MAX { -1 } else { i64::try_from(limit).unwrap_or(i64::MAX) }
}
