//! Requests sent over a connection, until their responses arrive.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;

use crate::cancellation::Cancellation;
use crate::envelope::RpcOutcome;
use crate::json::{self, Member, RawJson};
use crate::mailbox::{Mailbox, RequestError};
use crate::peer::Peer;
use crate::writer::{COPIED, MessageWriter};

/// Bytes reserved for a request's envelope around its parameters.
const ENVELOPE: usize = 160;

/// An event of a pending request.
#[derive(Debug)]
pub enum RequestEvent {
    /// The `params` of a progress notification, including this side's progress token.
    Progress(RawJson),
    /// The response, or the error that replaced it.
    Completed(Result<RpcOutcome, RequestError>),
}

/// A request that waits for its response. Dropping it sends a cancellation to the other side.
pub struct PendingRequest {
    id: u64,
    mailbox: Arc<Mailbox>,
    peer: Peer,
    outlet: MessageWriter,
    /// The request that caused this one. Its cancellation reason is passed on.
    of: Option<Cancellation>,
}

impl PendingRequest {
    pub(crate) fn new(id: u64, mailbox: Arc<Mailbox>, peer: Peer, outlet: MessageWriter) -> Self {
        Self { id, mailbox, peer, outlet, of: None }
    }

    /// Sets the parent request, whose cancellation reason is sent if this request is cancelled.
    pub fn with_parent(mut self, request: Option<Cancellation>) -> Self {
        self.of = request;
        self
    }

    /// Returns the next event of this request: queued progress first, then the response.
    ///
    /// Cancel safe. Must not be called again after [`RequestEvent::Completed`].
    pub async fn next(&mut self) -> RequestEvent {
        poll_fn(|context| {
            self.mailbox.with(|arrived| {
                if let Some(progress) = arrived.progress.pop_front() {
                    return Poll::Ready(RequestEvent::Progress(progress));
                }
                if let Some(answer) = arrived.answer.take() {
                    return Poll::Ready(RequestEvent::Completed(answer));
                }
                arrived.waker = Some(context.waker().clone());
                Poll::Pending
            })
        })
        .await
    }

    /// Stops waiting for the response without cancelling the request on the other side.
    pub fn forget(&mut self) {
        self.peer.abandon(self.id);
    }

    /// Waits for the response and discards progress. Cancel safe.
    pub async fn response(&mut self) -> Result<RpcOutcome, RequestError> {
        loop {
            if let RequestEvent::Completed(answer) = self.next().await {
                return answer;
            }
        }
    }
}

impl Drop for PendingRequest {
    fn drop(&mut self) {
        if !self.peer.abandon(self.id) {
            return;
        }
        self.peer.note_notification();
        let mut notice =
            br#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"#
                .to_vec();
        json::push_number(&mut notice, self.id);
        if let Some(reason) = self.of.as_ref().and_then(Cancellation::reason) {
            notice.extend_from_slice(br#","reason":"#);
            json::push_text(&mut notice, reason);
        }
        notice.extend_from_slice(b"}}");
        if self.outlet.try_send(vec![Bytes::from(notice)]).is_err() {
            tracing::debug!(id = self.id, "failed to send a cancellation");
        }
    }
}

/// Registers a new request, without sending anything. Returns `None` if the connection has
/// ended.
pub(crate) fn begin(peer: &Peer, outlet: &MessageWriter) -> Option<PendingRequest> {
    let (id, mailbox) = peer.register_outgoing()?;
    Some(PendingRequest::new(id, mailbox, peer.clone(), outlet.clone()))
}

/// Sends a request with `params` as they are, and returns once it is written.
pub async fn send_raw_request(
    peer: &Peer,
    outlet: &MessageWriter,
    method: &str,
    params: Option<RawJson>,
) -> Result<PendingRequest, RequestError> {
    let pending = begin(peer, outlet).ok_or(RequestError::NotSent)?;
    let mut head = Vec::new();
    write_head(&mut head, pending.id, method);
    let mut parts = vec![Bytes::from(head)];
    if let Some(params) = params {
        parts.extend([Bytes::from_static(br#","params":"#), params.into_bytes()]);
    }
    parts.push(Bytes::from_static(b"}"));
    outlet.send_flushed(parts).await.map_err(|_| RequestError::Closed)?;
    Ok(pending)
}

/// Queues a request with the given members of `params` and of `params._meta`. If
/// `wants_progress`, the request's own id is its progress token.
pub async fn send_request(
    peer: &Peer,
    outlet: &MessageWriter,
    method: &str,
    params: &[(&str, &RawJson)],
    meta: &[Member],
    wants_progress: bool,
) -> Result<PendingRequest, RequestError> {
    let pending = begin(peer, outlet).ok_or(RequestError::NotSent)?;
    let parts = write_request(pending.id, method, params, meta, wants_progress);
    let sent = if peer.are_several() {
        outlet.send_batched(parts).await
    } else {
        outlet.send(parts).await
    };
    sent.map_err(|_| RequestError::Closed)?;
    Ok(pending)
}

fn write_request(
    id: u64,
    method: &str,
    params: &[(&str, &RawJson)],
    meta: &[Member],
    wants_progress: bool,
) -> Vec<Bytes> {
    let mut text = Text::default();
    let lengths = params.iter().map(|(key, value)| key.len() + value.len());
    let length = lengths.filter(|length| *length <= COPIED).sum::<usize>();
    text.last.reserve(ENVELOPE + length);
    write_head(&mut text.last, id, method);
    text.push(br#","params":{"#);
    for (key, value) in params {
        text.push_member(key, value);
    }
    if wants_progress || !meta.is_empty() {
        text.separate();
        text.push(br#""_meta":{"#);
        for (key, value) in meta {
            text.push_member(key, value);
        }
        if wants_progress {
            text.separate();
            text.push(br#""progressToken":"#);
            json::push_number(&mut text.last, id);
        }
        text.push(b"}");
    }
    text.push(b"}}");
    text.into_parts()
}

fn write_head(text: &mut Vec<u8>, id: u64, method: &str) {
    text.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    json::push_number(text, id);
    text.extend_from_slice(br#","method":"#);
    json::push_text(text, method);
}

/// JSON text under construction. Short values are copied, long ones shared.
#[derive(Default)]
struct Text {
    parts: Vec<Bytes>,
    last: Vec<u8>,
}

impl Text {
    fn push(&mut self, text: &[u8]) {
        self.last.extend_from_slice(text);
    }

    fn separate(&mut self) {
        // An empty buffer follows a long value, so a comma is needed then too.
        if self.last.last() != Some(&b'{') {
            self.last.push(b',');
        }
    }

    fn push_member(&mut self, key: &str, value: &RawJson) {
        self.separate();
        json::push_text(&mut self.last, key);
        self.last.push(b':');
        if value.len() <= COPIED {
            self.push(value.as_bytes());
        } else {
            self.parts.extend([std::mem::take(&mut self.last).into(), value.clone().into_bytes()]);
        }
    }

    fn into_parts(mut self) -> Vec<Bytes> {
        self.parts.push(self.last.into());
        self.parts
    }
}
