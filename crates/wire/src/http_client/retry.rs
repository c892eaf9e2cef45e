//! Retries of messages that a server over HTTP has certainly not accepted.
//!
//! That is certain if the connection failed, or if the server sent `Retry-After` with 429 or 503.
//! Calls thereby survive the restart of a server. Everything else may have been executed and is
//! never retried.

use std::time::Duration;

use reqwest::header::RETRY_AFTER;
use reqwest::{Method, Response, StatusCode, Url};
use tokio::time::sleep;

use crate::http_client::connection::HttpConnection;
use crate::http_client::outbound_message::OutboundMessage;
use crate::http_client::sink::MessageSink;

/// Delays before the retries of a failed connect.
const CONNECT_BACKOFF: [Duration; 4] = [
    Duration::from_millis(200),
    Duration::from_millis(400),
    Duration::from_millis(800),
    Duration::from_millis(1600),
];
/// Retries of a message because of `Retry-After`, and the longest delay that is honored, since the
/// caller is waiting.
const MAX_RETRY_AFTER_ATTEMPTS: u32 = 2;
const MAX_RETRY_AFTER: Duration = Duration::from_secs(5);

/// Posts one message and retries it while it is certainly undelivered.
pub(super) async fn post<T: MessageSink>(
    remote: &HttpConnection<T>,
    sent: &OutboundMessage,
    url: &Url,
) -> reqwest::Result<Response> {
    // The handshake isn't retried: other servers of the toolbox wait for it.
    let is_patient = sent.id.is_some() && !sent.is_handshake() && remote.to.retries_undelivered();
    let (mut pauses, mut later) = (CONNECT_BACKOFF.iter().copied(), 0);
    loop {
        let (headers, body) = (remote.headers_of(sent), Some(sent.body.clone()));
        let answer = remote.send_to(url, Method::POST, headers, body).await;
        let pause = match &answer {
            Err(error) if error.is_connect() => pauses.next(),
            Ok(response) if later < MAX_RETRY_AFTER_ATTEMPTS => {
                later += 1;
                retry_after(response)
            }
            Ok(_) | Err(_) => None,
        };
        let Some(pause) = pause.filter(|_| is_patient) else { return answer };
        tracing::debug!(server = remote.label, ?pause, "message undelivered, retrying");
        remote.note_untaken(sent, true);
        sleep(pause).await;
        remote.note_untaken(sent, false);
    }
}

/// Returns the delay of `Retry-After` (RFC 9110 §10.2.3) on a 429 or 503 response. `None` if it is
/// missing or too long to wait for.
fn retry_after(response: &Response) -> Option<Duration> {
    let is_refused = matches!(
        response.status(),
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE
    );
    let value = response.headers().get(RETRY_AFTER).filter(|_| is_refused)?;
    let wish = Duration::from_secs(value.to_str().ok()?.trim().parse().ok()?);
    (wish <= MAX_RETRY_AFTER).then_some(wish)
}

#[cfg(test)]
mod tests;
