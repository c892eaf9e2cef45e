//! Calls that the user is asked about first.
//!
//! The question is an elicitation like one of a server's, so it goes to the user in the way of the
//! agent's era, and nothing has been sent to the server when it does. Only who says yes agrees.

mod wording;

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;

use crate::backend::{Outcome, Question, events};
use crate::gateway::confirming::wording::ask;
use crate::gateway::opening::while_waiting;
use crate::gateway::{CallError, Gateway, RequestContext};
use crate::name::ToolId;
use crate::observe::{CallContext, Stop};
use crate::policy::Concern;
use crate::raw::Raw;

const METHOD: &str = "elicitation/create";
/// JSON-RPC: nobody there knows the method.
const METHOD_NOT_FOUND: &[u8] = b"-32601";

/// Why a call is not confirmed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unconfirmed {
    /// Not all of the call can be shown to the user, for this reason.
    NotShown(String),
    /// The user said no.
    Declined,
    /// The user said neither yes nor no.
    Dismissed,
    /// Nobody said anything for so long.
    Ignored(Duration),
    /// The agent's client cannot ask its user, or nobody is there.
    Unable,
    /// The agent's client did not answer as it should.
    Failed,
}

impl Gateway {
    /// Asks the user whether a call may be made, with these arguments as the agent gave them.
    pub(crate) async fn confirm(
        &self,
        tool: &ToolId,
        concern: Concern,
        arguments: Option<&Raw>,
        context: &RequestContext<'_>,
        call: &mut CallContext<'_>,
    ) -> Result<(), CallError> {
        let patience = self.config.limits.confirm_timeout;
        let agent = context.caller.agent.as_ref();
        let message = ask(agent, tool, concern, arguments, self.secrets());
        let asking = async {
            let message = message.map_err(Unconfirmed::NotShown)?;
            match context.events {
                Some(events) => put(events, &form(&message), patience).await,
                None => Err(Unconfirmed::Unable),
            }
        };
        let waiting = || "waiting for the user to confirm the call".to_owned();
        let confirmed = while_waiting(waiting, context, asking).await;
        call.details.is_confirmed = confirmed.is_ok();
        confirmed.map_err(|why| {
            call.details.stopped_by = Some(Stop::Confirmation);
            let (reason, hint) = why.explain(concern);
            CallError::Refused { tool: tool.clone(), reason, hint: hint.to_owned() }
        })
    }
}

/// The parameters of a question that is answered with yes or no.
fn form(message: &str) -> Value {
    json!({
        "message": message,
        "requestedSchema": {"type": "object", "properties": {}},
    })
}

/// Puts a question with these parameters to the user. It is taken back when the time is up, or this is
/// dropped.
pub(crate) async fn put(
    events: &events::Sender,
    asked: &Value,
    patience: Duration,
) -> Result<(), Unconfirmed> {
    let (question, answer) = Question::here(METHOD.to_owned(), Some(Raw::encode(asked)));
    let answered = async {
        events.send(question.into()).await.map_err(|_| Unconfirmed::Unable)?;
        // It is dropped by who has nobody to ask.
        answer.await.map_err(|_| Unconfirmed::Unable)
    };
    let answered = timeout(patience, answered).await;
    match answered.map_err(|_| Unconfirmed::Ignored(patience))?? {
        Outcome::Result(answer) => {
            let action = answer.member("action");
            match action.as_ref().and_then(Raw::text).as_deref() {
                Some("accept") => Ok(()),
                Some("decline") => Err(Unconfirmed::Declined),
                Some("cancel") => Err(Unconfirmed::Dismissed),
                _ => Err(Unconfirmed::Failed),
            }
        }
        Outcome::Error(error) => {
            let code = error.member("code");
            let cannot = code.is_some_and(|code| code.as_bytes() == METHOD_NOT_FOUND);
            Err(if cannot { Unconfirmed::Unable } else { Unconfirmed::Failed })
        }
    }
}

impl Unconfirmed {
    /// Returns the reason that a model is told, and what it is to do.
    fn explain(self, concern: Concern) -> (String, &'static str) {
        match self {
            Self::NotShown(why) => (
                format!("the user has to confirm it, because {concern}, and {why}"),
                "make it with fewer or shorter arguments, which can be shown to the user",
            ),
            Self::Declined => (
                "the user was asked, and declined".to_owned(),
                "do not try it again unless the user wants it",
            ),
            Self::Dismissed => (
                "the user was asked, and did not decide".to_owned(),
                "ask the user whether it is wanted before you try it again",
            ),
            Self::Ignored(patience) => (
                format!("the user was asked, and did not answer for {} s", patience.as_secs_f32()),
                "ask the user whether it is wanted before you try it again",
            ),
            Self::Unable => (
                format!(
                    "the user has to confirm it, because {concern}, and cannot be asked through \
                     this client"
                ),
                "tell the user that it takes a client that supports elicitation, or another \
                 setting of `dangerousTools` or `requireConfirmation`",
            ),
            Self::Failed => (
                format!(
                    "the user has to confirm it, because {concern}, and the client gave no answer"
                ),
                "tell the user that the client could not ask for a confirmation",
            ),
        }
    }
}

#[cfg(test)]
mod tests;
