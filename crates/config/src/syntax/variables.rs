//! Expands `${NAME}` and `${NAME:-default}` in strings.
//!
//! Names are upper case, except in files of programs that accept any case ([`VariableCase`]).
//! Expansion isn't recursive: a value that contains `${OTHER}` stays as it is. Anything that isn't
//! exactly one of the two forms stays unchanged.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use crate::env::EnvSource;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VariableCase {
    /// Upper-case letters, digits and `_`.
    Capitals,
    /// Lower-case letters too.
    AnyCase,
}

/// Expands the variables in `text`. An unset variable without a default stays unchanged and is
/// included in the returned list.
pub fn expand_variables<'t>(text: &'t str, env: &dyn EnvSource) -> (Cow<'t, str>, Vec<String>) {
    expand_named(text, env, VariableCase::Capitals)
}

/// Like [`expand_variables`], with a choice of names.
pub(crate) fn expand_named<'t>(
    text: &'t str,
    env: &dyn EnvSource,
    names: VariableCase,
) -> (Cow<'t, str>, Vec<String>) {
    let mut unset = Vec::new();
    let pattern = match names {
        VariableCase::Capitals => &VARIABLE,
        VariableCase::AnyCase => &ANY_VARIABLE,
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

/// Returns the names of the variables in `text`.
pub fn variable_names(text: &str) -> Vec<&str> {
    let names = VARIABLE.captures_iter(text).filter_map(|found| found.get(1));
    names.map(|name| name.as_str()).collect()
}

/// Replaces each variable in `text` with its default, or with nothing.
pub fn replace_with_defaults(text: &str) -> Cow<'_, str> {
    VARIABLE.replace_all(text, "$2")
}

/// Another client's placeholder that isn't supported here.
#[derive(Debug, PartialEq, Eq)]
pub struct ForeignPlaceholder<'t> {
    pub text: &'t str,
    pub meaning: PlaceholderMeaning,
}

/// The equivalent of another client's placeholder.
#[derive(Debug, PartialEq, Eq)]
pub enum PlaceholderMeaning {
    Variable(String),
    /// A value that the client prompts for; use an environment variable of this name instead.
    PromptedInput(String),
    Home,
    /// The folder open in the editor, which has no equivalent.
    Folder,
    /// A value that only the client can compute.
    Unknown,
}

/// Finds the placeholders of VS Code, Cursor, Windsurf and opencode in `text`.
pub fn find_foreign_placeholders(text: &str) -> Vec<ForeignPlaceholder<'_>> {
    PLACEHOLDER
        .captures_iter(text)
        .map(|found| {
            let argument = found.get(2).or(found.get(4)).map_or("", |m| m.as_str());
            let kind = found.get(1).or(found.get(3)).map_or("", |m| m.as_str());
            let meaning = match kind {
                "env" => PlaceholderMeaning::Variable(variable_name(argument)),
                "input" => PlaceholderMeaning::PromptedInput(variable_name(argument)),
                "userHome" => PlaceholderMeaning::Home,
                "workspaceFolder" | "workspaceRoot" | "cwd" => PlaceholderMeaning::Folder,
                _ => PlaceholderMeaning::Unknown,
            };
            ForeignPlaceholder { text: found.get(0).map_or("", |whole| whole.as_str()), meaning }
        })
        .collect()
}

/// Converts `name` to a variable name that [`expand_variables`] accepts.
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
