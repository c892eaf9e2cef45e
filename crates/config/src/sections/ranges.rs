//! Ranges of numeric settings as (minimum, maximum), used by the checks and the JSON Schema.

use mcp_workbench_names::MIN_NAME_LIMIT;

pub(crate) const PORT: (u64, u64) = (1, 65_535);
/// Range of `maxToolNameLength`. MCP recommends at most 128 characters.
pub(crate) const NAME_BYTES: (u64, u64) = (MIN_NAME_LIMIT as u64, 128);

pub(crate) const LISTING_BYTES: (u64, u64) = (1_000, 10_000_000);

pub(crate) const MESSAGE_BYTES: (u64, u64) = (64 * 1024, 1024 * 1024 * 1024);

pub(crate) const BYTES_IN_FLIGHT: (u64, u64) = (64 * 1024, 1024 * 1024 * 1024 * 1024);

pub(crate) const DISCOVERY_REQUESTS: (u64, u64) = (1, 1_000);
pub(crate) const SCOPES: (u64, u64) = (1, 100_000);
pub(crate) const RESULT_BYTES: (u64, u64) = (1_000, 1024 * 1024 * 1024);

pub(crate) const STORED_BYTES: (u64, u64) = RESULT_BYTES;

pub(crate) const SUBSCRIPTION_BYTES: (u64, u64) = RESULT_BYTES;

pub(crate) const LIST_BYTES: (u64, u64) = (1_000, 1024 * 1024 * 1024);

/// Maximum of all call, rate and process limits.
pub(crate) const MAX_CALLS: u64 = 1_000_000;

pub(crate) const CACHE_BYTES: (u64, u64) = (1_000, 4 * 1024 * 1024 * 1024);
pub(crate) const AUDIT_BYTES: (u64, u64) = (64 * 1024, 1024 * 1024 * 1024 * 1024);
pub(crate) const AUDIT_FILES: (u64, u64) = (0, 1_000);

/// Range of a client's `descriptionLimit`.
pub(crate) const DESCRIPTION_BYTES: (u64, u64) = (500, 1_000_000);
/// Range of a client's `instructionsLimit`.
pub(crate) const INSTRUCTIONS_BYTES: (u64, u64) = (100, 1_000_000);
/// Range of a client's `toolListDelayMs`.
pub(crate) const TOOL_LIST_DELAY_MS: (u64, u64) = (0, 10_000);
/// Range of a client's `nameLimit`.
pub(crate) const CLIENT_NAME_BYTES: (u64, u64) = (16, 1_000);

/// Range of `navigator.budget.maxTokens`. The minimum fits one prompt and 1,000 tokens of response.
pub(crate) const BUDGET_TOKENS: (u64, u64) = (2_000, 100_000_000);
pub(crate) const BUDGET_REQUESTS: (u64, u64) = (1, 1_000);

/// One week. The bound keeps deadline arithmetic from overflowing.
pub const MAX_TIMEOUT_MS: u64 = 7 * 24 * 60 * 60 * 1000;

/// Range of `approvals.timeoutMs`: at most an hour.
pub(crate) const APPROVAL_TIMEOUT_MS: (u64, u64) = (1_000, 60 * 60 * 1000);
/// Range of a client's `callTimeoutMs`.
pub(crate) const CLIENT_CALL_TIMEOUT_MS: (u64, u64) = (1_000, MAX_TIMEOUT_MS);

pub(crate) const SESSIONS: (u64, u64) = (1, 1_000_000);
pub(crate) const SESSION_IDLE_MS: (u64, u64) = (1_000, MAX_TIMEOUT_MS);
pub(crate) const CONNECTIONS: (u64, u64) = (1, 1_000_000);
pub(crate) const HEADER_BYTES: (u64, u64) = (1_024, 1024 * 1024);
/// Range of `http.headTimeoutMs` and `http.bodyTimeoutMs`.
pub(crate) const HTTP_TIMEOUT_MS: (u64, u64) = (100, 60 * 60 * 1000);
/// Maximum of `auth.jwt.leewayMs`; a longer leeway would extend every token's lifetime.
pub(crate) const MAX_LEEWAY_MS: u64 = 300_000;
