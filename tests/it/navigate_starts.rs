//! Servers that `execute_task` starts, and confirmations across restarts.

use std::fs;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::{Agent, TestEnvironment, fake};

fn bench(strategy: &str) -> TestEnvironment {
    let navigator = json!({ "strategy": strategy });
    TestEnvironment::new().set("toolMode", json!("navigate")).set("navigator", navigator)
}

fn execute(agent: &Agent, task: &str) -> Value {
    agent.call_to_completion("execute_task", json!({ "task": task })).structured()
}

#[test]
fn failed_tool_starts_no_server_for_suggestions() {
    let bench = bench("hierarchy");
    let chat = json!({
        "tools": ["archive", "rename"],
        "behavior": {"archive": {"tool_error": {"text": "there is no such channel"}}},
    });
    let other = json!({"tools": ["archive"], "pidFile": bench.path_text("started")});
    let bench = bench
        .toolbox("chat", "Channels and their messages")
        .server("chat", "slack", fake(chat))
        .toolbox("files", "Files of this project")
        .server("files", "disk", fake(other));
    let agent = bench.agent().begin(false, json!({}));
    let task = json!({"task": "archive one of the channels", "tool": "slack.archive"});
    let failed = agent.call_to_completion("execute_task", task).structured();
    assert_eq!(failed["tool_used"], "slack.archive", "{failed}");
    assert_eq!(failed["error"]["type"], "tool_execution_error");
    assert!(!bench.path("started").exists(), "{failed}");
}

#[test]
fn selects_a_server_by_its_configured_description() {
    let described = |description: &str| {
        let mut server = fake(json!({"tools": ["run"]}));
        server["description"] = description.into();
        server
    };
    let bench = bench("hierarchy").server("pets", "one", described("Walks of dogs")).server(
        "pets",
        "two",
        described("Meals of cats"),
    );
    for (task, server) in [("walk the dogs", "one"), ("cook for cats", "two")] {
        let run = bench.run(["task", "--dry-run", task]);
        assert!(run.stderr.contains(&format!("service: {server} (by ranker)")), "{run}");
    }
}

#[test]
fn restarting_the_server_does_not_repeat_the_confirmation() {
    let bench = bench("retrieve");
    let counter = "counter";
    // The fake fails its first two starts. Each line counts as a start, so this one succeeds.
    bench.write(counter, "started\nstarted\n");
    let wipe = json!({
        "name": "wipe",
        "description": "Wipes the disk.",
        "inputSchema": {"type": "object"},
    });
    let script = json!({
        "tools": ["crash", wipe],
        "behavior": {"crash": {"crash": {}}, "wipe": "echo"},
        "failTimes": {"n": 2, "counterFile": bench.path_text(counter)},
        "requestFile": bench.path_text("requests"),
    });
    let bench =
        bench.server("disk", "disk", fake(script)).set("dangerousTools", json!(["disk:wipe"]));
    let agent = bench
        .agent()
        .with_reply("elicitation/create", json!({"action": "accept", "content": {}}))
        .begin(false, json!({"elicitation": {}}));
    assert!(agent.use_tool(["disk", "disk", "crash"], json!({})).is_tool_error());
    bench.write(counter, "");
    let done = execute(&agent, "wipe the disk");
    assert_eq!(done["success"], true, "{done}");
    let starts = fs::read_to_string(bench.path(counter)).expect("starts").lines().count();
    let transcript = agent.transcript();
    let asked = transcript.iter().filter(|line| line.contains("elicitation/create")).count();
    assert_eq!((starts, asked), (3, 2), "starts, confirmations");
    let requests = fs::read_to_string(bench.path("requests")).expect("requests");
    let calls = requests.lines().filter(|method| *method == "tools/call").count();
    assert_eq!(calls, 2, "the crash and the confirmed call");
}
