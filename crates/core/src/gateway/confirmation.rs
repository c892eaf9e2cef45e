//! User confirmation of calls.
//!
//! The gateway elicits the confirmation before it sends anything to the server, or has the call wait
//! in the approval queue. Only the action `accept` confirms a call in the client.

pub(crate) mod message;

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use crate::backend::{RpcOutcome, ServerRequest, events};
use crate::gateway::approvals::{ApprovalFailure, ApprovalQuestion, ApprovalQueue};
use crate::gateway::confirmation::message::confirmation_message;
use crate::gateway::progress::with_heartbeat;
use crate::gateway::request_context::RequestContext;
use crate::policy::RiskReason;
use crate::telemetry::{
    ApprovalContext, ApprovalOutcome, Approver, Event, QuotaOwner, Redactor, Telemetry,
};
use mcp_workbench_names::ToolId;
use mcp_workbench_settings::{ApprovalConfig, FirstAsked};
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
    /// An operator denied the call in the approval queue.
    Denied,
    /// No approval arrived within this time.
    Expired(Duration),
    /// Too many calls wait for an approval.
    QueueFull,
    /// The client returned an error or an invalid result.
    Failed,
}

/// A call that needs a confirmation.
pub(crate) struct Confirmation<'a> {
    pub(crate) tool: &'a ToolId,
    pub(crate) concern: RiskReason,
    /// As the agent gave them.
    pub(crate) arguments: Option<&'a RawJson>,
    pub(crate) secrets: &'a Redactor,
    /// How long the client's user can take to answer.
    pub(crate) timeout: Duration,
    pub(crate) observer: &'a Telemetry,
}

impl Confirmation<'_> {
    /// Asks the user of the client, or the approval queue, as the configuration says. `queue` is
    /// `None` if no one could answer.
    pub(crate) async fn obtain(
        &self,
        queue: Option<&ApprovalQueue>,
        config: &ApprovalConfig,
        context: &RequestContext<'_>,
    ) -> Result<(), ConfirmationError> {
        let Some((queue, terms)) = queue.zip(context.approval) else {
            return self.ask_client(context).await;
        };
        if config.first == FirstAsked::Client {
            match self.ask_client(context).await {
                Err(ConfirmationError::Unsupported) => {}
                answered => return answered,
            }
        }
        let asked = ApprovalQuestion {
            agent: context.caller.agent.as_ref(),
            client: terms.client,
            session: context.agent.id.number(),
            owner: context.agent.purse().map_or(QuotaOwner::Local, |quota| quota.payer().clone()),
            tool: self.tool,
            concern: self.concern,
            arguments: self.arguments,
            secrets: self.secrets,
            timeout: config.timeout,
            client_deadline: terms.deadline,
        };
        let waiting = || "waiting for an approval of the call".to_owned();
        let approved = with_heartbeat(waiting, context, queue.wait(&asked)).await;
        approved.map_err(|failure| match failure {
            ApprovalFailure::NotShown(why) => ConfirmationError::NotShown(why),
            ApprovalFailure::Full => ConfirmationError::QueueFull,
            ApprovalFailure::Denied => ConfirmationError::Denied,
            ApprovalFailure::Expired(patience) => ConfirmationError::Expired(patience),
        })
    }

    /// Asks the user of the client, and reports the answer.
    async fn ask_client(&self, context: &RequestContext<'_>) -> Result<(), ConfirmationError> {
        let began = Instant::now();
        let agent = context.caller.agent.as_ref();
        let asking = async {
            let message =
                confirmation_message(agent, self.tool, self.concern, self.arguments, self.secrets);
            let message = message.map_err(ConfirmationError::NotShown)?;
            match context.events {
                Some(events) => elicit(events, &form(&message), self.timeout).await,
                None => Err(ConfirmationError::Unsupported),
            }
        };
        let waiting = || "waiting for the user to confirm the call".to_owned();
        let answered = with_heartbeat(waiting, context, asking).await;
        let by = context.operator.cloned().map_or(Approver::Client, Approver::Operator);
        let (outcome, by) = match &answered {
            Ok(()) => (ApprovalOutcome::Approved, Some(&by)),
            Err(ConfirmationError::Declined | ConfirmationError::Cancelled) => {
                (ApprovalOutcome::Denied, Some(&by))
            }
            Err(ConfirmationError::TimedOut(_)) => (ApprovalOutcome::Expired, None),
            // The client gave no answer, and the call's own record says so.
            Err(_) => return answered,
        };
        let (session, tool, waited) = (context.agent.id.number(), self.tool, began.elapsed());
        let call = ApprovalContext { id: "", agent, session, tool, waited };
        self.observer.bus().emit(Event::ApprovalEnded(&call, outcome, by));
        answered
    }
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
                "tell the user to use a client that supports elicitation, to set up approvals with \
                 `mcp-workbench approvals key`, or to change `dangerousTools` or \
                 `requireConfirmation`",
            ),
            Self::Denied => {
                ("the user denied the call".to_owned(), "do not retry unless the user asks for it")
            }
            Self::Expired(patience) => (
                format!("it was not approved within {} s", patience.as_secs_f32().round()),
                "ask the user to run `mcp-workbench approvals --watch`, then call it again",
            ),
            Self::QueueFull => (
                "too many calls already wait for an approval".to_owned(),
                "wait until the user has answered the others",
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
