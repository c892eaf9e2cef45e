//! Starts servers and records their listings, with different client capabilities and locales.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::Arc;

use serde_json::json;

use crate::app;
use crate::cli::access::locking::server_names::names;
use crate::cli::access::locking::{launch_record, package_record};
use crate::cli::args::GlobalArgs;
use crate::cli::gateways::{pool_options, without_policy};
use crate::cli::output::CommandError;
use crate::cli::runtime::block_on;
use crate::cli::servers::startup::{self, StartReport};
use mcp_workbench_config::LoadedConfig;
use mcp_workbench_config::env::{EnvSource, ProcessEnv};
use mcp_workbench_core::backend::{ChildEnvironment, PoolOptions};
use mcp_workbench_core::catalog::{Listing, ListingSamples};
use mcp_workbench_names::ServerRef;
use mcp_workbench_settings::{Config, DriftPolicy, Launch, LockedServer, Lockfile};
use mcp_workbench_wire::json::RawJson;

const LOCALE_VARS: [&str; 3] = ["TZ", "LANG", "LC_ALL"];
/// Fixed, so that locks don't depend on the machine.
const BASE_LOCALE: [&str; 3] = ["UTC", "C.UTF-8", "C.UTF-8"];
/// Differs in every variable, to find definitions that depend on them.
const ALTERNATE_LOCALE: [&str; 3] = ["Asia/Tokyo", "ja_JP.UTF-8", "ja_JP.UTF-8"];

pub(crate) struct ServerRecording {
    pub(crate) listing: Arc<Listing>,
    pub(crate) info: Option<RawJson>,
    pub(crate) launch: Arc<str>,
}

/// Listings by name in the lock, and the errors of servers that failed to start.
pub(crate) struct Recording {
    pub(crate) servers: BTreeMap<String, ServerRecording>,
    pub(crate) failed: BTreeMap<String, String>,
    pub(crate) disabled: Vec<String>,
}

pub(crate) struct LockRecording {
    pub(crate) servers: BTreeMap<String, LockedServer>,
    pub(crate) failed: BTreeMap<String, String>,
    pub(crate) disabled: Vec<String>,
    /// Definitions with duplicate JSON members, by server. They can't be locked.
    pub(crate) unclear: BTreeMap<String, Vec<String>>,
}

/// Lists all servers once, in the current environment and with all client capabilities.
pub(crate) fn record_current(
    global: &GlobalArgs,
    loaded: &LoadedConfig,
) -> Result<Recording, CommandError> {
    let launches = launch_record::launch_records(global, &loaded.config)?;
    let said = listings(global, &loaded.config, &full_capabilities(), None, &|_| true)?;
    Ok(all(said, &launches, loaded))
}

/// Records the wanted servers three times: without client capabilities, with all of them, and in
/// another locale. Package facts unknown on this machine are taken from `before`.
pub(crate) fn record_variants(
    global: &GlobalArgs,
    loaded: &LoadedConfig,
    before: &Lockfile,
    is_wanted: impl Fn(&str) -> bool,
) -> Result<LockRecording, CommandError> {
    let launches = launch_record::launch_records(global, &loaded.config)?;
    let run = |capabilities: &RawJson, place| {
        let said = listings(global, &loaded.config, capabilities, Some(place), &is_wanted)?;
        Ok::<_, CommandError>(all(said, &launches, loaded))
    };
    let least = run(&RawJson::encode(&json!({})), BASE_LOCALE)?;
    let full_here = run(&full_capabilities(), BASE_LOCALE)?;
    let elsewhere = run(&full_capabilities(), ALTERNATE_LOCALE)?;
    // After the starts, which may have downloaded packages.
    let packages = package_record::identify_packages(&loaded.config);
    let mut recorded = LockRecording {
        servers: BTreeMap::new(),
        failed: BTreeMap::new(),
        disabled: least.disabled.clone(),
        unclear: BTreeMap::new(),
    };
    for one in [&least, &full_here, &elsewhere] {
        recorded.failed.extend(one.failed.clone());
    }
    for (name, ServerRecording { listing, info, launch }) in &least.servers {
        let others = full_here.servers.get(name).zip(elsewhere.servers.get(name));
        let Some((full, elsewhere)) = others else { continue };
        let recordings = ListingSamples {
            minimal_client: listing,
            full_client: &full.listing,
            other_locale: &elsewhere.listing,
        };
        let (server, unclear) = recordings.to_locked_server();
        let info = info.as_ref().and_then(|info| info.canonical(usize::MAX));
        let info = info.and_then(|info| String::from_utf8(info).ok()).map(Arc::from);
        let before = before.servers.get(name).map(|server| &**server);
        let package = package_record::to_lock(before, launch, packages.get(name));
        let server = LockedServer { launch: Arc::clone(launch), package, info, ..server };
        recorded.servers.insert(name.clone(), server);
        if !unclear.is_empty() {
            recorded.unclear.insert(name.clone(), unclear);
        }
    }
    Ok(recorded)
}

/// All client capabilities that servers act on.
fn full_capabilities() -> RawJson {
    RawJson::encode(&json!({
        "sampling": {"tools": {}, "context": {}},
        "elicitation": {"form": {}, "url": {}},
        "roots": {"listChanged": true},
        "tasks": {
            "requests": {"sampling": {"createMessage": {}}, "elicitation": {"create": {}}},
            "list": {},
            "cancel": {},
        },
    }))
}

type ListingResult = Result<(Arc<Listing>, Option<RawJson>), String>;

fn all(
    said: BTreeMap<String, ListingResult>,
    launches: &BTreeMap<String, Arc<str>>,
    loaded: &LoadedConfig,
) -> Recording {
    let (mut servers, mut failed) = (BTreeMap::new(), BTreeMap::new());
    for (name, said) in said {
        match said {
            Ok((listing, info)) => {
                let launch = launches.get(&name).map_or_else(|| "{}".into(), Arc::clone);
                servers.insert(name, ServerRecording { listing, info, launch });
            }
            Err(why) => _ = failed.insert(name, why),
        }
    }
    let disabled = loaded.disabled.iter().map(|(_, server)| server.to_string());
    Recording { servers, failed, disabled: disabled.collect() }
}

/// Starts the wanted servers and lists each one. Servers with the same name in the lock start once.
/// The listings are not cached, because they include definitions that agents must not see.
fn listings(
    global: &GlobalArgs,
    config: &Config,
    capabilities: &RawJson,
    place: Option<[&str; 3]>,
    is_wanted: &dyn Fn(&str) -> bool,
) -> Result<BTreeMap<String, ListingResult>, CommandError> {
    let names = names(config);
    let mut first = BTreeMap::new();
    for (at, name) in &names {
        first.entry(name.clone()).or_insert_with(|| at.clone());
    }
    let is_first = |at: &ServerRef| {
        let name = names.iter().find(|(other, _)| other == at).map(|(_, name)| name);
        name.is_some_and(|name| is_wanted(name) && first.get(name) == Some(at))
    };
    let mut config = without_policy(config.clone());
    // Drift is ignored here.
    config.drift_policy = None;
    for server in config.toolboxes.iter_mut().flat_map(|toolbox| &mut toolbox.servers) {
        server.drift_policy = Some(DriftPolicy::Off);
        // Record the package that its manager runs today.
        if let Launch::Stdio(launch) = &mut server.launch {
            launch.starts_directly = false;
        }
    }
    let options = PoolOptions {
        environment: Arc::new(ChildEnvironment::new(environment(place))),
        store: None,
        ..pool_options(Some(global))
    };
    let mut said = BTreeMap::new();
    let hear = async |gateway: &mcp_workbench_core::gateway::Gateway| {
        let toolboxes: Vec<_> = gateway.config().toolboxes.iter().collect();
        let look = |start: &StartReport| {
            let at = ServerRef { toolbox: start.toolbox.clone(), server: start.server.clone() };
            let Some((_, name)) = names.iter().find(|(other, _)| *other == at) else { return };
            let heard = match &start.failure {
                Some(failure) => Err(failure.reason.clone()),
                None => gateway
                    .servers()
                    .full_listing(&at)
                    .map(|listing| (listing, gateway.servers().server_info(&at)))
                    .ok_or_else(|| "it exited before its definitions were listed".to_owned()),
            };
            said.insert(name.clone(), heard);
        };
        startup::start_servers_with(gateway, &toolboxes, is_first, look).await;
    };
    let caller = mcp_workbench_core::gateway::Caller::ANONYMOUS;
    let work = app::with_gateway_for_client(config, options, (&caller, Some(capabilities)), hear);
    block_on(work)?.map_err(CommandError::internal)?;
    Ok(said)
}

fn environment(place: Option<[&str; 3]>) -> Vec<(OsString, OsString)> {
    let mut all = ProcessEnv.vars();
    if let Some(place) = place {
        all.retain(|(name, _)| !LOCALE_VARS.iter().any(|own| name == own) && name != "LANGUAGE");
        all.extend(LOCALE_VARS.iter().zip(place).map(|(name, value)| (name.into(), value.into())));
    }
    all
}
