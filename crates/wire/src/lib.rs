//! Bytes and messages, for everybody above: raw JSON text, and JSON-RPC over pipes and HTTP.

pub mod raw;
pub mod wire;

// The crate below, by the path that its module has everywhere.
use mcp_workbench_os::os;
