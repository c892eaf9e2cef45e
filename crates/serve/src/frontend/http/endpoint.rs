//! The endpoint of agents, `/mcp` and `/mcp/<toolbox>`: what a request wants, and of which session.

use std::net::IpAddr;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, Request, State};
use bytes::Bytes;
use hyper::http::request::Parts;
use hyper::{HeaderMap, Method, StatusCode};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::frontend::http::body::{self, Unread};
use crate::frontend::http::clock::Clock;
use crate::frontend::http::connections::Peer;
use crate::frontend::http::field::{PROTOCOL_VERSION, one};
use crate::frontend::http::headers::{self, Accepts, LAST_EVENT, SESSION};
use crate::frontend::http::identity::Pass;
use crate::frontend::http::message::Message;
use crate::frontend::http::response::{self, Refusal, Reply, bad_request};
use crate::frontend::http::stream::{self, Reader};
use crate::frontend::http::{self, Server};
use crate::gateway::{Caller, Purse};
use crate::name::ToolboxName;
use crate::observe::{DeniedAccess, DeniedFor, Event, Holding, Payer};
use crate::settings::Config;
use crate::wire::aside::aside;
use crate::wire::code::INVALID_REQUEST;

/// The first revision that knows events without data.
const KNOWS_PRIMING: &str = "2025-11-25";

/// Answers whoever wants everything.
pub(crate) async fn everything(State(server): State<Arc<Server>>, request: Request) -> Reply {
    server.answer(request, None).await
}

/// Answers whoever wants one toolbox.
pub(crate) async fn one_toolbox(
    State(server): State<Arc<Server>>,
    Path(toolbox): Path<String>,
    request: Request,
) -> Reply {
    server.answer(request, Some(ToolboxName::new(&toolbox))).await
}

/// The document that tells clients how to get a token.
pub(crate) async fn metadata(State(server): State<Arc<Server>>, request: Request) -> Reply {
    let (head, _) = request.into_parts();
    match server.identity.metadata(&head) {
        Ok(Some(reply)) => reply,
        Ok(None) => http::nothing().await,
        Err(denial) => server.turn_away(&head, denial.reply()).await,
    }
}

/// Who asks, and what is the same for all of one request.
pub(crate) struct Who {
    pub(crate) caller: Caller,
    /// The counts of everything that this caller holds.
    pub(crate) purse: Arc<Purse>,
    /// The configuration that is being served.
    config: Arc<Config>,
    /// The clock of the connection that the request came on.
    pub(crate) clock: Clock,
}

impl Server {
    /// The counts of what the one who asks holds.
    pub(crate) fn purse(&self, head: &Parts, caller: &Caller) -> Arc<Purse> {
        self.app.gateways.payers().purse(&Payer::new(caller.agent.as_ref(), address(head)))
    }

    /// Answers a request of whoever wants everything, or one toolbox.
    pub(crate) async fn answer(&self, request: Request, toolbox: Option<ToolboxName>) -> Reply {
        let (mut head, body) = request.into_parts();
        let config = self.app.gateways.config();
        let (caller, pass) = match self.identity.caller(&mut head, &config).await {
            Ok((caller, pass)) => (Caller { toolbox, ..caller }, pass),
            Err(reply) => return self.turn_away(&head, reply).await,
        };
        if !self.app.gateways.has_toolbox(&caller) {
            // What is forbidden is not there.
            let message = "there is no such toolbox; /mcp serves all that there are";
            let refusal = Refusal::new(StatusCode::NOT_FOUND, INVALID_REQUEST, message);
            return refusal.reply(None);
        }
        let purse = self.purse(&head, &caller);
        let clock = head.extensions.get().map(|peer: &Peer| peer.clock.clone()).unwrap_or_default();
        let who = Who { caller, purse, config, clock };
        let answered = match head.method {
            Method::POST => self.post(&head, body, &who, pass).await,
            Method::GET => self.get(&head.headers, &who).await.map(|reply| pass.bound(reply)),
            Method::DELETE => self.delete(&head.headers, &who).await,
            _ => Err(not_allowed()),
        };
        answered.unwrap_or_else(|refusal| refusal.reply(None))
    }

    /// Tells that access is denied where a reply does that. The answer to many wrong tokens comes late.
    pub(crate) async fn turn_away(&self, head: &Parts, reply: Reply) -> Reply {
        let Some(denied) = reply.extensions().get::<DeniedAccess>() else { return reply };
        let address = address(head);
        let listeners = self.app.gateways.observer().listeners();
        listeners.tell(Event::AccessDenied(denied, address));
        if denied.why == DeniedFor::InvalidToken
            && let Some(Peer { address, place, .. }) = head.extensions.get()
            && let Some(delay) = self.delays.next(Payer::new(None, Some(*address)), Instant::now())
        {
            place.pause(delay.time).await;
        }
        reply
    }

    async fn post(
        &self,
        head: &Parts,
        body: Body,
        who: &Who,
        pass: Pass,
    ) -> Result<Reply, Refusal> {
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
        let body = read(body, &who.purse, &who.config, &who.clock).await?;
        let mut message = aside(body.len(), move || Message::read(&body)).await?;
        if self.app.gateways.observer().is_tracing() {
            message.continue_trace(headers);
        }
        let (id, listens) = (message.id().cloned(), message.listens());
        let answered = if message.is_modern(headers) {
            self.modern(message, headers, accepts, who).await
        } else {
            self.legacy(message, headers, accepts, who).await
        };
        let reply = answered.unwrap_or_else(|refusal| refusal.reply(id.as_ref()));
        // What else is asked for comes to an end by itself.
        Ok(if listens { pass.bound(reply) } else { reply })
    }

    async fn get(&self, headers: &HeaderMap, who: &Who) -> Result<Reply, Refusal> {
        if !headers.contains_key(&SESSION) {
            return Err(not_allowed());
        }
        if !Accepts::read(headers).events {
            return Err(not_acceptable("text/event-stream"));
        }
        let last =
            one(headers, &LAST_EVENT).map_err(|error| bad_request(INVALID_REQUEST, &error))?;
        let position = last.map(|last| stream::position(last).ok_or(last)).transpose();
        let (number, after) = match position {
            Ok(Some((number, after))) => (number, Some(after)),
            Ok(None) => (stream::OWN_STREAM, None),
            Err(last) => {
                let message = format!("`{last}` is no event of ours");
                return Err(bad_request(INVALID_REQUEST, &message));
            }
        };
        let connected = if number == stream::OWN_STREAM {
            self.session(headers, who).await?
        } else {
            // A stream that belongs to a request is where that is.
            self.session_here(headers, who, None).await?
        };
        connected.touch();
        let (events, receiver) = mpsc::channel(1);
        if !connected.read(number, reader(headers, events, after)) {
            return Err(bad_request(INVALID_REQUEST, "that stream is not kept any more"));
        }
        Ok(response::events(receiver))
    }

    async fn delete(&self, headers: &HeaderMap, who: &Who) -> Result<Reply, Refusal> {
        if !headers.contains_key(&SESSION) {
            return Err(not_allowed());
        }
        self.end_session(headers, who).await?;
        Ok(response::empty(StatusCode::NO_CONTENT))
    }
}

/// Reads a body, as far as there is room for it.
pub(crate) async fn read(
    body: Body,
    purse: &Purse,
    config: &Config,
    clock: &Clock,
) -> Result<Bytes, Refusal> {
    let (max, time) = (config.limits.max_message_bytes, config.http.body_timeout);
    let mut charge = purse.sent().charge();
    match clock.timeout(time, body::read(body, max, &mut charge)).await {
        Ok(Ok(body)) => Ok(charge.attach(body)),
        Ok(Err(Unread::TooLong)) => {
            let message = format!(
                "the message is longer than the {max} bytes that this server takes \
                 (limits.maxMessageBytes)"
            );
            Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, INVALID_REQUEST, &message))
        }
        Ok(Err(Unread::Broken(error))) => {
            Err(bad_request(INVALID_REQUEST, &format!("the message did not come whole: {error}")))
        }
        Err(_) if charge.is_waiting() => {
            purse.reaches(Holding::Bytes);
            Err(Refusal::for_now(
                "there was no room for the message, as others are under way \
                 (limits.maxBytesInFlight, limits.perCaller.maxBytesInFlight)",
            ))
        }
        Err(_) => {
            let message = format!(
                "the message did not come within {} ms (http.bodyTimeoutMs)",
                time.as_millis()
            );
            Err(Refusal::new(StatusCode::REQUEST_TIMEOUT, INVALID_REQUEST, &message))
        }
    }
}

/// The address that a request comes from.
fn address(head: &Parts) -> Option<IpAddr> {
    head.extensions.get::<Peer>().map(|peer| peer.address)
}

/// Who reads the stream that is answered with.
pub(crate) fn reader(
    headers: &HeaderMap,
    events: mpsc::Sender<Bytes>,
    after: Option<u64>,
) -> Reader {
    let is_primed = one(headers, &PROTOCOL_VERSION).is_ok_and(|said| said == Some(KNOWS_PRIMING));
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
