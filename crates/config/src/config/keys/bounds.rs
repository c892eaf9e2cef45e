//! How much agents may ask of servers at a time (`limits`), and how long answers hold (`cache`).

use std::num::{NonZeroU32, NonZeroU64};
use std::time::Duration;

use schemars::JsonSchema;

use crate::config::keys::limits;
use crate::config::syntax::bounds::bounded;
use crate::config::syntax::entries::object;
use crate::config::syntax::reader::{Fields, Located, Reader};

/// Bounds on what passes through (`limits`).
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
    /// How much one agent may ask, where nothing else is said of it (`perAgent`).
    pub per_agent: Rates,
    /// How much may be asked of one server, where nothing else is said of it (`perServer`).
    pub per_server: Rates,
    /// How long a call waits for others to end where too many are running (`maxWaitMs`).
    pub max_wait: Duration,
    /// How long the user may take to confirm a call (`confirmTimeoutMs`).
    pub confirm_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_listing_bytes: limits::DEFAULT_LISTING_BYTES,
            max_message_bytes: limits::DEFAULT_MESSAGE_BYTES,
            max_result_bytes: None,
            in_all: Rates::default(),
            per_agent: Rates::default(),
            per_server: Rates::default(),
            max_wait: Duration::from_millis(limits::DEFAULT_WAIT_MS),
            confirm_timeout: Duration::from_millis(limits::DEFAULT_CONFIRM_TIMEOUT_MS),
        }
    }
}

/// How much may be asked at a time. What is not said is said elsewhere, or not limited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Rates {
    calls_per_minute: Option<u32>,
    concurrent_calls: Option<u32>,
}

impl Rates {
    /// The same, with what `other` says where this says nothing.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            calls_per_minute: self.calls_per_minute.or(other.calls_per_minute),
            concurrent_calls: self.concurrent_calls.or(other.concurrent_calls),
        }
    }

    /// How many calls a minute there may be, if that is limited (`callsPerMinute`).
    pub fn calls_per_minute(self) -> Option<NonZeroU32> {
        self.calls_per_minute.and_then(NonZeroU32::new)
    }

    /// How many calls may run at once, if that is limited (`concurrentCalls`).
    pub fn concurrent_calls(self) -> Option<NonZeroU32> {
        self.concurrent_calls.and_then(NonZeroU32::new)
    }
}

/// How long answers of tools hold that only read (`cache`). What is not said is said elsewhere, or
/// not so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheConfig {
    ttl: Option<Duration>,
    max_bytes: Option<u64>,
}

impl CacheConfig {
    /// The same, with how long answers hold by `other` where this does not say it.
    #[must_use]
    pub fn or_ttl_of(self, other: Self) -> Self {
        Self { ttl: self.ttl.or(other.ttl), ..self }
    }

    /// How long answers hold, if they hold at all (`ttlMs`).
    pub fn ttl(self) -> Option<Duration> {
        self.ttl.filter(|ttl| !ttl.is_zero())
    }

    /// How much of answers may be kept, in bytes, if that is said (`maxBytes`).
    pub fn max_bytes(self) -> Option<NonZeroU64> {
        self.max_bytes.and_then(NonZeroU64::new)
    }
}

/// How many bytes of answers are kept where nothing is said of it.
pub const DEFAULT_CACHE_BYTES: NonZeroU64 = limits::DEFAULT_CACHE_BYTES;

// === raw ===

/// Bounds on what passes through.
#[derive(Default, JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields, inline)]
pub(crate) struct RawLimits {
    /// The most bytes of tool definitions that one answer lists; beyond it they become signatures.
    #[schemars(range(min = limits::LISTING_BYTES.0, max = limits::LISTING_BYTES.1))]
    #[schemars(extend("default" = limits::DEFAULT_LISTING_BYTES))]
    pub(crate) max_listing_bytes: Option<Located<u64>>,

    /// The longest single message accepted from an agent or a server, in bytes.
    #[schemars(range(min = limits::MESSAGE_BYTES.0, max = limits::MESSAGE_BYTES.1))]
    #[schemars(extend("default" = limits::DEFAULT_MESSAGE_BYTES))]
    pub(crate) max_message_bytes: Option<Located<u64>>,

    /// The most bytes of a tool's result that an agent is given at once. The rest is kept for a
    /// while and can be read as a resource, in pieces of that size. By default nothing is held back.
    #[schemars(range(min = limits::RESULT_BYTES.0, max = limits::RESULT_BYTES.1))]
    pub(crate) max_result_bytes: Option<Located<u64>>,

    /// How many calls a minute all agents together may make; 0 means any number.
    #[schemars(range(min = 0, max = limits::MAX_CALLS))]
    #[schemars(extend("default" = 0))]
    pub(crate) calls_per_minute: Option<Located<u64>>,

    /// How many calls of all agents together may run at once; 0 means any number.
    #[schemars(range(min = 0, max = limits::MAX_CALLS))]
    #[schemars(extend("default" = 0))]
    pub(crate) concurrent_calls: Option<Located<u64>>,

    /// How much each agent may ask.
    pub(crate) per_agent: Option<RawRates>,

    /// How much may be asked of each server that has no `limits` of its own.
    pub(crate) per_server: Option<RawRates>,

    /// How long a call waits for others to end where too many are running, in milliseconds.
    #[schemars(range(min = 0, max = limits::MAX_TIMEOUT_MS))]
    #[schemars(extend("default" = limits::DEFAULT_WAIT_MS))]
    pub(crate) max_wait_ms: Option<Located<u64>>,

    /// How long the user may take to confirm a call, in milliseconds.
    #[schemars(range(min = 1, max = limits::MAX_TIMEOUT_MS))]
    #[schemars(extend("default" = limits::DEFAULT_CONFIRM_TIMEOUT_MS))]
    pub(crate) confirm_timeout_ms: Option<Located<u64>>,
}

/// How much may be asked at a time.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields, rename = "Rates")]
pub struct RawRates {
    /// How many calls a minute there may be; 0 means any number. That many may come at once; after
    /// that they are let through one by one as the minute passes.
    #[schemars(range(min = 0, max = limits::MAX_CALLS))]
    pub(crate) calls_per_minute: Option<Located<u64>>,

    /// How many calls may run at once; 0 means any number. Others wait for their turn.
    #[schemars(range(min = 0, max = limits::MAX_CALLS))]
    pub(crate) concurrent_calls: Option<Located<u64>>,
}

/// How long answers hold of tools that only read: those that are annotated with `readOnlyHint` and
/// `idempotentHint`.
#[derive(Default, JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields, rename = "Cache")]
pub struct RawCache {
    /// How long an answer holds, in milliseconds; 0 means not at all.
    #[schemars(range(min = 0, max = limits::MAX_TIMEOUT_MS))]
    pub(crate) ttl_ms: Option<Located<u64>>,

    /// How much of answers may be kept, in bytes: of all servers, or of one that says so itself.
    #[schemars(range(min = limits::CACHE_BYTES.0, max = limits::CACHE_BYTES.1))]
    pub(crate) max_bytes: Option<Located<u64>>,
}

impl RawLimits {
    pub(crate) fn read(fields: &mut Fields<'_>, reader: &mut Reader<'_>) -> Self {
        let mut number = |key| fields.take(key).and_then(|node| reader.number(&node));
        Self {
            max_listing_bytes: number("maxListingBytes"),
            max_message_bytes: number("maxMessageBytes"),
            max_result_bytes: number("maxResultBytes"),
            calls_per_minute: number("callsPerMinute"),
            concurrent_calls: number("concurrentCalls"),
            max_wait_ms: number("maxWaitMs"),
            confirm_timeout_ms: number("confirmTimeoutMs"),
            per_agent: fields
                .take("perAgent")
                .and_then(|node| object(&node, reader, RawRates::read)),
            per_server: fields
                .take("perServer")
                .and_then(|node| object(&node, reader, RawRates::read)),
        }
    }

    pub(crate) fn checked(self, reader: &mut Reader<'_>) -> Limits {
        let Self {
            max_listing_bytes,
            max_message_bytes,
            max_result_bytes,
            calls_per_minute,
            concurrent_calls,
            per_agent,
            per_server,
            max_wait_ms,
            confirm_timeout_ms,
        } = self;
        let usual = Limits::default();
        let mut within = |number, (least, most): (u64, u64)| bounded(number, least..=most, reader);
        let max_listing_bytes = within(max_listing_bytes, limits::LISTING_BYTES);
        let max_message_bytes = within(max_message_bytes, limits::MESSAGE_BYTES);
        let max_result_bytes = within(max_result_bytes, limits::RESULT_BYTES);
        let mut time = |number, least| {
            bounded(number, least..=limits::MAX_TIMEOUT_MS, reader).map(Duration::from_millis)
        };
        let max_wait = time(max_wait_ms, 0);
        let confirm_timeout = time(confirm_timeout_ms, 1);
        let mut rates = |raw: Option<RawRates>| raw.map(|raw| raw.checked(reader));
        Limits {
            max_listing_bytes: max_listing_bytes.unwrap_or(usual.max_listing_bytes),
            max_message_bytes: max_message_bytes.unwrap_or(usual.max_message_bytes),
            max_result_bytes,
            in_all: rates(Some(RawRates { calls_per_minute, concurrent_calls }))
                .unwrap_or_default(),
            per_agent: rates(per_agent).unwrap_or_default(),
            per_server: rates(per_server).unwrap_or_default(),
            max_wait: max_wait.unwrap_or(usual.max_wait),
            confirm_timeout: confirm_timeout.unwrap_or(usual.confirm_timeout),
        }
    }
}

impl RawRates {
    pub(crate) fn read(fields: &mut Fields<'_>, reader: &mut Reader<'_>) -> Self {
        let mut number = |key| fields.take(key).and_then(|node| reader.number(&node));
        Self {
            calls_per_minute: number("callsPerMinute"),
            concurrent_calls: number("concurrentCalls"),
        }
    }

    /// What it says, by the keys.
    pub fn members(self) -> [(&'static str, Option<u64>); 2] {
        let Self { calls_per_minute, concurrent_calls } = self;
        [
            ("callsPerMinute", calls_per_minute.map(|number| number.value)),
            ("concurrentCalls", concurrent_calls.map(|number| number.value)),
        ]
    }

    pub(crate) fn checked(self, reader: &mut Reader<'_>) -> Rates {
        let Self { calls_per_minute, concurrent_calls } = self;
        Rates {
            calls_per_minute: bounded(calls_per_minute, 0..=limits::MAX_CALLS, reader),
            concurrent_calls: bounded(concurrent_calls, 0..=limits::MAX_CALLS, reader),
        }
    }
}

impl RawCache {
    pub(crate) fn read(fields: &mut Fields<'_>, reader: &mut Reader<'_>) -> Self {
        let mut number = |key| fields.take(key).and_then(|node| reader.number(&node));
        Self { ttl_ms: number("ttlMs"), max_bytes: number("maxBytes") }
    }

    /// What it says, by the keys.
    pub fn members(self) -> [(&'static str, Option<u64>); 2] {
        let Self { ttl_ms, max_bytes } = self;
        [
            ("ttlMs", ttl_ms.map(|number| number.value)),
            ("maxBytes", max_bytes.map(|number| number.value)),
        ]
    }

    pub(crate) fn checked(self, reader: &mut Reader<'_>) -> CacheConfig {
        let Self { ttl_ms, max_bytes } = self;
        let ttl = bounded(ttl_ms, 0..=limits::MAX_TIMEOUT_MS, reader);
        let (least, most) = limits::CACHE_BYTES;
        CacheConfig {
            ttl: ttl.map(Duration::from_millis),
            max_bytes: bounded(max_bytes, least..=most, reader),
        }
    }
}
