//! Our requests to the other side of a connection, until they are answered.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;

use crate::raw::{self, Member, Raw};
use crate::wire::cancellation::Cancellation;
use crate::wire::envelope::Outcome;
use crate::wire::mailbox::{Mailbox, RequestError};
use crate::wire::peer::Peer;
use crate::wire::writer::{COPIED, Writer};

/// The room that is left for what a request has around its parameters.
const ENVELOPE: usize = 160;

/// The next thing that came for a request.
#[derive(Debug)]
pub enum Step {
    /// The `params` of a progress notification, with our token in them.
    Progress(Raw),
    /// The end.
    Done(Result<Outcome, RequestError>),
}

/// A request that waits for its answer. Dropping it cancels it on the other side.
pub struct Pending {
    id: u64,
    mailbox: Arc<Mailbox>,
    peer: Peer,
    outlet: Writer,
    /// The request that this one belongs to, which may be cancelled for a reason.
    of: Option<Cancellation>,
}

impl Pending {
    pub(crate) fn new(id: u64, mailbox: Arc<Mailbox>, peer: Peer, outlet: Writer) -> Self {
        Self { id, mailbox, peer, outlet, of: None }
    }

    /// Lets it be cancelled for the reason for which another request is, to which it belongs.
    pub fn of(mut self, request: Option<Cancellation>) -> Self {
        self.of = request;
        self
    }

    /// The next thing the other side says about this request: progress first, then its answer.
    /// Loses nothing when it is cancelled; must not be called again after [`Step::Done`].
    pub async fn next(&mut self) -> Step {
        poll_fn(|context| {
            self.mailbox.with(|arrived| {
                if let Some(progress) = arrived.progress.pop_front() {
                    return Poll::Ready(Step::Progress(progress));
                }
                if let Some(answer) = arrived.answer.take() {
                    return Poll::Ready(Step::Done(answer));
                }
                arrived.waker = Some(context.waker().clone());
                Poll::Pending
            })
        })
        .await
    }

    /// Waits no longer, without cancelling the request on the other side.
    pub fn forget(&mut self) {
        self.peer.abandon(self.id);
    }

    /// The answer. Progress is passed over. Loses nothing when it is cancelled.
    pub async fn done(&mut self) -> Result<Outcome, RequestError> {
        loop {
            if let Step::Done(answer) = self.next().await {
                return answer;
            }
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if !self.peer.abandon(self.id) {
            return;
        }
        let mut notice =
            br#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"#
                .to_vec();
        raw::push_number(&mut notice, self.id);
        if let Some(reason) = self.of.as_ref().and_then(Cancellation::reason) {
            notice.extend_from_slice(br#","reason":"#);
            raw::push_text(&mut notice, reason);
        }
        notice.extend_from_slice(b"}}");
        if self.outlet.try_send(vec![Bytes::from(notice)]).is_err() {
            tracing::debug!(id = self.id, "a cancellation could not be sent");
        }
    }
}

impl Peer {
    /// Begins a request of ours: its number is in use from here on. `None` once the connection has
    /// ended.
    pub(crate) fn begin(&self, outlet: &Writer) -> Option<Pending> {
        let (id, mailbox) = self.number()?;
        Some(Pending::new(id, mailbox, self.clone(), outlet.clone()))
    }

    /// Sends a request with `params` as they are; returns once it is written.
    pub async fn ask(
        &self,
        outlet: &Writer,
        method: &str,
        params: Option<Raw>,
    ) -> Result<Pending, RequestError> {
        let pending = self.begin(outlet).ok_or(RequestError::NotSent)?;
        let mut head = Vec::new();
        write_head(&mut head, pending.id, method);
        let mut parts = vec![Bytes::from(head)];
        if let Some(params) = params {
            parts.extend([Bytes::from_static(br#","params":"#), params.into_bytes()]);
        }
        parts.push(Bytes::from_static(b"}"));
        outlet.send_written(parts).await.map_err(|_| RequestError::Closed)?;
        Ok(pending)
    }

    /// Sends a request with these members of `params` and of `params._meta`. Where progress is
    /// wanted, the request's own id is its progress token.
    pub async fn request(
        &self,
        outlet: &Writer,
        method: &str,
        params: &[(&str, &Raw)],
        meta: &[Member],
        wants_progress: bool,
    ) -> Result<Pending, RequestError> {
        let pending = self.begin(outlet).ok_or(RequestError::NotSent)?;
        let parts = write_request(pending.id, method, params, meta, wants_progress);
        let sent = if self.are_several() {
            outlet.send_in_company(parts).await
        } else {
            outlet.send(parts).await
        };
        sent.map_err(|_| RequestError::Closed)?;
        Ok(pending)
    }
}

fn write_request(
    id: u64,
    method: &str,
    params: &[(&str, &Raw)],
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
            raw::push_number(&mut text.last, id);
        }
        text.push(b"}");
    }
    text.push(b"}}");
    text.into_parts()
}

fn write_head(text: &mut Vec<u8>, id: u64, method: &str) {
    text.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    raw::push_number(text, id);
    text.extend_from_slice(br#","method":"#);
    raw::push_text(text, method);
}

/// A text that is put together: what is short is copied, what is long is shared.
#[derive(Default)]
struct Text {
    parts: Vec<Bytes>,
    last: Vec<u8>,
}

impl Text {
    fn push(&mut self, text: &[u8]) {
        self.last.extend_from_slice(text);
    }

    /// Makes room for a member: a comma, where it is not the first of its object.
    fn separate(&mut self) {
        // After a long value there is nothing yet, and that is never the first.
        if self.last.last() != Some(&b'{') {
            self.last.push(b',');
        }
    }

    fn push_member(&mut self, key: &str, value: &Raw) {
        self.separate();
        raw::push_text(&mut self.last, key);
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
