//! What those ask who look after us: whether we are alive (`/health`), and whether agents can be
//! served (`/ready`).

use bytes::Bytes;
use hyper::StatusCode;

use crate::frontend::http::response::{self, Reply};

/// We are, or nobody would say so.
pub(crate) async fn alive() -> Reply {
    response::message(StatusCode::OK, Bytes::from_static(br#"{"status":"alive"}"#))
}

/// Whether agents can be served.
pub(crate) async fn ready() -> Reply {
    response::message(StatusCode::OK, Bytes::from_static(br#"{"status":"ready"}"#))
}
