//! `call`: calls one tool.

use std::io::{IsTerminal, Read};
use std::process::ExitCode;
use std::sync::Arc;

use clap_complete::engine::ArgValueCandidates;
use serde_json::json;
use serde_json::value::RawValue;

use crate::cli::args::{GlobalArgs, completion};
use crate::cli::gateways::with_recording_gateway;
use crate::cli::output::tool_result::progress;
use crate::cli::output::{CommandError, RenderedResult, Spinner, print, redact};
use crate::cli::servers::tool_target::{CallTarget, pairs, pairs_to_json};
use crate::cli::tools::call_error::call_error;
use mcp_workbench_core::backend::{RpcOutcome, ServerRequest, events};
use mcp_workbench_core::gateway::{
    AgentEvent, AgentHandle, CallError, Caller, Gateway, RequestContext, SelectedBy, StartPriority,
    select_fields,
};
use mcp_workbench_core::policy::Policies;
use mcp_workbench_names::ToolId;
use mcp_workbench_settings::{MACROS, ServerConfig, ToolboxConfig};
use mcp_workbench_wire::json::RawJson;
use mcp_workbench_wire::json::select::Selection;

const EXAMPLES: &str = "\
Examples:
  mcp-workbench call desk clock now
  mcp-workbench call clock:now offset=+02:00
  mcp-workbench call desk/clock/now '{\"offset\": \"+02:00\"}'
  mcp-workbench call desk notes add_note - < note.json
  mcp-workbench call desk clock now --json | jq .structuredContent";

/// Capacity of the progress channel.
const EVENTS: usize = 64;

/// Call a tool and print its result
///
/// Name the tool as `toolbox server tool`, `toolbox/server/tool`, `server:tool`, `server tool`, or by
/// its exposed name. Pass arguments as a JSON object or as `key=value`.
///
/// Starts the server, calls the tool as an agent would, and stops the server. Prints text content,
/// and a one-line description of other content such as images and audio.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// Toolbox of the server, or the tool in one word
    #[arg(add = ArgValueCandidates::new(completion::toolboxes))]
    toolbox: String,
    /// Server of the tool
    #[arg(add = ArgValueCandidates::new(completion::servers_of_toolbox))]
    server: Option<String>,
    /// Tool, by the server's own name
    #[arg(add = ArgValueCandidates::new(completion::tools))]
    tool: Option<String>,
    /// Arguments as a JSON object, as KEY=VALUE, or `-` for stdin [default: none]
    arguments: Vec<String>,
    /// Print only this field, a JSON pointer such as `/items/*/title` (repeatable)
    #[arg(long, value_name = "POINTER")]
    select: Vec<String>,
    /// Print the raw result
    #[arg(long)]
    json: bool,
    /// Print control characters unescaped
    #[arg(long, conflicts_with = "json")]
    raw: bool,
}

pub(crate) fn run(global: &GlobalArgs, args: &Args) -> Result<ExitCode, CommandError> {
    let looked = global.read()?.config;
    let agent = global.caller().agent;
    let looked = Policies::new(Arc::new(looked)).visible_config(agent.as_ref(), None);
    let words = [Some(&args.toolbox), args.server.as_ref(), args.tool.as_ref()];
    let words = words.into_iter().flatten().chain(&args.arguments).cloned();
    let CallTarget { tool, arguments } = CallTarget::resolve(&words.collect::<Vec<_>>(), &looked)?;
    let given = Given::read(&arguments)?;
    let selection = Selection::parse(args.select.iter().map(String::as_str))
        .map_err(|error| CommandError::usage(error.to_string()))?;
    let is_meant = |toolbox: &ToolboxConfig, server: &ServerConfig| {
        tool.server.as_str() == MACROS
            || (toolbox.name == tool.toolbox && server.name == tool.server)
    };
    let config = global.read_for_start(is_meant)?.config;
    let caller = global.caller();
    let (tool, outcome) = with_recording_gateway(global, config, async |gateway| {
        gateway.views().wait_for_stored_listings().await;
        // A long exposed name doesn't contain the tool's own name.
        let exposed = gateway.snapshot().resolve_registered(&args.toolbox).cloned();
        let tool = exposed.unwrap_or(tool);
        let arguments = given.into_json(gateway, &tool).await;
        let outcome = call(gateway, &caller, &tool, arguments.as_ref()).await;
        // JSON output is exactly the server's answer, without added explanations.
        let is_explained = !args.json;
        let outcome = outcome.map(|outcome| {
            if is_explained {
                gateway.views().with_argument_hints(&tool, arguments.as_ref(), outcome)
            } else {
                outcome
            }
        });
        (tool, outcome)
    })?;
    match outcome.map_err(|error| call_error(&error))? {
        RpcOutcome::Result(result) => report(&tool, &selected(result, &selection), args),
        RpcOutcome::Error(error) => Err(protocol_error(&tool, &error)),
    }
}

/// The arguments on the command line.
enum Given {
    Json(Option<RawJson>),
    Pairs(Vec<(String, String)>),
}

impl Given {
    fn read(words: &[String]) -> Result<Self, CommandError> {
        match words {
            [] => Ok(Self::Json(None)),
            words => match (pairs(words), words) {
                (Some(pairs), _) => Ok(Self::Pairs(pairs)),
                (None, [one]) => read(one).map(Some).map(Self::Json),
                (None, _) => {
                    Err(CommandError::usage("expected one JSON object or KEY=VALUE pairs")
                        .with_hint("quote values with spaces: 'title=two words'"))
                }
            },
        }
    }

    /// Converts pairs by the schema of the tool. Starts the server if its tools aren't known.
    async fn into_json(self, gateway: &Gateway, tool: &ToolId) -> Option<RawJson> {
        let pairs = match self {
            Self::Json(json) => return json,
            Self::Pairs(pairs) => pairs,
        };
        let schema = || {
            let view = gateway.snapshot().view(&tool.toolbox);
            let tool = view.tool(tool.server.as_str(), &tool.tool)?;
            tool.definition.schema().parse::<serde_json::Value>().ok()
        };
        if gateway.views().unlisted().contains(&tool.server_ref()) {
            let no_agent = AgentHandle::new(None);
            // The call reports why the server doesn't start.
            let _ =
                gateway.startup().start(&tool.server_ref(), &no_agent, StartPriority::Call).await;
        }
        Some(RawJson::encode(&pairs_to_json(&pairs, schema().as_ref())))
    }
}

/// Reads the arguments, from stdin for `-`. They must be a JSON object.
fn read(arguments: &str) -> Result<RawJson, CommandError> {
    let mut text = arguments.to_owned();
    if arguments == "-" {
        text.clear();
        std::io::stdin()
            .read_to_string(&mut text)
            .map_err(|error| CommandError::usage("failed to read stdin").because(&error))?;
    }
    let raw: Box<RawValue> = serde_json::from_str(&text).map_err(|error| {
        CommandError::usage("the arguments are not valid JSON")
            .because(&error)
            .with_hint("pass a JSON object in single quotes: '{\"name\": \"value\"}'")
    })?;
    if !raw.get().starts_with('{') {
        return Err(CommandError::usage("the arguments must be a JSON object")
            .with_hint("pass a JSON object in single quotes: '{\"name\": \"value\"}'"));
    }
    Ok(RawJson::encode(&raw))
}

async fn call(
    gateway: &Gateway,
    caller: &Caller,
    tool: &ToolId,
    arguments: Option<&RawJson>,
) -> Result<RpcOutcome, CallError> {
    let (sender, mut heard) = events::channel(EVENTS);
    let no_agent = AgentHandle::new(None);
    let context = RequestContext {
        caller,
        events: Some(&sender),
        wants_progress: true,
        ..RequestContext::detached(&no_agent)
    };
    let spinner = Spinner::new(&format!("calling {tool}"));
    let calling = gateway.calls().call(tool, arguments, &[], &context);
    tokio::pin!(calling);
    let mut is_unasked = false;
    loop {
        tokio::select! {
            outcome = &mut calling => return match outcome {
                Err(CallError::Refused { tool, reason, .. }) if is_unasked => {
                    let hint = UNASKED.to_owned();
                    Err(CallError::Refused { tool, reason, hint })
                }
                outcome => outcome,
            },
            Some(event) = heard.recv() => match event {
                AgentEvent::Progress(params) => {
                    spinner.say(&format!("calling {tool}: {}", progress(&params)));
                }
                AgentEvent::Request(request) if is_confirmation(&request) => {
                    if can_ask() {
                        spinner.say("");
                        confirm(*request).await;
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

/// The hint for a call that needs a confirmation, if no user can be asked.
const UNASKED: &str = "run `mcp-workbench call` in a terminal to confirm it there; \
                       `requireConfirmation` and `dangerousTools` in the configuration decide which \
                       calls must be confirmed";

fn is_confirmation(request: &ServerRequest) -> bool {
    !request.is_of_server && request.method == "elicitation/create"
}

fn can_ask() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Asks at the terminal whether to make a call, and answers the request of the workbench.
async fn confirm(request: ServerRequest) {
    let message = request.params.as_ref().and_then(|params| params.member("message"));
    let message = message.as_ref().and_then(RawJson::decode_string_lossy).unwrap_or_default();
    print::note(&format!("{message}\nMake this call? [y/N]"));
    let answer = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).map(|_| line)
    });
    let line = answer.await.ok().and_then(Result::ok).unwrap_or_default();
    let is_accepted = matches!(line.trim().to_lowercase().as_str(), "y" | "yes");
    let action = if is_accepted { "accept" } else { "decline" };
    request.answer(RpcOutcome::Result(RawJson::encode(&json!({"action": action})))).await;
}

/// Returns the result with only the selected fields, and prints which ones it doesn't have.
fn selected(result: RawJson, selection: &Selection) -> RawJson {
    let Ok(Some(fields)) = select_fields(&result, selection, SelectedBy::Call) else {
        return result;
    };
    if let Some(missing) = fields.missing {
        print::note(&missing);
    }
    fields.result
}

fn report(tool: &ToolId, result: &RawJson, args: &Args) -> Result<ExitCode, CommandError> {
    let content = RenderedResult::read(result);
    if args.json {
        print::json_text(result.as_bytes())?;
        return Ok(if content.is_error { ExitCode::FAILURE } else { ExitCode::SUCCESS });
    }
    if content.is_error {
        let message = format!("tool `{tool}` failed");
        return Err(CommandError::failed(message).with_cause(&content.text));
    }
    if args.raw {
        print::bytes(redact(&content.text).as_bytes())?;
    } else {
        print::data(&content.text)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn protocol_error(tool: &ToolId, error: &RawJson) -> CommandError {
    #[derive(serde::Deserialize)]
    struct Parts {
        code: i64,
        message: String,
    }

    let cause = match error.parse::<Parts>() {
        Ok(Parts { code, message }) => format!("{message} (code {code})"),
        Err(_) => error.as_str().into_owned(),
    };
    let failed = CommandError::failed(format!(
        "server `{}` rejected the call to `{}`",
        tool.server, tool.tool
    ))
    .with_cause(&cause);
    let hint = error.member("data").and_then(|data| data.member("hint"));
    match hint.as_ref().and_then(RawJson::decode_string_lossy) {
        Some(hint) => failed.with_cause(&hint),
        None => failed,
    }
}
