//! Where records are kept. All functions here block.

mod chosen;
mod folder;
mod memory;

use std::io;
use std::time::Duration;

pub use crate::login::keep::chosen::{Chosen, Home, Keyring};
pub(crate) use crate::login::keep::folder::Folder;
pub(crate) use crate::login::keep::memory::Memory;

/// How long one waits for another process that changes the same record: longer than one request for a token takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(45);

/// A store of records, by their keys.
///
/// All functions block, and fail where the store cannot be reached.
#[expect(clippy::missing_errors_doc, reason = "all fail alike")]
pub trait Store: Send + Sync {
    /// The record, if there is one.
    fn load(&self, key: &str) -> io::Result<Option<Vec<u8>>>;

    /// Puts a record in the place of what is there; whoever reads sees one or the other.
    fn save(&self, key: &str, record: &[u8]) -> io::Result<()>;

    /// Removes a record. Returns whether there was one.
    fn remove(&self, key: &str) -> io::Result<bool>;

    /// Every record.
    fn all(&self) -> io::Result<Vec<Vec<u8>>>;

    /// Holds off everybody else who changes this record, in this process and others, for as long as the guard lives.
    /// `None`: somebody else does.
    fn try_lock(&self, key: &str) -> io::Result<Option<Guard>>;

    /// Returns `true` if several machines share it. It may be away for a while; then it says so itself, and keeps what
    /// it is given until it is back.
    fn is_shared(&self) -> bool {
        false
    }

    /// The record as it was last known, for where it cannot be read. Asks nobody.
    fn last(&self, _key: &str) -> Option<Vec<u8>> {
        None
    }

    /// Keeps a sign-in that has begun, so that whoever its browser comes back to can end it. Returns whether it is
    /// kept.
    fn begin(&self, _state: &str, _attempt: &[u8], _lifetime: Duration) -> io::Result<bool> {
        Ok(false)
    }

    /// Takes out a sign-in that has begun. It is there once.
    fn returned(&self, _state: &str) -> io::Result<Option<Vec<u8>>> {
        Ok(None)
    }
}

/// Holds a lock until it is dropped.
pub struct Guard(#[expect(dead_code, reason = "it is held, not read")] Box<dyn Send>);

impl Guard {
    /// A lock that is given back when `held` is dropped.
    pub fn new(held: impl Send + 'static) -> Self {
        Self(Box::new(held))
    }
}
