//! `connect`: bridges a client on stdio to the background workbench shared by all clients.
//!
//! Messages pass unchanged. Without a usable service, this process serves the client itself, as
//! `serve` does.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use tracing_subscriber::filter::LevelFilter;

use crate::app;
use crate::authoring::service::UserService;
use crate::cli::args::GlobalArgs;
use crate::cli::output::{CommandError, logging, print};
use crate::cli::runtime::block_on;
use crate::cli::servers::background_service;
use mcp_workbench_config::env::ProcessEnv;
use mcp_workbench_os::read_input_text;
use mcp_workbench_settings::Limits;
use mcp_workbench_wire::http_client::StaticHeaders;
use mcp_workbench_wire::http_client::bridge::{BridgeOutcome, BridgeUpstream};

const EXAMPLES: &str = "\
Examples:
  mcp-workbench connect --agent cursor
  mcp-workbench connect --agent zed --config ~/.config/mcp-workbench/config.json

`mcp-workbench setup --service` configures this command in every client that
doesn't support HTTP.";

/// Bridge a stdio client to the shared background service
///
/// Forwards the client's messages to the background service of `setup --service`, and starts the
/// service if it isn't running. Serves the client directly, as `serve` does, if there is no service,
/// if it can't be started, or if the configuration uses environment variables of the client.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {}

pub(crate) enum ConnectOutcome {
    Finished(ExitCode),
    ServeLocally,
}

struct ServiceTarget {
    service: UserService,
    config: PathBuf,
    token: StaticHeaders,
}

pub(crate) fn run(global: &GlobalArgs) -> Result<ConnectOutcome, CommandError> {
    let found = match find(global)? {
        Ok(found) => found,
        Err(why) => return Ok(serve_locally(&why)),
    };
    let ServiceTarget { service, config, token } = found;
    if let Err(why) = block_on(background_service::ensure_running(&service, &config))? {
        return Ok(serve_locally(&format!("the background service is not responding: {why}")));
    }
    let _log = logging::init(global, LevelFilter::WARN, None)?;
    let url = service.url().parse().map_err(CommandError::internal)?;
    let credentials = Arc::new(token);
    let upstream = BridgeUpstream { url, credentials, max: Limits::default().max_message_bytes };
    let revive = async || background_service::ensure_running(&service, &config).await;
    let end = block_on(app::run_bridge(upstream, revive))?.map_err(CommandError::internal)?;
    match end.map_err(|why| {
        CommandError::failed("failed to connect to the background service").with_cause(&why)
    })? {
        BridgeOutcome::ClientLeft => Ok(ConnectOutcome::Finished(ExitCode::SUCCESS)),
        BridgeOutcome::ServerReplaced(why) => {
            Err(CommandError::failed("the session was lost when the background service restarted")
                .with_cause(&why)
                .with_hint("reconnect the client"))
        }
    }
}

fn serve_locally(why: &str) -> ConnectOutcome {
    print::note(&format!("serving this client directly: {why}"));
    ConnectOutcome::ServeLocally
}

/// Returns the service of the configuration, or the reason why this client can't use it.
fn find(global: &GlobalArgs) -> Result<Result<ServiceTarget, String>, CommandError> {
    let Some(config) = global.source_file()? else {
        return Ok(Err("the embedded configuration has no background service".to_owned()));
    };
    if let Some(projects) = global.project_files()?
        && !projects.read().map_err(CommandError::config)?.is_empty()
    {
        let why = "this folder has a project file, which the background service does not use";
        return Ok(Err(why.to_owned()));
    }
    let Some(service) = background_service::read(&config)? else {
        let file = config.display();
        return Ok(Err(format!(
            "`{file}` has no background service (run `mcp-workbench setup --service`)"
        )));
    };
    let Some(agent) = global.caller().agent else {
        return Ok(Err("the background service needs `--agent` to identify the client".to_owned()));
    };
    let token = service.tokens.get(agent.as_str()).and_then(|token| StaticHeaders::bearer(token));
    let Some(token) = token else {
        return Ok(Err(format!("the background service has no token for agent `{agent}`")));
    };
    let text = read_input_text(&config).unwrap_or_default();
    let own = background_service::client_variables(&config, &text, &ProcessEnv);
    if !own.is_empty() {
        let names = own.join("`, `");
        return Ok(Err(format!(
            "the configuration uses `{names}` from this client's environment, which the background \
             service does not have"
        )));
    }
    Ok(Ok(ServiceTarget { service, config, token }))
}
