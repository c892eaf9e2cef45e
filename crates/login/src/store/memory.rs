//! Login records in memory, until the process ends.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::store::login_store::{LoginStore, RecordLockGuard};

#[derive(Default)]
pub(crate) struct MemoryStore {
    records: Mutex<HashMap<String, Vec<u8>>>,
    locked: Arc<Mutex<HashSet<String>>>,
}

struct Held {
    key: String,
    locked: Arc<Mutex<HashSet<String>>>,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.locked.lock().remove(&self.key);
    }
}

impl LoginStore for MemoryStore {
    fn load(&self, key: &str) -> io::Result<Option<Vec<u8>>> {
        Ok(self.records.lock().get(key).cloned())
    }

    fn save(&self, key: &str, record: &[u8]) -> io::Result<()> {
        self.records.lock().insert(key.to_owned(), record.to_owned());
        Ok(())
    }

    fn remove(&self, key: &str) -> io::Result<bool> {
        Ok(self.records.lock().remove(key).is_some())
    }

    fn all(&self) -> io::Result<Vec<Vec<u8>>> {
        Ok(self.records.lock().values().cloned().collect())
    }

    fn try_lock(&self, key: &str) -> io::Result<Option<RecordLockGuard>> {
        let is_free = self.locked.lock().insert(key.to_owned());
        let held = || Held { key: key.to_owned(), locked: Arc::clone(&self.locked) };
        Ok(is_free.then(|| RecordLockGuard::new(held())))
    }
}
