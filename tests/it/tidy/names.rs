//! Checks that names don't mislead: functions named like a question return `bool`, and few types share a name.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use pretty_assertions::assert_eq;
use regex::Regex;

use crate::tidy::text::{Source, program};

/// Type names that may be defined any number of times: their module says which one is meant.
const COMMON_NAMES: [&str; 3] = ["Args", "Error", "State"];
/// How many types may have the same name otherwise.
const MAX_DEFINITIONS: usize = 2;

/// Returns the functions of a file that are named like a question and don't return `bool`.
fn misleading_questions(source: &Source) -> Vec<String> {
    static QUESTION: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"^((?:is|has|can|wants)_\w+)").expect("a pattern"));
    let code = source.program();
    let functions = code.split("fn ").skip(1);
    functions
        .filter_map(|function| Some((QUESTION.find(function)?.as_str(), return_type(function))))
        .filter(|(_, returned)| !returned.contains("bool"))
        .map(|(name, _)| format!("{}: {name}", source.path))
        .collect()
}

/// Returns the text between the parameters of a function and its body.
fn return_type(function: &str) -> &str {
    let mut depth = 0;
    for (at, c) in function.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => continue,
        }
        if depth == 0 {
            return function[at..].split(['{', ';']).next().unwrap_or_default();
        }
    }
    ""
}

// invariant: conventions-hold
#[test]
fn question_names_return_bool() {
    let found = |code: &str| misleading_questions(&Source::new("src/x.rs", code)).len();
    for code in [
        "fn is_over(&self) {}",
        "fn has_room(&self) -> Result<(), String> {}",
        "fn wants_more(&self, test: impl Fn(u8) -> bool) {}",
    ] {
        assert_eq!(found(code), 1, "{code}");
    }
    for code in [
        "fn is_over(&self) -> bool {}",
        "async fn has_room(&self, n: [(u8, u8); 4]) -> io::Result<bool> {}",
        "fn island(&self) {}",
    ] {
        assert_eq!(found(code), 0, "{code}");
    }
    let found: Vec<String> = program().iter().flat_map(misleading_questions).collect();
    assert_eq!(found, [""; 0]);
}

/// Returns the type names that are defined too often, each with its files.
fn crowded_names(sources: &[Source]) -> Vec<(String, Vec<&str>)> {
    let definition = Regex::new(r"(?m)^\s*(?:pub(?:\([a-z]+\))? )?(?:struct|enum|trait) (\w+)");
    let definition = definition.expect("a pattern");
    let mut files: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for source in sources {
        for found in definition.captures_iter(&source.program()) {
            files.entry(found[1].to_owned()).or_default().push(&source.path);
        }
    }
    files.retain(|name, files| {
        files.len() > MAX_DEFINITIONS && !COMMON_NAMES.contains(&name.as_str())
    });
    files.into_iter().collect()
}

// invariant: conventions-hold
#[test]
fn type_names_are_defined_at_most_twice() {
    let sources = [
        Source::new(
            "src/a.rs",
            "pub(crate) struct Entry;\nenum Args {}\nfn f() {\n    struct Entry;\n}",
        ),
        Source::new("src/b.rs", "trait Entry {}\nenum Args {}\n// struct Row;\nstruct Row;"),
        Source::new("src/c.rs", "enum Args {}\nstruct Row;\nstruct Entries;"),
    ];
    let found = crowded_names(&sources);
    assert_eq!(found, [("Entry".to_owned(), vec!["src/a.rs", "src/a.rs", "src/b.rs"])]);
    assert_eq!(crowded_names(&program()), []);
}
