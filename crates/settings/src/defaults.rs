//! Default values of configuration keys.

use std::num::{NonZeroU32, NonZeroU64};

/// Clients allow 64 bytes and add the prefix `mcp__workbench__`.
pub const NAME_LIMIT: usize = 48;

pub const LISTING_BYTES: usize = 40_000;
pub const MESSAGE_BYTES: usize = 64 * 1024 * 1024;
/// Each of the three pools holds two messages of maximum length, with their read-ahead.
pub const BYTES_IN_FLIGHT: usize = 6 * (MESSAGE_BYTES + 64 * 1024);
/// Clients time out after 60 s.
pub const WAIT_MS: u64 = 30_000;
/// Enough for the user to read the question and decide.
pub const CONFIRM_TIMEOUT_MS: u64 = 120_000;
/// Long enough to notice a notification and read the call.
pub const APPROVAL_TIMEOUT_MS: u64 = 300_000;
pub const CACHE_BYTES: NonZeroU64 = NonZeroU64::new(16 * 1024 * 1024).unwrap();
pub const AUDIT_BYTES: u64 = 64 * 1024 * 1024;
pub const AUDIT_FILES: u32 = 4;

/// Enough for a reasoning model, but short enough that the agent's client doesn't time out.
pub const LLM_TIMEOUT_MS: u64 = 20_000;
/// Clients time out after 60 s, and the tool has to run within that time too.
pub const BUDGET_MS: u64 = 40_000;
pub const BUDGET_TOKENS: u64 = 30_000;
pub const BUDGET_REQUESTS: u32 = 12;

/// The first start with `npx` or `uvx` downloads the server.
pub const STARTUP_TIMEOUT_MS: u64 = 60_000;
pub const CALL_TIMEOUT_MS: u64 = 300_000;
/// Longer than any user waits. Keeps a call from occupying a slot forever.
pub const TOTAL_CALL_TIMEOUT_MS: u64 = 60 * 60 * 1000;

pub const SESSIONS: usize = 1_000;
/// A user has a few clients that occasionally start new sessions.
pub const CALLER_SESSIONS: usize = 250;
pub const SESSIONS_PER_MINUTE: NonZeroU32 = NonZeroU32::new(300).unwrap();
/// All clients behind a reverse proxy share its address.
pub const CALLER_CONNECTIONS: usize = 1_024;
pub const CALLER_CALLS: usize = 2000;
pub const CALLER_INPUT_REQUESTS: usize = 100;
pub const CALLER_STORED_RESULTS: usize = 100;
pub const CALLER_STORED_BYTES: usize = 16 * 1024 * 1024;
/// Ten clients with six isolated servers each.
pub const CALLER_PROCESSES: usize = 64;
pub const CALLER_VIEWERS: usize = 16;
pub const CALLER_SUBSCRIPTIONS: usize = 1_000;
pub const CALLER_SUBSCRIPTION_BYTES: usize = 1024 * 1024;
/// The largest known servers list about 1,000 tools.
pub const SERVER_LIST_ENTRIES: usize = 10_000;
pub const SERVER_OPEN_REQUESTS: usize = 1000;
pub const SERVER_LIST_BYTES: usize = 16 * 1024 * 1024;
/// One change every two seconds, after the first ones.
pub const LIST_CHANGES_PER_MINUTE: NonZeroU32 = NonZeroU32::new(30).unwrap();
pub const DISCOVERY_REQUESTS: usize = 20;
/// The largest known authorization servers advertise about 100 scopes.
pub const SCOPES: usize = 256;
pub const RECONNECTS_PER_MINUTE: NonZeroU32 = NonZeroU32::new(30).unwrap();
/// Agents stay open overnight.
pub const SESSION_IDLE_MS: u64 = 24 * 60 * 60 * 1000;
/// A client uses one connection for server messages and one for each request in flight.
pub const CONNECTIONS: usize = 4_096;
/// Tokens can have several thousand bytes.
pub const HEADER_BYTES: usize = 32 * 1024;
pub const HEAD_TIMEOUT_MS: u64 = 30_000;
pub const BODY_TIMEOUT_MS: u64 = 30_000;
pub const LEEWAY_MS: u64 = 60_000;
pub const AGENT_CLAIM: &str = "sub";
