//! OAuth sign-in for connections to servers over HTTP.

pub mod login;

// Imported so that paths like `crate::wire` mean the same modules in every crate.
use mcp_workbench_os::os;
use mcp_workbench_settings::settings;
use mcp_workbench_wire::wire;
