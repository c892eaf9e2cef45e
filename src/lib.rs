//! MCP Workbench: one MCP server between an agent and many, with toolboxes that open on demand.
//!
//! `ARCHITECTURE.md` beside the sources says which module owns what. Those that stand in a crate of
//! their own are found here by the same paths.

pub mod app;
pub mod authoring;
pub mod backend;
pub mod builtin;
pub mod catalog;
pub mod cli;
pub mod exposure;
pub mod frontend;
pub mod gateway;
pub mod llm;
pub mod navigator;
pub mod observe;
pub mod policy;
pub mod state;
pub mod toolbox;

pub use mcp_workbench_config::config;
pub use mcp_workbench_names::name;
pub use mcp_workbench_wire::{raw, wire};
