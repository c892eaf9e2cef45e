//! The state of agents beyond one request, as data: a [`Record`] of each session, and of each
//! thing that is kept for an agent until it comes back.
//!
//! *Theory of operation.* A record is a typed value with everything that another process would need
//! to go on, and it can be written as text. Whoever owns something that outlasts a request puts a
//! record of it into the [`Store`], and finds it there again. Live objects (streams, requests under
//! way, servers) hang beside: they are with whoever made them, by the same key. In [`Memory`] nothing
//! is written; it is the only store there is, and the ways of the trait are those of one elsewhere.

mod active;
mod memory;
mod rate;
mod record;
pub mod rehearsal;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

pub use crate::state::active::{Active, Chosen, Switch};
pub use crate::state::memory::Memory;
pub use crate::state::rate::Rate;
pub use crate::state::record::{
    Introduction, Key, Kind, Listings, Lists, Moves, Program, Record, Rest, Room, Session,
    SessionKey, Suspended, Tenure,
};

/// The answer of a store. In memory it is there at once.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Where records are.
///
/// One that is elsewhere answers within a limit of its own. When it cannot, nothing is found, nothing
/// is put, and nothing is too often: no call fails for it.
pub trait Store: Send + Sync {
    /// Returns `true` if other processes have the same records. A session may then be taken over by one of
    /// them, and outlives the process that has begun it.
    fn is_shared(&self) -> bool {
        false
    }

    /// Puts a record under its key, in place of the one before it. Where its caller has more of its kind
    /// than there is `room` for, or all have too much, the oldest go, the caller's own first.
    ///
    /// Returns `false`, and puts nothing, where it is a session that another process goes on with now.
    fn put(&self, key: Key, record: Record, room: Room) -> Answer<'_, bool>;

    /// Finds a record. A record says whose it is; the store lets everybody have it.
    fn get<'a>(&'a self, key: &'a Key) -> Answer<'a, Option<Record>>;

    /// Takes a record out. Of several who want it, one gets it.
    fn take<'a>(&'a self, key: &'a Key) -> Answer<'a, Option<Record>>;

    /// Counts one more call under `subject`; an error is how long to wait until there may be one,
    /// and then it has not been counted.
    fn count<'a>(&'a self, subject: &'a str, rate: Rate) -> Answer<'a, Result<(), Duration>>;

    /// Says that a session is still used here, so that it is kept. Returns `false` if another process goes on
    /// with it now.
    fn keep<'a>(&'a self, session: &'a SessionKey, tenure: &'a Tenure) -> Answer<'a, bool>;

    /// Forgets a session, and what was kept for that session alone, unless another process goes on with it now.
    /// Nobody waits for it.
    fn end(&self, session: &SessionKey, tenure: &Tenure);

    /// Forgets a record. Nobody waits for it.
    fn remove(&self, key: &Key);
}

/// Returns an empty store for a program that begins.
pub(crate) fn store() -> Arc<dyn Store> {
    if rehearsal::is_on() {
        return Arc::new(rehearsal::Written::default());
    }
    Arc::new(Memory::default())
}
