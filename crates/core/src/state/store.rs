//! The interface of stores of state records.

use std::pin::Pin;
use std::time::Duration;

use crate::state::rate::Rate;
use crate::state::record::{
    Capacity, PutOutcome, RecordKey, SessionKey, SessionLease, StateRecord,
};

/// Result of a store operation; immediately ready if the store is in memory.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A store of state records.
///
/// A remote store enforces its own timeout. If it is unavailable, reads find nothing, writes are
/// lost and no rate limit applies, but no call fails because of it.
pub trait StateStore: Send + Sync {
    /// Returns `true` if other processes see the same records. Sessions then outlive their process,
    /// and another process may take them over.
    fn is_shared(&self) -> bool {
        false
    }

    /// Stores a record, replacing the previous one. If its caller exceeds `capacity`, or all
    /// callers exceed the total capacity, the oldest records are evicted, the caller's own first.
    ///
    /// Stores nothing if another process has taken the session over.
    fn put(
        &self,
        key: RecordKey,
        record: StateRecord,
        capacity: Capacity,
    ) -> StoreFuture<'_, PutOutcome>;

    /// Reads a record. The caller has to check its owner.
    fn get<'a>(&'a self, key: &'a RecordKey) -> StoreFuture<'a, Option<StateRecord>>;

    /// Removes a record and returns it. Only one of several concurrent calls succeeds.
    fn take<'a>(&'a self, key: &'a RecordKey) -> StoreFuture<'a, Option<StateRecord>>;

    /// Counts a call of `subject`. Over the limit, returns the time to wait and doesn't count it.
    fn count<'a>(&'a self, subject: &'a str, rate: Rate) -> StoreFuture<'a, Result<(), Duration>>;

    /// Renews a session's lease. Returns `false` if another process has taken it over.
    fn renew_lease<'a>(
        &'a self,
        session: &'a SessionKey,
        tenure: &'a SessionLease,
    ) -> StoreFuture<'a, bool>;

    /// Removes a session and its records in the background, unless another process took it over.
    fn end(&self, session: &SessionKey, tenure: &SessionLease);

    /// Removes a record in the background.
    fn remove(&self, key: &RecordKey);
}
