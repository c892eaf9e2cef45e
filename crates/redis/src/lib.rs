//! State shared by several workbenches through Redis or Valkey.
//!
//! [`RedisStore`] is a [`StateStore`](mcp_workbench_core::state::StateStore). A record is text under a key that
//! contains only a hash of its identity ([`key_names`]). Every read-modify-write step is a Lua
//! script on a single key ([`scripts`]), so the store works with a cluster. Expiry uses only the
//! server's clock.
//!
//! Callers never wait long for the store: each command has a timeout, and a command without a
//! response opens a circuit breaker ([`client`]). An in-memory store then serves all requests until
//! a background task has reconnected. Values from Redis are untrusted, and an unreadable value
//! counts as missing. With keys, every record is encrypted and authenticated ([`sealing`]). Without
//! keys, [`logins`], [`listings`] and remainders of results stay out of the store.

mod bounded_records;
mod client;
mod connection;
mod key_names;
mod listings;
mod logins;
mod probe;
mod scripts;
mod sealing;
mod sessions;
mod store;
mod target;

pub use crate::connection::StoreTimeouts;
pub use crate::probe::{ProbeReport, probe};
pub use crate::store::{RedisStore, RedisStoreOptions};
pub use crate::target::{RedisConfigError, RedisTarget};

#[cfg(test)]
mod tests;
