//! The file of secrets beside a configuration: variables that nobody has to set before the start.
//!
//! `config.json` has `config.secrets.env`. A line is `NAME=value`; a value with line breaks, or with
//! blanks at its ends, is written as a JSON string. What stands there goes before the environment.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::config::env::EnvSource;
use crate::config::syntax::document::without_mark;
use crate::config::syntax::finding::{Finding, Severity};

/// How the name of the file ends.
const ENDING: &str = "secrets.env";
/// The line that a file of ours begins with.
const HEADING: &str = "# Secrets of the servers beside this file. Nobody else should read it.\n";

/// The file of secrets that belongs to a configuration file.
pub fn secrets_file(config: &Path) -> PathBuf {
    config.with_extension(ENDING)
}

/// Reads the text of such a file, and says which of its lines say nothing.
pub fn read_secrets(file: &Path, text: &str) -> (BTreeMap<String, String>, Vec<Finding>) {
    let mut secrets = BTreeMap::new();
    let mut findings = Vec::new();
    for (index, line) in without_mark(text).lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match pair(line) {
            Some((name, value)) => _ = secrets.insert(name, value),
            None => findings.push(Finding {
                severity: Severity::Warning,
                file: Some(file.display().to_string().into()),
                path: String::new(),
                position: Some((index + 1, 1)),
                message: "this line is left out: expected `NAME=value`".to_owned(),
                hint: None,
            }),
        }
    }
    (secrets, findings)
}

fn pair(line: &str) -> Option<(String, String)> {
    let (name, value) = line.split_once('=')?;
    let (name, value) = (name.trim(), value.trim());
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let value =
        if value.starts_with('"') { serde_json::from_str(value).ok()? } else { value.to_owned() };
    is_name.then(|| (name.to_owned(), value))
}

/// The text of such a file.
pub fn write_secrets(secrets: &BTreeMap<String, String>) -> String {
    let mut text = HEADING.to_owned();
    for (name, value) in secrets {
        let is_plain = value.trim() == value
            && !value.starts_with('"')
            && !value.chars().any(char::is_control);
        let quoted = || serde_json::Value::from(value.as_str()).to_string();
        let value = if is_plain { value.clone() } else { quoted() };
        text.extend([name, "=", &value, "\n"]);
    }
    text
}

/// An environment with secrets of a file before it.
pub(super) struct WithSecrets<'a> {
    pub(super) secrets: BTreeMap<String, String>,
    pub(super) env: &'a dyn EnvSource,
}

impl EnvSource for WithSecrets<'_> {
    fn get(&self, name: &str) -> Option<String> {
        self.secrets.get(name).cloned().or_else(|| self.env.get(name))
    }

    fn vars(&self) -> Vec<(OsString, OsString)> {
        self.env.vars()
    }

    fn home(&self) -> Option<PathBuf> {
        self.env.home()
    }

    fn configuration(&self) -> Option<PathBuf> {
        self.env.configuration()
    }

    fn cache(&self) -> Option<PathBuf> {
        self.env.cache()
    }

    fn state(&self) -> Option<PathBuf> {
        self.env.state()
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn secrets_are_read_as_they_were_written() {
        let values = ["plain", "", "a=b#c", " blanks ", "two\nlines", "\"quoted\"", "ü $X ${Y}"];
        let names = (0..).map(|index| format!("S_{index}"));
        let secrets: BTreeMap<_, _> = names.zip(values.map(str::to_owned)).collect();
        let text = write_secrets(&secrets);
        assert_eq!(read_secrets(Path::new("x"), &text), (secrets, Vec::new()), "{text}");
    }

    #[test]
    fn a_line_that_says_nothing_is_named() {
        let text = "\u{feff}# One\r\nA = 1\r\n\r\nB\nC D=2\nE=\"x\n";
        let (secrets, findings) = read_secrets(Path::new("x.env"), text);
        assert_eq!(secrets, [("A".to_owned(), "1".to_owned())].into());
        let lines: Vec<_> = findings.iter().filter_map(|finding| finding.position).collect();
        assert_eq!(lines, [(4, 1), (5, 1), (6, 1)]);
    }

    #[test]
    fn the_file_is_named_after_its_configuration() {
        let file = |config| secrets_file(Path::new(config)).display().to_string();
        assert_eq!(file("/a/config.json"), "/a/config.secrets.env");
        assert_eq!(file("workbench-config.jsonc"), "workbench-config.secrets.env");
    }
}
