//! MCP Workbench: one MCP server between an agent and many, with toolboxes that open on demand.
//!
//! `ARCHITECTURE.md` beside the sources says which module owns what. Those that stand in a crate of
//! their own are found here by the same paths.

pub mod app;
pub mod authoring;
pub mod builtin;
pub mod cli;

pub use mcp_workbench_config::config;
pub use mcp_workbench_core::{backend, catalog, gateway, llm, observe, policy, state, toolbox};
pub use mcp_workbench_login::login;
pub use mcp_workbench_names::name;
pub use mcp_workbench_os::os;
pub use mcp_workbench_serve::{desk, exposure, frontend, navigator};
pub use mcp_workbench_settings::settings;
pub use mcp_workbench_shared::shared;
pub use mcp_workbench_wire::{raw, wire};
