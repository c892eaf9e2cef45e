//! State of agents that outlives a request: a [`StateRecord`] for each session and for everything
//! stored until an agent comes back.
//!
//! A record is a typed value with all that another process needs to continue, and can be encoded as
//! text. Code that owns such state puts a record into the [`StateStore`] and reads it back by key.
//! Live objects (streams, requests in flight, servers) are not part of it; their owner holds them
//! under the same key. [`MemoryStateStore`] never encodes its records. A shared store allows
//! session takeover by other replicas.

mod choices;
mod memory;
mod rate;
mod record;
pub mod round_trip;
mod store;

use std::sync::Arc;

pub use crate::state::choices::{Activation, ActivePrimitives, SessionChoices};
pub use crate::state::memory::MemoryStateStore;
pub use crate::state::rate::Rate;
pub use crate::state::record::{
    Capacity, ClientInfo, ClientIntroduction, ListDigests, ListState, PutOutcome, RecordKey,
    RecordKind, ResultRemainder, SessionKey, SessionLease, SessionRecord, StateRecord, Suspended,
    Takeovers,
};
pub use crate::state::store::{StateStore, StoreFuture};

pub(crate) fn new_store() -> Arc<dyn StateStore> {
    if round_trip::is_on() {
        return Arc::new(round_trip::RoundTripStore::default());
    }
    Arc::new(MemoryStateStore::default())
}
