//! `call`: one call of one tool.

use std::io::Read;
use std::process::ExitCode;

use clap_complete::engine::ArgValueCandidates;
use serde_json::value::RawValue;

use crate::backend::{self, Outcome, events};
use crate::cli::error::Error;
use crate::cli::hidden::without_secrets;
use crate::cli::progress::Spinner;
use crate::cli::{Global, complete, print, with_recording_gateway};
use crate::exposure;
use crate::gateway::{CallError, Caller, Event, Gateway, Presence, RequestContext};
use crate::name::{self, ServerName, ToolId, ToolboxName};
use crate::raw::Raw;
use crate::settings::{MACROS, ServerConfig, ToolboxConfig};

mod content;

pub(crate) use content::Content;

const EXAMPLES: &str = "\
Examples:
  mcp-workbench call desk clock now
  mcp-workbench call desk clock now '{\"offset\": \"+02:00\"}'
  mcp-workbench call desk notes add_note - < note.json
  mcp-workbench call desk clock now --json | jq .structuredContent";

/// How many notices of progress may wait to be shown.
const EVENTS: usize = 64;
/// The most names that an error offers.
const OFFERED: usize = 3;

/// Call one tool and print its answer
///
/// Starts the tool's server, calls the tool the way an agent would, and ends the server. Texts are
/// printed; of images, sounds and other files there is a line that describes them.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// The toolbox
    #[arg(add = ArgValueCandidates::new(complete::toolboxes))]
    toolbox: String,
    /// The server in it
    #[arg(add = ArgValueCandidates::new(complete::servers_of_toolbox))]
    server: String,
    /// The tool, as its server calls it
    #[arg(add = ArgValueCandidates::new(complete::tools))]
    tool: String,
    /// The arguments, a JSON object; `-` reads it from standard input [default: none]
    arguments: Option<String>,
    /// Print the whole result as the server sent it
    #[arg(long)]
    json: bool,
    /// Print control characters of texts as they are; without it they are shown as `\x1b`
    #[arg(long, conflicts_with = "json")]
    raw: bool,
}

/// Calls; fails where the tool or the way to it does.
pub(crate) fn run(global: &Global, args: &Args) -> Result<ExitCode, Error> {
    let arguments = args.arguments.as_deref().map(read).transpose()?;
    let is_meant = |toolbox: &ToolboxConfig, server: &ServerConfig| {
        let is_macro = args.server == MACROS;
        let is_named = server.name.as_str() == args.server;
        is_macro || (toolbox.name.as_str() == args.toolbox && is_named)
    };
    let config = global.read_to_start(is_meant)?.map_err(Error::config)?.config;
    let tool = ToolId {
        toolbox: ToolboxName::new(&args.toolbox),
        server: ServerName::new(&args.server),
        tool: args.tool.clone(),
    };
    let caller = global.caller();
    let outcome = with_recording_gateway(global, config, async |gateway| {
        let outcome = call(gateway, &caller, &tool, arguments.as_ref()).await?;
        // A program gets what the server has answered, and nothing else.
        let is_explained = !args.json;
        Ok(if is_explained {
            gateway.explained(&tool, arguments.as_ref(), outcome)
        } else {
            outcome
        })
    })?;
    match outcome.map_err(|error| explain(&error))? {
        Outcome::Result(result) => report(&tool, &result, args),
        Outcome::Error(error) => Err(protocol_error(&tool, &error)),
    }
}

/// The arguments as they are written, if they are an object.
fn read(arguments: &str) -> Result<Raw, Error> {
    let mut text = arguments.to_owned();
    if arguments == "-" {
        text.clear();
        std::io::stdin()
            .read_to_string(&mut text)
            .map_err(|error| Error::usage("cannot read standard input".to_owned(), &error))?;
    }
    let raw: Box<RawValue> = serde_json::from_str(&text).map_err(|error| {
        Error::usage("the arguments are not JSON".to_owned(), &error)
            .hint("write an object in single quotes: '{\"name\": \"value\"}'")
    })?;
    if !raw.get().starts_with('{') {
        return Err(Error::wrong("the arguments are JSON, but not an object")
            .hint("write an object in single quotes: '{\"name\": \"value\"}'"));
    }
    Ok(Raw::encode(&raw))
}

/// Calls, and shows on a terminal what the server says of its progress.
async fn call(
    gateway: &Gateway,
    caller: &Caller,
    tool: &ToolId,
    arguments: Option<&Raw>,
) -> Result<Outcome, CallError> {
    let (sender, mut heard) = events::channel(EVENTS);
    let nobody = Presence::new(None);
    let context = RequestContext {
        caller,
        events: Some(&sender),
        wants_progress: true,
        ..RequestContext::nobody(&nobody)
    };
    let spinner = Spinner::new(&format!("calling {tool}"));
    let calling = gateway.call(tool, arguments, &[], &context);
    tokio::pin!(calling);
    loop {
        tokio::select! {
            outcome = &mut calling => return outcome,
            Some(event) = heard.recv() => match event {
                Event::Progress(params) => {
                    spinner.say(&format!("calling {tool}: {}", content::progress(&params)));
                }
                // Nobody is asked here, and logs are not what was called for.
                Event::Question(_) | Event::Notice { .. } => {}
            },
        }
    }
}

fn report(tool: &ToolId, result: &Raw, args: &Args) -> Result<ExitCode, Error> {
    let content = Content::read(result);
    if args.json {
        print::json_text(result.as_bytes())?;
        return Ok(if content.is_error { ExitCode::FAILURE } else { ExitCode::SUCCESS });
    }
    if content.is_error {
        let message = format!("the tool `{tool}` failed");
        return Err(Error::failed(message).because(&content.text));
    }
    if args.raw {
        print::bytes(without_secrets(&content.text).as_bytes())?;
    } else {
        print::data(&content.text)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn protocol_error(tool: &ToolId, error: &Raw) -> Error {
    #[derive(serde::Deserialize)]
    struct Parts {
        code: i64,
        message: String,
    }

    let cause = match error.parse::<Parts>() {
        Ok(Parts { code, message }) => format!("{message} (code {code})"),
        Err(_) => error.as_str().into_owned(),
    };
    let failed =
        Error::failed(format!("server `{}` refused the call of `{}`", tool.server, tool.tool))
            .because(&cause);
    let hint = error.member("data").and_then(|data| data.member("hint"));
    match hint.as_ref().and_then(Raw::text) {
        Some(hint) => failed.because(&hint),
        None => failed,
    }
}

/// Why a call did not reach its tool, and what to do: for a person, who has other commands than an
/// agent has tools.
pub(crate) fn explain(error: &CallError) -> Error {
    let did_you_mean = |wanted: &str, known: &[String], otherwise: &str| {
        let known = known.iter().map(String::as_str);
        match name::nearest(wanted, known.clone(), OFFERED).as_slice() {
            [] => format!("{otherwise} {}", list(known)),
            near => format!("did you mean {}?", list(near.iter().copied())),
        }
    };
    let failed = Error::failed(error.to_string());
    match error {
        CallError::UnknownToolbox { wanted, known } => {
            failed.hint(did_you_mean(wanted, known, "the toolboxes are"))
        }
        CallError::UnknownServer { wanted, known, .. } => {
            failed.hint(did_you_mean(wanted, known, "its servers are"))
        }
        CallError::UnknownTool { nearest, .. } if nearest.is_empty() => {
            failed.hint("`mcp-workbench list` shows the tools there are")
        }
        CallError::UnknownTool { nearest, .. } => failed.hint(format!(
            "did you mean {}? `mcp-workbench list` shows all",
            list(nearest.iter().take(OFFERED).map(String::as_str))
        )),
        CallError::UnknownPrimitive { .. } => failed,
        CallError::Refused { hint, .. } => failed.hint(hint),
        CallError::NotAnObject { .. } => {
            failed.hint("write an object in single quotes: '{\"name\": \"value\"}'")
        }
        CallError::BadArguments { tool, mismatches } => {
            let failed = Error::failed(format!("{error}, so it was not called"));
            let causes = mismatches.iter().map(ToString::to_string);
            causes
                .fold(failed, |error, cause| error.because(&cause))
                .hint(format!("`mcp-workbench list {} --json` has the schema", tool.toolbox))
        }
        CallError::Server { server, error: backend::Error::StartFailed(failure) } => {
            Error::failed(format!("server `{server}` could not be started"))
                .because(&failure.reason)
                .hint(&failure.hint)
        }
        CallError::Server { .. } => {
            let text = exposure::explain(error);
            let (message, rest) = text.split_once('\n').unwrap_or((&text, ""));
            Error::failed(message).because(rest)
        }
    }
}

fn list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<_> = names.map(|name| format!("`{name}`")).collect();
    names.join(", ")
}
