//! Event channel to an agent, which knows the request being handled.

use crate::backend::server_request::AgentEvent;
use crate::wire::cancellation::Cancellation;
pub use crate::wire::channel::SendError;
use crate::wire::channel::{self, TrySendError};

/// The sending half. Clones share the channel.
#[derive(Clone, Debug)]
pub struct Sender(channel::Sender<AgentEvent, Option<Cancellation>>);

/// The receiving half. Dropping it closes the channel.
pub struct Receiver(channel::Receiver<AgentEvent, Option<Cancellation>>);

/// Creates a channel that holds at most `room` events.
pub fn channel(capacity: usize) -> (Sender, Receiver) {
    let (sender, receiver) = channel::channel(capacity);
    (Sender(sender), Receiver(receiver))
}

impl Sender {
    pub fn cancellation(&self) -> Option<Cancellation> {
        self.0.note(Option::clone)
    }

    pub async fn send(&self, event: AgentEvent) -> Result<(), SendError> {
        self.0.send(event).await
    }

    /// Sends an event if there is room, and otherwise returns it.
    pub fn try_send(&self, event: AgentEvent) -> Option<AgentEvent> {
        self.0
            .try_send(event)
            .err()
            .map(|(TrySendError::Full(event) | TrySendError::Closed(event))| event)
    }
}

impl Receiver {
    /// Binds the channel to a request, so that senders can observe its cancellation. Dropping the
    /// last sender then no longer wakes [`Self::recv`]: poll it together with the request's future.
    pub fn bind_to_request(&mut self, request: &Cancellation) {
        self.0.ignore_sender_drop(Some(request.clone()));
    }

    /// Returns the next event, or `None` once the channel is empty and has no senders. Cancel-safe.
    pub async fn recv(&mut self) -> Option<AgentEvent> {
        self.0.recv().await
    }

    pub fn try_recv(&mut self) -> Option<AgentEvent> {
        self.0.try_recv()
    }
}
