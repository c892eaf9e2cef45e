//! Remarks on a valid configuration: rules without effect and dangerous settings. `check` prints
//! them, and `serve` logs them.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::cli::args::GlobalArgs;
use crate::cli::diagnostics::{unmatched_rules, writable_config};
use crate::cli::output::CommandError;
use mcp_workbench_config::Finding;
use mcp_workbench_settings::Config;

/// Returns the remarks on a configuration. Servers without a cached listing are checked only in
/// part.
pub(crate) fn findings(global: &GlobalArgs, config: &Config) -> Result<Vec<Finding>, CommandError> {
    let mut findings = unmatched_rules::findings(global, config)?;
    findings.extend(writable_config::findings(global, config));
    Ok(findings)
}

/// Logs each remark of a run once, as long as it applies.
pub(crate) struct RemarkLogger {
    global: GlobalArgs,
    logged: Arc<Mutex<Vec<Finding>>>,
}

impl RemarkLogger {
    pub(crate) fn new(global: &GlobalArgs) -> Self {
        Self { global: global.clone(), logged: Arc::default() }
    }

    /// Logs new remarks on a configuration from a separate thread, so that serving is not delayed.
    pub(crate) fn log_new_in_background(&self, config: &Config) {
        let (global, logged) = (self.global.clone(), Arc::clone(&self.logged));
        let config = config.clone();
        let looking = move || {
            // The lock keeps the checks in the order of the configurations.
            let mut logged = logged.lock();
            match findings(&global, &config) {
                Ok(found) => {
                    log_new(&found, &logged);
                    *logged = found;
                }
                Err(error) => {
                    tracing::debug!(%error, "cannot check the configuration for warnings");
                }
            }
        };
        let name = "config-warnings".to_owned();
        if let Err(error) = std::thread::Builder::new().name(name).spawn(looking) {
            tracing::debug!(%error, "cannot start a thread to check the configuration");
        }
    }
}

fn log_new(found: &[Finding], logged: &[Finding]) {
    // The line is not compared: edits elsewhere in the file can move it.
    let is_same =
        |one: &Finding, other: &Finding| (&one.path, &one.message) == (&other.path, &other.message);
    let is_new = |finding: &&Finding| !logged.iter().any(|other| is_same(finding, other));
    let new: Vec<_> = found.iter().filter(is_new).collect();
    for Finding { path, message, hint, .. } in new.iter().take(MAX_LOGGED) {
        let hint = hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default();
        tracing::warn!("{path}: {message}{hint}");
    }
    if new.len() > MAX_LOGGED {
        tracing::warn!(
            "{} more warnings; run `mcp-workbench check` to see them",
            new.len() - MAX_LOGGED
        );
    }
}

/// The maximum number of remarks logged for one configuration.
const MAX_LOGGED: usize = 50;
