use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use pretty_assertions::assert_eq;

use super::*;

/// A keyring that can be unavailable, and counts reads.
#[derive(Default)]
struct Ring {
    secrets: Mutex<HashMap<String, Vec<u8>>>,
    is_locked: AtomicBool,
    /// Drops every write.
    is_forgetful: AtomicBool,
    asked: AtomicUsize,
}

impl Ring {
    fn reach(&self) -> io::Result<()> {
        let is_locked = self.is_locked.load(Ordering::Relaxed);
        if is_locked { Err(io::Error::other("the keyring is locked")) } else { Ok(()) }
    }
}

impl Keyring for Arc<Ring> {
    fn get(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.reach()?;
        Ok(self.secrets.lock().get(name).cloned())
    }

    fn put(&self, name: &str, secret: &[u8]) -> io::Result<()> {
        self.reach()?;
        if !self.is_forgetful.load(Ordering::Relaxed) {
            self.secrets.lock().insert(name.to_owned(), secret.to_owned());
        }
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.reach()?;
        self.secrets.lock().remove(name);
        Ok(())
    }
}

fn store(folder: &Path) -> (SwitchableStore, Arc<Ring>) {
    let ring = Arc::<Ring>::default();
    (SwitchableStore::new(folder.to_owned(), Arc::clone(&ring)), ring)
}

fn content(folder: &Path) -> Vec<u8> {
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    files.flat_map(|file| std::fs::read(file).unwrap()).collect()
}

#[test]
fn all_records_move_to_the_keyring_and_back() {
    let folder = tempfile::tempdir().unwrap();
    let (store, ring) = store(folder.path());
    store.save("one", b"secret-1").unwrap();
    store.save("two", b"secret-2").unwrap();
    assert_eq!(store.home().unwrap(), StorageBackend::File);

    assert_eq!(store.move_to(StorageBackend::Keyring).unwrap(), 2);
    assert_eq!(ring.secrets.lock().len(), 2);
    assert!(!String::from_utf8_lossy(&content(folder.path())).contains("secret"));
    // A process that is already running follows the switch.
    let other = SwitchableStore::new(folder.path().to_owned(), Arc::clone(&ring));
    assert_eq!(other.home().unwrap(), StorageBackend::Keyring);
    assert_eq!(other.load("one").unwrap().unwrap(), b"secret-1");
    other.save("three", b"secret-3").unwrap();
    assert!(store.remove("one").unwrap() && !store.remove("one").unwrap());
    assert_eq!(store.load("one").unwrap(), None);
    let mut all = store.all().unwrap();
    all.sort();
    assert_eq!(all, [b"secret-2", b"secret-3"]);

    assert_eq!(store.move_to(StorageBackend::File).unwrap(), 2);
    assert_eq!(store.move_to(StorageBackend::File).unwrap(), 0);
    assert_eq!(other.load("three").unwrap().unwrap(), b"secret-3");
    assert!(ring.secrets.lock().is_empty());
}

#[test]
fn keyring_is_read_again_only_after_a_change() {
    let folder = tempfile::tempdir().unwrap();
    let (store, ring) = store(folder.path());
    store.move_to(StorageBackend::Keyring).unwrap();
    let asked = || ring.asked.swap(0, Ordering::Relaxed);
    asked();
    assert_eq!(store.load("none").unwrap(), None);
    assert_eq!(asked(), 0);
    let other = SwitchableStore::new(folder.path().to_owned(), Arc::clone(&ring));
    other.save("key", b"first").unwrap();
    for _ in 0..5 {
        assert_eq!(store.load("key").unwrap().unwrap(), b"first");
    }
    assert_eq!(asked(), 1);
    other.save("key", b"second").unwrap();
    assert_eq!(store.load("key").unwrap().unwrap(), b"second");
    assert_eq!(asked(), 1);
}

#[test]
fn crash_between_the_two_writes_keeps_the_old_record() {
    let folder = tempfile::tempdir().unwrap();
    let (store, ring) = store(folder.path());
    store.move_to(StorageBackend::Keyring).unwrap();
    store.save("key", b"first").unwrap();
    assert_eq!(store.load("key").unwrap().unwrap(), b"first");
    store.folder.put("key", DIGEST, &digest_of(b"second")).unwrap();
    assert_eq!(store.load("key").unwrap().unwrap(), b"first");
    // A later write is seen.
    ring.secrets.lock().insert("key".to_owned(), b"second".to_vec());
    assert_eq!(store.load("key").unwrap().unwrap(), b"second");
    // The user has deleted the entry with the keyring's own program.
    ring.secrets.lock().clear();
    let other = SwitchableStore::new(folder.path().to_owned(), Arc::clone(&ring));
    assert_eq!(other.load("key").unwrap(), None);
    assert!(other.remove("key").unwrap());
}

#[test]
fn unavailable_keyring_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (store, ring) = store(folder.path());
    store.save("key", b"first").unwrap();
    ring.is_locked.store(true, Ordering::Relaxed);
    let error = store.move_to(StorageBackend::Keyring).unwrap_err();
    assert_eq!(error.to_string(), "the keyring is locked");
    ring.is_locked.store(false, Ordering::Relaxed);
    ring.is_forgetful.store(true, Ordering::Relaxed);
    let error = store.move_to(StorageBackend::Keyring).unwrap_err();
    assert_eq!(error.to_string(), "the keyring does not return stored values");
    assert_eq!(store.load("key").unwrap().unwrap(), b"first");

    ring.is_forgetful.store(false, Ordering::Relaxed);
    store.move_to(StorageBackend::Keyring).unwrap();
    ring.is_locked.store(true, Ordering::Relaxed);
    for error in [
        store.load("key").unwrap_err(),
        store.save("key", b"second").unwrap_err(),
        store.remove("key").unwrap_err(),
        store.all().unwrap_err(),
        store.move_to(StorageBackend::File).unwrap_err(),
    ] {
        assert_eq!(error.to_string(), "the keyring is locked");
    }
    // The store doesn't fall back to a file.
    assert!(!folder.path().join("key.json").exists());
    ring.is_locked.store(false, Ordering::Relaxed);
    assert_eq!(store.load("key").unwrap().unwrap(), b"first");
}

#[test]
fn locked_record_is_not_moved() {
    let folder = tempfile::tempdir().unwrap();
    let (store, ring) = store(folder.path());
    store.save("key", b"first").unwrap();
    let held = store.try_lock("key").unwrap();
    assert!(store.try_lock("key").unwrap().is_none());
    let error = store.move_to(StorageBackend::Keyring).unwrap_err();
    assert_eq!(error.to_string(), "a login is being changed; try again");
    assert!(ring.secrets.lock().is_empty());
    drop(held);
    assert_eq!(store.move_to(StorageBackend::Keyring).unwrap(), 1);
}
