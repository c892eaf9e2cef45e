//! MCP Workbench: a gateway between AI agents and many MCP servers, with toolboxes that open on
//! demand.
//!
//! `ARCHITECTURE.md` says which module owns what. Modules from other crates are re-exported under
//! the same paths.

pub mod app;
pub mod authoring;
pub mod builtin;
pub mod cli;
pub mod lint;

pub use mcp_workbench_config::config;
pub use mcp_workbench_core::{backend, catalog, gateway, llm, policy, state, telemetry, toolbox};
pub use mcp_workbench_http::http;
pub use mcp_workbench_login::login;
pub use mcp_workbench_names::name;
pub use mcp_workbench_os::os;
pub use mcp_workbench_redis::redis_store;
pub use mcp_workbench_serve::{admin, exposure, frontend, navigator};
pub use mcp_workbench_settings::settings;
pub use mcp_workbench_wire::{json, wire};
