//! Several futures in one task, each polled only when it has been woken itself.
//!
//! A task polls all that it waits for whenever one part of it goes on. Where that is an agent's
//! input, its end and dozens of requests, most of what is done is looking in vain; and a task for
//! each request costs a call over pipes a twentieth of what it costs altogether.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// The task in which several futures take turns.
#[derive(Default)]
pub(crate) struct Shared {
    waker: Mutex<Option<Waker>>,
}

impl Shared {
    /// Takes note of the task; before each poll of anything in it.
    pub(crate) fn enter(&self, context: &Context<'_>) {
        let mut waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *waker {
            Some(waker) => waker.clone_from(context.waker()),
            None => *waker = Some(context.waker().clone()),
        }
    }
}

/// The turn of one of the futures in a task.
pub(crate) struct Turn {
    bell: Arc<Bell>,
    waker: Waker,
}

/// The waker of one of the futures in a task: it wakes the task, and keeps in mind for whom.
struct Bell {
    has_rung: AtomicBool,
    task: Arc<Shared>,
}

impl Wake for Bell {
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

impl Turn {
    /// The turn of a future that is to be polled for the first time.
    pub(crate) fn new(task: &Arc<Shared>) -> Self {
        let bell = Arc::new(Bell { has_rung: AtomicBool::new(true), task: Arc::clone(task) });
        Self { waker: Arc::clone(&bell).into(), bell }
    }

    /// Gives the turn to a future that is to be polled for the first time.
    pub(crate) fn pass(&self) {
        self.bell.has_rung.store(true, Ordering::Release);
    }

    /// Polls the future if it has been woken since it was polled last.
    pub(crate) fn poll<T>(&self, poll: impl FnOnce(&mut Context<'_>) -> Poll<T>) -> Poll<T> {
        if self.bell.has_rung.swap(false, Ordering::AcqRel) {
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
    async fn only_what_has_been_woken_is_polled() {
        let task = Arc::new(Shared::default());
        let ((wake, woken), (_other, waiting)) = (oneshot::channel(), oneshot::channel::<()>());
        let (mut woken, mut waiting) = (pin!(woken), pin!(waiting));
        let (first, second) = (Turn::new(&task), Turn::new(&task));
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
    async fn another_future_that_has_the_turn_is_polled() {
        let task = Arc::new(Shared::default());
        let turn = Turn::new(&task);
        poll_fn(|context| {
            task.enter(context);
            assert_eq!(turn.poll(|_| Poll::Ready(1)), Poll::Ready(1));
            assert_eq!(turn.poll(|_| Poll::Ready(2)), Poll::Pending, "it has not been woken");
            turn.pass();
            turn.poll(|_| Poll::Ready(3))
        })
        .await;
    }
}
