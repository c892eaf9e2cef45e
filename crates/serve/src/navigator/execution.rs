//! Calls the tool that was found. Only failed server starts are retried, because the server has
//! received nothing then.

use std::sync::Arc;

use serde::Deserialize;
use tokio::time::Instant;

use crate::navigator::budget::NavigationBudget;
use crate::navigator::error::{TaskError, TaskErrorKind};
use crate::navigator::server_start::{TRIES, start};
use crate::navigator::step::{NavigationStep, StepListener};
use crate::navigator::task::ToolOutcome;
use crate::navigator::tree::ToolNode;
use mcp_workbench_core::backend::{self, RpcOutcome};
use mcp_workbench_core::catalog::ToolDefinition;
use mcp_workbench_core::gateway::{CallError, Gateway, RequestContext};
use mcp_workbench_wire::json::RawJson;

/// Calls a tool; if its server fails to start, retries the start and then calls again.
pub(crate) async fn call(
    gateway: &Gateway,
    context: &RequestContext<'_>,
    tool: &ToolNode,
    arguments: Option<&RawJson>,
    budget: &NavigationBudget,
    heard: &StepListener<'_>,
) -> Result<RpcOutcome, CallError> {
    // Elicitations of the server are sent as separate requests. The modern form would make the
    // agent repeat its request and with it the whole task.
    let context = RequestContext { is_modern: false, ..*context };
    // Start retries end at the deadline for choosing, which the call doesn't extend.
    let until = budget.deadline();
    let called = || {
        heard(&NavigationStep::Execution { tool: &tool.qualified_name(), id: &tool.id, arguments });
        Box::pin(gateway.calls().call(&tool.id, arguments, &[], &context))
    };
    let first = called().await;
    let Err(CallError::Server { server, error: backend::BackendError::StartFailed(failure) }) =
        &first
    else {
        return first;
    };
    if Instant::now() >= until {
        return first;
    }
    heard(&NavigationStep::StartRetry { server: server.as_str(), why: &failure.reason });
    // Not by another call: each call can prompt the user.
    match start(gateway, &tool.id.server_ref(), context.agent, TRIES - 1, until, heard).await {
        Ok(()) => called().await,
        Err(_) => first,
    }
}

/// The current definition of a tool, if its server has been listed.
pub(crate) fn current_definition(
    gateway: &Gateway,
    tool: &ToolNode,
) -> Option<Arc<ToolDefinition>> {
    let view = gateway.snapshot().view(&tool.id.toolbox);
    let shown = view.tool(tool.id.server.as_str(), &tool.id.tool)?;
    Some(Arc::clone(&shown.definition))
}

pub(crate) fn outcome_from_call(
    called: Result<RpcOutcome, CallError>,
    tool: &ToolNode,
    arguments: Option<&RawJson>,
) -> ToolOutcome {
    match called {
        Ok(RpcOutcome::Result(result)) if !is_error(&result) => ToolOutcome::Result(result),
        Ok(RpcOutcome::Result(result)) => {
            let said = texts(&result).join("\n");
            let suggestion = "read the message, then call execute_task again with corrected \
                              `arguments` or another task";
            let said_nothing = "the tool failed without a message";
            let message = if said.trim().is_empty() { said_nothing } else { &said };
            let failure = TaskError::new(TaskErrorKind::ToolExecutionError, message, suggestion);
            let failure = failure.with_context(Some(context(tool, arguments)));
            ToolOutcome::Failed(TaskError { result: Some(Box::new(result)), ..failure })
        }
        Ok(RpcOutcome::Error(error)) => {
            let suggestion = "read the message: the server rejected the call";
            let failure = TaskError::new(
                TaskErrorKind::ToolExecutionError,
                &protocol_error(&error),
                suggestion,
            );
            ToolOutcome::Failed(failure.with_context(Some(context(tool, arguments))))
        }
        Err(error) => ToolOutcome::Failed(
            error_from_call(&error).with_context(Some(context(tool, arguments))),
        ),
    }
}

fn error_from_call(error: &CallError) -> TaskError {
    let message = error.to_string();
    match error {
        CallError::Server { server, error } => match error {
            backend::BackendError::StartFailed(failure) => {
                TaskError::unavailable(server.as_str(), &failure.reason, &failure.hint)
            }
            backend::BackendError::Remote(unanswered) if !unanswered.may_have_been_received => {
                TaskError::new(TaskErrorKind::ServerUnavailable, &message, &unanswered.hint)
            }
            backend::BackendError::Crashed(_)
            | backend::BackendError::IdleTimeout(_)
            | backend::BackendError::TotalTimeout(_)
            | backend::BackendError::Remote(_) => TaskError::new(
                TaskErrorKind::NoAnswer,
                &message,
                "the call may have had effects, so it was not repeated: first check whether it has",
            ),
            backend::BackendError::Oversized(_) => TaskError::new(
                TaskErrorKind::NoAnswer,
                &message,
                "it was called; request less data",
            ),
            backend::BackendError::InvalidResponse(_) => TaskError::new(
                TaskErrorKind::NoAnswer,
                &message,
                "it was called; its server must be fixed",
            ),
            backend::BackendError::ShuttingDown => TaskError::new(
                TaskErrorKind::NoAnswer,
                &message,
                "retry when the workbench is back",
            ),
        },
        CallError::Refused { hint, .. } => TaskError::new(TaskErrorKind::Refused, &message, hint),
        CallError::TooManySubscriptions(_) => {
            TaskError::new(TaskErrorKind::Refused, &message, "end other subscriptions first")
        }
        CallError::NotAnObject { .. } => TaskError::new(
            TaskErrorKind::InvalidArguments,
            &message,
            "call execute_task again with an object in `arguments`",
        ),
        CallError::InvalidArguments { tool, mismatches } => {
            TaskError::invalid_arguments(&tool.to_string(), mismatches, None)
        }
        CallError::UnknownTool { nearest, .. } => {
            let near: Vec<_> = nearest.iter().map(String::as_str).collect();
            let failure = TaskError::no_match("tool", &near);
            TaskError { message, ..failure }
        }
        CallError::UnknownToolbox { .. }
        | CallError::UnknownServer { .. }
        | CallError::UnknownPrimitive { .. } => {
            let failure = TaskError::no_match("tool", &[]);
            TaskError {
                message,
                suggestion: "retry: the available tools changed".to_owned(),
                ..failure
            }
        }
    }
}

fn context(tool: &ToolNode, arguments: Option<&RawJson>) -> String {
    let arguments = arguments.map_or("{}".into(), RawJson::as_str);
    format!("{} was called with {arguments}", tool.qualified_name())
}

fn is_error(result: &RawJson) -> bool {
    result.member("isError").is_some_and(|is_error| is_error.as_bytes() == b"true")
}

pub(crate) fn blocks(result: &RawJson) -> Vec<RawJson> {
    result.member("content").and_then(|content| content.items()).unwrap_or_default()
}

pub(crate) fn text(block: &RawJson) -> Option<String> {
    let kind = block.member("type")?;
    (kind.decode_string()? == "text").then_some(())?;
    block.member("text")?.decode_string_lossy().map(std::borrow::Cow::into_owned)
}

pub(crate) fn texts(result: &RawJson) -> Vec<String> {
    blocks(result).iter().filter_map(text).collect()
}

/// Formats a JSON-RPC error: message, code and the `hint` in its data.
fn protocol_error(error: &RawJson) -> String {
    #[derive(Deserialize)]
    struct Parts {
        code: i64,
        message: String,
    }

    let hint = error.member("data").and_then(|data| data.member("hint"));
    let hint = hint.as_ref().and_then(RawJson::decode_string);
    let hint = hint.map(|hint| format!("\n{hint}")).unwrap_or_default();
    match error.parse::<Parts>() {
        Ok(Parts { code, message }) => format!("{message} (code {code}){hint}"),
        Err(_) => error.as_str().into_owned(),
    }
}
