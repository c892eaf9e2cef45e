//! `task`: does one task with the best-matching tool and shows each step.

use std::process::ExitCode;

use serde::Deserialize;

use crate::cli::args::GlobalArgs;
use crate::cli::gateways::with_recording_gateway;
use crate::cli::output::{CommandError, RenderedResult, print};
use crate::cli::servers::tool_target::{pairs, pairs_to_json};
use mcp_workbench_core::backend::events;
use mcp_workbench_core::catalog::shorten;
use mcp_workbench_core::gateway::{AgentHandle, Caller, Gateway, RequestContext};
use mcp_workbench_serve::navigator::{
    self, Candidate, ChoiceOption, NavigationStep, NavigationTask, TaskError, TaskErrorKind,
    TaskOutcome, ToolOutcome,
};
use mcp_workbench_wire::json::RawJson;

const EXAMPLES: &str = "\
Examples:
  mcp-workbench task \"tell the current time\"
  mcp-workbench task \"keep a note\" '{\"title\": \"milk\", \"text\": \"2 l\"}'
  mcp-workbench task --dry-run --explain \"delete the note about milk\"
  mcp-workbench task \"the note about milk\" --tool notes.read_note
  mcp-workbench task \"tell the current time\" --json | jq .result";

/// The capacity of the event channel; its events are discarded.
const EVENTS: usize = 64;
/// In characters.
const MAX_ABOUT: usize = 80;

/// Run a task described in words with the best-matching tool
///
/// Finds the tool as `execute_task` does, regardless of the configured mode, calls it and prints its
/// result. Reports each step on stderr.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// Task in your own words
    task: String,
    /// Known arguments as a JSON object or as KEY=VALUE [default: none]
    arguments: Vec<String>,
    /// Use this tool, as named by an earlier answer
    #[arg(long, value_name = "SERVICE.TOOL")]
    tool: Option<String>,
    /// Show the call without making it
    #[arg(long)]
    dry_run: bool,
    /// Show the candidates with their scores
    #[arg(long)]
    explain: bool,
    /// Print the result as `execute_task` returns it
    #[arg(long)]
    json: bool,
}

/// Fails if the task or the navigation to its tool fails.
pub(crate) fn run(global: &GlobalArgs, args: &Args) -> Result<ExitCode, CommandError> {
    if args.task.trim().is_empty() {
        return Err(CommandError::usage("the task is empty"));
    }
    let arguments = match (pairs(&args.arguments), args.arguments.as_slice()) {
        (_, []) => None,
        (Some(pairs), _) => Some(RawJson::encode(&pairs_to_json(&pairs, None))),
        (None, [one]) => Some(read(one)?),
        (None, _) => {
            return Err(CommandError::usage(
                "expected one task, then KEY=VALUE or one JSON object",
            )
            .with_hint("quote the task: mcp-workbench task \"what time is it\""));
        }
    };
    let config = global.read_for_start(|_, _| true)?.config;
    let caller = global.caller();
    let task = NavigationTask {
        text: &args.task,
        tool: args.tool.as_deref(),
        arguments: arguments.as_ref(),
        is_dry_run: args.dry_run,
    };
    let done = with_recording_gateway(global, config, async |gateway| {
        navigate(gateway, &caller, task, args.explain).await
    })?;
    report(&done, args)
}

/// Accepts the tool's arguments, plain or within the `arguments` member that `execute_task` takes.
fn read(given: &str) -> Result<RawJson, CommandError> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Whole {
        arguments: RawJson,
    }

    let hint = "pass a JSON object in single quotes: '{\"name\": \"value\"}'";
    let arguments = match serde_json::from_str(given) {
        Ok(Whole { arguments }) => arguments,
        Err(_) => serde_json::from_str(given).map_err(|error| {
            CommandError::usage("the arguments are not valid JSON").because(&error).with_hint(hint)
        })?,
    };
    if arguments.members().is_none() {
        return Err(CommandError::usage("the arguments must be a JSON object").with_hint(hint));
    }
    Ok(arguments)
}

async fn navigate(
    gateway: &Gateway,
    caller: &Caller,
    task: NavigationTask<'_>,
    explains: bool,
) -> TaskOutcome {
    let (sender, mut heard) = events::channel(EVENTS);
    let no_agent = AgentHandle::new(None);
    let context =
        RequestContext { caller, events: Some(&sender), ..RequestContext::detached(&no_agent) };
    let show = |step: &NavigationStep<'_>| show(step, explains);
    let navigating = navigator::navigate(gateway, &context, task, &show);
    tokio::pin!(navigating);
    loop {
        tokio::select! {
            done = &mut navigating => return done,
            // Nothing here can ask a user. Dropping a server request declines it.
            Some(_) = heard.recv() => {}
        }
    }
}

fn show(step: &NavigationStep<'_>, explains: bool) {
    if let (NavigationStep::Chosen { options, chosen, .. }, true) = (step, explains) {
        let width = options.iter().map(|option| option.name.chars().count()).max().unwrap_or(0);
        for option in *options {
            print::note(&line(option, *chosen == Some(&option.name), width));
        }
    }
    print::note(&step.text());
    if let (NavigationStep::Execution { id, arguments, .. }, true) = (step, explains) {
        let arguments = arguments.map_or("{}".into(), RawJson::as_str);
        print::note(&format!("  {id} {arguments}"));
    }
}

fn line(option: &ChoiceOption, is_chosen: bool, width: usize) -> String {
    let mark = if is_chosen { '*' } else { ' ' };
    let score = option.fit.map_or("     ".to_owned(), |fit| format!("{:.3}", fit.score));
    let about = shorten(&option.about, MAX_ABOUT);
    format!("{mark} {score}  {:width$}  {about}", option.name).trim_end().to_owned()
}

fn report(done: &TaskOutcome, args: &Args) -> Result<ExitCode, CommandError> {
    if args.json {
        print::json_text(navigator::outcome_json(done).as_bytes())?;
        let has_failed = matches!(done.outcome, ToolOutcome::Failed(_));
        return Ok(if has_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS });
    }
    match &done.outcome {
        ToolOutcome::Result(result) => print::data(&RenderedResult::read(result).text)?,
        ToolOutcome::DryRun(arguments) => {
            let tool = done.tool.as_ref().map_or_else(String::new, |used| used.id.to_string());
            let arguments = arguments.as_ref().map_or("{}".into(), RawJson::as_str);
            print::data(&format!("would call {tool} with {arguments}"))?;
        }
        ToolOutcome::Failed(failure) => return Err(task_error(done, failure)),
    }
    Ok(ExitCode::SUCCESS)
}

fn task_error(done: &TaskOutcome, failure: &TaskError) -> CommandError {
    let error = if let Some(used) = &done.tool {
        CommandError::failed(format!("the task failed with `{}`", used.word))
            .with_cause(&failure.message)
    } else {
        CommandError::from_text(&failure.message)
    };
    let error = failure.parameters.iter().fold(error, |error, parameter| {
        let about = parameter.description.as_deref().unwrap_or_default();
        error.with_cause(format!("{}: {}  {about}", parameter.name, parameter.kind).trim_end())
    });
    let error = failure.candidates.iter().fold(error, |error, candidate| {
        let Candidate { tool, signature, description } = candidate;
        error.with_cause(format!("{tool}: {signature}  {description}").trim_end())
    });
    let error = failure.context.iter().fold(error, |error, context| error.with_cause(context));
    error.with_hint(suggestion(failure))
}

/// Rewords the advice for the command line: the model's version names members of `execute_task`.
fn suggestion(failure: &TaskError) -> String {
    let suggestion = match failure.kind {
        TaskErrorKind::MissingParameters if !failure.parameters.is_empty() => {
            let names = failure.parameters.iter();
            let names: Vec<_> = names.map(|one| format!("{}=…", one.name)).collect();
            let names = names.join(" ");
            &format!("add them to the arguments after the task: {names}")
        }
        TaskErrorKind::TaskTooLong => {
            "describe the task in one or two sentences; pass long texts as arguments, with \
             `--tool <name>`"
        }
        _ if !failure.candidates.is_empty() => {
            "to use one of these, run again with `--tool <name>` and its arguments after the task; \
             otherwise rephrase the task (service, verb, object), one step at a time"
        }
        TaskErrorKind::InvalidArguments => {
            "correct the arguments after the task: '{\"name\": value}'"
        }
        TaskErrorKind::ToolExecutionError => {
            "read the tool's message, then retry with other arguments or another task"
        }
        _ => &failure.suggestion,
    };
    failure.with_others(suggestion)
}
