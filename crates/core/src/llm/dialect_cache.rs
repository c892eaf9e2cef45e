//! Remembers the request dialect that an endpoint accepts.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// How long a fallback dialect is used before the default is tried again: the refusal may have had
/// another cause, and endpoints are upgraded.
pub(crate) const REMEMBERED: Duration = Duration::from_mins(10);

/// The last accepted dialect and its expiry; `None` for the default.
#[derive(Debug, Default)]
pub(crate) struct DialectCache(Mutex<Option<(usize, Instant)>>);

impl DialectCache {
    /// Returns the index of the dialect to try first.
    pub(crate) fn preferred(&self) -> usize {
        let taken = *self.0.lock();
        taken.filter(|(_, until)| Instant::now() < *until).map_or(0, |(at, _)| at)
    }

    /// Remembers an accepted dialect, or forgets it if the endpoint rejected all of them.
    pub(crate) fn learn(&self, at: Option<usize>) {
        let taken = at.map(|at| (at, Instant::now() + REMEMBERED));
        *self.0.lock() = taken;
    }
}
