//! Starting servers to hear what they say, under different circumstances.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::Arc;

use serde_json::json;

use crate::app;
use crate::backend::{ChildEnvironment, PoolOptions};
use crate::catalog::{Listing, Recordings};
use crate::cli::error::Error;
use crate::cli::lock::names::names;
use crate::cli::lock::{launch, package};
use crate::cli::servers::{self, Start};
use crate::cli::{Global, block_on, pool_options, without_rules};
use crate::config::Loaded;
use crate::config::env::{EnvSource, ProcessEnv};
use crate::name::ServerRef;
use crate::raw::Raw;
use crate::settings::{Config, Definitions, Lock, LockedServer};

/// The variables that say where and in which language a server runs.
const PLACE: [&str; 3] = ["TZ", "LANG", "LC_ALL"];
/// Where servers are recorded, wherever this is.
const HERE: [&str; 3] = ["UTC", "C.UTF-8", "C.UTF-8"];
/// Where they are recorded again.
const ELSEWHERE: [&str; 3] = ["Asia/Tokyo", "ja_JP.UTF-8", "ja_JP.UTF-8"];

/// The words of one server.
pub(super) struct Listed {
    pub(super) listing: Arc<Listing>,
    pub(super) info: Option<Raw>,
    pub(super) launch: Arc<str>,
}

/// The words of all servers, by their names in the lock; of those that could not be started, why not.
pub(super) struct All {
    pub(super) servers: BTreeMap<String, Listed>,
    pub(super) failed: BTreeMap<String, String>,
    /// The servers that are switched off.
    pub(super) disabled: Vec<String>,
}

/// Everything that is to be locked.
pub(super) struct Recorded {
    pub(super) servers: BTreeMap<String, LockedServer>,
    pub(super) failed: BTreeMap<String, String>,
    pub(super) disabled: Vec<String>,
    /// The definitions that cannot be locked, by server.
    pub(super) unclear: BTreeMap<String, Vec<String>>,
}

/// Hears what all servers say here and now, to a client that can do everything.
pub(super) fn listed(global: &Global, loaded: &Loaded) -> Result<All, Error> {
    let launches = launch::all(global, &loaded.config)?;
    let said = listings(global, &loaded.config, &full(), None, &|_| true)?;
    Ok(all(said, &launches, loaded))
}

/// Hears what those servers say for which `is_wanted` holds, whatever the circumstances. What is not known
/// here of their packages is as it was `before`.
pub(super) fn recorded(
    global: &Global,
    loaded: &Loaded,
    before: &Lock,
    is_wanted: impl Fn(&str) -> bool,
) -> Result<Recorded, Error> {
    let launches = launch::all(global, &loaded.config)?;
    let run = |capabilities: &Raw, place| {
        let said = listings(global, &loaded.config, capabilities, Some(place), &is_wanted)?;
        Ok::<_, Error>(all(said, &launches, loaded))
    };
    let least = run(&Raw::encode(&json!({})), HERE)?;
    let full_here = run(&full(), HERE)?;
    let elsewhere = run(&full(), ELSEWHERE)?;
    // What a launch fetches is there once it has been started.
    let packages = package::all(&loaded.config);
    let mut recorded = Recorded {
        servers: BTreeMap::new(),
        failed: BTreeMap::new(),
        disabled: least.disabled.clone(),
        unclear: BTreeMap::new(),
    };
    for one in [&least, &full_here, &elsewhere] {
        recorded.failed.extend(one.failed.clone());
    }
    for (name, Listed { listing, info, launch }) in &least.servers {
        let others = full_here.servers.get(name).zip(elsewhere.servers.get(name));
        let Some((full, elsewhere)) = others else { continue };
        let recordings =
            Recordings { least: listing, full: &full.listing, elsewhere: &elsewhere.listing };
        let (server, unclear) = recordings.locked();
        let info = info.as_ref().and_then(|info| info.canonical(usize::MAX));
        let info = info.and_then(|info| String::from_utf8(info).ok()).map(Arc::from);
        let before = before.servers.get(name).map(|server| &**server);
        let package = package::to_lock(before, launch, packages.get(name));
        let server = LockedServer { launch: Arc::clone(launch), package, info, ..server };
        recorded.servers.insert(name.clone(), server);
        if !unclear.is_empty() {
            recorded.unclear.insert(name.clone(), unclear);
        }
    }
    Ok(recorded)
}

/// The words of a client that can do everything that servers act on.
fn full() -> Raw {
    Raw::encode(&json!({
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

/// The end of one start: the listing and the name of a server, or why there is none.
type Said = Result<(Arc<Listing>, Option<Raw>), String>;

fn all(
    said: BTreeMap<String, Said>,
    launches: &BTreeMap<String, Arc<str>>,
    loaded: &Loaded,
) -> All {
    let (mut servers, mut failed) = (BTreeMap::new(), BTreeMap::new());
    for (name, said) in said {
        match said {
            Ok((listing, info)) => {
                let launch = launches.get(&name).map_or_else(|| "{}".into(), Arc::clone);
                servers.insert(name, Listed { listing, info, launch });
            }
            Err(why) => _ = failed.insert(name, why),
        }
    }
    let disabled = loaded.disabled.iter().map(|(_, server)| server.to_string());
    All { servers, failed, disabled: disabled.collect() }
}

/// Starts the servers, and hears each out. Nothing is kept of it: what agents are told is of theirs.
fn listings(
    global: &Global,
    config: &Config,
    capabilities: &Raw,
    place: Option<[&str; 3]>,
    is_wanted: &dyn Fn(&str) -> bool,
) -> Result<BTreeMap<String, Said>, Error> {
    let names = names(config);
    let mut first = BTreeMap::new();
    for (at, name) in &names {
        first.entry(name.clone()).or_insert_with(|| at.clone());
    }
    let is_first = |at: &ServerRef| {
        let name = names.iter().find(|(other, _)| other == at).map(|(_, name)| name);
        name.is_some_and(|name| is_wanted(name) && first.get(name) == Some(at))
    };
    let mut config = without_rules(config.clone());
    // Everything is heard.
    config.definitions = None;
    for server in config.toolboxes.iter_mut().flat_map(|toolbox| &mut toolbox.servers) {
        server.definitions = Some(Definitions::Off);
    }
    let options = PoolOptions {
        environment: Arc::new(ChildEnvironment::new(environment(place))),
        store: None,
        ..pool_options(Some(global))
    };
    let mut said = BTreeMap::new();
    let hear = async |gateway: &crate::gateway::Gateway| {
        let toolboxes: Vec<_> = gateway.config().toolboxes.iter().collect();
        let look = |start: &Start| {
            let at = ServerRef { toolbox: start.toolbox.clone(), server: start.server.clone() };
            let Some((_, name)) = names.iter().find(|(other, _)| *other == at) else { return };
            let heard = match &start.failure {
                Some(failure) => Err(failure.reason.clone()),
                None => gateway
                    .listing(&at)
                    .map(|listing| (listing, gateway.server_info(&at)))
                    .ok_or_else(|| "it ended before it was heard".to_owned()),
            };
            said.insert(name.clone(), heard);
        };
        servers::start_each(gateway, &toolboxes, is_first, look).await;
    };
    let caller = crate::gateway::Caller::NOBODY;
    let work = app::with_gateway_of(config, options, (&caller, Some(capabilities)), hear);
    block_on(work)?.map_err(Error::internal)?;
    Ok(said)
}

fn environment(place: Option<[&str; 3]>) -> Vec<(OsString, OsString)> {
    let mut all = ProcessEnv.vars();
    if let Some(place) = place {
        all.retain(|(name, _)| !PLACE.iter().any(|own| name == own) && name != "LANGUAGE");
        all.extend(PLACE.iter().zip(place).map(|(name, value)| (name.into(), value.into())));
    }
    all
}
