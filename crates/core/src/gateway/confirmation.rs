//! User confirmation of calls.
//!
//! The gateway elicits the confirmation before it sends anything to the server. Only the action
//! `accept` confirms a call.

pub(crate) mod message;

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use crate::backend::{RpcOutcome, ServerRequest, events};
use crate::gateway::progress::with_heartbeat;
use crate::gateway::request_context::RequestContext;
use crate::policy::RiskReason;
use mcp_workbench_wire::json::RawJson;

const METHOD: &str = "elicitation/create";
const METHOD_NOT_FOUND: &[u8] = b"-32601";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ConfirmationError {
    /// Reason why the call can't be displayed in full.
    NotShown(String),
    Declined,
    Cancelled,
    TimedOut(Duration),
    Unsupported,
    /// The client returned an error or an invalid result.
    Failed,
}

/// Asks the user to confirm a call. An `Err` is the reason why the call can't be displayed.
pub(crate) async fn ask(
    message: Result<String, String>,
    patience: Duration,
    context: &RequestContext<'_>,
) -> Result<(), ConfirmationError> {
    let asking = async {
        let message = message.map_err(ConfirmationError::NotShown)?;
        match context.events {
            Some(events) => elicit(events, &form(&message), patience).await,
            None => Err(ConfirmationError::Unsupported),
        }
    };
    let waiting = || "waiting for the user to confirm the call".to_owned();
    with_heartbeat(waiting, context, asking).await
}

/// A form without fields, which the user can only accept, decline or cancel.
fn form(message: &str) -> Value {
    json!({
        "message": message,
        "requestedSchema": {"type": "object", "properties": {}},
    })
}

/// Sends an elicitation, which is withdrawn after `patience` or when the future is dropped.
pub(crate) async fn elicit(
    events: &events::Sender,
    asked: &Value,
    patience: Duration,
) -> Result<(), ConfirmationError> {
    let deadline = Instant::now().checked_add(patience);
    let (mut request, answer) =
        ServerRequest::from_workbench(METHOD.to_owned(), Some(RawJson::encode(asked)));
    request.deadline = deadline;
    let answered = async {
        events.send(request.into()).await.map_err(|_| ConfirmationError::Unsupported)?;
        // The sender is dropped if no client supports it.
        answer.await.map_err(|_| ConfirmationError::Unsupported)
    };
    let answered = timeout(patience, answered).await;
    let answered = answered.map_err(|_| ConfirmationError::TimedOut(patience))??;
    // Nothing polls a suspended call, so its timeout can't fire before the answer arrives.
    if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
        return Err(ConfirmationError::TimedOut(patience));
    }
    match answered {
        RpcOutcome::Result(answer) => {
            let action = answer.member("action");
            match action.as_ref().and_then(RawJson::decode_string).as_deref() {
                Some("accept") => Ok(()),
                Some("decline") => Err(ConfirmationError::Declined),
                Some("cancel") => Err(ConfirmationError::Cancelled),
                _ => Err(ConfirmationError::Failed),
            }
        }
        RpcOutcome::Error(error) => {
            let code = error.member("code");
            let cannot = code.is_some_and(|code| code.as_bytes() == METHOD_NOT_FOUND);
            Err(if cannot { ConfirmationError::Unsupported } else { ConfirmationError::Failed })
        }
    }
}

impl ConfirmationError {
    /// Returns the reason and the hint for the model.
    pub(crate) fn explain(self, concern: RiskReason) -> (String, &'static str) {
        match self {
            Self::NotShown(why) => (
                format!("the user must confirm it because {concern}, but {why}"),
                "call it with fewer or shorter arguments, which can be shown",
            ),
            Self::Declined => (
                "the user declined the call".to_owned(),
                "do not retry unless the user asks for it",
            ),
            Self::Cancelled => {
                ("the user dismissed the confirmation".to_owned(), "ask the user whether to retry")
            }
            Self::TimedOut(patience) => (
                format!("the user did not answer within {} s", patience.as_secs_f32()),
                "ask the user whether to retry",
            ),
            Self::Unsupported => (
                format!("the user must confirm it because {concern}, but this client cannot ask"),
                "tell the user to use a client that supports elicitation, or to change \
                 `dangerousTools` or `requireConfirmation`",
            ),
            Self::Failed => (
                format!(
                    "the user must confirm it because {concern}, but the client gave no answer"
                ),
                "tell the user that the client could not ask for confirmation",
            ),
        }
    }
}

#[cfg(test)]
mod tests;
