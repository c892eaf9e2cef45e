//! The HTML report of `stats`: one self-contained file without scripts.

use std::path::Path;

use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde_json::Value;

use crate::cli::monitoring::stats::text::{milliseconds, size, whole, whole_micros};
use crate::cli::monitoring::stats::{ConfiguredTools, unlisted_note};
use crate::cli::monitoring::unused_tools::by_server;
use crate::cli::output::print::escape_to_line;
use crate::cli::output::units::{ContextSize, format_count, number};
use mcp_workbench_core::telemetry::stats::{AuditSummary, TimeBucket, ToolStats};

/// The width and height of the calls chart, in SVG units.
const PLOT: (usize, usize) = (620, 120);

/// Renders the report. `patch` is the configuration change that filters out unused tools.
pub(super) fn page(
    audit: &Path,
    summary: &AuditSummary,
    known: &ConfiguredTools,
    patch: Option<&Value>,
) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta http-equiv="Content-Security-Policy"
                    content="default-src 'none'; style-src 'unsafe-inline'";
                title { "MCP Workbench: usage report" }
                style { (PreEscaped(include_str!("page.css"))) }
            }
            body {
                header {
                    h1 { "Usage report" }
                    p.faint { (escape_to_line(&audit.display().to_string())) (when(summary)) }
                }
                main {
                    (figures(summary))
                    (calls_chart(&summary.course))
                    (clients(summary))
                    (tools(summary))
                    (outcomes(summary))
                    (models(summary))
                    (never_used(known, patch))
                }
            }
        }
    }
}

fn when(summary: &AuditSummary) -> String {
    match (summary.from.as_str(), summary.to.as_str()) {
        ("", _) => String::new(),
        (from, to) => format!(", from {} to {}", escape_to_line(from), escape_to_line(to)),
    }
}

fn figures(summary: &AuditSummary) -> Markup {
    let sum = |of: fn(&ToolStats) -> u64| summary.tools.iter().map(of).sum::<u64>();
    let figures = [
        ("calls", number(whole(summary.calls()))),
        ("failed", number(whole(sum(ToolStats::failed)))),
        ("denied", number(whole(sum(ToolStats::denied)))),
        ("sessions with calls", number(summary.sessions)),
        ("named agents", number(summary.agents.len())),
        ("tokens saved (at least)", number(size(summary.saved_bytes()).tokens())),
    ];
    html! {
        dl { @for (what, figure) in &figures { div { dt { (what) } dd { (figure) } } } }
        @if summary.lost > 0 {
            p.bad { (format_count(whole(summary.lost), "record")) " could not be written." }
        }
        @if summary.unreadable > 0 {
            p.bad { (format_count(whole(summary.unreadable), "line")) " could not be read." }
        }
    }
}

fn calls_chart(spans: &[TimeBucket]) -> Markup {
    let most = spans.iter().map(|span| span.calls).max().unwrap_or_default();
    let (width, height) = PLOT;
    let step = width / spans.len().max(1);
    let tall = |calls: u64| {
        usize::try_from(u128::from(calls) * height as u128 / u128::from(most.max(1))).unwrap_or(0)
    };
    html! {
        @if let (Some(first), Some(last)) = (spans.first(), spans.last()) {
            h2 { "Calls per " @if first.begins.contains('T') { "hour" } @else { "day" } }
            svg viewBox=(format!("0 0 {width} {}", height + 1)) role="img"
                aria-label=(format!("peak {}", format_count(whole(most), "call"))) {
                @for (at, span) in spans.iter().enumerate() {
                    g {
                        title { (span.begins) ": " (format_count(whole(span.calls), "call")) ", "
                            (number(whole(span.failed))) " failed" }
                        @for (class, calls) in [("calls", span.calls), ("failed", span.failed)] {
                            rect class=(class) x=(at * step) width=(step.saturating_sub(2).clamp(1, 40))
                                y=(height - tall(calls)) height=(tall(calls)) {}
                        }
                    }
                }
                line x1="0" x2=(width) y1=(height) y2=(height) {}
            }
            p.faint { (escape_to_line(&first.begins)) " to " (escape_to_line(&last.begins))
                " UTC; peak " (format_count(whole(most), "call")) "." }
        }
    }
}

fn clients(summary: &AuditSummary) -> Markup {
    let sizes = summary.clients.iter();
    let sizes = sizes.map(|client| client.without_workbench_bytes.max(client.shown_bytes));
    let most = sizes.max().unwrap_or_default();
    html! {
        @if !summary.clients.is_empty() {
            h2 { "Tokens of definitions shown to models" }
            div.wide tabindex="0" { table {
                thead { tr {
                    th scope="col" { "Client" }
                    th.number scope="col" { "Sessions" }
                    th.number scope="col" { "Tokens" }
                    th.plot scope="col" {}
                    th.number scope="col" { "Tokens without" }
                    th.plot scope="col" {}
                } }
                tbody { @for client in &summary.clients { tr {
                    th scope="row" {
                        @if client.name.is_empty() { "(unnamed)" } @else { (escape_to_line(&client.name)) }
                        @if client.has_tool_search { " *" }
                    }
                    td.number { (number(whole(client.sessions))) }
                    td.number { (number(size(client.shown_bytes).tokens())) }
                    (bar(client.shown_bytes, most))
                    td.number { (number(size(client.without_workbench_bytes).tokens())) }
                    (bar(client.without_workbench_bytes, most))
                } } }
            } }
            @if summary.clients.iter().any(|client| client.has_tool_search) {
                p.faint {
                    "* has its own tool search: without the workbench it would show tool names (counted) "
                    "and search results (unknown)."
                }
            }
        }
    }
}

fn tools(summary: &AuditSummary) -> Markup {
    let most = summary.tools.iter().map(|tool| tool.calls).max().unwrap_or_default();
    html! {
        h2 { "Tools" }
        @if summary.tools.is_empty() { p { "No calls." } } @else {
            div.wide tabindex="0" { table {
                thead { tr {
                    th scope="col" { "Tool" }
                    th scope="col" { "Server" }
                    th.number scope="col" { "Calls" }
                    th.plot scope="col" {}
                    @for head in ["Failed", "Denied", "p50", "p95", "p99", "Bytes"] {
                        th.number scope="col" { (head) }
                    }
                } }
                tbody { @for tool in &summary.tools { tr {
                    th scope="row" { (escape_to_line(&tool.name)) }
                    td { (place(tool)) }
                    td.number { (number(whole(tool.calls))) }
                    (bar(tool.calls, most))
                    td.number { (some(tool.failed())) }
                    td.number { (some(tool.denied())) }
                    @for percent in [50, 95, 99] { td.number { (time(tool.percentile(percent))) } }
                    td.number { (number(whole(tool.result_bytes))) }
                } } }
            } }
        }
    }
}

fn outcomes(summary: &AuditSummary) -> Markup {
    let bad = summary.tools.iter().filter(|tool| tool.failed() + tool.denied() > 0);
    let mut bad: Vec<_> = bad.collect();
    bad.sort_by_key(|tool| std::cmp::Reverse(tool.failed() + tool.denied()));
    html! {
        @if !bad.is_empty() {
            h2 { "Failures and denied calls" }
            ul { @for tool in bad { li {
                (escape_to_line(&tool.name)) ", " (place(tool)) ": "
                @for (at, (outcome, calls)) in tool.outcomes().enumerate() {
                    @if at > 0 { ", " }
                    (number(whole(calls))) " " code { (outcome) }
                }
            } } }
        }
    }
}

fn models(summary: &AuditSummary) -> Markup {
    html! {
        @if !summary.models.is_empty() {
            h2 { "Language models" }
            div.wide tabindex="0" { table {
                thead { tr {
                    th scope="col" { "Model" }
                    @for head in ["Requests", "Failed", "p50", "p95", "Input tokens", "Output tokens"] {
                        th.number scope="col" { (head) }
                    }
                } }
                tbody { @for model in &summary.models { tr {
                    th scope="row" { (escape_to_line(&model.name)) }
                    td.number { (number(whole(model.requests))) }
                    td.number { (some(model.failed)) }
                    @for percent in [50, 95] { td.number { (time(model.percentile(percent))) } }
                    td.number { (number(whole(model.tokens_read))) }
                    td.number { (number(whole(model.tokens_written))) }
                } } }
            } }
        }
    }
}

fn never_used(known: &ConfiguredTools, patch: Option<&Value>) -> Markup {
    let size: ContextSize = known.unused.iter().map(|tool| ContextSize::of(tool.bytes)).sum();
    html! {
        @if !known.unused.is_empty() {
            h2 { "Never used" }
            p { (format_count(known.unused.len(), "tool")) ": " (size.to_string()) "." }
            ul { @for ((toolbox, server), tools) in by_server(&known.unused) { li {
                (escape_to_line(toolbox)) "/" (escape_to_line(server)) ": "
                @for (at, tool) in tools.iter().enumerate() {
                    @if at > 0 { ", " }
                    code { (escape_to_line(&tool.tool)) }
                }
            } } }
            @if let Some(patch) = patch {
                p { "Merge this into the configuration to remove them:" }
                pre tabindex="0" { (format!("{patch:#}")) }
            }
        }
        @if !known.unlisted.is_empty() { p.faint { (unlisted_note(known)) } }
    }
}

fn place(tool: &ToolStats) -> String {
    match (tool.toolbox.as_str(), tool.server.as_str()) {
        ("", "") => "(none)".to_owned(),
        (toolbox, server) => format!("{}/{}", escape_to_line(toolbox), escape_to_line(server)),
    }
}

fn bar(value: u64, most: u64) -> Markup {
    let percent = u128::from(value) * 100 / u128::from(most.max(1));
    html! {
        td.plot aria-hidden="true" {
            @if value > 0 { span style=(format!("width:{percent}%")) {} }
        }
    }
}

fn some(calls: u64) -> String {
    if calls == 0 { String::new() } else { number(whole(calls)) }
}

fn time(ms: Option<f64>) -> String {
    ms.map(whole_micros).map(milliseconds).unwrap_or_default()
}
