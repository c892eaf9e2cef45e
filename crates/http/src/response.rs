//! HTTP responses and errors.

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
    ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HeaderName, HeaderValue, REFERRER_POLICY,
    RETRY_AFTER, X_CONTENT_TYPE_OPTIONS,
};
use tokio::sync::mpsc;

use mcp_workbench_core::telemetry::AccessDenial;
use mcp_workbench_wire::code::{INVALID_REQUEST, UNAVAILABLE};
use mcp_workbench_wire::incoming::error_object;
use mcp_workbench_wire::json::{self, RawJson};

pub(crate) const JSON: &str = "application/json";
pub(crate) const EVENT_STREAM: &str = "text/event-stream";

/// `Retry-After` of 503 responses, in seconds.
const SOON: &str = "2";

pub(crate) type HttpResponse = Response;

struct EventStreamBody(mpsc::Receiver<Bytes>);

impl hyper::body::Body for EventStreamBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|event| event.map(|event| Ok(Frame::data(event))))
    }
}

#[derive(Debug)]
pub(crate) struct HttpError {
    pub(crate) status: StatusCode,
    /// Sent as `Retry-After`, rounded up.
    pub(crate) retry_after: Option<Duration>,
    pub(crate) error: RawJson,
    /// The id of a request that was rejected when it was parsed.
    pub(crate) id: Option<Box<RawJson>>,
}

impl HttpError {
    pub(crate) fn new(status: StatusCode, code: i64, message: &str) -> Self {
        Self { status, retry_after: None, error: error_object(code, message, None), id: None }
    }

    /// A 503 for temporary overload or shutdown.
    pub(crate) fn unavailable(message: &str) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, UNAVAILABLE, message)
    }

    /// A 429 that allows a retry after `wait`.
    pub(crate) fn too_many_requests(message: &str, wait: Duration) -> Self {
        let refusal = Self::new(StatusCode::TOO_MANY_REQUESTS, UNAVAILABLE, message);
        Self { retry_after: Some(wait), ..refusal }
    }

    /// Turns the error into a response to the request `id`.
    pub(crate) fn into_response(self, id: Option<&RawJson>) -> HttpResponse {
        let version = RawJson::encode(&"2.0");
        let id = id.or(self.id.as_deref()).map(|id| ("id", id));
        let members = [("jsonrpc", &version)].into_iter().chain(id);
        let text = json::object(members.chain([("error", &self.error)]));
        let mut reply = json(self.status, text.into_bytes());
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
                // A load balancer may route the next connection to another replica.
                headers.insert(CONNECTION, HeaderValue::from_static("close"));
            }
            _ => {}
        }
        reply
    }
}

/// A rejected request that is reported as an access denial.
pub(crate) struct AccessDenied {
    pub(crate) refusal: HttpError,
    pub(crate) denied: AccessDenial,
}

impl AccessDenied {
    /// Turns it into a response. The extension carries the denial, which the endpoint reports.
    pub(crate) fn reply(self) -> HttpResponse {
        let mut reply = self.refusal.into_response(None);
        reply.extensions_mut().insert(self.denied);
        reply
    }
}

pub(crate) fn bad_request(code: i64, message: &str) -> HttpError {
    HttpError::new(StatusCode::BAD_REQUEST, code, message)
}

pub(crate) fn json(status: StatusCode, text: Bytes) -> HttpResponse {
    reply(status, Body::from(text), &[(CONTENT_TYPE, JSON)])
}

pub(crate) fn metrics(text: String) -> HttpResponse {
    let form = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    reply(StatusCode::OK, Body::from(text), &[(CONTENT_TYPE, form)])
}

pub(crate) fn empty(status: StatusCode) -> HttpResponse {
    reply(status, Body::empty(), &[])
}

/// A response that streams server-sent events. `X-Accel-Buffering` keeps proxies from buffering it.
pub(crate) fn event_stream(events: mpsc::Receiver<Bytes>) -> HttpResponse {
    let buffering = HeaderName::from_static("x-accel-buffering");
    let headers = [
        (CONTENT_TYPE, EVENT_STREAM),
        (CACHE_CONTROL, "no-cache, no-transform"),
        (buffering, "no"),
    ];
    reply(StatusCode::OK, Body::new(EventStreamBody(events)), &headers)
}

fn reply(status: StatusCode, body: Body, headers: &[(HeaderName, &'static str)]) -> HttpResponse {
    let mut reply = Response::new(body);
    *reply.status_mut() = status;
    for (name, value) in headers {
        reply.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    reply
}

pub(crate) async fn not_found() -> HttpResponse {
    let message =
        "not found: /mcp serves all toolboxes, /mcp/<toolbox> one toolbox, and / the dashboard";
    HttpError::new(StatusCode::NOT_FOUND, INVALID_REQUEST, message).into_response(None)
}

/// Sets headers against content sniffing, embedding by other origins, and caching.
pub(crate) fn with_private_headers(mut reply: HttpResponse) -> HttpResponse {
    let headers = reply.headers_mut();
    for (name, value) in [
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    reply
}
