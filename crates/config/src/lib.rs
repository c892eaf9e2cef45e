//! Configuration: reading loose files, and the checked types that come of them.

pub mod config;

// The crate below, by the path that its module has everywhere.
use mcp_workbench_names::name;
