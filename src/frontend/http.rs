//! Serving over HTTP (MCP's streamable HTTP), for agents of both eras on one endpoint.
//!
//! *Theory of operation.* Every POST carries one message, which goes as raw text to the peer it
//! belongs to. A legacy agent has a peer and a session of its own from `initialize` on, by the id
//! in its `Mcp-Session-Id`; a modern request has both for itself alone. What belongs to a request
//! comes out of an outbox of its own: when the first message is the answer already, it is the body
//! of the response, else a stream of events begins. A legacy agent that loses a stream can go on
//! with it.
//!
//! Programs of this machine are served, and no pages in browsers ([`origin`]).

mod headers;
mod message;
mod origin;
mod post;
mod response;
mod sessions;
mod stream;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming as Body;
use hyper::http::request::Parts;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{HeaderMap, Method, Request, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::{interval, sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::frontend::Host;
use crate::frontend::http::headers::{Accepts, LAST_EVENT, PROTOCOL_VERSION, SESSION, one};
use crate::frontend::http::message::Message;
use crate::frontend::http::response::{Refusal, Reply, bad_request};
use crate::frontend::http::sessions::{Connected, Sessions};
use crate::frontend::http::stream::Reader;
use crate::gateway::Caller;

/// Where agents are served.
pub const ENDPOINT: &str = "/mcp";

/// How often idle sessions are looked for.
const SWEEP: Duration = Duration::from_mins(10);
/// What is waited after a connection could not be taken, for want of files most often.
const RESPITE: Duration = Duration::from_millis(100);
/// The first revision that knows events without data.
const KNOWS_PRIMING: &str = "2025-11-25";
/// JSON-RPC: what came is no request that can be taken.
const INVALID_REQUEST: i64 = -32600;

/// Serves agents that come to `listener` until `shutdown` is cancelled.
pub async fn serve(
    host: Host,
    listener: TcpListener,
    tasks: &TaskTracker,
    shutdown: &CancellationToken,
) {
    let max = host.gateways.config().limits.max_message_bytes;
    let (tasks, shutdown) = (tasks.clone(), shutdown.clone());
    let server = Arc::new(Server { host, max, tasks, shutdown, sessions: Sessions::default() });
    let mut sweep = interval(SWEEP);
    loop {
        tokio::select! {
            () = server.shutdown.cancelled() => break,
            _ = sweep.tick() => server.sessions.end_idle(),
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    let connection = Box::pin(Arc::clone(&server).connection(stream));
                    let shutdown = server.shutdown.clone();
                    server.tasks.spawn(shutdown.run_until_cancelled_owned(connection));
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be taken");
                    sleep(RESPITE).await;
                }
            }
        }
    }
    server.sessions.end_all();
}

/// What all connections share.
struct Server {
    host: Host,
    max: usize,
    tasks: TaskTracker,
    shutdown: CancellationToken,
    sessions: Sessions,
}

impl Server {
    async fn connection(self: Arc<Self>, stream: TcpStream) {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "small messages may wait");
        }
        let service = service_fn(|request| {
            let server = Arc::clone(&self);
            async move { Ok::<_, Infallible>(server.answer(request).await) }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .serve_connection(TokioIo::new(stream), service);
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection was lost");
        }
    }

    async fn answer(&self, request: Request<Body>) -> Reply {
        let (head, body) = request.into_parts();
        if !origin::is_local(&head) {
            let message = "only programs of this machine are served: Host and Origin, if there \
                           is one, must be a loopback address or localhost";
            let refusal = Refusal::new(StatusCode::FORBIDDEN, INVALID_REQUEST, message);
            return refusal.reply(None);
        }
        if head.uri.path() != ENDPOINT {
            let message = format!("agents are served at {ENDPOINT}");
            let refusal = Refusal::new(StatusCode::NOT_FOUND, INVALID_REQUEST, &message);
            return refusal.reply(None);
        }
        let caller = Caller::NOBODY;
        let answered = match head.method {
            Method::POST => self.post(&head, body, &caller).await,
            Method::GET => self.get(&head.headers, &caller),
            Method::DELETE => self.delete(&head.headers, &caller),
            _ => Err(not_allowed()),
        };
        answered.unwrap_or_else(|refusal| refusal.reply(None))
    }

    async fn post(&self, head: &Parts, body: Body, caller: &Caller) -> Result<Reply, Refusal> {
        let headers = &head.headers;
        if !headers::is_json(headers) {
            let message = "Content-Type must be application/json";
            let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
            return Err(Refusal::new(status, INVALID_REQUEST, message));
        }
        let accepts = Accepts::read(headers);
        if !accepts.json && !accepts.events {
            return Err(not_acceptable("application/json and text/event-stream"));
        }
        let message = Message::read(self.read(body).await?)?;
        let answered = if message.is_modern(headers) {
            self.modern(&message, headers, accepts, caller).await
        } else {
            self.legacy(&message, headers, accepts, caller).await
        };
        Ok(answered.unwrap_or_else(|refusal| refusal.reply(message.id.as_ref())))
    }

    async fn read(&self, body: Body) -> Result<Bytes, Refusal> {
        let body = Limited::new(body, self.max).collect().await;
        body.map(http_body_util::Collected::to_bytes).map_err(|error| {
            if error.is::<LengthLimitError>() {
                let message = format!(
                    "the message is longer than the {} bytes that this server takes \
                     (limits.maxMessageBytes)",
                    self.max
                );
                Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, INVALID_REQUEST, &message)
            } else {
                bad_request(INVALID_REQUEST, &format!("the message did not come whole: {error}"))
            }
        })
    }

    /// The session that a request names, if it is the caller's.
    fn session(&self, headers: &HeaderMap, caller: &Caller) -> Result<Arc<Connected>, Refusal> {
        let id = one(headers, SESSION).map_err(|error| bad_request(INVALID_REQUEST, &error))?;
        let id = id.ok_or_else(|| {
            let message = "the Mcp-Session-Id header is missing; a session begins with initialize";
            bad_request(INVALID_REQUEST, message)
        })?;
        let session = self.sessions.get(id).filter(|found| found.session.caller() == caller);
        session.ok_or_else(|| {
            let message = "there is no such session, or not any more; begin one with initialize";
            Refusal::new(StatusCode::NOT_FOUND, INVALID_REQUEST, message)
        })
    }

    fn get(&self, headers: &HeaderMap, caller: &Caller) -> Result<Reply, Refusal> {
        if !headers.contains_key(SESSION) {
            return Err(not_allowed());
        }
        if !Accepts::read(headers).events {
            return Err(not_acceptable("text/event-stream"));
        }
        let connected = self.session(headers, caller)?;
        connected.touch();
        let last =
            one(headers, LAST_EVENT).map_err(|error| bad_request(INVALID_REQUEST, &error))?;
        let position = last.map(|last| stream::position(last).ok_or(last)).transpose();
        let (number, after) = match position {
            Ok(Some((number, after))) => (number, Some(after)),
            Ok(None) => (sessions::OWN_STREAM, None),
            Err(last) => {
                let message = format!("`{last}` is no event of ours");
                return Err(bad_request(INVALID_REQUEST, &message));
            }
        };
        let (events, receiver) = mpsc::channel(1);
        if !connected.read(number, reader(headers, events, after)) {
            return Err(bad_request(INVALID_REQUEST, "that stream is not kept any more"));
        }
        Ok(response::events(receiver))
    }

    fn delete(&self, headers: &HeaderMap, caller: &Caller) -> Result<Reply, Refusal> {
        if !headers.contains_key(SESSION) {
            return Err(not_allowed());
        }
        let connected = self.session(headers, caller)?;
        self.sessions.end(&connected.id);
        Ok(response::empty(StatusCode::NO_CONTENT))
    }
}

fn reader(headers: &HeaderMap, events: mpsc::Sender<Bytes>, after: Option<u64>) -> Reader {
    let is_primed = one(headers, PROTOCOL_VERSION).is_ok_and(|said| said == Some(KNOWS_PRIMING));
    Reader { events, after, is_primed }
}

fn not_allowed() -> Refusal {
    let message = "POST messages; GET and DELETE need the Mcp-Session-Id of a session";
    Refusal::new(StatusCode::METHOD_NOT_ALLOWED, INVALID_REQUEST, message)
}

fn not_acceptable(types: &str) -> Refusal {
    let message = format!("Accept must have {types}");
    Refusal::new(StatusCode::NOT_ACCEPTABLE, INVALID_REQUEST, &message)
}
