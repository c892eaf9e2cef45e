//! The answers for those who look after us: `/health` says that we are alive, `/ready` if agents
//! can be served, and `/metrics` what has been done.

use std::sync::Arc;

use axum::extract::{Request, State};
use bytes::Bytes;
use hyper::StatusCode;
use hyper::http::request::Parts;
use serde_json::{Value, json};

use crate::frontend::http::Server;
use crate::frontend::http::response::{self, Reply};
use crate::gateway::Down;

/// We are, or nobody would say so.
pub(crate) async fn alive() -> Reply {
    response::message(StatusCode::OK, Bytes::from_static(br#"{"status":"alive"}"#))
}

/// Tells if agents can be served. The names of missing servers are for those alone who may see
/// figures.
pub(crate) async fn ready(State(server): State<Arc<Server>>, mut head: Parts) -> Reply {
    if server.under_way.is_leaving() {
        return not_ready(&json!({ "status": "draining" }));
    }
    let down = server.app.gateways.down();
    if down.is_empty() {
        return response::message(StatusCode::OK, Bytes::from_static(br#"{"status":"ready"}"#));
    }
    let mut why = json!({ "status": "starting" });
    if server.identity.may_see_figures(&mut head).await.is_ok() {
        why["servers"] = down.iter().map(said).collect();
    }
    not_ready(&why)
}

/// The entry for a server that is not up; the log has the rest.
fn said(Down { at, has_failed }: &Down) -> Value {
    let state = if *has_failed { "failed" } else { "starting" };
    json!({ "toolbox": at.toolbox.as_str(), "server": at.server.as_str(), "state": state })
}

fn not_ready(why: &Value) -> Reply {
    response::message(StatusCode::SERVICE_UNAVAILABLE, why.to_string().into())
}

/// Counts and times, for those who may ask anything at all.
pub(crate) async fn metrics(State(server): State<Arc<Server>>, request: Request) -> Reply {
    let (mut head, _) = request.into_parts();
    match server.identity.may_see_figures(&mut head).await {
        Ok(()) => {
            server.app.gateways.payers().count_bytes();
            response::metrics(server.app.gateways.observer().render())
        }
        Err(reply) => server.turn_away(&head, reply).await,
    }
}
