//! The text report of `stats`.

use std::path::Path;

use crate::cli::monitoring::stats::{ConfiguredTools, unlisted_note};
use crate::cli::monitoring::unused_tools::by_server;
use crate::cli::output::print::escape_to_line;
use crate::cli::output::table::{Align, Table};
use crate::cli::output::units::{ContextSize, format_count, number};
use crate::cli::servers::login_summary::auth_command;
use mcp_workbench_core::telemetry::stats::{
    AuditSummary, LoginStats, ModelStats, ReadStats, RejectionStats, ToolStats,
};

/// The maximum length of a bar, in characters.
const BAR: usize = 20;
/// The maximum number of unused tools listed per server.
const NAMES: usize = 8;

pub(super) fn to_text(
    audit: &Path,
    summary: &AuditSummary,
    known: &ConfiguredTools,
    top: usize,
) -> String {
    let mut sections = vec![head(audit, summary)];
    let reached = summary.tools.iter().filter(|tool| tool.calls > tool.denied());
    let used = reached.clone().map(|tool| (tool, tool.calls - tool.denied()));
    sections
        .extend(table("Most used", "Calls", used.collect(), top, &|_, calls| number(whole(calls))));
    let slow = reached.filter_map(|tool| Some((tool, whole_micros(tool.percentile(95)?))));
    sections.extend(table("Slowest", "p50 / p95", slow.collect(), top, &p50_and_p95));
    let failing = summary.tools.iter().map(|tool| (tool, tool.failed()));
    sections.extend(table("Failing", "Failed", failing.collect(), top, &|_, calls| {
        number(whole(calls))
    }));
    let denied = summary.tools.iter().map(|tool| (tool, tool.denied()));
    sections
        .extend(table("Denied", "Denied", denied.collect(), top, &|_, calls| number(whole(calls))));
    sections.extend(reads(&summary.reads, top));
    sections.extend(logins(&summary.logins, top));
    sections.extend(rejections_table(&summary.incidents, top));
    sections.extend(models(&summary.models));
    sections.extend(never_used(known));
    if !known.unlisted.is_empty() {
        sections.push(unlisted_note(known));
    }
    sections.extend(clients(summary));
    if summary.lost > 0 {
        sections.push(format!(
            "warning: {} could not be written",
            format_count(whole(summary.lost), "record")
        ));
    }
    if summary.unreadable > 0 {
        let lines = format_count(whole(summary.unreadable), "line");
        sections.push(format!("warning: {lines} could not be read"));
    }
    sections.join("\n\n")
}

fn head(audit: &Path, summary: &AuditSummary) -> String {
    let day = |time: &str| time.split('T').next().unwrap_or_default().to_owned();
    let (from, to) = (day(&summary.from), day(&summary.to));
    let when = match (from.as_str(), to.as_str()) {
        ("", _) => String::new(),
        (from, to) if from == to => format!(", on {from}"),
        (from, to) => format!(", from {from} to {to}"),
    };
    format!(
        "{}: {} in {}{when}",
        audit.display(),
        format_count(whole(summary.calls()), "call"),
        format_count(summary.sessions, "session"),
    )
}

/// Lists tools by descending number, with a bar for each.
fn table(
    title: &str,
    what: &str,
    mut tools: Vec<(&ToolStats, u64)>,
    top: usize,
    say: &dyn Fn(&ToolStats, u64) -> String,
) -> Option<String> {
    tools.retain(|(_, number)| *number > 0);
    tools.sort_by_key(|(_, number)| std::cmp::Reverse(*number));
    let most = tools.first()?.1;
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
            escape_to_line(&tool.name),
            name(&tool.server),
            name(&tool.toolbox),
            say(tool, *number),
            bar(*number, most),
        ]);
    }
    Some(with_more(&table, tools.len(), top, "more tool"))
}

fn reads(all: &[ReadStats], top: usize) -> Option<String> {
    if all.is_empty() {
        return None;
    }
    let mut table = Table::new([
        ("Resources and prompts", Align::Left),
        ("Toolbox", Align::Left),
        ("Resources", Align::Right),
        ("Prompts", Align::Right),
        ("Failed", Align::Right),
    ]);
    for reads in all.iter().take(top) {
        table.row([
            escape_to_line(&reads.server),
            escape_to_line(&reads.toolbox),
            number(whole(reads.resources)),
            number(whole(reads.prompts)),
            number(whole(reads.failed)),
        ]);
    }
    Some(with_more(&table, all.len(), top, "more server"))
}

fn logins(all: &[LoginStats], top: usize) -> Option<String> {
    if all.is_empty() {
        return None;
    }
    let mut table = Table::new([
        ("Login", Align::Left),
        ("Account", Align::Left),
        ("Count", Align::Right),
        ("Renewed", Align::Right),
        ("Required", Align::Right),
        ("", Align::Left),
    ]);
    for login in all.iter().take(top) {
        let account = Some(login.account.as_str()).filter(|account| !account.is_empty());
        let hint =
            || format!("sign-in required: {}", auth_command("login", &login.server, account));
        table.row([
            escape_to_line(&login.server),
            escape_to_line(account.unwrap_or("machine")),
            number(whole(login.signed_in)),
            number(whole(login.renewed)),
            number(whole(login.required)),
            if login.is_required { escape_to_line(&hint()) } else { String::new() },
        ]);
    }
    Some(with_more(&table, all.len(), top, "more login"))
}

fn rejections_table(all: &[(RejectionStats, u64)], top: usize) -> Option<String> {
    if all.is_empty() {
        return None;
    }
    let mut table =
        Table::new([("Rejected", Align::Left), ("Reason", Align::Left), ("Count", Align::Right)]);
    for (RejectionStats { is_limit, cause, who }, times) in all.iter().take(top) {
        let who = if who.is_empty() { "(unknown)".to_owned() } else { escape_to_line(who) };
        let limit = if *is_limit { "limit of " } else { "" };
        table.row([who, format!("{limit}{}", escape_to_line(cause)), number(whole(*times))]);
    }
    Some(with_more(&table, all.len(), top, "more caller"))
}

fn with_more(table: &Table, rows: usize, top: usize, what: &str) -> String {
    match rows.saturating_sub(top) {
        0 => table.to_string(),
        more => format!("{table}\nand {}", format_count(more, what)),
    }
}

fn models(models: &[ModelStats]) -> Option<String> {
    if models.is_empty() {
        return None;
    }
    let mut table = Table::new([
        ("Language model", Align::Left),
        ("Requests", Align::Right),
        ("Failed", Align::Right),
        ("p50 / p95", Align::Right),
        ("Input tokens", Align::Right),
        ("Output tokens", Align::Right),
    ]);
    for model in models {
        let [half, most] =
            [50, 95].map(|percent| model.percentile(percent).map(whole_micros).map(milliseconds));
        table.row([
            escape_to_line(&model.name),
            number(whole(model.requests)),
            number(whole(model.failed)),
            half.zip(most).map(|(half, most)| format!("{half} / {most}")).unwrap_or_default(),
            number(whole(model.tokens_read)),
            number(whole(model.tokens_written)),
        ]);
    }
    Some(table.to_string())
}

/// Compares the definitions that clients showed their models with those they would have shown
/// without the workbench.
fn clients(summary: &AuditSummary) -> Option<String> {
    let unclear = (summary.unclear_sessions > 0).then(|| {
        let sessions = format_count(whole(summary.unclear_sessions), "session");
        format!("{sessions} recorded by an older version: tokens without the workbench unknown")
    });
    if summary.clients.is_empty() {
        return unclear;
    }
    let mut table = Table::new([
        ("Client", Align::Left),
        ("Sessions", Align::Right),
        ("Tokens", Align::Right),
        ("Tokens without", Align::Right),
    ]);
    for client in &summary.clients {
        let name = if client.name.is_empty() { "(unnamed)" } else { client.name.as_str() };
        let mark = if client.has_tool_search { " *" } else { "" };
        let tokens = |bytes| number(size(bytes).tokens());
        table.row([
            format!("{}{mark}", escape_to_line(name)),
            number(whole(client.sessions)),
            tokens(client.shown_bytes),
            tokens(client.without_workbench_bytes),
        ]);
    }
    let search = summary.clients.iter().any(|client| client.has_tool_search).then(|| {
        "* has its own tool search: without the workbench it would show tool names (counted)\n  \
         and search results (unknown)"
            .to_owned()
    });
    let saved =
        format!("Saved at least {} (counted once per session)", size(summary.saved_bytes()));
    let lines = [Some(table.to_string()), search, Some(saved), unclear];
    Some(lines.into_iter().flatten().collect::<Vec<_>>().join("\n"))
}

fn never_used(known: &ConfiguredTools) -> Option<String> {
    if known.unused.is_empty() {
        return None;
    }
    let size: ContextSize = known.unused.iter().map(|tool| ContextSize::of(tool.bytes)).sum();
    let mut lines =
        vec![format!("Never used: {}, {size}", format_count(known.unused.len(), "tool"))];
    for ((toolbox, server), tools) in by_server(&known.unused) {
        let names: Vec<_> = tools.iter().take(NAMES).map(|tool| tool.tool.as_str()).collect();
        let more = tools.len().saturating_sub(NAMES);
        let more = if more > 0 { format!(" and {} more", number(more)) } else { String::new() };
        lines.push(format!("  {toolbox}/{server}: {}{more}", names.join(", ")));
    }
    Some(lines.join("\n"))
}

/// A bar of `value` relative to `most`, with a resolution of an eighth of a character.
fn bar(value: u64, most: u64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let length = u128::from(value) * (BAR as u128) * 8 / u128::from(most.max(1));
    let length = usize::try_from(length).unwrap_or_default().max(1);
    format!("{}{}", "█".repeat(length / 8), EIGHTHS[length % 8])
}

fn p50_and_p95(tool: &ToolStats, most: u64) -> String {
    let half = tool.percentile(50).map(whole_micros).unwrap_or_default();
    format!("{} / {}", milliseconds(half), milliseconds(most))
}

pub(super) fn milliseconds(micros: u64) -> String {
    match micros {
        0..10_000 => format!("{}.{} ms", micros / 1000, micros % 1000 / 100),
        10_000..10_000_000 => format!("{} ms", number(whole(micros / 1000))),
        _ => format!("{} s", number(whole(micros / 1_000_000))),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "created from a number of microseconds"
)]
pub(super) fn whole_micros(ms: f64) -> u64 {
    (ms * 1000.0).round() as u64
}

pub(super) fn whole(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

pub(super) fn size(bytes: u64) -> ContextSize {
    ContextSize::of(whole(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bar_length_is_proportional() {
        assert_eq!(bar(100, 100), "█".repeat(BAR));
        assert_eq!(bar(50, 100), "█".repeat(BAR / 2));
        assert_eq!(bar(1, 1_000_000), "▏");
        assert_eq!(bar(3, 160), "▍");
    }

    #[test]
    fn formats_latencies_in_the_fitting_unit() {
        let told = [0, 1_250, 9_999, 12_345, 1_234_567, 12_345_678].map(milliseconds);
        assert_eq!(told, ["0.0 ms", "1.2 ms", "9.9 ms", "12 ms", "1,234 ms", "12 s"]);
    }
}
