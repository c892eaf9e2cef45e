//! Cancellation of a request.

use std::sync::{Arc, OnceLock};

use tokio_util::sync::{CancellationToken, DropGuard, WaitForCancellationFuture};

/// The maximum stored length of a reason, in bytes.
const LONGEST_REASON: usize = 1024;

/// The cancellation state of a request, with the reason that the other side gave; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Cancellation {
    token: CancellationToken,
    reason: Arc<OnceLock<Box<str>>>,
}

impl Cancellation {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn cancel(&self) {
        self.token.cancel();
    }

    /// Cancels the request with a reason, which is truncated. Only the first reason is stored.
    pub(crate) fn cancel_because(&self, reason: &str) {
        let end = reason.floor_char_boundary(LONGEST_REASON);
        // Fails if a reason is set already.
        let _ = self.reason.set(reason[..end].into());
        self.cancel();
    }

    /// Returns the reason, if one was given.
    pub fn reason(&self) -> Option<&str> {
        self.reason.get().map(|reason| &**reason)
    }

    pub fn is_cancelled(&self) -> bool {
        self.token.is_cancelled()
    }

    /// Resolves once the request is cancelled.
    pub fn cancelled(&self) -> WaitForCancellationFuture<'_> {
        self.token.cancelled()
    }

    /// Returns a guard that cancels the request on drop, unless it is disarmed first.
    pub fn drop_guard(self) -> DropGuard {
        self.token.drop_guard()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_reason_is_stored_truncated() {
        let cancellation = Cancellation::new();
        assert_eq!(cancellation.reason(), None);
        cancellation.cancel_because(&"ä".repeat(1000));
        cancellation.cancel_because("another");
        assert!(cancellation.is_cancelled());
        assert_eq!(cancellation.reason(), Some(&*"ä".repeat(512)));
    }
}
