//! The workbenches that the page shows.

use std::process;

use serde::Deserialize;

use mcp_workbench_core::gateway::PendingCall;
use mcp_workbench_names::AgentName;
use mcp_workbench_serve::admin::{
    AdminApi, AdminError, AdminErrorKind, AdminOrigin, AdminRequest, AdminResponse, WorkbenchStatus,
};

/// Who sends a request to the page.
#[derive(Default)]
pub struct PageSender {
    /// The operator whose token the request has, in `serve --http`.
    pub operator: Option<AgentName>,
    pub approval: Option<PageApproval>,
}

/// An approval by the holder of the approval key.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PageApproval {
    /// The call as the page has shown it. The user approves exactly this.
    pub call: PendingCall,
    /// The passphrase of the approval key. It must not be passed on.
    pub passphrase: String,
}

/// The running workbenches that the page shows.
pub trait AdminBackend: Send + Sync + 'static {
    /// `true` if approvals of calls need the passphrase of the approval key.
    const ASKS_PASSPHRASE: bool;

    /// Returns the current status of each workbench. Each is a separate process.
    fn statuses(&self) -> impl Future<Output = Vec<WorkbenchStatus>> + Send;
    /// Sends a request to the workbench with this process id. Returns an [`AdminResponse`] as JSON.
    fn handle(
        &self,
        pid: u32,
        ask: AdminRequest,
        sender: PageSender,
    ) -> impl Future<Output = Vec<u8>> + Send;
}

impl AdminBackend for AdminApi {
    const ASKS_PASSPHRASE: bool = false;

    async fn statuses(&self) -> Vec<WorkbenchStatus> {
        vec![self.status()]
    }

    async fn handle(&self, pid: u32, ask: AdminRequest, sender: PageSender) -> Vec<u8> {
        let answer = if pid == process::id() {
            let origin = sender.operator.map_or(AdminOrigin::Viewer, AdminOrigin::Operator);
            Box::pin(self.handle(ask, &origin)).await
        } else {
            let message = format!("this dashboard shows no workbench with PID {pid}");
            AdminResponse::Error(AdminError { kind: AdminErrorKind::Unknown, message })
        };
        // Serialization can't fail: it is plain data.
        serde_json::to_vec(&answer).unwrap_or_default()
    }
}
