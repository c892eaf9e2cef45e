//! The way of events to an agent: a queue that knows the request that is worked on meanwhile.

use crate::backend::question::Event;
use crate::wire::cancellation::Cancellation;
pub use crate::wire::queue::Closed;
use crate::wire::queue::{self, Unsent, queue};

/// Where events of an agent go; clones lead to the same.
#[derive(Clone, Debug)]
pub struct Sender(queue::Sender<Event, Option<Cancellation>>);

/// The end that takes events. When it is dropped, nothing can be sent any more.
pub struct Receiver(queue::Receiver<Event, Option<Cancellation>>);

/// A way on which so many events may wait.
pub fn channel(room: usize) -> (Sender, Receiver) {
    let (sender, receiver) = queue(room);
    (Sender(sender), Receiver(receiver))
}

impl Sender {
    /// The request that is worked on meanwhile, which may be cancelled.
    pub fn cancellation(&self) -> Option<Cancellation> {
        self.0.note(Option::clone)
    }

    /// Sends an event; waits until there is room for it.
    pub async fn send(&self, event: Event) -> Result<(), Closed> {
        self.0.send(event).await
    }

    /// Sends an event if there is room for it; else gives it back.
    pub fn offer(&self, event: Event) -> Option<Event> {
        self.0.try_send(event).err().map(|(Unsent::Full(event) | Unsent::Closed(event))| event)
    }
}

impl Receiver {
    /// Lets those who send know which request the work is for. From now on [`Self::recv`] is not woken by
    /// the end of the last sender: it must be polled together with that work, which ends then.
    pub fn belongs_to(&mut self, request: &Cancellation) {
        self.0.sleep_through_the_end(Some(request.clone()));
    }

    /// The next event; `None` once there is none and nobody can send any more. Loses nothing when
    /// it is cancelled.
    pub async fn recv(&mut self) -> Option<Event> {
        self.0.recv().await
    }

    /// The next event, if there is one.
    pub fn try_recv(&mut self) -> Option<Event> {
        self.0.try_recv()
    }
}
