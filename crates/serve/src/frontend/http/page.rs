//! The page of whoever runs workbenches: in a browser, what is seen of them, as it comes, and what can be
//! asked of them.
//!
//! *Theory of operation.* The files of the page say nothing of anybody and are for all who may come here.
//! Views go to each page as a stream of events, and questions come as a POST with a token in its header,
//! so that no other page can have a browser ask. How much somebody may see and do is settled before by whoever
//! has the route ([`Sight`](crate::frontend::http::identity::Sight)): `serve --http` by its configuration,
//! `mcp-workbench page` by a token of its own ([`alone`]).

mod alone;
mod asked;
mod assets;
mod routes;
mod seen;

use std::process;
use std::sync::Arc;

use hyper::header::{
    CACHE_CONTROL, HeaderName, HeaderValue, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::desk::{Answer, Ask, Desk, Failure, Refused, View};
use crate::frontend::http::page::seen::Seen;
use crate::frontend::http::response::Reply;

pub use crate::frontend::http::page::alone::serve_page;
pub(crate) use crate::frontend::http::page::routes::add;

/// The most pages that are told what is seen, at one listener.
const MOST_WATCHERS: usize = 32;

/// Workbenches that serve.
pub trait Workbenches: Send + Sync + 'static {
    /// All that is seen of them now; each has another process.
    fn seen(&self) -> impl Future<Output = Vec<View>> + Send;
    /// Asks the workbench with this process; the answer is an [`Answer`], in JSON.
    fn ask(&self, pid: u32, ask: Ask) -> impl Future<Output = Vec<u8>> + Send;
}

/// A page, for as many as look at it.
pub(crate) struct Page<W> {
    workbenches: W,
    seen: Seen,
    watchers: Arc<Semaphore>,
    tasks: TaskTracker,
    /// Is cancelled when streams are to end.
    leaving: CancellationToken,
}

impl<W: Workbenches> Page<W> {
    /// Nobody looks at it yet.
    pub(crate) fn new(workbenches: W, tasks: &TaskTracker, leaving: &CancellationToken) -> Self {
        Self {
            workbenches,
            seen: Seen::default(),
            watchers: Arc::new(Semaphore::new(MOST_WATCHERS)),
            tasks: tasks.clone(),
            leaving: leaving.clone(),
        }
    }
}

/// Marks an answer as one that a browser takes for what it is, for this page alone, and does not keep.
fn private(mut reply: Reply) -> Reply {
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

impl Workbenches for Desk {
    async fn seen(&self) -> Vec<View> {
        vec![self.view()]
    }

    async fn ask(&self, pid: u32, ask: Ask) -> Vec<u8> {
        let answer = if pid == process::id() {
            Box::pin(self.answer(ask)).await
        } else {
            let message = format!("process {pid} is no workbench that this page shows");
            Answer::Refused(Refused { why: Failure::Unknown, message })
        };
        // An answer is plain data, which can always be written.
        serde_json::to_vec(&answer).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
