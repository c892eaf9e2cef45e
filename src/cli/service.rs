//! The service of a configuration: the file that remembers it, whether it answers, and its start.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, timeout};

use crate::authoring::service::{self, Manager, Service};
use crate::backend::launch::detached::detach;
use crate::backend::launch::printed::{Printing, printed};
use crate::cli::Global;
use crate::cli::error::Error;
use crate::config::env::{EnvSource, ProcessEnv};
use crate::observe::running;
use crate::os;

/// How long a service may take to listen after its start.
const STARTING: Duration = Duration::from_secs(10);
/// How long a connection to it may take.
const CONNECTING: Duration = Duration::from_secs(2);
/// How long a service may take to end: calls that are under way are finished first.
const STOPPING: Duration = Duration::from_secs(20);
/// The pause between two looks at whether it listens.
const PAUSE: Duration = Duration::from_millis(20);
/// The most that a manager of services may print.
const MOST: u64 = 64 * 1024;

/// Reads the file of the service of a configuration, if there is one.
pub(crate) fn read(config: &Path) -> Result<Option<Service>, Error> {
    let path = service::file(config);
    let broken = |why: String| {
        Error::wrong(format!("cannot read `{}`", path.display()))
            .because(&why)
            .hint("`mcp-workbench setup --service` makes it anew")
    };
    match fs::read_to_string(&path) {
        Ok(text) => Service::read(&text).map(Some).map_err(broken),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(broken(error.to_string())),
    }
}

/// Returns once the service answers, which is started if it does not.
///
/// # Errors
///
/// Why it does not answer.
pub(crate) async fn revive(service: &Service, config: &Path) -> Result<(), String> {
    if answers(service).await {
        return Ok(());
    }
    let (own, file) = (service.clone(), config.to_owned());
    let started = spawn_blocking(move || start(&own, &file)).await;
    started.map_err(|error| error.to_string())??;
    let until = Instant::now() + STARTING;
    while !answers(service).await {
        if Instant::now() > until {
            let seconds = STARTING.as_secs();
            return Err(format!("nobody listens at {} after {seconds} s", service.address));
        }
        // Nothing tells when another process begins to listen.
        sleep(PAUSE).await;
    }
    Ok(())
}

/// The processes that serve over HTTP at an address, as they tell others.
pub(crate) fn processes(global: &Global, address: SocketAddr) -> io::Result<Vec<u32>> {
    let cache = global.cache().map_err(|error| io::Error::other(error.cause()))?;
    let own = ["http", "https"].map(|scheme| format!("{scheme}://{address}/"));
    let is_own = |at: &str| own.iter().any(|own| at.starts_with(own));
    let told = running::told(&cache)?.into_iter().filter(|told| is_own(&told.at));
    Ok(told.map(|told| told.pid).collect())
}

/// Stops what serves at an address, and returns once it has ended.
pub(crate) fn stop(global: &Global, address: SocketAddr) -> Result<(), String> {
    let started = std::time::Instant::now();
    let all = || processes(global, address).map_err(|error| error.to_string());
    for process in all()? {
        os::terminate_group(process);
    }
    while !all()?.is_empty() {
        if started.elapsed() > STOPPING {
            return Err(format!("what serves at {address} does not end"));
        }
        // Nothing but its file tells when a process that is no child of ours has ended.
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

/// Returns `true` if somebody listens where the service does.
pub(crate) async fn answers(service: &Service) -> bool {
    matches!(timeout(CONNECTING, TcpStream::connect(service.address)).await, Ok(Ok(_)))
}

/// Has the service started: by its manager, or as a program of its own where there is none.
fn start(service: &Service, config: &Path) -> Result<(), String> {
    let name = &service.name;
    let words: Vec<String> = match service.manager {
        Manager::Systemd => words(&["systemctl", "--user", "start", name]),
        Manager::Launchd => words(&["launchctl", "kickstart", name]),
        Manager::Tasks => words(&["schtasks", "/run", "/tn", name]),
        Manager::Nobody => return detached(service, config),
    };
    // A manager that cannot be reached from here, as without a session, is as good as none.
    manage(&words).map(|_| ()).or_else(|why| {
        tracing::info!("the service is started here, for {why}");
        detached(service, config)
    })
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Runs a command of a manager of services, and returns what it prints.
pub(crate) fn manage(words: &[String]) -> Result<String, String> {
    let environment = ProcessEnv.vars();
    let folder = ProcessEnv.home().unwrap_or_else(|| Path::new("/").to_owned());
    let command = Printing { words, folder: &folder, environment: &environment };
    let outcome = printed(&[command], MOST).pop();
    let outcome = outcome.ok_or_else(|| "nothing was run".to_owned())?;
    outcome.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).map_err(|error| error.reason)
}

fn detached(service: &Service, config: &Path) -> Result<(), String> {
    let words = service.words(config);
    // What is this client's alone is not for all.
    let own = ["MCP_WORKBENCH_AGENT", "WORKBENCH_LOG_FILE"];
    let environment: Vec<(OsString, OsString)> = ProcessEnv
        .vars()
        .into_iter()
        .filter(|(name, _)| !own.iter().any(|own| name == own))
        .collect();
    let folder = config.parent().unwrap_or(Path::new("/"));
    let command = Printing { words: &words, folder, environment: &environment };
    detach(&command).map(|_| ()).map_err(|error| error.reason)
}
