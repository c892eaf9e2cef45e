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

use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::exposure::Exposure;
use crate::frontend::handler::Handler;
use crate::frontend::session::Session;
use crate::wire;

/// Serves one agent over its streams until its output ends or `shutdown` is cancelled.
///
/// Calls that are still running then are given up; their servers are the gateway's business.
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
    let protocol = rmcp::service::serve_server_with_ct(handler, transport, ended.clone());
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
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            request = requests.next() => match request {
                Some(request) => {
                    let call = calls::answer(Arc::clone(&session), request);
                    tasks.spawn(ended.clone().run_until_cancelled_owned(call));
                }
                None => return,
            },
            _ = &mut protocol => return,
        }
    }
}
