//! The path at which browsers come back that have signed in at a server, from another machine as well.
//!
//! A browser has no token of ours. What it brings is of use with a `state` alone that nobody can guess, which
//! belongs to one sign-in that somebody waits for, and counts once.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use hyper::header::{ALLOW, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, StatusCode};
use url::Url;

use crate::frontend::http::Server;
use crate::frontend::http::response::{self, Reply};
use crate::gateway::{PAGE_HEADERS, SignedInPage};

/// Answers a browser that has come back.
pub(crate) async fn come_back(State(server): State<Arc<Server>>, head: Parts) -> Reply {
    if let Err(denial) = server.identity.may_come(&head) {
        return server.turn_away(&head, denial.reply()).await;
    }
    if head.method != Method::GET {
        // Whoever asks what is behind an address, as scanners do with `HEAD`, must not use it up.
        let mut reply = response::empty(StatusCode::METHOD_NOT_ALLOWED);
        reply.headers_mut().insert(ALLOW, HeaderValue::from_static("GET"));
        return reply;
    }
    // What is before the question mark leads here and says nothing else.
    let query = head.uri.query().unwrap_or_default();
    let page = match Url::parse(&format!("http://localhost/?{query}")) {
        Ok(address) => Box::pin(server.app.gateways.signed_in(&address)).await,
        Err(_) => SignedInPage::nobody_waits(),
    };
    let mut reply = response::empty(StatusCode::from_u16(page.status).unwrap_or_default());
    *reply.body_mut() = Body::from(page.html);
    for (name, value) in PAGE_HEADERS {
        reply.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    reply
}
