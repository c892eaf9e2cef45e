//! `run`: one task, each step shown as it is taken.

use std::process::ExitCode;

use serde::Deserialize;

use crate::backend::events;
use crate::catalog::shorten;
use crate::cli::call::Content;
use crate::cli::error::Error;
use crate::cli::{Global, print, with_recording_gateway};
use crate::gateway::{Caller, Gateway, Presence, RequestContext};
use crate::navigator::{self, Came, Candidate, Choice, Done, Failure, Kind, Step, Task};
use crate::raw::Raw;

const EXAMPLES: &str = "\
Examples:
  mcp-workbench run \"tell the current time\"
  mcp-workbench run \"keep a note\" '{\"title\": \"milk\", \"text\": \"2 l\"}'
  mcp-workbench run --dry-run --explain \"delete the note about milk\"
  mcp-workbench run \"the note about milk\" --tool notes.read_note
  mcp-workbench run \"tell the current time\" --json | jq .result";

/// How many events may wait that nobody looks at.
const EVENTS: usize = 64;
/// The most characters of what an option says of itself.
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

/// Does the task; fails where it or the way to its tool does.
pub(crate) fn run(global: &Global, args: &Args) -> Result<ExitCode, Error> {
    if args.task.trim().is_empty() {
        return Err(Error::wrong("the task is empty"));
    }
    let arguments = args.arguments.as_deref().map(read).transpose()?;
    let config = global.read_to_start(|_, _| true)?.map_err(Error::config)?.config;
    let caller = global.caller();
    let task = Task {
        words: &args.task,
        tool: args.tool.as_deref(),
        arguments: arguments.as_ref(),
        is_rehearsal: args.dry_run,
    };
    let done = with_recording_gateway(global, config, async |gateway| {
        navigate(gateway, &caller, task, args.explain).await
    })?;
    report(&done, args)
}

/// The arguments, alone or among what `execute_task` takes.
fn read(given: &str) -> Result<Raw, Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Whole {
        arguments: Raw,
    }

    let hint = "write an object in single quotes: '{\"name\": \"value\"}'";
    let arguments = match serde_json::from_str(given) {
        Ok(Whole { arguments }) => arguments,
        Err(_) => serde_json::from_str(given).map_err(|error| {
            Error::usage("what follows the task cannot be read".to_owned(), &error).hint(hint)
        })?,
    };
    if arguments.members().is_none() {
        return Err(Error::wrong("what follows the task is no object").hint(hint));
    }
    Ok(arguments)
}

async fn navigate(gateway: &Gateway, caller: &Caller, task: Task<'_>, explains: bool) -> Done {
    let (sender, mut heard) = events::channel(EVENTS);
    let nobody = Presence::new(None);
    let context =
        RequestContext { caller, events: Some(&sender), ..RequestContext::nobody(&nobody) };
    let show = |step: &Step<'_>| show(step, explains);
    let navigating = navigator::navigate(gateway, &context, task, &show);
    tokio::pin!(navigating);
    loop {
        tokio::select! {
            done = &mut navigating => return done,
            // Nobody is asked here, and a question that is dropped is declined.
            Some(_) = heard.recv() => {}
        }
    }
}

fn show(step: &Step<'_>, explains: bool) {
    if let (Step::Chosen { options, chosen, .. }, true) = (step, explains) {
        let width = options.iter().map(|option| option.name.chars().count()).max().unwrap_or(0);
        for option in *options {
            print::note(&line(option, *chosen == Some(&option.name), width));
        }
    }
    print::note(&step.text());
    if let (Step::Execution { id, arguments, .. }, true) = (step, explains) {
        let arguments = arguments.map_or("{}".into(), Raw::as_str);
        print::note(&format!("  {id} {arguments}"));
    }
}

/// An option as a line: whether it was chosen, its score, its name, what is said of it.
fn line(option: &Choice, is_chosen: bool, width: usize) -> String {
    let mark = if is_chosen { '*' } else { ' ' };
    let score = option.fit.map_or("     ".to_owned(), |fit| format!("{:.3}", fit.score));
    let about = shorten(&option.about, MAX_ABOUT);
    format!("{mark} {score}  {:width$}  {about}", option.name).trim_end().to_owned()
}

fn report(done: &Done, args: &Args) -> Result<ExitCode, Error> {
    if args.json {
        print::json_text(navigator::shape(done).as_bytes())?;
        let has_failed = matches!(done.came, Came::Failed(_));
        return Ok(if has_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS });
    }
    match &done.came {
        Came::Result(result) => print::data(&Content::read(result).text)?,
        Came::Rehearsed(arguments) => {
            let tool = done.tool.as_ref().map_or_else(String::new, |used| used.id.to_string());
            let arguments = arguments.as_ref().map_or("{}".into(), Raw::as_str);
            print::data(&format!("would call {tool} with {arguments}"))?;
        }
        Came::Failed(failure) => return Err(explain(done, failure)),
    }
    Ok(ExitCode::SUCCESS)
}

fn explain(done: &Done, failure: &Failure) -> Error {
    let kind = failure.kind.as_str();
    let error = match &done.tool {
        Some(used) => Error::failed(format!("the task was not done with {}: {kind}", used.word)),
        None => Error::failed(format!("the task was not done: {kind}")),
    };
    let error = error.because(&failure.message);
    let error = failure.parameters.iter().fold(error, |error, parameter| {
        let about = parameter.description.as_deref().unwrap_or_default();
        error.because(format!("{}: {}  {about}", parameter.name, parameter.kind).trim_end())
    });
    let error = failure.candidates.iter().fold(error, |error, candidate| {
        let Candidate { tool, signature, description } = candidate;
        error.because(format!("{tool}: {signature}  {description}").trim_end())
    });
    let error = failure.context.iter().fold(error, |error, context| error.because(context));
    error.hint(suggestion(failure))
}

/// Advice on what to do about it. A person writes behind the task what a model has a member for.
fn suggestion(failure: &Failure) -> String {
    let suggestion = match failure.kind {
        Kind::MissingParameters if !failure.parameters.is_empty() => {
            let names = failure.parameters.iter();
            let names: Vec<_> = names.map(|one| format!("{:?}: …", one.name)).collect();
            let names = names.join(", ");
            &format!("write them behind the task, with what you have given: '{{{names}}}'")
        }
        Kind::TaskTooLong => {
            "say in a sentence or two what is to be done, and give long texts as they are: with \
             `--tool <name>` and the tool's arguments behind the task"
        }
        _ if !failure.candidates.is_empty() => {
            "if one of these is meant, run it again with `--tool <name>` and what it needs behind \
             the task; else say the task in other words (service, verb, object), one thing at a time"
        }
        Kind::InvalidArguments => "write the right ones behind the task: '{\"name\": value}'",
        Kind::ToolExecutionError => {
            "read what it says, and run it again with other arguments behind the task, or with \
             another task"
        }
        _ => &failure.suggestion,
    };
    failure.with_others(suggestion)
}
