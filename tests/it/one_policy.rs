//! One policy on every surface: what an agent receives from a catalog with forbidden servers and tools
//! in it is, byte for byte, what it receives from the same catalog without them.
//!
//! Random worlds with random rules are served in this process, in every mode and both eras, to an
//! agent that tries everything; then the same is done with what an independent transcription of the
//! rules leaves of that world, and no rules.

mod agent;
mod comparing;
mod executable;
mod oracle;
mod probes;
mod servers;
mod talk;
mod world;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::net::SocketAddr;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use serde_json::{Value, json};

use crate::one_policy::agent::{Asker, Heard, checked, heard};
use crate::one_policy::comparing::{check_words, differences};
use crate::one_policy::oracle::without_the_forbidden;
use crate::one_policy::probes::{LISTS, Probe, probe};
use crate::one_policy::servers::Servers;
use crate::one_policy::world::{Policy, World, world};

/// How often two worlds are compared before they count as different.
const TRIES: usize = 4;

const MODES: [&str; 8] =
    ["dynamic", "proxy", "auto", "activate", "modular", "direct", "search", "navigate"];

/// How an agent is served, and what it tries.
#[derive(Clone, Debug)]
struct Attempt {
    mode: &'static str,
    /// `true` if `search_tools` is offered in the modes that do not have it.
    is_searched: bool,
    /// How `execute_task` looks for a tool.
    strategy: &'static str,
    /// `true` if servers say things that nobody has asked.
    is_talkative: bool,
    asker: Asker,
    probes: Vec<Probe>,
}

fn attempt() -> impl Strategy<Value = Attempt> {
    let names = select(vec![Some("ann"), Some("ann"), Some("bob"), Some("nobody"), None]);
    let clients = select(vec!["claude-code", "codex-mcp-client", "test"]);
    let toolboxes = option::weighted(0.15, select(vec!["desk", "lab", "solo", "one"]));
    let asker = (names, any::<bool>(), clients, toolboxes, prop::bool::weighted(0.7));
    let asker = asker.prop_map(|(name, is_modern, client, toolbox, is_curious)| Asker {
        name: name.map(str::to_owned),
        is_modern,
        client: client.to_owned(),
        toolbox: toolbox.map(str::to_owned),
        is_curious,
    });
    let strategies = select(vec!["hierarchy", "retrieve"]);
    let served = (select(MODES.to_vec()), any::<bool>(), strategies, prop::bool::weighted(0.8));
    let parts = (served, asker, vec(probe(), 0..24));
    parts.prop_map(|((mode, is_searched, strategy, is_talkative), asker, probes)| Attempt {
        mode,
        is_searched,
        strategy,
        is_talkative,
        asker,
        probes,
    })
}

impl Attempt {
    /// Every request, about everything that is in this world.
    fn requests(&self, world: &World) -> Vec<(String, Value)> {
        let lists = || LISTS.iter().map(|method| ((*method).to_owned(), json!({})));
        let probes = self.probes.iter().map(|probe| probe.request(world));
        lists().chain(probes).chain(lists()).collect()
    }
}

/// Serves a world and tells what the agent receives, and which servers were asked anything.
fn served(
    servers: &Servers,
    address: SocketAddr,
    world: &World,
    attempt: &Attempt,
    requests: &[(String, Value)],
) -> Result<(Heard, BTreeSet<String>), TestCaseError> {
    servers.serve(world, attempt.is_talkative);
    let mut config = world.config(attempt.mode, &address.to_string());
    config["search"] = attempt.is_searched.into();
    config["navigator"] = json!({"strategy": attempt.strategy});
    let config = checked(&config);
    // Such as one that gives two tools the same name.
    let config = config.ok_or_else(|| TestCaseError::reject("no good configuration"))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let heard = runtime.expect("a runtime").block_on(heard(config, &attempt.asker, requests));
    Ok((heard, servers.asked()))
}

/// Compares what an agent is told of a world with what it is told of what is left of it.
///
/// How far a toolbox has got that opens behind a call is a matter of time, on a busy machine in
/// either world. What tells of the forbidden differs each time.
fn compare(
    servers: &Servers,
    address: SocketAddr,
    (world, left): (&World, &World),
    attempt: &Attempt,
) -> Result<(), TestCaseError> {
    let mut compared = Ok(());
    for _ in 0..TRIES {
        compared = compare_once(servers, address, (world, left), attempt);
        if compared.is_ok() {
            break;
        }
    }
    compared
}

fn compare_once(
    servers: &Servers,
    address: SocketAddr,
    (world, left): (&World, &World),
    attempt: &Attempt,
) -> Result<(), TestCaseError> {
    let requests = attempt.requests(world);
    let (with, asked) = served(servers, address, world, attempt, &requests)?;
    check_words(&with, world, left)?;
    let (without, also_asked) = served(servers, address, left, attempt, &requests)?;
    differences(&with, &without, &requests)?;
    prop_assert_eq!(asked, also_asked, "what is forbidden is not started");
    Ok(())
}

fn run(cases: u32, worlds: impl Strategy<Value = World>) {
    let (servers, address) = Servers::start();
    let mut runner =
        TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let telling = Cell::new(0);
    let outcome = runner.run(&(worlds, attempt()), |(world, attempt)| {
        let left = without_the_forbidden(&world, attempt.asker.name.as_deref());
        telling.set(telling.get() + u32::from(left.names() != world.names()));
        compare(&servers, address, (&world, &left), &attempt)
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
    assert!(telling.get() > cases / 5, "only in {} worlds something was forbidden", telling.get());
}

#[test]
fn what_is_forbidden_is_as_if_it_were_not_there() {
    run(140, world());
}

#[test]
fn what_filters_leave_out_is_as_if_it_were_not_there() {
    run(40, world().prop_map(|world| World { policy: Policy::default(), ..world }));
}
