//! Messages and questions of a running command for the user.

use tokio::sync::{mpsc, oneshot};

/// Capacity of the channel.
const CAPACITY: usize = 64;

pub(super) enum CommandEvent {
    /// The current activity, shown next to a spinner.
    Status(String),
    /// A call to confirm. Without an answer it is declined.
    Confirm(String, oneshot::Sender<bool>),
}

pub(crate) struct EventSender(mpsc::Sender<CommandEvent>);

pub(super) fn channel() -> (EventSender, mpsc::Receiver<CommandEvent>) {
    let (sender, receiver) = mpsc::channel(CAPACITY);
    (EventSender(sender), receiver)
}

impl EventSender {
    /// Reports the status, unless the reader is slow.
    pub(super) fn status(&self, text: String) {
        // A later status replaces it.
        let _ = self.0.try_send(CommandEvent::Status(text));
    }

    /// Returns `true` if the user confirms the call.
    pub(super) async fn confirm(&self, message: String) -> bool {
        let (answer, answered) = oneshot::channel();
        let sent = self.0.send(CommandEvent::Confirm(message, answer)).await;
        sent.is_ok() && answered.await.unwrap_or(false)
    }
}
