//! `connect`: a client on stdio, and the one workbench that all clients of the machine share.
//!
//! The bridge of `wire` passes messages on as they are. Where there is no service for this client, it
//! is served here, as `serve` does it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use tracing_subscriber::filter::LevelFilter;

use crate::app;
use crate::authoring::service::Service;
use crate::backend::launch::is_passed_on;
use crate::cli::error::Error;
use crate::cli::{Global, block_on, logging, print, service};
use crate::config;
use crate::config::env::{EnvSource, ProcessEnv};
use crate::settings::Limits;
use crate::wire::remote::StaticHeaders;
use crate::wire::remote::bridge::{End, Shore};

const EXAMPLES: &str = "\
Examples:
  mcp-workbench connect --agent cursor
  mcp-workbench connect --agent zed --config ~/.config/mcp-workbench/config.json

`mcp-workbench setup --service` writes such an entry into each client that speaks no HTTP.";

/// Connect a client on stdio to the service that all clients share
///
/// Passes on what the client says to the workbench that `setup --service` has set up, and starts that
/// if it does not run. Where there is none, where it cannot be started, and where the configuration
/// takes variables from the environment of the client, it serves the client itself, as `serve` does.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {}

/// The outcome.
pub(crate) enum Done {
    /// The client has left.
    Over(ExitCode),
    /// There is no service for it.
    ServesItself,
}

/// A service that a client can be led to.
struct Found {
    service: Service,
    config: PathBuf,
    token: StaticHeaders,
}

/// Connects a client, unless there is no service for it.
pub(crate) fn run(global: &Global) -> Result<Done, Error> {
    let found = match find(global)? {
        Ok(found) => found,
        Err(why) => return Ok(serves_itself(&why)),
    };
    let Found { service, config, token } = found;
    if let Err(why) = block_on(service::revive(&service, &config))? {
        return Ok(serves_itself(&format!("the service does not answer: {why}")));
    }
    let _log = logging::start(global, LevelFilter::WARN, None)?;
    let url = service.url().parse().map_err(Error::internal)?;
    let credentials = Arc::new(token);
    let shore = Shore { url, credentials, max: Limits::default().max_message_bytes };
    let revive = async || service::revive(&service, &config).await;
    let end = block_on(app::bridge(shore, revive))?.map_err(Error::internal)?;
    match end.map_err(|why| Error::failed("the service cannot be asked").because(&why))? {
        End::Left => Ok(Done::Over(ExitCode::SUCCESS)),
        End::Another(why) => {
            Err(Error::failed("the session cannot go on with the service that came back")
                .because(&why)
                .hint("connect again"))
        }
    }
}

fn serves_itself(why: &str) -> Done {
    print::note(&format!("serving this client alone: {why}"));
    Done::ServesItself
}

/// Finds the service of the configuration, or says why this client is none of its.
fn find(global: &Global) -> Result<Result<Found, String>, Error> {
    let Some(config) = global.own_file()? else {
        return Ok(Err("the embedded configuration has no service".to_owned()));
    };
    let Some(service) = service::read(&config)? else {
        let file = config.display();
        return Ok(Err(format!(
            "`{file}` has no service; `mcp-workbench setup --service` makes one"
        )));
    };
    let Some(agent) = global.caller().agent else {
        return Ok(Err("`--agent` does not say which client of the service it is".to_owned()));
    };
    let token = service.tokens.get(agent.as_str()).and_then(|token| StaticHeaders::bearer(token));
    let Some(token) = token else {
        return Ok(Err(format!("the service has no token for `{agent}`")));
    };
    let text = fs::read_to_string(&config).unwrap_or_default();
    let own = own_variables(&config, &text, &ProcessEnv);
    if !own.is_empty() {
        let names = own.join("`, `");
        return Ok(Err(format!(
            "the configuration takes `{names}` from the environment, and the service has another"
        )));
    }
    Ok(Ok(Found { service, config, token }))
}

/// The variables that a configuration takes from the environment that we have, where the service may have
/// others: neither those that every server gets, nor those of the file of secrets.
pub(crate) fn own_variables(config: &Path, text: &str, env: &dyn EnvSource) -> Vec<String> {
    let secrets = config::secrets_file(config);
    let kept = fs::read_to_string(&secrets).unwrap_or_default();
    let (kept, _) = config::read_secrets(&secrets, &kept);
    let mut own: Vec<String> = config::variables(text)
        .into_iter()
        .filter(|name| !is_passed_on(name) && !kept.contains_key(*name) && env.get(name).is_some())
        .map(str::to_owned)
        .collect();
    own.sort();
    own.dedup();
    own
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn variables_are_a_clients_own_unless_all_have_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("config.json");
        let text = r#"{"env": {"A": "${TOKEN}", "B": "${HOME}", "C": "${KEPT}", "D": "${UNSET:-x}", "E": "${TOKEN}"}}"#;
        fs::write(folder.path().join("config.secrets.env"), "KEPT=1\n").unwrap();
        let env: BTreeMap<String, String> =
            ["TOKEN", "HOME", "KEPT", "OTHER"].map(|name| (name.to_owned(), "x".to_owned())).into();
        assert_eq!(own_variables(&config, text, &env), ["TOKEN"]);
        assert_eq!(own_variables(&config, text, &BTreeMap::new()), [""; 0]);
    }
}
