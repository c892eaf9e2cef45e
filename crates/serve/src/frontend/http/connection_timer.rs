//! A single timer for all deadlines within one connection.
//!
//! Each request has deadlines for its head, body and response, and nearly always meets them. To set
//! and cancel a tokio timer takes a lock twice that all connections share. So the timer stays set
//! while deadlines move on, and is reset when it fires too early.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant as StdInstant};

use hyper::rt;
use pin_project_lite::pin_project;
use tokio::task::coop::unconstrained;
use tokio::time::{Instant, Sleep, sleep_until};

/// Stores a single waker, so deadlines must be awaited in the connection's task.
#[derive(Clone, Default)]
pub(crate) struct ConnectionTimer(Arc<Mutex<TimerState>>);

#[derive(Default)]
struct TimerState {
    /// Set to the earliest deadline that is awaited, or earlier.
    timer: Option<Pin<Box<Sleep>>>,
    wakes: Option<Waker>,
}

pub(crate) struct Deadline {
    clock: ConnectionTimer,
    at: Instant,
}

pin_project! {
    pub(crate) struct Timeout<F> {
        #[pin]
        something: F,
        late: Deadline,
    }
}

#[derive(Debug)]
pub(crate) struct Elapsed;

impl ConnectionTimer {
    fn deadline(&self, at: Instant) -> Deadline {
        Deadline { clock: self.clone(), at }
    }

    pub(crate) fn timeout<F: Future>(&self, time: Duration, something: F) -> Timeout<F> {
        Timeout { something, late: self.deadline(Instant::now() + time) }
    }
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Poll::Ready(done) = this.something.poll(context) {
            return Poll::Ready(Ok(done));
        }
        Pin::new(this.late).poll(context).map(|()| Err(Elapsed))
    }
}

impl TimerState {
    fn poll(&mut self, at: Instant, context: &mut Context<'_>) -> Poll<()> {
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(at)));
        if timer.deadline() > at {
            timer.as_mut().reset(at);
            self.wakes = None;
        }
        // The timer already has this waker.
        let is_known = |waker: &Waker| waker.will_wake(context.waker());
        if self.wakes.as_ref().is_some_and(is_known) && !timer.is_elapsed() {
            return Poll::Pending;
        }
        // Outside the coop budget: once that is exhausted, `Sleep` returns `Pending` without
        // registering the waker.
        while Pin::new(&mut unconstrained(timer.as_mut())).poll(context).is_ready() {
            if timer.deadline() >= at {
                return Poll::Ready(());
            }
            timer.as_mut().reset(at);
        }
        self.wakes = Some(context.waker().clone());
        Poll::Pending
    }
}

impl Future for Deadline {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.clock.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.poll(self.at, context)
    }
}

impl rt::Sleep for Deadline {}

impl rt::Timer for ConnectionTimer {
    fn sleep(&self, time: Duration) -> Pin<Box<dyn rt::Sleep>> {
        Box::pin(self.deadline(Instant::now() + time))
    }

    fn sleep_until(&self, at: StdInstant) -> Pin<Box<dyn rt::Sleep>> {
        Box::pin(self.deadline(at.into()))
    }

    fn now(&self) -> StdInstant {
        Instant::now().into()
    }

    fn reset(&self, sleep: &mut Pin<Box<dyn rt::Sleep>>, at: StdInstant) {
        match sleep.as_mut().downcast_mut_pin::<Deadline>() {
            Some(mut deadline) => deadline.at = at.into(),
            None => *sleep = self.sleep_until(at),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::time::sleep;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn deadlines_fire_in_any_order() {
        let clock = ConnectionTimer::default();
        let began = Instant::now();
        for (first, second) in [(5, 2), (2, 5), (3, 3)] {
            let from = Instant::now();
            let after = |seconds| clock.deadline(from + seconds * SECOND);
            let (one, other) = tokio::join!(
                async {
                    after(first).await;
                    from.elapsed()
                },
                async {
                    after(second).await;
                    from.elapsed()
                }
            );
            assert_eq!((one, other), (first * SECOND, second * SECOND));
        }
        assert_eq!(began.elapsed(), 13 * SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn dropped_deadlines_do_not_affect_others() {
        let clock = ConnectionTimer::default();
        for _ in 0..5 {
            assert!(clock.timeout(10 * SECOND, sleep(3 * SECOND)).await.is_ok());
        }
        let began = Instant::now();
        assert!(clock.timeout(10 * SECOND, pending::<()>()).await.is_err());
        assert_eq!(began.elapsed(), 10 * SECOND);
        assert!(clock.timeout(SECOND, pending::<()>()).await.is_err());
        assert_eq!(began.elapsed(), 11 * SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn hyper_can_reset_a_deadline() {
        let (clock, began) = (ConnectionTimer::default(), Instant::now());
        let mut sleep = rt::Timer::sleep(&clock, SECOND);
        rt::Timer::reset(&clock, &mut sleep, (began + 4 * SECOND).into());
        sleep.await;
        assert_eq!(began.elapsed(), 4 * SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn fires_when_the_coop_budget_is_exhausted() {
        let (sender, mut much) = tokio::sync::mpsc::unbounded_channel();
        (0..1_000).for_each(|number| sender.send(number).unwrap());
        let began = Instant::now();
        let clock = ConnectionTimer::default();
        let mut late = clock.deadline(began + 2 * SECOND);
        let waits = std::future::poll_fn(|context| {
            while much.poll_recv(context).is_ready() {}
            Pin::new(&mut late).poll(context)
        });
        assert!(tokio::time::timeout(9 * SECOND, waits).await.is_ok());
        assert_eq!(began.elapsed(), 2 * SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn a_deadline_can_move_to_another_task() {
        let (clock, began) = (ConnectionTimer::default(), Instant::now());
        let mut deadline = Box::pin(clock.deadline(began + 2 * SECOND));
        tokio::select! {
            biased;
            () = &mut deadline => panic!("fired too early"),
            () = sleep(SECOND) => {}
        }
        let tasks = tokio_util::task::TaskTracker::new();
        tasks.spawn(deadline).await.unwrap();
        assert_eq!(began.elapsed(), 2 * SECOND);
    }
}
