//! MCP Workbench: one MCP server between an agent and many, with toolboxes that open on demand.
//!
//! `ARCHITECTURE.md` beside the sources says which module owns what.

pub mod app;
pub mod authoring;
pub mod backend;
pub mod builtin;
pub mod catalog;
pub mod cli;
pub mod config;
pub mod exposure;
pub mod frontend;
pub mod gateway;
pub mod llm;
pub mod name;
pub mod navigator;
pub mod observe;
pub mod policy;
pub mod raw;
pub mod toolbox;
pub mod wire;
