//! `stats`: what the audit comes to.

mod patch;
mod since;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::cli::error::Error;
use crate::cli::print::printable;
use crate::cli::size::{Size, count, number};
use crate::cli::stats::patch::{Server, by_server};
use crate::cli::table::{Align, Table};
use crate::cli::{Global, print, with_gateway, without_rules};
use crate::config::{Config, Dialect, LoadError, Loaded};
use crate::gateway::Gateway;
use crate::observe::stats::{Client, Folded, Model, Stats, Tool, files};

const EXAMPLES: &str = "\
Examples:
  mcp-workbench stats                   Fold the audit that the configuration names
  mcp-workbench stats --since 7d --json
  mcp-workbench stats --patch           Print what leaves out the tools that were never used";

/// How wide a bar is that stands for the most.
const BAR: usize = 20;
/// How many names of one server are told.
const NAMES: usize = 8;

/// Fold the audit: what is used, what never, what is slow, what fails
///
/// Reads the audit file with all that were put aside. What was never used is known from what is kept
/// of servers' listings; nothing is started for it. Tokens are an estimate, one for 4.5 bytes.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// The audit file [default: the one that the configuration names]
    file: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Leave out what is older: 30m, 24h, 7d, a date or a time
    #[arg(long, value_name = "TIME", value_parser = since::parse)]
    since: Option<String>,
    /// Print `toolFilters` that leave out what was never used, to merge into the configuration
    #[arg(long, conflicts_with = "json")]
    patch: bool,
    /// How many tools each table has
    #[arg(long, value_name = "NUMBER", default_value_t = 10)]
    top: usize,
}

/// A tool that agents may use and that none has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Unused {
    pub(crate) toolbox: String,
    pub(crate) server: String,
    pub(crate) tool: String,
    #[serde(skip)]
    pub(crate) own_name: String,
    pub(crate) bytes: usize,
}

/// What the configuration says of tools.
#[derive(Default)]
struct Known {
    unused: Vec<Unused>,
    /// How many tools each server shows, by toolbox and server.
    shown: Vec<(String, String, usize)>,
    /// Servers of which nothing is kept.
    unlisted: Vec<String>,
}

/// One tool, for those who read JSON.
#[derive(Serialize)]
struct Row<'a> {
    toolbox: &'a str,
    server: &'a str,
    tool: &'a str,
    calls: u64,
    failed: u64,
    refused: u64,
    outcomes: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p50_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p95_ms: Option<f64>,
    argument_bytes: u64,
    result_bytes: u64,
}

/// One language model, for those who read JSON.
#[derive(Serialize)]
struct ModelRow<'a> {
    model: &'a str,
    requests: u64,
    failed: u64,
    tokens_read: u64,
    tokens_written: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    p50_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p95_ms: Option<f64>,
}

/// One client's program, for those who read JSON.
#[derive(Serialize)]
struct ClientRow<'a> {
    client: &'a str,
    sessions: u64,
    tool_search: bool,
    given_bytes: u64,
    without_workbench_bytes: u64,
    saved_bytes: u64,
}

#[derive(Serialize)]
struct Report<'a> {
    files: Vec<String>,
    from: &'a str,
    to: &'a str,
    calls: u64,
    agents: &'a [String],
    sessions: usize,
    tools: Vec<Row<'a>>,
    models: Vec<ModelRow<'a>>,
    never_used: &'a [Unused],
    not_known: &'a [String],
    clients: Vec<ClientRow<'a>>,
    saved_bytes: u64,
    estimated_tokens_saved: usize,
    sessions_without_client: u64,
    lost_records: u64,
    unreadable_lines: u64,
}

/// Folds, and tells what it comes to.
pub(crate) fn run(global: &Global, args: &Args) -> Result<ExitCode, Error> {
    let loaded = match global.read()? {
        Ok(loaded) => Some(loaded),
        // An audit can be read without.
        Err(LoadError::Missing(_)) if args.file.is_some() && !args.patch => None,
        Err(error) => return Err(Error::config(error)),
    };
    let named = || Some(loaded.as_ref()?.config.audit.as_ref()?.file.clone());
    let audit = args.file.clone().or_else(named).ok_or_else(|| {
        Error::failed("no calls are recorded: the configuration has no `audit`").hint(
            "write `\"audit\": {\"file\": \"audit.jsonl\"}` at its top to record them from now on, or \
             name the file of another audit",
        )
    })?;
    let files = files(&audit);
    if files.is_empty() {
        return Err(Error::failed(format!("there is no audit at `{}`", audit.display()))
            .hint("it is made when something is served with `audit` in the configuration"));
    }
    let stats = Stats::read(&files, args.since.as_deref()).map_err(Error::internal)?;
    let folded = stats.finish();
    let known = match &loaded {
        Some(Loaded { config, .. }) => {
            // What any agent may use counts, unless one is named.
            let is_of_one = global.caller().agent.is_some();
            let config = config.clone();
            let config = if is_of_one { config } else { without_rules(config) };
            with_gateway(global, config, async |gateway| {
                gateway.recalled().await;
                Known::new(gateway, &folded)
            })?
        }
        None => Known::default(),
    };
    if let (true, Some(loaded)) = (args.patch, &loaded) {
        return patch(global, loaded, &known);
    }
    if args.json {
        print::json(&report(&files, &folded, &known))?;
    } else {
        print::prose(&in_words(&audit, &folded, &known, args.top))?;
    }
    Ok(ExitCode::SUCCESS)
}

impl Known {
    fn new(gateway: &Gateway, folded: &Folded) -> Self {
        let mut known = Self::default();
        let snapshot = gateway.snapshot();
        for toolbox in &gateway.config().toolboxes {
            let view = snapshot.view(&toolbox.name);
            for server in toolbox.launched() {
                let tools: Vec<_> =
                    view.tools.iter().filter(|tool| tool.id.server == server.name).collect();
                let (toolbox, server) = (toolbox.name.to_string(), server.name.to_string());
                if tools.is_empty() {
                    known.unlisted.push(format!("{toolbox}/{server}"));
                }
                let unused = tools.iter().filter(|tool| {
                    let called = folded.tool(&toolbox, &server, &tool.id.tool);
                    called.is_none_or(|called| called.calls == called.refused())
                });
                known.unused.extend(unused.map(|tool| Unused {
                    toolbox: toolbox.clone(),
                    server: server.clone(),
                    tool: tool.id.tool.clone(),
                    own_name: tool.own.name.clone(),
                    bytes: tool.definition.raw.len(),
                }));
                known.shown.push((toolbox, server, tools.len()));
            }
        }
        known
    }
}

fn patch(global: &Global, loaded: &Loaded, known: &Known) -> Result<ExitCode, Error> {
    let Loaded { config, dialect, file, .. } = loaded;
    if !matches!(dialect, Dialect::Native | Dialect::Client | Dialect::Modular) {
        return Err(Error::failed(format!("`{file}` is not JSON, so it cannot be patched"))
            .hint("`mcp-workbench import` makes a configuration of it"));
    }
    let text = std::fs::read_to_string(&global.config_file()?).map_err(Error::internal)?;
    let tree = jsonc_parser::parse_to_ast(
        text.trim_start_matches('\u{feff}'),
        &jsonc_parser::CollectOptions::default(),
        &jsonc_parser::ParseOptions::default(),
    );
    let read = tree.map_err(Error::internal)?.value.map(Value::from);
    let servers = servers(config, known);
    match patch::fragment(&read.unwrap_or_default(), &servers, &known.unused) {
        Some(fragment) => {
            print::json(&fragment)?;
            let tools = count(known.unused.len(), "tool");
            let size: Size = known.unused.iter().map(|tool| Size::of(tool.bytes)).sum();
            print::note(&format!(
                "merged into `{file}` this leaves out {tools} that were never used: {size}"
            ));
        }
        None => print::note(&"nothing is to be left out"),
    }
    if !known.unlisted.is_empty() {
        print::note(&not_known(known));
    }
    Ok(ExitCode::SUCCESS)
}

fn servers<'a>(config: &'a Config, known: &Known) -> Vec<Server<'a>> {
    let shown = known.shown.iter().filter_map(|(toolbox, server, tools)| {
        let toolbox = config.toolbox(toolbox)?;
        let config = toolbox.server(server)?;
        Some(Server { toolbox: toolbox.name.as_str(), config, tools: *tools })
    });
    shown.collect()
}

fn not_known(known: &Known) -> String {
    format!(
        "nothing is known of {}: `mcp-workbench cache refresh` finds out what there is",
        known.unlisted.join(", ")
    )
}

fn report<'a>(files: &[PathBuf], folded: &'a Folded, known: &'a Known) -> Report<'a> {
    let row = |tool: &'a Tool| Row {
        toolbox: &tool.toolbox,
        server: &tool.server,
        tool: &tool.name,
        calls: tool.calls,
        failed: tool.failed(),
        refused: tool.refused(),
        outcomes: tool.outcomes().map(|(word, count)| (word.to_owned(), count.into())).collect(),
        p50_ms: tool.percentile(50),
        p95_ms: tool.percentile(95),
        argument_bytes: tool.argument_bytes,
        result_bytes: tool.result_bytes,
    };
    let model = |model: &'a Model| ModelRow {
        model: &model.name,
        requests: model.requests,
        failed: model.failed,
        tokens_read: model.tokens_read,
        tokens_written: model.tokens_written,
        p50_ms: model.percentile(50),
        p95_ms: model.percentile(95),
    };
    let client = |client: &'a Client| ClientRow {
        client: &client.name,
        sessions: client.sessions,
        tool_search: client.has_tool_search,
        given_bytes: client.given_bytes,
        without_workbench_bytes: client.without_bytes,
        saved_bytes: client.saved_bytes,
    };
    Report {
        files: files.iter().map(|file| file.display().to_string()).collect(),
        from: &folded.from,
        to: &folded.to,
        calls: folded.calls(),
        agents: &folded.agents,
        sessions: folded.sessions,
        tools: folded.tools.iter().map(row).collect(),
        models: folded.models.iter().map(model).collect(),
        never_used: &known.unused,
        not_known: &known.unlisted,
        clients: folded.clients.iter().map(client).collect(),
        saved_bytes: folded.saved_bytes(),
        estimated_tokens_saved: size(folded.saved_bytes()).tokens(),
        sessions_without_client: folded.unclear_sessions,
        lost_records: folded.lost,
        unreadable_lines: folded.unreadable,
    }
}

fn in_words(audit: &Path, folded: &Folded, known: &Known, top: usize) -> String {
    let mut sections = vec![head(audit, folded)];
    let reached = folded.tools.iter().filter(|tool| tool.calls > tool.refused());
    let used = reached.clone().map(|tool| (tool, tool.calls - tool.refused()));
    sections
        .extend(table("Most used", "Calls", used.collect(), top, &|_, calls| number(whole(calls))));
    let slow = reached.filter_map(|tool| Some((tool, whole_micros(tool.percentile(95)?))));
    sections.extend(table("Slowest", "Half, 95 % within", slow.collect(), top, &half_and_most));
    let failing = folded.tools.iter().map(|tool| (tool, tool.failed()));
    sections.extend(table("Failing", "Failed", failing.collect(), top, &|_, calls| {
        number(whole(calls))
    }));
    let refused = folded.tools.iter().map(|tool| (tool, tool.refused()));
    sections.extend(table("Refused", "Refused", refused.collect(), top, &|_, calls| {
        number(whole(calls))
    }));
    sections.extend(models(&folded.models));
    sections.extend(never_used(known));
    if !known.unlisted.is_empty() {
        sections.push(not_known(known));
    }
    sections.extend(clients(folded));
    if folded.lost > 0 {
        sections
            .push(format!("warning: {} could not be written", count(whole(folded.lost), "record")));
    }
    if folded.unreadable > 0 {
        let lines = count(whole(folded.unreadable), "line");
        sections.push(format!("warning: {lines} could not be read"));
    }
    sections.join("\n\n")
}

fn head(audit: &Path, folded: &Folded) -> String {
    let day = |time: &str| time.split('T').next().unwrap_or_default().to_owned();
    let (from, to) = (day(&folded.from), day(&folded.to));
    let when = match (from.as_str(), to.as_str()) {
        ("", _) => String::new(),
        (from, to) if from == to => format!(", on {from}"),
        (from, to) => format!(", from {from} to {to}"),
    };
    format!(
        "{}: {} in {}{when}",
        audit.display(),
        count(whole(folded.calls()), "call"),
        count(folded.sessions, "session"),
    )
}

/// Tools by a number, the largest first, with a bar for each.
fn table(
    title: &str,
    what: &str,
    mut tools: Vec<(&Tool, u64)>,
    top: usize,
    say: &dyn Fn(&Tool, u64) -> String,
) -> Option<String> {
    tools.retain(|(_, number)| *number > 0);
    tools.sort_by_key(|(_, number)| std::cmp::Reverse(*number));
    let most = tools.first()?.1;
    let more = tools.len().saturating_sub(top);
    let mut table = Table::new([
        (title, Align::Left),
        ("Server", Align::Left),
        ("Toolbox", Align::Left),
        (what, Align::Right),
        ("", Align::Left),
    ]);
    for (tool, number) in tools.iter().take(top) {
        let name = |name: &str| if name.is_empty() { "(none)".to_owned() } else { name.to_owned() };
        table.row([
            printable(&tool.name),
            name(&tool.server),
            name(&tool.toolbox),
            say(tool, *number),
            bar(*number, most),
        ]);
    }
    let more = if more > 0 { format!("\nand {}", count(more, "more tool")) } else { String::new() };
    Some(format!("{table}{more}"))
}

/// The language models that were asked, with what that took.
fn models(models: &[Model]) -> Option<String> {
    if models.is_empty() {
        return None;
    }
    let mut table = Table::new([
        ("Language model", Align::Left),
        ("Requests", Align::Right),
        ("Failed", Align::Right),
        ("Half, 95 % within", Align::Right),
        ("Tokens read", Align::Right),
        ("Tokens written", Align::Right),
    ]);
    for model in models {
        let [half, most] =
            [50, 95].map(|percent| model.percentile(percent).map(whole_micros).map(milliseconds));
        table.row([
            printable(&model.name),
            number(whole(model.requests)),
            number(whole(model.failed)),
            half.zip(most).map(|(half, most)| format!("{half}, {most}")).unwrap_or_default(),
            number(whole(model.tokens_read)),
            number(whole(model.tokens_written)),
        ]);
    }
    Some(table.to_string())
}

/// Definitions that clients showed their models, and that they would have shown without us.
fn clients(folded: &Folded) -> Option<String> {
    let unclear = (folded.unclear_sessions > 0).then(|| {
        let sessions = count(whole(folded.unclear_sessions), "session");
        format!(
            "{sessions} of an older version: it is not known what their clients would have shown"
        )
    });
    if folded.clients.is_empty() {
        return unclear;
    }
    let mut table = Table::new([
        ("Definitions shown by", Align::Left),
        ("Sessions", Align::Right),
        ("Tokens", Align::Right),
        ("Without the workbench", Align::Right),
    ]);
    for client in &folded.clients {
        let name = if client.name.is_empty() { "(no name)" } else { client.name.as_str() };
        let mark = if client.has_tool_search { " *" } else { "" };
        let tokens = |bytes| number(size(bytes).tokens());
        table.row([
            format!("{}{mark}", printable(name)),
            number(whole(client.sessions)),
            tokens(client.given_bytes),
            tokens(client.without_bytes),
        ]);
    }
    let search = folded.clients.iter().any(|client| client.has_tool_search).then(|| {
        "* finds tools by a search of its own: without the workbench it shows their names, which are \
         counted,\n  and what its searches find, which is not known"
            .to_owned()
    });
    let saved = format!("Spared at least: {}, counted once a session", size(folded.saved_bytes()));
    let lines = [Some(table.to_string()), search, Some(saved), unclear];
    Some(lines.into_iter().flatten().collect::<Vec<_>>().join("\n"))
}

fn never_used(known: &Known) -> Option<String> {
    if known.unused.is_empty() {
        return None;
    }
    let size: Size = known.unused.iter().map(|tool| Size::of(tool.bytes)).sum();
    let mut lines = vec![format!("Never used: {}, {size}", count(known.unused.len(), "tool"))];
    for ((toolbox, server), tools) in by_server(&known.unused) {
        let names: Vec<_> = tools.iter().take(NAMES).map(|tool| tool.tool.as_str()).collect();
        let more = tools.len().saturating_sub(NAMES);
        let more = if more > 0 { format!(" and {} more", number(more)) } else { String::new() };
        lines.push(format!("  {toolbox}/{server}: {}{more}", names.join(", ")));
    }
    Some(lines.join("\n"))
}

/// A bar of eighths, as long beside the longest as the number beside the most.
fn bar(value: u64, most: u64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let length = u128::from(value) * (BAR as u128) * 8 / u128::from(most.max(1));
    let length = usize::try_from(length).unwrap_or_default().max(1);
    format!("{}{}", "█".repeat(length / 8), EIGHTHS[length % 8])
}

/// The time that half of a tool's calls did not pass, and the one that most did not.
fn half_and_most(tool: &Tool, most: u64) -> String {
    let half = tool.percentile(50).map(whole_micros).unwrap_or_default();
    format!("{}, {}", milliseconds(half), milliseconds(most))
}

fn milliseconds(micros: u64) -> String {
    match micros {
        0..10_000 => format!("{}.{} ms", micros / 1000, micros % 1000 / 100),
        10_000..10_000_000 => format!("{} ms", number(whole(micros / 1000))),
        _ => format!("{} s", number(whole(micros / 1_000_000))),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it was made of a number of microseconds"
)]
fn whole_micros(ms: f64) -> u64 {
    (ms * 1000.0).round() as u64
}

fn whole(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn size(bytes: u64) -> Size {
    Size::of(whole(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_as_long_as_its_number() {
        assert_eq!(bar(100, 100), "█".repeat(BAR));
        assert_eq!(bar(50, 100), "█".repeat(BAR / 2));
        assert_eq!(bar(1, 1_000_000), "▏");
        assert_eq!(bar(3, 160), "▍");
    }

    #[test]
    fn times_are_told_in_their_unit() {
        let told = [0, 1_250, 9_999, 12_345, 1_234_567, 12_345_678].map(milliseconds);
        assert_eq!(told, ["0.0 ms", "1.2 ms", "9.9 ms", "12 ms", "1,234 ms", "12 s"]);
    }
}
