//! The transport before streamable HTTP: HTTP with SSE (2024-11-05, basic/transports).
//!
//! *Theory of operation.* One GET opens a stream, whose first event says at which address messages
//! are posted. Answers come on that stream, so it lasts as long as the link: its end is the end of
//! the session, and what waits for an answer then may have been done. The address must be one of the
//! server itself, for our headers go there with every message; it is checked before it is used and
//! never changes. A server that refuses the first message of streamable HTTP, with a status that
//! those have who know nothing of it, is tried in this way ([`Transport::Either`]).

use std::sync::Arc;
use std::time::Duration;

use reqwest::header::CONTENT_TYPE;
use reqwest::{Method, Response, StatusCode, Url};
use tokio::sync::OnceCell;
use tokio::time::timeout;

use crate::raw::Raw;
use crate::wire::envelope::Message;
use crate::wire::remote::events::{Event, Events};
use crate::wire::remote::exchange::{Body, EVENT_STREAM, Taken, is_stream, read, read_error};
use crate::wire::remote::failure::{self, Failure};
use crate::wire::remote::receiver::Receiver;
use crate::wire::remote::{Remote, Sent, accepting};
use crate::wire::server::Lost;

/// How long a server may take to say where messages go.
const ENDPOINT: Duration = Duration::from_secs(10);
/// How long that may take where nobody knows whether it speaks this way.
const PROBE: Duration = Duration::from_secs(3);
/// How long the body of what acknowledges a message may take.
const BODY: Duration = Duration::from_secs(10);

/// How messages are carried to a server over HTTP and back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Transport {
    /// Streamable HTTP, since 2025-03-26.
    #[default]
    Streamable,
    /// HTTP with SSE, of 2024-11-05.
    Sse,
    /// Streamable HTTP; the other one at a server that refuses the first message with 400, 404 or
    /// 405.
    Either,
}

/// Where a server over HTTP is, and how it is spoken to there.
#[derive(Clone, Debug)]
pub struct Address {
    /// `http` or `https`; with HTTP and SSE, the address of the stream.
    pub url: Url,
    /// How messages are carried.
    pub transport: Transport,
}

impl From<Url> for Address {
    fn from(url: Url) -> Self {
        Self { url, transport: Transport::default() }
    }
}

/// How the messages of one link are carried.
pub(super) struct Way {
    transport: Transport,
    /// Where messages are posted to in the old way, once the server has said so.
    endpoint: OnceCell<Url>,
}

impl Way {
    pub(super) fn new(transport: Transport) -> Self {
        Self { transport, endpoint: OnceCell::new() }
    }

    /// Returns `true` if messages are carried by HTTP with SSE.
    pub(super) fn is_old(&self) -> bool {
        self.transport == Transport::Sse || self.endpoint.initialized()
    }

    /// Returns `true` if a first message that was refused so is sent in the old way (2025-03-26,
    /// basic/transports, backwards compatibility).
    pub(super) fn falls_back_on(&self, status: StatusCode) -> bool {
        self.transport == Transport::Either && matches!(status.as_u16(), 400 | 404 | 405)
    }
}

/// A stream on which the server has said where messages go.
struct Stream {
    response: Response,
    events: Events,
    endpoint: Url,
}

/// Why no stream was opened on which the server says where messages go.
struct Unopened {
    error: Raw,
    /// `true` if that says more than that nothing speaks the old way at this address.
    is_telling: bool,
}

impl Unopened {
    fn new(message: &str) -> Self {
        Self { error: Failure::Broken.error(message), is_telling: false }
    }
}

impl<T: Receiver> Remote<T> {
    /// Sends one message and takes what comes back for it at once. The answer may come later, on the
    /// stream.
    pub(super) async fn exchange_old(self: &Arc<Self>, sent: &Sent) {
        let opened = self.way.endpoint.get_or_try_init(|| self.begin_old(ENDPOINT));
        let endpoint = match opened.await {
            Ok(endpoint) => endpoint,
            Err(unopened) => return self.fail(sent, unopened.error).await,
        };
        let response = match self.post(sent, endpoint).await {
            Ok(response) => response,
            Err(error) => return self.fail(sent, failure::unsent(error)).await,
        };
        if !response.status().is_success() {
            return self.refused(sent, response, Taken::No).await;
        }
        let body = timeout(BODY, read(response, self.intake.clone())).await;
        // There should be nothing in it, but some servers answer here.
        let Ok(Ok(Body::Whole(text))) = body else { return };
        if let Ok(Message::Answer { id, .. }) = Message::parse(&text)
            && sent.id.as_ref() == Some(&id)
        {
            self.take(&text, Some(sent)).await;
        }
    }

    /// Sends the first message in the old way, if the server that has refused it takes that.
    pub(super) async fn fall_back(self: &Arc<Self>, sent: &Sent, refusal: Response) {
        let opened = self.way.endpoint.get_or_try_init(|| self.begin_old(PROBE));
        match opened.await.map(|_| ()) {
            Ok(()) => {
                tracing::debug!(server = self.label, "it speaks HTTP with SSE");
                // Boxed, for the way there leads back here.
                Box::pin(self.exchange_old(sent)).await;
            }
            Err(Unopened { error, is_telling: true }) => self.fail(sent, error).await,
            Err(Unopened { error, .. }) => {
                tracing::debug!(server = self.label, ?error, "nor does it speak HTTP with SSE");
                self.refused(sent, refusal, Taken::No).await;
            }
        }
    }

    /// Opens the stream, begins to take what comes on it, and returns where messages go.
    async fn begin_old(self: &Arc<Self>, patience: Duration) -> Result<Url, Unopened> {
        let opened = timeout(patience, self.open_old());
        let Stream { response, mut events, endpoint } = opened.await.unwrap_or_else(|_| {
            let limit = patience.as_secs();
            let message = format!("the server has not said within {limit} s where messages go");
            Err(Unopened::new(&message))
        })?;
        self.to.note_old();
        let remote = Arc::clone(self);
        self.spawn(async move {
            while let Some(event) = events.next() {
                remote.take_event(event, None).await;
            }
            // The answers of all requests come here, so it is not read until any one of them has.
            remote.read_events(None, response, &mut events).await;
            tracing::debug!(server = remote.label, "its stream has ended");
            remote.give_back_untaken().await;
            remote.to.lose(Lost::Connection);
        });
        Ok(endpoint)
    }

    /// Opens the stream and waits for where messages go.
    async fn open_old(&self) -> Result<Stream, Unopened> {
        let broken = |error| Unopened { error: failure::unsent(error), is_telling: false };
        let opened = self.send(Method::GET, accepting(EVENT_STREAM)).await;
        let mut response = opened.map_err(broken)?;
        let status = response.status();
        if !status.is_success() {
            let headers = response.headers().clone();
            let body = read_error(response).await;
            let error = failure::status(status, &headers, &body, &self.secrets());
            let is_telling = matches!(status.as_u16(), 401 | 403 | 410);
            return Err(Unopened { error, is_telling });
        }
        if !is_stream(&response) {
            let kind = response.headers().get(CONTENT_TYPE).map(|kind| format!("{kind:?}"));
            let kind = kind.unwrap_or_else(|| "nothing".to_owned());
            let message = format!("the server answered with {kind} in place of a stream of events");
            return Err(Unopened::new(&message));
        }
        let at = response.url().clone();
        let mut events = Events::new(self.intake.max);
        let mut charge = self.intake.account.charge();
        loop {
            let chunk = response.chunk().await.map_err(broken)?.ok_or_else(|| {
                Unopened::new("the stream ended before the server said where messages go")
            })?;
            charge.grow(events.held() + chunk.len()).await;
            events.read(&chunk);
            while let Some(event) = events.next() {
                match event {
                    Event::Other { name, data } if name == "endpoint" => {
                        let endpoint = self.endpoint(&at, &data)?;
                        return Ok(Stream { response, events, endpoint });
                    }
                    // There is no session yet that this could belong to.
                    _ => tracing::debug!(server = self.label, "it says something too early"),
                }
            }
        }
    }

    /// The address for messages that the server names on the stream at `at`; an error is one that is
    /// not its own.
    fn endpoint(&self, at: &Url, data: &[u8]) -> Result<Url, Unopened> {
        let said = str::from_utf8(data).unwrap_or_default().trim();
        let Ok(mut endpoint) = at.join(said) else {
            let message = "the server says that messages go to something that is no address";
            return Err(Unopened::new(message));
        };
        if endpoint.origin() != self.url.origin() {
            let message = format!(
                "the server wants messages to go to another server, `{}`, which is not done",
                endpoint.origin().ascii_serialization()
            );
            return Err(Unopened { is_telling: true, ..Unopened::new(&message) });
        }
        // Who asks may stand in our address; another name for us is not the server's to give.
        let (user, password) = (self.url.username(), self.url.password());
        let is_ours =
            endpoint.set_username(user).is_ok() && endpoint.set_password(password).is_ok();
        debug_assert!(is_ours, "an address of the same origin has a host");
        Ok(endpoint)
    }
}

#[cfg(test)]
mod tests;
