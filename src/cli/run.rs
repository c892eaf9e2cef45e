//! `run`: does one task with the best-matching tool and shows each step.

use std::process::ExitCode;

use serde::Deserialize;

use crate::backend::events;
use crate::catalog::shorten;
use crate::cli::call::RenderedResult;
use crate::cli::error::CommandError;
use crate::cli::{GlobalArgs, print, with_recording_gateway};
use crate::gateway::{AgentHandle, Caller, Gateway, RequestContext};
use crate::json::RawJson;
use crate::navigator::{
    self, Candidate, ChoiceOption, NavigationStep, NavigationTask, TaskError, TaskErrorKind,
    TaskOutcome, ToolOutcome,
};

const EXAMPLES: &str = "\
Examples:
  mcp-workbench run \"tell the current time\"
  mcp-workbench run \"keep a note\" '{\"title\": \"milk\", \"text\": \"2 l\"}'
  mcp-workbench run --dry-run --explain \"delete the note about milk\"
  mcp-workbench run \"the note about milk\" --tool notes.read_note
  mcp-workbench run \"tell the current time\" --json | jq .result";

/// The capacity of the event channel; its events are discarded.
const EVENTS: usize = 64;
/// In characters.
const MAX_ABOUT: usize = 80;

/// Do one task with the tool that fits it
///
/// Finds the tool the way `execute_task` does, in whatever mode the file has, calls it and prints
/// what it answers. Each step is shown on standard error as it is taken.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// The task, in words
    task: String,
    /// Arguments of the tool that are known, a JSON object [default: none]
    arguments: Option<String>,
    /// Do it with this tool, as an answer before has named it
    #[arg(long, value_name = "SERVICE.TOOL")]
    tool: Option<String>,
    /// Stop before the tool is called, and show with what it would be
    #[arg(long)]
    dry_run: bool,
    /// Show what there was to choose from, with scores
    #[arg(long)]
    explain: bool,
    /// Print the answer as `execute_task` gives it
    #[arg(long)]
    json: bool,
}

/// Fails if the task or the navigation to its tool fails.
pub(crate) fn run(global: &GlobalArgs, args: &Args) -> Result<ExitCode, CommandError> {
    if args.task.trim().is_empty() {
        return Err(CommandError::usage("the task is empty"));
    }
    let arguments = args.arguments.as_deref().map(read).transpose()?;
    let config = global.read_for_start(|_, _| true)?.map_err(CommandError::config)?.config;
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

    let hint = "write an object in single quotes: '{\"name\": \"value\"}'";
    let arguments = match serde_json::from_str(given) {
        Ok(Whole { arguments }) => arguments,
        Err(_) => serde_json::from_str(given).map_err(|error| {
            CommandError::usage_with_cause(
                "what follows the task cannot be read".to_owned(),
                &error,
            )
            .with_hint(hint)
        })?,
    };
    if arguments.members().is_none() {
        return Err(CommandError::usage("what follows the task is no object").with_hint(hint));
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
    let kind = failure.kind.as_str();
    let error = match &done.tool {
        Some(used) => {
            CommandError::failed(format!("the task was not done with {}: {kind}", used.word))
        }
        None => CommandError::failed(format!("the task was not done: {kind}")),
    };
    let error = error.with_cause(&failure.message);
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
            let names: Vec<_> = names.map(|one| format!("{:?}: …", one.name)).collect();
            let names = names.join(", ");
            &format!("write them behind the task, with what you have given: '{{{names}}}'")
        }
        TaskErrorKind::TaskTooLong => {
            "say in a sentence or two what is to be done, and give long texts as they are: with \
             `--tool <name>` and the tool's arguments behind the task"
        }
        _ if !failure.candidates.is_empty() => {
            "if one of these is meant, run it again with `--tool <name>` and what it needs behind \
             the task; else say the task in other words (service, verb, object), one thing at a time"
        }
        TaskErrorKind::InvalidArguments => {
            "write the right ones behind the task: '{\"name\": value}'"
        }
        TaskErrorKind::ToolExecutionError => {
            "read what it says, and run it again with other arguments behind the task, or with \
             another task"
        }
        _ => &failure.suggestion,
    };
    failure.with_others(suggestion)
}
