//! A store on Redis or Valkey, which several workbenches share.
//!
//! *Theory of operation.* [`Redis`] is a [`state::Store`](crate::state::Store). Every record is text
//! under a key that has a hash in it and nothing else of what it is of ([`names`]). Whatever reads and
//! writes one key in one step is a script ([`scripts`]), and none uses more than one key, so that it
//! does not matter how many servers the keys are spread over. The clock is that of the server alone.
//!
//! The store is never waited for: each question has a limit, and one that finds no answer opens a
//! breaker ([`link`]). From then on everything is answered by a store in memory, until the server is
//! found again in the background. What is in Redis is material: whatever cannot be read is as good as
//! not there. What others must neither read nor make up, [`logins`] and [`listings`], is sealed ([`keys`]).

mod address;
mod connection;
mod keys;
mod link;
mod listings;
mod logins;
mod names;
mod scripts;
mod sessions;
mod shelf;
mod store;
mod trial;

pub use crate::shared::address::{Address, Unusable};
pub use crate::shared::connection::Limits;
pub use crate::shared::store::{Options, Redis};
pub use crate::shared::trial::{Trial, try_out};

#[cfg(test)]
mod tests;
