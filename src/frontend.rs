//! The frontend: serves agents. It owns sessions, eras, and what goes back to an agent unasked.
//!
//! *Theory of operation.* The wire splits an agent's messages in two. Lists and calls of tools
//! come here as raw text ([`calls`]), each in a task of its own; `rmcp` handles the rest through
//! [`handler`]. What both need to know of the agent is its [`session`].

mod calls;
mod era;
mod handler;
mod session;

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::exposure::Exposure;
use crate::frontend::handler::Handler;
use crate::frontend::session::Session;
use crate::wire;

/// How long calls may still take that are running when the agent's output ends.
const LAST_ANSWERS: Duration = Duration::from_millis(300);

/// Serves one agent over its streams until its output ends or `shutdown` is cancelled.
///
/// Calls that are still running then are given up, after 300 ms in the first case; their servers
/// are the gateway's business.
pub async fn serve<R, W>(
    exposure: Exposure,
    reader: R,
    writer: W,
    tasks: &TaskTracker,
    shutdown: &CancellationToken,
) where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let max = exposure.gateway().config().limits.max_message_bytes;
    let (mut requests, transport, notifier) = wire::agent::connect(reader, writer, max, tasks);
    let session = Arc::new(Session::new(exposure, notifier, tasks.clone()));
    // Dropped on return, which ends what belongs to this session.
    let ended = CancellationToken::new();
    let _end = ended.clone().drop_guard();
    let watching = Arc::clone(&session);
    tasks.spawn(ended.clone().run_until_cancelled_owned(async move { watching.watch().await }));
    let handler = Handler::new(Arc::clone(&session), ended.clone());
    let protocol = rmcp::service::serve_server_with_ct(handler, transport, ended.child_token());
    let protocol = tasks.spawn(ended.clone().run_until_cancelled_owned(async move {
        match protocol.await {
            Ok(service) => {
                if let Err(error) = service.waiting().await {
                    tracing::error!(%error, "the session was lost");
                }
            }
            Err(error) => tracing::warn!(%error, "the session could not begin"),
        }
    }));
    tokio::pin!(protocol);
    let calls = TaskTracker::new();
    let take = |request| {
        // Boxed, for a call in all its cases is large, and would be copied on its way to its task.
        let call = Box::pin(calls::answer(Arc::clone(&session), request));
        calls.spawn(ended.clone().run_until_cancelled_owned(call));
    };
    let has_protocol = loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            request = requests.next() => match request {
                Some(request) => take(request),
                None => break true,
            },
            _ = &mut protocol => break false,
        }
    };
    while let Some(request) = requests.next_that_is_here() {
        take(request);
    }
    // An agent that closes its side right after its last request still reads the answers.
    calls.close();
    let answered = async {
        calls.wait().await;
        if has_protocol {
            // How it ended has been logged.
            let _ = protocol.await;
        }
    };
    tokio::select! {
        () = shutdown.cancelled() => {}
        _ = timeout(LAST_ANSWERS, answered) => {}
    }
}
