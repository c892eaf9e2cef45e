use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use super::*;
use crate::backend::ClientCapabilities;
use crate::catalog::{Definition, ToolDefinition};
use crate::gateway::caller::Caller;
use crate::gateway::clock::Clock;
use crate::gateway::interner::Interner;
use crate::policy::{Policies, UnixTime};
use mcp_workbench_names::AgentName;
use mcp_workbench_wire::json::RawJson;

fn policies(file: &serde_json::Value) -> Policies {
    let env = BTreeMap::<String, String>::new();
    let file =
        mcp_workbench_config::parse(&file.to_string(), Path::new("x.json"), Path::new("/"), &env);
    Policies::new(Arc::new(file.unwrap().config))
}

fn terms(policies: &Policies, agent: Option<&AgentName>) -> Arc<GatewayScope> {
    Arc::new(terms_with(policies, agent, Arc::default(), Clock::default()))
}

fn terms_with(
    policies: &Policies,
    agent: Option<&AgentName>,
    interner: Arc<Interner>,
    clock: Clock,
) -> GatewayScope {
    GatewayScope {
        caller: Caller { agent: agent.cloned(), ..Caller::ANONYMOUS },
        config: policies.visible_config(agent, None),
        policy: policies.for_agent(agent),
        interner,
        clock,
        capabilities: ClientCapabilities::NONE,
        is_namespaced: false,
    }
}

fn listing(tools: &[&str]) -> Arc<Listing> {
    let tools = tools.iter().map(|name| RawJson::encode(&json!({"name": name, "inputSchema": {}})));
    Arc::new(Listing { tools: ToolDefinition::read_all(tools).0, ..Listing::default() })
}

#[test]
fn macros_follow_the_availability_of_their_tools() {
    let steps = json!({"a": {"tool": "one:a"}, "b": {"tool": "two:b"}});
    let policies = policies(&json!({
        "mcpServers": {"one": {"command": "x"}, "two": {"command": "x"}},
        "macros": {"both": {"description": "d", "toolbox": "one", "steps": steps}},
    }));
    let (one, two) = (BackendId::numbered(1), BackendId::numbered(2));
    let server_ref = |toolbox: &str, server: &str| ServerRef {
        toolbox: ToolboxName::new(toolbox),
        server: ServerName::new(server),
    };
    let sources = [
        (server_ref("one", "one"), one),
        (server_ref("two", "two"), two),
        (server_ref("one", "macros"), BackendId::NONE),
    ];
    let mut writer = SnapshotWriter::new(&terms(&policies, None), HashMap::from_iter(sources));
    let mut lists = |last: &Snapshot, backend: BackendId, tools: &[&str]| {
        writer.seed(backend, VersionedListing { version: 1, listing: listing(tools) });
        writer.rebuild_changed(last, &HashSet::from([backend]))
    };
    let view = |snapshot: &Snapshot| snapshot.view(&ToolboxName::new("one"));
    let has_it = |snapshot: &Snapshot| view(snapshot).tool("macros", "both").is_some();

    let unlisted = lists(&Snapshot::nothing(true), one, &["a"]);
    assert!(has_it(&unlisted), "a tool of an unlisted server is not missing yet");
    let listed = lists(&unlisted, two, &["b", "c"]);
    assert!(has_it(&listed) && Arc::ptr_eq(&view(&unlisted), &view(&listed)));
    let gone = lists(&listed, two, &["c"]);
    assert!(!has_it(&gone));
    let said: Vec<_> = gone.unavailable_macros().iter().map(ToString::to_string).collect();
    assert_eq!(said, ["macro `both` of `one` is hidden: there is no tool `two/two/b`"]);
    let back = lists(&gone, two, &["b"]);
    assert!(has_it(&back) && back.unavailable_macros().is_empty());
    let renewed = lists(&back, one, &["a", "d"]);
    assert!(has_it(&renewed) && view(&renewed).tool("one", "d").is_some());
}

/// A toolbox with two servers; `ann` and `bob` may see the same tools, `eve` fewer.
fn two_servers() -> (Policies, HashMap<ServerRef, BackendId>, [BackendId; 2]) {
    let policies = policies(&json!({
        "toolboxes": {"box": {"description": "d", "mcpServers": {
            "one": {"command": "x"}, "two": {"command": "y"},
        }}},
        "agentPolicies": {
            "all": {"toolOverrides": {"one": ["*"], "two": ["*"]}},
            "ann": {"extends": "all"},
            "bob": {"extends": "all"},
            "eve": {"toolOverrides": {"one": ["*"], "two": ["b"]}},
        },
    }));
    let server_ref = |server: &str| ServerRef {
        toolbox: ToolboxName::new("box"),
        server: ServerName::new(server),
    };
    let ids = [BackendId::numbered(1), BackendId::numbered(2)];
    let sources = [(server_ref("one"), ids[0]), (server_ref("two"), ids[1])];
    (policies, HashMap::from_iter(sources), ids)
}

fn listed(version: u64, listing: &Arc<Listing>) -> VersionedListing {
    VersionedListing { version, listing: Arc::clone(listing) }
}

// invariant: views-built-once
#[test]
fn new_listing_rebuilds_only_the_view_of_its_server() {
    let (policies, sources, [one, two]) = two_servers();
    let mut writer = SnapshotWriter::new(&terms(&policies, Some(&AgentName::new("ann"))), sources);
    let mut comes = |last: &Snapshot, backend, version, tools: &[&str]| {
        let change = ChangeKind::Listed(listed(version, &listing(tools)));
        writer.apply(last, [BackendChange { backend, change }].into_iter()).unwrap()
    };
    let part = |snapshot: &Snapshot, server: &str| {
        let view = snapshot.view(&ToolboxName::new("box"));
        Arc::clone(view.part(server).unwrap())
    };
    let first = comes(&Snapshot::nothing(true), one, 1, &["a"]);
    let both = comes(&first, two, 1, &["b", "c"]);
    assert!(Arc::ptr_eq(&part(&first, "one"), &part(&both, "one")));
    let changed = comes(&both, two, 2, &["d"]);
    assert!(Arc::ptr_eq(&part(&both, "one"), &part(&changed, "one")));
    assert!(!Arc::ptr_eq(&part(&both, "two"), &part(&changed, "two")));
    let is_known = |snapshot: &Snapshot, name: &str| snapshot.resolve_registered(name).is_some();
    assert!(is_known(&both, "box__two__c") && !is_known(&changed, "box__two__c"));
    assert!(is_known(&changed, "box__one__a") && is_known(&changed, "box__two__d"));
    assert_eq!((changed.version(one), changed.version(two)), (1, 2));
}

// invariant: views-built-once
#[tokio::test]
async fn queued_changes_are_published_together() {
    let (policies, sources, [one, two]) = two_servers();
    let writer = SnapshotWriter::new(&terms(&policies, Some(&AgentName::new("ann"))), sources);
    let (changes, heard) = mpsc::channel(8);
    for (backend, version, tools) in [(one, 1, ["a"]), (two, 1, ["b"]), (one, 2, ["c"])] {
        let change = ChangeKind::Listed(listed(version, &listing(&tools)));
        changes.send(BackendChange { backend, change }).await.unwrap();
    }
    let died = BackendChange { backend: two, change: ChangeKind::Crashed };
    changes.send(died).await.unwrap();
    drop(changes);
    let (publish, mut snapshots) = watch::channel(Arc::new(Snapshot::nothing(false)));
    let mut seen = Vec::new();
    let watching = async {
        while snapshots.changed().await.is_ok() {
            let snapshot = snapshots.borrow_and_update().clone();
            seen.push((snapshot.version(one), snapshot.version(two)));
            let two =
                ServerRef { toolbox: ToolboxName::new("box"), server: ServerName::new("two") };
            assert_eq!(snapshot.has_crashed(&two), snapshot.version(one) == 2);
        }
    };
    let nothing = std::future::ready(HashMap::default());
    tokio::join!(writer.run(nothing, heard, publish), watching);
    assert_eq!(seen.last(), Some(&(2, 1)));
    assert!(!seen.contains(&(1, 0)) && !seen.contains(&(1, 1)), "{seen:?}");
}

// invariant: views-built-once
#[test]
fn agents_with_equal_views_share_them() {
    let (policies, sources, [one, two]) = two_servers();
    let listings = [listing(&["a"]), listing(&["b", "c"])];
    let world = Arc::default();
    let lens = |agent: &str| {
        let agent = AgentName::new(agent);
        let (world, clock) = (Arc::clone(&world), Clock::default());
        let scope = Arc::new(terms_with(&policies, Some(&agent), world, clock));
        let mut writer = SnapshotWriter::new(&scope, sources.clone());
        writer.seed(one, listed(1, &listings[0]));
        writer.seed(two, listed(1, &listings[1]));
        writer.rebuild_changed(&Snapshot::nothing(true), &HashSet::from([one, two])).lens
    };
    let [ann, bob, eve] = ["ann", "bob", "eve"].map(lens);
    assert!(Arc::ptr_eq(&ann, &bob));
    assert!(!Arc::ptr_eq(&ann, &eve));
    let part = |lens: &Arc<Lens>, server: &str| {
        Arc::clone(lens.views()[&ToolboxName::new("box")].part(server).unwrap())
    };
    assert!(Arc::ptr_eq(&part(&ann, "one"), &part(&eve, "one")));
    assert_eq!(part(&eve, "two").tools.len(), 1);
    assert!(eve.registered().resolve("box__two__c").is_none());
    assert!(ann.registered().resolve("box__two__c").is_some());
}

// invariant: access-changes-wait
#[tokio::test(start_paused = true)]
async fn tool_follows_its_time_window() {
    let file = json!({
        "mcpServers": {"github": {"command": "x"}},
        "agentPolicies": {"night": {
            "toolOverrides": {"github": ["get", "deploy"]},
            "when": {"tools": ["deploy"], "time": {"between": ["22:00", "06:00"]}},
        }},
    });
    let policies = policies(&file);
    let agent = AgentName::new("night");
    let (toolbox, server) = (ToolboxName::new("github"), ServerName::new("github"));
    let server_ref = ServerRef { toolbox: toolbox.clone(), server };
    let id = BackendId::numbered(7);
    let noon = UnixTime::new(12 * 60 * 60);
    let clock = Clock::Runtime(noon, Instant::now());
    let sources = HashMap::from_iter([(server_ref, id)]);
    let scope = Arc::new(terms_with(&policies, Some(&agent), Arc::default(), clock));
    let mut writer = SnapshotWriter::new(&scope, sources);
    writer.seed(id, VersionedListing { version: 3, listing: listing(&["get", "deploy"]) });
    let (_changes, heard) = mpsc::channel(1);
    let (publish, mut snapshots) = watch::channel(Arc::new(Snapshot::nothing(false)));
    let began = Instant::now();
    let tasks = tokio_util::task::TaskTracker::new();
    let nothing = std::future::ready(HashMap::default());
    tasks.spawn(writer.run(nothing, heard, publish));

    let mut seen = Vec::new();
    for _ in 0..3 {
        snapshots.changed().await.unwrap();
        let snapshot = snapshots.borrow_and_update().clone();
        assert_eq!(snapshot.version(id), 3);
        let tools: Vec<_> =
            snapshot.view(&toolbox).tools().map(|tool| tool.id.tool.clone()).collect();
        let hours = began.elapsed().as_secs() / 3600;
        assert_eq!(
            snapshot.resolve_registered("github__github__deploy").is_some(),
            tools.len() == 2
        );
        seen.push((hours, tools.join(" ")));
        assert!(began.elapsed() < Duration::from_secs(hours * 3600 + 2), "at once");
    }
    let wanted = [(0, "get"), (10, "get deploy"), (18, "get")];
    assert_eq!(seen, wanted.map(|(hours, tools)| (hours, tools.to_owned())));
}
