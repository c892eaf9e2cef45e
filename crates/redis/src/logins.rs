//! Sealed login records, shared by all workbenches with the same keys.
//!
//! The lock (TTL 40 s) can expire while its holder still works. Every write is therefore a
//! compare-and-set against the value last seen here; only the current lock holder retries against a
//! newer one. The last value read or written is also cached in this process. It is written back if
//! the store was flushed, and while the store is down it holds renewed tokens that would otherwise
//! be lost. A removed login leaves a tombstone; a flushed store has none.

use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use redis::cmd;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep};
use tokio_util::task::TaskTracker;

use crate::client::{ConnectionClass, QueryError, StoreClient};
use crate::scripts::{COMPARE_AND_SET, RELEASE};
use crate::sealing::{SEAL, SealingKeys};
use mcp_workbench_login::{LoginStore, RecordLockGuard};

/// TTL of a login lock: longer than a token request can take (30 s), shorter than others wait for
/// the lock (45 s).
const LOCK_TTL: Duration = Duration::from_secs(40);
/// How long a removed login leaves a tombstone.
const TOMBSTONE_TTL: Duration = Duration::from_hours(7 * 24);
/// Interval between checks whether the store is up again, and whether it still has the cached
/// logins.
const SYNC_INTERVAL: Duration = Duration::from_secs(1);
const VERIFY_INTERVAL: Duration = Duration::from_mins(1);
/// Maximum size of a record in bytes.
const MAX_RECORD: usize = 1024 * 1024;
/// Maximum number of logins returned by `all`.
const MAX_LISTED: usize = 10_000;
/// Maximum number of compare-and-set attempts against concurrent writers.
const TRIES: usize = 5;

pub(crate) struct SealedLogins(Arc<LoginsInner>);

struct LoginsInner {
    client: Arc<StoreClient>,
    keys: Arc<SealingKeys>,
    tasks: TaskTracker,
    runtime: Handle,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    known: HashMap<String, CachedLogin>,
    /// Locks held by this process: their tokens and local expiry.
    held: HashMap<String, (String, Instant)>,
    /// `true` once the log has a warning about an undecryptable login.
    has_warned: bool,
}

/// A login as it was last read or written.
#[derive(Clone)]
struct CachedLogin {
    text: Vec<u8>,
    /// The sealed value in the store; empty if it was never there.
    sealed: Vec<u8>,
    /// `true` if the store doesn't have it yet.
    is_unsynced: bool,
}

enum StoredLogin {
    Absent,
    Tombstone(Vec<u8>),
    Login {
        text: Vec<u8>,
        sealed: Vec<u8>,
    },
    /// No key opens the value.
    Undecryptable(Vec<u8>),
}

impl SealedLogins {
    pub(crate) fn new(
        client: Arc<StoreClient>,
        keys: Arc<SealingKeys>,
        tasks: TaskTracker,
    ) -> Self {
        let (runtime, state) = (Handle::current(), Mutex::default());
        let stop = client.stop().clone();
        let inner = Arc::new(LoginsInner { client, keys, tasks, runtime, state });
        let tending =
            stop.run_until_cancelled_owned(LoginsInner::sync_loop(Arc::downgrade(&inner)));
        inner.tasks.spawn(tending);
        Self(inner)
    }
}

impl LoginsInner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    fn known(&self, key: &str) -> Option<CachedLogin> {
        self.state().known.get(key).cloned()
    }

    fn learn(&self, key: &str, text: &[u8], sealed: Vec<u8>) {
        let known = CachedLogin { text: text.to_vec(), sealed, is_unsynced: false };
        self.state().known.insert(key.to_owned(), known);
    }

    /// Returns `true` if this process holds the lock on a login.
    fn has_lock(&self, key: &str) -> bool {
        self.state().held.get(key).is_some_and(|(_, until)| Instant::now() < *until)
    }

    async fn find(&self, key: &str) -> io::Result<StoredLogin> {
        let name = self.client.names.login(key);
        let mut get = cmd("GETRANGE");
        get.arg(&name).arg(0).arg(MAX_RECORD + SEAL);
        let sealed: Vec<u8> = match self.client.query(ConnectionClass::Interactive, &get).await {
            Ok(sealed) => sealed,
            Err(QueryError::Unavailable) => return Err(away()),
            Err(QueryError::WrongType) => return Ok(StoredLogin::Undecryptable(Vec::new())),
        };
        if sealed.is_empty() {
            return Ok(StoredLogin::Absent);
        }
        Ok(match self.keys.open(&name, &sealed) {
            Some(text) if text.is_empty() => StoredLogin::Tombstone(sealed),
            Some(text) => StoredLogin::Login { text, sealed },
            None => StoredLogin::Undecryptable(sealed),
        })
    }

    async fn load(&self, key: &str) -> io::Result<Option<Vec<u8>>> {
        if let Some(known) = self.known(key).filter(|known| known.is_unsynced) {
            let put = self.compare_and_set(key, &known.text, known.sealed).await;
            // If another workbench has written a newer value, that one is read below.
            if let Err(error) = put
                && is_away(&error)
            {
                return Err(error);
            }
        }
        match self.find(key).await? {
            StoredLogin::Login { text, sealed } => {
                self.learn(key, &text, sealed);
                Ok(Some(text))
            }
            StoredLogin::Tombstone(_) => {
                self.state().known.remove(key);
                Ok(None)
            }
            StoredLogin::Absent => {
                // The store was flushed.
                let Some(known) = self.known(key) else { return Ok(None) };
                if let Err(error) = self.compare_and_set(key, &known.text, Vec::new()).await
                    && is_away(&error)
                {
                    return Err(error);
                }
                Ok(self.known(key).map(|known| known.text))
            }
            StoredLogin::Undecryptable(_) => {
                self.warn();
                let why = "the stored login was encrypted with another key, or modified";
                Err(io::Error::new(ErrorKind::InvalidData, why))
            }
        }
    }

    fn warn(&self) {
        if !std::mem::replace(&mut self.state().has_warned, true) {
            tracing::warn!(
                "cannot decrypt a login in the shared store: it was encrypted with none of \
                 `sharedStore.keys`, or modified; the last known login is used without refresh \
                 (`mcp-workbench auth logout` deletes it)"
            );
        }
    }

    /// Replaces the value `before` of a login. If another value is found, the lock holder
    /// overwrites it; otherwise the other value is adopted and an `AlreadyExists` error returned.
    async fn compare_and_set(&self, key: &str, text: &[u8], mut before: Vec<u8>) -> io::Result<()> {
        let name = self.client.names.login(key);
        let sealed = self.keys.seal(&name, text).map_err(io::Error::other)?;
        for _ in 0..TRIES {
            let words: [&[u8]; 2] = [&before, &sealed];
            match self.client.run::<u8>(&COMPARE_AND_SET, &name, &words).await {
                Ok(0) => {}
                Ok(_) => {
                    self.learn(key, text, sealed);
                    let mut add = cmd("SADD");
                    add.arg(self.client.names.logins()).arg(key);
                    let _: Result<(), _> =
                        self.client.query(ConnectionClass::Interactive, &add).await;
                    return Ok(());
                }
                Err(_) => return Err(away()),
            }
            let found = self.find(key).await?;
            if !self.has_lock(key) {
                return Err(self.adopt_winner(key, found));
            }
            before = match found {
                StoredLogin::Login { sealed, .. }
                | StoredLogin::Tombstone(sealed)
                | StoredLogin::Undecryptable(sealed) => sealed,
                StoredLogin::Absent => Vec::new(),
            };
        }
        Err(io::Error::other("too many concurrent changes"))
    }

    /// Caches the value that another workbench has written.
    fn adopt_winner(&self, key: &str, found: StoredLogin) -> io::Error {
        match found {
            StoredLogin::Login { text, sealed } => self.learn(key, &text, sealed),
            StoredLogin::Tombstone(_) => drop(self.state().known.remove(key)),
            StoredLogin::Absent | StoredLogin::Undecryptable(_) => {
                if let Some(known) = self.state().known.get_mut(key) {
                    known.is_unsynced = false;
                }
            }
        }
        io::Error::new(ErrorKind::AlreadyExists, "another workbench has changed it")
    }

    async fn save(&self, key: &str, text: &[u8]) -> io::Result<()> {
        if text.is_empty() || text.len() > MAX_RECORD {
            return Err(io::Error::other("the login record is too large"));
        }
        let before = self.known(key).map(|known| known.sealed).unwrap_or_default();
        match self.compare_and_set(key, text, before.clone()).await {
            Err(error) if is_away(&error) => {
                let known = CachedLogin { text: text.to_vec(), sealed: before, is_unsynced: true };
                self.state().known.insert(key.to_owned(), known);
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                tracing::warn!(
                    "another workbench changed a login at the same time, using its version"
                );
                Ok(())
            }
            saved => saved,
        }
    }

    /// Writes unsynced logins once the store is up again, and all cached logins if the store was
    /// flushed.
    async fn sync_loop(weak: Weak<Self>) {
        let (mut since, mut looked) = (None, Instant::now());
        loop {
            sleep(SYNC_INTERVAL).await;
            let Some(own) = weak.upgrade() else { return };
            let now = own.client.up_since();
            if now.is_none() {
                continue;
            }
            let is_due = now != since || looked.elapsed() >= VERIFY_INTERVAL;
            if is_due {
                (since, looked) = (now, Instant::now());
            }
            let keys: Vec<String> = {
                let state = own.state();
                let due = state.known.iter().filter(|(_, known)| is_due || known.is_unsynced);
                due.map(|(key, _)| key.clone()).collect()
            };
            for key in keys {
                let is_away = own.load(&key).await.is_err_and(|error| is_away(&error));
                if is_away {
                    break;
                }
            }
        }
    }

    async fn remove(&self, key: &str) -> io::Result<bool> {
        let there_is =
            !matches!(self.find(key).await?, StoredLogin::Absent | StoredLogin::Tombstone(_));
        let name = self.client.names.login(key);
        let ended = self.keys.seal(&name, b"").map_err(io::Error::other)?;
        let mut set = cmd("SET");
        set.arg(&name).arg(ended).arg("PX").arg(millis(TOMBSTONE_TTL));
        self.client.query::<()>(ConnectionClass::Interactive, &set).await.map_err(|_| away())?;
        let mut strike = cmd("SREM");
        strike.arg(self.client.names.logins()).arg(key);
        let _: Result<(), _> = self.client.query(ConnectionClass::Interactive, &strike).await;
        let was_known = self.state().known.remove(key).is_some();
        Ok(there_is || was_known)
    }

    async fn all(&self) -> io::Result<Vec<Vec<u8>>> {
        let mut members = cmd("SRANDMEMBER");
        members.arg(self.client.names.logins()).arg(MAX_LISTED);
        let listed: Vec<String> = match self.client.query(ConnectionClass::Bulk, &members).await {
            Ok(listed) => listed,
            Err(QueryError::Unavailable) => return Err(away()),
            Err(QueryError::WrongType) => Vec::new(),
        };
        let mut keys: Vec<String> = self.state().known.keys().cloned().collect();
        keys.extend(listed.into_iter().filter(|key| key.len() <= 128));
        keys.sort();
        keys.dedup();
        let mut all = Vec::new();
        for key in keys {
            match self.load(&key).await {
                Ok(text) => all.extend(text),
                Err(error) if error.kind() == ErrorKind::InvalidData => {}
                Err(error) => return Err(error),
            }
        }
        Ok(all)
    }

    async fn try_lock(self: &Arc<Self>, key: &str) -> io::Result<Option<RecordLockGuard>> {
        if self.has_lock(key) {
            return Ok(None);
        }
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        let mark = hex::encode(random);
        // Computed before the request, so the lock expires here before it does in the store.
        let until = Instant::now() + LOCK_TTL;
        let mut set = cmd("SET");
        set.arg(self.client.names.login_lock(key)).arg(&mark);
        set.arg("NX").arg("PX").arg(millis(LOCK_TTL));
        let taken: Option<String> =
            self.client.query(ConnectionClass::Interactive, &set).await.map_err(|_| away())?;
        if taken.is_none() {
            return Ok(None);
        }
        self.state().held.insert(key.to_owned(), (mark.clone(), until));
        Ok(Some(RecordLockGuard::new(LoginLockGuard {
            key: key.to_owned(),
            mark,
            inner: Arc::clone(self),
        })))
    }

    async fn begin(&self, state: &str, attempt: &[u8], lifetime: Duration) -> io::Result<bool> {
        if attempt.len() > MAX_RECORD {
            return Ok(false);
        }
        let name = self.client.names.sign_in(state);
        let sealed = self.keys.seal(&name, attempt).map_err(io::Error::other)?;
        let mut set = cmd("SET");
        set.arg(&name).arg(sealed).arg("PX").arg(millis(lifetime));
        Ok(self.client.query::<()>(ConnectionClass::Interactive, &set).await.is_ok())
    }

    async fn returned(&self, state: &str) -> io::Result<Option<Vec<u8>>> {
        let name = self.client.names.sign_in(state);
        let taken = self
            .client
            .query::<Option<Vec<u8>>>(ConnectionClass::Interactive, cmd("GETDEL").arg(&name))
            .await;
        let Some(sealed) = taken.map_err(|_| away())? else { return Ok(None) };
        let attempt = self.keys.open(&name, &sealed);
        if attempt.is_none() {
            self.warn();
        }
        Ok(attempt)
    }
}

/// Releases the lock on drop.
struct LoginLockGuard {
    key: String,
    mark: String,
    inner: Arc<LoginsInner>,
}

impl Drop for LoginLockGuard {
    fn drop(&mut self) {
        let inner = Arc::clone(&self.inner);
        let (key, mark) = (std::mem::take(&mut self.key), std::mem::take(&mut self.mark));
        inner.state().held.remove(&key);
        let own = Arc::clone(&inner);
        inner.tasks.spawn_on(
            async move {
                let name = own.client.names.login_lock(&key);
                let _: Result<u8, _> = own.client.run(&RELEASE, &name, &[mark.as_bytes()]).await;
            },
            &inner.runtime,
        );
    }
}

impl LoginStore for SealedLogins {
    fn load(&self, key: &str) -> io::Result<Option<Vec<u8>>> {
        self.0.runtime.block_on(self.0.load(key))
    }

    fn save(&self, key: &str, record: &[u8]) -> io::Result<()> {
        self.0.runtime.block_on(self.0.save(key, record))
    }

    fn remove(&self, key: &str) -> io::Result<bool> {
        self.0.runtime.block_on(self.0.remove(key))
    }

    fn all(&self) -> io::Result<Vec<Vec<u8>>> {
        self.0.runtime.block_on(self.0.all())
    }

    fn try_lock(&self, key: &str) -> io::Result<Option<RecordLockGuard>> {
        self.0.runtime.block_on(self.0.try_lock(key))
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn last_known(&self, key: &str) -> Option<Vec<u8>> {
        self.0.known(key).map(|known| known.text)
    }

    fn save_attempt(&self, state: &str, attempt: &[u8], lifetime: Duration) -> io::Result<bool> {
        self.0.runtime.block_on(self.0.begin(state, attempt, lifetime))
    }

    fn take_attempt(&self, state: &str) -> io::Result<Option<Vec<u8>>> {
        self.0.runtime.block_on(self.0.returned(state))
    }
}

fn is_away(error: &io::Error) -> bool {
    error.kind() == ErrorKind::NotConnected
}

fn away() -> io::Error {
    io::Error::new(ErrorKind::NotConnected, "the shared store is unavailable")
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
