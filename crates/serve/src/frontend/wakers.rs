//! Runs several futures in one task and polls each only after its own waker fired.
//!
//! Without this, a task polls all of its futures on every wakeup, most of them in vain: an agent
//! has its input, its end and dozens of requests. A task per request would add about 5 % to the
//! cost of a stdio call.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

#[derive(Default)]
pub(crate) struct ParentWaker {
    waker: Mutex<Option<Waker>>,
}

impl ParentWaker {
    pub(crate) fn enter(&self, context: &Context<'_>) {
        let mut waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *waker {
            Some(waker) => waker.clone_from(context.waker()),
            None => *waker = Some(context.waker().clone()),
        }
    }
}

/// The waker of one future, with a flag that it fired. The caller owns the future.
pub(crate) struct ChildWaker {
    bell: Arc<WakeFlag>,
    waker: Waker,
}

struct WakeFlag {
    has_rung: AtomicBool,
    task: Arc<ParentWaker>,
}

impl Wake for WakeFlag {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.has_rung.swap(true, Ordering::AcqRel)
            && let Some(task) = &*self.task.waker.lock().unwrap_or_else(PoisonError::into_inner)
        {
            task.wake_by_ref();
        }
    }
}

impl ChildWaker {
    /// Starts as woken, so that the first poll runs.
    pub(crate) fn new(task: &Arc<ParentWaker>) -> Self {
        let bell = Arc::new(WakeFlag { has_rung: AtomicBool::new(true), task: Arc::clone(task) });
        Self { waker: Arc::clone(&bell).into(), bell }
    }

    /// Prepares for another future: the next poll runs.
    pub(crate) fn reset(&self) {
        self.bell.has_rung.store(true, Ordering::Release);
    }

    pub(crate) fn poll<T>(&self, poll: impl FnOnce(&mut Context<'_>) -> Poll<T>) -> Poll<T> {
        // A load is cheaper than a swap, which takes the cache line from other cores.
        if self.bell.has_rung.load(Ordering::Acquire)
            && self.bell.has_rung.swap(false, Ordering::AcqRel)
        {
            poll(&mut Context::from_waker(&self.waker))
        } else {
            Poll::Pending
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;

    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn polls_only_woken_futures() {
        let task = Arc::new(ParentWaker::default());
        let ((wake, woken), (_other, waiting)) = (oneshot::channel(), oneshot::channel::<()>());
        let (mut woken, mut waiting) = (pin!(woken), pin!(waiting));
        let (first, second) = (ChildWaker::new(&task), ChildWaker::new(&task));
        let (mut wake, mut polled) = (Some(wake), [0, 0]);
        let ends = poll_fn(|context| {
            task.enter(context);
            let ready = first.poll(|context| {
                polled[0] += 1;
                woken.as_mut().poll(context)
            });
            let other = second.poll(|context| {
                polled[1] += 1;
                waiting.as_mut().poll(context)
            });
            assert!(other.is_pending());
            if let Some(wake) = wake.take() {
                wake.send("woken").unwrap();
            }
            ready
        });
        assert_eq!(ends.await, Ok("woken"));
        assert_eq!(polled, [2, 1]);
    }

    #[tokio::test]
    async fn reset_allows_the_next_poll() {
        let task = Arc::new(ParentWaker::default());
        let subtask = ChildWaker::new(&task);
        poll_fn(|context| {
            task.enter(context);
            assert_eq!(subtask.poll(|_| Poll::Ready(1)), Poll::Ready(1));
            assert_eq!(subtask.poll(|_| Poll::Ready(2)), Poll::Pending, "not woken");
            subtask.reset();
            subtask.poll(|_| Poll::Ready(3))
        })
        .await;
    }
}
