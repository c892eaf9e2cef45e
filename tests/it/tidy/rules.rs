//! Rules on what may stand where in the sources.

use std::collections::BTreeSet;

use mcp_workbench::config;
use pretty_assertions::assert_eq;
use regex::Regex;
use serde_json::Value;

use crate::tidy::text::{OS, Source, files, program, repository, sources, split};

/// The most lines of one file.
const MOST_LINES: usize = 500;

/// The files that are longer: tables of data.
const LONG: [&str; 1] = ["crates/core/src/catalog/rank/purposes/table.rs"];

/// The files that list keys of configurations by hand, for they are no description of the keys: what
/// a catalog folder has no room for, what an import carries over in another way, and another program's.
const LISTING_KEYS: [&str; 5] = [
    "src/authoring/import/launches.rs",
    "src/authoring/import/rules.rs",
    "src/authoring/tailor/narrow.rs",
    "src/cli/catalog/draft.rs",
    "crates/config/src/config/load/dialect.rs",
];

/// Something that may stand in certain files only.
pub(super) struct Rule<'a> {
    /// A pattern of what it looks like in code.
    pub(super) pattern: &'a str,
    /// The files, or folders with `/` at the end, where it may stand.
    pub(super) only_in: &'a [&'a str],
    /// Code that breaks the rule elsewhere.
    pub(super) breaks: &'a [&'a str],
    /// Code that looks like it and does not.
    pub(super) keeps: &'a [&'a str],
}

impl Rule<'_> {
    /// The lines of a program's file that break the rule.
    fn breaches(&self, source: &Source) -> Vec<String> {
        let is_allowed = self.only_in.iter().any(|place| {
            source.path == *place || (place.ends_with('/') && source.path.starts_with(place))
        });
        if is_allowed {
            return Vec::new();
        }
        let pattern = Regex::new(self.pattern).expect("a pattern");
        let code = source.program();
        let lines = code.lines().enumerate();
        lines
            .filter(|(_, line)| pattern.is_match(line))
            .map(|(index, line)| format!("{}:{}: {}", source.path, index + 1, line.trim()))
            .collect()
    }

    /// Shows that the rule catches what breaks it, then holds the program to it.
    #[track_caller]
    fn check(&self) {
        self.check_in(&program());
    }

    #[track_caller]
    pub(super) fn check_in(&self, sources: &[Source]) {
        for text in self.breaks {
            let found = self.breaches(&Source::new("src/elsewhere.rs", text));
            assert!(!found.is_empty(), "the rule does not see `{text}`");
        }
        for text in self.keeps {
            let found = self.breaches(&Source::new("src/elsewhere.rs", text));
            assert_eq!(found, [""; 0], "the rule sees too much");
        }
        for place in self.only_in {
            let exists = repository().join(place).exists();
            assert!(exists, "{place} is excepted and does not exist");
        }
        let found: Vec<String> = sources.iter().flat_map(|s| self.breaches(s)).collect();
        assert_eq!(found, [""; 0]);
    }
}

#[test]
fn only_the_command_line_prints() {
    Rule {
        pattern: r"\be?print(ln)?!|\bio::std(out|err)\b|(^|[^.\w])std(out|err)\(\)",
        // In stdio mode standard output is the protocol, and may be a socket.
        only_in: &["src/cli.rs", "src/cli/", "crates/os/src/os/unix/streams.rs"],
        breaks: &[
            "println!()",
            "eprint!(\"{x}\")",
            "std::io::stdout().lock()",
            "tokio::io::stderr()",
            "let out = stdout();",
        ],
        keeps: &["// println!()", "writeln!(f, \"println!\")", "builder.stderr(Stdio::null())"],
    }
    .check();
}

#[test]
fn modes_are_told_apart_in_one_place() {
    Rule {
        pattern: r"\bToolMode::\w+ *(=>|\||if\b)|[=!]= *ToolMode::|\bmatches!\(.*\bToolMode::",
        // The trait is chosen by the mode in one file; files are read by the words of the modes.
        only_in: &["crates/serve/src/exposure/modes.rs", "crates/config/", "crates/settings/"],
        breaks: &[
            "ToolMode::Direct => Vec::new(),",
            "ToolMode::Direct | ToolMode::Activate => true,",
            "if self.mode == ToolMode::Modular {",
            "matches!(self.mode, ToolMode::Dynamic)",
        ],
        keeps: &["seen.mode = ToolMode::Direct;", "let mode = ToolMode::default();"],
    }
    .check();
}

#[test]
fn only_the_launcher_starts_processes() {
    Rule {
        pattern: r"\bCommand::new\b|\bprocess::Command\b",
        // What is to be done to a command on one platform is done in `os`; clippy sees who makes one.
        only_in: &["crates/core/src/backend/launch.rs", "crates/core/src/backend/launch/", OS],
        breaks: &["std::process::Command::new(\"sh\")", "use tokio::process::Command;"],
        keeps: &["enum Command {", "actor::Command::Ensure(reply)"],
    }
    .check();
}

#[test]
fn only_one_file_reads_the_environment() {
    Rule {
        pattern: r"\benv::(vars?(_os)?|home_dir|temp_dir|set_var|remove_var)\b|\bstd::env::\{",
        only_in: &["crates/config/src/config/env.rs"],
        breaks: &[
            "std::env::var(\"HOME\")",
            "env::vars_os()",
            "use std::env::{self, var};",
            "std::env::home_dir()",
        ],
        keeps: &["env!(\"CARGO_PKG_NAME\")", "use crate::config::env::{EnvSource, ProcessEnv};"],
    }
    .check();
}

#[test]
fn nobody_writes_the_environment() {
    Rule {
        pattern: r"\b(set_var|remove_var|set_current_dir)\b",
        only_in: &[],
        breaks: &["unsafe { std::env::set_var(\"A\", \"b\") }", "env::set_current_dir(folder)"],
        keeps: &[".current_dir(cwd)"],
    }
    .check();
}

#[test]
fn only_the_command_line_asks_where_it_runs() {
    Rule {
        pattern: r"\benv::(current_dir|current_exe|args(_os)?)\b",
        only_in: &["src/cli.rs", "src/cli/"],
        breaks: &["std::env::current_dir()", "env::current_exe().ok()", "std::env::args()"],
        keeps: &[".current_dir(cwd)"],
    }
    .check();
}

#[test]
fn only_three_files_are_unsafe() {
    Rule {
        pattern: r"\bunsafe\b",
        only_in: &[
            "crates/os/src/os/allocator.rs",
            "crates/os/src/os/child/linux/begin.rs",
            "crates/os/src/os/unix/processes.rs",
        ],
        breaks: &["unsafe { f() }", "unsafe fn f() {}"],
        keeps: &["#[expect(unsafe_code)]", "// unsafe"],
    }
    .check();
}

/// The modules that only compute.
const PURE: [&str; 8] =
    ["settings", "config", "authoring", "catalog", "policy", "toolbox", "name", "raw"];

/// The files of the modules that only compute.
fn pure() -> Vec<Source> {
    let mut sources = program();
    sources.retain(|source| {
        PURE.iter().any(|module| {
            source.inside() == format!("src/{module}.rs")
                || source.inside().starts_with(&format!("src/{module}/"))
        })
    });
    sources
}

#[test]
fn the_pure_modules_do_not_wait() {
    Rule {
        pattern: r"\basync\b|\.await\b|\btokio\b|\bthread::|\bsleep\(",
        only_in: &[],
        breaks: &["async fn f() {}", "f().await", "use tokio::sync::watch;", "std::thread::spawn"],
        keeps: &["// async", "let asynchronous = 1;"],
    }
    .check_in(&pure());
}

#[test]
fn the_pure_modules_do_no_io() {
    Rule {
        pattern: concat!(
            r"\bfs::|\bFile::|\bstd::(io|net|process|fs)\b",
            r"|\.(exists|is_dir|is_file|is_symlink|metadata|read_dir|canonicalize)\(",
        ),
        // Reading the file, or a folder of files, and nothing else in them.
        only_in: &[
            "crates/config/src/config/load/file.rs",
            "crates/config/src/config/load/folder.rs",
        ],
        breaks: &[
            "std::fs::read(path)",
            "use std::fs;",
            "File::open(path)",
            "std::net::TcpStream::connect(a)",
            "folder.is_dir()",
        ],
        keeps: &["use std::path::Path;", "// std::fs"],
    }
    .check_in(&pure());
}

#[test]
fn nothing_reaches_past_its_own_children() {
    Rule {
        pattern: r"\bsuper::",
        only_in: &[],
        breaks: &["use super::Thing;", "super::f()"],
        keeps: &["pub(super) fn f() {}", "#[cfg(test)] mod tests { use super::*; }"],
    }
    .check();
}

#[test]
fn imports_name_what_they_take() {
    Rule {
        pattern: r"::\s*\*|\buse\s[^;]*\*",
        only_in: &[],
        breaks: &["use crate::name::*;", "pub use std::{fmt, io::*};"],
        keeps: &["let x = a * b;", "use std::fmt;", "let y = *x;", "f(Kind::A, *b)"],
    }
    .check();
}

/// Marks of unfinished work: macros in code, words in comments.
fn unfinished(source: &Source) -> Vec<String> {
    let macros = Regex::new(r"\b(todo|dbg|unimplemented)!|#\[ignore\b").expect("a pattern");
    let words = Regex::new(r"\b(TODO|FIXME|XXX|HACK)\b|(?i)\bfixme\b").expect("a pattern");
    let parts = split(&source.text);
    let lines = parts.code.lines().zip(parts.comments.lines()).enumerate();
    lines
        .filter(|(_, (code, comment))| macros.is_match(code) || words.is_match(comment))
        .map(|(index, _)| format!("{}:{}", source.path, index + 1))
        .collect()
}

/// Everything that is written in Rust here.
fn everything() -> Vec<Source> {
    ["src", "crates", "tests", "testing", "benches"]
        .iter()
        .flat_map(|folder| files(folder, "rs"))
        .collect()
}

#[test]
fn nothing_is_left_unfinished() {
    let found = |text: &str| unfinished(&Source::new("src/x.rs", text)).len();
    for text in ["todo!()", "dbg!(x)", "#[ignore = \"slow\"]", "// TODO: more", "/* fixme */"] {
        assert_eq!(found(text), 1, "{text}");
    }
    for text in ["\"todo!\"", "// what is left to do", "let todo = 1;"] {
        assert_eq!(found(text), 0, "{text}");
    }
    let found: Vec<String> = everything().iter().flat_map(unfinished).collect();
    assert_eq!(found, [""; 0]);
}

/// The lines of a test that sleep with no comment on them or right above them that says why.
fn sleeps(source: &Source) -> Vec<String> {
    let sleep = Regex::new(r"(^|[^.\w])sleep\(").expect("a pattern");
    let parts = split(&source.text);
    let comments: Vec<&str> = parts.comments.lines().collect();
    let says_why = |index: usize| {
        let above = index.checked_sub(1).and_then(|above| comments.get(above));
        let beside = comments.get(index);
        [above, beside].into_iter().flatten().any(|comment| comment.contains("//"))
    };
    let lines = parts.code.lines().enumerate();
    lines
        .filter(|(index, line)| sleep.is_match(line) && !says_why(*index))
        .map(|(index, line)| format!("{}:{}: {}", source.path, index + 1, line.trim()))
        .collect()
}

#[test]
fn a_test_that_sleeps_says_why() {
    let found = |text: &str| sleeps(&Source::new("tests/it/x.rs", text)).len();
    assert_eq!(found("thread::sleep(A);"), 1);
    assert_eq!(found("// Why.\n\nsleep(A).await;"), 1);
    assert_eq!(found("// Why.\nsleep(A).await;"), 0);
    assert_eq!(found("sleep(A); // why"), 0);
    let mut tests = everything();
    tests.retain(Source::is_test);
    let found: Vec<String> = tests.iter().flat_map(sleeps).collect();
    assert_eq!(found, [""; 0]);
}

/// The names of all keys in a schema.
fn keys(schema: &Value, found: &mut BTreeSet<String>) {
    let properties = schema.get("properties").and_then(Value::as_object);
    found.extend(properties.into_iter().flat_map(|properties| properties.keys().cloned()));
    let members = schema.as_object().into_iter().flatten();
    members.filter(|(key, _)| *key != "examples").for_each(|(_, inside)| keys(inside, found));
    schema.as_array().into_iter().flatten().for_each(|inside| keys(inside, found));
}

/// The lists of three keys or more in a file.
fn lists_of_keys(source: &Source, keys: &BTreeSet<String>) -> Vec<String> {
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

/// Returns `true` if a file is that of a module, or in the module's folder.
fn is_in(source: &Source, module: &str) -> bool {
    let rest = source.path.strip_prefix(module);
    rest.is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
}

#[test]
fn a_key_is_described_once() {
    let mut known = BTreeSet::new();
    keys(&config::schema(), &mut known);
    assert!(known.len() > 100, "{known:?}");
    let found = |text: &str| lists_of_keys(&Source::new("src/x.rs", text), &known).len();
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
            ["crates/config/src/config", "src/authoring", "src/cli"]
                .iter()
                .any(|module| is_in(source, module))
        })
        .filter(|source| !lists_of_keys(source, &known).is_empty())
        .map(|source| source.path.clone())
        .collect();
    let allowed: BTreeSet<String> = LISTING_KEYS.map(str::to_owned).into();
    assert_eq!(listing, allowed, "what is known of a key follows from its `section!`");
}

/// Returns `true` if a file begins with what it owns.
fn says_what_it_owns(source: &Source) -> bool {
    source.text.starts_with("//! ")
}

#[test]
fn every_file_says_what_it_owns() {
    assert!(!says_what_it_owns(&Source::new("a.rs", "use std::fmt;\n//! Late.")));
    assert!(says_what_it_owns(&Source::new("a.rs", "//! It owns this.\n")));
    let mut sources = program();
    sources.extend(files("tests", "rs"));
    sources.extend(files("testing", "rs"));
    let found: Vec<String> = sources
        .into_iter()
        .filter(|source| !says_what_it_owns(source))
        .map(|source| source.path)
        .collect();
    assert_eq!(found, [""; 0]);
}

#[test]
fn no_file_is_longer_than_500_lines() {
    let is_long = |source: &Source| source.text.lines().count() > MOST_LINES;
    assert!(is_long(&Source::new("a.rs", &"\n".repeat(MOST_LINES + 1))));
    assert!(!is_long(&Source::new("a.rs", &"\n".repeat(MOST_LINES))));
    let found: Vec<String> =
        sources().into_iter().filter(is_long).map(|source| source.path).collect();
    assert_eq!(found, LONG, "cut a file along its jobs; a table may stay whole");
}

/// The doc comments that do not say in their first words what their item is.
fn evasive(source: &Source) -> Vec<String> {
    let is_doc = |line: &str| ["///", "//!"].iter().any(|mark| line.trim_start().starts_with(mark));
    let evades = Regex::new(r"^\s*//[/!] (What|That of|The same|Those|Whose|Whether)\b");
    let evades = evades.expect("a pattern");
    let comments = split(&source.text).comments;
    let lines: Vec<&str> = comments.lines().collect();
    let begins = |index: usize| index.checked_sub(1).is_none_or(|above| !is_doc(lines[above]));
    let lines = lines.iter().enumerate();
    lines
        .filter(|(index, line)| evades.is_match(line) && begins(*index))
        .map(|(index, line)| format!("{}:{}: {}", source.path, index + 1, line.trim()))
        .collect()
}

#[test]
fn doc_comments_say_what_items_are() {
    let found = |text: &str| evasive(&Source::new("src/x.rs", text)).len();
    for text in
        ["//! What it owns.", "    /// Whether it is.", "fn f() {}\n/// The same.\nfn g() {}"]
    {
        assert_eq!(found(text), 1, "{text}");
    }
    for text in
        ["/// The number of\n/// Those.", "// What follows", "/// Whatever it is", "\"/// What\""]
    {
        assert_eq!(found(text), 0, "{text}");
    }
    let found: Vec<String> = everything().iter().flat_map(evasive).collect();
    assert_eq!(found, [""; 0], "say first what the item is: \"Returns\", \"The number of\"");
}

#[test]
fn modules_stand_in_files_of_their_own_name() {
    let found: Vec<String> = everything()
        .into_iter()
        .map(|source| source.path)
        .filter(|path| path.ends_with("/mod.rs"))
        .collect();
    assert_eq!(found, [""; 0]);
}

/// The files of the program that no file above them declares, so that no compiler reads them.
fn orphans(sources: &[Source]) -> Vec<&str> {
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

#[test]
fn every_file_is_a_module() {
    let sources = [
        Source::new("src/lib.rs", "pub mod a;"),
        Source::new("src/a.rs", "mod b;"),
        Source::new("src/a/b.rs", ""),
        Source::new("src/a/c.rs", ""),
        Source::new("src/d.rs", ""),
    ];
    assert_eq!(orphans(&sources), ["src/a/c.rs", "src/d.rs"]);
    let of_a_crate = [
        Source::new("crates/x/src/lib.rs", "pub mod a;"),
        Source::new("crates/x/src/a.rs", ""),
        Source::new("crates/x/src/b.rs", ""),
    ];
    assert_eq!(orphans(&of_a_crate), ["crates/x/src/b.rs"]);
    assert_eq!(orphans(&self::sources()), [""; 0]);
}
