//! Reads source files and separates code, comments and tests.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::slice;
use std::sync::LazyLock;

use pretty_assertions::assert_eq;
use proc_macro2::{TokenStream, TokenTree};
use regex::{Captures, Regex};

/// The only crate with platform-specific code.
pub(super) const OS: &str = "crates/os/";

/// The crates that are one module. `wire` also has `json`. In other crates, each file and folder
/// directly under `src/` is a module.
const ONE_MODULE: [&str; 8] =
    ["config", "http", "login", "names", "os", "redis", "settings", "wire"];

pub(super) struct Source {
    /// The path from the repository root, with `/` as separator.
    pub(super) path: String,
    pub(super) text: String,
}

impl Source {
    pub(super) fn new(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned() }
    }

    /// Returns `true` if the whole file is test code.
    pub(super) fn is_test(&self) -> bool {
        self.path.starts_with("tests/")
            || self.path.contains("/tests/")
            || self.path.ends_with("/tests.rs")
    }

    /// Returns the path within its crate: `src/a.rs` for `crates/x/src/a.rs`.
    pub(super) fn path_in_crate(&self) -> &str {
        let rest = self.path.strip_prefix("crates/").and_then(|rest| rest.split_once('/'));
        rest.map_or(&self.path, |(_, path)| path)
    }

    /// Returns the path that `ARCHITECTURE.md` uses. It starts with a module of the tables:
    /// `gateway/a.rs` for `crates/core/src/gateway/a.rs`, and `wire/a.rs` for `crates/wire/src/a.rs`,
    /// because that crate is one module.
    pub(super) fn module_file(&self) -> Option<String> {
        let rest = self.path_in_crate().strip_prefix("src/")?;
        Some(match self.sole_module() {
            Some(module) if rest == "lib.rs" => format!("{module}.rs"),
            Some(module) => format!("{module}/{rest}"),
            None => rest.to_owned(),
        })
    }

    /// Returns the module that is the file's whole crate.
    fn sole_module(&self) -> Option<&str> {
        let is_json = self.path_in_crate().starts_with("src/json");
        self.crate_name().filter(|name| ONE_MODULE.contains(name) && !is_json)
    }

    /// Returns the code with paths that start at `crate` and a module of the tables.
    pub(super) fn code_with_module_paths(&self) -> String {
        static OWN: LazyLock<Regex> =
            LazyLock::new(|| Regex::new(r"\bcrate\s*::\s*(\w+|\{|\*)").expect("a pattern"));
        static OTHER: LazyLock<Regex> = LazyLock::new(|| {
            Regex::new(r"\bmcp_workbench_(\w+)\s*::\s*(\w+|\{|\*)").expect("a pattern")
        });
        let code = self.program();
        let code = match self.sole_module() {
            Some(module) => OWN.replace_all(&code, |found: &Captures<'_>| match &found[1] {
                "json" => "crate::json".to_owned(),
                item => format!("crate::{module}::{item}"),
            }),
            None => code.as_str().into(),
        };
        let code = OTHER.replace_all(&code, |found: &Captures<'_>| match &found[2] {
            item if ONE_MODULE.contains(&&found[1]) && item != "json" => {
                format!("crate::{}::{item}", &found[1])
            }
            item => format!("crate::{item}"),
        });
        code.into_owned()
    }

    /// Returns the folder of the crate under `crates/`. `None` for the root crate.
    pub(super) fn crate_name(&self) -> Option<&str> {
        self.path.strip_prefix("crates/")?.split('/').next()
    }

    /// Returns the code without comments, quoted text and tests.
    pub(super) fn program(&self) -> String {
        without_tests(&split(&self.text).code)
    }
}

pub(super) fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Reads a file by its path from the repository root.
pub(super) fn read(path: &str) -> String {
    fs::read_to_string(repository().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns all files under `folder` with this extension, sorted by path.
pub(super) fn files(folder: &str, extension: &str) -> Vec<Source> {
    let mut found = Vec::new();
    collect(&repository().join(folder), extension, &mut found);
    found.sort();
    assert!(!found.is_empty(), "no .{extension} in {folder}");
    let relative = found.iter().map(|path| {
        let path = path.strip_prefix(repository()).expect("a path in the repository");
        path.to_string_lossy().replace('\\', "/")
    });
    relative.map(|path| Source::new(&path, &read(&path))).collect()
}

fn collect(folder: &Path, extension: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            collect(&path, extension, found);
        } else if path.extension().is_some_and(|ending| ending == extension) {
            found.push(path);
        }
    }
}

/// Returns the source files of all crates, except test files.
pub(super) fn program() -> Vec<Source> {
    let mut sources = sources();
    sources.retain(|source| !source.is_test());
    sources
}

/// Returns the source files of all crates, including test files.
pub(super) fn sources() -> Vec<Source> {
    let mut sources = files("src", "rs");
    sources.extend(files("crates", "rs"));
    sources
}

/// A text's code and comments, each with spaces instead of the rest, so positions don't change.
pub(super) struct Split {
    pub(super) code: String,
    pub(super) comments: String,
}

/// Separates code from comments and drops quoted text. Text that isn't Rust, such as a manifest, is
/// code.
pub(super) fn split(text: &str) -> Split {
    let Ok(tokens) = text.parse::<TokenStream>() else {
        return Split { code: text.to_owned(), comments: String::new() };
    };
    let mut code = Vec::new();
    let mut quoted = Vec::new();
    find_tokens(text, tokens, &mut code, &mut quoted);
    let comments = blank(&blank(text, &code), &quoted);
    let mut others = Vec::new();
    let mut end = 0;
    for range in code {
        others.push(end..range.start);
        end = range.end;
    }
    others.push(end..text.len());
    Split { code: blank(text, &others), comments }
}

/// Replaces everything in the ranges, which are in order, except line breaks. Positions in bytes
/// don't change.
fn blank(text: &str, ranges: &[Range<usize>]) -> String {
    let mut blanked = String::with_capacity(text.len());
    let mut end = 0;
    for range in ranges {
        blanked.push_str(&text[end..range.start]);
        blanked.extend(text[range.clone()].bytes().map(|b| if b == b'\n' { '\n' } else { ' ' }));
        end = range.end;
    }
    blanked.push_str(&text[end..]);
    blanked
}

/// Collects the ranges of the tokens, in order. A documentation comment is a token, too, but
/// neither code nor quoted.
fn find_tokens(
    text: &str,
    tokens: TokenStream,
    code: &mut Vec<Range<usize>>,
    quoted: &mut Vec<Range<usize>>,
) {
    for token in tokens {
        let range = token.span().byte_range();
        if text[range.clone()].starts_with("//") || text[range.clone()].starts_with("/*") {
            continue;
        }
        match token {
            TokenTree::Group(group) => {
                code.push(group.span_open().byte_range());
                find_tokens(text, group.stream(), code, quoted);
                code.push(group.span_close().byte_range());
            }
            TokenTree::Literal(_) if text[range.clone()].ends_with(['"', '\'', '#']) => {
                quoted.push(range);
            }
            TokenTree::Literal(_) | TokenTree::Ident(_) | TokenTree::Punct(_) => code.push(range),
        }
    }
}

/// Returns `true` if a character can be part of an identifier.
pub(super) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Blanks each `#[cfg(test)] mod … { … }`. Line numbers don't change.
pub(super) fn without_tests(code: &str) -> String {
    static TESTS: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"#\[cfg\(test\)\]\s*mod\s+\w+\s*\{").expect("a pattern"));
    let mut left = code.to_owned();
    while let Some(found) = TESTS.find(&left) {
        let mut depth = 1;
        let body = &left[found.end()..];
        let length = body.find(|c| {
            depth += i32::from(c == '{') - i32::from(c == '}');
            depth == 0
        });
        let end = length.map_or(left.len(), |length| found.end() + length + 1);
        left = blank(&left, slice::from_ref(&(found.start()..end)));
    }
    left
}

#[test]
fn code_is_separated_from_comments_and_quotes() {
    let text = "a /* b /* c */ d */ e // f\ng(\"h // \\\" i\", 'j', '\\'', r#\"k\"l\"#) br\"m\"";
    let Split { code, comments } = split(text);
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(words(&code), "a e g( , , , )");
    assert_eq!(words(&comments), "/* b /* c */ d */ // f");
    assert_eq!(code.lines().count(), text.lines().count());
    let lifetimes = "fn r<'a>(x: &'a str) -> r#type<'a> { break 'b'; }";
    assert_eq!(split(lifetimes).code, lifetimes.replace("'b'", "   "), "lifetimes aren't quotes");
}

#[test]
fn program_excludes_tests() {
    let text = "a\n#[cfg(test)]\nmod tests {\n  b { c } \"}\"\n}\nd\n#[cfg(test)]\nmod e;";
    let program = Source::new("src/x.rs", text).program();
    let words: Vec<&str> = program.split_whitespace().collect();
    assert_eq!(words, ["a", "d", "#[cfg(test)]", "mod", "e;"]);
    for path in ["tests/it/x.rs", "src/x/tests.rs", "src/x/tests/y.rs"] {
        assert!(Source::new(path, "").is_test());
    }
    assert!(!Source::new("src/tests_of_speed.rs", "").is_test());
}
