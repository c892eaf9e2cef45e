//! The quotas of one server: limits on what it can make the workbench keep and do.

use std::sync::Arc;

use crate::backend::BackendSpec;
use crate::telemetry::{Event, LimitReached, QuotaKind, QuotaOwner, Telemetry};
use mcp_workbench_names::{ServerName, ServerRef, ToolboxName};
use mcp_workbench_settings::ServerLimits;
use mcp_workbench_wire::memory_pool::LimitHook;

/// The limits of a server, and the telemetry that records when it reaches one.
#[derive(Clone)]
pub struct ServerQuota {
    /// Name in logs: `toolbox/server`.
    pub(crate) label: String,
    pub(crate) limits: ServerLimits,
    owner: QuotaOwner,
    observer: Arc<Telemetry>,
}

impl ServerQuota {
    pub fn new(server: ServerRef, limits: ServerLimits, observer: Arc<Telemetry>) -> Self {
        let label = format!("{}/{}", server.toolbox, server.server);
        Self { label, limits, owner: QuotaOwner::Server(server), observer }
    }

    pub(crate) fn of(spec: &BackendSpec, observer: &Arc<Telemetry>) -> Self {
        let server = ServerRef {
            toolbox: ToolboxName::new(spec.toolbox()),
            server: ServerName::new(&spec.server),
        };
        Self::new(server, spec.quotas, Arc::clone(observer))
    }

    /// Reports to listeners that the server wanted more than its limit.
    pub(crate) fn report_limit_reached(&self, quota: QuotaKind) {
        let reached = LimitReached { owner: self.owner.clone(), quota };
        self.observer.bus().emit(Event::LimitReached(&reached));
    }

    pub(crate) fn reporter(&self, quota: QuotaKind) -> LimitHook {
        let own = self.clone();
        Arc::new(move || own.report_limit_reached(quota))
    }
}
