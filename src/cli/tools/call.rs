//! `call`: calls one tool.

use std::io::Read;
use std::process::ExitCode;
use std::sync::Arc;

use clap_complete::engine::ArgValueCandidates;
use serde_json::value::RawValue;

use crate::cli::args::{GlobalArgs, completion};
use crate::cli::output::{CommandError, RenderedResult, print, redact};
use crate::cli::servers::tool_target::{CallTarget, pairs};
use crate::cli::tool_commands::{
    CallCommand, CallReport, GivenArguments, RunnerArgs, can_ask, run as run_command,
};
use mcp_workbench_core::gateway::{SelectedBy, select_fields};
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

/// Call a tool and print its result
///
/// Name the tool as `toolbox server tool`, `toolbox/server/tool`, `server:tool`, `server tool`, or by
/// its exposed name. Pass arguments as a JSON object or as `key=value`.
///
/// Calls the tool as an agent would: in a running workbench that has loaded the same configuration,
/// or else by starting the server and stopping it afterwards. Prints text content, and a one-line
/// description of other content such as images and audio.
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
    #[command(flatten)]
    runner: RunnerArgs,
}

pub(crate) fn run(global: &GlobalArgs, args: &Args) -> Result<ExitCode, CommandError> {
    let looked = Arc::new(global.read()?.config);
    let agent = global.caller().agent;
    let visible = Policies::new(Arc::clone(&looked)).visible_config(agent.as_ref(), None);
    let words = [Some(&args.toolbox), args.server.as_ref(), args.tool.as_ref()];
    let words = words.into_iter().flatten().chain(&args.arguments).cloned();
    let CallTarget { tool, arguments } = CallTarget::resolve(&words.collect::<Vec<_>>(), &visible)?;
    let selection = Selection::parse(args.select.iter().map(String::as_str))
        .map_err(|error| CommandError::usage(error.to_string()))?;
    let is_meant = |toolbox: &ToolboxConfig, server: &ServerConfig| {
        tool.server.as_str() == MACROS
            || (toolbox.name == tool.toolbox && server.name == tool.server)
    };
    let command = CallCommand {
        word: args.toolbox.clone(),
        tool: tool.clone(),
        arguments: given(&arguments)?,
        is_explained: !args.json,
        can_ask: can_ask(),
    };
    let read_for_start = || Ok(global.read_for_start(is_meant)?.config);
    let report = run_command(global, &args.runner, &looked, &command, read_for_start)?;
    let CallReport { tool, is_error, answer } = report;
    let answer = RawJson::encode(&answer);
    if is_error {
        return Err(protocol_error(&tool, &answer));
    }
    print_result(&tool, &selected(answer, &selection), args)
}

/// Reads the arguments on the command line.
fn given(words: &[String]) -> Result<GivenArguments, CommandError> {
    match words {
        [] => Ok(GivenArguments::None),
        words => match (pairs(words), words) {
            (Some(pairs), _) => Ok(GivenArguments::Pairs(pairs)),
            (None, [one]) => read(one).map(GivenArguments::Json),
            (None, _) => Err(CommandError::usage("expected one JSON object or KEY=VALUE pairs")
                .with_hint("quote values with spaces: 'title=two words'")),
        },
    }
}

/// Reads the arguments, from stdin for `-`. They must be a JSON object.
fn read(arguments: &str) -> Result<String, CommandError> {
    let mut text = arguments.to_owned();
    if arguments == "-" {
        text.clear();
        std::io::stdin()
            .read_to_string(&mut text)
            .map_err(|error| CommandError::usage("failed to read stdin").because(&error))?;
    }
    let raw: &RawValue = serde_json::from_str(&text).map_err(|error| {
        CommandError::usage("the arguments are not valid JSON")
            .because(&error)
            .with_hint("pass a JSON object in single quotes: '{\"name\": \"value\"}'")
    })?;
    if !raw.get().starts_with('{') {
        return Err(CommandError::usage("the arguments must be a JSON object")
            .with_hint("pass a JSON object in single quotes: '{\"name\": \"value\"}'"));
    }
    Ok(raw.get().to_owned())
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

fn print_result(tool: &ToolId, result: &RawJson, args: &Args) -> Result<ExitCode, CommandError> {
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
