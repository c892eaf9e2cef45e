use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use super::*;
use crate::catalog::{Definition, ToolDefinition};
use crate::config;
use crate::name::AgentName;
use crate::policy::{Moment, Policies};

fn policies(file: &serde_json::Value) -> Policies {
    let env = BTreeMap::<String, String>::new();
    let file = config::parse(&file.to_string(), Path::new("x.json"), Path::new("/"), &env);
    Policies::new(Arc::new(file.unwrap().config))
}

fn listing(tools: &[&str]) -> Arc<Listing> {
    let tools = tools.iter().map(|name| Raw::encode(&json!({"name": name, "inputSchema": {}})));
    Arc::new(Listing { tools: ToolDefinition::read_all(tools).0, ..Listing::default() })
}

#[test]
fn the_view_of_a_toolbox_with_macros_is_made_anew_when_it_has_changed() {
    let steps = json!({"a": {"tool": "one:a"}, "b": {"tool": "two:b"}});
    let policies = policies(&json!({
        "mcpServers": {"one": {"command": "x"}, "two": {"command": "x"}},
        "macros": {"both": {"description": "d", "toolbox": "one", "steps": steps}},
    }));
    let (one, two) = (BackendId::numbered(1), BackendId::numbered(2));
    let place = |toolbox: &str, server: &str| Place {
        toolbox: ToolboxName::new(toolbox),
        server: ServerName::new(server),
    };
    let sources = [
        (place("one", "one"), one),
        (place("two", "two"), two),
        (place("one", "macros"), BackendId::NONE),
    ];
    let mut writer = Writer::new(
        policies.seen_by(None, None),
        policies.of(None),
        Clock::default(),
        HashMap::from_iter(sources),
        false,
    );
    let mut lists = |last: &Snapshot, backend: BackendId, tools: &[&str]| {
        writer.knows(backend, Listed { version: 1, listing: listing(tools) });
        writer.next(last, &HashSet::from([backend]))
    };
    let view = |snapshot: &Snapshot| snapshot.view(&ToolboxName::new("one"));
    let has_it = |snapshot: &Snapshot| view(snapshot).tool("macros", "both").is_some();

    let unlisted = lists(&Snapshot::nothing(true), one, &["a"]);
    assert!(has_it(&unlisted), "nobody knows yet that there is no such tool");
    let listed = lists(&unlisted, two, &["b", "c"]);
    assert!(has_it(&listed) && Arc::ptr_eq(&view(&unlisted), &view(&listed)));
    let gone = lists(&listed, two, &["c"]);
    assert!(!has_it(&gone));
    let said: Vec<_> = gone.lacking().iter().map(ToString::to_string).collect();
    assert_eq!(said, ["macro `both` of `one` is not shown: there is no tool `two/two/b`"]);
    let back = lists(&gone, two, &["b"]);
    assert!(has_it(&back) && back.lacking().is_empty());
    let renewed = lists(&back, one, &["a", "d"]);
    assert!(has_it(&renewed) && view(&renewed).tool("one", "d").is_some());
}

#[tokio::test(start_paused = true)]
async fn a_tool_comes_and_goes_with_its_hours() {
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
    let place = Place { toolbox: toolbox.clone(), server };
    let id = BackendId::numbered(7);
    let noon = Moment::new(12 * 60 * 60);
    let mut writer = Writer::new(
        policies.seen_by(Some(&agent), None),
        policies.of(Some(&agent)),
        Clock::Runtime(noon, Instant::now()),
        HashMap::from_iter([(place, id)]),
        false,
    );
    writer.knows(id, Listed { version: 3, listing: listing(&["get", "deploy"]) });
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
            snapshot.view(&toolbox).tools.iter().map(|tool| tool.id.tool.clone()).collect();
        let hours = began.elapsed().as_secs() / 3600;
        assert_eq!(snapshot.resolve("github__github__deploy").is_some(), tools.len() == 2);
        seen.push((hours, tools.join(" ")));
        assert!(began.elapsed() < Duration::from_secs(hours * 3600 + 2), "at once");
    }
    let wanted = [(0, "get"), (10, "get deploy"), (18, "get")];
    assert_eq!(seen, wanted.map(|(hours, tools)| (hours, tools.to_owned())));
}
