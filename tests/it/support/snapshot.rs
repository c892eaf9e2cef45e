//! Replaces the parts of a snapshot that differ between runs.

use std::path::Path;

use insta::Settings;

/// Patterns and replacements, applied in this order.
const FILTERS: [(&str, &str); 5] = [
    (r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?", "[TIME]"),
    (r"\b\d+(\.\d+)?(ns|µs|ms|s)\b", "[DURATION]"),
    (r"(127\.0\.0\.1|localhost|\[::1\]):\d+", "$1:[PORT]"),
    (r"\b(pid[ =:]+)\d+", "$1[PID]"),
    (r"(mcp-workbench[ /])\d+\.\d+\.\d+", "$1[VERSION]"),
];

pub(crate) fn settings(dir: &Path) -> Settings {
    let mut settings = Settings::clone_current();
    for path in [dir.to_string_lossy(), dir.canonicalize().unwrap_or_default().to_string_lossy()] {
        if !path.is_empty() {
            settings.add_filter(&regex::escape(&path), "[DIR]");
        }
    }
    let build = Path::new(super::process::fake_path()).parent();
    if let Some(build) = build {
        settings.add_filter(&regex::escape(&build.to_string_lossy()), "[BIN]");
    }
    for (pattern, replacement) in FILTERS {
        settings.add_filter(pattern, replacement);
    }
    settings
}

pub(crate) fn filtered(dir: &Path, text: &str) -> String {
    let mut text = text.replace(&*dir.to_string_lossy(), "[DIR]");
    for (pattern, replacement) in FILTERS {
        let pattern = regex::Regex::new(pattern).expect("a valid pattern");
        text = pattern.replace_all(&text, replacement).into_owned();
    }
    text
}
