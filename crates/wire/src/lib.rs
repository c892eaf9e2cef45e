//! Raw JSON text, and JSON-RPC over pipes and HTTP.

pub mod json;
pub mod wire;

// Lets modules of this crate write `crate::os`.
use mcp_workbench_os::os;
