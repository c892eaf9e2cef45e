//! The OAuth redirect endpoint of sign-ins at servers, for browsers on other machines as well.
//!
//! Browsers have no token of the workbench. A request needs the `state` of a sign-in in progress,
//! which is unguessable and can be used once.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use hyper::header::{ALLOW, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, StatusCode};
use url::Url;

use crate::response::{self, HttpResponse};
use crate::server::HttpServer;
use mcp_workbench_core::gateway::{PAGE_HEADERS, SignedInPage};
use mcp_workbench_core::telemetry::{AccessDenial, AccessDenialReason};

pub(crate) async fn complete_sign_in(
    State(server): State<Arc<HttpServer>>,
    head: Parts,
) -> HttpResponse {
    if let Err(denial) = server.identity.check_origin(&head) {
        return server.deny(&head, denial.reply()).await;
    }
    if head.method != Method::GET {
        // A `HEAD` request, such as a scanner's, must not use up the sign-in.
        let mut reply = response::empty(StatusCode::METHOD_NOT_ALLOWED);
        reply.headers_mut().insert(ALLOW, HeaderValue::from_static("GET"));
        return reply;
    }
    // The sign-in uses nothing but the query and the end of the path.
    let (path, query) = (head.uri.path(), head.uri.query().unwrap_or_default());
    let page = match Url::parse(&format!("http://localhost{path}?{query}")) {
        Ok(address) => Box::pin(server.app.gateways.complete_sign_in(&address)).await,
        Err(_) => SignedInPage::no_pending_login(),
    };
    let mut reply = response::empty(StatusCode::from_u16(page.status).unwrap_or_default());
    if page == SignedInPage::no_pending_login() {
        let reason = AccessDenialReason::UnknownSignIn;
        reply.extensions_mut().insert(AccessDenial { agent: None, reason });
    }
    *reply.body_mut() = Body::from(page.html);
    for (name, value) in PAGE_HEADERS {
        reply.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    server.deny(&head, reply).await
}
