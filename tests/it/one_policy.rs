//! One policy on every surface: what an agent receives from a catalog with forbidden servers, tools,
//! resources and prompts in it is, byte for byte, what it receives from the same catalog without them.
//!
//! Random worlds with random rules are served in this process, in every mode and both eras, over a
//! stream or over HTTP, to an agent that tries everything, often while another one does the same; then
//! it is done alone with what an independent transcription of the rules leaves of that world, and no
//! rules but those about arguments. No call comes to a server that the transcription does not let through.

mod agent;
mod company;
mod comparing;
mod conditions;
mod executable;
mod lock;
mod oracle;
mod over_http;
mod probes;
mod servers;
mod talk;
mod workbench;
mod world;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use serde_json::{Value, json};

use crate::one_policy::agent::{Asker, Heard};
use crate::one_policy::company::{Company, Sharing, company, paths};
use crate::one_policy::comparing::{check_marks, check_words, differences};
use crate::one_policy::conditions::when;
use crate::one_policy::oracle::{Oracle, without_the_forbidden};
use crate::one_policy::probes::{LISTS, Probe, call, marked, probe};
use crate::one_policy::servers::{Called, Servers};
use crate::one_policy::workbench::{Beside, Doors, Visit, auth, checked, heard};
use crate::one_policy::world::{Agent, Policy, World, world};

/// How often two worlds are compared before they count as different.
const TRIES: usize = 4;

const MODES: [&str; 8] =
    ["dynamic", "proxy", "auto", "activate", "modular", "direct", "search", "navigate"];
/// Words in what each of two agents asks, which the other must not receive.
const MARKS: [&str; 2] = ["business-of-the-one", "business-of-the-other"];

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
    company: Option<Company>,
}

fn asker() -> impl Strategy<Value = Asker> + Clone {
    let names = select(vec![Some("ann"), Some("ann"), Some("bob"), Some("nobody"), None]);
    let clients = select(vec!["claude-code", "codex-mcp-client", "test"]);
    let toolboxes = option::weighted(0.15, select(vec!["desk", "lab", "solo", "one"]));
    let ways = (any::<bool>(), any::<bool>(), prop::bool::weighted(0.7));
    let asker = (names, clients, toolboxes, ways);
    asker.prop_map(|(name, client, toolbox, (is_modern, is_over_http, is_curious))| Asker {
        name: name.map(str::to_owned),
        is_modern,
        // Whom no rule knows is turned away there, and told so.
        is_over_http: is_over_http && name != Some("nobody"),
        client: client.to_owned(),
        toolbox: toolbox.map(str::to_owned),
        is_curious,
    })
}

fn attempt() -> impl Strategy<Value = Attempt> {
    let strategies = select(vec!["hierarchy", "retrieve"]);
    let served = (select(MODES.to_vec()), any::<bool>(), strategies, prop::bool::weighted(0.8));
    let parts = (served, asker(), vec(probe(), 0..24), company(asker()));
    parts.prop_map(|(served, asker, probes, company)| {
        let (mode, is_searched, strategy, is_talkative) = served;
        Attempt { mode, is_searched, strategy, is_talkative, asker, probes, company }
    })
}

impl Attempt {
    fn doors(&self) -> Doors {
        let company = self.company.as_ref().map(|company| &company.asker);
        let is_over_http =
            [Some(&self.asker), company].into_iter().flatten().any(|a| a.is_over_http);
        Doors { serves_many: is_over_http || company.is_some(), is_over_http }
    }
}

/// Every request of an agent, about everything that is in this world.
fn requests(world: &World, probes: &[Probe], mark: &str) -> Vec<(String, Value)> {
    let lists = || LISTS.iter().map(|method| ((*method).to_owned(), json!({})));
    let probes = probes.iter().map(|probe| marked(probe.request(world), mark));
    lists().chain(probes).chain(lists()).collect()
}

/// A world as it is served, and who comes.
struct Scene<'a> {
    world: &'a World,
    one: Visit<'a>,
    beside: Option<Beside<'a>>,
    /// `true` if all servers are running when the agents come.
    is_eager: bool,
}

/// Plays a scene, and tells what both agents receive, and which servers were asked anything.
fn played(
    servers: &Servers,
    address: SocketAddr,
    attempt: &Attempt,
    scene: &Scene<'_>,
) -> Result<([Heard; 2], BTreeSet<String>), TestCaseError> {
    let Scene { world, one, beside, is_eager } = scene;
    servers.serve(world, attempt.is_talkative);
    let mut config = world.config(attempt.mode, &address.to_string(), *is_eager);
    config["search"] = attempt.is_searched.into();
    config["navigator"] = json!({"strategy": attempt.strategy});
    let doors = attempt.doors();
    if doors.is_over_http {
        config["auth"] = auth();
    }
    let config = checked(&config);
    // Such as one that gives two tools the same name.
    let mut config = config.ok_or_else(|| TestCaseError::reject("no good configuration"))?;
    world.attach_lock(&mut config);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let heard = heard(config, doors, *one, *beside);
    let heard = runtime.expect("a runtime").block_on(heard);
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
        compared = compare_once(servers, address, (world, left), attempt)?;
        if compared.is_ok() {
            break;
        }
    }
    compared
}

/// Returns the difference, if there is one this time; fails where something was said that never
/// may be.
fn compare_once(
    servers: &Servers,
    address: SocketAddr,
    (world, left): (&World, &World),
    attempt: &Attempt,
) -> Result<Result<(), TestCaseError>, TestCaseError> {
    let Attempt { asker, probes, company, .. } = attempt;
    let other = company.as_ref().map(|company| &company.asker);
    let sharing = Sharing::of(world, asker, other);
    let own = requests(world, probes, MARKS[0]);
    let others = company.as_ref().map(|company| requests(world, &company.probes, MARKS[1]));
    let one = Visit { asker, requests: &own };
    let beside = company.as_ref().zip(others.as_deref()).map(|(company, requests)| {
        let visit = Visit { asker: &company.asker, requests };
        Beside { visit, is_first: company.is_first }
    });
    let is_eager = sharing != Sharing::Nothing;
    let scene = Scene { world, one, beside, is_eager };
    let (both, mut asked) = played(servers, address, attempt, &scene)?;
    let [with, second] = &both;
    check_words(with, world, left)?;
    if sharing != Sharing::Callers {
        check_marks(with, MARKS[1])?;
        check_marks(second, MARKS[0])?;
    }
    check_calls(world, [Some(asker), other], &servers.called())?;
    let scene = Scene { world: left, one, beside: None, is_eager };
    let ([without, _], also_asked) = played(servers, address, attempt, &scene)?;
    let compared = differences(with, &without, &own, sharing, world.judges_resources());
    let others = other.map(|other| paths(world, other)).unwrap_or_default();
    asked.retain(|path| !others.contains(path));
    if compared.is_ok() && !is_eager && asked != also_asked {
        let reason = format!("what is forbidden was started: {asked:?} and not {also_asked:?}");
        return Ok(Err(TestCaseError::fail(reason)));
    }
    Ok(compared)
}

/// Checks that every call that came to a server is one that the rules let through, with the arguments
/// that it came with. A step of a macro has no mark, and is known to be an agent's where it is alone.
fn check_calls(
    world: &World,
    [one, other]: [Option<&Asker>; 2],
    called: &[Called],
) -> Result<(), TestCaseError> {
    let is_marked = |call: &Called, mark: &str| call.arguments["mark"] == mark;
    for call in called {
        let asker = match () {
            () if is_marked(call, MARKS[0]) || other.is_none() => one,
            () if is_marked(call, MARKS[1]) => other,
            () => continue,
        };
        let oracle = Oracle::new(world, asker.and_then(|asker| asker.name.as_deref()));
        prop_assert!(oracle.lets(world, call), "{:?} of {:?}", call, asker);
    }
    Ok(())
}

fn run(cases: u32, scenes: impl Strategy<Value = (World, Attempt)>) {
    let (servers, address) = Servers::start();
    let mut runner =
        TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let telling = Cell::new(0);
    let outcome = runner.run(&scenes, |(world, attempt)| {
        let left = without_the_forbidden(&world, attempt.asker.name.as_deref());
        telling.set(telling.get() + u32::from(left.names() != world.names()));
        compare(&servers, address, (&world, &left), &attempt)
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
    assert!(telling.get() > cases / 5, "only in {} worlds something was forbidden", telling.get());
}

#[test]
fn what_is_forbidden_is_as_if_it_were_not_there() {
    run(80, (world(), attempt()));
}

#[test]
fn what_filters_leave_out_is_as_if_it_were_not_there() {
    let worlds = world().prop_map(|world| World { policy: Policy::default(), ..world });
    run(40, (worlds, attempt()));
}

/// Of an agent that may have everything but for conditions, and that calls and calls.
#[test]
fn what_conditions_do_not_let_through_comes_to_no_server() {
    let worlds = (world(), vec(when(), 1..4)).prop_map(|(world, when)| {
        let ann = Agent { when, ..Agent::default() };
        let agents = Some(BTreeMap::from([("ann".to_owned(), ann)]));
        World { policy: Policy { agents, allows_tools: Some(true), ..Policy::default() }, ..world }
    });
    let attempts = (attempt(), vec(call(), 8..20)).prop_map(|(attempt, probes)| {
        let asker = Asker { name: Some("ann".to_owned()), toolbox: None, ..attempt.asker };
        Attempt { asker, probes, ..attempt }
    });
    run(20, (worlds, attempts));
}
