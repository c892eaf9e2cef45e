//! The wire: between bytes and messages, on the agents' side and on the servers' side alike.
//!
//! Every line is read once, and what is inside a message leaves it as raw JSON text. The wire
//! limits messages, keeps progress in order, notices the end of input first, and drops answers
//! that nobody waits for. [`peer`] is one connection, [`incoming`] and [`outgoing`] its two
//! directions; [`agent`] and [`server`] put a connection on two streams, [`remote`] puts one on
//! requests over HTTP. What the messages mean is decided by `frontend` and `backend`.

pub mod agent;
pub mod aside;
pub mod budget;
pub mod cancellation;
pub mod code;
mod envelope;
#[cfg(test)]
mod fuzzing;
pub mod incoming;
pub mod line;
pub mod mailbox;
pub mod outgoing;
pub mod peer;
#[cfg(test)]
mod properties;
pub mod queue;
pub mod remote;
pub mod server;
pub mod stdio;
pub mod writer;

pub use crate::wire::envelope::{Malformed, Message, Outcome};
pub use crate::wire::writer::Closed;
