//! Serves agents over streamable HTTP: endpoint, identity, TLS, connections and the admin page.

pub mod http;

// Modules of lower crates, under the paths that they have in every crate of the workspace.
#[cfg(test)]
use mcp_workbench_config::config;
use mcp_workbench_core::{backend, gateway, state, telemetry};
use mcp_workbench_names::name;
use mcp_workbench_os::os;
use mcp_workbench_serve::{admin, exposure, frontend};
use mcp_workbench_settings::settings;
use mcp_workbench_wire::{json, wire};
