//! JSON-RPC connections to agents and servers, over streams and HTTP.
//!
//! [`peer`] is one connection, [`incoming`] and [`outgoing`] its two directions; [`agent`] and
//! [`server`] connect it to two streams, [`http_client`] to HTTP requests. Each line is scanned once,
//! and the contents of a message stay raw JSON. This module limits message sizes, keeps progress in
//! order, detects the end of input first, and drops responses without a pending request. `frontend`
//! and `backend` interpret the messages.

pub mod agent;
pub mod cancellation;
pub mod code;
mod envelope;
#[cfg(test)]
mod fuzzing;
pub mod http_client;
pub mod incoming;
pub mod json;
pub mod line;
pub mod mailbox;
pub mod memory_pool;
pub mod offload;
pub mod outgoing;
pub mod pacer;
pub mod peer;
#[cfg(test)]
mod properties;
pub mod server;
pub mod stdio;
pub mod writer;

pub use crate::envelope::{JsonRpcMessage, MessageParseError, RpcOutcome, UNREADABLE_NAME};
pub use crate::writer::ConnectionClosed;
