//! Which shape of a request an endpoint has taken last.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// How long it is remembered that an endpoint wants another shape than the first: what it refused may
/// have been something else, and it may have been changed.
pub(crate) const REMEMBERED: Duration = Duration::from_mins(10);

/// The shape that an endpoint has taken last, if it is not the first, and until when that counts.
#[derive(Debug, Default)]
pub(crate) struct Taken(Mutex<Option<(usize, Instant)>>);

impl Taken {
    /// Where to begin.
    pub(crate) fn first(&self) -> usize {
        let taken = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        taken.filter(|(_, until)| Instant::now() < *until).map_or(0, |(at, _)| at)
    }

    /// Keeps which shape was taken; none if all were refused, so that the next one begins anew.
    pub(crate) fn learn(&self, at: Option<usize>) {
        let taken = at.map(|at| (at, Instant::now() + REMEMBERED));
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = taken;
    }
}
