//! Core of the gateway: server backends, their catalogs, access policy and the `Gateway` type.

pub mod backend;
pub mod catalog;
pub mod gateway;
pub mod llm;
pub mod policy;
pub mod state;
pub mod telemetry;
pub mod toolbox;

// Modules of the crates below, under the same paths as in those crates.
#[cfg(test)]
use mcp_workbench_config::config;
use mcp_workbench_login::login;
use mcp_workbench_names::name;
use mcp_workbench_os::os;
use mcp_workbench_settings::settings;
use mcp_workbench_wire::{json, wire};
