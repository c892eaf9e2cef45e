//! JSON-RPC error codes: the standard ones (JSON-RPC 2.0 §5.1) and those added by MCP revisions.

/// The text is not JSON.
pub const PARSE_ERROR: i64 = -32700;
/// It is JSON, but no request that can be taken, or none that can be dealt with now.
pub const INVALID_REQUEST: i64 = -32600;
/// Nobody here knows the method.
pub const METHOD_NOT_FOUND: i64 = -32601;
/// The parameters are not what the method takes; from MCP 2026-07-28 on also where there is no such
/// resource.
pub const INVALID_PARAMS: i64 = -32602;
/// Something went wrong here, or at the server behind us.
pub const INTERNAL_ERROR: i64 = -32603;
/// There is too much for now, or it is gone: more connections, sessions, requests or bytes than there may be, an
/// answer that is not kept any more, or a program that is ending.
pub const UNAVAILABLE: i64 = -32000;
/// There is no such resource (MCP to 2025-11-25).
pub const RESOURCE_NOT_FOUND: i64 = -32002;
/// A header says something else than the body (MCP 2026-07-28).
pub const HEADER_MISMATCH: i64 = -32020;
/// The request needs a client that can do more (MCP 2026-07-28).
pub const MISSING_CAPABILITY: i64 = -32021;
/// The request speaks a revision that is not served (MCP 2026-07-28).
pub const UNSUPPORTED_PROTOCOL_VERSION: i64 = -32022;
/// The user has to go to an address first (MCP 2025-11-25).
pub const URL_ELICITATION_REQUIRED: i64 = -32042;
/// The user said no to what a server wanted of the agent's model (MCP, client/sampling).
pub const USER_REJECTED: i64 = -1;
