//! The interface of all stores.

use std::io;
use std::time::Duration;

/// A store of login records by key.
///
/// All methods block, and fail if the store is unavailable.
#[expect(clippy::missing_errors_doc, reason = "all methods fail for the same reasons")]
pub trait LoginStore: Send + Sync {
    fn load(&self, key: &str) -> io::Result<Option<Vec<u8>>>;

    /// Replaces a record atomically: readers see either the old or the new one.
    fn save(&self, key: &str, record: &[u8]) -> io::Result<()>;

    /// Removes a record. Returns whether it existed.
    fn remove(&self, key: &str) -> io::Result<bool>;

    fn all(&self) -> io::Result<Vec<Vec<u8>>>;

    /// Locks a record against all other writers, in this process and others. `None` if it is locked
    /// already.
    fn try_lock(&self, key: &str) -> io::Result<Option<RecordLockGuard>>;

    /// Returns `true` if several machines share the store. Such a store logs outages itself, and
    /// buffers writes until it is available again.
    fn is_shared(&self) -> bool {
        false
    }

    /// Returns the last known record, for use while the store is unavailable. Does no I/O.
    fn last_known(&self, _key: &str) -> Option<Vec<u8>> {
        None
    }

    /// Stores a pending sign-in, so that any process that receives the callback can complete it.
    /// Returns `true` if it was stored.
    fn save_attempt(&self, _state: &str, _attempt: &[u8], _lifetime: Duration) -> io::Result<bool> {
        Ok(false)
    }

    /// Removes and returns a pending sign-in. Only one caller gets it.
    fn take_attempt(&self, _state: &str) -> io::Result<Option<Vec<u8>>> {
        Ok(None)
    }
}

/// Holds the lock of a record until dropped.
pub struct RecordLockGuard(#[expect(dead_code, reason = "held, not read")] Box<dyn Send>);

impl RecordLockGuard {
    /// Creates a guard that releases the lock by dropping `held`.
    pub fn new(held: impl Send + 'static) -> Self {
        Self(Box::new(held))
    }
}
