//! Logins at servers, sealed, for all workbenches that have the same keys.
//!
//! *Theory of operation.* Whoever changes a login holds its lock: a key that is there for a while at most, with a mark
//! of whoever has it. Since a lock may be over before its holder is, nothing is written in the place of what its writer
//! has not seen, unless that still has the lock. What was read or written last is known here, too. It is what counts
//! where the store was emptied, and what waits here while the store cannot be used, so that no token is lost that
//! another one was given for. A login that has ended is a mark as well, which an emptied store lacks.

use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use redis::cmd;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep};
use tokio_util::task::TaskTracker;

use crate::login::{Guard, Store};
use crate::shared::keys::Keys;
use crate::shared::link::{Lane, Link, NoAnswer};
use crate::shared::names::hex;
use crate::shared::scripts::{RELEASE, REPLACE};

/// How long a lock holds: longer than a request for a token may take, and not as long as one waits for it.
const LOCK: Duration = Duration::from_secs(40);
/// How long a login that has ended is known to have.
const ENDED: Duration = Duration::from_hours(7 * 24);
/// How often one looks whether the store can be used again, and whether it still has what is known here.
const AGAIN: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_mins(1);
/// The longest record, in bytes, and what sealing adds.
const MAX_RECORD: usize = 1024 * 1024;
const SEAL: usize = 64;
/// The most logins that are listed.
const MAX_LISTED: usize = 10_000;
/// How often something is written in the place of what somebody else writes at the same time.
const TRIES: usize = 5;

/// The logins.
pub(crate) struct Logins(Arc<Inner>);

struct Inner {
    link: Arc<Link>,
    keys: Arc<Keys>,
    tasks: TaskTracker,
    runtime: Handle,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    known: HashMap<String, Known>,
    /// The locks that are held here: their marks, and until when.
    held: HashMap<String, (String, Instant)>,
    /// `true` once it was said that something cannot be opened.
    has_warned: bool,
}

/// A login as it was last read or written.
#[derive(Clone)]
struct Known {
    text: Vec<u8>,
    /// As it is in the store; nothing where it was never there.
    sealed: Vec<u8>,
    /// `true` for one that the store does not have yet.
    waits: bool,
}

/// A finding in the store.
enum Found {
    Nothing,
    Ended(Vec<u8>),
    Login {
        text: Vec<u8>,
        sealed: Vec<u8>,
    },
    /// Something that no key opens.
    Closed(Vec<u8>),
}

impl Logins {
    pub(crate) fn new(link: Arc<Link>, keys: Arc<Keys>, tasks: TaskTracker) -> Self {
        let (runtime, state) = (Handle::current(), Mutex::default());
        let stop = link.stop().clone();
        let inner = Arc::new(Inner { link, keys, tasks, runtime, state });
        let tending = stop.run_until_cancelled_owned(Inner::tend(Arc::downgrade(&inner)));
        inner.tasks.spawn(tending);
        Self(inner)
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self, key: &str) -> Option<Known> {
        self.state().known.get(key).cloned()
    }

    fn learn(&self, key: &str, text: &[u8], sealed: Vec<u8>) {
        let known = Known { text: text.to_vec(), sealed, waits: false };
        self.state().known.insert(key.to_owned(), known);
    }

    /// Returns `true` if the lock on a login is held here.
    fn has_lock(&self, key: &str) -> bool {
        self.state().held.get(key).is_some_and(|(_, until)| Instant::now() < *until)
    }

    async fn find(&self, key: &str) -> io::Result<Found> {
        let name = self.link.names.login(key);
        let mut get = cmd("GETRANGE");
        get.arg(&name).arg(0).arg(MAX_RECORD + SEAL);
        let sealed: Vec<u8> = match self.link.ask(Lane::Quick, &get).await {
            Ok(sealed) => sealed,
            Err(NoAnswer::Away) => return Err(away()),
            Err(NoAnswer::Foreign) => return Ok(Found::Closed(Vec::new())),
        };
        if sealed.is_empty() {
            return Ok(Found::Nothing);
        }
        Ok(match self.keys.open(&name, &sealed) {
            Some(text) if text.is_empty() => Found::Ended(sealed),
            Some(text) => Found::Login { text, sealed },
            None => Found::Closed(sealed),
        })
    }

    async fn load(&self, key: &str) -> io::Result<Option<Vec<u8>>> {
        if let Some(known) = self.known(key).filter(|known| known.waits) {
            let put = self.put(key, &known.text, known.sealed).await;
            // What another one has put there instead counts.
            if let Err(error) = put
                && is_away(&error)
            {
                return Err(error);
            }
        }
        match self.find(key).await? {
            Found::Login { text, sealed } => {
                self.learn(key, &text, sealed);
                Ok(Some(text))
            }
            Found::Ended(_) => {
                self.state().known.remove(key);
                Ok(None)
            }
            Found::Nothing => {
                // Somebody has emptied the store.
                let Some(known) = self.known(key) else { return Ok(None) };
                if let Err(error) = self.put(key, &known.text, Vec::new()).await
                    && is_away(&error)
                {
                    return Err(error);
                }
                Ok(self.known(key).map(|known| known.text))
            }
            Found::Closed(_) => {
                self.warn();
                let why = "what is in the shared store was sealed with another key, or was changed";
                Err(io::Error::new(ErrorKind::InvalidData, why))
            }
        }
    }

    fn warn(&self) {
        if !std::mem::replace(&mut self.state().has_warned, true) {
            tracing::warn!(
                "a login in the shared store cannot be opened: it was sealed with none of `shared.keys`, or was \
                 changed. Until it can, what is known here is used, and is not renewed; `mcp-workbench auth logout` \
                 removes it"
            );
        }
    }

    /// Puts a login in the place of what was there when it was `before`, unless somebody else has put another one there;
    /// whoever has the lock puts it there in any case.
    async fn put(&self, key: &str, text: &[u8], mut before: Vec<u8>) -> io::Result<()> {
        let name = self.link.names.login(key);
        let sealed = self.keys.seal(&name, text).map_err(io::Error::other)?;
        for _ in 0..TRIES {
            let words: [&[u8]; 2] = [&before, &sealed];
            match self.link.run::<u8>(&REPLACE, &name, &words).await {
                Ok(0) => {}
                Ok(_) => {
                    self.learn(key, text, sealed);
                    let mut add = cmd("SADD");
                    add.arg(self.link.names.logins()).arg(key);
                    let _: Result<(), _> = self.link.ask(Lane::Quick, &add).await;
                    return Ok(());
                }
                Err(_) => return Err(away()),
            }
            let found = self.find(key).await?;
            if !self.has_lock(key) {
                return Err(self.lost(key, found));
            }
            before = match found {
                Found::Login { sealed, .. } | Found::Ended(sealed) | Found::Closed(sealed) => {
                    sealed
                }
                Found::Nothing => Vec::new(),
            };
        }
        Err(io::Error::other("somebody else changes it all the time"))
    }

    /// Goes by what somebody else has put there.
    fn lost(&self, key: &str, found: Found) -> io::Error {
        match found {
            Found::Login { text, sealed } => self.learn(key, &text, sealed),
            Found::Ended(_) => drop(self.state().known.remove(key)),
            Found::Nothing | Found::Closed(_) => {
                if let Some(known) = self.state().known.get_mut(key) {
                    known.waits = false;
                }
            }
        }
        io::Error::new(ErrorKind::AlreadyExists, "another workbench has changed it meanwhile")
    }

    async fn save(&self, key: &str, text: &[u8]) -> io::Result<()> {
        if text.is_empty() || text.len() > MAX_RECORD {
            return Err(io::Error::other("it is too long to be kept"));
        }
        let before = self.known(key).map(|known| known.sealed).unwrap_or_default();
        match self.put(key, text, before.clone()).await {
            Err(error) if is_away(&error) => {
                let known = Known { text: text.to_vec(), sealed: before, waits: true };
                self.state().known.insert(key.to_owned(), known);
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                tracing::warn!(
                    "a login was changed by another workbench at the same time; that one's counts"
                );
                Ok(())
            }
            saved => saved,
        }
    }

    /// Puts what waits into the store as soon as that can be used, and what is known into one that was emptied.
    async fn tend(weak: Weak<Self>) {
        let (mut since, mut looked) = (None, Instant::now());
        loop {
            sleep(AGAIN).await;
            let Some(own) = weak.upgrade() else { return };
            let now = own.link.since();
            if now.is_none() {
                continue;
            }
            let is_due = now != since || looked.elapsed() >= LOOK;
            if is_due {
                (since, looked) = (now, Instant::now());
            }
            let keys: Vec<String> = {
                let state = own.state();
                let due = state.known.iter().filter(|(_, known)| is_due || known.waits);
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
        let there_is = !matches!(self.find(key).await?, Found::Nothing | Found::Ended(_));
        let name = self.link.names.login(key);
        let ended = self.keys.seal(&name, b"").map_err(io::Error::other)?;
        let mut set = cmd("SET");
        set.arg(&name).arg(ended).arg("PX").arg(millis(ENDED));
        self.link.ask::<()>(Lane::Quick, &set).await.map_err(|_| away())?;
        let mut strike = cmd("SREM");
        strike.arg(self.link.names.logins()).arg(key);
        let _: Result<(), _> = self.link.ask(Lane::Quick, &strike).await;
        let was_known = self.state().known.remove(key).is_some();
        Ok(there_is || was_known)
    }

    async fn all(&self) -> io::Result<Vec<Vec<u8>>> {
        let mut members = cmd("SRANDMEMBER");
        members.arg(self.link.names.logins()).arg(MAX_LISTED);
        let listed: Vec<String> = match self.link.ask(Lane::Bulk, &members).await {
            Ok(listed) => listed,
            Err(NoAnswer::Away) => return Err(away()),
            Err(NoAnswer::Foreign) => Vec::new(),
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

    async fn try_lock(self: &Arc<Self>, key: &str) -> io::Result<Option<Guard>> {
        if self.has_lock(key) {
            return Ok(None);
        }
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        let mark = hex(&random);
        // By the clock of the store it holds longer.
        let until = Instant::now() + LOCK;
        let mut set = cmd("SET");
        set.arg(self.link.names.login_lock(key)).arg(&mark);
        set.arg("NX").arg("PX").arg(millis(LOCK));
        let taken: Option<String> = self.link.ask(Lane::Quick, &set).await.map_err(|_| away())?;
        if taken.is_none() {
            return Ok(None);
        }
        self.state().held.insert(key.to_owned(), (mark.clone(), until));
        Ok(Some(Guard::new(Held { key: key.to_owned(), mark, inner: Arc::clone(self) })))
    }

    async fn begin(&self, state: &str, attempt: &[u8], lifetime: Duration) -> io::Result<bool> {
        if attempt.len() > MAX_RECORD {
            return Ok(false);
        }
        let name = self.link.names.sign_in(state);
        let sealed = self.keys.seal(&name, attempt).map_err(io::Error::other)?;
        let mut set = cmd("SET");
        set.arg(&name).arg(sealed).arg("PX").arg(millis(lifetime));
        Ok(self.link.ask::<()>(Lane::Quick, &set).await.is_ok())
    }

    async fn returned(&self, state: &str) -> io::Result<Option<Vec<u8>>> {
        let name = self.link.names.sign_in(state);
        let taken = self.link.ask::<Option<Vec<u8>>>(Lane::Quick, cmd("GETDEL").arg(&name)).await;
        let Some(sealed) = taken.map_err(|_| away())? else { return Ok(None) };
        let attempt = self.keys.open(&name, &sealed);
        if attempt.is_none() {
            self.warn();
        }
        Ok(attempt)
    }
}

/// A lock, until it is dropped.
struct Held {
    key: String,
    mark: String,
    inner: Arc<Inner>,
}

impl Drop for Held {
    fn drop(&mut self) {
        let inner = Arc::clone(&self.inner);
        let (key, mark) = (std::mem::take(&mut self.key), std::mem::take(&mut self.mark));
        inner.state().held.remove(&key);
        let own = Arc::clone(&inner);
        inner.tasks.spawn_on(
            async move {
                let name = own.link.names.login_lock(&key);
                let _: Result<u8, _> = own.link.run(&RELEASE, &name, &[mark.as_bytes()]).await;
            },
            &inner.runtime,
        );
    }
}

impl Store for Logins {
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

    fn try_lock(&self, key: &str) -> io::Result<Option<Guard>> {
        self.0.runtime.block_on(self.0.try_lock(key))
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn last(&self, key: &str) -> Option<Vec<u8>> {
        self.0.known(key).map(|known| known.text)
    }

    fn begin(&self, state: &str, attempt: &[u8], lifetime: Duration) -> io::Result<bool> {
        self.0.runtime.block_on(self.0.begin(state, attempt, lifetime))
    }

    fn returned(&self, state: &str) -> io::Result<Option<Vec<u8>>> {
        self.0.runtime.block_on(self.0.returned(state))
    }
}

fn is_away(error: &io::Error) -> bool {
    error.kind() == ErrorKind::NotConnected
}

fn away() -> io::Error {
    io::Error::new(ErrorKind::NotConnected, "the shared store cannot be used")
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
