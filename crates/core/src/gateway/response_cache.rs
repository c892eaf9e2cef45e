//! Cache of tool results.
//!
//! The key contains the agent, arguments, connection and list version, so a restart, a changed
//! configuration or changed lists invalidate a server's results.

use std::collections::HashMap;
use std::num::NonZeroU64;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use moka::policy::{EvictionPolicy, Expiry};
use moka::sync::Cache;
use parking_lot::Mutex;

use crate::backend::{BackendId, RpcOutcome};
use mcp_workbench_names::{AgentName, ServerName, ToolId};
use mcp_workbench_settings::{Config, Launch, ServerConfig, defaults};
use mcp_workbench_wire::json::RawJson;

/// Estimated size of an entry without its contents, in bytes.
const OVERHEAD: usize = 256;

/// All caches in use. Gateways with equal settings share one.
#[derive(Default)]
pub(crate) struct ResponseCaches(Mutex<HashMap<Scope, Weak<ResponseCacheInner>>>);

#[derive(Clone, PartialEq, Eq, Hash)]
struct Scope {
    /// The server with its own `maxBytes`; `None` for the cache shared by all others.
    server: Option<(ServerName, Launch)>,
    max_bytes: NonZeroU64,
}

struct ResponseCacheInner(Cache<ResponseKey, CachedResponse>);

/// The cache of a server, with its time to live.
#[derive(Clone)]
pub(crate) struct ResponseCache {
    store: Arc<ResponseCacheInner>,
    pub(crate) ttl: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ResponseKey {
    pub(crate) backend: BackendId,
    pub(crate) version: u64,
    pub(crate) ttl: Duration,
    pub(crate) agent: Option<AgentName>,
    pub(crate) tool: ToolId,
    /// The arguments in canonical form.
    pub(crate) arguments: Option<Vec<u8>>,
}

#[derive(Clone)]
struct CachedResponse {
    answer: RawJson,
    ttl: Duration,
}

/// Expires entries after their time to live, counted from the last write.
struct Ttl;

impl Expiry<ResponseKey, CachedResponse> for Ttl {
    fn expire_after_create(
        &self,
        _: &ResponseKey,
        cached: &CachedResponse,
        _: Instant,
    ) -> Option<Duration> {
        Some(cached.ttl)
    }

    fn expire_after_update(
        &self,
        _: &ResponseKey,
        cached: &CachedResponse,
        _: Instant,
        _: Option<Duration>,
    ) -> Option<Duration> {
        Some(cached.ttl)
    }
}

impl ResponseCaches {
    /// Returns the cache of a server; `None` if caching is off.
    pub(crate) fn of(&self, server: &ServerConfig, config: &Config) -> Option<ResponseCache> {
        let cache = server.result_cache.or_ttl_of(config.result_cache);
        let ttl = cache.ttl()?;
        let own = cache.max_bytes();
        let scope = Scope {
            server: own.map(|_| (server.name.clone(), server.launch.clone())),
            max_bytes: own.or(config.result_cache.max_bytes()).unwrap_or(defaults::CACHE_BYTES),
        };
        let mut stores = self.0.lock();
        if let Some(store) = stores.get(&scope).and_then(Weak::upgrade) {
            return Some(ResponseCache { store, ttl });
        }
        stores.retain(|_, store| store.strong_count() > 0);
        let store = Arc::new(ResponseCacheInner::new(scope.max_bytes));
        stores.insert(scope, Arc::downgrade(&store));
        Some(ResponseCache { store, ttl })
    }
}

impl ResponseCacheInner {
    fn new(max_bytes: NonZeroU64) -> Self {
        let cache = Cache::builder()
            .max_capacity(max_bytes.get())
            .weigher(|key: &ResponseKey, cached: &CachedResponse| {
                let arguments = key.arguments.as_ref().map_or(0, Vec::len);
                let size = OVERHEAD + arguments + cached.answer.len();
                u32::try_from(size).unwrap_or(u32::MAX)
            })
            .eviction_policy(EvictionPolicy::lru())
            .expire_after(Ttl);
        Self(cache.build())
    }
}

impl ResponseCache {
    pub(crate) fn get(&self, key: &ResponseKey) -> Option<RawJson> {
        self.store.0.get(key).map(|cached| cached.answer)
    }

    /// Stores a result unless it is an error, a task or a request for input.
    pub(crate) fn insert_if_cacheable(&self, key: ResponseKey, outcome: &RpcOutcome) {
        let RpcOutcome::Result(answer) = outcome else { return };
        if !is_cacheable(answer) {
            return;
        }
        // A slice would keep the whole message alive.
        let copy = Bytes::copy_from_slice(answer.as_bytes());
        let answer = RawJson::from_range(&copy, 0..copy.len());
        self.store.0.insert(key, CachedResponse { answer, ttl: self.ttl });
        // Evict immediately, so that the size limit holds.
        self.store.0.run_pending_tasks();
    }
}

/// Returns `true` for a final, successful result.
fn is_cacheable(answer: &RawJson) -> bool {
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
