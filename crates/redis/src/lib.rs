//! Redis-backed storage shared by several workbenches, so that one can continue the sessions of
//! another.

pub mod redis_store;

// Modules of lower crates, under the paths that they have in every crate of the workspace.
use mcp_workbench_core::{backend, state, telemetry};
use mcp_workbench_login::login;
use mcp_workbench_names::name;
use mcp_workbench_settings::settings;
