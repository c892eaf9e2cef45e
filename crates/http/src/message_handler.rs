//! Handles a message posted to `/mcp`: assigns it to a session, runs it and responds with one
//! message or an event stream.

use std::sync::Arc;
use std::time::Duration;

use hyper::header::HeaderValue;
use hyper::{HeaderMap, StatusCode};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::drain::{InFlightGuard, draining_error};
use crate::event_stream::{reader, stream_request};
use crate::headers::{self, AcceptedTypes, SESSION};
use crate::message::PostedMessage;
use crate::request_task::RequestTask;
use crate::response::{self, HttpError, HttpResponse, bad_request};
use crate::send_quota::SendQuota;
use crate::server::{HttpServer, RequestScope};
use crate::sessions::HttpSession;
use crate::takeover::{find_or_adopt, local_session};
use mcp_workbench_core::state::{SessionKey, round_trip};
use mcp_workbench_serve::exposure::startup;
use mcp_workbench_serve::frontend::dispatch;
use mcp_workbench_serve::frontend::era::RequestMeta;
use mcp_workbench_serve::frontend::session::{AgentSession, creation};
use mcp_workbench_wire::agent::Notifier;
use mcp_workbench_wire::cancellation::Cancellation;
use mcp_workbench_wire::code::{
    HEADER_MISMATCH, INTERNAL_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND,
    UNSUPPORTED_PROTOCOL_VERSION,
};
use mcp_workbench_wire::incoming::{self, IncomingMessage, MessageKind, receive_message};
use mcp_workbench_wire::json::RawJson;
use mcp_workbench_wire::peer::Peer;
use mcp_workbench_wire::writer::{self, MessageWriter, Outbox};

/// How long to wait for the first message before the event stream is opened. Clients give up on a
/// response that doesn't start within minutes.
const FIRST_MESSAGE_TIMEOUT: Duration = Duration::from_secs(10);

struct PendingResponse {
    owner: RequestOwner,
    guard: Option<InFlightGuard>,
    send_quota: SendQuota,
    work: RequestTask,
}

enum RequestOwner {
    /// The session of a legacy agent; `true` if this request starts it.
    Legacy(Arc<HttpSession>, bool),
    /// A modern request has no session. Cancelled when its client leaves.
    Modern(Cancellation),
}

pub(crate) async fn handle_modern(
    server: &HttpServer,
    message: PostedMessage,
    headers: &HeaderMap,
    accepts: AcceptedTypes,
    who: &RequestScope,
) -> Result<HttpResponse, HttpError> {
    match message.message {
        mcp_workbench_wire::JsonRpcMessage::Request { .. } => {}
        // No client notification of the modern era needs handling.
        mcp_workbench_wire::JsonRpcMessage::Notification { .. } => {
            return Ok(response::empty(StatusCode::ACCEPTED));
        }
        mcp_workbench_wire::JsonRpcMessage::Response { .. } => {
            return Err(bad_request(
                INVALID_REQUEST,
                "unexpected response: no request is \
                                                     waiting for it",
            ));
        }
    }
    let guard = server.under_way.begin(None).ok_or_else(draining_error)?;
    // Draining doesn't wait for requests that only listen.
    let guard = (!message.is_listen()).then_some(guard);
    let session = {
        let (caller, quota) = (who.caller.clone(), Arc::clone(&who.quota));
        creation::create(&server.app, caller, quota, None, None)
    };
    headers::check_mcp_headers(&message, headers)?;
    if message.method() == "tools/call"
        && let Some(tool) = message.name()
    {
        let mirrored = header_parameters(&session, message.meta().as_ref(), &tool).await;
        headers::check_param_headers(&message, headers, &mirrored)?;
    }
    let (writer, outbox) = MessageWriter::detached();
    let taken = receive_message(&Peer::new(), message.message, &writer);
    let Some(IncomingMessage::Request(request)) = taken else {
        return Err(bad_request(INVALID_REQUEST, "expected a request"));
    };
    let cancellation = request.responder.cancellation().clone();
    // The session exists only for this request, and ends with its last reference.
    let answer = dispatch::handle_request(session, request);
    let work = RequestTask::new(
        &server.tasks,
        server.ending.closing.clone().run_until_cancelled_owned(Box::pin(answer)),
    );
    drop(writer);
    let (owner, send_quota) = (RequestOwner::Modern(cancellation), SendQuota::of(&who.quota));
    let under_way = PendingResponse { owner, guard, send_quota, work };
    Ok(respond(server, outbox, accepts, headers, under_way).await)
}

pub(crate) async fn handle_legacy(
    server: &HttpServer,
    message: PostedMessage,
    headers: &HeaderMap,
    accepts: AcceptedTypes,
    who: &RequestScope,
) -> Result<HttpResponse, HttpError> {
    let is_request = message.id().is_some();
    let is_initialize = is_request && message.method() == "initialize";
    // After a restart, some clients send `initialize` with the id of their lost session.
    let current = if is_initialize && headers.contains_key(&SESSION) {
        find_or_adopt(server, headers, who).await.ok()
    } else {
        None
    };
    let begins = is_initialize && current.is_none();
    let connected = match current {
        Some(connected) => connected,
        None if begins => begin(server, who).await?,
        None if message.belongs_to_request() => {
            local_session(server, headers, who, message.answered_id()).await?
        }
        None => find_or_adopt(server, headers, who).await?,
    };
    connected.touch();
    // Requests in flight still use the current session, so it is only rebuilt between requests.
    if is_request && round_trip::is_on() {
        Box::pin(connected.renew()).await;
    }
    let guard = is_request
        .then(|| server.under_way.begin(Some(&connected.requests)).ok_or_else(draining_error))
        .transpose()?;
    let (writer, outbox) = MessageWriter::detached();
    let session = connected.session();
    let receive = || receive_message(&connected.peer, message.message, &writer);
    let request = match session.span().in_scope(receive) {
        Some(IncomingMessage::Request(request)) => request,
        Some(IncomingMessage::Notification { method, params }) => {
            session.handle_notification(&method, params.as_ref());
            return Ok(response::empty(StatusCode::ACCEPTED));
        }
        None => return Ok(response::empty(StatusCode::ACCEPTED)),
    };
    let answer = dispatch::handle_request(session, request);
    let work = RequestTask::new(
        &server.tasks,
        connected.stopped.clone().run_until_cancelled_owned(Box::pin(answer)),
    );
    drop(writer);
    let owner = RequestOwner::Legacy(Arc::clone(&connected), begins);
    let under_way = PendingResponse { owner, guard, send_quota: SendQuota::of(&who.quota), work };
    let mut reply = respond(server, outbox, accepts, headers, under_way).await;
    if begins
        && server.sessions.get(&connected.id, &who.caller).is_some()
        && let Ok(id) = HeaderValue::from_str(&connected.id)
    {
        reply.headers_mut().insert(SESSION.clone(), id);
    }
    Ok(reply)
}

async fn begin(server: &HttpServer, who: &RequestScope) -> Result<Arc<HttpSession>, HttpError> {
    server.count_session(who).await?;
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(|error| {
        let message = format!("failed to generate a session ID: {error}");
        HttpError::new(StatusCode::INTERNAL_SERVER_ERROR, INTERNAL_ERROR, &message)
    })?;
    if server.under_way.is_closed() {
        return Err(draining_error());
    }
    let id = format!("{:032x}", u128::from_ne_bytes(random));
    let (writer, outbox) = MessageWriter::detached();
    let peer = Peer::new();
    let notifier = Notifier::new(peer.clone(), writer);
    let key = SessionKey::of_id(&id);
    let session = {
        let (caller, quota) = (who.caller.clone(), Arc::clone(&who.quota));
        creation::create(&server.app, caller, quota, Some(notifier), Some(key))
    };
    let ended = server.ending.closing.child_token();
    let connected = Arc::new(HttpSession::new(id, session, peer, ended));
    server.register_session(&connected, outbox).inspect_err(|_| connected.end())?;
    Ok(connected)
}

async fn respond(
    server: &HttpServer,
    mut outbox: Outbox,
    accepts: AcceptedTypes,
    headers: &HeaderMap,
    request: PendingResponse,
) -> HttpResponse {
    let PendingResponse { owner, guard: ticket, send_quota, mut work } = request;
    // Until the response begins, a client that leaves cancels its modern request.
    let leaves = match &owner {
        RequestOwner::Modern(cancellation) => Some(cancellation.clone().drop_guard()),
        RequestOwner::Legacy(..) => None,
    };
    let first = loop {
        let message = match timeout(FIRST_MESSAGE_TIMEOUT, work.next_message(&mut outbox)).await {
            Ok(Some(message)) => message,
            Ok(None) => break None,
            Err(_) if accepts.events => break None,
            Err(_) => continue,
        };
        match incoming::classify(&message.parts) {
            sent @ (MessageKind::Result | MessageKind::Error(_)) if accepts.json => {
                let status = status(server, &owner, &sent);
                let reply = single_response(message, status, &send_quota).await;
                if let Some(guard) = leaves {
                    guard.disarm();
                }
                return reply;
            }
            _ if accepts.events => break Some(message),
            // The client doesn't accept event streams. Dropping a server request tells its
            // sender that it failed.
            MessageKind::Request => drop(message),
            MessageKind::Notification | MessageKind::Result | MessageKind::Error(_) => {
                writer::QueuedMessage::done(message.written);
            }
        }
    };
    if let Some(guard) = leaves {
        guard.disarm();
    }
    if !accepts.events {
        return response::empty(StatusCode::ACCEPTED);
    }
    let (events, receiver) = mpsc::channel(1);
    match owner {
        RequestOwner::Modern(cancellation) => {
            let carry = stream_request(first, outbox, events, cancellation, ticket, send_quota);
            server
                .tasks
                .spawn(server.ending.closing.clone().run_until_cancelled_owned(Box::pin(carry)));
        }
        RequestOwner::Legacy(connected, _) => {
            let number = connected.open_stream(outbox, first, ticket, &server.tasks);
            connected.attach_reader(number, reader(headers, events, None));
        }
    }
    response::event_stream(receiver)
}

fn status(server: &HttpServer, owner: &RequestOwner, answer: &MessageKind) -> StatusCode {
    match (owner, answer) {
        (
            RequestOwner::Modern(_),
            MessageKind::Error(UNSUPPORTED_PROTOCOL_VERSION..=HEADER_MISMATCH),
        ) => StatusCode::BAD_REQUEST,
        (RequestOwner::Modern(_), MessageKind::Error(METHOD_NOT_FOUND)) => StatusCode::NOT_FOUND,
        (RequestOwner::Legacy(connected, true), MessageKind::Error(_)) => {
            // The handshake failed: drop the session.
            server.sessions.end(&connected.id);
            StatusCode::OK
        }
        _ => StatusCode::OK,
    }
}

/// Returns the arguments of `tool` that must be repeated in headers.
async fn header_parameters(
    session: &AgentSession,
    meta: Option<&RawJson>,
    tool: &str,
) -> Vec<(String, String)> {
    // `dispatch` reports invalid metadata and exceeded limits.
    let Ok(meta) = RequestMeta::read(meta) else {
        return Vec::new();
    };
    if session.admit(&meta).is_err() {
        return Vec::new();
    }
    let exposure = session.exposure(&meta);
    startup::ensure_started(&exposure, &session.presence(&meta)).await;
    exposure.header_parameters(tool)
}

async fn single_response(
    message: writer::QueuedMessage,
    status: StatusCode,
    send_quota: &SendQuota,
) -> HttpResponse {
    let Some((writer::QueuedMessage { parts, written }, charge)) =
        send_quota.reserve(message).await
    else {
        return response::empty(StatusCode::ACCEPTED);
    };
    let reply = response::json(status, charge.attach_to(parts.concat().into()));
    writer::QueuedMessage::done(written);
    reply
}
