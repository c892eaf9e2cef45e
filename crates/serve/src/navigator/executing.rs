//! The last step: the tool is called as every tool is called. Only a server that could not be
//! started is tried again, for nothing was sent to it; the call is made again when it runs.

use std::sync::Arc;

use serde::Deserialize;
use tokio::time::Instant;

use crate::backend::{self, Outcome};
use crate::catalog::ToolDefinition;
use crate::gateway::{CallError, Gateway, RequestContext};
use crate::navigator::starting::{TRIES, start};
use crate::navigator::tree::Tool;
use crate::navigator::{Budget, Came, Failure, Hear, Kind, Step};
use crate::raw::Raw;

/// Calls a tool.
pub(crate) async fn call(
    gateway: &Gateway,
    context: &RequestContext<'_>,
    tool: &Tool,
    arguments: Option<&Raw>,
    budget: &Budget,
    heard: &Hear<'_>,
) -> Result<Outcome, CallError> {
    // What a server wants to know while it runs is asked as a question of its own: if the agent made
    // its request again, the task would be begun again.
    let context = RequestContext { is_modern: false, ..*context };
    // It goes on with what was left for choosing when it began.
    let until = budget.until();
    let called = || {
        heard(&Step::Execution { tool: &tool.word(), id: &tool.id, arguments });
        Box::pin(gateway.call(&tool.id, arguments, &[], &context))
    };
    let first = called().await;
    let Err(CallError::Server { server, error: backend::Error::StartFailed(failure) }) = &first
    else {
        return first;
    };
    if Instant::now() >= until {
        return first;
    }
    heard(&Step::Again { server: server.as_str(), why: &failure.reason });
    // Not by calling, which may ask the user each time.
    match start(gateway, &tool.id.server_ref(), context.agent, TRIES - 1, until, heard).await {
        Ok(()) => called().await,
        Err(_) => first,
    }
}

/// The definition of a tool that its server lists now, if it has been listed.
pub(crate) fn as_listed(gateway: &Gateway, tool: &Tool) -> Option<Arc<ToolDefinition>> {
    let view = gateway.snapshot().view(&tool.id.toolbox);
    let shown = view.tool(tool.id.server.as_str(), &tool.id.tool)?;
    Some(Arc::clone(&shown.definition))
}

/// Turns the outcome of a call into an outcome of the task.
pub(crate) fn judge(
    called: Result<Outcome, CallError>,
    tool: &Tool,
    arguments: Option<&Raw>,
) -> Came {
    match called {
        Ok(Outcome::Result(result)) if !is_error(&result) => Came::Result(result),
        Ok(Outcome::Result(result)) => {
            let said = texts(&result).join("\n");
            let suggestion = "read what it says, and call execute_task again with the right ones in \
                              `arguments`, or with another task";
            let said_nothing = "it says that it failed, and nothing else";
            let message = if said.trim().is_empty() { said_nothing } else { &said };
            let failure = Failure::new(Kind::ToolExecutionError, message, suggestion);
            let failure = failure.within(Some(context(tool, arguments)));
            Came::Failed(Failure { result: Some(Box::new(result)), ..failure })
        }
        Ok(Outcome::Error(error)) => {
            let suggestion = "read what it says: its server refused the call";
            let failure =
                Failure::new(Kind::ToolExecutionError, &protocol_error(&error), suggestion);
            Came::Failed(failure.within(Some(context(tool, arguments))))
        }
        Err(error) => Came::Failed(not_called(&error).within(Some(context(tool, arguments)))),
    }
}

/// Why a call did not get an answer.
fn not_called(error: &CallError) -> Failure {
    let message = error.to_string();
    match error {
        CallError::Server { server, error } => match error {
            backend::Error::StartFailed(failure) => {
                Failure::unavailable(server.as_str(), &failure.reason, &failure.hint)
            }
            backend::Error::Unanswered(unanswered) if !unanswered.may_have_come => {
                Failure::new(Kind::ServerUnavailable, &message, &unanswered.hint)
            }
            backend::Error::Died(_)
            | backend::Error::TimedOut(_)
            | backend::Error::TookTooLong(_)
            | backend::Error::Unanswered(_) => Failure::new(
                Kind::NoAnswer,
                &message,
                "it may have done what it was called for, so it was not called again: find out \
                 first whether it has",
            ),
            backend::Error::Oversized(_) => {
                Failure::new(Kind::NoAnswer, &message, "it was called; ask for less at once")
            }
            backend::Error::ShuttingDown => {
                Failure::new(Kind::NoAnswer, &message, "try again when the workbench runs again")
            }
        },
        CallError::Refused { hint, .. } => Failure::new(Kind::Refused, &message, hint),
        CallError::NotAnObject { .. } => Failure::new(
            Kind::InvalidArguments,
            &message,
            "call execute_task again with an object in `arguments`",
        ),
        CallError::BadArguments { tool, mismatches } => {
            Failure::invalid_arguments(&tool.to_string(), mismatches, None)
        }
        CallError::UnknownTool { nearest, .. } => {
            let near: Vec<_> = nearest.iter().map(String::as_str).collect();
            let failure = Failure::no_match("tool", &near);
            Failure { message, ..failure }
        }
        CallError::UnknownToolbox { .. }
        | CallError::UnknownServer { .. }
        | CallError::UnknownPrimitive { .. } => {
            let failure = Failure::no_match("tool", &[]);
            Failure {
                message,
                suggestion: "say it again: what there is has changed".to_owned(),
                ..failure
            }
        }
    }
}

fn context(tool: &Tool, arguments: Option<&Raw>) -> String {
    let arguments = arguments.map_or("{}".into(), Raw::as_str);
    format!("{} was called with {arguments}", tool.word())
}

fn is_error(result: &Raw) -> bool {
    result.member("isError").is_some_and(|is_error| is_error.as_bytes() == b"true")
}

/// The blocks of a result.
pub(crate) fn blocks(result: &Raw) -> Vec<Raw> {
    result.member("content").and_then(|content| content.items()).unwrap_or_default()
}

/// The text of a block that is one.
pub(crate) fn text(block: &Raw) -> Option<String> {
    let kind = block.member("type")?;
    (kind.text()? == "text").then_some(())?;
    block.member("text")?.text().map(std::borrow::Cow::into_owned)
}

/// The texts of a result.
pub(crate) fn texts(result: &Raw) -> Vec<String> {
    blocks(result).iter().filter_map(text).collect()
}

/// An error of the protocol as a text: its message and its code, and what we know besides.
fn protocol_error(error: &Raw) -> String {
    #[derive(Deserialize)]
    struct Parts {
        code: i64,
        message: String,
    }

    let hint = error.member("data").and_then(|data| data.member("hint"));
    let hint = hint.as_ref().and_then(Raw::text);
    let hint = hint.map(|hint| format!("\n{hint}")).unwrap_or_default();
    match error.parse::<Parts>() {
        Ok(Parts { code, message }) => format!("{message} (code {code}){hint}"),
        Err(_) => error.as_str().into_owned(),
    }
}
