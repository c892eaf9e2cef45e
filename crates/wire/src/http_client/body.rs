//! Reads the bodies of responses, within limits.

use bytes::{Bytes, BytesMut};
use reqwest::header::CONTENT_TYPE;
use reqwest::{Response, StatusCode};

use crate::memory_pool::{self, ReadLimits};

pub(super) const EVENT_STREAM: &str = "text/event-stream";
/// Bytes read of the body of an error response.
const MAX_ERROR: usize = 256 * 1024;

/// Reads the beginning of an error body. Returns the response with it, and the body.
pub(super) async fn buffered(response: Response) -> (Response, Bytes) {
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
