//! Answers that are kept, by what was asked.
//!
//! An answer holds for the agent that was given it, for the same arguments, and for as long as the
//! same connection to the server stands with the same lists: what a server had before it was started
//! again, configured otherwise, or said that its lists have changed, is found no more, because the
//! key is another.

use std::collections::HashMap;
use std::num::NonZeroU64;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use moka::policy::{EvictionPolicy, Expiry};
use moka::sync::Cache;

use crate::backend::{BackendId, Outcome};
use crate::name::{AgentName, ServerName, ToolId};
use crate::raw::Raw;
use crate::settings::{Config, Launch, ServerConfig, defaults};

/// The bytes that an entry takes besides its contents.
const OVERHEAD: usize = 256;

/// Every store of answers that somebody uses.
#[derive(Default)]
pub(crate) struct Stores(Mutex<HashMap<Scope, Weak<Store>>>);

/// The servers whose answers are in a store, and how many bytes of them.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Scope {
    /// The one server whose it is; `None`: it is that of all others.
    server: Option<(ServerName, Launch)>,
    max_bytes: NonZeroU64,
}

/// Answers, the ones last used.
struct Store(Cache<Key, Kept>);

/// Where answers of one server are kept, and for how long.
#[derive(Clone)]
pub(crate) struct Answers {
    store: Arc<Store>,
    pub(crate) ttl: Duration,
}

/// A question to a server, with whom it was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) backend: BackendId,
    /// The version of its lists that held.
    pub(crate) version: u64,
    pub(crate) ttl: Duration,
    pub(crate) agent: Option<AgentName>,
    /// The tool, by its server's own name.
    pub(crate) tool: ToolId,
    /// The arguments in one spelling; none where there are none.
    pub(crate) arguments: Option<Vec<u8>>,
}

#[derive(Clone)]
struct Kept {
    answer: Raw,
    ttl: Duration,
}

/// An answer holds from when it was last given by its server.
struct Ttl;

impl Expiry<Key, Kept> for Ttl {
    fn expire_after_create(&self, _: &Key, kept: &Kept, _: Instant) -> Option<Duration> {
        Some(kept.ttl)
    }

    fn expire_after_update(
        &self,
        _: &Key,
        kept: &Kept,
        _: Instant,
        _: Option<Duration>,
    ) -> Option<Duration> {
        Some(kept.ttl)
    }
}

impl Stores {
    /// Where answers of a server are kept, if they are.
    pub(crate) fn of(&self, server: &ServerConfig, config: &Config) -> Option<Answers> {
        let cache = server.cache.or_ttl_of(config.cache);
        let ttl = cache.ttl()?;
        let own = cache.max_bytes();
        let scope = Scope {
            server: own.map(|_| (server.name.clone(), server.launch.clone())),
            max_bytes: own.or(config.cache.max_bytes()).unwrap_or(defaults::CACHE_BYTES),
        };
        let mut stores = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(store) = stores.get(&scope).and_then(Weak::upgrade) {
            return Some(Answers { store, ttl });
        }
        stores.retain(|_, store| store.strong_count() > 0);
        let store = Arc::new(Store::new(scope.max_bytes));
        stores.insert(scope, Arc::downgrade(&store));
        Some(Answers { store, ttl })
    }
}

impl Store {
    fn new(max_bytes: NonZeroU64) -> Self {
        let cache = Cache::builder()
            .max_capacity(max_bytes.get())
            .weigher(|key: &Key, kept: &Kept| {
                let arguments = key.arguments.as_ref().map_or(0, Vec::len);
                let size = OVERHEAD + arguments + kept.answer.len();
                u32::try_from(size).unwrap_or(u32::MAX)
            })
            .eviction_policy(EvictionPolicy::lru())
            .expire_after(Ttl);
        Self(cache.build())
    }
}

impl Answers {
    /// Returns the answer that the server gave before.
    pub(crate) fn get(&self, key: &Key) -> Option<Raw> {
        self.store.0.get(key).map(|kept| kept.answer)
    }

    /// Keeps an answer, if it is one that holds.
    pub(crate) fn keep(&self, key: Key, outcome: &Outcome) {
        let Outcome::Result(answer) = outcome else { return };
        if !is_plain(answer) {
            return;
        }
        // A part of a message would keep all of that message.
        let copy = Bytes::copy_from_slice(answer.as_bytes());
        let answer = Raw::part_of(&copy, 0..copy.len());
        self.store.0.insert(key, Kept { answer, ttl: self.ttl });
        // So that there is never more than there may be for long.
        self.store.0.run_pending_tasks();
    }
}

/// Returns `true` if an answer is a result and nothing else: no failure, no task, no question.
fn is_plain(answer: &Raw) -> bool {
    let Some(members) = answer.members() else { return false };
    members.iter().all(|(key, value)| match &**key {
        "isError" => value.as_bytes() == b"false",
        "resultType" => value.as_bytes() == br#""complete""#,
        "task" => false,
        _ => true,
    })
}

#[cfg(test)]
mod tests;
