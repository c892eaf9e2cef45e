//! Checks the shared store that `serve` would use.

use crate::cli::block_on;
use crate::cli::error::CommandError;
use crate::config::{Finding, Severity};
use crate::redis_store::{ProbeReport, RedisTarget, StoreTimeouts, probe};
use crate::settings::Config;

/// Probes the store if `connects`. The inner result is a line about the store, `None` without a
/// probe, or the problem as a finding.
pub(super) fn probe_store(
    config: &Config,
    connects: bool,
) -> Result<Result<Option<String>, Finding>, CommandError> {
    let address = match RedisTarget::new(&config.shared) {
        Ok(Some(address)) if connects => address,
        Ok(_) => return Ok(Ok(None)),
        Err(unusable) => {
            return Ok(Err(store_finding(
                unusable.0,
                "correct `shared`: nothing is served like that",
            )));
        }
    };
    let trial = block_on(probe(&address, &StoreTimeouts::default()))?;
    Ok(match trial {
        Ok(trial) => Ok(Some(line(&address, &trial))),
        Err(unusable) => Err(store_finding(
            unusable.0,
            "see whether it runs, and `shared.url`; until it answers, each workbench serves with a \
             memory of its own, and a session ends with the workbench that it is with",
        )),
    })
}

fn line(address: &RedisTarget, trial: &ProbeReport) -> String {
    let version = trial.version.as_deref().unwrap_or("a store that says no version");
    let encrypted = if trial.is_encrypted { "encrypted" } else { "not encrypted" };
    let ms = trial.latency.as_secs_f64() * 1_000.0;
    let keys = match trial.keys {
        0 => "",
        1 => "; its key seals and opens what is kept there",
        _ => "; its keys open, and the first one seals, what is kept there",
    };
    format!("shared: {address} is {version}, {encrypted}, and answers in {ms:.1} ms{keys}")
}

fn store_finding(message: String, hint: &str) -> Finding {
    Finding {
        severity: Severity::Error,
        file: None,
        path: "shared".to_owned(),
        position: None,
        message,
        hint: Some(hint.to_owned()),
    }
}
