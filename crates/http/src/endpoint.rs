//! The MCP endpoint, `/mcp` and `/mcp/<toolbox>`: authenticates requests and finds their sessions.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, Request, State};
use bytes::Bytes;
use hyper::http::request::Parts;
use hyper::{HeaderMap, Method, StatusCode};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::auth::CredentialLifetime;
use crate::body::{self, BodyError};
use crate::event_stream::{self, reader};
use crate::header_value::single_value;
use crate::headers::{self, AcceptedTypes, LAST_EVENT, SESSION};
use crate::message::PostedMessage;
use crate::message_handler::{handle_legacy, handle_modern};
use crate::response::{self, HttpError, HttpResponse, bad_request};
use crate::server::{HttpServer, RequestScope};
use crate::takeover::{end_session, find_or_adopt, local_session};
use mcp_workbench_core::gateway::{Caller, CallerQuota};
use mcp_workbench_core::telemetry::QuotaKind;
use mcp_workbench_names::ToolboxName;
use mcp_workbench_settings::Config;
use mcp_workbench_wire::code::INVALID_REQUEST;
use mcp_workbench_wire::offload::offload;

pub(crate) async fn serve_all_toolboxes(
    State(server): State<Arc<HttpServer>>,
    request: Request,
) -> HttpResponse {
    answer(&server, request, None).await
}

pub(crate) async fn serve_toolbox(
    State(server): State<Arc<HttpServer>>,
    Path(toolbox): Path<String>,
    request: Request,
) -> HttpResponse {
    answer(&server, request, Some(ToolboxName::new(&toolbox))).await
}

/// Serves the protected resource metadata (RFC 9728).
pub(crate) async fn metadata(
    State(server): State<Arc<HttpServer>>,
    request: Request,
) -> HttpResponse {
    let (head, _) = request.into_parts();
    match server.identity.metadata(&head) {
        Ok(Some(reply)) => reply,
        Ok(None) => response::not_found().await,
        Err(denial) => server.deny(&head, denial.reply()).await,
    }
}

pub(crate) async fn answer(
    server: &HttpServer,
    request: Request,
    toolbox: Option<ToolboxName>,
) -> HttpResponse {
    let (mut head, body) = request.into_parts();
    let config = server.app.gateways.config();
    let (caller, lifetime) = match server.identity.authenticate(&mut head, &config).await {
        Ok((caller, lifetime)) => (Caller { toolbox, ..caller }, lifetime),
        Err(reply) => return server.deny(&head, reply).await,
    };
    if !server.app.gateways.has_toolbox(&caller) {
        // Toolboxes that the caller may not use are reported as unknown.
        let message = "unknown toolbox; /mcp serves all toolboxes";
        let refusal = HttpError::new(StatusCode::NOT_FOUND, INVALID_REQUEST, message);
        return refusal.into_response(None);
    }
    let quota = server.quota(&head, &caller);
    let who = RequestScope { caller, quota, config };
    let answered = match head.method {
        Method::POST => post(server, &head, body, &who, lifetime).await,
        Method::GET => {
            get(server, &head.headers, &who).await.map(|reply| lifetime.limit_response(reply))
        }
        Method::DELETE => delete(server, &head.headers, &who).await,
        _ => Err(not_allowed()),
    };
    answered.unwrap_or_else(|refusal| refusal.into_response(None))
}

async fn post(
    server: &HttpServer,
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
    if server.app.gateways.observer().is_tracing() {
        message.continue_trace(headers)?;
    }
    let (id, listens) = (message.id().cloned(), message.is_listen());
    let answered = if message.is_modern(headers) {
        handle_modern(server, message, headers, accepts, who).await
    } else {
        handle_legacy(server, message, headers, accepts, who).await
    };
    let reply = answered.unwrap_or_else(|refusal| refusal.into_response(id.as_ref()));
    // Only subscriptions have to end with the credential; other requests end by themselves.
    Ok(if listens { lifetime.limit_response(reply) } else { reply })
}

async fn get(
    server: &HttpServer,
    headers: &HeaderMap,
    who: &RequestScope,
) -> Result<HttpResponse, HttpError> {
    if !headers.contains_key(&SESSION) {
        return Err(not_allowed());
    }
    if !AcceptedTypes::read(headers).events {
        return Err(not_acceptable("text/event-stream"));
    }
    let last =
        single_value(headers, &LAST_EVENT).map_err(|error| bad_request(INVALID_REQUEST, &error))?;
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
        find_or_adopt(server, headers, who).await?
    } else {
        // The stream of a request exists only on the replica that handles the request.
        local_session(server, headers, who, None).await?
    };
    connected.touch();
    let (events, receiver) = mpsc::channel(1);
    if !connected.attach_reader(number, reader(headers, events, after)) {
        return Err(bad_request(INVALID_REQUEST, "the stream no longer exists"));
    }
    Ok(response::event_stream(receiver))
}

async fn delete(
    server: &HttpServer,
    headers: &HeaderMap,
    who: &RequestScope,
) -> Result<HttpResponse, HttpError> {
    if !headers.contains_key(&SESSION) {
        return Err(not_allowed());
    }
    end_session(server, headers, who).await?;
    Ok(response::empty(StatusCode::NO_CONTENT))
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

fn not_allowed() -> HttpError {
    let message = "method not allowed: send messages with POST; GET and DELETE require an \
                   Mcp-Session-Id header";
    HttpError::new(StatusCode::METHOD_NOT_ALLOWED, INVALID_REQUEST, message)
}

fn not_acceptable(types: &str) -> HttpError {
    let message = format!("Accept must include {types}");
    HttpError::new(StatusCode::NOT_ACCEPTABLE, INVALID_REQUEST, &message)
}
