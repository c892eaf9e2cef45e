//! How much agents may ask of servers at a time (`limits`), and how long answers hold (`cache`).

use std::num::{NonZeroU32, NonZeroU64};
use std::time::Duration;

use crate::settings::defaults;

/// Limits on what passes through (`limits`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most bytes of tool definitions that one answer lists; beyond it they become signatures.
    pub max_listing_bytes: usize,
    /// The longest single message accepted from an agent or a server, in bytes.
    pub max_message_bytes: usize,
    /// The most bytes of a tool's result that are given at once (`maxResultBytes`); `None`: all.
    pub max_result_bytes: Option<usize>,
    /// How much all agents together may ask of all servers.
    pub in_all: Rates,
    /// How much one agent may ask, unless its own rates say otherwise (`perAgent`).
    pub per_agent: Rates,
    /// How much may be asked of one server, unless its own rates say otherwise (`perServer`).
    pub per_server: Rates,
    /// How long a call waits for others to end where too many are running (`maxWaitMs`).
    pub max_wait: Duration,
    /// How long the user may take to confirm a call (`confirmTimeoutMs`).
    pub confirm_timeout: Duration,
    /// How many bytes of messages may be held at a time, of agents and servers together
    /// (`maxBytesInFlight`).
    pub max_bytes_in_flight: usize,
    /// How much each caller may hold at a time (`perCaller`).
    pub per_caller: PerCaller,
}

impl Limits {
    /// Returns the bytes of each of the three kinds that may be held: what agents send, what servers
    /// send, and what agents have not taken yet. A third of all, and at least two of the longest
    /// messages.
    pub fn bytes_of_a_kind(&self) -> usize {
        (self.max_bytes_in_flight / 3).max(self.longest_message().saturating_mul(2))
    }

    /// Returns the bytes that the longest message needs while it is read.
    pub fn longest_message(&self) -> usize {
        self.max_message_bytes.saturating_add(READING)
    }
}

/// The bytes beside a message that are read with it.
const READING: usize = 64 * 1024;

/// How much one caller may hold at a time (`perCaller`): an agent with a name, or whoever comes from
/// one address without one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PerCaller {
    /// How many sessions (`maxSessions`). For one more, the caller's own oldest ends.
    pub max_sessions: usize,
    /// How many sessions may begin in a minute (`sessionsPerMinute`).
    pub sessions_per_minute: NonZeroU32,
    /// How many connections from one address (`maxConnections`).
    pub max_connections: usize,
    /// How many requests may be under way (`maxCalls`); more are refused.
    pub max_calls: usize,
    /// How many calls may wait for an answer of the user (`maxQuestions`). For one more, the caller's
    /// own oldest is given up.
    pub max_questions: usize,
    /// How many bytes of what it sends, and as many of what it has not taken yet (`maxBytesInFlight`);
    /// `None`: half of what all may share.
    pub max_bytes_in_flight: Option<usize>,
    /// How many rests of results that were too long are kept for it (`maxKeptResults`). For one more,
    /// its own oldest goes.
    pub max_kept_results: usize,
    /// How many bytes of them (`maxKeptBytes`).
    pub max_kept_bytes: usize,
    /// How many processes of servers for itself alone (`maxProcesses`); servers beyond it are not
    /// started.
    pub max_processes: usize,
}

impl Default for PerCaller {
    fn default() -> Self {
        Self {
            max_sessions: defaults::CALLER_SESSIONS,
            sessions_per_minute: defaults::SESSIONS_PER_MINUTE,
            max_connections: defaults::CALLER_CONNECTIONS,
            max_calls: defaults::CALLER_CALLS,
            max_questions: defaults::CALLER_QUESTIONS,
            max_bytes_in_flight: None,
            max_kept_results: defaults::CALLER_KEPT_RESULTS,
            max_kept_bytes: defaults::CALLER_KEPT_BYTES,
            max_processes: defaults::CALLER_PROCESSES,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_listing_bytes: defaults::LISTING_BYTES,
            max_message_bytes: defaults::MESSAGE_BYTES,
            max_result_bytes: None,
            in_all: Rates::default(),
            per_agent: Rates::default(),
            per_server: Rates::default(),
            max_wait: Duration::from_millis(defaults::WAIT_MS),
            confirm_timeout: Duration::from_millis(defaults::CONFIRM_TIMEOUT_MS),
            max_bytes_in_flight: defaults::BYTES_IN_FLIGHT,
            per_caller: PerCaller::default(),
        }
    }
}

/// How much may be asked at a time. A rate that is not set is set elsewhere, or unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Rates {
    calls_per_minute: Option<u32>,
    concurrent_calls: Option<u32>,
}

impl Rates {
    /// Creates rates; 0 means any number, and `None` that they are set elsewhere.
    pub fn new(calls_per_minute: Option<u32>, concurrent_calls: Option<u32>) -> Self {
        Self { calls_per_minute, concurrent_calls }
    }

    /// Returns these rates, with those of `other` where they are not set.
    pub fn or(self, other: Self) -> Self {
        Self {
            calls_per_minute: self.calls_per_minute.or(other.calls_per_minute),
            concurrent_calls: self.concurrent_calls.or(other.concurrent_calls),
        }
    }

    /// Returns how many calls a minute there may be, if that is limited (`callsPerMinute`).
    pub fn calls_per_minute(self) -> Option<NonZeroU32> {
        self.calls_per_minute.and_then(NonZeroU32::new)
    }

    /// Returns how many calls may run at once, if that is limited (`concurrentCalls`).
    pub fn concurrent_calls(self) -> Option<NonZeroU32> {
        self.concurrent_calls.and_then(NonZeroU32::new)
    }
}

/// How long answers of read-only tools hold (`cache`). A value that is not set is set elsewhere;
/// where nobody sets a time, answers do not hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheConfig {
    ttl: Option<Duration>,
    max_bytes: Option<u64>,
}

impl CacheConfig {
    /// Creates the setting; a time of zero means that answers do not hold.
    pub fn new(ttl: Option<Duration>, max_bytes: Option<u64>) -> Self {
        Self { ttl, max_bytes }
    }

    /// Returns this setting, with the time of `other` where it has none.
    pub fn or_ttl_of(self, other: Self) -> Self {
        Self { ttl: self.ttl.or(other.ttl), ..self }
    }

    /// Returns how long answers hold, if they hold at all (`ttlMs`).
    pub fn ttl(self) -> Option<Duration> {
        self.ttl.filter(|ttl| !ttl.is_zero())
    }

    /// Returns how many bytes of answers may be kept, if that is set (`maxBytes`).
    pub fn max_bytes(self) -> Option<NonZeroU64> {
        self.max_bytes.and_then(NonZeroU64::new)
    }
}
