//! Responses over HTTP: bodies, statuses, and the words of a refusal.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use hyper::StatusCode;
use hyper::body::Frame;
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER,
};
use tokio::sync::mpsc;

use crate::observe::DeniedAccess;
use crate::raw::{self, Raw};
use crate::wire::code::UNAVAILABLE;
use crate::wire::incoming::error_object;

/// The type of a body that is one message.
pub(crate) const JSON: &str = "application/json";
/// The type of a body that is a stream of messages.
pub(crate) const EVENTS: &str = "text/event-stream";

/// How soon whoever is refused for now may try again, in seconds.
const SOON: &str = "2";

/// An answer over HTTP.
pub(crate) type Reply = Response;

/// A stream of events, which ends when its sender does.
struct Events(mpsc::Receiver<Bytes>);

impl hyper::body::Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|event| event.map(|event| Ok(Frame::data(event))))
    }
}

/// Why a request is not taken.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// The status that says so.
    pub(crate) status: StatusCode,
    /// How soon it may be tried again, where that is known.
    pub(crate) retry_after: Option<Duration>,
    /// The refusal in the words of JSON-RPC.
    pub(crate) error: Raw,
}

impl Refusal {
    pub(crate) fn new(status: StatusCode, code: i64, message: &str) -> Self {
        Self { status, retry_after: None, error: error_object(code, message, None) }
    }

    /// One of what may be taken a little later, or by somebody else.
    pub(crate) fn for_now(message: &str) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, UNAVAILABLE, message)
    }

    /// One of what was tried too often, and may be tried again after `wait`.
    pub(crate) fn too_often(message: &str, wait: Duration) -> Self {
        let refusal = Self::new(StatusCode::TOO_MANY_REQUESTS, UNAVAILABLE, message);
        Self { retry_after: Some(wait), ..refusal }
    }

    /// The refusal as the answer to the request called `id`, if there is one.
    pub(crate) fn reply(self, id: Option<&Raw>) -> Reply {
        let version = Raw::encode(&"2.0");
        let id = id.map(|id| ("id", id));
        let members = [("jsonrpc", &version)].into_iter().chain(id);
        let text = raw::object(members.chain([("error", &self.error)]));
        let mut reply = message(self.status, text.into_bytes());
        let headers = reply.headers_mut();
        if let Some(wait) = self.retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from(wait.as_secs() + 1));
        }
        match self.status {
            StatusCode::METHOD_NOT_ALLOWED => {
                headers.insert(ALLOW, HeaderValue::from_static("GET, POST, DELETE"));
            }
            StatusCode::SERVICE_UNAVAILABLE => {
                headers.insert(RETRY_AFTER, HeaderValue::from_static(SOON));
                // Another server may be there next time.
                headers.insert(CONNECTION, HeaderValue::from_static("close"));
            }
            _ => {}
        }
        reply
    }
}

/// A refusal that denies access.
pub(crate) struct Denial {
    /// The refusal.
    pub(crate) refusal: Refusal,
    /// Who is denied access, and why.
    pub(crate) denied: DeniedAccess,
}

impl Denial {
    /// The denial as an answer, which is marked with who is denied access, and why.
    pub(crate) fn reply(self) -> Reply {
        let mut reply = self.refusal.reply(None);
        reply.extensions_mut().insert(self.denied);
        reply
    }
}

/// A refusal with status 400.
pub(crate) fn bad_request(code: i64, message: &str) -> Refusal {
    Refusal::new(StatusCode::BAD_REQUEST, code, message)
}

/// One message as the whole body.
pub(crate) fn message(status: StatusCode, text: Bytes) -> Reply {
    reply(status, Body::from(text), &[(CONTENT_TYPE, JSON)])
}

/// Metrics in the text format of Prometheus.
pub(crate) fn metrics(text: String) -> Reply {
    let form = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    reply(StatusCode::OK, Body::from(text), &[(CONTENT_TYPE, form)])
}

/// No body at all.
pub(crate) fn empty(status: StatusCode) -> Reply {
    reply(status, Body::empty(), &[])
}

/// A stream of events.
pub(crate) fn events(events: mpsc::Receiver<Bytes>) -> Reply {
    let buffering = HeaderName::from_static("x-accel-buffering");
    let headers =
        [(CONTENT_TYPE, EVENTS), (CACHE_CONTROL, "no-cache, no-transform"), (buffering, "no")];
    reply(StatusCode::OK, Body::new(Events(events)), &headers)
}

fn reply(status: StatusCode, body: Body, headers: &[(HeaderName, &'static str)]) -> Reply {
    let mut reply = Response::new(body);
    *reply.status_mut() = status;
    for (name, value) in headers {
        reply.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    reply
}
