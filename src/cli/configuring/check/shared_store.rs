//! Checks the shared store that `serve` would use.

use crate::cli::output::CommandError;
use crate::cli::runtime::block_on;
use mcp_workbench_config::Finding;
use mcp_workbench_redis::{ProbeReport, RedisTarget, StoreTimeouts, probe};
use mcp_workbench_settings::Config;

/// Probes the store if `connects`. The inner result is a line about the store, `None` without a
/// probe, or the problem as a finding.
pub(super) fn probe_store(
    config: &Config,
    connects: bool,
) -> Result<Result<Option<String>, Finding>, CommandError> {
    let address = match RedisTarget::new(&config.shared_store) {
        Ok(Some(address)) if connects => address,
        Ok(_) => return Ok(Ok(None)),
        Err(unusable) => {
            return Ok(Err(store_finding(
                unusable.0,
                "correct `sharedStore`: `serve` does not start with this setting",
            )));
        }
    };
    let trial = block_on(probe(&address, &StoreTimeouts::default()))?;
    Ok(match trial {
        Ok(trial) => Ok(Some(line(&address, &trial))),
        Err(unusable) => Err(store_finding(
            unusable.0,
            "check that the store is running and that `sharedStore.url` is correct. Until the \
             store responds, each workbench keeps its sessions in memory, and they are lost when \
             it stops",
        )),
    })
}

fn line(address: &RedisTarget, trial: &ProbeReport) -> String {
    let version = trial.version.as_deref().unwrap_or("unknown version");
    let tls = if trial.is_encrypted { "with TLS" } else { "without TLS" };
    let ms = trial.latency.as_secs_f64() * 1_000.0;
    let keys = match trial.keys {
        0 => "",
        1 => ", stored data encrypted with the configured key",
        _ => ", stored data encrypted with the first configured key",
    };
    format!("shared store: {address}, {version}, {tls}, {ms:.1} ms latency{keys}")
}

fn store_finding(message: String, hint: &str) -> Finding {
    Finding::error("sharedStore", message, hint)
}
