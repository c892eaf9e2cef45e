//! Reads configuration files of several programs and turns them into checked settings.

pub mod config;

// Aliases for the lower crates, so that every crate uses the same paths.
use mcp_workbench_names::name;
use mcp_workbench_os::os;
use mcp_workbench_settings::settings;
use mcp_workbench_wire::json;
