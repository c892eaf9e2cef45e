//! Long work on long texts, aside from the tasks of its thread.

use std::future::pending;
use std::panic::resume_unwind;

use tokio::task::{JoinError, spawn_blocking};

/// How long a text may be that is worked on at once, in bytes. What is longer could hold up the other tasks of its
/// thread for more than 10 ms.
const AT_ONCE: usize = 1 << 20;

/// Does work on a text of `length` bytes: here, or on a thread that is there for such work where others would
/// have to wait for it. A panic in it is one here.
pub async fn aside<T: Send + 'static>(
    length: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    if length <= AT_ONCE {
        return work();
    }
    match spawn_blocking(work).await.map_err(JoinError::try_into_panic) {
        Ok(done) => done,
        Err(Ok(panic)) => resume_unwind(panic),
        // The runtime ends, and whoever waits with it.
        Err(Err(_)) => pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[tokio::test]
    async fn work_on_a_long_text_leaves_the_thread_to_others() {
        let who = || thread::current().id();
        assert_eq!(aside(AT_ONCE, who).await, who());
        assert_ne!(aside(AT_ONCE + 1, who).await, who());
    }

    #[tokio::test]
    #[should_panic(expected = "lost")]
    async fn a_panic_comes_back() {
        aside(AT_ONCE + 1, || panic!("lost")).await;
    }
}
