//! Monitoring endpoints: liveness, readiness and Prometheus metrics.

use std::sync::Arc;

use axum::extract::{Request, State};
use bytes::Bytes;
use hyper::StatusCode;
use hyper::http::request::Parts;
use serde_json::{Value, json};

use crate::response::{self, HttpResponse};
use crate::server::HttpServer;
use mcp_workbench_core::gateway::UnreadyServer;

pub(crate) async fn liveness() -> HttpResponse {
    response::json(StatusCode::OK, Bytes::from_static(br#"{"status":"alive"}"#))
}

/// Names of servers are shown only to callers that may read metrics.
pub(crate) async fn readiness(
    State(server): State<Arc<HttpServer>>,
    mut head: Parts,
) -> HttpResponse {
    if server.under_way.is_draining() {
        return not_ready(&json!({ "status": "draining" }));
    }
    let down = server.app.gateways.unready_servers();
    if down.is_empty() {
        return response::json(StatusCode::OK, Bytes::from_static(br#"{"status":"ready"}"#));
    }
    let mut why = json!({ "status": "starting" });
    if server.identity.authorize_metrics(&mut head).await.is_ok() {
        why["servers"] = down.iter().map(unready_to_json).collect();
    }
    not_ready(&why)
}

fn unready_to_json(UnreadyServer { at, has_failed }: &UnreadyServer) -> Value {
    let state = if *has_failed { "failed" } else { "starting" };
    json!({ "toolbox": at.toolbox.as_str(), "server": at.server.as_str(), "state": state })
}

fn not_ready(why: &Value) -> HttpResponse {
    response::json(StatusCode::SERVICE_UNAVAILABLE, why.to_string().into())
}

pub(crate) async fn metrics(
    State(server): State<Arc<HttpServer>>,
    request: Request,
) -> HttpResponse {
    let (mut head, _) = request.into_parts();
    match server.identity.authorize_metrics(&mut head).await {
        Ok(()) => {
            server.app.gateways.quotas().count_bytes();
            response::metrics(server.app.gateways.observer().render())
        }
        Err(reply) => server.deny(&head, reply).await,
    }
}
