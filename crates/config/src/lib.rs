//! Configuration: reading loose files, and the checked types that come of them.

pub mod config;

// The crates below, by the paths that their modules have everywhere.
use mcp_workbench_names::name;
use mcp_workbench_os::os;
