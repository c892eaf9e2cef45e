//! The admin page: shows workbenches in the browser and acts on them.
//!
//! The static files contain no data and are served to any client that passes the `Origin` check.
//! Status goes to each page as a stream of events. Requests come as a POST with a token in a
//! header, so that other web pages can't forge them. The route decides the access level beforehand
//! ([`AccessLevel`](crate::frontend::http::auth::AccessLevel)): `serve --http` by its
//! configuration, `mcp-workbench dashboard` by its own token ([`standalone`]).

mod assets;
mod events;
mod request;
mod routes;
mod standalone;
mod viewers;

use std::process;
use std::sync::Arc;

use hyper::header::{
    CACHE_CONTROL, HeaderName, HeaderValue, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::admin::{
    AdminApi, AdminError, AdminErrorKind, AdminRequest, AdminResponse, WorkbenchStatus,
};
use crate::frontend::http::admin_page::events::StatusCache;
use crate::frontend::http::admin_page::viewers::ViewerTable;
use crate::frontend::http::response::HttpResponse;

pub(crate) use crate::frontend::http::admin_page::routes::add;
pub use crate::frontend::http::admin_page::standalone::serve_page;

/// The running workbenches that the page shows.
pub trait AdminBackend: Send + Sync + 'static {
    /// Returns the current status of each workbench. Each is a separate process.
    fn statuses(&self) -> impl Future<Output = Vec<WorkbenchStatus>> + Send;
    /// Sends a request to the workbench with this process id. Returns an [`AdminResponse`] as JSON.
    fn handle(&self, pid: u32, ask: AdminRequest) -> impl Future<Output = Vec<u8>> + Send;
}

pub(crate) struct AdminPage<W> {
    workbenches: W,
    seen: StatusCache,
    viewers: Arc<ViewerTable>,
    tasks: TaskTracker,
    leaving: CancellationToken,
}

impl<W: AdminBackend> AdminPage<W> {
    pub(crate) fn new(workbenches: W, tasks: &TaskTracker, leaving: &CancellationToken) -> Self {
        Self {
            workbenches,
            seen: StatusCache::default(),
            viewers: Arc::default(),
            tasks: tasks.clone(),
            leaving: leaving.clone(),
        }
    }
}

/// Sets headers against content sniffing, embedding by other origins, and caching.
fn with_private_headers(mut reply: HttpResponse) -> HttpResponse {
    let headers = reply.headers_mut();
    for (name, value) in [
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    reply
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

#[cfg(test)]
mod tests;
