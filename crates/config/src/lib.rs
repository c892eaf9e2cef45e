//! Configuration: reading loose files, and the checked types that come of them.

pub mod config;

// `crate::name` is the crate below.
use mcp_workbench_names::name;
