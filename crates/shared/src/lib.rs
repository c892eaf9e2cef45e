//! A store that several workbenches share, so that one goes on where another has ended.

pub mod shared;

// The crates below, by the paths that their modules have everywhere.
use mcp_workbench_core::{backend, observe, state};
use mcp_workbench_login::login;
use mcp_workbench_names::name;
use mcp_workbench_settings::settings;
