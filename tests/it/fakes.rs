//! Tests of the scripted fake server and of the test harness.

use std::collections::BTreeSet;
use std::time::Duration;
use std::{fs, panic};

use pretty_assertions::assert_eq;
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::process::{StartedProcesses, alive, fake_path, wait_until_exited};
use crate::support::{Agent, TestEnvironment, fake, snapshot};

const SOON: Duration = Duration::from_secs(5);

fn connect(script: Value) -> Agent {
    let agent = start(script);
    agent.initialize();
    agent
}

fn start(script: Value) -> Agent {
    Agent::spawn(fake_path(), [script.to_string()])
}

#[test]
fn completes_the_handshake_and_exits_at_end_of_input() {
    let agent = start(json!({ "name": "calc", "version": "2.1.0", "instructions": "Add." }));
    let result = agent.initialize();
    assert_eq!(
        result,
        json!({
            "protocolVersion": "2025-11-25",
            "capabilities": { "tools": { "listChanged": true } },
            "serverInfo": { "name": "calc", "version": "2.1.0" },
            "instructions": "Add.",
        })
    );
    agent.close_stdin();
    assert_eq!(agent.wait_exit(SOON).code(), Some(0));
}

#[test]
fn echo_preserves_every_byte() {
    let agent = connect(json!({ "tools": ["echo"] }));
    agent.send_raw(
        r#"{"jsonrpc":"2.0","id":"e","method":"tools/call","params":{"name":"echo","arguments":{"z":1.0e2,"a":[ 1 ]}}}"#,
    );
    let answer = agent.wait(&"e".into());
    assert_eq!(
        answer.raw_result(),
        r#"{"content":[{"type":"text","text":"{\"z\":1.0e2,\"a\":[ 1 ]}"}],"structuredContent":{"z":1.0e2,"a":[ 1 ]}}"#
    );
}

#[test]
fn scripted_result_preserves_every_byte() {
    let raw = r#"{"content":[],  "extra":{"n":1.50}}"#;
    let agent = connect(
        json!({ "tools": ["exact"], "behavior": { "exact": { "result": { "raw": raw } } } }),
    );
    assert_eq!(agent.call("exact", json!({})).raw_result(), raw);
}

#[test]
fn list_is_paginated() {
    let agent =
        connect(json!({ "tools": ["a", { "name": "b", "unknown": 1 }, "c"], "pageSize": 2 }));
    let first = agent.request("tools/list", json!({})).ok();
    assert_eq!(first["tools"][1], json!({ "name": "b", "unknown": 1 }));
    assert_eq!(first["nextCursor"], "2");
    assert_eq!(agent.tool_names(), ["a", "b", "c"]);
}

#[test]
fn a_repeated_cursor_never_ends() {
    let agent = connect(json!({ "tools": ["a"], "repeatCursor": true }));
    for params in [json!({}), json!({ "cursor": "again" }), json!({ "cursor": "again" })] {
        let page = agent.request("tools/list", params).ok();
        assert_eq!(page["nextCursor"], "again");
    }
}

#[test]
fn crash_writes_stderr_and_exits() {
    let script = json!({
        "tools": ["crash"],
        "behavior": { "crash": { "crash": { "stderr": ["out of cheese"], "code": 3 } } },
    });
    let agent = connect(script);
    agent.send_call("crash", json!({}));
    assert_eq!(agent.wait_exit(SOON).code(), Some(3));
    agent.wait_stderr("out of cheese");
}

#[test]
fn response_can_be_sent_twice() {
    let agent = connect(json!({ "tools": ["twice"] }));
    let id = agent.send_call("twice", json!({}));
    assert_eq!(agent.wait(&id).text(), "first");
    assert_eq!(agent.wait(&id).text(), "second");
}

#[test]
fn response_can_be_mixed_with_other_ids() {
    let agent = connect(json!({ "tools": ["ids"] })).allowing_violations();
    let id = agent.send_call("ids", json!({}));
    assert_eq!(agent.wait(&id).text(), "the answer");
    assert_eq!(agent.wait(&id).text(), "another answer");
    assert_eq!(agent.next_request("ping")["id"], id.0);
    assert_eq!(agent.violations().len(), 1, "a batch");
}

#[test]
fn response_can_be_truncated() {
    let agent = connect(json!({ "tools": ["half"] })).allowing_violations();
    agent.send_call("half", json!({}));
    assert_eq!(agent.wait_exit(SOON).code(), Some(0));
    agent.wait_end();
    assert_eq!(agent.violations().len(), 1);
    assert!(agent.violations()[0].starts_with(r#"{"jsonrpc":"2.0","id":2,"#));
}

#[test]
fn output_can_be_binary() {
    let agent = connect(json!({ "tools": ["binary"] })).allowing_violations();
    assert_eq!(agent.call("binary", json!({ "bytes": 1000 })).text(), "after the bytes");
    assert!(agent.violations().iter().any(|line| line.contains('\0')));
}

#[test]
fn storm_precedes_the_response() {
    let agent = connect(json!({ "tools": ["storm"] }));
    agent.call("storm", json!({ "count": 300 }));
    assert_eq!(agent.notifications().len(), 300);
}

#[test]
fn list_can_change_on_every_listing() {
    let agent = connect(json!({ "tools": ["count"], "changeOnList": true }));
    for _ in 0..2 {
        agent.tools();
        agent.next_notification("notifications/tools/list_changed");
    }
    assert_eq!(agent.call("count", json!({})).structured()["lists"], 2);
}

#[test]
fn flood_follows_the_response() {
    let agent = connect(json!({ "tools": ["flood"] })).allowing_violations();
    assert_eq!(agent.call("flood", json!({})).text(), "as you wish");
    agent.wait_stderr("xxx");
    agent.kill();
}

#[test]
fn calls_can_wait_for_each_other() {
    let agent = connect(json!({ "tools": ["gather"] }));
    let first = agent.send_call("gather", json!({ "count": 2 }));
    agent.request("ping", json!({})).ok();
    assert!(agent.answered(&first).is_none());
    agent.call("gather", json!({ "count": 2 })).ok();
    agent.wait(&first).ok();
}

#[test]
fn scripted_error_preserves_every_byte() {
    let agent = connect(json!({ "tools": ["raw_error"] }));
    let raw = r#"{ "code":-1,"message":"n\u006f","data":1.50}"#;
    let id = agent.call("raw_error", json!({ "raw": raw })).line;
    assert!(id.ends_with(&format!(r#""error":{raw}}}"#)), "{id}");
}

#[test]
fn progress_is_ordered_and_precedes_the_response() {
    let agent = connect(json!({ "tools": ["progress"] }));
    let id = agent.send_call("progress", json!({ "count": 200 }));
    agent.wait(&id);
    let steps: Vec<u64> =
        agent.progress(&id).iter().map(|params| params["progress"].as_u64().unwrap()).collect();
    assert_eq!(steps, (1..=200).collect::<Vec<_>>());
}

#[test]
fn garbage_on_stdout_is_a_violation() {
    let agent = connect(json!({ "tools": ["garbage"] })).allowing_violations();
    agent.call("garbage", json!({ "line": "Listening on port 3000" }));
    assert_eq!(agent.violations(), ["Listening on port 3000"]);
}

#[test]
fn garbage_on_stdout_fails_a_test() {
    let failed = panic::catch_unwind(|| {
        let agent = connect(json!({ "tools": ["garbage", "never"] }));
        agent.call("garbage", json!({}));
        agent.call("never", json!({}));
    });
    let message = failed.unwrap_err().downcast::<String>().unwrap();
    assert!(message.contains("protocol violations"), "{message}");
}

#[test]
fn slow_call_blocks_no_other_and_can_be_cancelled() {
    let agent = connect(json!({ "tools": ["sleep", "echo", "count"] }));
    let slow = agent.send_call("sleep", json!({ "ms": 60_000, "progressEveryMs": 10 }));
    agent.next_notification("notifications/progress");
    agent.call("echo", json!({}));
    agent.cancel(&slow);
    assert_eq!(
        agent.call("count", json!({})).structured(),
        json!({ "calls": { "count": 1, "echo": 1, "sleep": 1 }, "cancelled": [slow.0], "lists": 0 })
    );
    assert!(agent.answered(&slow).is_none());
}

#[test]
fn relisting_agent_lists_after_each_change() {
    let agent = connect(json!({ "tools": ["grow", "shrink"] })).relisting_on_change();
    agent.call("grow", json!({ "tools": ["more"] }));
    assert_eq!(agent.wait_relists(1), ["grow", "shrink", "more"]);
    agent.call("shrink", json!({ "tools": ["more", "shrink"] }));
    assert_eq!(agent.wait_relists(2), ["grow"]);
}

#[test]
fn a_server_can_ask_the_agent() {
    let agent = connect(json!({ "tools": ["ask"] }))
        .with_reply("roots/list", json!({ "roots": [] }))
        .without_reply("elicitation/create");
    let ask = |method: &str| agent.call("ask", json!({ "method": method })).structured();
    assert_eq!(ask("ping"), json!({ "result": {} }));
    assert_eq!(ask("roots/list"), json!({ "result": { "roots": [] } }));
    assert_eq!(ask("sampling/createMessage")["error"]["code"], -32601);
    let params = json!({ "method": "elicitation/create", "params": { "message": "Sure?" } });
    let held = agent.send_call("ask", params);
    let request = agent.next_request("elicitation/create");
    assert_eq!(request["params"], json!({ "message": "Sure?" }));
    agent.respond(&request, json!({ "action": "accept" }));
    let answer = agent.wait(&held).structured();
    assert_eq!(answer, json!({ "result": { "action": "accept" } }));
}

#[test]
fn errors_are_either_protocol_or_result() {
    let agent = connect(json!({ "tools": ["error", "tool_error"] }));
    let error = json!({ "code": -32001, "message": "no", "data": { "a": 1 } });
    assert_eq!(agent.call("error", error.clone()).error(), error);
    assert_eq!(agent.call("missing", json!({})).error()["code"], -32602);
    let failed = agent.call("tool_error", json!({ "text": "disk full" }));
    assert!(failed.is_tool_error());
    assert_eq!(failed.text(), "disk full");
}

#[test]
fn a_huge_answer_is_one_line() {
    let agent = connect(json!({ "tools": ["huge"] }));
    assert_eq!(agent.call("huge", json!({ "bytes": 2_000_000 })).text().len(), 2_000_000);
}

#[test]
fn grandchild_outlives_its_server_and_is_recorded() {
    let dir = TempDir::new().unwrap();
    let pids = dir.path().join("pids");
    let agent = connect(json!({ "tools": ["pid"], "grandchild": "stubborn", "pidFile": pids }));
    let said = agent.call("pid", json!({})).structured();
    let started = StartedProcesses::read(&pids);
    assert_eq!(started.servers, [agent.pid()]);
    assert_eq!(said, json!({ "pid": agent.pid(), "grandchildren": started.grandchildren }));
    agent.close_stdin();
    agent.wait_exit(SOON);
    assert!(alive(started.grandchildren[0]));
    drop(agent); // kills the group
    wait_until_exited(&started.all(), SOON);
}

#[test]
fn stubborn_server_ignores_sigterm_and_end_of_input() {
    let agent = connect(json!({ "tools": ["pid"], "stubborn": true }));
    agent.signal(Signal::TERM);
    assert_eq!(agent.call("pid", json!({})).structured()["pid"], agent.pid());
    agent.close_stdin();
    assert!(alive(agent.pid()));
    agent.kill();
    assert_eq!(agent.wait_exit(SOON).code(), None);
}

#[test]
fn first_starts_can_fail() {
    let dir = TempDir::new().unwrap();
    let script = json!({
        "failTimes": { "n": 2, "counterFile": dir.path().join("starts") },
        "noise": { "stderr": ["warming up"] },
    });
    for start_number in 1..=2 {
        let agent = start(script.clone());
        assert_eq!(agent.wait_exit(SOON).code(), Some(1));
        let log = agent.wait_stderr(&format!("start {start_number} fails as scripted"));
        assert!(log.starts_with("warming up\n"), "{log}");
    }
    connect(script);
}

#[test]
fn every_start_can_fail() {
    let agent = start(json!({ "failStart": { "code": 7, "stderr": ["no licence"] } }));
    assert_eq!(agent.wait_exit(SOON).code(), Some(7));
    agent.wait_stderr("no licence");
}

#[test]
fn exits_after_the_scripted_number_of_calls() {
    let agent = connect(json!({ "tools": ["echo"], "exitAfterCalls": 2 }));
    agent.call("echo", json!({}));
    agent.call("echo", json!({}));
    assert_eq!(agent.wait_exit(SOON).code(), Some(0));
}

#[test]
fn rejects_a_misspelled_script() {
    for script in [json!({ "tolls": [] }), json!({ "behavior": { "a": "ecko" } })] {
        let agent = start(script.clone());
        assert_eq!(agent.wait_exit(SOON).code(), Some(2));
    }
}

#[test]
fn modern_server_rejects_initialize() {
    let script = json!({ "tools": ["echo", "ask", "grow"], "protocol": "modern" });
    let agent = start(script.clone());
    let refused = agent.request("initialize", json!({ "protocolVersion": "2025-11-25" }));
    assert_eq!(refused.error()["code"], -32022);
    assert_eq!(agent.request("tools/list", json!({})).error()["code"], -32602);
    let agent = agent.modern();
    let discovered = agent.request("server/discover", json!({})).ok();
    assert_eq!(discovered["supportedVersions"], json!(["2026-07-28"]));
    assert_eq!(agent.call("echo", json!({ "a": 1 })).ok()["resultType"], "complete");
    let asked = agent.call("ask", json!({ "method": "roots/list" })).ok();
    assert_eq!(asked["inputRequests"]["ask"]["method"], "roots/list");
    let filter = json!({ "notifications": { "toolsListChanged": true } });
    let listen = agent.send_request("subscriptions/listen", filter);
    agent.next_notification("notifications/subscriptions/acknowledged");
    agent.call("grow", json!({ "tools": ["more"] }));
    let change = agent.next_notification("notifications/tools/list_changed");
    assert_eq!(change["_meta"]["io.modelcontextprotocol/subscriptionId"], listen.0);
    assert_eq!(agent.tool_names(), ["echo", "ask", "grow", "more"]);
}

#[test]
fn legacy_servers_reject_discovery() {
    let agent = start(json!({}));
    assert_eq!(agent.request("server/discover", json!({})).error()["code"], -32601);
    let agent = start(json!({ "dieOnDiscover": true }));
    agent.send_request("server/discover", json!({}));
    assert_eq!(agent.wait_exit(SOON).code(), Some(1));
    let agent = start(json!({ "silentOnDiscover": true, "protocol": "dual" }));
    let silent = agent.send_request("server/discover", json!({}));
    agent.initialize();
    assert!(agent.answered(&silent).is_none());
}

#[test]
fn environment_comes_from_the_harness() {
    let agent = connect(json!({ "tools": ["env", "cwd", "args"] }));
    let env = agent.call("env", json!({})).structured();
    let names: BTreeSet<_> = env.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(names, BTreeSet::from(["WORKBENCH_CACHE_DIR", "PATH"]));
    assert_eq!(agent.call("cwd", json!({})).text(), env!("CARGO_MANIFEST_DIR"));
    let args = agent.call("args", json!({})).structured();
    assert_eq!(args["args"][0], fake_path());
}

#[test]
fn snapshots_mask_volatile_values() {
    let dir = TempDir::new().unwrap();
    let text = format!(
        "2026-11-20T18:00:00.123Z {}/a on 127.0.0.1:4711 pid=42 in 1.5s, mcp-workbench 0.1.0",
        dir.path().display()
    );
    assert_eq!(
        snapshot::filtered(dir.path(), &text),
        "[TIME] [DIR]/a on 127.0.0.1:[PORT] pid=[PID] in [DURATION], mcp-workbench [VERSION]"
    );
    snapshot::settings(dir.path()).bind(|| {
        insta::assert_snapshot!(text, @"[TIME] [DIR]/a on 127.0.0.1:[PORT] pid=[PID] in [DURATION], mcp-workbench [VERSION]");
    });
}

#[test]
fn test_environment_writes_its_configuration() {
    let bench = TestEnvironment::new()
        .set("toolMode", json!("proxy"))
        .server("tb", "srv", fake(json!({ "name": "srv" })))
        .toolbox("tb", "Two servers")
        .server("tb", "other", json!({ "command": "other" }));
    bench.write_config();
    let text = fs::read_to_string(bench.config_path()).unwrap();
    assert_eq!(
        serde_json::from_str::<Value>(&text).unwrap(),
        json!({
            "toolMode": "proxy",
            "toolboxes": { "tb": {
                "description": "Two servers",
                "mcpServers": {
                    "srv": { "command": fake_path(), "args": [r#"{"name":"srv"}"#] },
                    "other": { "command": "other" },
                },
            } },
        })
    );
}
