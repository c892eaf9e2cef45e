//! A bounded queue between tasks, with ends that send and one that takes.
//!
//! Every request over HTTP has one for its answer, and every call one for what its server says
//! meanwhile; most carry one thing or none. So it is made of one small allocation, unlike the channels
//! of tokio, which begin with room for 32 messages, and to send or to take costs one lock.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::sync::Notify;

/// An end that sends; clones lead to the same queue. `N` is a note for whoever sends.
pub struct Sender<T, N = ()>(Arc<Queue<T, N>>);

/// The end that takes. When it is dropped, nothing can be sent any more.
pub struct Receiver<T, N = ()>(Arc<Queue<T, N>>);

/// The end that takes is gone. What was to be sent has been dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed;

/// Why something was not sent; it is given back.
#[derive(Debug, PartialEq, Eq)]
pub enum Unsent<T> {
    /// There is no room for it now.
    Full(T),
    /// Nothing can be sent any more.
    Closed(T),
}

struct Queue<T, N> {
    /// How much may wait.
    room: usize,
    senders: AtomicUsize,
    state: Mutex<State<T, N>>,
    /// Tells those who wait for room, or for the end, that there may be some, or that this is it.
    changed: Notify,
}

struct State<T, N> {
    waiting: VecDeque<T>,
    waker: Option<Waker>,
    is_closed: bool,
    /// `true` if somebody may wait for a change.
    is_awaited: bool,
    /// `true` if whoever takes need not be woken by the end of the last sender.
    sleeps: bool,
    note: N,
}

/// A queue in which so much may wait.
pub fn queue<T, N: Default>(room: usize) -> (Sender<T, N>, Receiver<T, N>) {
    let state = State {
        waiting: VecDeque::new(),
        waker: None,
        is_closed: false,
        is_awaited: false,
        sleeps: false,
        note: N::default(),
    };
    let queue = Arc::new(Queue {
        room,
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

    /// Refuses what is sent from now on, and does something more at the same moment.
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
    /// Sends; waits until there is room.
    pub async fn send(&self, item: T) -> Result<(), Closed> {
        let mut item = item;
        loop {
            // It hears from here on of what changes after the look.
            let changed = self.0.changed.notified();
            item = match self.offer(item, true) {
                Ok(()) => return Ok(()),
                Err(Unsent::Closed(_)) => return Err(Closed),
                Err(Unsent::Full(item)) => item,
            };
            changed.await;
        }
    }

    /// Sends, if there is room.
    pub fn try_send(&self, item: T) -> Result<(), Unsent<T>> {
        self.offer(item, false)
    }

    /// Sends if there is room; whoever `waits` where there is none is told when there is.
    fn offer(&self, item: T, waits: bool) -> Result<(), Unsent<T>> {
        let waker = self.0.state(|state| {
            if state.is_closed {
                return Err(Unsent::Closed(item));
            }
            if state.waiting.len() == self.0.room {
                state.is_awaited |= waits;
                return Err(Unsent::Full(item));
            }
            state.waiting.push_back(item);
            Ok(state.waker.take())
        });
        if let Some(waker) = waker? {
            waker.wake();
        }
        Ok(())
    }

    /// Resolves when nothing can be sent any more.
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

    /// Reads the note.
    pub fn note<R>(&self, f: impl FnOnce(&N) -> R) -> R {
        self.0.state(|state| f(&state.note))
    }
}

impl<T, N> Receiver<T, N> {
    /// The next; `None` once there is none and nobody can send any more. Loses nothing when it is
    /// cancelled.
    pub async fn recv(&mut self) -> Option<T> {
        poll_fn(|context| self.poll_recv(context)).await
    }

    /// The next, as [`Self::recv`] waits for it.
    pub fn poll_recv(&mut self, context: &Context<'_>) -> Poll<Option<T>> {
        self.poll(context, VecDeque::pop_front)
    }

    /// Lets nobody be woken until the next look.
    pub fn look_away(&mut self) {
        self.0.state(|state| state.waker = None);
    }

    /// Takes all that waits, but no more than `most`; waits until there is something, and takes nothing
    /// where nobody can send any more. Loses nothing when it is cancelled.
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

    /// The next, if there is one.
    pub fn try_recv(&mut self) -> Option<T> {
        self.take(VecDeque::pop_front, |_| {})
    }

    /// Refuses what is sent from now on; what waits can still be taken.
    pub fn close(&mut self) {
        self.0.close(|_| {});
    }

    /// Leaves a note. From now on [`Self::recv`] is not woken by the end of the last sender: it must be
    /// polled whenever that may have come.
    pub fn sleep_through_the_end(&mut self, note: N) {
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

    /// Takes what there is, and tells those who have waited for room; `or` is done where there is nothing.
    fn take<R>(
        &self,
        take: impl FnOnce(&mut VecDeque<T>) -> Option<R>,
        or: impl FnOnce(&mut State<T, N>),
    ) -> Option<R> {
        let (is_news, taken) = self.0.state(|state| {
            let is_news = state.is_awaited && state.waiting.len() == self.0.room;
            let taken = take(&mut state.waiting);
            if taken.is_none() {
                or(state);
            }
            (is_news, taken)
        });
        // Those who wait for room have seen it full, and so has whoever takes next.
        if is_news {
            self.0.changed.notify_waiters();
        }
        taken
    }
}

impl<T, N> Drop for Receiver<T, N> {
    fn drop(&mut self) {
        let left = self.0.close(|state| (std::mem::take(&mut state.waiting), state.waker.take()));
        // Outside of the lock, for what is dropped may send, too.
        drop(left);
    }
}

impl<T, N> fmt::Debug for Sender<T, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waiting = self.0.state(|state| state.waiting.len());
        f.debug_struct("Sender").field("room", &self.0.room).field("waiting", &waiting).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::Wake;

    use tokio::task::yield_now;
    use tokio_util::task::TaskTracker;

    use super::*;

    fn of_numbers(room: usize) -> (Sender<u32>, Receiver<u32>) {
        queue(room)
    }

    #[tokio::test]
    async fn what_is_sent_comes_in_order_and_then_the_end() {
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
    async fn who_takes_waits_for_something_and_for_the_end() {
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
    async fn much_is_taken_together_within_bounds() {
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
    async fn who_sends_waits_for_room_and_for_nobody() {
        let (sender, mut receiver) = of_numbers(1);
        sender.send(1).await.unwrap();
        assert_eq!(sender.try_send(2), Err(Unsent::Full(2)));
        let (sent, taken) = tokio::join!(sender.send(3), receiver.recv());
        assert_eq!((sent, taken), (Ok(()), Some(1)));
        let (sent, ()) = tokio::join!(sender.send(4), async { drop(receiver) });
        assert_eq!(sent, Err(Closed));
        assert_eq!(sender.try_send(5), Err(Unsent::Closed(5)));
        sender.closed().await;
    }

    #[tokio::test]
    async fn of_many_who_wait_for_room_each_has_some_in_the_end() {
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
            // Now one is taken, now two, and those who wait have had their turn or not.
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
    async fn what_waits_when_it_is_closed_can_be_taken() {
        let (sender, mut receiver) = of_numbers(2);
        sender.try_send(1).unwrap();
        let (closed, ()) = tokio::join!(sender.closed(), async { receiver.close() });
        assert_eq!((closed, sender.send(2).await), ((), Err(Closed)));
        assert_eq!((receiver.recv().await, receiver.recv().await), (Some(1), None));
    }

    #[test]
    fn who_sleeps_through_the_end_is_not_woken_by_it() {
        struct Bell(AtomicUsize);
        impl Wake for Bell {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        for (sleeps, woken) in [(false, 1), (true, 0)] {
            let (sender, mut receiver) = of_numbers(1);
            if sleeps {
                receiver.sleep_through_the_end(());
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
    fn who_sends_reads_the_note() {
        let (sender, mut receiver) = queue::<u32, Option<&str>>(1);
        assert_eq!(sender.note(|note| *note), None);
        receiver.sleep_through_the_end(Some("a"));
        assert_eq!(sender.note(|note| *note), Some("a"));
    }
}
