//! JSON-RPC error codes: the standard ones (JSON-RPC 2.0 §5.1) and those added by MCP revisions.

/// The message is not valid JSON.
pub const PARSE_ERROR: i64 = -32700;
/// The JSON is not a valid request, or the request is not accepted now.
pub const INVALID_REQUEST: i64 = -32600;
/// The method is unknown.
pub const METHOD_NOT_FOUND: i64 = -32601;
/// The parameters are invalid. From MCP 2026-07-28 on, also: the resource does not exist.
pub const INVALID_PARAMS: i64 = -32602;
/// The workbench or the upstream server failed.
pub const INTERNAL_ERROR: i64 = -32603;
/// A limit on connections, sessions, requests or bytes is reached, the result is no longer stored,
/// or the workbench is shutting down.
pub const UNAVAILABLE: i64 = -32000;
/// The resource does not exist (MCP up to 2025-11-25).
pub const RESOURCE_NOT_FOUND: i64 = -32002;
/// A header differs from the body (MCP 2026-07-28).
pub const HEADER_MISMATCH: i64 = -32020;
/// The request needs a capability that the client has not declared (MCP 2026-07-28).
pub const MISSING_CAPABILITY: i64 = -32021;
/// The protocol version is not supported (MCP 2026-07-28).
pub const UNSUPPORTED_PROTOCOL_VERSION: i64 = -32022;
/// The user has to open a URL first (MCP 2025-11-25).
pub const URL_ELICITATION_REQUIRED: i64 = -32042;
/// The user rejected the server's sampling request (MCP, client/sampling).
pub const USER_REJECTED: i64 = -1;
