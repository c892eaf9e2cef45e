//! Test support that round-trips every record through its encoding, as a takeover by another
//! process would. Only test binaries can enable it.

use std::sync::OnceLock;
use std::time::Duration;

use serde_json::Value;

use crate::state::memory::MemoryStateStore;
use crate::state::rate::Rate;
use crate::state::record::{
    Capacity, PutOutcome, RecordKey, SessionKey, SessionLease, StateRecord,
};
use crate::state::store::{StateStore, StoreFuture};

/// Member removed from session records, so that tests can show that it is needed.
static WITHOUT: OnceLock<String> = OnceLock::new();

/// Enables round trips for this process. Session records lose the member `without`.
#[cfg(feature = "test-support")]
pub fn begin(without: String) {
    WITHOUT.get_or_init(|| without);
}

pub fn is_on() -> bool {
    cfg!(feature = "test-support") && WITHOUT.get().is_some()
}

#[derive(Default)]
pub(crate) struct RoundTripStore(MemoryStateStore);

fn reread(record: &StateRecord) -> Option<StateRecord> {
    let text = record
        .encode()
        .inspect_err(|error| tracing::error!(%error, "rehearsal: cannot encode a record"));
    let text = text.ok()?;
    let read = StateRecord::decode(&text);
    if read.as_ref() != Some(record) {
        tracing::error!("rehearsal: the decoded record differs from the original");
    }
    let mut maimed: Value = serde_json::from_str(&text).ok()?;
    let session = maimed["record"].get_mut("session").and_then(Value::as_object_mut);
    let without = WITHOUT.get().map_or("", String::as_str);
    match session.and_then(|session| session.remove(without)) {
        Some(_) => StateRecord::decode(&maimed.to_string()),
        None => read,
    }
}

impl StateStore for RoundTripStore {
    fn is_shared(&self) -> bool {
        self.0.is_shared()
    }

    fn put(
        &self,
        key: RecordKey,
        record: StateRecord,
        capacity: Capacity,
    ) -> StoreFuture<'_, PutOutcome> {
        match reread(&record) {
            Some(record) => self.0.put(key, record, capacity),
            None => Box::pin(async { PutOutcome::Stored }),
        }
    }

    fn get<'a>(&'a self, key: &'a RecordKey) -> StoreFuture<'a, Option<StateRecord>> {
        self.0.get(key)
    }

    fn take<'a>(&'a self, key: &'a RecordKey) -> StoreFuture<'a, Option<StateRecord>> {
        self.0.take(key)
    }

    fn count<'a>(&'a self, subject: &'a str, rate: Rate) -> StoreFuture<'a, Result<(), Duration>> {
        self.0.count(subject, rate)
    }

    fn renew_lease<'a>(
        &'a self,
        session: &'a SessionKey,
        tenure: &'a SessionLease,
    ) -> StoreFuture<'a, bool> {
        self.0.renew_lease(session, tenure)
    }

    fn end(&self, session: &SessionKey, tenure: &SessionLease) {
        self.0.end(session, tenure);
    }

    fn remove(&self, key: &RecordKey) {
        self.0.remove(key);
    }
}
