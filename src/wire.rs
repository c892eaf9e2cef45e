//! The wire: between bytes and messages, on the agents' side and on the servers' side alike.
//!
//! Every line is read once. What belongs to the relay lane (calls and their answers) leaves it as
//! raw JSON text; everything else goes on to `rmcp` through the two transports here. The wire
//! bounds messages, keeps progress in order, notices the end of input first, and drops answers
//! that nobody waits for. What the messages mean is decided by `frontend` and `backend`.

pub mod agent;
mod envelope;
pub(crate) mod line;
#[cfg(test)]
mod properties;
pub mod server;
pub mod stdio;
mod writer;

pub use crate::wire::writer::Closed;
