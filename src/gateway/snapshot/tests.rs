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

#[tokio::test(start_paused = true)]
async fn a_tool_comes_and_goes_with_its_hours() {
    let file = json!({
        "mcpServers": {"github": {"command": "x"}},
        "agentPolicies": {"night": {
            "toolOverrides": {"github": ["get", "deploy"]},
            "when": {"tools": ["deploy"], "time": {"between": ["22:00", "06:00"]}},
        }},
    });
    let env = BTreeMap::<String, String>::new();
    let file = config::parse(&file.to_string(), Path::new("x.json"), Path::new("/"), &env);
    let policies = Policies::new(Arc::new(file.unwrap().config));
    let agent = AgentName::new("night");
    let (toolbox, server) = (ToolboxName::new("github"), ServerName::new("github"));
    let place = Place { toolbox: toolbox.clone(), server };
    let tools =
        ["get", "deploy"].map(|name| Raw::encode(&json!({"name": name, "inputSchema": {}})));
    let listing = Listing { tools: ToolDefinition::read_all(tools).0, ..Listing::default() };
    let id = BackendId::numbered(7);
    let noon = Moment::new(12 * 60 * 60);
    let mut writer = Writer::new(
        policies.seen_by(Some(&agent), None),
        policies.of(Some(&agent)),
        Clock::Runtime(noon, Instant::now()),
        HashMap::from_iter([(place, id)]),
        false,
    );
    writer.knows(id, Listed { version: 3, listing: Arc::new(listing) });
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
