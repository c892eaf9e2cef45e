//! The link to one server: calls of the relay lane, and the transport that `rmcp` speaks through.
//!
//! *Theory of operation.* One task reads the server's lines. An answer to a request that was made
//! through [`Link::request`] goes to whoever waits for it, and progress for that request before
//! it, in the order of the lines; answers that nobody waits for (late, repeated, invented) are
//! dropped. Everything else goes to [`ServerTransport`]. At the end of input every waiting request
//! fails at once and [`Link::closed`] resolves.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde::Deserialize;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::raw::{self, Raw};
use crate::wire::Closed;
use crate::wire::envelope::{self, Message};
use crate::wire::line::{Line, LineReader};
use crate::wire::writer::Writer;

pub use crate::wire::envelope::Outcome;

/// Ids of the relay lane start here; `rmcp` counts its own from 0, so the two never meet.
const FIRST_ID: u64 = 1_000_000_000;
/// How many messages may wait for `rmcp` before the server's lines are no longer read.
const QUEUE: usize = 256;
/// How many progress notifications of one request may wait for a slow agent; more are left out.
const PROGRESS_QUEUE: usize = 1024;

/// Why a request got no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestError {
    /// The server was gone before anything was sent.
    NotSent,
    /// The server is gone, and may have got the request.
    Closed,
    /// The answer was longer than one message may be; it had this many bytes.
    Oversized(usize),
}

struct Waiting {
    answer: oneshot::Sender<Result<Outcome, RequestError>>,
    progress: Option<mpsc::Sender<Raw>>,
}

struct Shared {
    writer: Writer,
    /// `None` once the server is gone, so that nothing waits for it any more.
    waiting: Mutex<Option<HashMap<u64, Waiting>>>,
    next_id: AtomicU64,
    closed: CancellationToken,
}

impl Shared {
    fn with_waiting<T>(&self, f: impl FnOnce(&mut Option<HashMap<u64, Waiting>>) -> T) -> T {
        f(&mut self.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn close(&self) {
        self.with_waiting(Option::take);
        self.closed.cancel();
    }
}

/// A cloneable handle to the link.
#[derive(Clone)]
pub struct Link(Arc<Shared>);

/// Connects to a server over its streams. Both halves of the link run as tasks on `tasks`.
///
/// `label` names the server in the log; `max` bounds one message, in bytes.
pub fn connect<R, W>(
    reader: R,
    writer: W,
    max: usize,
    label: &str,
    tasks: &TaskTracker,
) -> (Link, ServerTransport)
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let shared = Arc::new(Shared {
        writer: Writer::start(writer, tasks),
        waiting: Mutex::new(Some(HashMap::new())),
        next_id: AtomicU64::new(FIRST_ID),
        closed: CancellationToken::new(),
    });
    let (to_rmcp, messages) = mpsc::channel(QUEUE);
    let (reading, label) = (Arc::clone(&shared), label.to_owned());
    tasks.spawn(async move {
        let lines = LineReader::new(reader, max);
        reading.closed.run_until_cancelled(read(lines, &reading, to_rmcp, label)).await;
        reading.close();
    });
    let link = Link(shared);
    (link.clone(), ServerTransport { link, messages })
}

impl Link {
    /// Sends a request of the relay lane with these members of `params` and of `params._meta`.
    /// Where progress is wanted, the request's own id is its progress token.
    pub async fn request(
        &self,
        method: &str,
        params: &[(&str, &Raw)],
        meta: &[(String, Raw)],
        wants_progress: bool,
    ) -> Result<Request, RequestError> {
        let id = self.0.next_id.fetch_add(1, Ordering::Relaxed);
        let (answer, answered) = oneshot::channel();
        let (progress, progressed) = mpsc::channel(if wants_progress { PROGRESS_QUEUE } else { 1 });
        let waiting = Waiting { answer, progress: wants_progress.then_some(progress) };
        self.0
            .with_waiting(|table| table.as_mut().map(|table| table.insert(id, waiting)))
            .ok_or(RequestError::NotSent)?;
        let request = Request { link: self.clone(), id, answered, progressed };

        let token = wants_progress.then(|| Raw::encode(&id));
        let meta: Vec<_> = meta
            .iter()
            .map(|(key, value)| (key.as_str(), value))
            .chain(token.iter().map(|token| ("progressToken", token)))
            .collect();
        let meta = (!meta.is_empty()).then(|| raw::object(meta));
        let head = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{"#);
        let mut parts = vec![Bytes::from(head)];
        let members = params.iter().copied().chain(meta.iter().map(|meta| ("_meta", meta)));
        for (index, (key, value)) in members.enumerate() {
            let comma = if index == 0 { "" } else { "," };
            parts.push(Bytes::from(format!("{comma}\"{key}\":")));
            parts.push(value.clone().into_bytes());
        }
        parts.push(Bytes::from_static(b"}}"));
        self.0.writer.send(parts).await.map_err(|Closed| RequestError::Closed)?;
        Ok(request)
    }

    /// Resolves when the server's output has ended, or the link.
    pub async fn closed(&self) {
        self.0.closed.cancelled().await;
    }

    /// Whether the server's output has ended, or the link.
    pub fn is_closed(&self) -> bool {
        self.0.closed.is_cancelled()
    }

    /// Resolves when the server takes nothing any more, or its input has been ended.
    pub async fn input_closed(&self) {
        self.0.writer.closed().await;
    }

    /// Ends the server's input, which asks it to leave. A server that has let so much wait that
    /// there is no room for the end is not told.
    pub fn close_input(&self) {
        self.0.writer.close();
    }

    /// Ends the link, though something else may still hold the server's output open: what waits
    /// for an answer fails at once.
    pub fn close(&self) {
        self.0.close();
    }
}

/// A request that waits for its answer. Dropping it cancels it at the server.
pub struct Request {
    link: Link,
    id: u64,
    answered: oneshot::Receiver<Result<Outcome, RequestError>>,
    progressed: mpsc::Receiver<Raw>,
}

/// What came next for a request.
#[derive(Debug)]
pub enum Step {
    /// The `params` of a progress notification, with our token in them.
    Progress(Raw),
    /// The end.
    Done(Result<Outcome, RequestError>),
}

impl Request {
    /// The next thing the server says about this request: progress first, then its answer.
    /// Loses nothing when it is cancelled; must not be called again after [`Step::Done`].
    pub async fn next(&mut self) -> Step {
        tokio::select! {
            biased;
            Some(progress) = self.progressed.recv() => Step::Progress(progress),
            answer = &mut self.answered => {
                Step::Done(answer.unwrap_or(Err(RequestError::Closed)))
            }
        }
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        let shared = &self.link.0;
        let was_waiting =
            shared.with_waiting(|table| table.as_mut().and_then(|table| table.remove(&self.id)));
        if was_waiting.is_none() {
            return;
        }
        let notice = format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{}}}}}"#,
            self.id
        );
        if shared.writer.try_send(vec![Bytes::from(notice)]).is_err() {
            tracing::debug!(id = self.id, "a cancellation could not be sent");
        }
    }
}

async fn read<R: AsyncRead + Unpin>(
    mut lines: LineReader<R>,
    shared: &Shared,
    to_rmcp: mpsc::Sender<RxJsonRpcMessage<RoleClient>>,
    server: String,
) {
    while let Some(line) = lines.next().await {
        let line = match line {
            Line::Message(line) => line,
            Line::Oversized { head, tail, length } => {
                tracing::warn!(server, length, "a message was too long and has been dropped");
                let waiting =
                    envelope::id_at_edges(&head, &tail).and_then(|id| take_waiting(shared, &id));
                if let Some(waiting) = waiting {
                    // Whoever asked may have given up in the meantime.
                    let _ = waiting.answer.send(Err(RequestError::Oversized(length)));
                }
                continue;
            }
        };
        match Message::parse(&line) {
            Ok(Message::Answer { id, outcome }) if is_relay_id(&id) => {
                if let Some(waiting) = take_waiting(shared, &id) {
                    // Whoever asked may have given up in the meantime.
                    let _ = waiting.answer.send(Ok(outcome));
                } else {
                    tracing::debug!(server, ?id, "an answer that nobody waits for");
                }
            }
            Ok(Message::Notification { method, params: Some(params) })
                if method == "notifications/progress" =>
            {
                deliver_progress(shared, params, &server);
            }
            Ok(_) => match serde_json::from_slice(&line) {
                Ok(message) => {
                    if to_rmcp.send(message).await.is_err() {
                        tracing::debug!(server, "a message after the end of the session");
                    }
                }
                Err(error) => tracing::debug!(server, %error, "a message nobody understands"),
            },
            Err(malformed) => {
                tracing::debug!(
                    server,
                    ?malformed,
                    line = %excerpt(&line),
                    "not a message on standard output"
                );
            }
        }
    }
}

fn excerpt(line: &Bytes) -> String {
    String::from_utf8_lossy(&line[..line.len().min(200)]).into_owned()
}

fn relay_id(id: &Raw) -> Option<u64> {
    std::str::from_utf8(id.as_bytes()).ok()?.parse().ok().filter(|id| *id >= FIRST_ID)
}

fn is_relay_id(id: &Raw) -> bool {
    relay_id(id).is_some()
}

fn take_waiting(shared: &Shared, id: &Raw) -> Option<Waiting> {
    let id = relay_id(id)?;
    shared.with_waiting(|table| table.as_mut()?.remove(&id))
}

fn deliver_progress(shared: &Shared, params: Raw, server: &str) {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Progress {
        progress_token: serde_json::Value,
    }

    // Some servers give a number back as a string.
    let number = |token: serde_json::Value| token.as_u64().or_else(|| token.as_str()?.parse().ok());
    let Some(token) = params.parse::<Progress>().ok().and_then(|p| number(p.progress_token)) else {
        tracing::debug!(server, "progress without a token of ours");
        return;
    };
    let delivered = shared.with_waiting(|table| {
        let sender = table.as_ref()?.get(&token)?.progress.as_ref()?;
        sender.try_send(params).ok()
    });
    if delivered.is_none() {
        tracing::debug!(server, token, "progress that nobody takes");
    }
}

/// The transport that `rmcp` speaks to this server through.
pub struct ServerTransport {
    link: Link,
    messages: mpsc::Receiver<RxJsonRpcMessage<RoleClient>>,
}

impl Transport<RoleClient> for ServerTransport {
    type Error = Closed;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Closed>> + Send + 'static {
        let writer = self.link.0.writer.clone();
        async move { writer.send(vec![Raw::encode(&item).into_bytes()]).await }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        self.messages.recv().await
    }

    async fn close(&mut self) -> Result<(), Closed> {
        self.link.close_input();
        Ok(())
    }
}

#[cfg(test)]
mod tests;
