//! The ranges and defaults of numbers in the file, in one place for the checker and the schema.

use std::num::NonZeroU64;

use crate::name::MIN_NAME_LIMIT;

/// The least and the most `maxToolNameLength`; the protocol asks for names of at most 128 characters.
pub(crate) const NAME_BYTES: (u64, u64) = (MIN_NAME_LIMIT as u64, 128);
/// Clients allow 64 bytes and put `mcp__workbench__` before a name.
pub const DEFAULT_NAME_LIMIT: usize = 48;

/// The least and the most `maxListingBytes`.
pub(crate) const LISTING_BYTES: (u64, u64) = (1_000, 10_000_000);
pub(crate) const DEFAULT_LISTING_BYTES: usize = 40_000;

/// The least and the most `maxMessageBytes`.
pub(crate) const MESSAGE_BYTES: (u64, u64) = (64 * 1024, 1024 * 1024 * 1024);
pub(crate) const DEFAULT_MESSAGE_BYTES: usize = 64 * 1024 * 1024;

/// The least and the most `maxResultBytes`.
pub(crate) const RESULT_BYTES: (u64, u64) = (1_000, 1024 * 1024 * 1024);

/// The most calls at a time that are counted; nobody makes more.
pub(crate) const MAX_CALLS: u64 = 1_000_000;
/// Clients give up after 60 s.
pub(crate) const DEFAULT_WAIT_MS: u64 = 30_000;
/// Time enough to read a question and to think about it.
pub(crate) const DEFAULT_CONFIRM_TIMEOUT_MS: u64 = 120_000;

/// The least and the most `maxBytes` of a cache.
pub(crate) const CACHE_BYTES: (u64, u64) = (1_000, 4 * 1024 * 1024 * 1024);
pub(crate) const DEFAULT_CACHE_BYTES: NonZeroU64 = NonZeroU64::new(16 * 1024 * 1024).unwrap();
/// The least and the most `audit.maxBytes`.
pub(crate) const AUDIT_BYTES: (u64, u64) = (64 * 1024, 1024 * 1024 * 1024 * 1024);
pub(crate) const DEFAULT_AUDIT_BYTES: u64 = 64 * 1024 * 1024;
/// The least and the most `audit.keep`.
pub(crate) const AUDIT_FILES: (u64, u64) = (0, 1_000);
pub(crate) const DEFAULT_AUDIT_FILES: u32 = 4;

/// The least and the most `descriptionLimit` of a client.
pub(crate) const DESCRIPTION_BYTES: (u64, u64) = (500, 1_000_000);
/// The least and the most `instructionsLimit` of a client.
pub(crate) const INSTRUCTIONS_BYTES: (u64, u64) = (100, 1_000_000);
/// The least and the most `settlingMs` of a client.
pub(crate) const SETTLING_MS: (u64, u64) = (0, 10_000);
/// The least and the most `nameLimit` of a client.
pub(crate) const CLIENT_NAME_BYTES: (u64, u64) = (16, 1_000);

/// Time for a model that reasons, and little enough that the agent's client does not give up.
pub(crate) const DEFAULT_LLM_TIMEOUT_MS: u64 = 20_000;
/// Clients give up after 60 s, and the tool has to run too.
pub(crate) const DEFAULT_BUDGET_MS: u64 = 40_000;
/// The least and the most `navigator.budget.maxTokens`: a question, and the 1,000 that its answer may
/// have at least.
pub(crate) const BUDGET_TOKENS: (u64, u64) = (2_000, 100_000_000);
pub(crate) const DEFAULT_BUDGET_TOKENS: u64 = 30_000;
/// The least and the most `navigator.budget.maxCalls`.
pub(crate) const BUDGET_CALLS: (u64, u64) = (1, 1_000);
pub(crate) const DEFAULT_BUDGET_CALLS: u32 = 12;

/// A week: whoever wants longer wants "never", and clocks cannot overflow on it.
pub const MAX_TIMEOUT_MS: u64 = 7 * 24 * 60 * 60 * 1000;
/// A first start through `npx` or `uvx` downloads the server.
pub(crate) const DEFAULT_STARTUP_TIMEOUT_MS: u64 = 60_000;
pub(crate) const DEFAULT_CALL_TIMEOUT_MS: u64 = 300_000;

/// The least and the most `http.maxSessions`.
pub(crate) const SESSIONS: (u64, u64) = (1, 1_000_000);
pub(crate) const DEFAULT_SESSIONS: usize = 1_000;
/// The least and the most `http.sessionIdleMs`: from a second to a week.
pub(crate) const SESSION_IDLE_MS: (u64, u64) = (1_000, MAX_TIMEOUT_MS);
/// People leave agents open over night.
pub(crate) const DEFAULT_SESSION_IDLE_MS: u64 = 24 * 60 * 60 * 1000;
/// The least and the most `http.maxConnections`.
pub(crate) const CONNECTIONS: (u64, u64) = (1, 1_000_000);
/// A client has one for what it is told, and one for each request that is under way.
pub(crate) const DEFAULT_CONNECTIONS: usize = 4_096;
/// The least and the most `http.maxHeaderBytes`.
pub(crate) const HEADER_BYTES: (u64, u64) = (1_024, 1024 * 1024);
/// Tokens may have several thousand.
pub(crate) const DEFAULT_HEADER_BYTES: usize = 32 * 1024;
/// The least and the most `http.headTimeoutMs` and `http.bodyTimeoutMs`.
pub(crate) const HTTP_TIMEOUT_MS: (u64, u64) = (100, 60 * 60 * 1000);
pub(crate) const DEFAULT_HEAD_TIMEOUT_MS: u64 = 30_000;
pub(crate) const DEFAULT_BODY_TIMEOUT_MS: u64 = 30_000;
/// The most `leewaySeconds`: more would be another life of every token.
pub(crate) const MAX_LEEWAY_SECONDS: u64 = 300;
pub(crate) const DEFAULT_LEEWAY_SECONDS: u64 = 60;
/// The claim of a token that says whose it is.
pub(crate) const DEFAULT_AGENT_CLAIM: &str = "sub";
