//! Reading configurations: from loose files to checked settings.

pub mod config;

// The crates below, by the paths that their modules have everywhere.
use mcp_workbench_names::name;
use mcp_workbench_os::os;
use mcp_workbench_settings::settings;
use mcp_workbench_wire::raw;
