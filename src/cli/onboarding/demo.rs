//! `demo`: shows a real agent session.
//!
//! It starts the workbench as a client would, and everything shown or counted passed through stdio.
//! For the comparison at the end, it also connects to the two servers directly.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use crate::app;
use crate::cli::gateways::pool_options;
use crate::cli::output::{
    Align, CommandError, ContextSize, RenderedResult, Table, format_count, number,
};
use crate::cli::runtime::{PROGRAM_NAME, block_on};
use mcp_workbench_core::backend::PoolOptions;
use mcp_workbench_core::catalog::ToolDefinition;
use mcp_workbench_settings::StdioLaunch;
use mcp_workbench_wire::json::RawJson;

mod transcript;

use crate::cli::servers::stdio_client::StdioClient;
use transcript::Transcript;

const TIMEOUT: Duration = Duration::from_mins(1);
const TOOLBOX: &str = "desk";
const SERVERS: [&str; 2] = ["clock", "notes"];

const EXAMPLES: &str = "\
Examples:
  mcp-workbench demo
  NO_COLOR=1 mcp-workbench demo | less";

/// Show a sample session; needs no configuration
///
/// Starts the workbench as a client would, opens a toolbox with two built-in servers, calls their
/// tools, and compares what the agent has to read with and without the workbench. Uses no network
/// and writes no files.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {}

struct ContextFootprint {
    tools: Vec<Arc<ToolDefinition>>,
    instructions: String,
}

pub(crate) fn run() -> Result<ExitCode, CommandError> {
    let options = pool_options(None);
    let shown = async { timeout(TIMEOUT, show(&options)).await };
    match block_on(app::run_until_signal(shown))?.map_err(CommandError::internal)? {
        Ok(Ok(())) => Ok(ExitCode::SUCCESS),
        Ok(Err(problem)) => Err(CommandError::failed("the demo failed")
            .with_cause(&problem)
            .with_hint("run `mcp-workbench serve --embedded-config --log-level debug` to see why")),
        Err(_) => Err(CommandError::failed(format!(
            "the demo did not finish within {} s",
            TIMEOUT.as_secs()
        ))),
    }
}

async fn show(options: &PoolOptions) -> Result<(), String> {
    let tasks = TaskTracker::new();
    let mut alone = Vec::new();
    for server in SERVERS {
        let client = StdioClient::start(&launch(&["builtin", server])?, options, &tasks).await?;
        let seen = look(&client).await;
        client.end().await;
        alone.push(seen?);
    }
    // The mode is set because the workbench can't know that this client follows `list_changed`.
    let serve =
        launch(&["serve", "--embedded-config", "--tool-mode", "dynamic", "--log-level", "warn"])?;
    let client = StdioClient::start(&serve, options, &tasks).await?;
    let shown = play_session(&client, &alone).await;
    client.end().await;
    shown
}

fn launch(args: &[&str]) -> Result<StdioLaunch, String> {
    let args = args.iter().map(ToString::to_string).collect();
    let folder = std::env::current_dir().map_err(|error| error.to_string())?;
    Ok(StdioLaunch::new(PROGRAM_NAME.to_owned(), args, folder))
}

async fn look(client: &StdioClient) -> Result<ContextFootprint, String> {
    Ok(ContextFootprint { tools: client.tools().await?, instructions: client.instructions() })
}

async fn play_session(client: &StdioClient, alone: &[ContextFootprint]) -> Result<(), String> {
    let out = Transcript::new();
    out.title(
        "A sample session: MCP Workbench as an agent sees it",
        "The demo starts `mcp-workbench serve` with five sample toolboxes and connects to it over \
         stdio, as an AI agent would. Lines with → are messages from the agent, lines with ← are \
         messages from the workbench.",
    )?;

    out.step("The agent connects and learns which toolboxes it can open")?;
    out.sent("initialize")?;
    out.received("instructions:")?;
    out.quote(&client.instructions())?;

    out.step("It lists its tools: one tool, however many servers you configure")?;
    out.sent("tools/list")?;
    let before = look(client).await?;
    out.received(&tools_line(&before))?;
    out.names(&before.tools)?;

    out.step("It opens a toolbox: its servers start now, and their tools are added")?;
    let (after, answer) = open(client, &out).await?;

    out.step("It calls the new tools like any others")?;
    call(client, &out, "desk__clock__now", json!({"offset": "+02:00"})).await?;
    let note = json!({"title": "Idea", "text": "Open a toolbox only when you need it"});
    call(client, &out, "desk__notes__add_note", note).await?;
    call(client, &out, "desk__notes__read_note", json!({"title": "Idea"})).await?;

    out.step("The cost: how much text the model reads before its first answer")?;
    transcript::table(&cost_table(alone, &before, &after))?;
    transcript::text(
        "All sizes are in bytes and were measured in this session. Tokens are an estimate: one \
         per 4.5 bytes.",
    )?;
    let each = alone.iter().map(|seen| size(seen).tokens()).sum::<usize>() / alone.len();
    transcript::text(&format!(
        "Without the workbench: only the two servers of `{TOOLBOX}`, connected directly. Each \
         server you add costs more; these two are small, about {} each.",
        format_count(each, "token"),
    ))?;
    transcript::text(
        "With it, nothing open: all five toolboxes. Each toolbox you add costs one sentence.",
    )?;
    transcript::text(&format!(
        "With it, `{TOOLBOX}` open: an open toolbox costs its tool definitions, plus the result \
         of open_toolbox once ({}). If the agent opens every toolbox, the workbench saves nothing.",
        format_count(answer.bytes(), "byte"),
    ))?;
    transcript::text(
        "Next: run `mcp-workbench setup --dry-run` to see how setup would configure your MCP \
         clients. It changes nothing.",
    )
}

/// Opens the toolbox and lists the tools again after `list_changed`, as a client does.
async fn open(
    client: &StdioClient,
    out: &Transcript,
) -> Result<(ContextFootprint, ContextSize), String> {
    let arguments = json!({"toolbox": TOOLBOX});
    out.sent(&format!("tools/call open_toolbox {arguments}"))?;
    let opening = client.call("open_toolbox", &arguments);
    tokio::pin!(opening);
    let early = tokio::select! {
        biased;
        () = client.changed() => None,
        answer = &mut opening => Some(answer?),
    };
    if let Some(answer) = early {
        let text = RenderedResult::read(&answer).text;
        return Err(format!("opening `{TOOLBOX}` added no tools: {text}"));
    }
    out.received("notifications/tools/list_changed")?;
    out.sent("tools/list")?;
    // The workbench holds back the answer until the client has fetched the new list.
    let (after, answer) = tokio::join!(look(client), opening);
    let after = after?;
    out.received(&tools_line(&after))?;
    out.names(&after.tools)?;
    out.received("result of open_toolbox:")?;
    let answer = answer?;
    out.quote(&result(&answer)?)?;
    Ok((after, ContextSize::of(answer.len())))
}

async fn call(
    client: &StdioClient,
    out: &Transcript,
    tool: &str,
    arguments: Value,
) -> Result<(), String> {
    out.sent(&format!("tools/call {tool} {arguments}"))?;
    let answer = client.call(tool, &arguments).await?;
    out.received(&result(&answer)?)
}

/// Returns the text of a result, as an error if the tool failed.
fn result(answer: &RawJson) -> Result<String, String> {
    let RenderedResult { text, is_error } = RenderedResult::read(answer);
    if is_error { Err(text) } else { Ok(text) }
}

fn tools_line(seen: &ContextFootprint) -> String {
    let tools = format_count(seen.tools.len(), "tool");
    format!("{tools}, {}:", list_size(seen))
}

fn list_size(seen: &ContextFootprint) -> ContextSize {
    seen.tools.iter().map(|tool| ContextSize::of(tool.raw.len())).sum()
}

fn size(seen: &ContextFootprint) -> ContextSize {
    list_size(seen) + ContextSize::of(seen.instructions.len())
}

fn cost_table(
    alone: &[ContextFootprint],
    before: &ContextFootprint,
    after: &ContextFootprint,
) -> Table {
    let mut table = Table::new([
        ("", Align::Left),
        ("Tools", Align::Right),
        ("Definitions", Align::Right),
        ("Instructions", Align::Right),
        ("Total", Align::Right),
        ("Tokens (est.)", Align::Right),
    ]);
    let mut row = |name: &str, seen: &[&ContextFootprint]| {
        let tools = seen.iter().map(|seen| seen.tools.len()).sum();
        let definitions: ContextSize = seen.iter().map(|seen| list_size(seen)).sum();
        let all: ContextSize = seen.iter().map(|seen| size(seen)).sum();
        table.row([
            name.to_owned(),
            number(tools),
            number(definitions.bytes()),
            number(all.bytes() - definitions.bytes()),
            number(all.bytes()),
            number(all.tokens()),
        ]);
    };
    let alone: Vec<_> = alone.iter().collect();
    row("Without the workbench", &alone);
    row("With it, nothing open", &[before]);
    row("With it, `desk` open", &[after]);
    table
}
