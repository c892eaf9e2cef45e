//! Serving: what a model sees of the core in each mode, and the sessions of agents.

pub mod desk;
pub mod exposure;
pub mod frontend;
pub mod navigator;

// The crates below, by the paths that their modules have everywhere.
#[cfg(test)]
use mcp_workbench_config::config;
#[cfg(test)]
use mcp_workbench_core::policy;
use mcp_workbench_core::{backend, catalog, gateway, llm, observe, state, toolbox};
use mcp_workbench_names::name;
use mcp_workbench_os::os;
use mcp_workbench_settings::settings;
use mcp_workbench_wire::{raw, wire};
