//! The core: what servers have and who may use it, the links to them, and the one way in.

pub mod backend;
pub mod catalog;
pub mod gateway;
pub mod llm;
pub mod observe;
pub mod policy;
pub mod state;
pub mod toolbox;

// The crates below, by the paths that their modules have everywhere.
#[cfg(test)]
use mcp_workbench_config::config;
use mcp_workbench_login::login;
use mcp_workbench_names::name;
use mcp_workbench_os::os;
use mcp_workbench_settings::settings;
use mcp_workbench_wire::{raw, wire};
