//! The transport before streamable HTTP: HTTP with SSE (2024-11-05, basic/transports).
//!
//! *Theory of operation.* A GET opens an event stream. Its first event names the endpoint for
//! messages. Responses arrive on that stream, so the stream lasts as long as the connection: when
//! it ends, the session ends, and pending requests may have been executed. The endpoint must have
//! the server's origin, because the headers with credentials are sent there. It is checked once and
//! never changes. With [`TransportMode::StreamableThenSse`](super::TransportMode::StreamableThenSse), this transport is tried if the server
//! rejects the first message of streamable HTTP with a status that servers without it use.

use std::sync::Arc;
use std::time::Duration;

use reqwest::header::CONTENT_TYPE;
use reqwest::{Method, Response, Url};
use tokio::time::timeout;

use crate::envelope::JsonRpcMessage;
use crate::http_client::body::{Body, EVENT_STREAM, is_stream, read, read_error};
use crate::http_client::connection::{Delivery, HttpConnection, accepting};
use crate::http_client::failure::{self, HttpTransportError};
use crate::http_client::outbound_message::OutboundMessage;
use crate::http_client::retry::post;
use crate::http_client::sink::MessageSink;
use crate::http_client::sse::{SseEvent, SseParser};
use crate::json::RawJson;
use crate::server::DisconnectReason;

/// Timeout until the server names its endpoint.
const ENDPOINT: Duration = Duration::from_secs(10);
/// The same timeout while it is unknown whether the server supports this transport.
const PROBE: Duration = Duration::from_secs(3);
/// Timeout of reading the body of a POST response, which should be empty.
const BODY: Duration = Duration::from_secs(10);

struct Stream {
    response: Response,
    events: SseParser,
    endpoint: Url,
}

struct OpenSseError {
    error: RawJson,
    /// `true` if the error says more than that this URL doesn't support HTTP with SSE.
    is_telling: bool,
}

impl OpenSseError {
    fn new(message: &str) -> Self {
        Self { error: HttpTransportError::Broken.error(message), is_telling: false }
    }
}

/// Sends one message. The response may be in the body, or arrive on the event stream later.
pub(super) async fn exchange<T: MessageSink>(
    remote: &Arc<HttpConnection<T>>,
    sent: &OutboundMessage,
) {
    let opened = remote.way.endpoint.get_or_try_init(|| start_sse(remote, ENDPOINT));
    let endpoint = match opened.await {
        Ok(endpoint) => endpoint,
        Err(unopened) => return remote.fail(sent, unopened.error).await,
    };
    let response = match post(remote, sent, endpoint).await {
        Ok(response) => response,
        Err(error) => return remote.fail(sent, failure::connect_error(error)).await,
    };
    if !response.status().is_success() {
        return remote.handle_rejection(sent, response, Delivery::No).await;
    }
    let body = timeout(BODY, read(response, remote.intake.clone())).await;
    // The body should be empty, but some servers put the response there.
    let Ok(Ok(Body::Whole(text))) = body else { return };
    if let Ok(JsonRpcMessage::Response { id, .. }) = JsonRpcMessage::parse_envelope(&text)
        && sent.id.as_ref() == Some(&id)
    {
        remote.take(&text, Some(sent)).await;
    }
}

/// Sends the first message with HTTP with SSE. If the server doesn't support that either,
/// reports the original rejection.
pub(super) async fn fall_back<T: MessageSink>(
    remote: &Arc<HttpConnection<T>>,
    sent: &OutboundMessage,
    refusal: Response,
) {
    let opened = remote.way.endpoint.get_or_try_init(|| start_sse(remote, PROBE));
    match opened.await.map(|_| ()) {
        Ok(()) => {
            tracing::debug!(server = remote.label, "the server uses HTTP with SSE");
            Box::pin(exchange(remote, sent)).await;
        }
        Err(OpenSseError { error, is_telling: true }) => remote.fail(sent, error).await,
        Err(OpenSseError { error, .. }) => {
            tracing::debug!(
                server = remote.label,
                ?error,
                "the server does not support HTTP with SSE either"
            );
            remote.handle_rejection(sent, refusal, Delivery::No).await;
        }
    }
}

/// Opens the event stream, starts reading it, and returns the endpoint.
async fn start_sse<T: MessageSink>(
    remote: &Arc<HttpConnection<T>>,
    patience: Duration,
) -> Result<Url, OpenSseError> {
    let opened = timeout(patience, open_sse(remote));
    let Stream { response, mut events, endpoint } = opened.await.unwrap_or_else(|_| {
        let limit = patience.as_secs();
        let message = format!("the server sent no `endpoint` event within {limit} s");
        Err(OpenSseError::new(&message))
    })?;
    remote.to.mark_sse();
    let reading = Arc::clone(remote);
    remote.spawn(async move {
        while let Some(event) = events.next() {
            reading.take_event(event, None).await;
        }
        // The stream carries the responses of all requests, so no single response ends it.
        reading.read_events(None, response, &mut events).await;
        tracing::debug!(server = reading.label, "the event stream ended");
        reading.fail_undelivered().await;
        reading.to.session_lost(DisconnectReason::Connection);
    });
    Ok(endpoint)
}

async fn open_sse<T: MessageSink>(remote: &HttpConnection<T>) -> Result<Stream, OpenSseError> {
    let broken = |error| OpenSseError { error: failure::connect_error(error), is_telling: false };
    let opened = remote.send(Method::GET, accepting(EVENT_STREAM)).await;
    let mut response = opened.map_err(broken)?;
    let status = response.status();
    if !status.is_success() {
        let headers = response.headers().clone();
        let body = read_error(response).await;
        let error = failure::status(status, &headers, &body, &remote.secrets());
        let is_telling = matches!(status.as_u16(), 401 | 403 | 410);
        return Err(OpenSseError { error, is_telling });
    }
    if !is_stream(&response) {
        let kind = response.headers().get(CONTENT_TYPE).map(|kind| format!("{kind:?}"));
        let kind = kind.unwrap_or_else(|| "no content type".to_owned());
        let message = format!("the server returned {kind} instead of an event stream");
        return Err(OpenSseError::new(&message));
    }
    let at = response.url().clone();
    let mut events = SseParser::new(remote.intake.max_message_bytes);
    let mut charge = remote.intake.account.charge();
    loop {
        let chunk = response
            .chunk()
            .await
            .map_err(broken)?
            .ok_or_else(|| OpenSseError::new("the stream ended without an `endpoint` event"))?;
        charge.grow(events.held() + chunk.len()).await;
        events.read(&chunk);
        while let Some(event) = events.next() {
            match event {
                SseEvent::Other { name, data } if name == "endpoint" => {
                    let endpoint = checked_endpoint(remote, &at, &data)?;
                    return Ok(Stream { response, events, endpoint });
                }
                // No session exists yet that this event could belong to.
                _ => tracing::debug!(server = remote.label, "ignored an event before `endpoint`"),
            }
        }
    }
}

/// Parses the endpoint named on the stream at `at`. Fails if it has another origin.
fn checked_endpoint<T: MessageSink>(
    remote: &HttpConnection<T>,
    at: &Url,
    data: &[u8],
) -> Result<Url, OpenSseError> {
    let said = str::from_utf8(data).unwrap_or_default().trim();
    let Ok(mut endpoint) = at.join(said) else {
        let message = "the server's `endpoint` event has an invalid URL";
        return Err(OpenSseError::new(message));
    };
    if endpoint.origin() != remote.way.url.origin() {
        let message = format!(
            "the server's `endpoint` event names another origin, `{}`, which is not allowed",
            endpoint.origin().ascii_serialization()
        );
        return Err(OpenSseError { is_telling: true, ..OpenSseError::new(&message) });
    }
    // The configured URL may hold credentials. The server must not replace them.
    let (user, password) = (remote.way.url.username(), remote.way.url.password());
    let is_ours = endpoint.set_username(user).is_ok() && endpoint.set_password(password).is_ok();
    debug_assert!(is_ours, "a URL of the same origin has a host");
    Ok(endpoint)
}

#[cfg(test)]
mod tests;
