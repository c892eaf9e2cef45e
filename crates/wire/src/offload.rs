//! Offloads work on large texts to a blocking thread.

use std::future::pending;
use std::panic::resume_unwind;

use tokio::task::{JoinError, spawn_blocking};

/// The longest text, in bytes, that is handled inline. Longer ones could block the other tasks of
/// the thread for more than 10 ms.
const AT_ONCE: usize = 1 << 20;

/// Runs `work` on a text of `length` bytes: inline up to 1 MiB, else on Tokio's blocking pool.
/// Panics of `work` are propagated.
pub async fn offload<T: Send + 'static>(
    length: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    if length <= AT_ONCE {
        return work();
    }
    match spawn_blocking(work).await.map_err(JoinError::try_into_panic) {
        Ok(done) => done,
        Err(Ok(panic)) => resume_unwind(panic),
        // The runtime is shutting down, and this task with it.
        Err(Err(_)) => pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[tokio::test]
    async fn only_long_texts_are_offloaded() {
        let who = || thread::current().id();
        assert_eq!(offload(AT_ONCE, who).await, who());
        assert_ne!(offload(AT_ONCE + 1, who).await, who());
    }

    #[tokio::test]
    #[should_panic(expected = "lost")]
    async fn panics_are_propagated() {
        offload(AT_ONCE + 1, || panic!("lost")).await;
    }
}
