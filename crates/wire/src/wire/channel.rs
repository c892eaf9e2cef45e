//! A bounded multi-producer, single-consumer channel.
//!
//! Every HTTP request has a channel for its response, and every call one for the messages of its
//! server. Most carry one item or none. The channel is therefore a single small allocation, while
//! tokio's channels start with room for 32 messages. Sending and receiving take one lock each.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::sync::Notify;

/// Sending half; clones send to the same channel. `N` is the type of the note that the receiver
/// leaves for senders.
pub struct Sender<T, N = ()>(Arc<Queue<T, N>>);

/// Receiving half. Dropping it closes the channel.
pub struct Receiver<T, N = ()>(Arc<Queue<T, N>>);

/// The receiver is gone or has closed the channel. The item was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendError;

/// The error of `Sender::try_send`, which returns the item to the caller.
#[derive(Debug, PartialEq, Eq)]
pub enum TrySendError<T> {
    Full(T),
    Closed(T),
}

struct Queue<T, N> {
    /// Capacity in items.
    capacity: usize,
    senders: AtomicUsize,
    state: Mutex<State<T, N>>,
    /// Wakes senders that wait for room or for the channel to close.
    changed: Notify,
}

struct State<T, N> {
    waiting: VecDeque<T>,
    waker: Option<Waker>,
    is_closed: bool,
    /// `true` if a sender waits on `changed`, or may do so.
    is_awaited: bool,
    /// `true` if dropping the last sender doesn't wake the receiver.
    sleeps: bool,
    note: N,
}

/// Creates a channel that holds up to `room` items.
pub fn channel<T, N: Default>(capacity: usize) -> (Sender<T, N>, Receiver<T, N>) {
    let state = State {
        waiting: VecDeque::new(),
        waker: None,
        is_closed: false,
        is_awaited: false,
        sleeps: false,
        note: N::default(),
    };
    let queue = Arc::new(Queue {
        capacity,
        senders: AtomicUsize::new(1),
        state: Mutex::new(state),
        changed: Notify::new(),
    });
    (Sender(Arc::clone(&queue)), Receiver(queue))
}

impl<T, N> Queue<T, N> {
    fn state<R>(&self, f: impl FnOnce(&mut State<T, N>) -> R) -> R {
        f(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Closes the channel and runs `f` under the same lock.
    fn close<R>(&self, f: impl FnOnce(&mut State<T, N>) -> R) -> R {
        let (is_awaited, result) = self.state(|state| {
            state.is_closed = true;
            (state.is_awaited, f(state))
        });
        if is_awaited {
            self.changed.notify_waiters();
        }
        result
    }
}

impl<T, N> Clone for Sender<T, N> {
    fn clone(&self) -> Self {
        self.0.senders.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(&self.0))
    }
}

impl<T, N> Drop for Sender<T, N> {
    fn drop(&mut self) {
        if self.0.senders.fetch_sub(1, Ordering::AcqRel) > 1 {
            return;
        }
        let waker = self.0.state(|state| state.waker.take().filter(|_| !state.sleeps));
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T, N> Sender<T, N> {
    /// Sends `item`, waiting for room.
    pub async fn send(&self, item: T) -> Result<(), SendError> {
        let mut item = item;
        loop {
            // Registered before the check, so that a change in between isn't missed.
            let changed = self.0.changed.notified();
            item = match self.offer(item, true) {
                Ok(()) => return Ok(()),
                Err(TrySendError::Closed(_)) => return Err(SendError),
                Err(TrySendError::Full(item)) => item,
            };
            changed.await;
        }
    }

    /// Sends `item` if the channel has room. Never waits.
    pub fn try_send(&self, item: T) -> Result<(), TrySendError<T>> {
        self.offer(item, false)
    }

    /// Sends `item` if the channel has room. If not and `waits` is set, the receiver notifies
    /// senders once it makes room.
    fn offer(&self, item: T, waits: bool) -> Result<(), TrySendError<T>> {
        let waker = self.0.state(|state| {
            if state.is_closed {
                return Err(TrySendError::Closed(item));
            }
            if state.waiting.len() == self.0.capacity {
                state.is_awaited |= waits;
                return Err(TrySendError::Full(item));
            }
            state.waiting.push_back(item);
            Ok(state.waker.take())
        });
        if let Some(waker) = waker? {
            waker.wake();
        }
        Ok(())
    }

    /// Resolves once the channel is closed.
    pub async fn closed(&self) {
        loop {
            let changed = self.0.changed.notified();
            let is_closed = self.0.state(|state| {
                state.is_awaited = true;
                state.is_closed
            });
            if is_closed {
                return;
            }
            changed.await;
        }
    }

    /// Passes the receiver's note to `f`.
    pub fn note<R>(&self, f: impl FnOnce(&N) -> R) -> R {
        self.0.state(|state| f(&state.note))
    }
}

impl<T, N> Receiver<T, N> {
    /// Returns the next item, or `None` once the channel is empty and no sender can send. Cancel
    /// safe.
    pub async fn recv(&mut self) -> Option<T> {
        poll_fn(|context| self.poll_recv(context)).await
    }

    /// Polls for the next item, as [`Self::recv`] does.
    pub fn poll_recv(&mut self, context: &Context<'_>) -> Poll<Option<T>> {
        self.poll(context, VecDeque::pop_front)
    }

    /// Removes the stored waker: nothing wakes the receiver until its next poll.
    pub fn clear_waker(&mut self) {
        self.0.state(|state| state.waker = None);
    }

    /// Moves up to `most` queued items to `into` and returns their number. Waits for the first
    /// item; returns 0 once the channel is empty and no sender can send. Cancel safe.
    pub async fn recv_many(&mut self, into: &mut Vec<T>, most: usize) -> usize {
        let taken = poll_fn(|context| {
            self.poll(context, |waiting| {
                let count = waiting.len().min(most);
                into.extend(waiting.drain(..count));
                (count > 0).then_some(count)
            })
        });
        taken.await.unwrap_or(0)
    }

    /// Returns the next item if one is queued.
    pub fn try_recv(&mut self) -> Option<T> {
        self.take(VecDeque::pop_front, |_| {})
    }

    /// Closes the channel. Queued items can still be received.
    pub fn close(&mut self) {
        self.0.close(|_| {});
    }

    /// Stores `note` for the senders and disables the wakeup on drop of the last sender. The caller
    /// must poll [`Self::recv`] again when that may have happened.
    pub fn ignore_sender_drop(&mut self, note: N) {
        self.0.state(|state| (state.note, state.sleeps) = (note, true));
    }

    fn poll<R>(
        &mut self,
        context: &Context<'_>,
        take: impl FnOnce(&mut VecDeque<T>) -> Option<R>,
    ) -> Poll<Option<R>> {
        let mut is_over = false;
        let taken = self.take(take, |state| {
            is_over = state.is_closed || self.0.senders.load(Ordering::Acquire) == 0;
            if !is_over {
                match &mut state.waker {
                    Some(waker) => waker.clone_from(context.waker()),
                    None => state.waker = Some(context.waker().clone()),
                }
            }
        });
        if taken.is_none() && !is_over { Poll::Pending } else { Poll::Ready(taken) }
    }

    /// Takes items, and notifies senders that wait for room. Calls `or` if nothing was taken.
    fn take<R>(
        &self,
        take: impl FnOnce(&mut VecDeque<T>) -> Option<R>,
        or: impl FnOnce(&mut State<T, N>),
    ) -> Option<R> {
        let (is_news, taken) = self.0.state(|state| {
            let is_news = state.is_awaited && state.waiting.len() == self.0.capacity;
            let taken = take(&mut state.waiting);
            if taken.is_none() {
                or(state);
            }
            (is_news, taken)
        });
        // Every waiting sender saw a full channel, so only a take from a full channel needs to
        // notify.
        if is_news {
            self.0.changed.notify_waiters();
        }
        taken
    }
}

impl<T, N> Drop for Receiver<T, N> {
    fn drop(&mut self) {
        let left = self.0.close(|state| (std::mem::take(&mut state.waiting), state.waker.take()));
        // Drop outside the lock: dropping an item may send to this channel.
        drop(left);
    }
}

impl<T, N> fmt::Debug for Sender<T, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waiting = self.0.state(|state| state.waiting.len());
        f.debug_struct("Sender").field("room", &self.0.capacity).field("waiting", &waiting).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::Wake;

    use tokio::task::yield_now;
    use tokio_util::task::TaskTracker;

    use super::*;

    fn of_numbers(capacity: usize) -> (Sender<u32>, Receiver<u32>) {
        channel(capacity)
    }

    #[tokio::test]
    async fn items_arrive_in_order_followed_by_none() {
        let (sender, mut receiver) = of_numbers(2);
        let other = sender.clone();
        sender.send(1).await.unwrap();
        assert_eq!(other.try_send(2), Ok(()));
        drop((sender, other));
        assert_eq!(receiver.recv().await, Some(1));
        assert_eq!(receiver.try_recv(), Some(2));
        assert_eq!(receiver.recv().await, None);
    }

    #[tokio::test]
    async fn recv_waits_for_an_item_and_for_the_end() {
        let (sender, mut receiver) = of_numbers(1);
        let taking = async { (receiver.recv().await, receiver.recv().await) };
        let (taken, ()) = tokio::join!(taking, async {
            yield_now().await;
            sender.clone().send(1).await.unwrap();
            yield_now().await;
            drop(sender);
        });
        assert_eq!(taken, (Some(1), None));
    }

    #[tokio::test]
    async fn recv_many_takes_at_most_the_given_number() {
        let (sender, mut receiver) = of_numbers(5);
        (1..=5).for_each(|number| sender.try_send(number).unwrap());
        let mut taken = Vec::new();
        assert_eq!(receiver.recv_many(&mut taken, 3).await, 3);
        assert_eq!(receiver.recv_many(&mut taken, 3).await, 2);
        assert_eq!(taken, [1, 2, 3, 4, 5]);
        drop(sender);
        assert_eq!(receiver.recv_many(&mut taken, 3).await, 0);
    }

    #[tokio::test]
    async fn send_waits_for_room_and_fails_once_closed() {
        let (sender, mut receiver) = of_numbers(1);
        sender.send(1).await.unwrap();
        assert_eq!(sender.try_send(2), Err(TrySendError::Full(2)));
        let (sent, taken) = tokio::join!(sender.send(3), receiver.recv());
        assert_eq!((sent, taken), (Ok(()), Some(1)));
        let (sent, ()) = tokio::join!(sender.send(4), async { drop(receiver) });
        assert_eq!(sent, Err(SendError));
        assert_eq!(sender.try_send(5), Err(TrySendError::Closed(5)));
        sender.closed().await;
    }

    #[tokio::test]
    async fn all_waiting_senders_eventually_get_room() {
        let (sender, mut receiver) = of_numbers(2);
        let tasks = TaskTracker::new();
        let send = |number| {
            let sender = sender.clone();
            tasks.spawn(async move { sender.send(number).await })
        };
        let sending: Vec<_> = (0..20).map(send).collect();
        drop(sender);
        let mut taken = Vec::new();
        loop {
            // One item is taken, then two, so that waiting senders sometimes run in between.
            if taken.len() % 3 > 0 {
                yield_now().await;
            }
            let Some(number) = receiver.recv().await else { break };
            taken.push(number);
            taken.extend(receiver.try_recv());
        }
        taken.sort_unstable();
        assert_eq!(taken, (0..20).collect::<Vec<_>>());
        for sent in sending {
            assert_eq!(sent.await.unwrap(), Ok(()));
        }
    }

    #[tokio::test]
    async fn queued_items_can_be_received_after_close() {
        let (sender, mut receiver) = of_numbers(2);
        sender.try_send(1).unwrap();
        let (closed, ()) = tokio::join!(sender.closed(), async { receiver.close() });
        assert_eq!((closed, sender.send(2).await), ((), Err(SendError)));
        assert_eq!((receiver.recv().await, receiver.recv().await), (Some(1), None));
    }

    #[test]
    fn ignoring_sender_drop_suppresses_the_wakeup() {
        struct Bell(AtomicUsize);
        impl Wake for Bell {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        for (sleeps, woken) in [(false, 1), (true, 0)] {
            let (sender, mut receiver) = of_numbers(1);
            if sleeps {
                receiver.ignore_sender_drop(());
            }
            let bell = Arc::new(Bell(AtomicUsize::new(0)));
            let waker = Arc::clone(&bell).into();
            let mut context = Context::from_waker(&waker);
            let mut taking = pin!(receiver.recv());
            assert!(taking.as_mut().poll(&mut context).is_pending());
            drop(sender);
            assert_eq!(bell.0.load(Ordering::Relaxed), woken);
            assert_eq!(taking.as_mut().poll(&mut context), Poll::Ready(None));
        }
    }

    #[test]
    fn senders_read_the_note() {
        let (sender, mut receiver) = channel::<u32, Option<&str>>(1);
        assert_eq!(sender.note(|note| *note), None);
        receiver.ignore_sender_drop(Some("a"));
        assert_eq!(sender.note(|note| *note), Some("a"));
    }
}
