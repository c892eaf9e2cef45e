//! The `limits` section (rate, size and concurrency limits) and the `resultCache` section.

use std::num::NonZeroU32;

use crate::sections::ranges;
use crate::syntax::checks::{duration_from_millis, narrow_number};
use crate::syntax::reader::Located;
use crate::syntax::section::section;
use mcp_workbench_settings::{
    CallerLimits, Limits, RateLimits, ResultCacheConfig, ServerLimits, defaults,
};

section! {
    /// Limits on message sizes, call rates and concurrency.
    #[schemars(inline)]
    pub(crate) struct RawLimits in "the top-level `limits`" {
        /// Maximum bytes of tool definitions in one result. Longer listings contain signatures
        /// instead.
        #[schemars(extend("default" = defaults::LISTING_BYTES))]
        "maxListingBytes" as pub(crate) max_listing_bytes: Located<u64> [ranges::LISTING_BYTES],

        /// Maximum size of a message from an agent or a server, in bytes.
        #[schemars(extend("default" = defaults::MESSAGE_BYTES))]
        "maxMessageBytes" as pub(crate) max_message_bytes: Located<u64> [ranges::MESSAGE_BYTES],

        /// Memory for long messages, in bytes. A third each is for requests of agents, messages
        /// from servers, and responses that agents have not received yet; reading pauses while its
        /// third is full. At least six times `maxMessageBytes`, even if set lower.
        #[schemars(extend("default" = defaults::BYTES_IN_FLIGHT))]
        "maxBytesInFlight" as pub(crate) max_bytes_in_flight: Located<u64> [ranges::BYTES_IN_FLIGHT],

        /// Maximum bytes of a tool result that an agent gets at once. It can read the rest as a
        /// resource, in parts of this size. No limit by default.
        "maxResultBytes" as pub(crate) max_result_bytes: Located<u64> [ranges::RESULT_BYTES],

        /// Maximum calls per minute of all agents together. 0 means no limit.
        #[schemars(extend("default" = 0))]
        rule "callsPerMinute" as pub(crate) calls_per_minute: Located<u64> [(0, ranges::MAX_CALLS)],

        /// Maximum concurrent calls of all agents together. 0 means no limit.
        #[schemars(extend("default" = 0))]
        "maxConcurrentCalls" as pub(crate) max_concurrent_calls: Located<u64> [(0, ranges::MAX_CALLS)],

        /// Limits for each agent. Overridden by `limits` in `agentPolicies`.
        "perAgent" as pub(crate) per_agent: RawRateLimits,

        /// Limits for each server, for all agents together. Limits on calls are overridden by the
        /// server's own `limits`.
        "perServer" as pub(crate) per_server: RawServerLimits,

        /// How long a call waits if too many others are running, in milliseconds.
        #[schemars(extend("default" = defaults::WAIT_MS))]
        "maxWaitMs" as pub(crate) max_wait_ms: Located<u64> [(0, ranges::MAX_TIMEOUT_MS)],

        /// How long the user has to confirm a call, in milliseconds.
        #[schemars(extend("default" = defaults::CONFIRM_TIMEOUT_MS))]
        "confirmTimeoutMs" as pub(crate) confirm_timeout_ms: Located<u64> [(1, ranges::MAX_TIMEOUT_MS)],

        /// Quotas for each caller: a named agent, or an IP address for all agents without a name.
        "perCaller" as pub(crate) per_caller: RawCallerLimits,
    }
}

section! {
    /// Quotas of one caller. They keep it from blocking others.
    #[schemars(rename = "PerCaller")]
    pub(crate) struct RawCallerLimits in "`limits.perCaller`" {
        /// Maximum number of sessions. If it is reached, a new session ends the caller's least
        /// recently used one.
        #[schemars(extend("default" = defaults::CALLER_SESSIONS))]
        "maxSessions" as pub(crate) max_sessions: Located<u64> [ranges::SESSIONS],

        /// Maximum number of new sessions per minute.
        #[schemars(extend("default" = defaults::SESSIONS_PER_MINUTE))]
        "sessionsPerMinute" as pub(crate) sessions_per_minute: Located<u64> [(1, ranges::MAX_CALLS)],

        /// Maximum number of connections from one IP address. If it is reached, a new connection
        /// closes an idle one.
        #[schemars(extend("default" = defaults::CALLER_CONNECTIONS))]
        "maxConnections" as pub(crate) max_connections: Located<u64> [ranges::CONNECTIONS],

        /// Maximum number of concurrent requests. Further requests are rejected.
        #[schemars(extend("default" = defaults::CALLER_CALLS))]
        "maxConcurrentCalls" as pub(crate) max_concurrent_calls: Located<u64> [(1, ranges::MAX_CALLS)],

        /// Maximum number of calls that wait for user input. If it is reached, a new one cancels
        /// the caller's oldest.
        #[schemars(extend("default" = defaults::CALLER_INPUT_REQUESTS))]
        "maxInputRequests" as pub(crate) max_input_requests: Located<u64> [(1, ranges::MAX_CALLS)],

        /// Memory for the caller's messages, in bytes, counted separately for requests and for
        /// responses it has not received yet. A single message may always be longer. Default: half
        /// of the memory that all callers share.
        "maxBytesInFlight" as pub(crate) max_bytes_in_flight: Located<u64> [ranges::BYTES_IN_FLIGHT],

        /// Maximum number of stored remainders of truncated results. If it is reached, a new one
        /// deletes the caller's oldest.
        #[schemars(extend("default" = defaults::CALLER_STORED_RESULTS))]
        "maxStoredResults" as pub(crate) max_stored_results: Located<u64> [(1, ranges::MAX_CALLS)],

        /// Maximum bytes of these remainders, and so of a single one. If it is reached, a new one
        /// deletes the caller's oldest.
        #[schemars(extend("default" = defaults::CALLER_STORED_BYTES))]
        "maxStoredBytes" as pub(crate) max_stored_bytes: Located<u64> [ranges::STORED_BYTES],

        /// Maximum number of server processes that only this caller uses, because of `isolation` or
        /// because the server asked it for input. Further servers are not started.
        #[schemars(extend("default" = defaults::CALLER_PROCESSES))]
        "maxProcesses" as pub(crate) max_processes: Located<u64> [(1, ranges::MAX_CALLS)],

        /// Maximum number of open dashboards. If it is reached, a new one closes the caller's
        /// oldest. Operators are counted separately.
        #[schemars(extend("default" = defaults::CALLER_VIEWERS))]
        "maxViewers" as pub(crate) max_viewers: Located<u64> [(1, ranges::MAX_CALLS)],

        /// Maximum number of subscriptions to resources and tasks. Further ones are rejected.
        #[schemars(extend("default" = defaults::CALLER_SUBSCRIPTIONS))]
        "maxSubscriptions" as pub(crate) max_subscriptions: Located<u64> [(1, ranges::MAX_CALLS)],

        /// Maximum bytes of the URIs and task IDs of these subscriptions.
        #[schemars(extend("default" = defaults::CALLER_SUBSCRIPTION_BYTES))]
        "maxSubscriptionBytes" as pub(crate) max_subscription_bytes: Located<u64> [ranges::SUBSCRIPTION_BYTES],
    }
}

section! {
    /// Limits of one server. They keep it from blocking others.
    #[schemars(rename = "PerServer")]
    pub(crate) struct RawServerLimits in "`limits.perServer`" {
        /// Maximum calls per minute; 0 means no limit. All may come at once; after that, they are
        /// admitted at an even rate.
        "callsPerMinute" as pub(crate) calls_per_minute: Located<u64> [(0, ranges::MAX_CALLS)],

        /// Maximum concurrent calls; 0 means no limit. Further calls wait.
        "maxConcurrentCalls" as pub(crate) max_concurrent_calls: Located<u64> [(0, ranges::MAX_CALLS)],

        /// Maximum number of entries in each of its lists (tools, prompts, resources, resource
        /// templates). Further entries are left out.
        #[schemars(extend("default" = defaults::SERVER_LIST_ENTRIES))]
        "maxListEntries" as pub(crate) max_list_entries: Located<u64> [(1, ranges::MAX_CALLS)],

        /// Maximum bytes of each of its lists, on all pages together. Further entries are left
        /// out.
        #[schemars(extend("default" = defaults::SERVER_LIST_BYTES))]
        "maxListBytes" as pub(crate) max_list_bytes: Located<u64> [ranges::LIST_BYTES],

        /// How often per minute its changed lists are read again. All may come at once; after that,
        /// they are read at an even rate.
        #[schemars(extend("default" = defaults::LIST_CHANGES_PER_MINUTE))]
        "listChangesPerMinute" as pub(crate) list_changes_per_minute: Located<u64> [(1, ranges::MAX_CALLS)],

        /// How often per minute an event stream that it closed is opened again. All may come at
        /// once; after that, it is opened at an even rate.
        #[schemars(extend("default" = defaults::RECONNECTS_PER_MINUTE))]
        "reconnectsPerMinute" as pub(crate) reconnects_per_minute: Located<u64> [(1, ranges::MAX_CALLS)],

        /// Maximum number of its requests that its client has not answered yet. Further ones are
        /// rejected.
        #[schemars(extend("default" = defaults::SERVER_OPEN_REQUESTS))]
        "maxOpenRequests" as pub(crate) max_open_requests: Located<u64> [(1, ranges::MAX_CALLS)],

        /// Memory for the server's messages that were not passed on yet, in bytes. Reading from the
        /// server pauses when it is used up. A single message may always be longer. Default: a
        /// quarter of the memory for messages of all servers.
        "maxBytesInFlight" as pub(crate) max_bytes_in_flight: Located<u64> [ranges::BYTES_IN_FLIGHT],
    }
}

section! {
    /// Limits on calls.
    #[schemars(rename = "Rates")]
    pub struct RawRateLimits in "`limits`" {
        /// Maximum calls per minute; 0 means no limit. All may come at once; after that, they are
        /// admitted at an even rate.
        "callsPerMinute" as pub(crate) calls_per_minute: Located<u64> [(0, ranges::MAX_CALLS)],

        /// Maximum concurrent calls; 0 means no limit. Further calls wait.
        "maxConcurrentCalls" as pub(crate) max_concurrent_calls: Located<u64> [(0, ranges::MAX_CALLS)],
    }
}

section! {
    /// Caching of results of read-only tools: those annotated with `readOnlyHint` and
    /// `idempotentHint`.
    #[schemars(rename = "ResultCache")]
    pub struct RawResultCache in "`resultCache`" {
        /// How long to cache a result, in milliseconds. 0 turns caching off.
        "ttlMs" as pub(crate) ttl_ms: Located<u64> [(0, ranges::MAX_TIMEOUT_MS)],

        /// Size of the cache, in bytes. Servers without their own `maxBytes` share one cache.
        /// Default: 16 MiB.
        "maxBytes" as pub(crate) max_bytes: Located<u64> [ranges::CACHE_BYTES],
    }
}

impl RawLimits {
    pub(crate) fn checked(self) -> Limits {
        let Self {
            max_listing_bytes,
            max_message_bytes,
            max_bytes_in_flight,
            max_result_bytes,
            calls_per_minute,
            max_concurrent_calls,
            per_agent,
            per_server,
            max_wait_ms,
            confirm_timeout_ms,
            per_caller,
        } = self;
        let usual = Limits::default();
        let rates =
            |raw: Option<RawRateLimits>| raw.map(RawRateLimits::checked).unwrap_or_default();
        let (per_server, server_limits) = per_server.unwrap_or_default().checked();
        Limits {
            max_listing_bytes: narrow_number(max_listing_bytes).unwrap_or(usual.max_listing_bytes),
            max_message_bytes: narrow_number(max_message_bytes).unwrap_or(usual.max_message_bytes),
            max_bytes_in_flight: narrow_number(max_bytes_in_flight)
                .unwrap_or(usual.max_bytes_in_flight),
            max_result_bytes: narrow_number(max_result_bytes),
            global: rates(Some(RawRateLimits { calls_per_minute, max_concurrent_calls })),
            per_agent: rates(per_agent),
            per_server,
            server_limits,
            max_wait: duration_from_millis(max_wait_ms).unwrap_or(usual.max_wait),
            confirm_timeout: duration_from_millis(confirm_timeout_ms)
                .unwrap_or(usual.confirm_timeout),
            per_caller: per_caller.map(RawCallerLimits::checked).unwrap_or_default(),
        }
    }
}

impl RawCallerLimits {
    pub(crate) fn checked(self) -> CallerLimits {
        let Self {
            max_sessions,
            sessions_per_minute,
            max_connections,
            max_concurrent_calls,
            max_input_requests,
            max_bytes_in_flight,
            max_stored_results,
            max_stored_bytes,
            max_processes,
            max_viewers,
            max_subscriptions,
            max_subscription_bytes,
        } = self;
        let usual = CallerLimits::default();
        let rate = narrow_number(sessions_per_minute).and_then(NonZeroU32::new);
        CallerLimits {
            max_sessions: narrow_number(max_sessions).unwrap_or(usual.max_sessions),
            sessions_per_minute: rate.unwrap_or(usual.sessions_per_minute),
            max_connections: narrow_number(max_connections).unwrap_or(usual.max_connections),
            max_concurrent_calls: narrow_number(max_concurrent_calls)
                .unwrap_or(usual.max_concurrent_calls),
            max_input_requests: narrow_number(max_input_requests)
                .unwrap_or(usual.max_input_requests),
            max_bytes_in_flight: narrow_number(max_bytes_in_flight),
            max_stored_results: narrow_number(max_stored_results)
                .unwrap_or(usual.max_stored_results),
            max_stored_bytes: narrow_number(max_stored_bytes).unwrap_or(usual.max_stored_bytes),
            max_processes: narrow_number(max_processes).unwrap_or(usual.max_processes),
            max_viewers: narrow_number(max_viewers).unwrap_or(usual.max_viewers),
            max_subscriptions: narrow_number(max_subscriptions).unwrap_or(usual.max_subscriptions),
            max_subscription_bytes: narrow_number(max_subscription_bytes)
                .unwrap_or(usual.max_subscription_bytes),
        }
    }
}

impl RawServerLimits {
    fn checked(self) -> (RateLimits, ServerLimits) {
        let Self {
            calls_per_minute,
            max_concurrent_calls,
            max_list_entries,
            max_list_bytes,
            list_changes_per_minute,
            reconnects_per_minute,
            max_open_requests,
            max_bytes_in_flight,
        } = self;
        let usual = ServerLimits::default();
        let rate = |number| narrow_number(number).and_then(NonZeroU32::new);
        let quotas = ServerLimits {
            max_list_entries: narrow_number(max_list_entries).unwrap_or(usual.max_list_entries),
            max_list_bytes: narrow_number(max_list_bytes).unwrap_or(usual.max_list_bytes),
            list_changes_per_minute: rate(list_changes_per_minute)
                .unwrap_or(usual.list_changes_per_minute),
            reconnects_per_minute: rate(reconnects_per_minute)
                .unwrap_or(usual.reconnects_per_minute),
            max_open_requests: narrow_number(max_open_requests).unwrap_or(usual.max_open_requests),
            max_bytes_in_flight: narrow_number(max_bytes_in_flight),
        };
        (RawRateLimits { calls_per_minute, max_concurrent_calls }.checked(), quotas)
    }
}

impl RawRateLimits {
    /// Returns the values by key; `None` for keys that are not set.
    pub fn members(self) -> [(&'static str, Option<u64>); 2] {
        let Self { calls_per_minute, max_concurrent_calls } = self;
        [
            ("callsPerMinute", calls_per_minute.map(|number| number.value)),
            ("maxConcurrentCalls", max_concurrent_calls.map(|number| number.value)),
        ]
    }

    pub(crate) fn checked(self) -> RateLimits {
        let Self { calls_per_minute, max_concurrent_calls } = self;
        RateLimits::new(narrow_number(calls_per_minute), narrow_number(max_concurrent_calls))
    }
}

impl RawResultCache {
    /// Returns the values by key; `None` for keys that are not set.
    pub fn members(self) -> [(&'static str, Option<u64>); 2] {
        let Self { ttl_ms, max_bytes } = self;
        [
            ("ttlMs", ttl_ms.map(|number| number.value)),
            ("maxBytes", max_bytes.map(|number| number.value)),
        ]
    }

    pub(crate) fn checked(self) -> ResultCacheConfig {
        let Self { ttl_ms, max_bytes } = self;
        ResultCacheConfig::new(duration_from_millis(ttl_ms), narrow_number(max_bytes))
    }
}
