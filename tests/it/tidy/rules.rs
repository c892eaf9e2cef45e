//! Checks which constructs each source file may contain.

use std::collections::BTreeSet;

use mcp_workbench_config as config;
use pretty_assertions::assert_eq;
use regex::Regex;
use serde_json::Value;

use crate::tidy::edges::module_of;
use crate::tidy::text::{OS, Source, files, program, repository, sources, split};

/// The maximum length of a file in lines.
const MAX_LINES: usize = 700;

/// The files that may list configuration keys by hand because they don't describe the keys. They
/// list keys that an import, a narrowed configuration or a catalog folder handles separately, or
/// another program's keys.
const KEY_LISTING_FILES: [&str; 5] = [
    "src/authoring/import/native_entries.rs",
    "src/authoring/import/imported_policy.rs",
    "src/authoring/tailor/narrowed.rs",
    "src/cli/configuring/catalog/draft.rs",
    "crates/config/src/loader/dialect_detection.rs",
];

/// A construct that only certain files may contain.
pub(super) struct Rule<'a> {
    /// A regular expression that matches one line of code.
    pub(super) pattern: &'a str,
    /// The exempt files, and folders with a trailing `/`.
    pub(super) only_in: &'a [&'a str],
    /// Examples that break the rule in other files.
    pub(super) rejects: &'a [&'a str],
    /// Similar examples that don't break it.
    pub(super) accepts: &'a [&'a str],
}

impl Rule<'_> {
    /// Returns the lines of a file that break the rule.
    fn violations(&self, pattern: &Regex, source: &Source) -> Vec<String> {
        let is_allowed = self.only_in.iter().any(|place| {
            source.path == *place || (place.ends_with('/') && source.path.starts_with(place))
        });
        if is_allowed {
            return Vec::new();
        }
        let code = source.program();
        let lines = code.lines().enumerate();
        lines
            .filter(|(_, line)| pattern.is_match(line))
            .map(|(index, line)| format!("{}:{}: {}", source.path, index + 1, line.trim()))
            .collect()
    }

    /// Checks the rule on its examples, then checks that the program follows it.
    #[track_caller]
    fn check(&self) {
        self.check_in(&program());
    }

    #[track_caller]
    pub(super) fn check_in(&self, sources: &[Source]) {
        let pattern = Regex::new(self.pattern).expect("a pattern");
        for text in self.rejects {
            let found = self.violations(&pattern, &Source::new("src/elsewhere.rs", text));
            assert!(!found.is_empty(), "the rule misses `{text}`");
        }
        for text in self.accepts {
            let found = self.violations(&pattern, &Source::new("src/elsewhere.rs", text));
            assert_eq!(found, [""; 0], "the rule rejects a valid example");
        }
        for place in self.only_in {
            let exists = repository().join(place).exists();
            assert!(exists, "{place} is exempt but doesn't exist");
        }
        let found: Vec<String> =
            sources.iter().flat_map(|s| self.violations(&pattern, s)).collect();
        assert_eq!(found, [""; 0]);
    }
}

// invariant: confined-effects
#[test]
fn only_cli_prints() {
    Rule {
        pattern: r"\be?print(ln)?!|\bio::std(out|err)\b|(^|[^.\w])std(out|err)\(\)",
        // In stdio mode, stdout carries the protocol. `streams.rs` uses it as a socket.
        only_in: &["src/cli.rs", "src/cli/", "crates/os/src/unix/streams.rs"],
        rejects: &[
            "println!()",
            "eprint!(\"{x}\")",
            "std::io::stdout().lock()",
            "tokio::io::stderr()",
            "let out = stdout();",
        ],
        accepts: &["// println!()", "writeln!(f, \"println!\")", "builder.stderr(Stdio::null())"],
    }
    .check();
}

// invariant: one-place-for-choices
#[test]
fn tool_modes_are_matched_in_one_place() {
    Rule {
        pattern: r"\bToolMode::\w+ *(=>|\||if\b)|[=!]= *ToolMode::|\bmatches!\(.*\bToolMode::",
        // `modes.rs` selects the mode's trait object. `config` and `settings` validate modes.
        only_in: &["crates/serve/src/exposure/modes.rs", "crates/config/", "crates/settings/"],
        rejects: &[
            "ToolMode::Direct => Vec::new(),",
            "ToolMode::Direct | ToolMode::Activate => true,",
            "if self.mode == ToolMode::Modular {",
            "matches!(self.mode, ToolMode::Dynamic)",
        ],
        accepts: &["seen.mode = ToolMode::Direct;", "let mode = ToolMode::default();"],
    }
    .check();
}

// invariant: bytes-unchanged
#[test]
fn failed_edits_have_no_fallback_value() {
    const EDITS: &str = r"\.(with_(member|first|last|item)|without_members?)\(";
    let pattern = format!(r"{EDITS}[^;{{}}]*\.(unwrap_or|unwrap_or_default|map_or)\(");
    let pattern = Regex::new(&pattern).expect("a pattern");
    let found = |source: &Source| -> Vec<String> {
        let code = source.program();
        let found = pattern.find_iter(&code);
        found.map(|found| format!("{}: {}", source.path, found.as_str())).collect()
    };
    let breaking = "let raw = raw\n    .with_member(\"name\", &name)\n    .unwrap_or(raw);";
    assert_eq!(found(&Source::new("src/elsewhere.rs", breaking)).len(), 1);
    let found: Vec<String> = program().iter().flat_map(found).collect();
    assert_eq!(found, [""; 0]);
}

// invariant: confined-effects
#[test]
fn only_launcher_spawns_processes() {
    Rule {
        pattern: r"\bCommand::new\b|\bprocess::Command\b",
        // `os` configures commands for each platform. Clippy finds commands that it creates itself.
        only_in: &["crates/core/src/backend/launch.rs", "crates/core/src/backend/launch/", OS],
        rejects: &["std::process::Command::new(\"sh\")", "use tokio::process::Command;"],
        accepts: &["enum Command {", "actor::Command::Ensure(reply)"],
    }
    .check();
}

// invariant: confined-effects
#[test]
fn files_are_opened_in_one_place() {
    Rule {
        pattern: concat!(
            r"\bfs::(read|read_to_string|write|copy)\(|\bOpenOptions\b",
            r"|\bFile::(open|create|create_new|options)\b",
        ),
        only_in: &[
            OS,
            // Reads the first line of a program that is about to be started.
            "crates/core/src/backend/launch/environment.rs",
            // Read keys and certificates that the configuration names.
            "crates/redis/src/sealing.rs",
            "crates/redis/src/target.rs",
        ],
        rejects: &[
            "std::fs::read(path)",
            "fs::read_to_string(&path).ok()",
            "File::open(path)?",
            "OpenOptions::new().append(true)",
            "fs::write(folder.join(name), text)",
        ],
        accepts: &["fs::read_dir(folder)", "RotatingFile::open(path, 1, 2)", "use std::fs::File;"],
    }
    .check();
}

// invariant: confined-effects
#[test]
fn only_env_file_reads_environment_variables() {
    Rule {
        pattern: r"\benv::(vars?(_os)?|home_dir|temp_dir|set_var|remove_var)\b|\bstd::env::\{",
        only_in: &["crates/config/src/env.rs"],
        rejects: &[
            "std::env::var(\"HOME\")",
            "env::vars_os()",
            "use std::env::{self, var};",
            "std::env::home_dir()",
        ],
        accepts: &[
            "env!(\"CARGO_PKG_NAME\")",
            "use mcp_workbench_config::env::{EnvSource, ProcessEnv};",
        ],
    }
    .check();
}

// invariant: confined-effects
#[test]
fn nothing_changes_the_process_environment() {
    Rule {
        pattern: r"\b(set_var|remove_var|set_current_dir)\b",
        only_in: &[],
        rejects: &["unsafe { std::env::set_var(\"A\", \"b\") }", "env::set_current_dir(folder)"],
        accepts: &[".current_dir(cwd)"],
    }
    .check();
}

// invariant: confined-effects
#[test]
fn only_cli_reads_working_directory_and_arguments() {
    Rule {
        pattern: r"\benv::(current_dir|current_exe|args(_os)?)\b",
        only_in: &["src/cli.rs", "src/cli/"],
        rejects: &["std::env::current_dir()", "env::current_exe().ok()", "std::env::args()"],
        accepts: &[".current_dir(cwd)"],
    }
    .check();
}

// invariant: confined-effects
#[test]
fn only_one_file_uses_unsafe() {
    Rule {
        pattern: r"\bunsafe\b",
        only_in: &["crates/os/src/unix/processes.rs"],
        rejects: &["unsafe { f() }", "unsafe fn f() {}"],
        accepts: &["#[expect(unsafe_code)]", "// unsafe"],
    }
    .check();
}

/// Modules that neither wait nor do I/O, except to read configuration files.
const PURE: [&str; 9] =
    ["settings", "config", "authoring", "lint", "catalog", "policy", "toolbox", "names", "json"];

fn pure_sources() -> Vec<Source> {
    let mut sources = program();
    sources.retain(|source| module_of(source).is_some_and(|module| PURE.contains(&&*module)));
    sources
}

// invariant: confined-effects
#[test]
fn pure_modules_do_not_wait() {
    Rule {
        pattern: r"\basync\b|\.await\b|\btokio\b|\bthread::|\bsleep\(",
        only_in: &[],
        rejects: &["async fn f() {}", "f().await", "use tokio::sync::watch;", "std::thread::spawn"],
        accepts: &["// async", "let asynchronous = 1;"],
    }
    .check_in(&pure_sources());
}

// invariant: confined-effects
#[test]
fn pure_modules_do_no_io() {
    Rule {
        pattern: concat!(
            r"\bfs::|\bFile::|\bstd::(io|net|process|fs)\b",
            r"|\.(exists|is_dir|is_file|is_symlink|metadata|read_dir|canonicalize)\(",
        ),
        // These only read the configuration file or folder.
        only_in: &["crates/config/src/loader/file.rs", "crates/config/src/loader/disk.rs"],
        rejects: &[
            "std::fs::read(path)",
            "use std::fs;",
            "File::open(path)",
            "std::net::TcpStream::connect(a)",
            "folder.is_dir()",
        ],
        accepts: &["use std::path::Path;", "// std::fs"],
    }
    .check_in(&pure_sources());
}

#[test]
fn imports_use_crate_paths_instead_of_super() {
    Rule {
        pattern: r"\bsuper::",
        only_in: &[],
        rejects: &["use super::Thing;", "super::f()"],
        accepts: &["pub(super) fn f() {}", "#[cfg(test)] mod tests { use super::*; }"],
    }
    .check();
}

#[test]
fn imports_have_no_globs() {
    Rule {
        pattern: r"::\s*\*|\buse\s[^;]*\*",
        only_in: &[],
        rejects: &["use mcp_workbench_names::*;", "pub use std::{fmt, io::*};"],
        accepts: &["let x = a * b;", "use std::fmt;", "let y = *x;", "f(Kind::A, *b)"],
    }
    .check();
}

/// Returns the lines with macros or comment words that mark unfinished work.
fn unfinished_lines(source: &Source) -> Vec<String> {
    let macros = Regex::new(r"\b(todo|dbg|unimplemented)!|#\[ignore\b").expect("a pattern");
    let words = Regex::new(r"\b(TODO|FIXME|XXX|HACK)\b|(?i)\bfixme\b").expect("a pattern");
    let parts = split(&source.text);
    let lines = parts.code.lines().zip(parts.comments.lines()).enumerate();
    lines
        .filter(|(_, (code, comment))| macros.is_match(code) || words.is_match(comment))
        .map(|(index, _)| format!("{}:{}", source.path, index + 1))
        .collect()
}

/// Returns all Rust files, including tests and benches.
fn all_sources() -> Vec<Source> {
    ["src", "crates", "tests", "testing", "benches"]
        .iter()
        .flat_map(|folder| files(folder, "rs"))
        .collect()
}

#[test]
fn sources_have_no_unfinished_marks() {
    let found = |text: &str| unfinished_lines(&Source::new("src/x.rs", text)).len();
    for text in ["todo!()", "dbg!(x)", "#[ignore = \"slow\"]", "// TODO: more", "/* fixme */"] {
        assert_eq!(found(text), 1, "{text}");
    }
    for text in ["\"todo!\"", "// what is left to do", "let todo = 1;"] {
        assert_eq!(found(text), 0, "{text}");
    }
    let found: Vec<String> = all_sources().iter().flat_map(unfinished_lines).collect();
    assert_eq!(found, [""; 0]);
}

/// Returns the lines that sleep without a comment on the same or the previous line.
fn unexplained_sleeps(source: &Source) -> Vec<String> {
    let sleep = Regex::new(r"(^|[^.\w])sleep\(").expect("a pattern");
    let parts = split(&source.text);
    let comments: Vec<&str> = parts.comments.lines().collect();
    let has_reason = |index: usize| {
        let previous = index.checked_sub(1).and_then(|above| comments.get(above));
        let same_line = comments.get(index);
        [previous, same_line].into_iter().flatten().any(|comment| comment.contains("//"))
    };
    let lines = parts.code.lines().enumerate();
    lines
        .filter(|(index, line)| sleep.is_match(line) && !has_reason(*index))
        .map(|(index, line)| format!("{}:{}: {}", source.path, index + 1, line.trim()))
        .collect()
}

// invariant: conventions-hold
#[test]
fn sleeping_tests_give_a_reason() {
    let found = |text: &str| unexplained_sleeps(&Source::new("tests/it/x.rs", text)).len();
    assert_eq!(found("thread::sleep(A);"), 1);
    assert_eq!(found("// Why.\n\nsleep(A).await;"), 1);
    assert_eq!(found("// Why.\nsleep(A).await;"), 0);
    assert_eq!(found("sleep(A); // why"), 0);
    let mut tests = all_sources();
    tests.retain(Source::is_test);
    let found: Vec<String> = tests.iter().flat_map(unexplained_sleeps).collect();
    assert_eq!(found, [""; 0]);
}

/// Adds the names of all keys in a schema to `found`.
fn collect_keys(schema: &Value, found: &mut BTreeSet<String>) {
    let properties = schema.get("properties").and_then(Value::as_object);
    found.extend(properties.into_iter().flat_map(|properties| properties.keys().cloned()));
    let members = schema.as_object().into_iter().flatten();
    members
        .filter(|(key, _)| *key != "examples")
        .for_each(|(_, inside)| collect_keys(inside, found));
    schema.as_array().into_iter().flatten().for_each(|inside| collect_keys(inside, found));
}

/// Returns the lists in a file that name three or more keys in a row.
fn key_lists(source: &Source, keys: &BTreeSet<String>) -> Vec<String> {
    let comment = Regex::new(r"(?m)^\s*//.*$").expect("a pattern");
    let list = Regex::new(r#"("\$?\w+"\s*[,|]\s*)+"\$?\w+""#).expect("a pattern");
    let word = Regex::new(r"\$?\w+").expect("a pattern");
    let program = source.text.split("#[cfg(test)]").next().unwrap_or_default();
    let text = comment.replace_all(program, "");
    let lists = list.find_iter(&text).map(|list| list.as_str());
    let has_keys = |list: &&str| {
        let mut run = 0;
        word.find_iter(list).any(|word| {
            run = if keys.contains(word.as_str()) { run + 1 } else { 0 };
            run == 3
        })
    };
    lists.filter(has_keys).map(|list| format!("{}: {list}", source.path)).collect()
}

/// Returns `true` if a file is the module's file or in its folder.
fn is_in(source: &Source, module: &str) -> bool {
    let rest = source.path.strip_prefix(module);
    rest.is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
}

// invariant: key-described-once
#[test]
fn configuration_keys_are_described_once() {
    let mut known = BTreeSet::new();
    collect_keys(&config::schema(), &mut known);
    assert!(known.len() > 100, "{known:?}");
    let found = |text: &str| key_lists(&Source::new("src/x.rs", text), &known).len();
    for text in [
        "const OURS: [&str; 3] = [\"toolMode\", \"limits\", \"toolboxes\"];",
        "\"maxSessions\"\n        | \"sessionIdleMs\" | \"maxConnections\" => \"`http`\",",
    ] {
        assert_eq!(found(text), 1, "{text}");
    }
    for text in [
        "[\"toolboxes\", \"mcpServers\"]",
        "// [\"toolMode\", \"limits\", \"toolboxes\"]",
        "[\"npx\", \"uvx\", \"node\", \"deno\"]",
    ] {
        assert_eq!(found(text), 0, "{text}");
    }
    let listing: BTreeSet<String> = program()
        .iter()
        .filter(|source| {
            ["crates/config/src", "src/authoring", "src/cli"]
                .iter()
                .any(|module| is_in(source, module))
        })
        .filter(|source| !key_lists(source, &known).is_empty())
        .map(|source| source.path.clone())
        .collect();
    let allowed: BTreeSet<String> = KEY_LISTING_FILES.map(str::to_owned).into();
    assert_eq!(listing, allowed, "files with key lists: derive the keys from `section!`");
}

// invariant: edges-match-tables
#[test]
fn files_have_at_most_700_lines() {
    let is_long = |source: &Source| source.text.lines().count() > MAX_LINES;
    assert!(is_long(&Source::new("a.rs", &"\n".repeat(MAX_LINES + 1))));
    assert!(!is_long(&Source::new("a.rs", &"\n".repeat(MAX_LINES))));
    let found: Vec<String> =
        sources().into_iter().filter(is_long).map(|source| source.path).collect();
    assert_eq!(found, [""; 0], "files over {MAX_LINES} lines: split them by responsibility");
}

#[test]
fn module_files_are_not_called_mod_rs() {
    let found: Vec<String> = all_sources()
        .into_iter()
        .map(|source| source.path)
        .filter(|path| path.ends_with("/mod.rs"))
        .collect();
    assert_eq!(found, [""; 0]);
}

/// Returns the files that no parent module declares, so they are never compiled.
fn undeclared_files(sources: &[Source]) -> Vec<&str> {
    let is_declared = |path: &str| {
        let (folder, file) = path.rsplit_once('/').expect("a folder");
        let module = file.strip_suffix(".rs").expect("a module");
        let declaration = Regex::new(&format!(r"\bmod {module};")).expect("a pattern");
        let is_root = folder == "src" || folder.ends_with("/src");
        let above = if is_root { format!("{folder}/lib.rs") } else { format!("{folder}.rs") };
        let above = sources.iter().find(|source| source.path == above);
        above.is_some_and(|above| declaration.is_match(&above.text))
    };
    let paths = sources.iter().map(|source| source.path.as_str());
    paths
        .filter(|path| *path != "src/main.rs" && !path.ends_with("src/lib.rs"))
        .filter(|path| !is_declared(path))
        .collect()
}

// invariant: edges-match-tables
#[test]
fn source_files_are_declared_as_modules() {
    let sources = [
        Source::new("src/lib.rs", "pub mod a;"),
        Source::new("src/a.rs", "mod b;"),
        Source::new("src/a/b.rs", ""),
        Source::new("src/a/c.rs", ""),
        Source::new("src/d.rs", ""),
    ];
    assert_eq!(undeclared_files(&sources), ["src/a/c.rs", "src/d.rs"]);
    let crate_sources = [
        Source::new("crates/x/src/lib.rs", "pub mod a;"),
        Source::new("crates/x/src/a.rs", ""),
        Source::new("crates/x/src/b.rs", ""),
    ];
    assert_eq!(undeclared_files(&crate_sources), ["crates/x/src/b.rs"]);
    assert_eq!(undeclared_files(&self::sources()), [""; 0]);
}
