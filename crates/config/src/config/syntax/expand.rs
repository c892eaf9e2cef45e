//! Environment variables in strings: `${NAME}` and `${NAME:-default}`, in one pass.
//!
//! Names are in capitals, but in the files of programs that take any ([`Names`]).
//!
//! What a variable holds is never looked at again, so a value with `${OTHER}` in it stays as it
//! is. Everything that is not exactly one of the two forms is left alone.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use crate::config::env::EnvSource;

/// Which names a variable may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Names {
    /// `${NAME}`: capitals, digits and `_`.
    Capitals,
    /// `${name}` too.
    AnyCase,
}

/// Expands every variable in `text`; the variables that are not set and have no default stay as
/// they are written and are named in the second half.
pub fn expand<'t>(text: &'t str, env: &dyn EnvSource) -> (Cow<'t, str>, Vec<String>) {
    expand_named(text, env, Names::Capitals)
}

/// Expands every variable in `text` as [`expand`] does, with these names.
pub(crate) fn expand_named<'t>(
    text: &'t str,
    env: &dyn EnvSource,
    names: Names,
) -> (Cow<'t, str>, Vec<String>) {
    let mut unset = Vec::new();
    let pattern = match names {
        Names::Capitals => &VARIABLE,
        Names::AnyCase => &ANY_VARIABLE,
    };
    let expanded = pattern.replace_all(text, |found: &Captures<'_>| {
        if let Some(value) = env.get(&found[1]) {
            return value;
        }
        if let Some(default) = found.get(2) {
            return default.as_str().to_owned();
        }
        if !unset.iter().any(|name| name == &found[1]) {
            unset.push(found[1].to_owned());
        }
        found[0].to_owned()
    });
    (expanded, unset)
}

/// The names of the variables in `text`.
pub fn variables(text: &str) -> Vec<&str> {
    let names = VARIABLE.captures_iter(text).filter_map(|found| found.get(1));
    names.map(|name| name.as_str()).collect()
}

/// Returns `text` as it is by itself, with nothing but their defaults in place of its variables.
pub fn without_variables(text: &str) -> Cow<'_, str> {
    VARIABLE.replace_all(text, "$2")
}

/// A placeholder of another client that means nothing here.
#[derive(Debug, PartialEq, Eq)]
pub struct Foreign<'t> {
    /// The placeholder as it is written.
    pub text: &'t str,
    /// The thing to write for it.
    pub meaning: Meaning,
}

/// The thing that stands for a foreign placeholder here.
#[derive(Debug, PartialEq, Eq)]
pub enum Meaning {
    /// An environment variable of this name.
    Variable(String),
    /// A variable in place of a value that the other client asks the user for.
    Input(String),
    /// The user's home folder.
    Home,
    /// The folder that is open in an editor, which there is none of here.
    Folder,
    /// Something that only the other client can work out.
    Nothing,
}

/// The placeholders in `text` that VS Code, Cursor, Windsurf or opencode would replace.
pub fn foreign(text: &str) -> Vec<Foreign<'_>> {
    PLACEHOLDER
        .captures_iter(text)
        .map(|found| {
            let argument = found.get(2).or(found.get(4)).map_or("", |m| m.as_str());
            let kind = found.get(1).or(found.get(3)).map_or("", |m| m.as_str());
            let meaning = match kind {
                "env" => Meaning::Variable(variable_name(argument)),
                "input" => Meaning::Input(variable_name(argument)),
                "userHome" => Meaning::Home,
                "workspaceFolder" | "workspaceRoot" | "cwd" => Meaning::Folder,
                _ => Meaning::Nothing,
            };
            Foreign { text: found.get(0).map_or("", |whole| whole.as_str()), meaning }
        })
        .collect()
}

/// A name that [`expand`] knows as a variable, made from one that it may not.
pub fn variable_name(name: &str) -> String {
    let upper: String = name
        .trim()
        .chars()
        .map(|c| match c {
            c if c.is_ascii_alphanumeric() => c.to_ascii_uppercase(),
            _ => '_',
        })
        .collect();
    match upper.chars().next() {
        None => "NAME".to_owned(),
        Some(first) if first.is_ascii_digit() => format!("_{upper}"),
        Some(_) => upper,
    }
}

static VARIABLE: LazyLock<Regex> =
    LazyLock::new(|| compile(r"\$\{([A-Z_][A-Z0-9_]*)(?::-([^}]*))?\}"));

static ANY_VARIABLE: LazyLock<Regex> =
    LazyLock::new(|| compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}"));

static PLACEHOLDER: LazyLock<Regex> = LazyLock::new(|| {
    compile(concat!(
        r"\$\{(env|input|command|config|workspaceFolder|workspaceFolderBasename|workspaceRoot",
        r"|userHome|cwd|pathSeparator|/|file|extensionPath)(?::([^}]*))?\}",
        r"|\{(env|file):([^}]*)\}",
    ))
});

#[expect(
    clippy::expect_used,
    reason = "the patterns are constants, and every test that reads a string compiles them"
)]
pub fn compile(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a constant pattern is valid")
}
