//! The background service of a configuration: its file, and starting and stopping it.

use std::ffi::OsString;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, timeout};

use crate::authoring::service::{self, ServiceManager, UserService};
use crate::cli::args::GlobalArgs;
use crate::cli::output::CommandError;
use mcp_workbench_config::env::{EnvSource, ProcessEnv};
use mcp_workbench_core::backend::launch::capture::{CaptureCommand, capture_all};
use mcp_workbench_core::backend::launch::detached::detach;
use mcp_workbench_core::backend::launch::is_passed_on;
use mcp_workbench_core::telemetry::process_registry::{self, ProcessRecord};
use mcp_workbench_os::{ProcessHandle, read_input_text};

const START_TIMEOUT: Duration = Duration::from_secs(10);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Includes the time for running calls to finish.
const STOP_TIMEOUT: Duration = Duration::from_secs(20);
/// The poll interval for starting and stopping.
const PAUSE: Duration = Duration::from_millis(20);
/// Limits the output of a service manager. In bytes.
const MOST: u64 = 64 * 1024;

pub(crate) fn read(config: &Path) -> Result<Option<UserService>, CommandError> {
    let path = service::service_path(config);
    let broken = |why: String| {
        CommandError::usage(format!("cannot read `{}`", path.display()))
            .with_cause(&why)
            .with_hint("run `mcp-workbench setup --service` to recreate it")
    };
    match read_input_text(&path) {
        Ok(text) => UserService::parse(&text).map(Some).map_err(broken),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(broken(error.to_string())),
    }
}

/// Returns once the service accepts connections, after starting it if needed.
///
/// # Errors
///
/// Returns the reason if the service can't be reached.
pub(crate) async fn ensure_running(service: &UserService, config: &Path) -> Result<(), String> {
    if is_listening(service).await {
        return Ok(());
    }
    let (own, file) = (service.clone(), config.to_owned());
    let started = spawn_blocking(move || start(&own, &file)).await;
    started.map_err(|error| error.to_string())??;
    let until = Instant::now() + START_TIMEOUT;
    while !is_listening(service).await {
        if Instant::now() > until {
            let seconds = START_TIMEOUT.as_secs();
            return Err(format!("nothing listens on {} after {seconds} s", service.address));
        }
        // The system doesn't signal when another process starts to listen.
        sleep(PAUSE).await;
    }
    Ok(())
}

/// Returns the workbenches that serve at an address.
pub(crate) fn processes(
    global: &GlobalArgs,
    address: SocketAddr,
) -> io::Result<Vec<ProcessRecord>> {
    let cache =
        global.resolve_cache_dir().map_err(|error| io::Error::other(error.into_root_cause()))?;
    let own = ["http", "https"].map(|scheme| format!("{scheme}://{address}/"));
    let is_own = |at: &str| own.iter().any(|own| at.starts_with(own));
    let mut all = process_registry::read_processes(&cache)?;
    all.retain(|record| is_own(&record.at));
    Ok(all)
}

/// Sends a signal to each of these workbenches.
///
/// # Errors
///
/// Fails if a process has not proven to be the workbench of its record.
pub(crate) fn signal(
    all: &[ProcessRecord],
    send: impl Fn(&ProcessHandle) -> io::Result<()>,
) -> Result<(), String> {
    let signalled = crate::cli::runtime::block_on(async {
        for record in all {
            match record.process().await.and_then(|process| send(&process)) {
                // It has ended in the meantime.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                sent => sent?,
            }
        }
        io::Result::Ok(())
    });
    signalled.map_err(CommandError::into_root_cause)?.map_err(|error| error.to_string())
}

/// Terminates the processes that serve at an address, and waits until they have ended.
pub(crate) fn stop(global: &GlobalArgs, address: SocketAddr) -> Result<(), String> {
    let started = std::time::Instant::now();
    let all = || processes(global, address).map_err(|error| error.to_string());
    let running = all()?;
    signal(&running, ProcessHandle::terminate)?;
    while !all()?.is_empty() {
        if started.elapsed() > STOP_TIMEOUT {
            let seconds = STOP_TIMEOUT.as_secs();
            return Err(format!("the service at {address} did not stop within {seconds} s"));
        }
        // Only its file tells when a process that is not a child has ended.
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

pub(crate) async fn is_listening(service: &UserService) -> bool {
    matches!(timeout(CONNECT_TIMEOUT, TcpStream::connect(service.address)).await, Ok(Ok(_)))
}

/// Starts the service with its manager, or else as a detached process.
fn start(service: &UserService, config: &Path) -> Result<(), String> {
    let name = &service.name;
    let words: Vec<String> = match service.manager {
        ServiceManager::Systemd => words(&["systemctl", "--user", "start", name]),
        ServiceManager::Launchd => words(&["launchctl", "kickstart", name]),
        ServiceManager::TaskScheduler => words(&["schtasks", "/run", "/tn", name]),
        ServiceManager::Unmanaged => return spawn_detached(service, config),
    };
    // Without a login session, for example, the manager can't be reached.
    run_manager(&words).map(|_| ()).or_else(|why| {
        tracing::info!("starting the service without its service manager: {why}");
        spawn_detached(service, config)
    })
}

pub(crate) fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

pub(crate) fn run_manager(words: &[String]) -> Result<String, String> {
    let environment = ProcessEnv.vars();
    let folder = ProcessEnv.home_dir().unwrap_or_else(|| Path::new("/").to_owned());
    let command = CaptureCommand { words, folder: &folder, environment: &environment };
    let outcome = capture_all(&[command], MOST).pop();
    let outcome = outcome.ok_or_else(|| "no command was run".to_owned())?;
    outcome.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).map_err(|error| error.reason)
}

fn spawn_detached(service: &UserService, config: &Path) -> Result<(), String> {
    let words = service.command_line(config);
    // These variables belong to the client that runs this command; the service is shared.
    let own = ["WORKBENCH_AGENT", "WORKBENCH_LOG_FILE"];
    let environment: Vec<(OsString, OsString)> = ProcessEnv
        .vars()
        .into_iter()
        .filter(|(name, _)| !own.iter().any(|own| name == own))
        .collect();
    let folder = config.parent().unwrap_or(Path::new("/"));
    let command = CaptureCommand { words: &words, folder, environment: &environment };
    detach(&command).map(|_| ()).map_err(|error| error.reason)
}

/// Returns the variables that the configuration takes from this process's environment and that may
/// differ in the service. Excludes variables that every server gets and those in the secrets file.
pub(crate) fn client_variables(config: &Path, text: &str, env: &dyn EnvSource) -> Vec<String> {
    let secrets = mcp_workbench_config::secrets_env_path(config);
    let kept = read_input_text(&secrets).unwrap_or_default();
    let (kept, _) = mcp_workbench_config::parse_secrets_env(&secrets, &kept);
    let mut own: Vec<String> = mcp_workbench_config::variable_names(text)
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
    use std::fs;

    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn lists_variables_that_differ_between_client_and_service() {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("config.json");
        let text = r#"{"env": {"A": "${TOKEN}", "B": "${HOME}", "C": "${KEPT}", "D": "${UNSET:-x}", "E": "${TOKEN}"}}"#;
        fs::write(folder.path().join("config.secrets.env"), "KEPT=1\n").unwrap();
        let env: BTreeMap<String, String> =
            ["TOKEN", "HOME", "KEPT", "OTHER"].map(|name| (name.to_owned(), "x".to_owned())).into();
        assert_eq!(client_variables(&config, text, &env), ["TOKEN"]);
        assert_eq!(client_variables(&config, text, &BTreeMap::new()), [""; 0]);
    }
}
