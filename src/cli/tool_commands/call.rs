//! The work of `call`.

use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;

use crate::cli::output::CommandError;
use crate::cli::output::tool_result::progress;
use crate::cli::servers::tool_target::pairs_to_json;
use crate::cli::tool_commands::call_error::call_error;
use crate::cli::tool_commands::command::{CommandContext, ToolCommand};
use crate::cli::tool_commands::events::EventSender;
use mcp_workbench_core::backend::{RpcOutcome, ServerRequest, events};
use mcp_workbench_core::gateway::{
    AgentEvent, AgentHandle, ApprovalTerms, CallError, Gateway, RequestContext, StartPriority,
};
use mcp_workbench_names::ToolId;
use mcp_workbench_settings::MACROS;
use mcp_workbench_wire::json::RawJson;

/// Capacity of the channel for events of the call.
const EVENTS: usize = 64;
/// The name of the client in the approval queue.
const CLIENT: &str = "mcp-workbench call";

#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CallCommand {
    /// The first word of the command line. It can be an exposed name, which `tool` is only a guess
    /// of.
    pub(crate) word: String,
    pub(crate) tool: ToolId,
    pub(crate) arguments: GivenArguments,
    /// `true` to explain wrong arguments in the result.
    pub(crate) is_explained: bool,
    /// `true` if a user at a terminal can confirm the call.
    pub(crate) can_ask: bool,
}

/// The arguments on the command line.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum GivenArguments {
    None,
    /// The text of a JSON object.
    Json(String),
    /// Pairs, whose types depend on the schema of the tool.
    Pairs(Vec<(String, String)>),
}

/// The answer of the server: either a result or a JSON-RPC error.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct CallReport {
    pub(crate) tool: ToolId,
    pub(crate) is_error: bool,
    pub(crate) answer: Box<RawValue>,
}

impl ToolCommand for CallCommand {
    type Report = CallReport;

    const NAME: &'static str = "call";
    const HAS_EFFECTS: bool = true;

    async fn execute(&self, context: &CommandContext<'_>) -> Result<CallReport, CommandError> {
        let gateway = context.gateway;
        gateway.views().wait_for_stored_listings().await;
        // A long exposed name doesn't contain the tool's own name.
        let exposed = gateway.snapshot().resolve_registered(&self.word).cloned();
        let tool = exposed.unwrap_or_else(|| self.tool.clone());
        let arguments = self.arguments.to_json(gateway, context.agent, &tool).await?;
        // A macro may have made calls before it asks, so it can't start again elsewhere.
        let can_move = !context.is_shared || tool.server.as_str() != MACROS;
        let can_ask = self.can_ask && can_move;
        let outcome = call(context, &tool, arguments.as_ref(), can_ask).await;
        let outcome = outcome.map_err(|error| call_error(&error))?;
        // JSON output is exactly the server's answer, without added explanations.
        let outcome = if self.is_explained {
            gateway.views().with_argument_hints(&tool, arguments.as_ref(), outcome)
        } else {
            outcome
        };
        let (is_error, answer) = match &outcome {
            RpcOutcome::Result(result) => (false, result),
            RpcOutcome::Error(error) => (true, error),
        };
        Ok(CallReport { tool, is_error, answer: to_raw_value(answer)? })
    }
}

async fn call(
    context: &CommandContext<'_>,
    tool: &ToolId,
    arguments: Option<&RawJson>,
    can_ask: bool,
) -> Result<RpcOutcome, CallError> {
    let CommandContext { gateway, caller, agent, events: user, is_shared } = *context;
    let (sender, mut heard) = events::channel(EVENTS);
    let context = RequestContext {
        caller,
        events: Some(&sender),
        wants_progress: true,
        approval: is_shared.then_some(ApprovalTerms { client: CLIENT, deadline: None }),
        ..RequestContext::detached(agent)
    };
    user.status(format!("calling {tool}"));
    let can_wait = is_shared && gateway.calls().has_open_queue();
    let calling = gateway.calls().call(tool, arguments, &[], &context);
    tokio::pin!(calling);
    let mut is_unasked = false;
    loop {
        tokio::select! {
            outcome = &mut calling => return match outcome {
                Err(CallError::Refused { tool, reason, .. }) if is_unasked && !can_wait => {
                    let hint = UNASKED.to_owned();
                    Err(CallError::Refused { tool, reason, hint })
                }
                outcome => outcome,
            },
            Some(event) = heard.recv() => match event {
                AgentEvent::Progress(params) => {
                    user.status(format!("calling {tool}: {}", progress(&params)));
                }
                AgentEvent::Request(request) if is_confirmation(&request) => {
                    if can_ask {
                        confirm(*request, user).await;
                    } else {
                        is_unasked = true;
                    }
                }
                // Server requests can't be answered here, and log messages aren't shown.
                AgentEvent::Request(_) | AgentEvent::Notification { .. } => {}
            },
        }
    }
}

/// The hint for a call that needs a confirmation without a terminal.
const UNASKED: &str = "run `mcp-workbench call` in a terminal to confirm it there; \
                       `requireConfirmation` and `dangerousTools` in the configuration decide which \
                       calls must be confirmed";

fn is_confirmation(request: &ServerRequest) -> bool {
    !request.is_of_server && request.method == "elicitation/create"
}

/// Asks the user whether to make a call, and answers the request of the workbench.
async fn confirm(request: ServerRequest, user: &EventSender) {
    let message = request.params.as_ref().and_then(|params| params.member("message"));
    let message = message.as_ref().and_then(RawJson::decode_string_lossy).unwrap_or_default();
    let is_accepted = user.confirm(message.into_owned()).await;
    let action = if is_accepted { "accept" } else { "decline" };
    request.answer(RpcOutcome::Result(RawJson::encode(&json!({"action": action})))).await;
}

impl GivenArguments {
    /// Converts pairs by the schema of the tool. Starts the server if its tools aren't known.
    async fn to_json(
        &self,
        gateway: &Gateway,
        agent: &AgentHandle,
        tool: &ToolId,
    ) -> Result<Option<RawJson>, CommandError> {
        let pairs = match self {
            Self::None => return Ok(None),
            Self::Json(text) => {
                let raw: &RawValue = serde_json::from_str(text).map_err(CommandError::internal)?;
                return Ok(Some(RawJson::encode(&raw)));
            }
            Self::Pairs(pairs) => pairs,
        };
        let schema = || {
            let view = gateway.snapshot().view(&tool.toolbox);
            let tool = view.tool(tool.server.as_str(), &tool.tool)?;
            tool.definition.schema().parse::<serde_json::Value>().ok()
        };
        if gateway.views().unlisted().contains(&tool.server_ref()) {
            // The call reports why the server doesn't start.
            let _ = gateway.startup().start(&tool.server_ref(), agent, StartPriority::Call).await;
        }
        Ok(Some(RawJson::encode(&pairs_to_json(pairs, schema().as_ref()))))
    }
}

/// Replaces invalid UTF-8, which can't be printed either.
fn to_raw_value(answer: &RawJson) -> Result<Box<RawValue>, CommandError> {
    RawValue::from_string(answer.as_str().into_owned()).map_err(CommandError::internal)
}
