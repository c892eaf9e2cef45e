//! One policy everywhere: removing forbidden servers, tools, resources and prompts from a catalog
//! doesn't change a byte of the messages that an agent receives.
//!
//! Random worlds with random rules are served in this process, in every mode and both eras, over a
//! stream or HTTP. The agent tries everything, often while a second agent does the same. The run is
//! then repeated without the second agent, in the world reduced by an independent implementation of
//! the rules, where only conditions on arguments remain. No call may reach a server unless that
//! implementation allows it.

mod agent;
mod comparing;
mod conditions;
mod executable;
mod lock;
mod notifications;
mod oracle;
mod over_http;
mod probes;
mod second_agent;
mod servers;
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

use crate::one_policy::agent::{AgentProfile, ReceivedMessages};
use crate::one_policy::comparing::{check_marks, check_words, differences};
use crate::one_policy::conditions::when;
use crate::one_policy::oracle::{Oracle, without_the_forbidden};
use crate::one_policy::probes::{LISTS, Probe, call, marked, probe};
use crate::one_policy::second_agent::{SecondAgent, Sharing, company, paths};
use crate::one_policy::servers::{ReceivedCall, Servers};
use crate::one_policy::workbench::{Beside, Doors, Visit, auth, checked, heard};
use crate::one_policy::world::{Agent, Policy, World, world};

/// Attempts before a difference counts. See [`compare`].
const TRIES: usize = 4;

const MODES: [&str; 8] =
    ["dynamic", "proxy", "auto", "activate", "modular", "direct", "search", "navigate"];
/// Marks in the requests of the two agents; neither may receive the other's.
const MARKS: [&str; 2] = ["business-of-the-one", "business-of-the-other"];

#[derive(Clone, Debug)]
struct Attempt {
    mode: &'static str,
    /// `true` to offer `search_tools` in modes without it.
    is_searched: bool,
    strategy: &'static str,
    /// `true` if servers send unsolicited notifications.
    is_talkative: bool,
    asker: AgentProfile,
    probes: Vec<Probe>,
    company: Option<SecondAgent>,
}

fn asker() -> impl Strategy<Value = AgentProfile> + Clone {
    let names = select(vec![Some("ann"), Some("ann"), Some("bob"), Some("nobody"), None]);
    let clients = select(vec!["claude-code", "codex-mcp-client", "test"]);
    let toolboxes = option::weighted(0.15, select(vec!["desk", "lab", "solo", "one"]));
    let ways = (any::<bool>(), any::<bool>(), prop::bool::weighted(0.7));
    let asker = (names, clients, toolboxes, ways);
    asker.prop_map(|(name, client, toolbox, (is_modern, is_over_http, is_curious))| AgentProfile {
        name: name.map(str::to_owned),
        is_modern,
        // Over HTTP, an agent that no rule names is rejected with an error that says so.
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

fn requests(world: &World, probes: &[Probe], mark: &str) -> Vec<(String, Value)> {
    let lists = || LISTS.iter().map(|method| ((*method).to_owned(), json!({})));
    let probes = probes.iter().map(|probe| marked(probe.request(world), mark));
    lists().chain(probes).chain(lists()).collect()
}

struct Scene<'a> {
    world: &'a World,
    one: Visit<'a>,
    beside: Option<Beside<'a>>,
    is_eager: bool,
}

/// Plays a scene. Returns the messages of both agents and the servers that got requests.
fn played(
    servers: &Servers,
    address: SocketAddr,
    attempt: &Attempt,
    scene: &Scene<'_>,
) -> Result<([ReceivedMessages; 2], BTreeSet<String>), TestCaseError> {
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
    // For example if two tools get the same name.
    let mut config = config.ok_or_else(|| TestCaseError::reject("invalid configuration"))?;
    world.attach_lock(&mut config);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let heard = heard(config, doors, *one, *beside);
    let heard = runtime.expect("a runtime").block_on(heard);
    Ok((heard, servers.asked()))
}

/// Compares an agent's messages in a world with those in the reduced world.
///
/// Timing can differ on a busy machine, for example how far a toolbox has opened behind a call. A
/// leak differs in every attempt.
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

/// Returns the difference of one attempt. Fails if a message leaked that is never allowed.
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

/// Checks that the rules allow every call that reached a server, with its arguments. Steps of
/// macros carry no mark, so they are checked only if there is a single agent.
fn check_calls(
    world: &World,
    [one, other]: [Option<&AgentProfile>; 2],
    called: &[ReceivedCall],
) -> Result<(), TestCaseError> {
    let is_marked = |call: &ReceivedCall, mark: &str| call.arguments["mark"] == mark;
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
    assert!(telling.get() > cases / 5, "rules denied something in only {} worlds", telling.get());
}

// invariant: forbidden-equals-missing
#[test]
fn forbidden_items_are_indistinguishable_from_missing_ones() {
    run(80, (world(), attempt()));
}

#[test]
fn filtered_items_are_indistinguishable_from_missing_ones() {
    let worlds = world().prop_map(|world| World { policy: Policy::default(), ..world });
    run(40, (worlds, attempt()));
}

/// The agent may use everything except for conditions, and makes many calls.
#[test]
fn calls_that_fail_conditions_reach_no_server() {
    let worlds = (world(), vec(when(), 1..4)).prop_map(|(world, when)| {
        let ann = Agent { when, ..Agent::default() };
        let agents = Some(BTreeMap::from([("ann".to_owned(), ann)]));
        World { policy: Policy { agents, allows_tools: Some(true), ..Policy::default() }, ..world }
    });
    let attempts = (attempt(), vec(call(), 8..20)).prop_map(|(attempt, probes)| {
        let asker = AgentProfile { name: Some("ann".to_owned()), toolbox: None, ..attempt.asker };
        Attempt { asker, probes, ..attempt }
    });
    run(20, (worlds, attempts));
}
