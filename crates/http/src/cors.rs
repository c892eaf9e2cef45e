//! CORS for pages whose origin the configuration allows. Other pages get no CORS headers, so
//! browsers withhold responses from them.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use hyper::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, HeaderName, HeaderValue, ORIGIN, VARY,
};
use hyper::{Method, StatusCode};

use crate::origin;
use crate::response::{self, HttpResponse};
use crate::server::HttpServer;

/// Readable by pages in addition to the headers that are always exposed.
const EXPOSED: &str = "Mcp-Session-Id, WWW-Authenticate, Retry-After";
const METHODS: &str = "GET, POST, DELETE";
/// In seconds.
const MAX_AGE: &str = "7200";

const WANTS_LOCAL: HeaderName = HeaderName::from_static("access-control-request-private-network");
const ALLOWS_LOCAL: HeaderName = HeaderName::from_static("access-control-allow-private-network");

/// Answers preflight requests and adds CORS headers to other responses.
pub(crate) async fn allow(
    State(server): State<Arc<HttpServer>>,
    request: Request,
    next: Next,
) -> HttpResponse {
    let headers = request.headers();
    let origin = headers
        .get(ORIGIN)
        .filter(|origin| origin::is_allowed_origin(origin, &server.app.gateways.config().http));
    let Some(origin) = origin.cloned() else { return next.run(request).await };
    let asks =
        request.method() == Method::OPTIONS && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD);
    let mut reply = if asks {
        let wanted = headers.get(ACCESS_CONTROL_REQUEST_HEADERS).cloned();
        let is_local = headers.contains_key(WANTS_LOCAL);
        let mut reply = response::empty(StatusCode::NO_CONTENT);
        let told = reply.headers_mut();
        told.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(METHODS));
        told.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(MAX_AGE));
        told.extend(wanted.map(|wanted| (ACCESS_CONTROL_ALLOW_HEADERS, wanted)));
        if is_local {
            told.insert(ALLOWS_LOCAL, HeaderValue::from_static("true"));
        }
        reply
    } else {
        next.run(request).await
    };
    let told = reply.headers_mut();
    told.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    told.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED));
    told.append(VARY, HeaderValue::from_static("Origin"));
    reply
}
