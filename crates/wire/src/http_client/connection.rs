//! The connection to a server: the session, requests in flight, and the way of messages to the sink.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use reqwest::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT,
    WWW_AUTHENTICATE,
};
use reqwest::{Client, Method, Response, StatusCode, Url};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

use crate::code::{HEADER_MISMATCH, INTERNAL_ERROR};
use crate::envelope::{JsonRpcMessage, MessageParseError, RpcOutcome};
use crate::http_client::body::{buffered, read_error};
use crate::http_client::credentials::{Challenge, Credentials, RetryDecision};
use crate::http_client::failure::{self, HttpTransportError};
use crate::http_client::headers::ToolHeaderParams;
use crate::http_client::outbound_message::OutboundMessage;
use crate::http_client::session::{self, Session, SessionLoss, loss};
use crate::http_client::sink::MessageSink;
use crate::http_client::sse::{SseEvent, SseParser};
use crate::http_client::transport::TransportState;
use crate::incoming;
use crate::json::{self, RawJson};
use crate::mailbox::RequestError;
use crate::memory_pool::ReadLimits;
use crate::server::DisconnectReason;

/// Longer messages aren't searched for errors of the transport, in bytes.
const MAX_ERROR: usize = 16 * 1024;
/// How long a stream may stay open after the response. A connection that ends cleanly can be
/// reused.
const LINGER: Duration = Duration::from_secs(1);

pub(super) const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

pub(super) struct HttpConnection<T> {
    pub(super) client: Client,
    pub(super) credentials: Arc<dyn Credentials>,
    pub(super) intake: ReadLimits,
    pub(super) label: String,
    pub(super) to: T,
    pub(super) session: Mutex<Session>,
    pub(super) way: TransportState,
    pub(super) tools: Mutex<ToolHeaderParams>,
    /// Requests in flight, by the JSON text of their ids.
    pub(super) running: Mutex<HashMap<Bytes, InFlightExchange>>,
    pub(super) tasks: TaskTracker,
}

pub(super) struct InFlightExchange {
    pub(super) id: RawJson,
    pub(super) is_modern: bool,
    /// `true` while the request is certainly undelivered and waits for its retry.
    pub(super) is_untaken: bool,
    pub(super) dropped: CancellationToken,
}

pub(super) enum StreamEnd {
    Answered,
    /// The stream ended before the response. `is_fruitful` if it had any event.
    Early {
        is_fruitful: bool,
        why: String,
    },
}

/// Whether the server had accepted a request before the rejection.
#[derive(Clone, Copy)]
pub(super) enum Delivery {
    Yes,
    No,
}

/// Response extension: a user has to sign in before the server accepts requests.
#[derive(Clone, Copy)]
struct SignInRequired;

impl<T: MessageSink> HttpConnection<T> {
    /// Runs `work` until the connection closes.
    pub(super) fn spawn(self: &Arc<Self>, work: impl Future<Output = ()> + Send + 'static) {
        let remote = Arc::clone(self);
        let work = async move { or_closed(&remote.to, work).await };
        self.tasks.spawn(work.in_current_span());
    }

    pub(super) fn session_headers(&self, accept: &'static str) -> HeaderMap {
        let mut headers = accepting(accept);
        let Session { id, version, .. } = self.session.lock().clone();
        headers.extend(id.map(|id| (SESSION_ID, id)));
        headers.extend(version.map(|version| (PROTOCOL_VERSION, version)));
        headers
    }

    pub(super) fn headers_of(&self, sent: &OutboundMessage) -> HeaderMap {
        let accept = "application/json, text/event-stream";
        let mut headers = match &sent.modern {
            Some(version) => {
                let mut headers = accepting(accept);
                headers.insert(PROTOCOL_VERSION, version.clone());
                headers.extend(self.tools.lock().headers(&sent.method, sent.params.as_ref()));
                headers
            }
            None if sent.method == "initialize" => accepting(accept),
            None => self.session_headers(accept),
        };
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers
    }

    /// Passes on one message of the server. `sent` is the request that it arrived for; `None` on a
    /// standalone stream.
    pub(super) async fn take(&self, message: &Bytes, sent: Option<&OutboundMessage>) {
        // The sink needs one line per message, but over HTTP a message can span several.
        let message = json::join_lines(message.clone());
        if let Some(sent) = sent
            && self.take_error(&message, sent).await
        {
            return;
        }
        let changed = sent.and_then(|sent| self.learn(&message, sent));
        self.to.take(changed.unwrap_or(message)).await;
    }

    /// Handles a response that says that the session is lost, and an error without an id, which can
    /// only belong to `sent`. Returns `false` for other messages.
    async fn take_error(&self, message: &Bytes, sent: &OutboundMessage) -> bool {
        if message.len() > MAX_ERROR || memchr::memmem::find(message, b"\"error\"").is_none() {
            return false;
        }
        match JsonRpcMessage::parse_envelope(message) {
            Err(MessageParseError::ErrorWithoutId(error)) => {
                self.fail(sent, error).await;
                true
            }
            Ok(JsonRpcMessage::Response { id, outcome: RpcOutcome::Error(error) })
                if sent.id.as_ref() == Some(&id)
                    && sent.modern.is_none()
                    && !sent.is_handshake()
                    && session::is_lost_error(&self.session.lock(), &error) =>
            {
                self.answer(sent, Err(RequestError::NotSent)).await;
                self.lose_session();
                true
            }
            _ => false,
        }
    }

    /// Records facts for later headers from the response to `sent`. Returns a replacement if the
    /// response has to change.
    fn learn(&self, message: &Bytes, sent: &OutboundMessage) -> Option<Bytes> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Initialized {
            protocol_version: String,
        }

        let is_list = sent.method == "tools/list" && sent.modern.is_some();
        if !is_list && sent.method != "initialize" {
            return None;
        }
        let Ok(JsonRpcMessage::Response { id, outcome: RpcOutcome::Result(result) }) =
            JsonRpcMessage::parse_envelope(message)
        else {
            return None;
        };
        if is_list {
            let outcome = match self.tools.lock().learn(&result, &self.label).transpose()? {
                Ok(list) => RpcOutcome::Result(list),
                Err(error) => {
                    let why = format!("the tool list cannot be filtered: {error}");
                    RpcOutcome::Error(incoming::error_object(INTERNAL_ERROR, &why, None))
                }
            };
            return Some(incoming::encode_response(id, outcome).concat().into());
        }
        let version = result.parse::<Initialized>().ok();
        self.session.lock().version =
            version.and_then(|result| HeaderValue::try_from(result.protocol_version).ok());
        None
    }

    /// Completes `sent` with `outcome`. Only logs it if `sent` isn't a request.
    pub(super) async fn answer(
        &self,
        sent: &OutboundMessage,
        outcome: Result<RpcOutcome, RequestError>,
    ) {
        if let Some(id) = &sent.id {
            self.to.settle(id, outcome).await;
        } else {
            let (server, method) = (&self.label, &sent.method);
            tracing::debug!(server, method, ?outcome, "message without a response failed");
        }
    }

    /// Ends the connection because the server doesn't know the session any more.
    pub(super) fn lose_session(&self) {
        tracing::debug!(server = self.label, "the server no longer knows the session");
        self.session.lock().is_lost = true;
        self.to.session_lost(DisconnectReason::Session);
    }

    pub(super) async fn send(
        &self,
        method: Method,
        headers: HeaderMap,
    ) -> reqwest::Result<Response> {
        self.send_to(&self.way.url, method, headers, None).await
    }

    /// Sends a request with credentials. Retries it once if the server rejects them and the
    /// credentials change.
    pub(super) async fn send_to(
        &self,
        url: &Url,
        method: Method,
        headers: HeaderMap,
        body: Option<Bytes>,
    ) -> reqwest::Result<Response> {
        let mut is_last = false;
        loop {
            let mut all = self.credentials.authorization().await;
            let mut shown = all.get(AUTHORIZATION).cloned();
            if shown.is_none() && self.credentials.is_token_required() {
                return Ok(unsent());
            }
            if let Some(shown) = &mut shown {
                shown.set_sensitive(true);
            }
            let version = concat!("mcp-workbench/", env!("CARGO_PKG_VERSION"));
            all.entry(USER_AGENT).or_insert(HeaderValue::from_static(version));
            all.extend(headers.clone());
            let mut request = self.client.request(method.clone(), url.clone()).headers(all);
            if let Some(body) = &body {
                request = request.body(body.clone());
            }
            let mut response = self.record_availability(request.send().await)?;
            let status = response.status();
            if !matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
                return Ok(response);
            }
            if headers.contains_key(SESSION_ID)
                && !response.headers().contains_key(WWW_AUTHENTICATE)
            {
                // Some servers reject an unknown session like this. No sign-in can help then.
                let body;
                (response, body) = buffered(response).await;
                if loss(&self.session.lock(), status, &body) != SessionLoss::No {
                    return Ok(response);
                }
            }
            let schemes = response.headers().get_all(WWW_AUTHENTICATE).iter();
            let schemes =
                schemes.filter_map(|scheme| scheme.to_str().ok().map(str::to_owned)).collect();
            let challenge =
                Challenge { status, www_authenticate: schemes, authorization: shown, is_last };
            match self.credentials.on_challenge(challenge).await {
                RetryDecision::Retry if !is_last => is_last = true,
                RetryDecision::Retry | RetryDecision::GiveUp => return Ok(response),
                RetryDecision::AwaitSignIn => {
                    response.extensions_mut().insert(SignInRequired);
                    return Ok(response);
                }
            }
        }
    }

    pub(super) async fn fail(&self, sent: &OutboundMessage, error: RawJson) {
        self.answer(sent, Ok(RpcOutcome::Error(error))).await;
    }

    pub(super) fn is_waiting(&self, sent: &OutboundMessage) -> bool {
        sent.id.as_ref().is_some_and(|id| self.to.is_waiting(id))
    }

    pub(super) async fn handle_rejection(
        &self,
        sent: &OutboundMessage,
        response: Response,
        taken: Delivery,
    ) {
        #[derive(Deserialize)]
        struct ErrorResponse<'a> {
            #[serde(borrow)]
            error: &'a RawValue,
        }
        #[derive(Deserialize)]
        struct ErrorCode {
            code: i64,
        }

        let (status, headers) = (response.status(), response.headers().clone());
        let wants_sign_in = response.extensions().get::<SignInRequired>().is_some();
        let body = read_error(response).await;
        let error = serde_json::from_slice::<ErrorResponse<'_>>(&body).ok();
        let error = error.map(|members| RawJson::from_borrowed(&body, members.error));
        let code = error.as_ref().and_then(|error| Some(error.parse::<ErrorCode>().ok()?.code));
        if code == Some(HEADER_MISMATCH) && sent.method == "tools/call" {
            // The server's tool definition may require other arguments in headers now.
            self.to.tools_changed();
        }
        // For authentication errors, report the HTTP status rather than the server's error object.
        let is_own = code.is_some() && !matches!(status.as_u16(), 401 | 403 | 407);
        let error = error.filter(|_| is_own).unwrap_or_else(|| {
            if wants_sign_in {
                failure::sign_in(status)
            } else {
                failure::status(status, &headers, &body, &self.secrets())
            }
        });
        let loss = self.loss(sent, status, &body);
        let is_lost = loss != SessionLoss::No;
        let is_tried_again =
            loss != SessionLoss::Possible && self.to.should_resend(status, is_lost);
        match taken {
            Delivery::No if is_tried_again => self.answer(sent, Err(RequestError::NotSent)).await,
            Delivery::Yes if is_lost => self.answer(sent, Err(RequestError::Closed)).await,
            Delivery::No => self.fail(sent, error).await,
            // The rejection concerns the rest of the response: the request itself may have been
            // executed.
            Delivery::Yes => {
                let message = format!(
                    "response interrupted, and resuming it failed with HTTP status {status}"
                );
                self.fail(sent, HttpTransportError::Broken.error(&message)).await;
            }
        }
        if is_lost {
            self.lose_session();
        }
    }

    /// Returns whether the rejection of `sent` says that the session is lost.
    fn loss(&self, sent: &OutboundMessage, status: StatusCode, body: &[u8]) -> SessionLoss {
        if sent.modern.is_some() || sent.method == "initialize" {
            return SessionLoss::No;
        }
        let mut session = self.session.lock().clone();
        if self.way.uses_sse() {
            // The URL for messages names the session.
            session.id = session.id.or(Some(HeaderValue::from_static("")));
        }
        loss(&session, status, body)
    }

    /// Returns the secrets of the credentials and the URL, to redact from error messages.
    pub(super) fn secrets(&self) -> Vec<String> {
        let mut secrets = self.credentials.secrets();
        secrets.extend(failure::secrets_of(&self.way.url));
        secrets
    }

    /// Handles the messages of one stream, until `sent` is answered if it is set.
    pub(super) async fn read_events(
        &self,
        sent: Option<&OutboundMessage>,
        mut response: Response,
        events: &mut SseParser,
    ) -> StreamEnd {
        let mut is_fruitful = false;
        let mut charge = self.intake.account.charge();
        // Set once the response has arrived: the stream then only gets time to end.
        let mut until = None;
        loop {
            let chunk = match until {
                None => response.chunk().await,
                Some(deadline) => match timeout_at(deadline, response.chunk()).await {
                    Ok(chunk) => chunk,
                    Err(_) => return StreamEnd::Answered,
                },
            };
            let why = match chunk {
                Ok(Some(chunk)) => {
                    charge.grow(events.held() + chunk.len()).await;
                    events.read(&chunk);
                    while let Some(event) = events.next() {
                        is_fruitful = true;
                        let paid = std::mem::replace(&mut charge, self.intake.account.charge());
                        self.take_event(event.paid_with(paid), sent).await;
                    }
                    if sent.is_some_and(|sent| !self.is_waiting(sent)) {
                        until.get_or_insert_with(|| Instant::now() + LINGER);
                    }
                    continue;
                }
                Ok(None) => "the stream ended".to_owned(),
                Err(error) => failure::root_cause_without_url(error),
            };
            // Some servers leave out the blank line after the last event.
            if let Some(message) = events.take_unfinished()
                && JsonRpcMessage::parse_envelope(&message).is_ok()
            {
                self.take(&message, sent).await;
                if sent.is_some_and(|sent| !self.is_waiting(sent)) {
                    return StreamEnd::Answered;
                }
            }
            return if until.is_some() {
                StreamEnd::Answered
            } else {
                StreamEnd::Early { is_fruitful, why }
            };
        }
    }

    pub(super) async fn take_event(&self, event: SseEvent, sent: Option<&OutboundMessage>) {
        match (event, sent) {
            (SseEvent::Message(message), sent) => self.take(&message, sent).await,
            // Other event types don't carry messages.
            (SseEvent::Other { .. }, _) => {}
            (SseEvent::Oversized(edges), Some(sent)) => {
                self.answer(sent, Err(RequestError::Oversized(edges.length))).await;
            }
            (SseEvent::Oversized(edges), None) => {
                let length = edges.length;
                tracing::warn!(
                    server = self.label,
                    length,
                    "dropped a message that exceeds the size limit"
                );
                self.to.take_oversized(&edges);
            }
        }
    }

    pub(super) fn note_untaken(
        &self,
        OutboundMessage { id, .. }: &OutboundMessage,
        is_untaken: bool,
    ) {
        let Some(id) = id.clone().map(RawJson::into_bytes) else { return };
        if let Some(running) = self.running.lock().get_mut(&id) {
            running.is_untaken = is_untaken;
        }
    }

    /// Completes requests that are certainly undelivered with `RequestError::NotSent`.
    pub(super) async fn fail_undelivered(&self) {
        let untaken: Vec<RawJson> = {
            let running = self.running.lock();
            running.values().filter(|one| one.is_untaken).map(|one| one.id.clone()).collect()
        };
        for id in untaken {
            self.to.settle(&id, Err(RequestError::NotSent)).await;
        }
    }

    /// Records whether the server is available and returns the result unchanged.
    pub(super) fn record_availability(
        &self,
        answer: reqwest::Result<Response>,
    ) -> reqwest::Result<Response> {
        match &answer {
            Ok(response) => {
                let status = response.status();
                let is_away = matches!(status.as_u16(), 502..=504);
                let why = is_away.then(|| format!("the server returned HTTP status {status}"));
                self.to.set_unavailable_reason(why.as_deref());
            }
            Err(error) if error.is_connect() => {
                let why = failure::root_cause(error);
                self.to.set_unavailable_reason(Some(&format!("unreachable: {why}")));
            }
            Err(_) => {}
        }
        answer
    }
}

/// Returns the response to a request that isn't sent because there is no token for it.
fn unsent() -> Response {
    let mut response = http::Response::new("");
    *response.status_mut() = StatusCode::UNAUTHORIZED;
    response.into()
}

pub(super) fn accepting(media_types: &'static str) -> HeaderMap {
    HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(media_types))])
}

/// Returns the output of `work`, or `None` if the connection closes first.
pub(super) async fn or_closed<T>(
    to: &impl MessageSink,
    work: impl Future<Output = T>,
) -> Option<T> {
    tokio::select! {
        biased;
        () = to.closed() => None,
        done = work => Some(done),
    }
}
