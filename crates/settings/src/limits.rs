//! Limits on calls and messages (`limits`), and caching of results (`resultCache`).

use std::num::{NonZeroU32, NonZeroU64};
use std::time::Duration;

use crate::defaults;

/// Limits on calls and messages (`limits`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limits {
    /// Maximum bytes of tool definitions in one listing; beyond that, tools are listed as
    /// signatures.
    pub max_listing_bytes: usize,
    /// Maximum length in bytes of a message from an agent or a server.
    pub max_message_bytes: usize,
    /// Maximum bytes of a tool result in one response; `None` for no limit (`maxResultBytes`).
    pub max_result_bytes: Option<usize>,
    /// Rate limits of all agents and servers together.
    pub global: RateLimits,
    /// Default rate limits of an agent (`perAgent`).
    pub per_agent: RateLimits,
    /// Default rate limits of a server (`perServer`).
    pub per_server: RateLimits,
    /// How long a call may wait for a free slot (`maxWaitMs`).
    pub max_wait: Duration,
    /// How long the user has to confirm a call (`confirmTimeoutMs`).
    pub confirm_timeout: Duration,
    /// Maximum bytes of messages in memory, of agents and servers together (`maxBytesInFlight`).
    pub max_bytes_in_flight: usize,
    /// Quotas of each caller (`perCaller`).
    pub per_caller: CallerLimits,
    /// Quotas of each server (`perServer`).
    pub server_limits: ServerLimits,
}

impl Limits {
    /// Returns the size of each of the three message pools in bytes: agent requests, server
    /// messages, and responses not yet taken by agents. Each gets a third of the total, but at
    /// least two messages of maximum length.
    pub fn bytes_of_a_kind(&self) -> usize {
        (self.max_bytes_in_flight / 3).max(self.longest_message().saturating_mul(2))
    }

    /// Returns the memory in bytes to read a message of maximum length.
    pub fn longest_message(&self) -> usize {
        self.max_message_bytes.saturating_add(READING)
    }
}

/// Bytes read ahead together with a message.
const READING: usize = 64 * 1024;

/// The quotas of one caller, which is a named agent or all anonymous agents at one address
/// (`perCaller`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CallerLimits {
    /// Maximum number of sessions. One more evicts the caller's least recently used session
    /// (`maxSessions`).
    pub max_sessions: usize,
    /// Maximum new sessions per minute (`sessionsPerMinute`).
    pub sessions_per_minute: NonZeroU32,
    /// Maximum connections from one address (`maxConnections`).
    pub max_connections: usize,
    /// Maximum requests in flight; further ones are rejected (`maxConcurrentCalls`).
    pub max_concurrent_calls: usize,
    /// Maximum calls that wait for the user. One more cancels the caller's oldest (`maxInputRequests`).
    pub max_input_requests: usize,
    /// Maximum bytes of its messages in memory, counted per direction. By default half of the
    /// shared pool (`maxBytesInFlight`).
    pub max_bytes_in_flight: Option<usize>,
    /// Maximum stored remainders of truncated results. One more evicts the caller's oldest
    /// (`maxStoredResults`).
    pub max_stored_results: usize,
    /// Maximum bytes of these remainders (`maxStoredBytes`).
    pub max_stored_bytes: usize,
    /// Maximum processes of servers that only this caller uses. Further servers don't start
    /// (`maxProcesses`).
    pub max_processes: usize,
    /// Maximum open dashboards. One more closes the caller's oldest (`maxViewers`).
    pub max_viewers: usize,
    /// Maximum subscriptions to resources and tasks; further ones are rejected
    /// (`maxSubscriptions`).
    pub max_subscriptions: usize,
    /// Maximum bytes of their URIs and task IDs (`maxSubscriptionBytes`).
    pub max_subscription_bytes: usize,
}

/// The quotas of one server, for all agents together (`perServer`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ServerLimits {
    /// Maximum entries of one list, on all its pages; further ones are left out (`maxListEntries`).
    pub max_list_entries: usize,
    /// Maximum bytes of one list, on all its pages; further entries are left out (`maxListBytes`).
    pub max_list_bytes: usize,
    /// Maximum rate of reading changed lists (`listChangesPerMinute`).
    pub list_changes_per_minute: NonZeroU32,
    /// Maximum rate of reopening one event stream (`reconnectsPerMinute`).
    pub reconnects_per_minute: NonZeroU32,
    /// Maximum unanswered requests of it; further ones are rejected (`maxOpenRequests`).
    pub max_open_requests: usize,
    /// Maximum bytes of its messages in memory. By default a quarter of the memory for messages of
    /// all servers (`maxBytesInFlight`).
    pub max_bytes_in_flight: Option<usize>,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            max_list_entries: defaults::SERVER_LIST_ENTRIES,
            max_list_bytes: defaults::SERVER_LIST_BYTES,
            list_changes_per_minute: defaults::LIST_CHANGES_PER_MINUTE,
            reconnects_per_minute: defaults::RECONNECTS_PER_MINUTE,
            max_open_requests: defaults::SERVER_OPEN_REQUESTS,
            max_bytes_in_flight: None,
        }
    }
}

impl Default for CallerLimits {
    fn default() -> Self {
        Self {
            max_sessions: defaults::CALLER_SESSIONS,
            sessions_per_minute: defaults::SESSIONS_PER_MINUTE,
            max_connections: defaults::CALLER_CONNECTIONS,
            max_concurrent_calls: defaults::CALLER_CALLS,
            max_input_requests: defaults::CALLER_INPUT_REQUESTS,
            max_bytes_in_flight: None,
            max_stored_results: defaults::CALLER_STORED_RESULTS,
            max_stored_bytes: defaults::CALLER_STORED_BYTES,
            max_processes: defaults::CALLER_PROCESSES,
            max_viewers: defaults::CALLER_VIEWERS,
            max_subscriptions: defaults::CALLER_SUBSCRIPTIONS,
            max_subscription_bytes: defaults::CALLER_SUBSCRIPTION_BYTES,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_listing_bytes: defaults::LISTING_BYTES,
            max_message_bytes: defaults::MESSAGE_BYTES,
            max_result_bytes: None,
            global: RateLimits::default(),
            per_agent: RateLimits::default(),
            per_server: RateLimits::default(),
            max_wait: Duration::from_millis(defaults::WAIT_MS),
            confirm_timeout: Duration::from_millis(defaults::CONFIRM_TIMEOUT_MS),
            max_bytes_in_flight: defaults::BYTES_IN_FLIGHT,
            per_caller: CallerLimits::default(),
            server_limits: ServerLimits::default(),
        }
    }
}

/// Rate limits of calls. Unset values fall back to more general ones, and finally to no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RateLimits {
    calls_per_minute: Option<u32>,
    max_concurrent_calls: Option<u32>,
}

impl RateLimits {
    /// Creates rate limits; 0 means unlimited and `None` unset.
    pub fn new(calls_per_minute: Option<u32>, max_concurrent_calls: Option<u32>) -> Self {
        Self { calls_per_minute, max_concurrent_calls }
    }

    /// Returns these limits, with unset values taken from `other`.
    pub fn or(self, other: Self) -> Self {
        Self {
            calls_per_minute: self.calls_per_minute.or(other.calls_per_minute),
            max_concurrent_calls: self.max_concurrent_calls.or(other.max_concurrent_calls),
        }
    }

    /// Returns the lower of both limits.
    #[must_use]
    pub fn lowest(self, other: Self) -> Self {
        let lowest = |one: Option<u32>, other: Option<u32>| {
            let set = [one, other].into_iter().flatten().filter(|limit| *limit > 0);
            set.min().or(one).or(other)
        };
        Self {
            calls_per_minute: lowest(self.calls_per_minute, other.calls_per_minute),
            max_concurrent_calls: lowest(self.max_concurrent_calls, other.max_concurrent_calls),
        }
    }

    /// Returns the calls allowed per minute; `None` if unlimited (`callsPerMinute`).
    pub fn calls_per_minute(self) -> Option<NonZeroU32> {
        self.calls_per_minute.and_then(NonZeroU32::new)
    }

    /// Returns the limit on concurrent calls; `None` if unlimited (`maxConcurrentCalls`).
    pub fn max_concurrent_calls(self) -> Option<NonZeroU32> {
        self.max_concurrent_calls.and_then(NonZeroU32::new)
    }
}

/// Caching of results of read-only tools (`resultCache`). Unset values fall back to more general
/// ones; without a TTL, nothing is cached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ResultCacheConfig {
    ttl: Option<Duration>,
    max_bytes: Option<u64>,
}

impl ResultCacheConfig {
    /// Creates the settings; a TTL of zero disables caching.
    pub fn new(ttl: Option<Duration>, max_bytes: Option<u64>) -> Self {
        Self { ttl, max_bytes }
    }

    /// Returns these settings, with an unset TTL taken from `other`.
    pub fn or_ttl_of(self, other: Self) -> Self {
        Self { ttl: self.ttl.or(other.ttl), ..self }
    }

    /// Returns how long results are cached; `None` if they aren't (`ttlMs`).
    pub fn ttl(self) -> Option<Duration> {
        self.ttl.filter(|ttl| !ttl.is_zero())
    }

    /// Returns the cache size in bytes, if set (`maxBytes`).
    pub fn max_bytes(self) -> Option<NonZeroU64> {
        self.max_bytes.and_then(NonZeroU64::new)
    }
}
