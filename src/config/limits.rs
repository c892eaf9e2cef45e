//! The bounds and defaults of numbers in the file, in one place for the checker and the schema.

/// The longest `maxToolNameLength`; the protocol asks for names of at most 128 characters.
pub(super) const MAX_NAME_LIMIT: u64 = 128;
/// Clients allow 64 bytes and put `mcp__workbench__` before a name.
pub(super) const DEFAULT_NAME_LIMIT: usize = 48;

/// The least and the most `maxListingBytes`.
pub(super) const LISTING_BYTES: (u64, u64) = (1_000, 10_000_000);
pub(super) const DEFAULT_LISTING_BYTES: usize = 40_000;

/// The least and the most `maxMessageBytes`.
pub(super) const MESSAGE_BYTES: (u64, u64) = (64 * 1024, 1024 * 1024 * 1024);
pub(super) const DEFAULT_MESSAGE_BYTES: usize = 64 * 1024 * 1024;

/// The least and the most `descriptionLimit` of a client.
pub(super) const DESCRIPTION_BYTES: (u64, u64) = (500, 1_000_000);
/// The least and the most `nameLimit` of a client.
pub(super) const CLIENT_NAME_BYTES: (u64, u64) = (16, 1_000);

/// A week: whoever wants longer wants "never", and clocks cannot overflow on it.
pub(super) const MAX_TIMEOUT_MS: u64 = 7 * 24 * 60 * 60 * 1000;
/// A first start through `npx` or `uvx` downloads the server.
pub(super) const DEFAULT_STARTUP_TIMEOUT_MS: u64 = 60_000;
pub(super) const DEFAULT_CALL_TIMEOUT_MS: u64 = 300_000;
