//! Stores for login records. All functions here block.

mod file;
mod login_store;
mod memory;
mod switchable;

use std::time::Duration;

pub(crate) use crate::store::file::FileStore;
pub use crate::store::login_store::{LoginStore, RecordLockGuard};
pub(crate) use crate::store::memory::MemoryStore;
pub use crate::store::switchable::{Keyring, StorageBackend, SwitchableStore};

/// How long to wait for the lock of a record. Longer than a token request takes.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(45);
