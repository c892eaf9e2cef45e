//! What those ask who look after us: whether we are alive (`/health`), whether agents can be
//! served (`/ready`), and what has been done (`/metrics`).

use std::sync::Arc;

use axum::extract::{Request, State};
use bytes::Bytes;
use hyper::StatusCode;
use serde_json::{Value, json};

use crate::frontend::http::response::{self, Reply};
use crate::frontend::http::{Server, identity};

/// We are, or nobody would say so.
pub(crate) async fn alive() -> Reply {
    response::message(StatusCode::OK, Bytes::from_static(br#"{"status":"alive"}"#))
}

/// Whether agents can be served.
pub(crate) async fn ready(State(server): State<Arc<Server>>) -> Reply {
    if server.under_way.is_ending() {
        return not_ready(&json!({ "status": "draining" }));
    }
    response::message(StatusCode::OK, Bytes::from_static(br#"{"status":"ready"}"#))
}

fn not_ready(why: &Value) -> Reply {
    response::message(StatusCode::SERVICE_UNAVAILABLE, why.to_string().into())
}

/// Counts and times, for those who may ask anything at all.
pub(crate) async fn metrics(State(server): State<Arc<Server>>, request: Request) -> Reply {
    let (head, _) = request.into_parts();
    match identity::caller(&head) {
        Ok(_) => response::metrics(server.host.gateways.observer().render()),
        Err(refusal) => refusal,
    }
}
