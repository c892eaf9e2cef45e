//! `auth`: signs in to HTTP servers, signs out, and shows the status.

mod browser;
mod login;
mod logout;
mod status;
mod store;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Subcommand;
use clap_complete::engine::ArgValueCandidates;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::app;
use crate::cli::args::{GlobalArgs, completion};
use crate::cli::output::{CommandError, Symptom};
use crate::cli::runtime::block_on;
use crate::cli::servers::server_names::is_named;
use mcp_workbench_core::backend::{LoginScope, tell_of_login};
use mcp_workbench_core::telemetry::Telemetry;
use mcp_workbench_login::{
    LoginError, LoginEvent, LoginRegistry, LoginStorage, LoginTarget, SignInStatus,
};
use mcp_workbench_names::AgentName;
use mcp_workbench_redis::{RedisStore, RedisStoreOptions, RedisTarget, StoreTimeouts};
use mcp_workbench_settings::{Config, Launch};

const EXAMPLES: &str = "\
Examples:
  mcp-workbench auth login github           Sign in to one server
  mcp-workbench auth login                  Sign in wherever it is required
  mcp-workbench auth login hub --agent ci   Sign in for one agent
  mcp-workbench auth status                 Show logins and their expiry
  mcp-workbench auth logout github          Sign out and delete the tokens
  mcp-workbench auth store keyring          Move all tokens to the keyring";

/// Sign in to remote servers, sign out, and show the status
///
/// Tokens are stored per server and account, in files that only you can read or in the system
/// keyring. They are refreshed automatically as long as the server allows it.
///
/// Agents that connect over HTTP can have logins of their own. `--agent` selects such a login; without
/// it, `login` signs this machine in.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: AuthCommand,
}

#[derive(Debug, Subcommand)]
enum AuthCommand {
    /// Sign in to a server, or to every server that requires it
    ///
    /// Prints the URL to open, and opens it if a browser is available. If your browser can't reach
    /// this machine afterwards, paste its final URL into this command.
    ///
    /// With `--agent`, signs in for that agent instead of for this machine.
    Login(login::Args),
    /// Sign out of a server, or of all, and delete the tokens
    ///
    /// Given a server, deletes this machine's login to it; with `--agent`, that agent's login. If
    /// this machine isn't signed in and only one agent is, deletes that agent's login.
    Logout {
        #[command(flatten)]
        server: ServerArg,
    },
    /// Show where you are signed in; never prints tokens
    ///
    /// Lists server, account, issuer, scopes and expiry of each login. With `--agent`, only that
    /// agent's.
    Status {
        #[command(flatten)]
        server: ServerArg,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show where tokens are stored, or move them
    ///
    /// Running workbenches use the new location immediately. If the keyring is unavailable, nothing
    /// is moved.
    Store(store::Args),
}

#[derive(Debug, clap::Args)]
struct ServerArg {
    /// Server, as `server` or `toolbox/server` [default: all]
    #[arg(add = ArgValueCandidates::new(completion::servers))]
    server: Option<String>,
}

/// Selects logins: all, or those of a server, of an agent, or of both.
struct LoginSelector {
    server: Option<String>,
    /// The value of `--agent`.
    agent: Option<String>,
}

pub(crate) fn run(global: &GlobalArgs, args: &Args) -> Result<ExitCode, CommandError> {
    let agent = global.caller().agent.filter(|_| global.has_agent_flag);
    let agent = agent.map(|agent| agent.to_string());
    // The agent selects a login, even if the configuration no longer has the agent.
    let without_agent = GlobalArgs { agent: None, ..global.clone() };
    let global = if agent.is_some() { &without_agent } else { global };
    let selector = |arg: &ServerArg| LoginSelector { server: arg.server.clone(), agent };
    match &args.command {
        AuthCommand::Login(args) => login::run(global, args, &selector(&args.server)),
        AuthCommand::Logout { server } => logout::run(global, &selector(server)),
        AuthCommand::Store(args) => store::run(global, args),
        AuthCommand::Status { server, json } => status::run(global, &selector(server), *json),
    }
}

/// Runs `work` with the logins until a signal comes, then waits for token refreshes in flight.
fn with_logins<T>(
    global: &GlobalArgs,
    config: &Config,
    work: impl AsyncFnOnce(&Arc<LoginRegistry>) -> Result<T, CommandError>,
) -> Result<T, CommandError> {
    let storage = global.login_keep().ok_or_else(no_folder)?;
    let observer = Arc::new(Telemetry::default().without_metrics());
    observer.open_audit(config).map_err(|error| {
        CommandError::failed("failed to open the audit log configured in `audit`").because(&error)
    })?;
    let shared = RedisTarget::new(&config.shared_store)
        .map_err(|why| CommandError::usage(why.to_string()))?;
    let shared = shared.filter(RedisTarget::has_keys);
    let done = block_on(async {
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        let storage = match shared {
            Some(address) => {
                let observer = Arc::clone(&observer);
                let shared = in_shared_store(address, observer, &tasks, stop.clone()).await;
                // Cancels the reconnect loop of an unusable store.
                shared.inspect_err(|_| stop.cancel())?
            }
            None => storage,
        };
        let own = Arc::clone(&observer);
        let event = move |event: LoginEvent<'_>| tell_of_login(&own, event);
        let logins = LoginRegistry::new(storage, TaskTracker::new(), event);
        let done = app::run_until_signal(work(&logins)).await;
        logins.close().await;
        stop.cancel();
        tasks.close();
        // The tasks release their locks in the shared store.
        let _ = timeout(app::FLUSH_TIMEOUT_RANGE.1, tasks.wait()).await;
        done.map_err(CommandError::internal)
    })?;
    observer.close(app::FLUSH_TIMEOUT_RANGE.0);
    done?
}

async fn in_shared_store(
    address: RedisTarget,
    observer: Arc<Telemetry>,
    tasks: &TaskTracker,
    stop: CancellationToken,
) -> Result<LoginStorage, CommandError> {
    let problem = format!("the shared store {address}, which holds the logins, is unavailable");
    let options =
        RedisStoreOptions { session_idle: Duration::ZERO, limits: StoreTimeouts::default() };
    let store = RedisStore::open(address, options, observer, tasks, stop).await;
    match store.logins().filter(|_| store.is_up()) {
        Some(logins) => Ok(LoginStorage::Custom(logins)),
        None => Err(CommandError::failed(problem)
            .with_hint("run `mcp-workbench check --connect` to see why")),
    }
}

fn no_folder() -> CommandError {
    CommandError::usage("cannot locate the folder for logins").with_hint("set `HOME`")
}

fn matching_logins(
    global: &GlobalArgs,
    config: &Config,
    which: &LoginSelector,
) -> Result<Vec<LoginTarget>, CommandError> {
    let caller = global.caller().agent;
    let scope = LoginScope::only(caller.as_ref());
    let mut places: Vec<LoginTarget> = Vec::new();
    let (mut is_there, mut is_remote) = (false, false);
    for (toolbox, server) in config.servers() {
        let (toolbox_name, server_name) = (toolbox.name.as_str(), server.name.as_str());
        let is_meant = |wanted: &String| is_named(toolbox_name, server_name, wanted);
        if !which.server.as_ref().is_none_or(is_meant) {
            continue;
        }
        is_there = true;
        let Launch::Http(launch) = &server.launch else { continue };
        is_remote = true;
        let Some(mut target) = scope.place(server_name, launch) else { continue };
        if let Some(agent) = &which.agent {
            target.account = Some(AgentName::new(agent).to_string());
        }
        if !places.contains(&target) {
            places.push(target);
        }
    }
    match &which.server {
        Some(server) if !is_there => {
            let known = config.servers().map(|(_, server)| server.name.as_str());
            let near = mcp_workbench_names::nearest(server, known, 1);
            Err(CommandError::usage(format!("no server `{server}` in the configuration"))
                .suggesting(&near, "run `mcp-workbench list` to see all servers"))
        }
        Some(server) if !is_remote => Err(CommandError::usage(format!(
            "`{server}` is not an HTTP server, so it has no sign-in"
        ))
        .with_hint("set its credentials in `env` of its entry")),
        Some(server) if places.is_empty() => {
            let why = format!(
                "sign-in is off for `{server}`: its entry sets `Authorization` or `oauth: false`"
            );
            Err(CommandError::usage(why)
                .with_hint("remove `Authorization` from `headers`, or `oauth: false`"))
        }
        None | Some(_) => Ok(places),
    }
}

/// Returns the selected stored logins that are not in `places`: logins of individual agents or of
/// servers that are no longer configured.
async fn other_stored_logins(
    logins: &Arc<LoginRegistry>,
    which: &LoginSelector,
    places: &[LoginTarget],
) -> Result<Vec<(LoginTarget, SignInStatus)>, CommandError> {
    let mut kept = logins.all().await.map_err(|failure| {
        CommandError::failed(failure.reason.as_str()).with_hint(failure.hint.as_str())
    })?;
    // Logins are stored per server, so a toolbox prefix is irrelevant.
    let server = which.server.as_ref().map(|name| name.rsplit('/').next().unwrap_or(name));
    kept.retain(|(target, _)| {
        server.is_none_or(|server| server == target.server)
            && which.agent.as_ref().is_none_or(|agent| Some(agent) == target.account.as_ref())
            && !places.iter().any(|known| {
                (&known.server, &known.url, &known.account)
                    == (&target.server, &target.url, &target.account)
            })
    });
    Ok(kept)
}

fn failed(target: &LoginTarget, failure: &LoginError) -> CommandError {
    CommandError::failed(format!("`{}`: {}", display_name(target), failure.reason))
        .with_hint(failure.hint.as_str())
        .with_link(Symptom::SignInFails)
}

fn display_name(target: &LoginTarget) -> String {
    match &target.account {
        Some(agent) => format!("{} (agent {agent})", target.server),
        None => target.server.clone(),
    }
}
