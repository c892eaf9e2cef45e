//! `dynamic` mode for agents of the older era.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::{Agent, TestEnvironment, fake};

fn bench() -> TestEnvironment {
    TestEnvironment::new()
        .toolbox("math", "Adding and echoing")
        .server("math", "calc", fake(json!({"tools": [
            {"name": "echo", "description": "Says it again. And again.", "inputSchema": {"type": "object"}, "later": {"x": 1.0}},
            {"name": "add", "description": "Adds", "inputSchema": {
                "type": "object",
                "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
                "required": ["a", "b"],
            }},
        ]})))
        .toolbox("other", "Something else")
        .server("other", "misc", fake(json!({"tools": ["echo", "count", "pid"]})))
}

fn initialized(bench: &TestEnvironment) -> Agent {
    let agent = bench.agent();
    agent.initialize();
    agent
}

fn text(result: &Value) -> String {
    result["content"][0]["text"].as_str().unwrap().to_owned()
}

fn open_json(agent: &Agent, toolbox: &str) -> Value {
    let result = agent.open(toolbox).ok();
    let inside: Value = serde_json::from_str(&text(&result)).unwrap();
    assert_eq!(inside, result["structuredContent"], "text and structured content differ");
    inside
}

#[test]
fn opening_a_toolbox_registers_its_tools() {
    let bench = bench();
    let agent = bench.agent().relisting_on_change();
    let hello = agent.initialize();
    let instructions = hello["instructions"].as_str().unwrap();
    assert!(
        instructions.starts_with(
            "Toolboxes: math (Adding and echoing), other (Something else). Call open_toolbox to use \
             one.\n"
        ),
        "{instructions}"
    );
    assert_eq!(hello["capabilities"]["tools"], json!({"listChanged": true}));
    assert_eq!(agent.tool_names(), ["open_toolbox"]);

    let opened = open_json(&agent, "math");
    assert_eq!(
        opened,
        json!({
            "toolbox": "math",
            "description": "Adding and echoing",
            "servers_connected": 1,
            "failed_servers": [],
            "tools_registered": 2,
            "tools": [
                {"name": "math__calc__echo", "description": "Says it again."},
                {"name": "math__calc__add", "description": "Adds"},
            ],
        })
    );
    assert_eq!(
        agent.wait_relists(1),
        ["open_toolbox", "math__calc__echo", "math__calc__add"],
        "the client got the new list before the response"
    );
    let result = agent.call("math__calc__echo", json!({"n": 1})).ok();
    assert_eq!(result["structuredContent"], json!({"n": 1}));
}

fn answer_waits_for_list(agent: &Agent, toolbox: &str) {
    let id = agent.send_call("open_toolbox", json!({"toolbox": toolbox}));
    agent.next_notification("notifications/tools/list_changed");
    // A response that doesn't wait would arrive before the one to the ping.
    agent.request("ping", json!({})).ok();
    assert!(agent.answered(&id).is_none(), "the response did not wait for the list");
    agent.tools();
    agent.wait(&id).ok();
}

// invariant: relisting-is-optional
#[test]
fn answer_waits_for_relisting_until_a_client_ignores_it() {
    let bench = bench().server("more", "misc", fake(json!({"tools": ["count"]})));
    answer_waits_for_list(&initialized(&bench), "math");

    // This client ignores the change, so a second opening doesn't wait for it.
    let agent = initialized(&bench);
    agent.open("math");
    agent.open("other");
    let given_up = "the client did not list its tools again";
    assert_eq!(agent.wait_stderr(given_up).matches(given_up).count(), 1);
    // The client was only slow. From now on, openings wait for it.
    agent.tools();
    for _ in ["math", "other"] {
        agent.next_notification("notifications/tools/list_changed");
    }
    answer_waits_for_list(&agent, "more");
}

#[test]
fn reopening_a_toolbox_sends_no_list_changed() {
    let bench = bench();
    let agent = bench.agent().relisting_on_change();
    agent.initialize();
    let first = open_json(&agent, "math");
    let second = open_json(&agent, "math");
    assert_eq!(first, second);
    let told = agent.notifications();
    assert_eq!(told.len(), 1, "{told:?}");
}

// invariant: bytes-unchanged
#[test]
fn definitions_are_served_unchanged() {
    let bench = bench();
    let agent = bench.agent().relisting_on_change();
    agent.initialize();
    agent.open("math");
    let list = agent.request("tools/list", json!({}));
    assert!(
        list.raw_result().contains(
            r#"{"name":"math__calc__echo","description":"Says it again. And again.","inputSchema":{"type":"object"},"later":{"x":1.0}}"#
        ),
        "{}",
        list.raw_result()
    );
}

#[test]
fn calling_a_tool_opens_its_toolbox() {
    let bench =
        bench().server("other", "slow", fake(json!({"tools": ["add"], "startDelayMs": 300})));
    let agent = bench.agent().relisting_on_change();
    agent.initialize();
    let result = agent.call("other__misc__echo", json!({"x": 1})).ok();
    assert_eq!(result["structuredContent"], json!({"x": 1}));
    let after_the_call = agent.wait_relists(1);
    assert!(after_the_call.contains(&"other__misc__pid".to_owned()));
    assert!(
        !after_the_call.contains(&"other__slow__add".to_owned()),
        "the call waited for a slow server"
    );
    assert!(agent.wait_relists(2).contains(&"other__slow__add".to_owned()));
}

#[test]
fn invalid_calls_are_explained() {
    let bench = bench();
    let agent = bench.agent().relisting_on_change();
    agent.initialize();
    let explained = |tool: &str, arguments: Value| {
        let result = agent.call(tool, arguments).ok();
        assert_eq!(result["isError"], true);
        text(&result)
    };
    insta::assert_snapshot!(explained("open_toolbox", json!({"toolbox": "maths"})));
    insta::assert_snapshot!(explained("open_toolbox", json!({"box": 1})));
    agent.open("math");
    insta::assert_snapshot!(explained("math__calc__ad", json!({})));
    insta::assert_snapshot!(explained("no_such_tool", json!({})));
    insta::assert_snapshot!(explained("math__calc__add", json!(["one"])));
}

#[test]
fn calling_a_tool_of_an_unstartable_server_gives_the_reason() {
    let bench =
        bench().server("far", "remote", json!({"type": "ws", "url": "https://example.com/sse"}));
    let agent = bench.agent().relisting_on_change();
    agent.initialize();
    let answer = agent.call("far__remote__fetch", json!({}));
    assert!(answer.is_tool_error());
    assert!(answer.text().starts_with("server `remote` could not be started: "), "{answer:?}");
}

// invariant: no-unrelated-failures
#[test]
fn failed_server_is_retried_and_leaves_the_others_working() {
    let bench = TestEnvironment::new();
    let counter = bench.path_text("counter");
    let bench = bench
        .server("box", "good", fake(json!({"tools": ["echo"]})))
        .server(
            "box",
            "flaky",
            fake(json!({
                "tools": ["count"],
                "failTimes": {"n": 1, "counterFile": counter},
            })),
        )
        .server("box", "missing", json!({"command": "no-such-program-anywhere"}));
    let pid_file = bench.path_text("pids");
    let bench = bench.server("box", "steady", fake(json!({"tools": ["pid"], "pidFile": pid_file})));
    let agent = bench.agent().relisting_on_change();
    agent.initialize();

    let first = open_json(&agent, "box");
    assert_eq!(first["servers_connected"], 2);
    assert_eq!(first["tools_registered"], 2);
    let failed: Vec<_> =
        first["failed_servers"].as_array().unwrap().iter().map(|f| f["server"].clone()).collect();
    assert_eq!(failed, ["flaky", "missing"]);
    let missing = &first["failed_servers"][1];
    assert_eq!(missing["reason"], "command `no-such-program-anywhere` not found on PATH");
    assert!(missing["hint"].as_str().unwrap().starts_with("install it"));

    let second = open_json(&agent, "box");
    assert_eq!(second["servers_connected"], 3);
    assert_eq!(second["failed_servers"].as_array().unwrap().len(), 1);
    let starts = crate::support::process::StartedProcesses::read(bench.path("pids")).servers;
    assert_eq!(starts.len(), 1, "a running server was restarted");
}

// invariant: permit-for-each-call
#[test]
fn filtered_tools_are_neither_listed_nor_callable() {
    let mut entry = fake(json!({"tools": ["read_a", "read_b", "write_a", "list"]}));
    entry["toolFilters"] = json!(["read_*", "list", "!read_b"]);
    let bench = TestEnvironment::new().server("box", "files", entry);
    let agent = bench.agent().relisting_on_change();
    agent.initialize();
    agent.open("box");
    assert_eq!(agent.tool_names(), ["open_toolbox", "box__files__read_a", "box__files__list"]);
    let hidden = text(&agent.call("box__files__write_a", json!({})).ok());
    let absent = text(&agent.call("box__files__write_x", json!({})).ok());
    assert_eq!(
        hidden.replace("write_a", "write_x"),
        absent,
        "hidden and unknown tools get the same message"
    );
}

#[test]
fn names_are_unique_and_within_the_limit() {
    let long = "a_tool_with_a_name_that_goes_on_and_on_and_on";
    let bench = TestEnvironment::new()
        .server(
            "box",
            "srv",
            fake(json!({"tools": [
                format!("{long}_1"), format!("{long}_2"), "get.x", "get/x", "get_x", "größe",
            ]})),
        )
        .server("box", "srv__get", fake(json!({"tools": ["x"]})));
    let agent = bench.agent().relisting_on_change();
    agent.initialize();
    agent.open("box");
    let names = agent.tool_names();
    assert_eq!(names.len(), 8);
    let unique: std::collections::HashSet<_> = names.iter().collect();
    assert_eq!(unique.len(), 8, "{names:?}");
    for name in &names[1..] {
        assert!(name.len() <= 48, "{name}");
        assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c)), "{name}");
        let result = agent.call(name, json!({"called": name})).ok();
        assert_eq!(result["structuredContent"]["called"], json!(name));
    }
    assert!(names.contains(&"box__srv__get_x".to_owned()));
}

#[test]
fn server_list_changes_reach_the_client() {
    let bench = TestEnvironment::new().server("box", "srv", fake(json!({"tools": ["grow"]})));
    let agent = bench.agent().relisting_on_change();
    agent.initialize();
    agent.open("box");
    agent.wait_relists(1);
    agent.call("box__srv__grow", json!({"tools": ["fresh"]})).ok();
    assert_eq!(agent.wait_relists(2), ["open_toolbox", "box__srv__grow", "box__srv__fresh"]);
    agent.call("box__srv__fresh", json!({})).ok();
}

#[test]
fn paginated_lists_are_read_completely_and_loops_end() {
    let names: Vec<_> = (0..25).map(|n| format!("t{n}")).collect();
    let bench = TestEnvironment::new()
        .server("box", "paged", fake(json!({"tools": names, "pageSize": 10})))
        .server(
            "loop",
            "endless",
            fake(json!({"tools": names, "pageSize": 10, "repeatCursor": true})),
        );
    let agent = bench.agent().relisting_on_change();
    agent.initialize();
    assert_eq!(open_json(&agent, "box")["tools_registered"], 25);
    assert_eq!(open_json(&agent, "loop")["servers_connected"], 1);
}

#[test]
fn opening_reports_pending_servers_as_progress() {
    let bench = TestEnvironment::new()
        .server("box", "fast", fake(json!({"tools": ["echo"]})))
        .server("box", "slow", fake(json!({"tools": ["count"], "startDelayMs": 400})));
    let agent = bench.agent().relisting_on_change();
    agent.initialize();
    let id = agent.send_request(
        "tools/call",
        json!({"name": "open_toolbox", "arguments": {"toolbox": "box"}, "_meta": {"progressToken": "p"}}),
    );
    agent.wait(&id).ok();
    let progress: Vec<_> = agent
        .notifications()
        .into_iter()
        .filter(|n| n["method"] == "notifications/progress")
        .map(|n| n["params"].clone())
        .collect();
    assert_eq!(
        progress,
        [
            json!({"progressToken": "p", "progress": 1.0, "total": 2, "message": "toolbox `box`: waiting for `slow`"}),
        ]
    );
}

// invariant: no-unrelated-failures
#[test]
fn call_does_not_wait_for_other_servers_of_its_toolbox() {
    let bench = TestEnvironment::new()
        .server("dev", "git", fake(json!({"tools": ["git_log"]})))
        .server("dev", "git2", fake(json!({"tools": ["x"], "hangOnInitialize": true})))
        .server("dev", "github", json!({"command": "no-such-program"}));
    let agent = bench.agent().relisting_on_change();
    agent.initialize();
    assert!(!agent.call("dev__git__git_log", json!({})).is_tool_error());
}

#[test]
fn opening_returns_server_instructions() {
    let long = format!("Ask first. {}", "Then ask again. ".repeat(400));
    let bench = TestEnvironment::new()
        .server("box", "wordy", fake(json!({"tools": ["echo"], "instructions": long})))
        .server("box", "terse", fake(json!({"tools": ["count"], "instructions": "Count on me."})))
        .server("box", "silent", fake(json!({"tools": ["pid"]})));
    let agent = bench.agent().relisting_on_change();
    agent.initialize();
    let instructions = &open_json(&agent, "box")["server_instructions"];
    assert_eq!(instructions["terse"], "Count on me.");
    let wordy = instructions["wordy"].as_str().unwrap();
    assert!(wordy.starts_with("Ask first. Then ask again.") && wordy.ends_with('…'), "{wordy}");
    assert!(wordy.chars().count() <= 2000);
    assert_eq!(instructions.get("silent"), None);
}
