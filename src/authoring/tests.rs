//! Tests of the whole way from other clients' files to a configuration that can be read.

use std::collections::BTreeMap;
use std::path::Path;

use crate::config::env::EnvSource;
use crate::config::{Loaded, Report, parse};

mod import;
mod import_dialects;
mod import_formats;
mod import_sign_in;

/// Makes an environment with nothing in it but these.
fn env(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn read(text: &str, env: &dyn EnvSource) -> Result<Loaded, Report> {
    parse(text, Path::new("test.json"), Path::new("/project"), env)
}
