//! Checks `ARCHITECTURE.md`: its length, the files that it names, and that each invariant has a test. `edges`
//! checks its tables.

use std::collections::BTreeSet;

use pretty_assertions::assert_eq;
use regex::Regex;

use crate::tidy::text::{Source, files, read, sources};

/// Maximum length of the document in lines. Details belong in the module comments.
const MAX_LINES: usize = 250;
/// Maximum number of files that the way of one call may name.
const MAX_FILES: usize = 12;

/// Returns the source files that a text names, as paths that start with a module.
fn named_files(text: &str) -> BTreeSet<String> {
    let file = Regex::new(r"`([\w/]+\.rs)`").expect("a pattern");
    file.captures_iter(text).map(|found| found[1].to_owned()).collect()
}

/// Returns the section under a heading of the second level.
fn section<'a>(document: &'a str, heading: &str) -> &'a str {
    let start = document.find(&format!("\n## {heading}\n")).expect("the heading");
    let rest = &document[start + 4..];
    rest.find("\n## ").map_or(rest, |end| &rest[..end])
}

/// Returns the tags of a document's invariants: `[tag]` at the end of a list item.
fn invariants(document: &str) -> Vec<String> {
    let tag = Regex::new(r"(?m)^ *- .*\[([a-z0-9]+(?:-[a-z0-9]+)+)\]$").expect("a pattern");
    tag.captures_iter(document).map(|found| found[1].to_owned()).collect()
}

/// Returns the tags in the comments directly above tests.
fn tagged_tests(text: &str) -> Vec<String> {
    let tag =
        Regex::new(r"(?m)^ *// invariant: ([a-z0-9-]+)\n *(?:///.*\n *)*#\[(?:tokio::)?test\b");
    tag.expect("a pattern").captures_iter(text).map(|found| found[1].to_owned()).collect()
}

/// Returns the text of all Rust files that contain tests.
fn test_sources() -> String {
    let folders = ["src", "crates", "tests"];
    folders.iter().flat_map(|folder| files(folder, "rs")).map(|source| source.text).collect()
}

#[test]
fn architecture_is_short_and_names_existing_files() {
    assert_eq!(named_files("`a/b.rs`, b.rs and `a/b.rs`"), BTreeSet::from(["a/b.rs".to_owned()]));
    let document = read("ARCHITECTURE.md");
    let lines = document.lines().count();
    assert!(lines <= MAX_LINES, "{lines} lines: move details to module comments");
    let sources: BTreeSet<String> = sources().iter().filter_map(Source::module_file).collect();
    let missing: Vec<_> = named_files(&document).difference(&sources).cloned().collect();
    assert_eq!(missing, [""; 0], "named files that don't exist");
}

#[test]
fn a_call_passes_few_files() {
    let document = read("ARCHITECTURE.md");
    let passed = named_files(section(&document, "The way of one call"));
    assert!((6..=MAX_FILES).contains(&passed.len()), "{passed:?}");
    assert!(!named_files(section(&document, "The way of one changed list")).is_empty());
}

// invariant: conventions-hold
#[test]
fn each_invariant_has_a_test() {
    let example = "- **Group**\n  - One sentence. [one-tag]\n  - A [link](x) only.\n";
    assert_eq!(invariants(example), ["one-tag"]);
    let example = "// invariant: a-b\n#[test]\nfn x() {}\n// invariant: c-d\nfn y() {}\n";
    assert_eq!(tagged_tests(example), ["a-b"]);

    let invariants = invariants(&read("ARCHITECTURE.md"));
    assert!(invariants.len() > 40, "{invariants:?}");
    let listed: BTreeSet<_> = invariants.iter().collect();
    assert_eq!(listed.len(), invariants.len(), "a tag occurs twice");
    let tagged = tagged_tests(&test_sources());
    assert_eq!(listed, tagged.iter().collect());
}
