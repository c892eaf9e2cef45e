//! End-to-end tests of the import: from clients' files to a configuration that loads.

use std::collections::BTreeMap;
use std::path::Path;

use mcp_workbench_config::env::EnvSource;
use mcp_workbench_config::{ConfigReport, LoadedConfig, parse};

mod import;
mod import_dialects;
mod import_formats;
mod import_sign_in;

fn env(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn read(text: &str, env: &dyn EnvSource) -> Result<LoadedConfig, ConfigReport> {
    parse(text, Path::new("test.json"), Path::new("/project"), env)
}
