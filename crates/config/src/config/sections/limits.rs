//! The `limits` section (rate, size and concurrency limits) and the `cache` section.

use std::num::NonZeroU32;

use crate::config::sections::ranges;
use crate::config::syntax::checks::{duration_from_millis, narrow_number};
use crate::config::syntax::reader::Located;
use crate::config::syntax::section::section;
use crate::settings::{CacheConfig, CallerLimits, Limits, RateLimits, defaults};

section! {
    /// Limits on what passes through.
    #[schemars(inline)]
    pub(crate) struct RawLimits in "the top-level `limits`" {
        /// The most bytes of tool definitions that one answer lists; beyond it they become
        /// signatures.
        #[schemars(extend("default" = defaults::LISTING_BYTES))]
        "maxListingBytes" as pub(crate) max_listing_bytes: Located<u64> [ranges::LISTING_BYTES],

        /// The longest single message accepted from an agent or a server, in bytes.
        #[schemars(extend("default" = defaults::MESSAGE_BYTES))]
        "maxMessageBytes" as pub(crate) max_message_bytes: Located<u64> [ranges::MESSAGE_BYTES],

        /// How many bytes of long messages may be held at a time: a third of them of what agents send
        /// over HTTP, a third of what servers send, a third of what agents have not taken yet. More is
        /// not read until there is room. At least six times `maxMessageBytes`, whatever is said here.
        #[schemars(extend("default" = defaults::BYTES_IN_FLIGHT))]
        "maxBytesInFlight" as pub(crate) max_bytes_in_flight: Located<u64> [ranges::BYTES_IN_FLIGHT],

        /// The most bytes of a tool's result that an agent is given at once. The rest is kept for a
        /// while and can be read as a resource, in pieces of that size. By default nothing is held
        /// back.
        "maxResultBytes" as pub(crate) max_result_bytes: Located<u64> [ranges::RESULT_BYTES],

        /// How many calls a minute all agents together may make; 0 means any number.
        #[schemars(extend("default" = 0))]
        rule "callsPerMinute" as pub(crate) calls_per_minute: Located<u64> [(0, ranges::MAX_CALLS)],

        /// How many calls of all agents together may run at once; 0 means any number.
        #[schemars(extend("default" = 0))]
        "concurrentCalls" as pub(crate) concurrent_calls: Located<u64> [(0, ranges::MAX_CALLS)],

        /// How much each agent may ask.
        "perAgent" as pub(crate) per_agent: RawRateLimits,

        /// How much may be asked of each server that has no `limits` of its own.
        "perServer" as pub(crate) per_server: RawRateLimits,

        /// How long a call waits for others to end where too many are running, in milliseconds.
        #[schemars(extend("default" = defaults::WAIT_MS))]
        "maxWaitMs" as pub(crate) max_wait_ms: Located<u64> [(0, ranges::MAX_TIMEOUT_MS)],

        /// How long the user may take to confirm a call, in milliseconds.
        #[schemars(extend("default" = defaults::CONFIRM_TIMEOUT_MS))]
        "confirmTimeoutMs" as pub(crate) confirm_timeout_ms: Located<u64> [(1, ranges::MAX_TIMEOUT_MS)],

        /// How much each caller may hold at a time: an agent with a name, or whoever comes from one
        /// address without a name.
        "perCaller" as pub(crate) per_caller: RawCallerLimits,
    }
}

section! {
    /// How much one caller may hold at a time, so that others go on.
    #[schemars(rename = "PerCaller")]
    pub(crate) struct RawCallerLimits in "`limits.perCaller`" {
        /// How many sessions a caller may have. For one more, its own ends that was idle for longest.
        #[schemars(extend("default" = defaults::CALLER_SESSIONS))]
        "maxSessions" as pub(crate) max_sessions: Located<u64> [ranges::SESSIONS],

        /// How many sessions a caller may begin in a minute.
        #[schemars(extend("default" = defaults::SESSIONS_PER_MINUTE))]
        "sessionsPerMinute" as pub(crate) sessions_per_minute: Located<u64> [(1, ranges::MAX_CALLS)],

        /// How many connections there may be from one address. For one more, one of them closes that
        /// is not used.
        #[schemars(extend("default" = defaults::CALLER_CONNECTIONS))]
        "maxConnections" as pub(crate) max_connections: Located<u64> [ranges::CONNECTIONS],

        /// How many requests of a caller may be under way; more are refused.
        #[schemars(extend("default" = defaults::CALLER_CALLS))]
        "maxCalls" as pub(crate) max_calls: Located<u64> [(1, ranges::MAX_CALLS)],

        /// How many calls of a caller may wait for an answer of its user. For one more, its own oldest
        /// is given up.
        #[schemars(extend("default" = defaults::CALLER_QUESTIONS))]
        "maxQuestions" as pub(crate) max_questions: Located<u64> [(1, ranges::MAX_CALLS)],

        /// How many bytes a caller may hold of what it sends, and as many of what it has not taken yet. A
        /// single message may always be longer. By default half of what all may share.
        "maxBytesInFlight" as pub(crate) max_bytes_in_flight: Located<u64> [ranges::BYTES_IN_FLIGHT],

        /// How many results that were too long a caller may have the rest of. For one more, its own
        /// oldest is forgotten.
        #[schemars(extend("default" = defaults::CALLER_KEPT_RESULTS))]
        "maxKeptResults" as pub(crate) max_kept_results: Located<u64> [(1, ranges::MAX_CALLS)],

        /// How many bytes of such rests are kept for a caller, and so how long one may be. For more, its
        /// own oldest are forgotten.
        #[schemars(extend("default" = defaults::CALLER_KEPT_BYTES))]
        "maxKeptBytes" as pub(crate) max_kept_bytes: Located<u64> [ranges::KEPT_BYTES],

        /// How many processes of servers there may be for a caller alone: for sessions that servers keep
        /// apart, and of servers that ask it something. Servers beyond it are not started.
        #[schemars(extend("default" = defaults::CALLER_PROCESSES))]
        "maxProcesses" as pub(crate) max_processes: Located<u64> [(1, ranges::MAX_CALLS)],
    }
}

section! {
    /// How much may be asked at a time.
    #[schemars(rename = "Rates")]
    pub struct RawRateLimits in "`limits`" {
        /// How many calls a minute there may be; 0 means any number. That many may come at once;
        /// after that they are let through one by one as the minute passes.
        "callsPerMinute" as pub(crate) calls_per_minute: Located<u64> [(0, ranges::MAX_CALLS)],

        /// How many calls may run at once; 0 means any number. Others wait for their turn.
        "concurrentCalls" as pub(crate) concurrent_calls: Located<u64> [(0, ranges::MAX_CALLS)],
    }
}

section! {
    /// How long answers hold of tools that only read: those that are annotated with `readOnlyHint`
    /// and `idempotentHint`.
    #[schemars(rename = "Cache")]
    pub struct RawCache in "`cache`" {
        /// How long an answer holds, in milliseconds; 0 means not at all.
        "ttlMs" as pub(crate) ttl_ms: Located<u64> [(0, ranges::MAX_TIMEOUT_MS)],

        /// How much of answers may be kept, in bytes: of all servers, or of one that says so
        /// itself.
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
            concurrent_calls,
            per_agent,
            per_server,
            max_wait_ms,
            confirm_timeout_ms,
            per_caller,
        } = self;
        let usual = Limits::default();
        let rates =
            |raw: Option<RawRateLimits>| raw.map(RawRateLimits::checked).unwrap_or_default();
        Limits {
            max_listing_bytes: narrow_number(max_listing_bytes).unwrap_or(usual.max_listing_bytes),
            max_message_bytes: narrow_number(max_message_bytes).unwrap_or(usual.max_message_bytes),
            max_bytes_in_flight: narrow_number(max_bytes_in_flight)
                .unwrap_or(usual.max_bytes_in_flight),
            max_result_bytes: narrow_number(max_result_bytes),
            global: rates(Some(RawRateLimits { calls_per_minute, concurrent_calls })),
            per_agent: rates(per_agent),
            per_server: rates(per_server),
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
            max_calls,
            max_questions,
            max_bytes_in_flight,
            max_kept_results,
            max_kept_bytes,
            max_processes,
        } = self;
        let usual = CallerLimits::default();
        let rate = narrow_number(sessions_per_minute).and_then(NonZeroU32::new);
        CallerLimits {
            max_sessions: narrow_number(max_sessions).unwrap_or(usual.max_sessions),
            sessions_per_minute: rate.unwrap_or(usual.sessions_per_minute),
            max_connections: narrow_number(max_connections).unwrap_or(usual.max_connections),
            max_calls: narrow_number(max_calls).unwrap_or(usual.max_calls),
            max_questions: narrow_number(max_questions).unwrap_or(usual.max_questions),
            max_bytes_in_flight: narrow_number(max_bytes_in_flight),
            max_kept_results: narrow_number(max_kept_results).unwrap_or(usual.max_kept_results),
            max_kept_bytes: narrow_number(max_kept_bytes).unwrap_or(usual.max_kept_bytes),
            max_processes: narrow_number(max_processes).unwrap_or(usual.max_processes),
        }
    }
}

impl RawRateLimits {
    /// Returns the values by key; `None` for keys that are not set.
    pub fn members(self) -> [(&'static str, Option<u64>); 2] {
        let Self { calls_per_minute, concurrent_calls } = self;
        [
            ("callsPerMinute", calls_per_minute.map(|number| number.value)),
            ("concurrentCalls", concurrent_calls.map(|number| number.value)),
        ]
    }

    pub(crate) fn checked(self) -> RateLimits {
        let Self { calls_per_minute, concurrent_calls } = self;
        RateLimits::new(narrow_number(calls_per_minute), narrow_number(concurrent_calls))
    }
}

impl RawCache {
    /// Returns the values by key; `None` for keys that are not set.
    pub fn members(self) -> [(&'static str, Option<u64>); 2] {
        let Self { ttl_ms, max_bytes } = self;
        [
            ("ttlMs", ttl_ms.map(|number| number.value)),
            ("maxBytes", max_bytes.map(|number| number.value)),
        ]
    }

    pub(crate) fn checked(self) -> CacheConfig {
        let Self { ttl_ms, max_bytes } = self;
        CacheConfig::new(duration_from_millis(ttl_ms), narrow_number(max_bytes))
    }
}
