//! Signing in at servers over HTTP, for the links to them.

pub mod login;

// The crates below, by the paths that their modules have everywhere.
use mcp_workbench_os::os;
use mcp_workbench_settings::settings;
use mcp_workbench_wire::wire;
