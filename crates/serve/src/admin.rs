//! Admin API: reports the status of a running workbench and runs actions on its servers.
//!
//! [`WorkbenchStatus`] is a snapshot of the workbench, [`AdminRequest`] a query or an action. Both
//! are plain data shared by the terminal (`top`), the admin page and the socket between processes.
//! [`AdminApi`] reads status and controls servers through every gateway; it searches and calls
//! tools as one caller.

mod audit_usage;
mod config_source;
mod handlers;
mod protocol;
pub mod socket;
mod status;
mod status_collector;
mod tool_calls;

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use parking_lot::Mutex;

use crate::admin::audit_usage::AuditUsage;
use crate::admin::tool_calls::WaitingCalls;
use crate::gateway::{Caller, GatewayRegistry};
use crate::os::ProcessMemory;

pub use crate::admin::config_source::{ConfigSource, FindingsFn, PatchFn, UnusedServerTools};
pub use crate::admin::protocol::{
    AdminError, AdminErrorKind, AdminRequest, AdminResponse, AdminSearchHit, ConfigFinding,
    ServerAction, ToolDetails,
};
pub use crate::admin::status::{
    AgentStatus, CallStatus, Latency, LockDrift, MissingLogin, ServerState, ServerStatus,
    ToolboxStatus, TrafficSample, UnusedTools, WorkbenchStatus,
};

/// Admin API of one workbench. Clones share their state.
#[derive(Clone)]
pub struct AdminApi(Arc<AdminInner>);

struct AdminInner {
    gateways: Arc<GatewayRegistry>,
    /// The identity used for searches and calls.
    caller: Caller,
    config_source: ConfigSource,
    since: SystemTime,
    audit_usage: AuditUsage,
    memory: Mutex<Option<(Instant, Vec<u32>, ProcessMemory)>>,
    waiting: WaitingCalls,
}

impl AdminApi {
    /// Creates an API with the permissions of `caller`.
    pub fn new(
        gateways: Arc<GatewayRegistry>,
        caller: Caller,
        config_source: ConfigSource,
    ) -> Self {
        Self(Arc::new(AdminInner {
            gateways,
            caller,
            config_source,
            since: SystemTime::now(),
            audit_usage: AuditUsage::default(),
            memory: Mutex::default(),
            waiting: WaitingCalls::default(),
        }))
    }
}

#[cfg(test)]
mod tests;
