//! The room for what a client has not taken yet. A message that finds none waits, for as long as the
//! client takes others; then it is left out, and whoever waits for its answer is told so.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::backend::Outcome;
use crate::gateway::Purse;
use crate::observe::Holding;
use crate::wire::budget::Charge;
use crate::wire::code::UNAVAILABLE;
use crate::wire::incoming::{self, Sent, error_object};
use crate::wire::writer::Message;

/// How long a message waits at most while its client takes nothing of what was sent before.
const PATIENCE: Duration = Duration::from_secs(30);
/// The room that a caller has.
#[derive(Clone)]
pub(crate) struct Room(Arc<Purse>);

impl Room {
    /// The room of this caller.
    pub(crate) fn of(purse: &Arc<Purse>) -> Self {
        Self(Arc::clone(purse))
    }

    /// Waits until there is room for a message, which then holds it. Returns the message to send: an
    /// error in place of an answer that is given up, nothing in place of anything else.
    pub(crate) async fn wait_for(&self, message: Message) -> Option<(Message, Charge)> {
        let mut charge = self.0.untaken().charge();
        let length = message.parts.iter().map(Bytes::len).sum();
        if charge.grow_within(length, PATIENCE).await {
            return Some((message, charge));
        }
        self.0.reaches(Holding::Bytes);
        let Message { parts, written } = message;
        let Some(id) = incoming::answered(&parts) else {
            // Who asks must know that nobody has been asked.
            if incoming::sent(&parts) != Sent::Question {
                Message::done(written);
            }
            return None;
        };
        let text = format!(
            "the answer has {length} bytes, and {} has not taken so much of what was sent before that \
             there is no room for it (limits.perCaller.maxBytesInFlight, limits.maxBytesInFlight): take \
             the other answers first",
            self.0.payer()
        );
        let error = Outcome::Error(error_object(UNAVAILABLE, &text, None));
        let parts = incoming::answer(id, error);
        Some((Message { parts, written }, Charge::default()))
    }
}

#[cfg(test)]
mod tests;
