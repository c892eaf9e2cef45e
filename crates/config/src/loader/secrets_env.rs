//! Secrets files: variables for one configuration, such as `config.secrets.env` for `config.json`.
//! They take precedence over the environment.
//!
//! Each line is `NAME=value`. Values with line breaks, or with whitespace at either end, are JSON
//! strings.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::env::EnvSource;
use crate::syntax::document::strip_bom;
use crate::syntax::finding::{Finding, Severity};

const ENDING: &str = "secrets.env";
const HEADING: &str = "# Secrets for the configuration in this folder. Keep this file private.\n";

/// Returns the path of the secrets file for a configuration file.
pub fn secrets_env_path(config: &Path) -> PathBuf {
    config.with_extension(ENDING)
}

/// Parses a secrets file, and returns a warning for each malformed line.
pub fn parse_secrets_env(file: &Path, text: &str) -> (BTreeMap<String, String>, Vec<Finding>) {
    let mut secrets = BTreeMap::new();
    let mut findings = Vec::new();
    for (index, line) in strip_bom(text).lines().enumerate() {
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
                message: "line ignored: expected `NAME=value`".to_owned(),
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

/// Renders a secrets file.
pub fn render_secrets_env(secrets: &BTreeMap<String, String>) -> String {
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

/// An environment with the secrets on top.
pub(super) struct OverlayEnv<'a> {
    pub(super) secrets: BTreeMap<String, String>,
    pub(super) env: &'a dyn EnvSource,
}

impl EnvSource for OverlayEnv<'_> {
    fn get(&self, name: &str) -> Option<String> {
        self.secrets.get(name).cloned().or_else(|| self.env.get(name))
    }

    fn vars(&self) -> Vec<(OsString, OsString)> {
        self.env.vars()
    }

    fn home_dir(&self) -> Option<PathBuf> {
        self.env.home_dir()
    }

    fn config_dir(&self) -> Option<PathBuf> {
        self.env.config_dir()
    }

    fn cache_dir(&self) -> Option<PathBuf> {
        self.env.cache_dir()
    }

    fn state_dir(&self) -> Option<PathBuf> {
        self.env.state_dir()
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn secrets_round_trip() {
        let values = ["plain", "", "a=b#c", " blanks ", "two\nlines", "\"quoted\"", "ü $X ${Y}"];
        let names = (0..).map(|index| format!("S_{index}"));
        let secrets: BTreeMap<_, _> = names.zip(values.map(str::to_owned)).collect();
        let text = render_secrets_env(&secrets);
        assert_eq!(parse_secrets_env(Path::new("x"), &text), (secrets, Vec::new()), "{text}");
    }

    #[test]
    fn malformed_lines_are_reported() {
        let text = "\u{feff}# One\r\nA = 1\r\n\r\nB\nC D=2\nE=\"x\n";
        let (secrets, findings) = parse_secrets_env(Path::new("x.env"), text);
        assert_eq!(secrets, [("A".to_owned(), "1".to_owned())].into());
        let lines: Vec<_> = findings.iter().filter_map(|finding| finding.position).collect();
        assert_eq!(lines, [(4, 1), (5, 1), (6, 1)]);
    }

    #[test]
    fn the_file_is_named_after_its_configuration() {
        let file = |config| secrets_env_path(Path::new(config)).display().to_string();
        assert_eq!(file("/a/config.json"), "/a/config.secrets.env");
        assert_eq!(file("workbench-config.jsonc"), "workbench-config.secrets.env");
    }
}
