//! The store, as those who keep records know it.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::backend::Elsewhere;
use crate::login;
use crate::observe::Observer;
use crate::shared::address::Address;
use crate::shared::connection::Limits;
use crate::shared::keys::Keys;
use crate::shared::link::Link;
use crate::shared::listings::Listings;
use crate::shared::logins::Logins;
use crate::shared::scripts::COUNT;
use crate::shared::sessions::Sessions;
use crate::shared::shelf::Shelf;
use crate::state::{Answer, Key, Memory, Rate, Record, Room, SessionKey, Store, Tenure};

/// The settings of a store besides its address.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long a session is kept that nobody uses (`http.sessionIdleMs`).
    pub session_idle: Duration,
    /// How long the store is waited for.
    pub limits: Limits,
}

/// A store on Redis or Valkey. When that cannot be used, everything is in memory; nobody waits for it
/// longer than [`Limits::answer`].
pub struct Redis(Arc<Inner>);

struct Inner {
    link: Arc<Link>,
    keys: Option<Arc<Keys>>,
    local: Arc<Memory>,
    sessions: Sessions,
    shelf: Shelf,
    tasks: TaskTracker,
}

impl Redis {
    /// Connects to the store; where that cannot be used yet, it is looked for until it can, or until `stop`.
    /// Work in the background runs on `tasks`.
    pub async fn open(
        address: Address,
        options: Options,
        observer: Arc<Observer>,
        tasks: &TaskTracker,
        stop: CancellationToken,
    ) -> Self {
        let Options { session_idle, limits } = options;
        let keys = address.keys.clone();
        let link = Link::new(address, limits, observer, tasks.clone(), stop);
        link.begin().await;
        let local = Arc::new(Memory::default());
        Self(Arc::new(Inner {
            sessions: Sessions::new(Arc::clone(&link), Arc::clone(&local), session_idle),
            shelf: Shelf::new(Arc::clone(&link), Arc::clone(&local), tasks.clone()),
            local,
            link,
            keys,
            tasks: tasks.clone(),
        }))
    }

    /// The logins of all who have the same keys; `None`: there is no key that they could be sealed with.
    pub fn logins(&self) -> Option<Arc<dyn login::Store>> {
        let Inner { link, keys, tasks, .. } = &*self.0;
        let keys = Arc::clone(keys.as_ref()?);
        Some(Arc::new(Logins::new(Arc::clone(link), keys, tasks.clone())))
    }

    /// The listings that all have found who have the same keys; `None`: there is no key that they could be sealed with.
    pub fn listings(&self) -> Option<Arc<dyn Elsewhere>> {
        let keys = Arc::clone(self.0.keys.as_ref()?);
        Some(Arc::new(Listings::new(Arc::clone(&self.0.link), keys)))
    }

    /// Returns `true` if the store can be used.
    pub fn is_up(&self) -> bool {
        self.0.link.is_up()
    }
}

impl Store for Redis {
    fn is_shared(&self) -> bool {
        true
    }

    fn put(&self, key: Key, record: Record, room: Room) -> Answer<'_, bool> {
        let inner = &self.0;
        Box::pin(async move {
            match (&key, record) {
                (Key::Session(session), Record::Session(record)) => {
                    inner.sessions.put(session, record).await
                }
                (Key::Rest(_) | Key::Task(_), record) => {
                    inner.shelf.put(key, record, room).await;
                    true
                }
                (_, record) => inner.local.put(key, record, room).await,
            }
        })
    }

    fn get<'a>(&'a self, key: &'a Key) -> Answer<'a, Option<Record>> {
        match key {
            Key::Session(session) => Box::pin(self.0.sessions.get(session)),
            Key::Rest(_) | Key::Task(_) => Box::pin(self.0.shelf.get(key)),
            Key::Suspended(_) => self.0.local.get(key),
        }
    }

    fn take<'a>(&'a self, key: &'a Key) -> Answer<'a, Option<Record>> {
        match key {
            Key::Session(session) => Box::pin(self.0.sessions.take(session)),
            Key::Rest(_) | Key::Task(_) => Box::pin(self.0.shelf.take(key)),
            Key::Suspended(_) => self.0.local.take(key),
        }
    }

    fn count<'a>(&'a self, subject: &'a str, rate: Rate) -> Answer<'a, Result<(), Duration>> {
        Box::pin(async move {
            let link = &self.0.link;
            let often = rate.per_minute.to_string();
            let wait: Result<u64, _> =
                link.run(&COUNT, &link.names.count(subject), &[often.as_bytes()]).await;
            match wait {
                Ok(0) => Ok(()),
                Ok(wait) => Err(Duration::from_micros(wait).min(Rate::PERIOD)),
                Err(_) => self.0.local.count(subject, rate).await,
            }
        })
    }

    fn keep<'a>(&'a self, session: &'a SessionKey, tenure: &'a Tenure) -> Answer<'a, bool> {
        Box::pin(self.0.sessions.keep(session, tenure))
    }

    fn end(&self, session: &SessionKey, tenure: &Tenure) {
        self.0.sessions.forget(session, tenure);
        let (inner, session, tenure) = (Arc::clone(&self.0), session.clone(), tenure.clone());
        self.0.tasks.spawn(async move {
            if inner.sessions.end(&session, &tenure).await {
                inner.shelf.end(&session).await;
            }
        });
    }

    fn remove(&self, key: &Key) {
        self.0.local.remove(key);
        if matches!(key, Key::Suspended(_)) {
            return;
        }
        let (inner, key) = (Arc::clone(&self.0), key.clone());
        self.0.tasks.spawn(async move {
            match &key {
                Key::Session(session) => drop(inner.sessions.take(session).await),
                _ => drop(inner.shelf.take(&key).await),
            }
        });
    }
}
