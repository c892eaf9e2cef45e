//! One exchange with a server over HTTP: a POST, its response, and the resumption of event streams.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use reqwest::header::{
    AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT, WWW_AUTHENTICATE,
};
use reqwest::{Method, Response, StatusCode, Url};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::{Instant, sleep, timeout_at};

use crate::json::RawJson;
use crate::wire::code::HEADER_MISMATCH;
use crate::wire::envelope::{JsonRpcMessage, RpcOutcome};
use crate::wire::http_client::credentials::{Challenge, RetryDecision};
use crate::wire::http_client::failure::{self, HttpTransportError};
use crate::wire::http_client::session::{Session, SessionLoss, loss};
use crate::wire::http_client::sink::MessageSink;
use crate::wire::http_client::sse::{SseEvent, SseParser};
use crate::wire::http_client::{HttpConnection, OutboundMessage, SESSION_ID};
use crate::wire::mailbox::RequestError;
use crate::wire::memory_pool::{self, ReadLimits};
use crate::wire::pacer::Pacer;

pub(super) const EVENT_STREAM: &str = "text/event-stream";
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Bytes read of the body of an error response.
const MAX_ERROR: usize = 256 * 1024;
/// How long a stream may stay open after the response. A connection that ends cleanly can be
/// reused.
const LINGER: Duration = Duration::from_secs(1);
/// Delay before a stream is reopened, unless the server sets one, and the upper limit of either.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
/// Attempts in a row to resume a stream that yields no new events.
const RETRIES: u32 = 5;

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

enum OpenStreamError {
    /// The server responded without an event stream.
    Refused(Response),
    Unreachable,
}

impl<T: MessageSink> HttpConnection<T> {
    /// Sends one message and handles the response. When this returns, a request has been completed,
    /// either with a response or with an error.
    pub(super) async fn exchange(self: &Arc<Self>, sent: &OutboundMessage) {
        if self.way.uses_sse() {
            return self.exchange_sse(sent).await;
        }
        let response = match self.post(sent, &self.url).await {
            Ok(response) => response,
            Err(error) => return self.fail(sent, failure::connect_error(error)).await,
        };
        let status = response.status();
        if !status.is_success() {
            if sent.method == "initialize" && self.way.falls_back_on(status) {
                return self.fall_back(sent, response).await;
            }
            return self.handle_rejection(sent, response, Delivery::No).await;
        }
        if sent.method == "initialize" {
            let mut session = self.session.lock();
            session.id = response.headers().get(SESSION_ID).cloned();
        }
        if sent.id.is_none() {
            return;
        }
        if media_type(&response) == EVENT_STREAM {
            return self.follow(sent, response).await;
        }
        match read(response, self.intake.clone()).await {
            Ok(Body::Whole(text)) => self.take_body(sent, &text, status).await,
            Ok(Body::TooLong { length, .. }) => {
                self.answer(sent, Err(RequestError::Oversized(length))).await;
            }
            Err(error) => {
                let what = failure::root_cause_without_url(error);
                let message = format!("response interrupted: {what}");
                self.fail(sent, HttpTransportError::Broken.error(&message)).await;
            }
        }
    }

    pub(super) async fn send(
        &self,
        method: Method,
        headers: HeaderMap,
    ) -> reqwest::Result<Response> {
        self.send_to(&self.url, method, headers, None).await
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

    /// Handles a body that should be the response, or a batch that contains it.
    async fn take_body(&self, sent: &OutboundMessage, text: &Bytes, status: StatusCode) {
        match serde_json::from_slice::<Vec<&RawValue>>(text) {
            Ok(batch) => {
                for message in batch {
                    self.take(&text.slice_ref(message.get().as_bytes()), Some(sent)).await;
                }
            }
            Err(_) => self.take(text, Some(sent)).await,
        }
        if self.is_waiting(sent) {
            let error = failure::status(status, &HeaderMap::new(), text, &self.secrets());
            self.fail(sent, error).await;
        }
    }

    fn is_waiting(&self, sent: &OutboundMessage) -> bool {
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
        secrets.extend(failure::secrets_of(&self.url));
        secrets
    }

    /// Reads an event stream until the request is answered. A legacy stream that ends early is
    /// resumed after its last event.
    async fn follow(&self, sent: &OutboundMessage, mut response: Response) {
        let mut events = SseParser::new(self.intake.max_message_bytes);
        let mut retries = 0;
        let mut pacer = Pacer::per_minute(self.intake.reconnects.per_minute);
        loop {
            let why = match self.read_events(Some(sent), response, &mut events).await {
                StreamEnd::Answered => return,
                StreamEnd::Early { is_fruitful: true, why } => {
                    retries = 0;
                    why
                }
                StreamEnd::Early { is_fruitful: false, why } => why,
            };
            let last_id = events.last_id().filter(|_| sent.modern.is_none()).map(str::to_owned);
            response = loop {
                retries += 1;
                let Some(id) = last_id.as_ref().filter(|_| retries <= RETRIES) else {
                    let message = format!("response interrupted: {why}");
                    return self.fail(sent, HttpTransportError::Broken.error(&message)).await;
                };
                self.pause(events.retry().unwrap_or(PAUSE).min(LONGEST_PAUSE), &mut pacer).await;
                match self.open_stream(Some(id)).await {
                    Ok(stream) => break stream,
                    Err(OpenStreamError::Refused(response)) => {
                        return self.handle_rejection(sent, response, Delivery::Yes).await;
                    }
                    Err(OpenStreamError::Unreachable) => {}
                }
            };
            events.reconnect();
        }
    }

    /// Receives server messages on a separate stream, until the server declines one.
    pub(super) async fn listen(&self) {
        let mut events = SseParser::new(self.intake.max_message_bytes);
        let (mut pause, mut was_open) = (PAUSE, false);
        let mut pacer = Pacer::per_minute(self.intake.reconnects.per_minute);
        loop {
            match self.open_stream(events.last_id()).await {
                Ok(response) => {
                    was_open = true;
                    events.reconnect();
                    let end = self.read_events(None, response, &mut events).await;
                    if matches!(end, StreamEnd::Early { is_fruitful: true, .. }) {
                        pause = PAUSE;
                    }
                }
                Err(OpenStreamError::Refused(response)) => {
                    let status = response.status();
                    tracing::debug!(server = self.label, %status, "the server offers no event \
                                                                   stream");
                    let body = read_error(response).await;
                    let is_lost = status == StatusCode::NOT_FOUND
                        || loss(&self.session.lock(), status, &body) != SessionLoss::No;
                    if was_open && is_lost {
                        self.lose_session();
                    }
                    return;
                }
                Err(OpenStreamError::Unreachable) => {}
            }
            let wanted = events.retry().unwrap_or(pause).max(pause).min(LONGEST_PAUSE);
            self.pause(wanted, &mut pacer).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Waits before a stream is reopened: as long as `wanted`, or longer if the stream was reopened
    /// too often.
    async fn pause(&self, wanted: Duration, pacer: &mut Pacer) {
        let wait = pacer.count(Instant::now());
        if wait > wanted {
            tracing::debug!(
                server = self.label,
                "the server closes its event streams too often; they are reopened at most {} times \
                 per minute (limits.perServer.reconnectsPerMinute)",
                self.intake.reconnects.per_minute
            );
            if let Some(hook) = &self.intake.reconnects.on_reached {
                hook();
            }
        }
        sleep(wait.max(wanted)).await;
    }

    /// Opens an event stream of the session, resuming after the event `last_id`.
    async fn open_stream(&self, last_id: Option<&str>) -> Result<Response, OpenStreamError> {
        let mut headers = self.session_headers(EVENT_STREAM);
        let last_id = last_id.and_then(|id| HeaderValue::from_str(id).ok());
        headers.extend(last_id.map(|id| (LAST_EVENT_ID, id)));
        match self.send(Method::GET, headers).await {
            Ok(response) if is_stream(&response) => Ok(response),
            Ok(response) => Err(OpenStreamError::Refused(response)),
            Err(error) => {
                let why = failure::root_cause_without_url(error);
                tracing::debug!(server = self.label, why, "failed to open an event stream");
                Err(OpenStreamError::Unreachable)
            }
        }
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

    pub(super) async fn delete_session(&self) {
        let Session { id, is_lost, .. } = self.session.lock().clone();
        if id.is_none() || is_lost {
            return;
        }
        let headers = self.session_headers("application/json");
        // Not every server supports DELETE.
        let _ = self.send(Method::DELETE, headers).await;
    }
}

/// Reads the beginning of an error body. Returns the response with it, and the body.
async fn buffered(response: Response) -> (Response, Bytes) {
    let (status, headers) = (response.status(), response.headers().clone());
    let body = read_error(response).await;
    let mut whole = http::Response::new(body.clone());
    (*whole.status_mut(), *whole.headers_mut()) = (status, headers);
    (whole.into(), body)
}

pub(super) fn is_stream(response: &Response) -> bool {
    response.status() == StatusCode::OK && media_type(response) == EVENT_STREAM
}

pub(super) fn media_type(response: &Response) -> String {
    let header = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = header.and_then(|value| value.split(';').next()).unwrap_or_default();
    essence.trim().to_ascii_lowercase()
}

pub(super) enum Body {
    Whole(Bytes),
    /// The beginning of a body that exceeds the limit, and the length as far as known.
    TooLong {
        text: Bytes,
        length: usize,
    },
}

/// Reads the beginning of an error body. Empty if the connection breaks.
pub(super) async fn read_error(response: Response) -> Bytes {
    match read(response, ReadLimits::from(MAX_ERROR)).await {
        Ok(Body::Whole(text) | Body::TooLong { text, .. }) => text,
        Err(_) => Bytes::new(),
    }
}

/// Reads a body up to the limit, waiting for memory from the pool.
pub(super) async fn read(mut response: Response, intake: ReadLimits) -> reqwest::Result<Body> {
    let ReadLimits { max_message_bytes: max, account, .. } = intake;
    let said = response.content_length().and_then(|length| usize::try_from(length).ok());
    let (mut charge, mut text) = (account.charge(), BytesMut::new());
    while let Some(chunk) = response.chunk().await? {
        let length = text.len() + chunk.len();
        if length > max {
            text.extend_from_slice(&chunk[..max - text.len()]);
            return Ok(Body::TooLong { text: text.freeze(), length: said.unwrap_or(length) });
        }
        if length > text.capacity() {
            let capacity = memory_pool::room_for(length, said, max);
            charge.grow(capacity).await;
            text.reserve(capacity - text.len());
        }
        text.extend_from_slice(&chunk);
    }
    Ok(Body::Whole(charge.attach_to(text.freeze())))
}
