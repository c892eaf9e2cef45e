//! Formats the report of `lock --check` as Markdown for a pull request.

use std::fmt::Write;

use crate::cli::access::lock::line_diff;
use crate::cli::access::lock::report::{CheckOutcome, DriftReport, UncheckedServer};

/// Bytes of the diff that are shown. A pull request comment is limited to 64 KiB.
const MAX_DIFFERENCE: usize = 40_000;

pub(super) fn page(report: &DriftReport) -> String {
    let mut page = format!("## MCP definitions: {}\n", escaped(&report.summary()));
    if !report.drift.is_empty() {
        page.push_str("\n| Server | Definition | Change | Members |\n| --- | --- | --- | --- |\n");
        for row in &report.drift {
            let what = format!("{} {}", row.kind, row.name);
            let _ = writeln!(
                page,
                "| {} | {} | {} | {} |",
                escaped(&row.server),
                escaped(what.trim_end()),
                row.difference,
                escaped(&row.members.join(", "))
            );
        }
        let difference = line_diff::text(report);
        let end = difference.floor_char_boundary(MAX_DIFFERENCE);
        let fence = "`".repeat(longest_ticks(&difference).max(2) + 1);
        let _ = write!(
            page,
            "\n<details><summary>Diff</summary>\n\n{fence}diff\n{}\n{fence}\n\n</details>\n",
            difference[..end].trim_end()
        );
        page.push_str("\nAccept a change with `mcp-workbench lock --accept SERVER[:TOOL]`.\n");
    }
    remarks(&mut page, report);
    for UncheckedServer { server, reason } in &report.failed {
        let _ = writeln!(page, "\n- `{}` failed to start: {}", server, escaped(reason));
    }
    for note in report.notes() {
        let _ = writeln!(page, "\n- {}", escaped(note));
    }
    if report.outcome() == CheckOutcome::Unknown {
        page.push_str("\nServers that were not checked may differ from the lock.\n");
    }
    page.trim_end().to_owned()
}

/// Adds the remarks on unreviewed definitions, and counts those on reviewed ones.
fn remarks(page: &mut String, report: &DriftReport) {
    let (news, reviewed): (Vec<_>, Vec<_>) =
        report.findings.iter().partition(|one| one.is_reviewed == Some(false));
    if !news.is_empty() {
        page.push_str("\n| Server | Finding | Advice |\n| --- | --- | --- |\n");
    }
    for one in &news {
        for row in one.rows() {
            let words = escaped(&row.words).replace('`', "\\`");
            let _ = writeln!(page, "| {} | {words} | {} |", escaped(row.server), row.advice);
        }
        if one.hidden_count() > 0 {
            let _ = writeln!(
                page,
                "| {} | and {} more | |",
                escaped(&one.server.server),
                one.hidden_count()
            );
        }
    }
    let reviewed: usize = reviewed.iter().map(|one| one.rows().count() + one.hidden_count()).sum();
    if reviewed > 0 {
        let _ = writeln!(page, "\nFindings in reviewed definitions: {reviewed}.");
    }
}

fn longest_ticks(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or_default()
}

/// Escapes Markdown and HTML, and joins lines.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\r' => escaped.push(' '),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '|' | '*' | '_' | '[' | ']' | '!' | '\\' | '@' | '#' => {
                escaped.push('\\');
                escaped.push(c);
            }
            c => escaped.push(c),
        }
    }
    escaped
}
