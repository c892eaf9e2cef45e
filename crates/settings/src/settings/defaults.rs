//! The settings of a configuration that does not mention them.

use std::num::{NonZeroU32, NonZeroU64};

/// Clients allow 64 bytes and put `mcp__workbench__` before a name.
pub const NAME_LIMIT: usize = 48;

pub const LISTING_BYTES: usize = 40_000;
pub const MESSAGE_BYTES: usize = 64 * 1024 * 1024;
/// Two of the longest messages of each kind, with what is read beside them.
pub const BYTES_IN_FLIGHT: usize = 6 * (MESSAGE_BYTES + 64 * 1024);
/// Clients give up after 60 s.
pub const WAIT_MS: u64 = 30_000;
/// Time enough to read a question and to think about it.
pub const CONFIRM_TIMEOUT_MS: u64 = 120_000;
pub const CACHE_BYTES: NonZeroU64 = NonZeroU64::new(16 * 1024 * 1024).unwrap();
pub const AUDIT_BYTES: u64 = 64 * 1024 * 1024;
pub const AUDIT_FILES: u32 = 4;

/// Time for a model that reasons, and little enough that the agent's client does not give up.
pub const LLM_TIMEOUT_MS: u64 = 20_000;
/// Clients give up after 60 s, and the tool has to run too.
pub const BUDGET_MS: u64 = 40_000;
pub const BUDGET_TOKENS: u64 = 30_000;
pub const BUDGET_CALLS: u32 = 12;

/// A first start through `npx` or `uvx` downloads the server.
pub const STARTUP_TIMEOUT_MS: u64 = 60_000;
pub const CALL_TIMEOUT_MS: u64 = 300_000;
/// Longer than what anybody waits for, and no place is held for ever.
pub const TOTAL_CALL_TIMEOUT_MS: u64 = 60 * 60 * 1000;

pub const SESSIONS: usize = 1_000;
/// A person has a few clients, and each begins anew now and then.
pub const CALLER_SESSIONS: usize = 250;
pub const SESSIONS_PER_MINUTE: NonZeroU32 = NonZeroU32::new(300).unwrap();
/// A proxy in front of us has one address for all its clients.
pub const CALLER_CONNECTIONS: usize = 1_024;
pub const CALLER_CALLS: usize = 2000;
pub const CALLER_QUESTIONS: usize = 100;
pub const CALLER_KEPT_RESULTS: usize = 100;
pub const CALLER_KEPT_BYTES: usize = 16 * 1024 * 1024;
/// Ten windows with six servers each that are for them alone.
pub const CALLER_PROCESSES: usize = 64;
/// People leave agents open over night.
pub const SESSION_IDLE_MS: u64 = 24 * 60 * 60 * 1000;
/// A client has one for what it is told, and one for each request that is under way.
pub const CONNECTIONS: usize = 4_096;
/// Tokens may have several thousand.
pub const HEADER_BYTES: usize = 32 * 1024;
pub const HEAD_TIMEOUT_MS: u64 = 30_000;
pub const BODY_TIMEOUT_MS: u64 = 30_000;
pub const LEEWAY_SECONDS: u64 = 60;
/// The claim of a token that names the agent.
pub const AGENT_CLAIM: &str = "sub";
