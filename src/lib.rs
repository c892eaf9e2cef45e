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
