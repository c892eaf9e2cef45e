//! Serves the gateway to agents: modes, sessions, the admin API, and the stdio frontend.

pub mod admin;
pub mod exposure;
pub mod frontend;
pub mod navigator;

// Modules of lower crates, under the paths that they have in every crate of the workspace.
#[cfg(test)]
use mcp_workbench_config::config;
#[cfg(test)]
use mcp_workbench_core::policy;
use mcp_workbench_core::{backend, catalog, gateway, llm, state, telemetry, toolbox};
use mcp_workbench_names::name;
use mcp_workbench_os::os;
use mcp_workbench_settings::settings;
use mcp_workbench_wire::{json, wire};
