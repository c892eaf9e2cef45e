//! The ranges of numbers in the file, in one place for the checker and the schema.

use crate::name::MIN_NAME_LIMIT;

/// A port of this machine.
pub(crate) const PORT: (u64, u64) = (1, 65_535);
/// The least and the most `maxToolNameLength`; the protocol asks for names of at most 128 characters.
pub(crate) const NAME_BYTES: (u64, u64) = (MIN_NAME_LIMIT as u64, 128);

/// The least and the most `maxListingBytes`.
pub(crate) const LISTING_BYTES: (u64, u64) = (1_000, 10_000_000);

/// The least and the most `maxMessageBytes`.
pub(crate) const MESSAGE_BYTES: (u64, u64) = (64 * 1024, 1024 * 1024 * 1024);

/// The least and the most `maxBytesInFlight`.
pub(crate) const BYTES_IN_FLIGHT: (u64, u64) = (64 * 1024, 1024 * 1024 * 1024 * 1024);

/// The least and the most `maxResultBytes`.
pub(crate) const RESULT_BYTES: (u64, u64) = (1_000, 1024 * 1024 * 1024);

/// The least and the most `maxKeptBytes`.
pub(crate) const KEPT_BYTES: (u64, u64) = RESULT_BYTES;

/// The most calls at a time that are counted; nobody makes more.
pub(crate) const MAX_CALLS: u64 = 1_000_000;

/// The least and the most `maxBytes` of a cache.
pub(crate) const CACHE_BYTES: (u64, u64) = (1_000, 4 * 1024 * 1024 * 1024);
/// The least and the most `audit.maxBytes`.
pub(crate) const AUDIT_BYTES: (u64, u64) = (64 * 1024, 1024 * 1024 * 1024 * 1024);
/// The least and the most `audit.keep`.
pub(crate) const AUDIT_FILES: (u64, u64) = (0, 1_000);

/// The least and the most `descriptionLimit` of a client.
pub(crate) const DESCRIPTION_BYTES: (u64, u64) = (500, 1_000_000);
/// The least and the most `instructionsLimit` of a client.
pub(crate) const INSTRUCTIONS_BYTES: (u64, u64) = (100, 1_000_000);
/// The least and the most `settlingMs` of a client.
pub(crate) const SETTLING_MS: (u64, u64) = (0, 10_000);
/// The least and the most `nameLimit` of a client.
pub(crate) const CLIENT_NAME_BYTES: (u64, u64) = (16, 1_000);

/// The least and the most `navigator.budget.maxTokens`: a question, and the 1,000 that its answer may
/// have at least.
pub(crate) const BUDGET_TOKENS: (u64, u64) = (2_000, 100_000_000);
/// The least and the most `navigator.budget.maxCalls`.
pub(crate) const BUDGET_CALLS: (u64, u64) = (1, 1_000);

/// A week: whoever wants longer wants "never", and clocks cannot overflow on it.
pub const MAX_TIMEOUT_MS: u64 = 7 * 24 * 60 * 60 * 1000;

/// The least and the most `http.maxSessions`.
pub(crate) const SESSIONS: (u64, u64) = (1, 1_000_000);
/// The least and the most `http.sessionIdleMs`: from a second to a week.
pub(crate) const SESSION_IDLE_MS: (u64, u64) = (1_000, MAX_TIMEOUT_MS);
/// The least and the most `http.maxConnections`.
pub(crate) const CONNECTIONS: (u64, u64) = (1, 1_000_000);
/// The least and the most `http.maxHeaderBytes`.
pub(crate) const HEADER_BYTES: (u64, u64) = (1_024, 1024 * 1024);
/// The least and the most `http.headTimeoutMs` and `http.bodyTimeoutMs`.
pub(crate) const HTTP_TIMEOUT_MS: (u64, u64) = (100, 60 * 60 * 1000);
/// The most `leewaySeconds`: more would be another life of every token.
pub(crate) const MAX_LEEWAY_SECONDS: u64 = 300;
