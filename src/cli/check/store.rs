//! A look at the store that several workbenches share, with the eyes of a start that uses it.

use crate::cli::block_on;
use crate::cli::error::Error;
use crate::config::{Finding, Severity};
use crate::settings::Config;
use crate::shared::{Address, Limits, Trial, try_out};

/// The store, tried out if `connects`: a line on it where it does all that is wanted of it, and otherwise
/// the reason that it does not.
pub(super) fn tried(
    config: &Config,
    connects: bool,
) -> Result<Result<Option<String>, Finding>, Error> {
    let address = match Address::new(&config.shared) {
        Ok(Some(address)) if connects => address,
        Ok(_) => return Ok(Ok(None)),
        Err(unusable) => {
            return Ok(Err(fault(unusable.0, "correct `shared`: nothing is served like that")));
        }
    };
    let trial = block_on(try_out(&address, &Limits::default()))?;
    Ok(match trial {
        Ok(trial) => Ok(Some(line(&address, &trial))),
        Err(unusable) => Err(fault(
            unusable.0,
            "see whether it runs, and `shared.url`; until it answers, each workbench serves with a \
             memory of its own, and a session ends with the workbench that it is with",
        )),
    })
}

fn line(address: &Address, trial: &Trial) -> String {
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

fn fault(message: String, hint: &str) -> Finding {
    Finding {
        severity: Severity::Error,
        file: None,
        path: "shared".to_owned(),
        position: None,
        message,
        hint: Some(hint.to_owned()),
    }
}
