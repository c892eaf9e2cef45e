//! The link to one server over HTTP (streamable HTTP, 2025-03-26 to 2026-07-28).
//!
//! *Theory of operation.* [`connect`] gives the same [`Link`] as a child process does. One task
//! takes what is to be sent out of the link's outbox; every message becomes a POST and, but for
//! the end of the handshake, a task of its own ([`exchange`]). What comes back, as one body or as
//! a stream of [`events`], is given to the link in its order. A message says by itself which era it
//! is of: a modern one has its version in `_meta`, and is described by [`headers`]; everything else
//! is legacy, and belongs to the session that `initialize` began. What goes wrong below the
//! messages becomes the answer of the request concerned ([`failure`]); only a session that the
//! server has lost ends the link. A server of the transport before that one (2024-11-05, HTTP with
//! SSE) is spoken to in the way of [`old`]. Who gets all that is a [`receiver`]: a link, or a
//! [`bridge`] that passes on what another program says.

pub mod bridge;
mod credentials;
mod events;
mod exchange;
mod failure;
mod headers;
mod old;
mod posting;
mod receiver;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect::{Attempt, Policy};
use reqwest::{Client, Url};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::raw::{self, Raw};
use crate::wire::budget::Intake;
use crate::wire::envelope::{Message, Outcome};
use crate::wire::incoming;
use crate::wire::mailbox::RequestError;
use crate::wire::peer::Peer;
use crate::wire::remote::headers::Tools;
use crate::wire::remote::old::Way;
use crate::wire::remote::receiver::{Linked, Receiver};
use crate::wire::server::{Hear, Link, Lost};
use crate::wire::writer::{self, Outbox, Writer};

pub use crate::wire::remote::credentials::{Again, Challenge, Credentials, Later, StaticHeaders};
pub use crate::wire::remote::failure::Failure;
pub use crate::wire::remote::old::{Address, Transport};

/// How long a connection may take to come about.
const CONNECTING: Duration = Duration::from_secs(30);
/// How long an unused connection is kept: common servers close theirs after 5 s, and a request
/// that meets the closing is lost.
const IDLE_CONNECTION: Duration = Duration::from_secs(4);
/// How long the server may take to hear that the handshake is over before it gets more to do.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// How long the server may take to hear that the session is over.
const PARTING: Duration = Duration::from_millis(700);
/// The most redirects of one request.
const REDIRECTS: usize = 4;

const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// Connects to the server at this address, showing it `credentials` with every request. Nothing is sent
/// yet. The link ends with [`Link::close_input`] or [`Link::close`]; its tasks run on `tasks`.
///
/// `label` names the server in the log; `intake` bounds what is read. Fails when this
/// machine cannot make connections of that kind.
pub fn connect(
    address: impl Into<Address>,
    credentials: Arc<dyn Credentials>,
    intake: impl Into<Intake>,
    label: &str,
    hear: impl Hear,
    tasks: &TaskTracker,
) -> Result<Link, String> {
    let (writer, outbox) = Writer::detached();
    let link = Link::new(Peer::new(), writer);
    let linked = Linked::new(link.clone(), hear, label);
    start((address.into(), credentials), intake.into(), label, linked, outbox, tasks)?;
    Ok(link)
}

/// Starts the task that carries what comes out of `outbox` to a server, and what comes back to `to`.
fn start<T: Receiver>(
    (Address { url, transport }, credentials): (Address, Arc<dyn Credentials>),
    intake: Intake,
    label: &str,
    to: T,
    outbox: Outbox,
    tasks: &TaskTracker,
) -> Result<(), String> {
    let remote = Remote {
        client: client(&url).map_err(failure::innermost)?,
        url,
        credentials,
        intake,
        label: label.to_owned(),
        to,
        session: Mutex::default(),
        way: Way::new(transport),
        tools: Mutex::default(),
        running: Mutex::default(),
        tasks: tasks.clone(),
    };
    tasks.spawn(Arc::new(remote).carry(outbox));
    Ok(())
}

fn client(url: &Url) -> reqwest::Result<Client> {
    // Somebody in this process may have chosen before us, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = Client::builder()
        .connect_timeout(CONNECTING)
        .pool_idle_timeout(IDLE_CONNECTION)
        .tcp_keepalive(Duration::from_mins(1))
        .redirect(Policy::custom(redirect));
    if url.scheme() == "http" {
        // The machine's certificates are not needed, and it may have none.
        builder = builder.tls_certs_only([]);
    }
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    if host == "localhost" || host.parse().is_ok_and(|host: std::net::IpAddr| host.is_loopback()) {
        builder = builder.no_proxy();
    }
    builder.build()
}

/// Follows to another path of the same server, with the request as it is. Another server must not
/// see what our headers say.
fn redirect(attempt: Attempt<'_>) -> reqwest::redirect::Action {
    let from = attempt.previous().first().map(Url::origin);
    let is_kept = matches!(attempt.status().as_u16(), 307 | 308);
    if is_kept && from == Some(attempt.url().origin()) && attempt.previous().len() <= REDIRECTS {
        attempt.follow()
    } else {
        attempt.stop()
    }
}

/// The server's end of a link.
struct Remote<T> {
    client: Client,
    url: Url,
    credentials: Arc<dyn Credentials>,
    intake: Intake,
    label: String,
    to: T,
    session: Mutex<Session>,
    /// How messages are carried.
    way: Way,
    tools: Mutex<Tools>,
    /// Our requests that are under way, by the text of their ids.
    running: Mutex<HashMap<Bytes, Running>>,
    tasks: TaskTracker,
}

/// A legacy server's session, which it has told us to name with every request.
#[derive(Clone, Default)]
struct Session {
    id: Option<HeaderValue>,
    version: Option<HeaderValue>,
    /// `true` once the server does not know it any more.
    is_lost: bool,
}

struct Running {
    id: Raw,
    is_modern: bool,
    /// `true` while it has certainly not been taken, and waits to be sent again.
    is_untaken: bool,
    dropped: CancellationToken,
}

/// One message of ours.
struct Sent {
    body: Bytes,
    /// The id of a request.
    id: Option<Raw>,
    /// Empty for an answer.
    method: String,
    params: Option<Raw>,
    /// The version that a modern message says it is of.
    modern: Option<HeaderValue>,
}

impl Sent {
    /// `None` when the message is none, which the link never sends.
    fn new(parts: &[Bytes]) -> Option<Self> {
        #[derive(Default, Deserialize)]
        struct Params<'a> {
            #[serde(borrow, default, rename = "_meta")]
            meta: Option<&'a RawValue>,
        }
        #[derive(Deserialize)]
        struct Meta {
            #[serde(rename = "io.modelcontextprotocol/protocolVersion")]
            version: String,
        }

        let mut body = BytesMut::with_capacity(parts.iter().map(Bytes::len).sum());
        for part in parts {
            body.extend_from_slice(part);
        }
        let body = body.freeze();
        let (id, method, params) = match Message::parse(&body).ok()? {
            Message::Request { id, method, params } => (Some(id), method, params),
            Message::Notification { method, params } => (None, method, params),
            Message::Answer { .. } => (None, String::new(), None),
        };
        let version = params.as_ref().and_then(|params| {
            let params: Params<'_> = serde_json::from_slice(params.as_bytes()).ok()?;
            serde_json::from_str::<Meta>(params.meta?.get()).ok()
        });
        let modern = version.and_then(|meta| HeaderValue::try_from(meta.version).ok());
        Some(Self { body, id, method, params, modern })
    }

    /// Returns `true` if it is the first word with a server.
    fn is_greeting(&self) -> bool {
        matches!(self.method.as_str(), "initialize" | "server/discover")
    }

    /// The request that a cancellation names.
    fn cancels(&self) -> Option<Bytes> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Cancelled {
            request_id: Box<RawValue>,
        }

        let params = self.params.as_ref().filter(|_| self.method == "notifications/cancelled")?;
        let cancelled: Cancelled = params.parse().ok()?;
        Some(Bytes::copy_from_slice(cancelled.request_id.get().as_bytes()))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T: Receiver> Remote<T> {
    /// Carries what the link sends until it ends, and takes leave.
    async fn carry(self: Arc<Self>, mut outbox: Outbox) {
        while let Some(Some(message)) = or_closed(&self.to, outbox.next()).await {
            // From here on the server may get it.
            writer::Message::done(message.written);
            if let Some(sent) = Sent::new(&message.parts) {
                self.dispatch(sent).await;
            } else {
                tracing::debug!(server = self.label, "what is to be sent is no message");
            }
        }
        // Nothing more is taken in; what is still waited for may be answered until we have parted.
        drop(outbox);
        if timeout(PARTING, self.part()).await.is_err() {
            tracing::debug!(server = self.label, "the end of the session was not heard");
        }
        self.to.close();
    }

    async fn dispatch(self: &Arc<Self>, sent: Sent) {
        if let Some(id) = sent.cancels() {
            let running = lock(&self.running).get(&id).map(|r| (r.is_modern, r.dropped.clone()));
            match running {
                // The answer is to come on a stream that other requests have too.
                None if self.way.is_old() => {
                    let remote = Arc::clone(self);
                    self.spawn(async move { remote.exchange(&sent).await });
                }
                // It was answered, or never sent.
                None => {}
                // The end of its response is the cancellation.
                Some((true, dropped)) => dropped.cancel(),
                Some((false, dropped)) => {
                    let remote = Arc::clone(self);
                    self.spawn(async move {
                        remote.exchange(&sent).await;
                        dropped.cancel();
                    });
                }
            }
        } else if sent.method == "notifications/initialized" {
            // Only after this may a server be asked anything.
            let heard = or_closed(&self.to, self.exchange(&sent));
            if timeout(HANDSHAKE, heard).await.is_err() {
                tracing::debug!(server = self.label, "the end of the handshake is not heard yet");
            }
            if self.way.is_old() {
                return;
            }
            let remote = Arc::clone(self);
            self.spawn(async move { remote.listen().await });
        } else if let Some(id) = sent.id.clone() {
            let (is_modern, dropped) = (sent.modern.is_some(), CancellationToken::new());
            let running =
                Running { id: id.clone(), is_modern, is_untaken: false, dropped: dropped.clone() };
            let id = id.into_bytes();
            lock(&self.running).insert(id.clone(), running);
            let remote = Arc::clone(self);
            self.spawn(async move {
                dropped.run_until_cancelled(remote.exchange(&sent)).await;
                lock(&remote.running).remove(&id);
            });
        } else {
            let remote = Arc::clone(self);
            self.spawn(async move { remote.exchange(&sent).await });
        }
    }

    /// Does something for as long as the link lasts.
    fn spawn(self: &Arc<Self>, work: impl Future<Output = ()> + Send + 'static) {
        let remote = Arc::clone(self);
        self.tasks.spawn(async move { or_closed(&remote.to, work).await });
    }

    fn session_headers(&self, accept: &'static str) -> HeaderMap {
        let mut headers = accepting(accept);
        let Session { id, version, .. } = lock(&self.session).clone();
        headers.extend(id.map(|id| (SESSION_ID, id)));
        headers.extend(version.map(|version| (PROTOCOL_VERSION, version)));
        headers
    }

    fn headers_of(&self, sent: &Sent) -> HeaderMap {
        let accept = "application/json, text/event-stream";
        let mut headers = match &sent.modern {
            Some(version) => {
                let mut headers = accepting(accept);
                headers.insert(PROTOCOL_VERSION, version.clone());
                headers.extend(lock(&self.tools).headers(&sent.method, sent.params.as_ref()));
                headers
            }
            None if sent.method == "initialize" => accepting(accept),
            None => self.session_headers(accept),
        };
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers
    }

    /// Takes one message of the server, that came for `sent` or on a stream of its own.
    async fn take(&self, message: &Bytes, sent: Option<&Sent>) {
        // Over HTTP it may be on several.
        let message = raw::one_line(message.clone());
        let changed = sent.and_then(|sent| self.learn(&message, sent));
        self.to.take(changed.unwrap_or(message)).await;
    }

    /// Learns what the answer to `sent` means for later headers. Gives the answer back if it has
    /// to be another one.
    fn learn(&self, message: &Bytes, sent: &Sent) -> Option<Bytes> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Initialized {
            protocol_version: String,
        }

        let is_list = sent.method == "tools/list" && sent.modern.is_some();
        if !is_list && sent.method != "initialize" {
            return None;
        }
        let Ok(Message::Answer { id, outcome: Outcome::Result(result) }) = Message::parse(message)
        else {
            return None;
        };
        if is_list {
            let list = lock(&self.tools).learn(&result, &self.label)?;
            let parts = incoming::answer(id, Outcome::Result(list));
            return Some(parts.concat().into());
        }
        let version = result.parse::<Initialized>().ok();
        lock(&self.session).version =
            version.and_then(|result| HeaderValue::try_from(result.protocol_version).ok());
        None
    }

    /// Answers a request of ours for the server.
    async fn answer(&self, sent: &Sent, outcome: Result<Outcome, RequestError>) {
        if let Some(id) = &sent.id {
            self.to.settle(id, outcome).await;
        } else {
            let (server, method) = (&self.label, &sent.method);
            tracing::debug!(server, method, ?outcome, "a message came to nothing");
        }
    }

    /// The server does not know our session any more: another one has to begin.
    fn lose_session(&self) {
        tracing::debug!(server = self.label, "the server has lost the session");
        lock(&self.session).is_lost = true;
        self.to.lose(Lost::Session);
    }
}

fn accepting(media_types: &'static str) -> HeaderMap {
    HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(media_types))])
}

/// The outcome of `work`, unless the connection ends before.
async fn or_closed<T>(to: &impl Receiver, work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        () = to.closed() => None,
        done = work => Some(done),
    }
}

#[cfg(test)]
mod tests;
