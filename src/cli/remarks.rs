//! Remarks on a configuration that can be used: what in it means nothing, and what is dangerous. `check`
//! prints them, and the log has them.

use std::sync::{Arc, Mutex, PoisonError};

use crate::cli::error::Error;
use crate::cli::{Global, reach, unmatched};
use crate::config::Finding;
use crate::settings::Config;

/// Returns the remarks on a configuration, as far as it is kept what its servers list.
pub(crate) fn findings(global: &Global, config: &Config) -> Result<Vec<Finding>, Error> {
    let mut findings = unmatched::findings(global, config)?;
    findings.extend(reach::findings(global, config));
    Ok(findings)
}

/// The remarks in the log of one run, each of which stands there once for as long as it holds.
pub(crate) struct RemarkLog {
    global: Global,
    /// The findings that hold for the last configuration, which have been logged.
    logged: Arc<Mutex<Vec<Finding>>>,
}

impl RemarkLog {
    /// A log with no remarks yet.
    pub(crate) fn new(global: &Global) -> Self {
        Self { global: global.clone(), logged: Arc::default() }
    }

    /// Writes what is new about a configuration to the log, in a thread of its own: nobody who is served
    /// waits for it.
    pub(crate) fn look(&self, config: &Config) {
        let (global, logged) = (self.global.clone(), Arc::clone(&self.logged));
        let config = config.clone();
        let looking = move || {
            // One after the other, in the order of the configurations.
            let mut logged = logged.lock().unwrap_or_else(PoisonError::into_inner);
            match findings(&global, &config) {
                Ok(found) => {
                    log_new(&found, &logged);
                    *logged = found;
                }
                Err(error) => {
                    tracing::debug!(%error, "the configuration cannot be looked through");
                }
            }
        };
        let name = "remarks".to_owned();
        if let Err(error) = std::thread::Builder::new().name(name).spawn(looking) {
            tracing::debug!(%error, "the configuration is not looked through");
        }
    }
}

/// Logs those findings that have not been `logged` before.
fn log_new(found: &[Finding], logged: &[Finding]) {
    // A rule may stand in another line now.
    let is_same =
        |one: &Finding, other: &Finding| (&one.path, &one.message) == (&other.path, &other.message);
    let is_new = |finding: &&Finding| !logged.iter().any(|other| is_same(finding, other));
    let new: Vec<_> = found.iter().filter(is_new).collect();
    for Finding { path, message, hint, .. } in new.iter().take(MAX_LOGGED) {
        let hint = hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default();
        tracing::warn!("{path}: {message}{hint}");
    }
    if new.len() > MAX_LOGGED {
        tracing::warn!("and {} more, see `mcp-workbench check`", new.len() - MAX_LOGGED);
    }
}

/// The most remarks in the log.
const MAX_LOGGED: usize = 50;
