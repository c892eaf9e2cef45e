//! The store, tasks and event handler shared by all logins of a process.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::task::TaskTracker;

use crate::attempt_record::{AttemptRecord, TIMEOUT as UNTIL_AGREED};
use crate::caller_tokens::CallerTokens;
use crate::issuer::Issuers;
use crate::pkce;
use crate::record::LoginRecord;
use crate::store::{FileStore, LoginStore, MemoryStore, RecordLockGuard, TIMEOUT};
use crate::target::{LoginError, LoginEvent, LoginStorage};

/// How often to retry a record lock.
const LOOK: Duration = Duration::from_millis(20);
/// How long to wait for critical tasks at shutdown.
const CLOSING: Duration = Duration::from_secs(5);

pub(crate) struct LoginContext {
    store: Arc<dyn LoginStore>,
    /// The fallback for records that the store can't save.
    memory: Arc<MemoryStore>,
    has_failed: AtomicBool,
    /// Why records can't be read at present.
    trouble: Mutex<Option<String>>,
    tasks: TaskTracker,
    /// Tasks that shutdown waits for.
    tokens: TaskTracker,
    event: Box<dyn Fn(LoginEvent<'_>) + Send + Sync>,
    pub(crate) callers: CallerTokens,
    pub(crate) issuers: Issuers,
}

impl LoginContext {
    pub(crate) fn new(
        storage: LoginStorage,
        tasks: TaskTracker,
        event: Box<dyn Fn(LoginEvent<'_>) + Send + Sync>,
    ) -> Self {
        let memory = Arc::new(MemoryStore::default());
        let store: Arc<dyn LoginStore> = match storage {
            LoginStorage::Folder(folder) => Arc::new(FileStore::new(folder)),
            LoginStorage::Custom(store) => store,
            LoginStorage::Memory => Arc::clone(&memory) as _,
        };
        Self::with(store, memory, tasks, event)
    }

    pub(crate) fn with(
        store: Arc<dyn LoginStore>,
        memory: Arc<MemoryStore>,
        tasks: TaskTracker,
        event: Box<dyn Fn(LoginEvent<'_>) + Send + Sync>,
    ) -> Self {
        let (has_failed, tokens) = (AtomicBool::default(), TaskTracker::new());
        Self {
            store,
            memory,
            has_failed,
            trouble: Mutex::default(),
            tasks,
            tokens,
            event,
            callers: CallerTokens::default(),
            issuers: Issuers::default(),
        }
    }

    pub(crate) fn tell(&self, event: LoginEvent<'_>) {
        (self.event)(event);
    }

    /// Spawns a task that shutdown can interrupt.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(work);
    }

    /// Spawns a task that shutdown waits for, such as one that stores a new token.
    pub(crate) fn spawn_critical(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(self.tokens.track_future(work));
    }

    pub(crate) async fn close(&self) {
        self.tokens.close();
        if timeout(CLOSING, self.tokens.wait()).await.is_err() {
            tracing::warn!("a token request is still in flight, a login may be lost");
        }
    }

    pub(crate) async fn load(&self, key: &str) -> io::Result<Option<LoginRecord>> {
        let loaded = self.try_load(key).await.inspect_err(|error| self.warn_once(error));
        let why = loaded.as_ref().err();
        let why = why.map(|error| format!("cannot read the stored login: {error}"));
        *self.trouble.lock() = why;
        Ok(loaded?.and_then(|text| LoginRecord::decode(&text)))
    }

    pub(crate) fn is_shared(&self) -> bool {
        self.store.is_shared()
    }

    /// Returns the last known record of an unavailable store.
    pub(crate) fn last(&self, key: &str) -> Option<LoginRecord> {
        self.store.last_known(key).and_then(|text| LoginRecord::decode(&text))
    }

    /// Stores an attempt for any process that receives its callback. Returns whether it was stored.
    pub(crate) async fn begin(&self, attempt: &AttemptRecord) -> bool {
        let Some(text) = attempt.encode().filter(|_| self.store.is_shared()) else { return false };
        let state = attempt.state.clone();
        let begun = self.block(move |store| store.save_attempt(&state, &text, UNTIL_AGREED)).await;
        begun.unwrap_or_default()
    }

    /// Removes and returns an attempt begun by any process.
    pub(crate) async fn take_attempt(&self, state: &str) -> io::Result<Option<AttemptRecord>> {
        if !self.store.is_shared() || !pkce::may_be_unguessable(state) {
            return Ok(None);
        }
        let own_state = state.to_owned();
        let text = self.block(move |store| store.take_attempt(&own_state)).await?;
        let attempt = text.and_then(|text| AttemptRecord::decode(&text));
        Ok(attempt.filter(|attempt| attempt.state == state))
    }

    /// Returns the read error of the store, or else that a sign-in is missing.
    pub(crate) fn missing_reason(&self) -> String {
        let trouble = self.trouble.lock();
        trouble.clone().unwrap_or_else(|| "not signed in".to_owned())
    }

    async fn try_load(&self, key: &str) -> io::Result<Option<Vec<u8>>> {
        if self.has_failed.load(Ordering::Relaxed)
            && let Some(text) = self.memory.load(key)?
        {
            return Ok(Some(text));
        }
        let key = key.to_owned();
        self.block(move |store| store.load(&key)).await
    }

    /// Stores a record. If that fails, logs a warning once and keeps the record in memory.
    pub(crate) async fn save(&self, key: &str, record: &LoginRecord) {
        let text = match record.encode() {
            Ok(text) => text,
            Err(error) => return tracing::error!(%error, "failed to encode a login"),
        };
        let (own_key, own_text) = (key.to_owned(), text.clone());
        let saved = self.block(move |store| store.save(&own_key, &own_text)).await;
        if let Err(error) = saved {
            self.warn_once(&error);
            let _ = self.memory.save(key, &text);
        }
    }

    pub(crate) async fn remove(&self, key: &str) -> Result<bool, LoginError> {
        let was_in_memory = self.memory.remove(key).unwrap_or_default();
        let key = key.to_owned();
        let removed = self.block(move |store| store.remove(&key)).await;
        let removed = removed.map_err(|error| {
            LoginError::new(
                format!("failed to delete the login: {error}"),
                "the login remains stored; try again",
            )
        })?;
        Ok(removed || was_in_memory)
    }

    /// Returns all valid records.
    pub(crate) async fn all(&self) -> Result<Vec<LoginRecord>, LoginError> {
        let texts = self.block(|store| store.all()).await.map_err(|error| {
            LoginError::new(
                format!("failed to read the stored logins: {error}"),
                "run `mcp-workbench auth store` to see where they are stored",
            )
        })?;
        let mut records: Vec<LoginRecord> =
            texts.iter().filter_map(|text| LoginRecord::decode(text)).collect();
        records.sort_by(|a, b| (&a.server, &a.account).cmp(&(&b.server, &b.account)));
        Ok(records)
    }

    /// Locks a record. `None` if it is still locked after 45 s.
    pub(crate) async fn lock(&self, key: &str) -> Option<RecordLockGuard> {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let own_key = key.to_owned();
            let tried = self.block(move |store| store.try_lock(&own_key)).await;
            let tried = tried.or_else(|error| {
                self.warn_once(&error);
                self.memory.try_lock(key)
            });
            if let Ok(Some(guard)) = tried {
                return Some(guard);
            }
            if Instant::now() >= deadline {
                return None;
            }
            sleep(LOOK).await;
        }
    }

    /// Logs once that the store is unavailable.
    fn warn_once(&self, error: &io::Error) {
        if self.store.is_shared() {
            tracing::debug!(%error, "login store unavailable, using the last known login");
        } else if !self.has_failed.swap(true, Ordering::Relaxed) {
            tracing::warn!(%error, "cannot store logins, they are lost when this process exits");
        }
    }

    async fn block<T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn LoginStore) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let store = Arc::clone(&self.store);
        spawn_blocking(move || work(store.as_ref())).await.map_err(io::Error::other)?
    }
}
