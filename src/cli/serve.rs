//! `serve`: serves the toolboxes to an agent.

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use tokio::net::TcpListener;

use crate::app;
use crate::cli::error::Error;
use crate::cli::{Global, block_on, pool_options, print};

const EXAMPLES: &str = "\
Examples:
  mcp-workbench serve --config ~/workbench-config.json
  mcp-workbench serve --http 127.0.0.1:8000
  claude mcp add workbench -- mcp-workbench serve --config ~/workbench-config.json
  claude mcp add --transport http workbench http://127.0.0.1:8000/mcp";

/// Serve the toolboxes to agents, over stdio (the default) or HTTP
#[derive(Debug, Default, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Serve over HTTP at this address of this machine, such as 127.0.0.1:8000
    #[arg(long, value_name = "ADDRESS", value_parser = local_address)]
    http: Option<SocketAddr>,
    /// How long calls that are under way when SIGTERM or SIGINT comes may still take, over HTTP
    #[arg(long, value_name = "SECONDS", default_value_t = 10, requires = "http")]
    #[arg(value_parser = clap::value_parser!(u64).range(..=3600))]
    grace: u64,
}

/// Serves until the agent leaves, or over HTTP until a signal comes.
pub(crate) fn run(global: &Global, args: &Args) -> Result<ExitCode, Error> {
    let loaded = global.load()?;
    let source = global.source()?;
    if let Some(address) = args.http {
        let options = pool_options(global.store());
        let grace = Duration::from_secs(args.grace);
        block_on(async {
            let listener = TcpListener::bind(address).await.map_err(|error| {
                Error::failed(format!("cannot listen at {address}")).because(&error.to_string())
            })?;
            let served = app::serve_http(loaded.config, source, options, listener, grace);
            served.await.map_err(Error::internal)
        })??;
        return Ok(ExitCode::SUCCESS);
    }
    if std::io::stdin().is_terminal() {
        print::note(
            &"serving MCP on standard input, as a client would use it; Ctrl-C ends it\n\
              hint: `mcp-workbench demo` shows what an agent sees",
        );
    }
    let options = pool_options(global.store());
    block_on(app::serve_stdio(loaded.config, source, options, global.caller()))?
        .map_err(Error::internal)?;
    Ok(ExitCode::SUCCESS)
}

/// Reads an address that nobody can reach from outside: there is no authentication.
fn local_address(text: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr = text
        .parse()
        .map_err(|_| "expected an address and a port, such as 127.0.0.1:8000".to_owned())?;
    if address.ip().is_loopback() {
        Ok(address)
    } else {
        Err("only this machine can be served (127.0.0.1, [::1]), as clients are not asked who \
             they are"
            .to_owned())
    }
}
