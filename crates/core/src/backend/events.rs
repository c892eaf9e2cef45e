//! Event channel to an agent, which knows the request being handled.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use crate::backend::server_request::AgentEvent;
use mcp_workbench_wire::cancellation::Cancellation;

/// The receiver is gone. The event was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendError;

/// The sending half. Clones share the channel.
#[derive(Clone, Debug)]
pub struct Sender {
    /// Boxed, because the channel has room for 32 events from the start.
    events: mpsc::Sender<Box<AgentEvent>>,
    request: Arc<Mutex<Option<Cancellation>>>,
}

/// The receiving half. Dropping it closes the channel.
pub struct Receiver {
    events: mpsc::Receiver<Box<AgentEvent>>,
    request: Arc<Mutex<Option<Cancellation>>>,
}

/// Creates a channel that holds at most `capacity` events.
pub fn channel(capacity: usize) -> (Sender, Receiver) {
    let (sender, receiver) = mpsc::channel(capacity);
    let request = Arc::default();
    (
        Sender { events: sender, request: Arc::clone(&request) },
        Receiver { events: receiver, request },
    )
}

impl Sender {
    /// Returns the cancellation of the request that the channel is bound to.
    pub fn cancellation(&self) -> Option<Cancellation> {
        self.request.lock().clone()
    }

    /// Sends an event, and waits for room.
    ///
    /// # Errors
    ///
    /// Returns an error if the receiver is gone.
    pub async fn send(&self, event: AgentEvent) -> Result<(), SendError> {
        self.events.send(Box::new(event)).await.map_err(|_| SendError)
    }

    /// Sends an event if there is room, and otherwise returns it.
    pub fn try_send(&self, event: AgentEvent) -> Option<AgentEvent> {
        self.events
            .try_send(Box::new(event))
            .err()
            .map(|(TrySendError::Full(event) | TrySendError::Closed(event))| *event)
    }
}

impl Receiver {
    /// Binds the channel to a request, so that senders can observe its cancellation. A suspended
    /// call continues with another request.
    pub fn bind_to_request(&mut self, request: &Cancellation) {
        let mut bound = self.request.lock();
        *bound = Some(request.clone());
    }

    /// Returns the next event, or `None` once the channel is empty and has no senders. Cancel-safe.
    pub async fn recv(&mut self) -> Option<AgentEvent> {
        self.events.recv().await.map(|event| *event)
    }

    pub fn try_recv(&mut self) -> Option<AgentEvent> {
        self.events.try_recv().ok().map(|event| *event)
    }
}
