//! Line-by-line differences between two texts.

use similar::TextDiff;

/// Unchanged lines around a change.
const CONTEXT: usize = 3;

/// Returns a unified diff. `titles` name the two texts.
pub(crate) fn unified_diff(before: &str, after: &str, titles: [&str; 2]) -> String {
    let diff = TextDiff::from_lines(before, after);
    let [before, after] = titles;
    let text = diff.unified_diff().context_radius(CONTEXT).header(before, after).to_string();
    text.trim_end().to_owned()
}
