//! `auth`: signing in at servers over HTTP, signing out, and how it stands with that.

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
use crate::backend::{Whose, tell_of_login};
use crate::cli::error::Error;
use crate::cli::{Global, block_on, complete};
use crate::login::{Failure, Keep, Logins, Place, Standing, Told};
use crate::name::{self, AgentName};
use crate::observe::Observer;
use crate::settings::{Config, Launch};
use crate::shared::{Address, Limits, Options, Redis};

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
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
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
        which: Which,
    },
    /// Show where tokens are kept, or move all of them to files or to the system's keyring
    ///
    /// Workbenches that run meanwhile go on with the tokens at their new place. Where the keyring cannot be reached,
    /// nothing is moved.
    Store(store::Args),
    /// Show where you are signed in, as which client, for what and until when; no token
    Status {
        #[command(flatten)]
        which: Which,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// The logins that are meant.
#[derive(Debug, clap::Args)]
struct Which {
    /// The server, or toolbox/server; all where none is named
    #[arg(add = ArgValueCandidates::new(complete::servers))]
    server: Option<String>,
    /// The agent whose own login it is, for agents that come over HTTP
    #[arg(long = "for", value_name = "AGENT", add = ArgValueCandidates::new(complete::agents))]
    agent: Option<String>,
}

/// Does what is asked; fails where a login did not come about.
pub(crate) fn run(global: &Global, args: &Args) -> Result<ExitCode, Error> {
    match &args.command {
        Command::Login(args) => login::run(global, args),
        Command::Logout { which } => logout::run(global, which),
        Command::Store(args) => store::run(global, args),
        Command::Status { which, json } => status::run(global, which, *json),
    }
}

/// Does `work` with the logins, until a signal comes, and waits for a token that is being renewed.
fn with_logins<T>(
    global: &Global,
    config: &Config,
    work: impl AsyncFnOnce(&Arc<Logins>) -> Result<T, Error>,
) -> Result<T, Error> {
    let keep = global.logins().ok_or_else(no_folder)?;
    let observer = Arc::new(Observer::default().uncounted());
    observer.audit(config).map_err(|error| {
        Error::failed("what is done cannot be recorded as `audit` wants it")
            .because(&error.to_string())
    })?;
    let shared = Address::new(&config.shared).map_err(|why| Error::wrong(why.to_string()))?;
    let shared = shared.filter(Address::has_keys);
    let done = block_on(async {
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        let keep = match shared {
            Some(address) => {
                let observer = Arc::clone(&observer);
                let shared = in_shared_store(address, observer, &tasks, stop.clone()).await;
                shared.map_err(|error| stopped(&stop, error))?
            }
            None => keep,
        };
        let own = Arc::clone(&observer);
        let told = move |told: Told<'_>| tell_of_login(&own, told);
        let logins = Logins::new(keep, TaskTracker::new(), told);
        let done = app::until_signal(work(&logins)).await;
        logins.close().await;
        stop.cancel();
        tasks.close();
        // Locks are given back.
        let _ = timeout(app::LAST_RECORDS.1, tasks.wait()).await;
        done.map_err(Error::internal)
    })?;
    observer.close(app::LAST_RECORDS.0);
    done?
}

/// The logins of all workbenches that share a store, and have the key.
async fn in_shared_store(
    address: Address,
    observer: Arc<Observer>,
    tasks: &TaskTracker,
    stop: CancellationToken,
) -> Result<Keep, Error> {
    let problem = format!("the logins are in the shared store {address}, which cannot be used now");
    let options = Options { session_idle: Duration::ZERO, limits: Limits::default() };
    let store = Redis::open(address, options, observer, tasks, stop).await;
    match store.logins().filter(|_| store.is_up()) {
        Some(logins) => Ok(Keep::In(logins)),
        None => Err(Error::failed(problem).hint("`mcp-workbench check --connect` says why")),
    }
}

/// Ends what looks for a store that cannot be used.
fn stopped(stop: &CancellationToken, error: Error) -> Error {
    stop.cancel();
    error
}

fn no_folder() -> Error {
    Error::wrong("there is no folder where logins could be kept").hint("set `HOME`")
}

/// The places of these servers, in the order of the configuration.
fn places(global: &Global, config: &Config, which: &Which) -> Result<Vec<Place>, Error> {
    let caller = global.caller().agent;
    let whose = Whose::only(caller.as_ref());
    let mut places: Vec<Place> = Vec::new();
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
        let Some(mut place) = whose.place(server_name, launch) else { continue };
        if let Some(agent) = &which.agent {
            place.account = Some(AgentName::new(agent).to_string());
        }
        if !places.contains(&place) {
            places.push(place);
        }
    }
    match &which.server {
        Some(server) if !is_there => {
            let known = config.servers().map(|(_, server)| server.name.as_str());
            let near = name::nearest(server, known, 1).pop();
            let error = Error::wrong(format!("there is no server `{server}`"));
            Err(match near {
                Some(near) => error.hint(format!("did you mean `{near}`?")),
                None => error.hint("`mcp-workbench list` shows the servers there are"),
            })
        }
        Some(server) if !is_remote => Err(Error::wrong(format!(
            "`{server}` is no server over HTTP, so nobody signs in there"
        ))
        .hint("what it needs to know stands in `env` of its entry")),
        Some(server) if places.is_empty() => {
            let why = format!(
                "nobody signs in at `{server}`: its entry says who asks, or `oauth` is off"
            );
            Err(Error::wrong(why)
                .hint("take `Authorization` out of `headers`, and `oauth: false` away"))
        }
        None | Some(_) => Ok(places),
    }
}

/// The logins that are kept besides those of `places`, as far as they are meant: agents' own, and those of servers
/// that the configuration does not have any more.
async fn others(
    logins: &Arc<Logins>,
    which: &Which,
    places: &[Place],
) -> Result<Vec<(Place, Standing)>, Error> {
    let mut kept = logins
        .all()
        .await
        .map_err(|failure| Error::failed(failure.reason.as_str()).hint(failure.hint.as_str()))?;
    // A toolbox before the name of a server says nothing more: logins are by the server's.
    let server = which.server.as_ref().map(|name| name.rsplit('/').next().unwrap_or(name));
    kept.retain(|(place, _)| {
        server.is_none_or(|server| server == place.server)
            && which.agent.as_ref().is_none_or(|agent| Some(agent) == place.account.as_ref())
            && !places.iter().any(|known| {
                (&known.server, &known.url, &known.account)
                    == (&place.server, &place.url, &place.account)
            })
    });
    Ok(kept)
}

/// A failure of a login, as the error of a command.
fn failed(place: &Place, failure: &Failure) -> Error {
    Error::failed(format!("`{}`: {}", whole_name(place), failure.reason))
        .hint(failure.hint.as_str())
}

/// The name of a place for people.
fn whole_name(place: &Place) -> String {
    match &place.account {
        Some(agent) => format!("{} (for {agent})", place.server),
        None => place.server.clone(),
    }
}
