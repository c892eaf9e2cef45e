//! The way of events to an agent: a queue with an end that sends and one that takes.
//!
//! Every call has one, and most carry nothing. So it is made of one small allocation, unlike the
//! channels of tokio, which begin with room for 32 messages.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};

use tokio::sync::Semaphore;

use crate::backend::question::Event;
use crate::wire::cancellation::Cancellation;

/// Where events of an agent go; clones lead to the same.
pub struct Sender(Arc<Way>);

/// The end that takes events. When it is dropped, nothing can be sent any more.
pub struct Receiver(Arc<Way>);

/// The other end is gone. What was to be sent has been dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed;

struct Way {
    senders: AtomicUsize,
    /// One permit for each event that may still wait; closed with the receiver.
    room: Semaphore,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    /// The request that is worked on meanwhile.
    request: Option<Cancellation>,
    events: VecDeque<Event>,
    waker: Option<Waker>,
}

impl Queue {
    /// Who is to be woken when nobody can send any more.
    fn at_end(&mut self) -> Option<Waker> {
        self.waker.take().filter(|_| self.request.is_none())
    }
}

/// A way on which so many events may wait.
pub fn channel(room: usize) -> (Sender, Receiver) {
    let senders = AtomicUsize::new(1);
    let way = Arc::new(Way { senders, room: Semaphore::new(room), queue: Mutex::default() });
    (Sender(Arc::clone(&way)), Receiver(way))
}

impl Way {
    fn queue<T>(&self, f: impl FnOnce(&mut Queue) -> T) -> T {
        f(&mut self.queue.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn push(&self, event: Event) {
        let waker = self.queue(|queue| {
            queue.events.push_back(event);
            queue.waker.take()
        });
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Clone for Sender {
    fn clone(&self) -> Self {
        self.0.senders.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(&self.0))
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        if self.0.senders.fetch_sub(1, Ordering::AcqRel) == 1
            && let Some(waker) = self.0.queue(Queue::at_end)
        {
            waker.wake();
        }
    }
}

impl Sender {
    /// The request that is worked on meanwhile, which may be cancelled.
    pub fn cancellation(&self) -> Option<Cancellation> {
        self.0.queue(|queue| queue.request.clone())
    }

    /// Sends an event; waits until there is room for it.
    pub async fn send(&self, event: Event) -> Result<(), Closed> {
        self.0.room.acquire().await.map_err(|_| Closed)?.forget();
        self.0.push(event);
        Ok(())
    }

    /// Sends an event if there is room for it; else gives it back.
    pub fn offer(&self, event: Event) -> Option<Event> {
        match self.0.room.try_acquire() {
            Ok(permit) => permit.forget(),
            Err(_) => return Some(event),
        }
        self.0.push(event);
        None
    }
}

impl Receiver {
    /// Lets those who send know which request the work is for. From now on [`Self::recv`] is not woken by
    /// the end of the last sender: it must be polled together with that work, which ends then.
    pub fn belongs_to(&self, request: &Cancellation) {
        self.0.queue(|queue| queue.request = Some(request.clone()));
    }

    /// The next event; `None` once there is none and nobody can send any more. Loses nothing when
    /// it is cancelled.
    pub async fn recv(&mut self) -> Option<Event> {
        let event = poll_fn(|context| {
            self.0.queue(|queue| {
                if let Some(event) = queue.events.pop_front() {
                    return Poll::Ready(Some(event));
                }
                if self.0.senders.load(Ordering::Acquire) == 0 {
                    return Poll::Ready(None);
                }
                match &mut queue.waker {
                    Some(waker) => waker.clone_from(context.waker()),
                    None => queue.waker = Some(context.waker().clone()),
                }
                Poll::Pending
            })
        });
        let event = event.await?;
        self.0.room.add_permits(1);
        Some(event)
    }

    /// The next event, if there is one.
    pub fn try_recv(&mut self) -> Option<Event> {
        let event = self.0.queue(|queue| queue.events.pop_front())?;
        self.0.room.add_permits(1);
        Some(event)
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.0.room.close();
        // Dropped outside of the lock, for a question that is dropped answers itself.
        drop(self.0.queue(std::mem::take));
    }
}

impl fmt::Debug for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").field("room", &self.0.room.available_permits()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Wake};

    use super::*;

    fn event(method: &str) -> Event {
        Event::Notice { method: method.to_owned(), params: None }
    }

    fn method(event: Option<Event>) -> Option<String> {
        event.map(|event| match event {
            Event::Notice { method, .. } => method,
            _ => panic!("another event"),
        })
    }

    #[tokio::test]
    async fn events_come_in_order_and_then_the_end() {
        let (sender, mut receiver) = channel(2);
        let other = sender.clone();
        sender.send(event("a")).await.unwrap();
        assert!(other.offer(event("b")).is_none());
        drop((sender, other));
        assert_eq!(method(receiver.recv().await).as_deref(), Some("a"));
        assert_eq!(method(receiver.try_recv()).as_deref(), Some("b"));
        assert!(receiver.recv().await.is_none());
    }

    #[tokio::test]
    async fn who_takes_waits_for_an_event_and_for_the_end() {
        let (sender, mut receiver) = channel(1);
        let taking = async {
            let first = method(receiver.recv().await);
            (first, method(receiver.recv().await))
        };
        let (taken, ()) = tokio::join!(taking, async {
            tokio::task::yield_now().await;
            sender.clone().send(event("a")).await.unwrap();
            tokio::task::yield_now().await;
            drop(sender);
        });
        assert_eq!(taken, (Some("a".to_owned()), None));
    }

    #[test]
    fn who_waits_for_the_answer_is_not_woken_by_the_end() {
        struct Bell(AtomicUsize);
        impl Wake for Bell {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        for (is_of_a_request, woken) in [(false, 1), (true, 0)] {
            let (sender, mut receiver) = channel(1);
            if is_of_a_request {
                receiver.belongs_to(&Cancellation::new());
            }
            let bell = Arc::new(Bell(AtomicUsize::new(0)));
            let waker = Arc::clone(&bell).into();
            let mut context = Context::from_waker(&waker);
            let mut taking = pin!(receiver.recv());
            assert!(taking.as_mut().poll(&mut context).is_pending());
            drop(sender);
            assert_eq!(bell.0.load(Ordering::Relaxed), woken);
            assert!(matches!(taking.as_mut().poll(&mut context), Poll::Ready(None)));
        }
    }

    #[tokio::test]
    async fn who_sends_waits_for_room_and_for_nobody() {
        let (sender, mut receiver) = channel(1);
        sender.send(event("a")).await.unwrap();
        assert!(sender.offer(event("b")).is_some(), "there is no room");
        let (sent, taken) = tokio::join!(sender.send(event("c")), receiver.recv());
        assert_eq!((sent, method(taken).as_deref()), (Ok(()), Some("a")));
        let (sent, ()) = tokio::join!(sender.send(event("d")), async { drop(receiver) });
        assert_eq!(sent, Err(Closed));
        assert!(sender.offer(event("e")).is_some());
    }
}
