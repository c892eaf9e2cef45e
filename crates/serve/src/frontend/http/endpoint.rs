//! The MCP endpoint, `/mcp` and `/mcp/<toolbox>`: authenticates requests and finds their sessions.

use std::net::IpAddr;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, Request, State};
use bytes::Bytes;
use hyper::http::request::Parts;
use hyper::{HeaderMap, Method, StatusCode};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

use crate::frontend::http::auth::CredentialLifetime;
use crate::frontend::http::body::{self, BodyError};
use crate::frontend::http::connections::ConnectionInfo;
use crate::frontend::http::event_stream::{self, StreamReader};
use crate::frontend::http::header_value::{PROTOCOL_VERSION, single_value};
use crate::frontend::http::headers::{self, AcceptedTypes, LAST_EVENT, SESSION};
use crate::frontend::http::message::PostedMessage;
use crate::frontend::http::response::{self, HttpError, HttpResponse, bad_request};
use crate::frontend::http::{self, HttpServer};
use crate::gateway::{Caller, CallerQuota};
use crate::name::ToolboxName;
use crate::settings::Config;
use crate::telemetry::{AccessDenial, AccessDenialReason, Event, QuotaKind, QuotaOwner};
use crate::wire::code::INVALID_REQUEST;
use crate::wire::offload::offload;

/// The first revision whose clients expect priming events without data.
const KNOWS_PRIMING: &str = "2025-11-25";

pub(crate) async fn serve_all_toolboxes(
    State(server): State<Arc<HttpServer>>,
    request: Request,
) -> HttpResponse {
    server.answer(request, None).await
}

pub(crate) async fn serve_toolbox(
    State(server): State<Arc<HttpServer>>,
    Path(toolbox): Path<String>,
    request: Request,
) -> HttpResponse {
    server.answer(request, Some(ToolboxName::new(&toolbox))).await
}

/// Serves the protected resource metadata (RFC 9728).
pub(crate) async fn metadata(
    State(server): State<Arc<HttpServer>>,
    request: Request,
) -> HttpResponse {
    let (head, _) = request.into_parts();
    match server.identity.metadata(&head) {
        Ok(Some(reply)) => reply,
        Ok(None) => http::not_found().await,
        Err(denial) => server.deny(&head, denial.reply()).await,
    }
}

pub(crate) struct RequestScope {
    pub(crate) caller: Caller,
    pub(crate) quota: Arc<CallerQuota>,
    config: Arc<Config>,
}

impl HttpServer {
    pub(crate) fn quota(&self, head: &Parts, caller: &Caller) -> Arc<CallerQuota> {
        self.app.gateways.quotas().quota_for(&QuotaOwner::new(caller.agent.as_ref(), address(head)))
    }

    pub(crate) async fn answer(
        &self,
        request: Request,
        toolbox: Option<ToolboxName>,
    ) -> HttpResponse {
        let (mut head, body) = request.into_parts();
        let config = self.app.gateways.config();
        let (caller, lifetime) = match self.identity.authenticate(&mut head, &config).await {
            Ok((caller, lifetime)) => (Caller { toolbox, ..caller }, lifetime),
            Err(reply) => return self.deny(&head, reply).await,
        };
        if !self.app.gateways.has_toolbox(&caller) {
            // Toolboxes that the caller may not use are reported as unknown.
            let message = "unknown toolbox; /mcp serves all toolboxes";
            let refusal = HttpError::new(StatusCode::NOT_FOUND, INVALID_REQUEST, message);
            return refusal.into_response(None);
        }
        let quota = self.quota(&head, &caller);
        let who = RequestScope { caller, quota, config };
        let answered = match head.method {
            Method::POST => self.post(&head, body, &who, lifetime).await,
            Method::GET => {
                self.get(&head.headers, &who).await.map(|reply| lifetime.limit_response(reply))
            }
            Method::DELETE => self.delete(&head.headers, &who).await,
            _ => Err(not_allowed()),
        };
        answered.unwrap_or_else(|refusal| refusal.into_response(None))
    }

    /// Reports denied access, and delays the response to a client that sends wrong tokens.
    pub(crate) async fn deny(&self, head: &Parts, reply: HttpResponse) -> HttpResponse {
        let Some(denied) = reply.extensions().get::<AccessDenial>() else { return reply };
        let address = address(head);
        let listeners = self.app.gateways.observer().bus();
        listeners.emit(Event::AccessDenied(denied, address));
        if denied.reason == AccessDenialReason::InvalidToken
            && let Some(ConnectionInfo { address, slot, .. }) = head.extensions.get()
            && let Some(delay) =
                self.delays.record_failure(QuotaOwner::new(None, Some(*address)), Instant::now())
        {
            slot.pause(delay.time).await;
        }
        reply
    }

    async fn post(
        &self,
        head: &Parts,
        body: Body,
        who: &RequestScope,
        lifetime: CredentialLifetime,
    ) -> Result<HttpResponse, HttpError> {
        let headers = &head.headers;
        if !headers::is_json(headers) {
            let message = "Content-Type must be application/json";
            let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
            return Err(HttpError::new(status, INVALID_REQUEST, message));
        }
        let accepts = AcceptedTypes::read(headers);
        if !accepts.json && !accepts.events {
            return Err(not_acceptable("application/json and text/event-stream"));
        }
        let body = read(body, &who.quota, &who.config).await?;
        let mut message = offload(body.len(), move || PostedMessage::read(&body)).await?;
        if self.app.gateways.observer().is_tracing() {
            message.continue_trace(headers)?;
        }
        let (id, listens) = (message.id().cloned(), message.is_listen());
        let answered = if message.is_modern(headers) {
            self.handle_modern(message, headers, accepts, who).await
        } else {
            self.handle_legacy(message, headers, accepts, who).await
        };
        let reply = answered.unwrap_or_else(|refusal| refusal.into_response(id.as_ref()));
        // Only subscriptions have to end with the credential; other requests end by themselves.
        Ok(if listens { lifetime.limit_response(reply) } else { reply })
    }

    async fn get(
        &self,
        headers: &HeaderMap,
        who: &RequestScope,
    ) -> Result<HttpResponse, HttpError> {
        if !headers.contains_key(&SESSION) {
            return Err(not_allowed());
        }
        if !AcceptedTypes::read(headers).events {
            return Err(not_acceptable("text/event-stream"));
        }
        let last = single_value(headers, &LAST_EVENT)
            .map_err(|error| bad_request(INVALID_REQUEST, &error))?;
        let position = last.map(|last| event_stream::parse_event_id(last).ok_or(last)).transpose();
        let (number, after) = match position {
            Ok(Some((number, after))) => (number, Some(after)),
            Ok(None) => (event_stream::SESSION_STREAM, None),
            Err(last) => {
                let message = format!("unknown event ID `{last}`");
                return Err(bad_request(INVALID_REQUEST, &message));
            }
        };
        let connected = if number == event_stream::SESSION_STREAM {
            self.find_or_adopt(headers, who).await?
        } else {
            // The stream of a request exists only on the replica that handles the request.
            self.local_session(headers, who, None).await?
        };
        connected.touch();
        let (events, receiver) = mpsc::channel(1);
        if !connected.attach_reader(number, reader(headers, events, after)) {
            return Err(bad_request(INVALID_REQUEST, "the stream no longer exists"));
        }
        Ok(response::event_stream(receiver))
    }

    async fn delete(
        &self,
        headers: &HeaderMap,
        who: &RequestScope,
    ) -> Result<HttpResponse, HttpError> {
        if !headers.contains_key(&SESSION) {
            return Err(not_allowed());
        }
        self.end_session(headers, who).await?;
        Ok(response::empty(StatusCode::NO_CONTENT))
    }
}

/// Reads a body within the size limit, the timeout and the caller's memory quota.
pub(crate) async fn read(
    body: Body,
    quota: &CallerQuota,
    config: &Config,
) -> Result<Bytes, HttpError> {
    let (max, time) = (config.limits.max_message_bytes, config.http.body_timeout);
    let mut charge = quota.sent().charge();
    match timeout(time, body::read(body, max, &mut charge)).await {
        Ok(Ok(body)) => Ok(charge.attach_to(body)),
        Ok(Err(BodyError::TooLong)) => {
            let message =
                format!("the message exceeds the limit of {max} bytes (limits.maxMessageBytes)");
            Err(HttpError::new(StatusCode::PAYLOAD_TOO_LARGE, INVALID_REQUEST, &message))
        }
        Ok(Err(BodyError::Broken(error))) => {
            Err(bad_request(INVALID_REQUEST, &format!("failed to read the message: {error}")))
        }
        Err(_) if charge.is_waiting() => {
            quota.report_limit_reached(QuotaKind::Bytes);
            Err(HttpError::unavailable(
                "too many bytes in flight (limits.maxBytesInFlight, \
                 limits.perCaller.maxBytesInFlight); retry later",
            ))
        }
        Err(_) => {
            let message = format!(
                "the message was not received within {} ms (http.bodyTimeoutMs)",
                time.as_millis()
            );
            Err(HttpError::new(StatusCode::REQUEST_TIMEOUT, INVALID_REQUEST, &message))
        }
    }
}

fn address(head: &Parts) -> Option<IpAddr> {
    head.extensions.get::<ConnectionInfo>().map(|peer| peer.address)
}

pub(crate) fn reader(
    headers: &HeaderMap,
    events: mpsc::Sender<Bytes>,
    after: Option<u64>,
) -> StreamReader {
    let is_primed =
        single_value(headers, &PROTOCOL_VERSION).is_ok_and(|said| said == Some(KNOWS_PRIMING));
    StreamReader { events, after, wants_priming: is_primed }
}

fn not_allowed() -> HttpError {
    let message = "method not allowed: send messages with POST; GET and DELETE require an \
                   Mcp-Session-Id header";
    HttpError::new(StatusCode::METHOD_NOT_ALLOWED, INVALID_REQUEST, message)
}

fn not_acceptable(types: &str) -> HttpError {
    let message = format!("Accept must include {types}");
    HttpError::new(StatusCode::NOT_ACCEPTABLE, INVALID_REQUEST, &message)
}
