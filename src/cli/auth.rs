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
use crate::backend::{LoginScope, tell_of_login};
use crate::cli::error::CommandError;
use crate::cli::{GlobalArgs, block_on, completion};
use crate::login::{
    LoginError, LoginEvent, LoginRegistry, LoginStorage, LoginTarget, SignInStatus,
};
use crate::name::{self, AgentName};
use crate::redis_store::{RedisStore, RedisStoreOptions, RedisTarget, StoreTimeouts};
use crate::settings::{Config, Launch};
use crate::telemetry::Telemetry;

const EXAMPLES: &str = "\
Examples:
  mcp-workbench auth login github           Sign in at the server `github`
  mcp-workbench auth login                  Sign in at every server that wants it
  mcp-workbench auth login hub --for ci     Sign in for the agent `ci`, which comes over HTTP
  mcp-workbench auth status                 Show where you are signed in, and until when
  mcp-workbench auth logout github          Sign out there, and forget the token
  mcp-workbench auth store keyring          Move all tokens to the system's keyring";

/// Sign in at servers over HTTP, sign out, and see how it stands
///
/// A server that wants a sign-in says so, and how. Tokens are kept in files that nobody else can read,
/// or in the system's keyring, one for each server and account, and renewed by themselves for as long as the server allows it.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: AuthCommand,
}

#[derive(Debug, Subcommand)]
enum AuthCommand {
    /// Sign in at a server in a browser, or at all that want it, one after the other
    ///
    /// The address to open is printed, and opened where there is a browser. Where the browser is on
    /// another machine, paste the address that it ends at into this command.
    Login(login::Args),
    /// Sign out at a server, and forget its token; without a name, at all
    ///
    /// Of a server at which agents have logins of their own, this machine's is meant, unless `--for` names an
    /// agent; where there is one login alone, that one is.
    Logout {
        #[command(flatten)]
        which: LoginSelector,
    },
    /// Show where tokens are kept, or move all of them to files or to the system's keyring
    ///
    /// Workbenches that run meanwhile go on with the tokens at their new place. Where the keyring cannot be reached,
    /// nothing is moved.
    Store(store::Args),
    /// Show where you are signed in, as which client, for what and until when; no token
    Status {
        #[command(flatten)]
        which: LoginSelector,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// The logins that are meant.
#[derive(Debug, clap::Args)]
struct LoginSelector {
    /// The server, or toolbox/server; all where none is named
    #[arg(add = ArgValueCandidates::new(completion::servers))]
    server: Option<String>,
    /// The agent whose own login it is, for agents that come over HTTP
    #[arg(long = "for", value_name = "AGENT", add = ArgValueCandidates::new(completion::agents))]
    agent: Option<String>,
}

pub(crate) fn run(global: &GlobalArgs, args: &Args) -> Result<ExitCode, CommandError> {
    match &args.command {
        AuthCommand::Login(args) => login::run(global, args),
        AuthCommand::Logout { which } => logout::run(global, which),
        AuthCommand::Store(args) => store::run(global, args),
        AuthCommand::Status { which, json } => status::run(global, which, *json),
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
        CommandError::failed("what is done cannot be recorded as `audit` wants it")
            .with_cause(&error.to_string())
    })?;
    let shared =
        RedisTarget::new(&config.shared).map_err(|why| CommandError::usage(why.to_string()))?;
    let shared = shared.filter(RedisTarget::has_keys);
    let done = block_on(async {
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        let storage = match shared {
            Some(address) => {
                let observer = Arc::clone(&observer);
                let shared = in_shared_store(address, observer, &tasks, stop.clone()).await;
                shared.map_err(|error| stopped(&stop, error))?
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
    let problem = format!("the logins are in the shared store {address}, which cannot be used now");
    let options =
        RedisStoreOptions { session_idle: Duration::ZERO, limits: StoreTimeouts::default() };
    let store = RedisStore::open(address, options, observer, tasks, stop).await;
    match store.logins().filter(|_| store.is_up()) {
        Some(logins) => Ok(LoginStorage::Custom(logins)),
        None => {
            Err(CommandError::failed(problem).with_hint("`mcp-workbench check --connect` says why"))
        }
    }
}

/// Cancels the reconnect loop of an unusable store and passes the error on.
fn stopped(stop: &CancellationToken, error: CommandError) -> CommandError {
    stop.cancel();
    error
}

fn no_folder() -> CommandError {
    CommandError::usage("there is no folder where logins could be kept").with_hint("set `HOME`")
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
        let server_name = server.name.as_str();
        let full = format!("{}/{server_name}", toolbox.name);
        if which.server.as_ref().is_some_and(|wanted| *wanted != server_name && *wanted != full) {
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
            let near = name::nearest(server, known, 1).pop();
            let error = CommandError::usage(format!("there is no server `{server}`"));
            Err(match near {
                Some(near) => error.with_hint(format!("did you mean `{near}`?")),
                None => error.with_hint("`mcp-workbench list` shows the servers there are"),
            })
        }
        Some(server) if !is_remote => Err(CommandError::usage(format!(
            "`{server}` is no server over HTTP, so nobody signs in there"
        ))
        .with_hint("what it needs to know stands in `env` of its entry")),
        Some(server) if places.is_empty() => {
            let why = format!(
                "nobody signs in at `{server}`: its entry says who asks, or `oauth` is off"
            );
            Err(CommandError::usage(why)
                .with_hint("take `Authorization` out of `headers`, and `oauth: false` away"))
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
}

fn display_name(target: &LoginTarget) -> String {
    match &target.account {
        Some(agent) => format!("{} (for {agent})", target.server),
        None => target.server.clone(),
    }
}
