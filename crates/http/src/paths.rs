//! Paths of the endpoint and its metadata.

pub const ENDPOINT: &str = "/mcp";
pub(crate) const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";
