//! Routes of the admin page in `serve --http`.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::routing::{get, post};
use hyper::StatusCode;
use hyper::http::request::Parts;

use crate::admin_page::assets;
use crate::admin_page::request::{self, PageRequest};
use crate::auth::AdminAccess;
use crate::endpoint::read;
use crate::response::{self, AccessDenied, HttpError, HttpResponse, with_private_headers};
use crate::server::HttpServer;
use mcp_workbench_core::gateway::Caller;
use mcp_workbench_core::telemetry::{AccessDenial, AccessDenialReason};
use mcp_workbench_wire::code::INVALID_REQUEST;

pub(crate) fn add(router: Router<Arc<HttpServer>>) -> Router<Arc<HttpServer>> {
    router
        // A POST to `/` was probably meant for `/mcp`: the 404 response says so.
        .route("/", get(page).fallback(response::not_found))
        .route("/page/events", get(events))
        .route("/page/ask", post(ask))
        .route("/page/{asset}", get(file))
}

async fn page(state: State<Arc<HttpServer>>, head: Parts) -> HttpResponse {
    give(&state, &head, assets::PAGE).await
}

async fn file(
    state: State<Arc<HttpServer>>,
    Path(name): Path<String>,
    head: Parts,
) -> HttpResponse {
    give(&state, &head, &name).await
}

async fn give(server: &HttpServer, head: &Parts, name: &str) -> HttpResponse {
    if let Err(denial) = server.identity.check_origin(head) {
        return server.deny(head, denial.reply()).await;
    }
    match assets::answer(name, &head.headers) {
        Some(reply) => reply,
        None => response::not_found().await,
    }
}

async fn events(State(server): State<Arc<HttpServer>>, mut head: Parts) -> HttpResponse {
    match server.identity.admin_access(&mut head).await {
        Ok(AdminAccess { level, lifetime, .. }) => {
            let quota = server.quota(&head, &Caller::default());
            let most = server.app.gateways.config().limits.per_caller.max_viewers;
            lifetime.limit_response(server.page.events(level, &quota, most))
        }
        Err(reply) => with_private_headers(server.deny(&head, reply).await),
    }
}

async fn ask(State(server): State<Arc<HttpServer>>, request: Request) -> HttpResponse {
    let (mut head, body) = request.into_parts();
    let access = match server.identity.admin_access(&mut head).await {
        Ok(access) => access,
        Err(reply) => return with_private_headers(server.deny(&head, reply).await),
    };
    let quota = server.quota(&head, &Caller::default());
    let config = server.app.gateways.config();
    let asked = match request::check(&head) {
        Ok(()) => read(body, &quota, &config).await.and_then(|body| PageRequest::read(&body)),
        Err(refusal) => Err(refusal),
    };
    let asked = match asked {
        Ok(asked) => asked,
        Err(refusal) => return with_private_headers(refusal.into_response(None)),
    };
    if access.level < asked.required_access() {
        let message = "operator token required: create one with `mcp-workbench token --operator \
                       <name>` and add its entry to `auth.operators` in the configuration";
        let refusal = HttpError::new(StatusCode::FORBIDDEN, INVALID_REQUEST, message);
        let denied = AccessDenial { agent: None, reason: AccessDenialReason::NotOperator };
        let reply = AccessDenied { refusal, denied }.reply();
        return with_private_headers(server.deny(&head, reply).await);
    }
    server.page.answer(asked, access.operator).await
}
