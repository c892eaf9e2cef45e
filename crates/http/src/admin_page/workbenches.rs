//! The workbenches that the page shows.

use std::process;

use mcp_workbench_serve::admin::{
    AdminApi, AdminError, AdminErrorKind, AdminRequest, AdminResponse, WorkbenchStatus,
};

/// The running workbenches that the page shows.
pub trait AdminBackend: Send + Sync + 'static {
    /// Returns the current status of each workbench. Each is a separate process.
    fn statuses(&self) -> impl Future<Output = Vec<WorkbenchStatus>> + Send;
    /// Sends a request to the workbench with this process id. Returns an [`AdminResponse`] as JSON.
    fn handle(&self, pid: u32, ask: AdminRequest) -> impl Future<Output = Vec<u8>> + Send;
}

impl AdminBackend for AdminApi {
    async fn statuses(&self) -> Vec<WorkbenchStatus> {
        vec![self.status()]
    }

    async fn handle(&self, pid: u32, ask: AdminRequest) -> Vec<u8> {
        let answer = if pid == process::id() {
            Box::pin(self.handle(ask)).await
        } else {
            let message = format!("this dashboard shows no workbench with PID {pid}");
            AdminResponse::Error(AdminError { kind: AdminErrorKind::Unknown, message })
        };
        // Serialization can't fail: it is plain data.
        serde_json::to_vec(&answer).unwrap_or_default()
    }
}
