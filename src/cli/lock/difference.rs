//! Differences from the lock, line by line.

use std::fmt::Write;

use similar::TextDiff;

use crate::cli::lock::report::Report;
use crate::cli::misleading::words;
use crate::name::seen;

/// How many lines stand around what changes.
const CONTEXT: usize = 3;

/// The lines that differ, of all definitions. What is not seen is shown as `\u{…}`.
pub(super) fn text(report: &Report) -> String {
    let mut all = String::new();
    for row in &report.drift {
        let [before, now] = row.texts.each_ref().map(|text| shown(text));
        let diff = TextDiff::from_lines(&before, &now);
        let name = format!("{} {} {}", row.server, row.kind, row.name);
        let (old, new) =
            (format!("lock: {}", name.trim_end()), format!("now: {}", name.trim_end()));
        let lines = diff.unified_diff().context_radius(CONTEXT).header(&old, &new).to_string();
        // Writing into memory does not fail.
        let _ = writeln!(all, "{}", lines.trim_end());
        let on = report.remarks.iter().filter(|one| one.is_about_news_of(&row.server));
        for remark in on.flat_map(|one| &one.server.shown) {
            let place = &remark.place;
            if (place.kind.as_str(), &place.name) == (row.kind, &row.own) {
                let _ = writeln!(all, "# remark: {}", words(remark));
            }
        }
        let _ = writeln!(all, "# {}\n", row.accept);
    }
    all
}

/// The text with a line break at its end, and with what is not seen in it as escapes.
fn shown(text: &str) -> String {
    let mut shown = String::with_capacity(text.len() + 1);
    for c in text.chars() {
        match c {
            '\n' => shown.push(c),
            c if seen::is_unseen(c) => shown.extend(c.escape_unicode()),
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
    fn what_is_not_seen_is_shown() {
        let text = "\"a\u{202e}b\u{e0041}\u{200b}é\"\n}";
        assert_eq!(shown(text), "\"a\\u{202e}b\\u{e0041}\\u{200b}é\"\n}\n");
    }
}
