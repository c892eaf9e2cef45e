//! Line-by-line differences from the lock.

use std::fmt::Write;

use crate::cli::access::lock::report::DriftReport;
use crate::cli::diagnostics::definition_remarks::words;
use crate::cli::output::unified_diff;
use mcp_workbench_names::untrusted_text;

/// Returns a unified diff of all changed definitions, with invisible characters as `\u{…}`.
pub(super) fn text(report: &DriftReport) -> String {
    let mut all = String::new();
    for row in &report.drift {
        let [before, now] = row.texts.each_ref().map(|text| shown(text));
        let name = format!("{} {} {}", row.server, row.kind, row.name);
        let (old, new) =
            (format!("lock: {}", name.trim_end()), format!("now: {}", name.trim_end()));
        let _ = writeln!(all, "{}", unified_diff(&before, &now, [&old, &new]));
        let on = report.findings.iter().filter(|one| one.is_unreviewed_of(&row.server));
        for remark in on.flat_map(|one| &one.server.shown) {
            let place = &remark.location;
            if (place.kind.as_str(), &place.name) == (row.kind, &row.own) {
                let _ = writeln!(all, "# finding: {}", words(remark));
            }
        }
        let _ = writeln!(all, "# {}\n", row.accept);
    }
    all
}

/// Escapes invisible characters and ends the text with a newline.
fn shown(text: &str) -> String {
    let mut shown = String::with_capacity(text.len() + 1);
    for c in text.chars() {
        match c {
            '\n' => shown.push(c),
            c if untrusted_text::is_invisible(c) => shown.extend(c.escape_unicode()),
            c => shown.push(c),
        }
    }
    if !shown.is_empty() {
        shown.push('\n');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_invisible_characters() {
        let text = "\"a\u{202e}b\u{e0041}\u{200b}é\"\n}";
        assert_eq!(shown(text), "\"a\\u{202e}b\\u{e0041}\\u{200b}é\"\n}\n");
    }
}
