//! End-to-end tests: from the text of a file to a checked configuration.
//!
//! Each file in `tests/configs` is a case. `UPDATE_EXPECT=1` rewrites the expected output.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use pretty_assertions::assert_eq;

use crate::env::EnvSource;
use crate::{ConfigReport, LoadedConfig, parse};
use mcp_workbench_settings::Config;

mod dialects;
mod files;
mod projects;
mod references;
mod reload;
mod renamed_keys;
mod robustness;
mod schema;
mod sections;
mod server_entries;
mod variables;

fn env(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn read(text: &str, env: &dyn EnvSource) -> Result<LoadedConfig, ConfigReport> {
    parse(text, Path::new("test.json"), Path::new("/project"), env)
}

fn config(text: &str) -> Config {
    let env = env(&[("HOME", "/home/me"), ("SET", "value")]);
    read(text, &env).unwrap_or_else(|report| panic!("{report}")).config
}

fn findings(text: &str) -> String {
    match read(text, &env(&[("HOME", "/home/me"), ("SET", "value")])) {
        Ok(loaded) => loaded.report().map(|report| report.to_string()).unwrap_or_default(),
        Err(report) => report.to_string(),
    }
}

fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn json_files(folder: &str) -> Vec<PathBuf> {
    files(folder, &["json"])
}

fn files(folder: &str, endings: &[&str]) -> Vec<PathBuf> {
    let is_wanted = |path: &PathBuf| {
        let ending = path.extension().and_then(|ending| ending.to_str());
        ending.is_some_and(|ending| endings.contains(&ending))
    };
    let mut files: Vec<PathBuf> = fs::read_dir(repository().join(folder))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(is_wanted)
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no cases in {folder}");
    files
}

/// Compares `actual` with the file next to `case`. A missing file means no output.
fn check_beside(case: &Path, extension: &str, actual: &str) {
    let expectation = case.with_extension(extension);
    let actual = if actual.is_empty() { String::new() } else { format!("{actual}\n") };
    let update = crate::env::ProcessEnv.get("UPDATE_EXPECT").is_some();
    if update && actual.is_empty() {
        _ = fs::remove_file(&expectation);
    } else if update {
        fs::write(&expectation, &actual).unwrap();
    }
    let expected = fs::read_to_string(&expectation).unwrap_or_default();
    assert_eq!(expected, actual, "{}", case.display());
}

fn case_env() -> BTreeMap<String, String> {
    env(&[("SET", "value"), ("EMPTY", ""), ("TOKEN", "a-token-of-an-agent")])
}

fn case(path: &Path) -> Result<LoadedConfig, ConfigReport> {
    let text = fs::read_to_string(path).unwrap();
    let name = Path::new(path.file_name().unwrap());
    parse(&text, name, Path::new("/project"), &case_env())
}

#[test]
fn valid_configurations_load_with_exactly_their_warnings() {
    for path in files("tests/configs/valid", &["json", "toml"]) {
        let loaded = case(&path).unwrap_or_else(|report| panic!("{report}"));
        let warnings = loaded.report().map(|report| report.to_string());
        check_beside(&path, "warnings", &warnings.unwrap_or_default());
    }
}

// invariant: bad-entry-fails-alone
#[test]
fn invalid_server_entry_disables_only_that_server() {
    for path in files("tests/configs/broken", &["json", "toml"]) {
        let loaded = case(&path).unwrap_or_else(|report| panic!("{report}"));
        assert!(loaded.has_errors() && !loaded.broken_servers().is_empty(), "{}", path.display());
        let report = loaded.report().map(|report| report.to_string());
        check_beside(&path, "stderr", &report.unwrap_or_default());
    }
}

#[test]
fn invalid_configurations_fail_with_exactly_their_report() {
    for path in files("tests/configs/invalid", &["json", "toml"]) {
        let report = case(&path).expect_err(&path.display().to_string());
        check_beside(&path, "stderr", &report.to_string());
    }
}
