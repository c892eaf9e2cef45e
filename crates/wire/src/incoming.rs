//! Requests and notifications from the peer, and the responses to them.

use bytes::Bytes;
use serde::Deserialize;

use crate::ConnectionClosed;
use crate::cancellation::Cancellation;
use crate::code::INTERNAL_ERROR;
use crate::envelope::{JsonRpcMessage, MessageParseError, RpcOutcome, UNREADABLE_NAME};
use crate::json::{self, EditError, RawJson};
use crate::mailbox::RequestError;
use crate::outgoing::{PendingRequest, send_raw_request};
use crate::peer::Peer;
use crate::writer::MessageWriter;

/// The beginning of every message with an id.
const WITH_ID: &[u8] = br#"{"jsonrpc":"2.0","id":"#;
const RESULT: &[u8] = br#","result":"#;
const ERROR: &[u8] = br#","error":"#;

/// A message that the receiver has to handle.
pub enum IncomingMessage {
    Request(IncomingRequest),
    Notification {
        method: String,
        /// The `params` member, as written.
        params: Option<RawJson>,
    },
}

/// Receives the message of one line. Responses, cancellations and matched progress are handled
/// here; everything else is returned. The response to a request, and its notifications, go to
/// `outlet`. An error is still to be answered.
pub fn receive(
    peer: &Peer,
    line: &Bytes,
    outlet: &MessageWriter,
) -> Result<Option<IncomingMessage>, MessageParseError> {
    match JsonRpcMessage::parse(line) {
        Ok(message) => Ok(receive_message(peer, message, outlet)),
        Err(malformed) => reject(peer, malformed).map_or(Ok(None), Err),
    }
}

/// Handles a message with unreadable names, unless it is a request: a response fails its
/// request, and a notification is dropped. Returns all other malformed messages.
pub(super) fn reject(peer: &Peer, malformed: MessageParseError) -> Option<MessageParseError> {
    let MessageParseError::UnreadableName(message) = malformed else { return Some(malformed) };
    match *message {
        JsonRpcMessage::Response { id, outcome } => {
            peer.settle(&id, Err(RequestError::UnreadableName(outcome)));
        }
        JsonRpcMessage::Notification { method, .. } => {
            tracing::warn!(method, "dropped a notification: {UNREADABLE_NAME}");
        }
        request @ JsonRpcMessage::Request { .. } => {
            return Some(MessageParseError::UnreadableName(Box::new(request)));
        }
    }
    None
}

/// Receives a parsed message, as [`receive`] does.
pub fn receive_message(
    peer: &Peer,
    message: JsonRpcMessage,
    outlet: &MessageWriter,
) -> Option<IncomingMessage> {
    match message {
        JsonRpcMessage::Request { id, method, params } => {
            let responder = reply(peer, &id, outlet.clone());
            Some(IncomingMessage::Request(IncomingRequest { method, params, responder }))
        }
        JsonRpcMessage::Response { id, outcome } => {
            if let Some(waiting) = peer.take_waiting(&id) {
                waiting.answer(Ok(outcome));
            } else {
                tracing::debug!(?id, "ignored an unexpected response");
                let (RpcOutcome::Result(value) | RpcOutcome::Error(value)) = outcome;
                let value = String::from_utf8_lossy(&value.as_bytes()[..value.len().min(200)]);
                peer.note_unusable(&format!(
                    "response with the unknown id {}: {value}",
                    id.as_str()
                ));
            }
            None
        }
        JsonRpcMessage::Notification { method, params } => match method.as_str() {
            "notifications/cancelled" => {
                peer.cancel(params.as_ref());
                None
            }
            "notifications/progress" => {
                let untaken = peer.progress(params?)?;
                Some(IncomingMessage::Notification { method, params: Some(untaken) })
            }
            _ => Some(IncomingMessage::Notification { method, params }),
        },
    }
}

fn reply(peer: &Peer, id: &RawJson, outlet: MessageWriter) -> Responder {
    // The request waits without the rest of its message, which can be long.
    let id = RawJson::from_range(&Bytes::copy_from_slice(id.as_bytes()), 0..id.len());
    let (serial, cancelled) = peer.register_incoming(&id);
    Responder::new(id, serial, peer.clone(), outlet, cancelled)
}

pub struct IncomingRequest {
    pub method: String,
    /// The `params` member, as written.
    pub params: Option<RawJson>,
    pub responder: Responder,
}

/// Sends the response to one request. If it is dropped without responding, by a panic or the end of
/// the session, it sends an error.
pub struct Responder {
    id: RawJson,
    serial: u64,
    peer: Peer,
    outlet: MessageWriter,
    cancelled: Cancellation,
    is_answered: bool,
}

impl Responder {
    pub(crate) fn new(
        id: RawJson,
        serial: u64,
        peer: Peer,
        outlet: MessageWriter,
        cancelled: Cancellation,
    ) -> Self {
        Self { id, serial, peer, outlet, cancelled, is_answered: false }
    }

    pub fn id(&self) -> &RawJson {
        &self.id
    }

    /// Returns the number of the peer's unanswered requests, including this one.
    pub fn open_requests(&self) -> usize {
        self.peer.open_requests()
    }

    /// Resolves once the peer cancels the request. No response is sent then.
    pub async fn cancelled(&self) {
        self.cancelled.cancelled().await;
    }

    /// Returns the request's cancellation. Only one task may wait, either on it or on
    /// [`Responder::cancelled`].
    pub fn cancellation(&self) -> &Cancellation {
        &self.cancelled
    }

    /// Sends a notification related to the request, unless the request was cancelled.
    pub async fn notify(
        &self,
        method: &str,
        params: Option<RawJson>,
    ) -> Result<(), ConnectionClosed> {
        if self.cancelled.is_cancelled() {
            return Ok(());
        }
        self.outlet.send(encode_notification(method, params)).await
    }

    /// Returns a sender for requests to the peer that belong to this one.
    pub fn request_sender(&self) -> RequestSender {
        RequestSender { peer: self.peer.clone(), outlet: self.outlet.clone() }
    }

    /// Sends the response; waits while the write queue is full.
    pub async fn respond(mut self, outcome: RpcOutcome) -> Result<(), ConnectionClosed> {
        self.is_answered = true;
        if self.cancelled.is_cancelled() {
            return Ok(());
        }
        self.outlet.send(encode_response(self.id.clone(), outcome)).await
    }

    /// Sends the response and waits until it is written.
    pub async fn respond_and_flush(mut self, outcome: RpcOutcome) -> Result<(), ConnectionClosed> {
        self.is_answered = true;
        if self.cancelled.is_cancelled() {
            return Ok(());
        }
        self.outlet.send_flushed(encode_response(self.id.clone(), outcome)).await
    }

    /// Queues the response without waiting. Drops it if the write queue is full.
    pub fn try_respond(mut self, outcome: RpcOutcome) {
        self.is_answered = true;
        if !self.cancelled.is_cancelled()
            && self.outlet.try_send(encode_response(self.id.clone(), outcome)).is_err()
        {
            tracing::debug!("response dropped: the connection is closed or its queue is full");
        }
    }
}

/// Sends requests to the peer on behalf of one of the peer's own requests.
pub struct RequestSender {
    peer: Peer,
    outlet: MessageWriter,
}

impl RequestSender {
    /// Sends a request and waits until it is written.
    pub async fn send_request(
        &self,
        method: &str,
        params: Option<RawJson>,
    ) -> Result<PendingRequest, RequestError> {
        send_raw_request(&self.peer, &self.outlet, method, params).await
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        if !self.is_answered && !self.cancelled.is_cancelled() {
            let message = "aborted: the workbench is shutting down or has failed (see its log)";
            let error = self.peer.shutdown_error();
            let error = error.unwrap_or_else(|| error_object(INTERNAL_ERROR, message, None));
            let error = RpcOutcome::Error(error);
            if self.outlet.try_send(encode_response(self.id.clone(), error)).is_err() {
                tracing::debug!("response dropped: the connection is closed or its queue is full");
            }
        }
        self.peer.forget(&self.id, self.serial);
    }
}

/// Encodes the response to the request with this id.
pub fn encode_response(id: RawJson, outcome: RpcOutcome) -> Vec<Bytes> {
    let (member, value) = match outcome {
        RpcOutcome::Result(result) => (RESULT, result),
        RpcOutcome::Error(error) => (ERROR, error),
    };
    vec![
        Bytes::from_static(WITH_ID),
        id.into_bytes(),
        Bytes::from_static(member),
        value.into_bytes(),
        Bytes::from_static(b"}"),
    ]
}

/// The kind of an encoded message.
#[derive(Debug, PartialEq, Eq)]
pub enum MessageKind {
    /// A response with a result.
    Result,
    /// A response with an error of this code.
    Error(i64),
    Request,
    Notification,
}

/// Returns the kind of an encoded message, from its parts.
pub fn classify(parts: &[Bytes]) -> MessageKind {
    #[derive(Deserialize)]
    struct Error {
        code: i64,
    }

    match parts {
        [_, _, member, _, _] if member == RESULT => MessageKind::Result,
        [_, _, member, error, _] if member == ERROR => {
            let error = serde_json::from_slice::<Error>(error);
            MessageKind::Error(error.map_or(INTERNAL_ERROR, |error| error.code))
        }
        [head, ..] if head.starts_with(WITH_ID) => MessageKind::Request,
        _ => MessageKind::Notification,
    }
}

/// Returns the id of the request that an encoded message responds to.
pub fn response_id(parts: &[Bytes]) -> Option<RawJson> {
    match parts {
        [_, id, member, _, _] if member == RESULT || member == ERROR => {
            Some(RawJson::from_range(id, 0..id.len()))
        }
        _ => None,
    }
}

pub(crate) fn encode_notification(method: &str, params: Option<RawJson>) -> Vec<Bytes> {
    let mut head = br#"{"jsonrpc":"2.0","method":"#.to_vec();
    json::push_text(&mut head, method);
    let Some(params) = params else {
        head.push(b'}');
        return vec![Bytes::from(head)];
    };
    head.extend_from_slice(br#","params":"#);
    vec![Bytes::from(head), params.into_bytes(), Bytes::from_static(b"}")]
}

impl RpcOutcome {
    /// Wraps an edited result. A failed edit becomes an error: the result before the edit must not
    /// be used.
    pub fn from_edit(edited: Result<RawJson, EditError>) -> Self {
        match edited {
            Ok(result) => Self::Result(result),
            Err(error) => Self::Error(edit_error(error)),
        }
    }
}

/// Creates the error object that replaces a result or error of a server if an edit of it failed.
pub fn edit_error(error: EditError) -> RawJson {
    let message = format!("the server's response cannot be processed: {error}");
    error_object(INTERNAL_ERROR, &message, None)
}

/// Creates a JSON-RPC error object (JSON-RPC 2.0 §5.1).
pub fn error_object(code: i64, message: &str, data: Option<&RawJson>) -> RawJson {
    let (code, message) = (RawJson::encode(&code), RawJson::encode(&message));
    let members = [("code", &code), ("message", &message)];
    json::object(members.into_iter().chain(data.map(|data| ("data", data))))
}

#[cfg(test)]
mod tests;
