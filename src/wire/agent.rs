//! The link to one agent: requests of the relay lane, and the transport that `rmcp` serves through.
//!
//! *Theory of operation.* One task reads the agent's lines. Requests for the methods in
//! [`RELAYED`] come out of [`Requests`] as raw text, each with a [`Reply`] that answers it exactly
//! once; a `notifications/cancelled` for one of them cancels it here, and nothing more is sent
//! for it. Everything else goes to [`AgentTransport`]. At the end of input [`Requests::next`]
//! returns `None` at once, whatever is still running.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use rmcp::RoleServer;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::value::RawValue;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::raw::{self, Raw};
use crate::wire::Closed;
use crate::wire::envelope::{self, Malformed, Message};
use crate::wire::line::{Line, LineReader};
use crate::wire::writer::Writer;

/// The methods whose parameters and results pass as raw text.
pub const RELAYED: [&str; 2] = ["tools/call", "tools/list"];

/// JSON-RPC: the line is not JSON.
const PARSE_ERROR: i64 = -32700;
/// JSON-RPC: something went wrong here.
const INTERNAL_ERROR: i64 = -32603;
/// JSON-RPC: the line is JSON, but no request.
const INVALID_REQUEST: i64 = -32600;

/// How many messages may wait before the agent's lines are no longer read.
const QUEUE: usize = 256;

/// Requests in flight, by the raw text of their ids.
type InFlight = Arc<Mutex<HashMap<Bytes, CancellationToken>>>;

fn with_in_flight<T>(
    in_flight: &InFlight,
    f: impl FnOnce(&mut HashMap<Bytes, CancellationToken>) -> T,
) -> T {
    f(&mut in_flight.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Connects to an agent over its streams. Both halves of the link run as tasks on `tasks`.
///
/// `max` bounds one message, in bytes; a longer one is answered with an error.
pub fn connect<R, W>(
    reader: R,
    writer: W,
    max: usize,
    tasks: &TaskTracker,
) -> (Requests, AgentTransport, Notifier)
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let writer = Writer::start(writer, tasks);
    let (to_relay, requests) = mpsc::channel(QUEUE);
    let (to_rmcp, messages) = mpsc::channel(QUEUE);
    let reading = Reading {
        writer: writer.clone(),
        in_flight: InFlight::default(),
        to_relay,
        to_rmcp,
        has_started: false,
    };
    tasks.spawn(reading.run(LineReader::new(reader, max)));
    (
        Requests { requests },
        AgentTransport { writer: writer.clone(), messages },
        Notifier { writer },
    )
}

/// The requests of the relay lane, in the order of the lines.
pub struct Requests {
    requests: mpsc::Receiver<Request>,
}

impl Requests {
    /// The next request; `None` once the agent's output has ended.
    pub async fn next(&mut self) -> Option<Request> {
        self.requests.recv().await
    }

    /// The next request, if it has been read already.
    pub fn next_that_is_here(&mut self) -> Option<Request> {
        self.requests.try_recv().ok()
    }
}

/// One request of the relay lane.
pub struct Request {
    /// Which of [`RELAYED`] it is.
    pub method: String,
    /// Its `params`, as written.
    pub params: Option<Raw>,
    /// Where its answer goes.
    pub reply: Reply,
}

/// The way back for one request. Dropping it unanswered, as a panic or the end of the session
/// does, answers with an error.
pub struct Reply {
    id: Raw,
    writer: Writer,
    in_flight: InFlight,
    cancelled: CancellationToken,
    is_answered: bool,
}

impl Reply {
    /// Resolves when the agent cancels the request; its answer is then not sent.
    pub async fn cancelled(&self) {
        self.cancelled.cancelled().await;
    }

    /// Sends a notification that belongs to the request, unless it was cancelled.
    pub async fn notify(&self, method: &str, params: Raw) -> Result<(), Closed> {
        if self.cancelled.is_cancelled() {
            return Ok(());
        }
        self.writer.send(notification(method, Some(params))).await
    }

    /// Answers with a result; returns once it is written.
    pub async fn result(self, result: Raw) -> Result<(), Closed> {
        self.answer("result", result).await
    }

    /// Answers with an error object; returns once it is written.
    pub async fn error(self, error: Raw) -> Result<(), Closed> {
        self.answer("error", error).await
    }

    async fn answer(mut self, member: &str, value: Raw) -> Result<(), Closed> {
        self.is_answered = true;
        if self.cancelled.is_cancelled() {
            return Ok(());
        }
        self.writer.send(answer(self.id.clone(), member, value)).await
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if !self.is_answered && !self.cancelled.is_cancelled() {
            let message = "given up: the workbench is ending, or has failed and its log says why";
            let error = error_object(INTERNAL_ERROR, message, None);
            if self.writer.try_send(answer(self.id.clone(), "error", error)).is_err() {
                tracing::debug!("a request ends unanswered");
            }
        }
        with_in_flight(&self.in_flight, |table| table.remove(self.id.as_bytes()));
    }
}

fn answer(id: Raw, member: &str, value: Raw) -> Vec<Bytes> {
    vec![
        Bytes::from_static(br#"{"jsonrpc":"2.0","id":"#),
        id.into_bytes(),
        Bytes::from(format!(r#","{member}":"#)),
        value.into_bytes(),
        Bytes::from_static(b"}"),
    ]
}

fn notification(method: &str, params: Option<Raw>) -> Vec<Bytes> {
    let head = format!(r#"{{"jsonrpc":"2.0","method":"{method}""#);
    match params {
        None => vec![Bytes::from(head + "}")],
        Some(params) => {
            vec![Bytes::from(head + r#","params":"#), params.into_bytes(), Bytes::from_static(b"}")]
        }
    }
}

/// An error object of JSON-RPC.
pub fn error_object(code: i64, message: &str, data: Option<&Raw>) -> Raw {
    let (code, message) = (Raw::encode(&code), Raw::encode(&message));
    let members = [("code", &code), ("message", &message)];
    raw::object(members.into_iter().chain(data.map(|data| ("data", data))))
}

/// Sends notifications that belong to no request.
#[derive(Clone)]
pub struct Notifier {
    writer: Writer,
}

impl Notifier {
    /// Sends a notification; returns once it is written.
    pub async fn notify(&self, method: &str, params: Option<Raw>) -> Result<(), Closed> {
        self.writer.send(notification(method, params)).await
    }
}

struct Reading {
    writer: Writer,
    in_flight: InFlight,
    to_relay: mpsc::Sender<Request>,
    to_rmcp: mpsc::Sender<RxJsonRpcMessage<RoleServer>>,
    /// Whether `rmcp` has seen a request; anything else before that ends its session.
    has_started: bool,
}

impl Reading {
    async fn run<R: AsyncRead + Unpin>(mut self, mut lines: LineReader<R>) {
        while let Some(line) = lines.next().await {
            let refused = match line {
                Line::Message(line) => self.take(&line).await,
                Line::Oversized { head, tail, length } => {
                    tracing::warn!(length, "a message of the agent was too long");
                    Err(Refusal {
                        id: envelope::id_at_edges(&head, &tail),
                        code: INVALID_REQUEST,
                        message: format!(
                            "the message has {length} bytes, which is more than this server takes \
                             (limits.maxMessageBytes)"
                        ),
                    })
                }
            };
            if let Err(Refusal { id, code, message }) = refused {
                let id = id.unwrap_or_else(|| Raw::encode(&()));
                let error = error_object(code, &message, None);
                if self.writer.send(answer(id, "error", error)).await.is_err() {
                    break;
                }
            }
        }
    }

    async fn take(&mut self, line: &Bytes) -> Result<(), Refusal> {
        let message = Message::parse(line).map_err(|malformed| match malformed {
            Malformed::NotJson(error) => Refusal {
                id: None,
                code: PARSE_ERROR,
                message: format!("expected one JSON-RPC message a line: {error}"),
            },
            Malformed::NoMessage => Refusal {
                id: None,
                code: INVALID_REQUEST,
                message: "expected a JSON-RPC request, notification or response".to_owned(),
            },
        })?;
        match message {
            Message::Request { id, method, params } if RELAYED.contains(&method.as_str()) => {
                let cancelled = CancellationToken::new();
                with_in_flight(&self.in_flight, |table| {
                    table.insert(Bytes::copy_from_slice(id.as_bytes()), cancelled.clone())
                });
                let reply = Reply {
                    id,
                    writer: self.writer.clone(),
                    in_flight: Arc::clone(&self.in_flight),
                    cancelled,
                    is_answered: false,
                };
                // Refused only while shutting down, when nobody reads answers any more.
                let _ = self.to_relay.send(Request { method, params, reply }).await;
                Ok(())
            }
            Message::Notification { method, params }
                if method == "notifications/cancelled" && self.cancel(params.as_ref()) =>
            {
                Ok(())
            }
            Message::Notification { method, .. } if !self.has_started => {
                tracing::debug!(method, "a notification before the first request");
                Ok(())
            }
            Message::Answer { id, .. } if !self.has_started => {
                tracing::debug!(?id, "an answer before the first request");
                Ok(())
            }
            Message::Request { id, .. } => {
                self.has_started = true;
                self.pass_on(line, Some(id)).await
            }
            Message::Notification { .. } | Message::Answer { .. } => self.pass_on(line, None).await,
        }
    }

    /// Cancels the request of the relay lane that the notification names, if it names one.
    fn cancel(&self, params: Option<&Raw>) -> bool {
        #[derive(serde::Deserialize)]
        struct Cancelled {
            #[serde(rename = "requestId")]
            request_id: Box<RawValue>,
        }

        let Some(cancelled) = params.and_then(|params| params.parse::<Cancelled>().ok()) else {
            return false;
        };
        let id = cancelled.request_id.get().as_bytes();
        with_in_flight(&self.in_flight, |table| table.get(id).cloned())
            .inspect(CancellationToken::cancel)
            .is_some()
    }

    async fn pass_on(&self, line: &Bytes, id: Option<Raw>) -> Result<(), Refusal> {
        match serde_json::from_slice(line) {
            Ok(message) => {
                // Refused only while shutting down, when nobody reads answers any more.
                let _ = self.to_rmcp.send(message).await;
                Ok(())
            }
            Err(error) if id.is_some() => Err(Refusal {
                id,
                code: INVALID_REQUEST,
                message: format!("the request does not have the form of its method: {error}"),
            }),
            Err(error) => {
                tracing::debug!(%error, "a message of the agent that nobody understands");
                Ok(())
            }
        }
    }
}

struct Refusal {
    id: Option<Raw>,
    code: i64,
    message: String,
}

/// The transport that `rmcp` serves this agent through.
pub struct AgentTransport {
    writer: Writer,
    messages: mpsc::Receiver<RxJsonRpcMessage<RoleServer>>,
}

impl Transport<RoleServer> for AgentTransport {
    type Error = Closed;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Closed>> + Send + 'static {
        let writer = self.writer.clone();
        async move { writer.send(vec![Raw::encode(&item).into_bytes()]).await }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        self.messages.recv().await
    }

    /// Closes nothing: answers of the relay lane may still be under way.
    async fn close(&mut self) -> Result<(), Closed> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
