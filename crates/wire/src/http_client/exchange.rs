//! One exchange with a server over HTTP: a POST, its response, and the resumption of event streams.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Response, StatusCode};
use serde_json::value::RawValue;
use tokio::time::{Instant, sleep};

use crate::http_client::body::{Body, EVENT_STREAM, is_stream, media_type, read, read_error};
use crate::http_client::connection::{Delivery, HttpConnection, SESSION_ID, StreamEnd};
use crate::http_client::failure::{self, HttpTransportError};
use crate::http_client::outbound_message::OutboundMessage;
use crate::http_client::retry::post;
use crate::http_client::session::{Session, SessionLoss, loss};
use crate::http_client::sink::MessageSink;
use crate::http_client::sse::SseParser;
use crate::http_client::sse_transport;
use crate::mailbox::RequestError;
use crate::pacer::Pacer;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Delay before a stream is reopened, unless the server sets one, and the upper limit of either.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
/// Attempts in a row to resume a stream that yields no new events.
const RETRIES: u32 = 5;

enum OpenStreamError {
    /// The server responded without an event stream.
    Refused(Response),
    Unreachable,
}

/// Sends one message and handles the response. When this returns, a request has been completed,
/// either with a response or with an error.
pub(super) async fn exchange<T: MessageSink>(
    remote: &Arc<HttpConnection<T>>,
    sent: &OutboundMessage,
) {
    if remote.way.uses_sse() {
        return sse_transport::exchange(remote, sent).await;
    }
    let response = match post(remote, sent, &remote.way.url).await {
        Ok(response) => response,
        Err(error) => return remote.fail(sent, failure::connect_error(error)).await,
    };
    let status = response.status();
    if !status.is_success() {
        if sent.method == "initialize" && remote.way.falls_back_on(status) {
            return sse_transport::fall_back(remote, sent, response).await;
        }
        return remote.handle_rejection(sent, response, Delivery::No).await;
    }
    if sent.method == "initialize" {
        let mut session = remote.session.lock();
        session.id = response.headers().get(SESSION_ID).cloned();
    }
    if sent.id.is_none() {
        return;
    }
    if media_type(&response) == EVENT_STREAM {
        return follow(remote, sent, response).await;
    }
    match read(response, remote.intake.clone()).await {
        Ok(Body::Whole(text)) => take_body(remote, sent, &text, status).await,
        Ok(Body::TooLong { length, .. }) => {
            remote.answer(sent, Err(RequestError::Oversized(length))).await;
        }
        Err(error) => {
            let what = failure::root_cause_without_url(error);
            let message = format!("response interrupted: {what}");
            remote.fail(sent, HttpTransportError::Broken.error(&message)).await;
        }
    }
}

/// Handles a body that should be the response, or a batch that contains it.
async fn take_body<T: MessageSink>(
    remote: &HttpConnection<T>,
    sent: &OutboundMessage,
    text: &Bytes,
    status: StatusCode,
) {
    match serde_json::from_slice::<Vec<&RawValue>>(text) {
        Ok(batch) => {
            for message in batch {
                remote.take(&text.slice_ref(message.get().as_bytes()), Some(sent)).await;
            }
        }
        Err(_) => remote.take(text, Some(sent)).await,
    }
    if remote.is_waiting(sent) {
        let error = failure::status(status, &HeaderMap::new(), text, &remote.secrets());
        remote.fail(sent, error).await;
    }
}

/// Reads an event stream until the request is answered. A legacy stream that ends early is
/// resumed after its last event.
async fn follow<T: MessageSink>(
    remote: &HttpConnection<T>,
    sent: &OutboundMessage,
    mut response: Response,
) {
    let mut events = SseParser::new(remote.intake.max_message_bytes);
    let mut retries = 0;
    let mut pacer = Pacer::per_minute(remote.intake.reconnects.per_minute);
    loop {
        let why = match remote.read_events(Some(sent), response, &mut events).await {
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
                return remote.fail(sent, HttpTransportError::Broken.error(&message)).await;
            };
            wait_to_reopen(remote, events.retry().unwrap_or(PAUSE).min(LONGEST_PAUSE), &mut pacer)
                .await;
            match open_stream(remote, Some(id)).await {
                Ok(stream) => break stream,
                Err(OpenStreamError::Refused(response)) => {
                    return remote.handle_rejection(sent, response, Delivery::Yes).await;
                }
                Err(OpenStreamError::Unreachable) => {}
            }
        };
        events.reconnect();
    }
}

/// Receives server messages on a separate stream, until the server declines one.
pub(super) async fn listen<T: MessageSink>(remote: &HttpConnection<T>) {
    let mut events = SseParser::new(remote.intake.max_message_bytes);
    let (mut pause, mut was_open) = (PAUSE, false);
    let mut pacer = Pacer::per_minute(remote.intake.reconnects.per_minute);
    loop {
        match open_stream(remote, events.last_id()).await {
            Ok(response) => {
                was_open = true;
                events.reconnect();
                let end = remote.read_events(None, response, &mut events).await;
                if matches!(end, StreamEnd::Early { is_fruitful: true, .. }) {
                    pause = PAUSE;
                }
            }
            Err(OpenStreamError::Refused(response)) => {
                let status = response.status();
                tracing::debug!(server = remote.label, %status, "the server offers no event \
                                                               stream");
                let body = read_error(response).await;
                // A required token is gone: the next session begins with a new one.
                let is_rejected =
                    status == StatusCode::UNAUTHORIZED && remote.credentials.is_token_required();
                let is_lost = status == StatusCode::NOT_FOUND
                    || is_rejected
                    || loss(&remote.session.lock(), status, &body) != SessionLoss::No;
                if was_open && is_lost {
                    remote.lose_session();
                }
                return;
            }
            Err(OpenStreamError::Unreachable) => {}
        }
        let wanted = events.retry().unwrap_or(pause).max(pause).min(LONGEST_PAUSE);
        wait_to_reopen(remote, wanted, &mut pacer).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Waits before a stream is reopened: as long as `wanted`, or longer if the stream was reopened
/// too often.
async fn wait_to_reopen<T: MessageSink>(
    remote: &HttpConnection<T>,
    wanted: Duration,
    pacer: &mut Pacer,
) {
    let wait = pacer.count(Instant::now());
    if wait > wanted {
        tracing::debug!(
            server = remote.label,
            "the server closes its event streams too often; they are reopened at most {} times \
             per minute (limits.perServer.reconnectsPerMinute)",
            remote.intake.reconnects.per_minute
        );
        if let Some(hook) = &remote.intake.reconnects.on_reached {
            hook();
        }
    }
    sleep(wait.max(wanted)).await;
}

/// Opens an event stream of the session, resuming after the event `last_id`.
async fn open_stream<T: MessageSink>(
    remote: &HttpConnection<T>,
    last_id: Option<&str>,
) -> Result<Response, OpenStreamError> {
    let mut headers = remote.session_headers(EVENT_STREAM);
    let last_id = last_id.and_then(|id| HeaderValue::from_str(id).ok());
    headers.extend(last_id.map(|id| (LAST_EVENT_ID, id)));
    match remote.send(Method::GET, headers).await {
        Ok(response) if is_stream(&response) => Ok(response),
        Ok(response) => Err(OpenStreamError::Refused(response)),
        Err(error) => {
            let why = failure::root_cause_without_url(error);
            tracing::debug!(server = remote.label, why, "failed to open an event stream");
            Err(OpenStreamError::Unreachable)
        }
    }
}

pub(super) async fn delete_session<T: MessageSink>(remote: &HttpConnection<T>) {
    let Session { id, is_lost, .. } = remote.session.lock().clone();
    if id.is_none() || is_lost {
        return;
    }
    let headers = remote.session_headers("application/json");
    // Not every server supports DELETE.
    let _ = remote.send(Method::DELETE, headers).await;
}
