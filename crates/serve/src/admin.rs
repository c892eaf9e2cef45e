//! Admin API: reports the status of a running workbench and runs actions on its servers.
//!
//! [`WorkbenchStatus`] is a snapshot of the workbench, [`AdminRequest`] a query or an action. Both
//! are plain data shared by the terminal (`top`), the admin page and the socket between processes.
//! [`AdminApi`] reads status and controls servers through every gateway; it searches and calls
//! tools as one caller.

mod admin_origin;
mod api;
mod approval_statement;
mod audit_usage;
mod config_source;
mod protocol;
pub mod socket;
mod status;
mod status_collector;
mod tool_calls;

pub use crate::admin::admin_origin::AdminOrigin;
pub use crate::admin::api::AdminApi;
pub use crate::admin::approval_statement::approval_statement;
pub use crate::admin::config_source::{ConfigSource, FindingsFn, PatchFn, UnusedServerTools};
pub use crate::admin::protocol::{
    AdminError, AdminErrorKind, AdminRequest, AdminResponse, AdminSearchHit, ConfigFinding,
    ServerAction, ToolDetails,
};
pub use crate::admin::status::{
    AgentStatus, Latency, LockDrift, MissingLogin, ServerState, ServerStatus, ToolboxStatus,
    TrafficSample, UnusedTools, WorkbenchStatus,
};

#[cfg(test)]
mod tests;
