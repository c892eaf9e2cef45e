//! `demo`: what an agent sees, as it happens.
//!
//! Nothing is staged: the workbench is started as a client would start it, and everything that is
//! shown or counted went over its standard input and output. The two servers behind it are also
//! asked directly, for the comparison at the end.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use crate::app;
use crate::backend::PoolOptions;
use crate::catalog::ToolDefinition;
use crate::cli::call::Content;
use crate::cli::error::Error;
use crate::cli::size::{Size, count, number};
use crate::cli::table::{Align, Table};
use crate::cli::{NAME, block_on, pool_options};
use crate::raw::Raw;
use crate::settings::StdioLaunch;

pub(in crate::cli) mod client;
mod transcript;

use client::Client;
use transcript::Transcript;

/// How long all of it may take.
const PATIENCE: Duration = Duration::from_mins(1);
/// The toolbox that is opened, and its servers.
const TOOLBOX: &str = "desk";
const SERVERS: [&str; 2] = ["clock", "notes"];

const EXAMPLES: &str = "\
Examples:
  mcp-workbench demo
  NO_COLOR=1 mcp-workbench demo | less";

/// Show what an agent sees, with a configuration that needs nothing else
///
/// Starts the workbench as a client would, opens a toolbox of two small servers that the
/// executable carries, calls their tools, and counts what the agent has to read with the workbench
/// and without it. Needs no configuration and no network, and writes no file.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {}

/// The bytes that a server puts into an agent's context.
struct Seen {
    tools: Vec<Arc<ToolDefinition>>,
    instructions: String,
}

/// Shows all of it; fails at the first thing that is not as it should be.
pub(crate) fn run() -> Result<ExitCode, Error> {
    let options = pool_options(None);
    let shown = async { timeout(PATIENCE, show(&options)).await };
    match block_on(app::until_signal(shown))?.map_err(Error::internal)? {
        Ok(Ok(())) => Ok(ExitCode::SUCCESS),
        Ok(Err(problem)) => {
            Err(Error::failed("the demo came to an early end").because(&problem).hint(
                "`mcp-workbench serve --embedded-config --log-level debug` serves the same by hand",
            ))
        }
        Err(_) => {
            Err(Error::failed(format!("the demo was not over after {} s", PATIENCE.as_secs())))
        }
    }
}

async fn show(options: &PoolOptions) -> Result<(), String> {
    let tasks = TaskTracker::new();
    let mut alone = Vec::new();
    for server in SERVERS {
        let client = Client::start(&launch(&["builtin", server])?, options, &tasks).await?;
        let seen = look(&client).await;
        client.end().await;
        alone.push(seen?);
    }
    // What the demo shows is what clients see that follow their list; nobody knows this one.
    let serve =
        launch(&["serve", "--embedded-config", "--mode", "dynamic", "--log-level", "warn"])?;
    let client = Client::start(&serve, options, &tasks).await?;
    let shown = converse(&client, &alone).await;
    client.end().await;
    shown
}

fn launch(args: &[&str]) -> Result<StdioLaunch, String> {
    Ok(StdioLaunch {
        command: NAME.to_owned(),
        args: args.iter().map(ToString::to_string).collect(),
        env: [].into(),
        cwd: std::env::current_dir().map_err(|error| error.to_string())?,
        inherit_env: false,
        has_own_folder: false,
        sandbox: None,
        referred: [].into(),
        withheld: [].into(),
    })
}

async fn look(client: &Client) -> Result<Seen, String> {
    Ok(Seen { tools: client.tools().await?, instructions: client.instructions() })
}

/// The conversation, and the bill.
async fn converse(client: &Client, alone: &[Seen]) -> Result<(), String> {
    let out = Transcript::new();
    out.title(
        "What an agent sees of MCP Workbench",
        "`mcp-workbench serve` now runs on its own, with five toolboxes configured. This program \
         plays the agent's client: it sends (→) and gets (←) what follows, over MCP on stdio.",
    )?;

    out.step("The agent connects, and is told which toolboxes there are")?;
    out.sent("initialize")?;
    out.received("instructions:")?;
    out.quote(&client.instructions())?;

    out.step("It lists its tools: there is one, whatever stands behind it")?;
    out.sent("tools/list")?;
    let before = look(client).await?;
    out.received(&tools_line(&before))?;
    out.names(&before.tools)?;

    out.step("It opens a toolbox: only now are the servers in it started")?;
    let (after, answer) = open(client, &out).await?;

    out.step("It uses the new tools, as if they had always been there")?;
    call(client, &out, "desk__clock__now", json!({"offset": "+02:00"})).await?;
    let note = json!({"title": "Idea", "text": "Open a toolbox only when it is wanted"});
    call(client, &out, "desk__notes__add_note", note).await?;
    call(client, &out, "desk__notes__read_note", json!({"title": "Idea"})).await?;

    out.step("The bill: what the model has to read before its first word")?;
    transcript::table(&bill(alone, &before, &after))?;
    let each = alone.iter().map(|seen| size(seen).tokens()).sum::<usize>() / alone.len();
    transcript::text(&format!(
        "All of it was just sent and counted; tokens are an estimate, one for 4.5 bytes. The \
         first line is what the two servers of `{TOOLBOX}` say when they are asked directly. It \
         grows with every server: these two are small, about {} each. \
         The second line holds for all five toolboxes and grows by a sentence for each. Opening \
         costs what is opened, and its answer ({}) once: with everything open, the workbench \
         saves nothing.",
        count(each, "token"),
        count(answer.bytes(), "byte"),
    ))?;
    transcript::text(
        "Next: `mcp-workbench setup --dry-run` shows what it would do to the clients you have, and \
         changes nothing.",
    )
}

/// Opens the toolbox and lists the tools again when told to, as a client does; what it sees then.
async fn open(client: &Client, out: &Transcript) -> Result<(Seen, Size), String> {
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
        let text = Content::read(&answer).text;
        return Err(format!("`{TOOLBOX}` brought no new tools: {text}"));
    }
    out.received("notifications/tools/list_changed")?;
    out.sent("tools/list")?;
    // The answer to the call is held back until the client has the new list.
    let (after, answer) = tokio::join!(look(client), opening);
    let after = after?;
    out.received(&tools_line(&after))?;
    out.names(&after.tools)?;
    out.received("and the answer of open_toolbox:")?;
    let answer = answer?;
    out.quote(&result(&answer)?)?;
    Ok((after, Size::of(answer.len())))
}

async fn call(
    client: &Client,
    out: &Transcript,
    tool: &str,
    arguments: Value,
) -> Result<(), String> {
    out.sent(&format!("tools/call {tool} {arguments}"))?;
    let answer = client.call(tool, &arguments).await?;
    out.received(&result(&answer)?)
}

/// The text of a result that is no error.
fn result(answer: &Raw) -> Result<String, String> {
    let Content { text, is_error } = Content::read(answer);
    if is_error { Err(text) } else { Ok(text) }
}

fn tools_line(seen: &Seen) -> String {
    let tools = count(seen.tools.len(), "tool");
    format!("{tools}, {}:", list_size(seen))
}

fn list_size(seen: &Seen) -> Size {
    seen.tools.iter().map(|tool| Size::of(tool.raw.len())).sum()
}

fn size(seen: &Seen) -> Size {
    list_size(seen) + Size::of(seen.instructions.len())
}

fn bill(alone: &[Seen], before: &Seen, after: &Seen) -> Table {
    let mut table = Table::new([
        ("", Align::Left),
        ("Tools", Align::Right),
        ("Definitions", Align::Right),
        ("Instructions", Align::Right),
        ("Bytes", Align::Right),
        ("Tokens", Align::Right),
    ]);
    let mut row = |name: &str, seen: &[&Seen]| {
        let tools = seen.iter().map(|seen| seen.tools.len()).sum();
        let definitions: Size = seen.iter().map(|seen| list_size(seen)).sum();
        let all: Size = seen.iter().map(|seen| size(seen)).sum();
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
