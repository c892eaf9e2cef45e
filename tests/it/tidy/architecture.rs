//! `ARCHITECTURE.md`, as far as a test can tell whether it is true: its length and the files that it
//! names. Edges, tests and crates that it names are looked at in `edges`.

use std::collections::BTreeSet;

use pretty_assertions::assert_eq;
use regex::Regex;

use crate::tidy::text::{read, sources};

/// The most lines of the document: what is longer is not read before a change.
const MAX_LINES: usize = 400;
/// The most files that a call may pass on its way.
const MAX_FILES: usize = 12;

/// The source files that a text names, as paths within a crate's `src`, each once.
fn named_files(text: &str) -> BTreeSet<String> {
    let file = Regex::new(r"`([\w/]+\.rs)`").expect("a pattern");
    file.captures_iter(text).map(|found| found[1].to_owned()).collect()
}

/// The text between a heading of the second level and the next one.
fn part<'a>(document: &'a str, heading: &str) -> &'a str {
    let start = document.find(&format!("\n## {heading}\n")).expect("the heading");
    let rest = &document[start + 4..];
    rest.find("\n## ").map_or(rest, |end| &rest[..end])
}

#[test]
fn the_architecture_is_short_and_names_files_that_exist() {
    assert_eq!(named_files("`a/b.rs`, b.rs and `a/b.rs`"), BTreeSet::from(["a/b.rs".to_owned()]));
    let document = read("ARCHITECTURE.md");
    let lines = document.lines().count();
    assert!(lines <= MAX_LINES, "{lines} lines; say it in the `//!` lines of the files instead");
    let sources: BTreeSet<String> = sources()
        .iter()
        .filter_map(|s| s.inside().strip_prefix("src/").map(str::to_owned))
        .collect();
    let missing: Vec<_> = named_files(&document).difference(&sources).cloned().collect();
    assert_eq!(missing, [""; 0], "files that are named and not there");
}

#[test]
fn a_call_passes_few_files() {
    let document = read("ARCHITECTURE.md");
    let passed = named_files(part(&document, "The way of one call"));
    assert!((6..=MAX_FILES).contains(&passed.len()), "{passed:?}");
    assert!(!named_files(part(&document, "The way of one changed list")).is_empty());
}
