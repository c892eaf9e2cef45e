//! Requests and notifications from the other side of a connection, and the way back.

use bytes::Bytes;
use serde::Deserialize;

use crate::raw::{self, Raw};
use crate::wire::Closed;
use crate::wire::cancellation::Cancellation;
use crate::wire::code::INTERNAL_ERROR;
use crate::wire::envelope::{Malformed, Message, Outcome};
use crate::wire::mailbox::RequestError;
use crate::wire::outgoing::Pending;
use crate::wire::peer::Peer;
use crate::wire::writer::Writer;

/// How a message begins that has an id.
const WITH_ID: &[u8] = br#"{"jsonrpc":"2.0","id":"#;
const RESULT: &[u8] = br#","result":"#;
const ERROR: &[u8] = br#","error":"#;

/// A message that came in and is to be dealt with.
pub enum Incoming {
    /// Wants an answer.
    Request(Request),
    /// Wants none.
    Notification {
        /// The method of the notification.
        method: String,
        /// Its `params`, as written.
        params: Option<Raw>,
    },
}

impl Peer {
    /// Takes the message of one line. What is left to do comes back; a request's answer, and
    /// whatever belongs to it, goes to `outlet`.
    pub fn take(&self, line: &Bytes, outlet: &Writer) -> Result<Option<Incoming>, Malformed> {
        Message::parse(line).map(|message| self.take_message(message, outlet))
    }

    /// Takes a message that was read, as [`Peer::take`] does.
    pub fn take_message(&self, message: Message, outlet: &Writer) -> Option<Incoming> {
        match message {
            Message::Request { id, method, params } => {
                let reply = self.reply(id, outlet.clone());
                Some(Incoming::Request(Request { method, params, reply }))
            }
            Message::Answer { id, outcome } => {
                if let Some(waiting) = self.take_waiting(&id) {
                    waiting.answer(Ok(outcome));
                } else {
                    tracing::debug!(?id, "an answer that nobody waits for");
                }
                None
            }
            Message::Notification { method, params } => match method.as_str() {
                "notifications/cancelled" => {
                    self.cancel(params.as_ref());
                    None
                }
                "notifications/progress" => {
                    let untaken = self.progress(params?)?;
                    Some(Incoming::Notification { method, params: Some(untaken) })
                }
                _ => Some(Incoming::Notification { method, params }),
            },
        }
    }

    fn reply(&self, id: Raw, outlet: Writer) -> Reply {
        let (serial, cancelled) = self.note(&id);
        Reply::new(id, serial, self.clone(), outlet, cancelled)
    }
}

/// A request of the other side.
pub struct Request {
    /// The method of the request.
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
    serial: u64,
    peer: Peer,
    outlet: Writer,
    cancelled: Cancellation,
    is_answered: bool,
}

impl Reply {
    pub(crate) fn new(
        id: Raw,
        serial: u64,
        peer: Peer,
        outlet: Writer,
        cancelled: Cancellation,
    ) -> Self {
        Self { id, serial, peer, outlet, cancelled, is_answered: false }
    }

    /// The request's id, as written.
    pub fn id(&self) -> &Raw {
        &self.id
    }

    /// Resolves when the other side cancels the request; its answer is then not sent.
    pub async fn cancelled(&self) {
        self.cancelled.cancelled().await;
    }

    /// Tells whether the request is cancelled, and can cancel it. What waits for it there and in
    /// [`Reply::cancelled`] must not be two.
    pub fn cancellation(&self) -> &Cancellation {
        &self.cancelled
    }

    /// Sends a notification that belongs to the request, unless it was cancelled.
    pub async fn notify(&self, method: &str, params: Option<Raw>) -> Result<(), Closed> {
        if self.cancelled.is_cancelled() {
            return Ok(());
        }
        self.outlet.send(notification(method, params)).await
    }

    /// The way to ask the other side something that belongs to the request.
    pub fn asker(&self) -> Asker {
        Asker { peer: self.peer.clone(), outlet: self.outlet.clone() }
    }

    /// Answers; waits until there is room for that in the queue of what is to be written.
    pub async fn answer(mut self, outcome: Outcome) -> Result<(), Closed> {
        self.is_answered = true;
        if self.cancelled.is_cancelled() {
            return Ok(());
        }
        self.outlet.send(answer(self.id.clone(), outcome)).await
    }

    /// Answers; returns once that is written.
    pub async fn answer_written(mut self, outcome: Outcome) -> Result<(), Closed> {
        self.is_answered = true;
        if self.cancelled.is_cancelled() {
            return Ok(());
        }
        self.outlet.send_written(answer(self.id.clone(), outcome)).await
    }

    /// Answers without waiting for that to be written; given up where there is no room for it.
    pub fn answer_later(mut self, outcome: Outcome) {
        self.is_answered = true;
        if !self.cancelled.is_cancelled()
            && self.outlet.try_send(answer(self.id.clone(), outcome)).is_err()
        {
            tracing::debug!("a request ends unanswered");
        }
    }
}

/// Asks the other side what belongs to a request of it.
pub struct Asker {
    peer: Peer,
    outlet: Writer,
}

impl Asker {
    /// Asks, and waits until the question is written.
    pub async fn ask(&self, method: &str, params: Option<Raw>) -> Result<Pending, RequestError> {
        self.peer.ask(&self.outlet, method, params).await
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if !self.is_answered && !self.cancelled.is_cancelled() {
            let message = "given up: the workbench is ending, or has failed and its log says why";
            let error = self.peer.farewell();
            let error = error.unwrap_or_else(|| error_object(INTERNAL_ERROR, message, None));
            let error = Outcome::Error(error);
            if self.outlet.try_send(answer(self.id.clone(), error)).is_err() {
                tracing::debug!("a request ends unanswered");
            }
        }
        self.peer.forget(&self.id, self.serial);
    }
}

/// An answer to the request called `id`.
pub fn answer(id: Raw, outcome: Outcome) -> Vec<Bytes> {
    let (member, value) = match outcome {
        Outcome::Result(result) => (RESULT, result),
        Outcome::Error(error) => (ERROR, error),
    };
    vec![
        Bytes::from_static(WITH_ID),
        id.into_bytes(),
        Bytes::from_static(member),
        value.into_bytes(),
        Bytes::from_static(b"}"),
    ]
}

/// The kind of a message that waits to be written.
#[derive(Debug, PartialEq, Eq)]
pub enum Sent {
    /// An answer: a result.
    Result,
    /// An answer: an error of this code.
    Error(i64),
    /// A request, which wants an answer.
    Question,
    /// A notification.
    Notice,
}

/// Says what a message is, by the parts that it was put together from.
pub fn sent(parts: &[Bytes]) -> Sent {
    #[derive(Deserialize)]
    struct Error {
        code: i64,
    }

    match parts {
        [_, _, member, _, _] if member == RESULT => Sent::Result,
        [_, _, member, error, _] if member == ERROR => {
            let error = serde_json::from_slice::<Error>(error);
            Sent::Error(error.map_or(INTERNAL_ERROR, |error| error.code))
        }
        [head, ..] if head.starts_with(WITH_ID) => Sent::Question,
        _ => Sent::Notice,
    }
}

/// The id of the request that a message answers, by the parts that it was put together from.
pub fn answered(parts: &[Bytes]) -> Option<Raw> {
    match parts {
        [_, id, member, _, _] if member == RESULT || member == ERROR => {
            Some(Raw::part_of(id, 0..id.len()))
        }
        _ => None,
    }
}

/// A notification.
pub(crate) fn notification(method: &str, params: Option<Raw>) -> Vec<Bytes> {
    let mut head = br#"{"jsonrpc":"2.0","method":"#.to_vec();
    raw::push_text(&mut head, method);
    let Some(params) = params else {
        head.push(b'}');
        return vec![Bytes::from(head)];
    };
    head.extend_from_slice(br#","params":"#);
    vec![Bytes::from(head), params.into_bytes(), Bytes::from_static(b"}")]
}

/// An error object of JSON-RPC.
pub fn error_object(code: i64, message: &str, data: Option<&Raw>) -> Raw {
    let (code, message) = (Raw::encode(&code), Raw::encode(&message));
    let members = [("code", &code), ("message", &message)];
    raw::object(members.into_iter().chain(data.map(|data| ("data", data))))
}

#[cfg(test)]
mod tests;
