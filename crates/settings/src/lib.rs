//! The validated configuration types, for code that doesn't parse configuration files.

pub mod settings;

// Gives the names crate the path `crate::name`, as in every crate.
use mcp_workbench_names::name;
