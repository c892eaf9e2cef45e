//! Several futures in one task, each polled only when it has been woken itself.
//!
//! A task polls all that it waits for whenever one part of it goes on. Where that is an agent's
//! input, its end and dozens of requests, most of what is done is looking in vain; and a task for
//! each request costs a call over pipes a twentieth of what it costs altogether.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// The task in which several futures are polled.
#[derive(Default)]
pub(crate) struct Task {
    waker: Mutex<Option<Waker>>,
}

impl Task {
    /// Takes note of the task; before each poll of anything in it.
    pub(crate) fn enter(&self, context: &Context<'_>) {
        let mut waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *waker {
            Some(waker) => waker.clone_from(context.waker()),
            None => *waker = Some(context.waker().clone()),
        }
    }
}

/// One of several futures in a task, less the future itself: it knows if that has been woken.
pub(crate) struct Subtask {
    bell: Arc<Bell>,
    waker: Waker,
}

/// The waker of one of the futures in a task: it wakes the task, and keeps in mind for whom.
struct Bell {
    has_rung: AtomicBool,
    task: Arc<Task>,
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

impl Subtask {
    /// For a future that is to be polled for the first time.
    pub(crate) fn new(task: &Arc<Task>) -> Self {
        let bell = Arc::new(Bell { has_rung: AtomicBool::new(true), task: Arc::clone(task) });
        Self { waker: Arc::clone(&bell).into(), bell }
    }

    /// Takes another future, which is to be polled for the first time.
    pub(crate) fn begin_anew(&self) {
        self.bell.has_rung.store(true, Ordering::Release);
    }

    /// Polls the future if it has been woken since it was polled last.
    pub(crate) fn poll<T>(&self, poll: impl FnOnce(&mut Context<'_>) -> Poll<T>) -> Poll<T> {
        // To look costs less than to change what others change too.
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
    async fn only_what_has_been_woken_is_polled() {
        let task = Arc::new(Task::default());
        let ((wake, woken), (_other, waiting)) = (oneshot::channel(), oneshot::channel::<()>());
        let (mut woken, mut waiting) = (pin!(woken), pin!(waiting));
        let (first, second) = (Subtask::new(&task), Subtask::new(&task));
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
    async fn another_future_is_polled_at_first() {
        let task = Arc::new(Task::default());
        let subtask = Subtask::new(&task);
        poll_fn(|context| {
            task.enter(context);
            assert_eq!(subtask.poll(|_| Poll::Ready(1)), Poll::Ready(1));
            assert_eq!(subtask.poll(|_| Poll::Ready(2)), Poll::Pending, "it has not been woken");
            subtask.begin_anew();
            subtask.poll(|_| Poll::Ready(3))
        })
        .await;
    }
}
