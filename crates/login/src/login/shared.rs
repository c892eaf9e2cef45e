//! The part of all logins of a process that each of them needs: the store, the tasks, and who is told.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::task::TaskTracker;

use crate::login::begun::{Attempt, PATIENCE as UNTIL_AGREED};
use crate::login::keep::{Folder, Guard, Memory, PATIENCE, Store};
use crate::login::pkce;
use crate::login::place::{Failure, Keep, Told};
use crate::login::record::Record;

/// How often one looks whether a lock is free.
const LOOK: Duration = Duration::from_millis(20);
/// How long the end of what must not be cut off is waited for.
const CLOSING: Duration = Duration::from_secs(5);

/// Everything that logins have in common.
pub(crate) struct Shared {
    store: Arc<dyn Store>,
    /// Where records are kept that the store does not take.
    memory: Arc<Memory>,
    has_failed: AtomicBool,
    /// Why records cannot be read at present.
    trouble: Mutex<Option<String>>,
    tasks: TaskTracker,
    /// Tasks that must not be cut off.
    tokens: TaskTracker,
    told: Box<dyn Fn(Told<'_>) + Send + Sync>,
}

impl Shared {
    pub(crate) fn new(
        keep: Keep,
        tasks: TaskTracker,
        told: Box<dyn Fn(Told<'_>) + Send + Sync>,
    ) -> Self {
        let memory = Arc::new(Memory::default());
        let store: Arc<dyn Store> = match keep {
            Keep::Folder(folder) => Arc::new(Folder::new(folder)),
            Keep::In(store) => store,
            Keep::Memory => Arc::clone(&memory) as _,
        };
        Self::with(store, memory, tasks, told)
    }

    pub(crate) fn with(
        store: Arc<dyn Store>,
        memory: Arc<Memory>,
        tasks: TaskTracker,
        told: Box<dyn Fn(Told<'_>) + Send + Sync>,
    ) -> Self {
        let (has_failed, tokens) = (AtomicBool::default(), TaskTracker::new());
        Self { store, memory, has_failed, trouble: Mutex::default(), tasks, tokens, told }
    }

    pub(crate) fn tell(&self, told: Told<'_>) {
        (self.told)(told);
    }

    /// Runs something that may be cut off at the end.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(work);
    }

    /// Runs something that must not be cut off: a token that is got is to be kept.
    pub(crate) fn spawn_token(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(self.tokens.track_future(work));
    }

    /// Waits for what must not be cut off.
    pub(crate) async fn close(&self) {
        self.tokens.close();
        if timeout(CLOSING, self.tokens.wait()).await.is_err() {
            tracing::warn!("a token is still waited for; a login may be lost");
        }
    }

    /// The record, if there is one; fails where that cannot be found out.
    pub(crate) async fn load(&self, key: &str) -> io::Result<Option<Record>> {
        let loaded = self.try_load(key).await.inspect_err(|error| self.complain(error));
        let why = loaded.as_ref().err();
        let why = why.map(|error| format!("the login that is kept cannot be read: {error}"));
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = why;
        Ok(loaded?.and_then(|text| Record::decode(&text)))
    }

    /// Returns `true` if several machines share the store.
    pub(crate) fn is_shared(&self) -> bool {
        self.store.is_shared()
    }

    /// The record as it was last known, where it cannot be read.
    pub(crate) fn last(&self, key: &str) -> Option<Record> {
        self.store.last(key).and_then(|text| Record::decode(&text))
    }

    /// Keeps a sign-in that has begun for whoever its browser comes back to. Returns whether it is kept.
    pub(crate) async fn begin(&self, attempt: &Attempt) -> bool {
        let Some(text) = attempt.encode().filter(|_| self.store.is_shared()) else { return false };
        let state = attempt.state.clone();
        let begun = self.block(move |store| store.begin(&state, &text, UNTIL_AGREED)).await;
        begun.unwrap_or_default()
    }

    /// Takes out a sign-in that has begun, here or elsewhere.
    pub(crate) async fn returned(&self, state: &str) -> io::Result<Option<Attempt>> {
        if !self.store.is_shared() || !pkce::may_be_unguessable(state) {
            return Ok(None);
        }
        let own_state = state.to_owned();
        let text = self.block(move |store| store.returned(&own_state)).await?;
        let attempt = text.and_then(|text| Attempt::decode(&text));
        Ok(attempt.filter(|attempt| attempt.state == state))
    }

    /// Why there is no login, as far as is known: nobody has signed in, or it cannot be read.
    pub(crate) fn why_none(&self) -> String {
        let trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        trouble.clone().unwrap_or_else(|| "nobody has signed in".to_owned())
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

    /// Keeps a record; in memory alone where the store does not take it, which is said once.
    pub(crate) async fn save(&self, key: &str, record: &Record) {
        let text = match record.encode() {
            Ok(text) => text,
            Err(error) => return tracing::error!(%error, "a login cannot be kept"),
        };
        let (own_key, own_text) = (key.to_owned(), text.clone());
        let saved = self.block(move |store| store.save(&own_key, &own_text)).await;
        if let Err(error) = saved {
            self.complain(&error);
            let _ = self.memory.save(key, &text);
        }
    }

    /// Removes a record. Returns whether there was one.
    pub(crate) async fn remove(&self, key: &str) -> Result<bool, Failure> {
        let was_in_memory = self.memory.remove(key).unwrap_or_default();
        let key = key.to_owned();
        let removed = self.block(move |store| store.remove(&key)).await;
        let removed = removed.map_err(|error| {
            Failure::new(
                format!("the login cannot be removed: {error}"),
                "it lasts until it can be removed",
            )
        })?;
        Ok(removed || was_in_memory)
    }

    /// Every record that can be read.
    pub(crate) async fn all(&self) -> Result<Vec<Record>, Failure> {
        let texts = self.block(|store| store.all()).await.map_err(|error| {
            Failure::new(
                format!("the logins cannot be read: {error}"),
                "`mcp-workbench auth store` says where they are",
            )
        })?;
        let mut records: Vec<Record> =
            texts.iter().filter_map(|text| Record::decode(text)).collect();
        records.sort_by(|a, b| (&a.server, &a.account).cmp(&(&b.server, &b.account)));
        Ok(records)
    }

    /// Waits until nobody else changes the record, for 45 s at most; `None` then.
    pub(crate) async fn lock(&self, key: &str) -> Option<Guard> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let own_key = key.to_owned();
            let tried = self.block(move |store| store.try_lock(&own_key)).await;
            let tried = tried.or_else(|error| {
                self.complain(&error);
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

    /// Says, once, that the store is of no use.
    fn complain(&self, error: &io::Error) {
        if self.store.is_shared() {
            tracing::debug!(%error, "a login is used as it was last known");
        } else if !self.has_failed.swap(true, Ordering::Relaxed) {
            tracing::warn!(%error, "logins cannot be kept; they last until this process ends");
        }
    }

    async fn block<T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn Store) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let store = Arc::clone(&self.store);
        spawn_blocking(move || work(store.as_ref())).await.map_err(io::Error::other)?
    }
}
