//! The audit file as the real program writes it, and `stats` about it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pretty_assertions::assert_eq;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Agent, DEADLINE, TestEnvironment, fake};

const GONE: Duration = Duration::from_secs(5);

fn bench() -> TestEnvironment {
    let mut entry = fake(json!({
        "tools": ["echo", "fail", "refuse", "sleep", "secret", "crash", {"name": "strict", "inputSchema": {
            "type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"],
        }}],
        "behavior": {
            "fail": {"tool_error": {"text": "it does not work"}},
            "refuse": {"error": {"error": {"code": -32000, "message": "no"}}},
            "crash": {"crash": {"code": 3}},
        },
    }));
    entry["toolFilters"] = json!(["!secret"]);
    entry["env"] = json!({"API_TOKEN": "hunter2hunter2"});
    TestEnvironment::new()
        .set("audit", json!({"file": "audit.jsonl", "arguments": "whole"}))
        .server("box", "srv", entry)
}

fn read(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn records(bench: &TestEnvironment, agent: &Agent) -> Vec<Value> {
    agent.close_stdin();
    agent.wait_exit(GONE);
    read(&bench.path("audit.jsonl"))
}

fn text<'a>(record: &'a Value, key: &str) -> &'a str {
    record[key].as_str().unwrap_or_default()
}

fn wait_file(bench: &TestEnvironment, end: &str) -> PathBuf {
    let until = Instant::now() + DEADLINE;
    loop {
        let entries = fs::read_dir(bench.dir()).expect("the folder");
        let mut paths = entries.map(|entry| entry.expect("an entry").path());
        if let Some(path) = paths.find(|path| path.to_string_lossy().ends_with(end)) {
            return path;
        }
        assert!(Instant::now() < until, "no file that ends in `{end}`");
        std::thread::yield_now();
    }
}

#[test]
fn every_call_is_recorded_with_its_outcome() {
    let bench = bench();
    let agent = bench
        .agent_with(["--agent", "claude", "--shutdown-timeout", "200ms"])
        .relisting_on_change();
    agent.initialize();
    agent.call("box__srv__echo", json!({"say": "hunter2hunter2", "password": "x"}));
    agent.call("box__srv__fail", json!({}));
    agent.call("box__srv__refuse", json!({}));
    agent.call("box__srv__strict", json!([1]));
    let denied = agent.use_tool(["box", "srv", "secret"], json!({}));
    let unknown = agent.use_tool(["box", "srv", "sacred"], json!({}));
    let same = |text: String| text.replace("secret", "*").replace("sacred", "*");
    assert_eq!(
        same(denied.text()),
        same(unknown.text()),
        "denied and unknown tools get the same message"
    );
    agent.call("nothing", json!({}));
    agent.use_tool(["box", "nobody", "x"], json!({}));
    agent.call("box__srv__crash", json!({}));
    let given_up = agent.send_call("box__srv__sleep", json!({"ms": 60_000}));
    wait_file(&bench, ".open");
    agent.cancel(&given_up);
    agent.call("box__srv__echo", json!({}));
    agent.send_call("box__srv__sleep", json!({"ms": 60_000}));
    let records = records(&bench, &agent);
    let calls: Vec<_> = records.iter().filter(|record| record["kind"] == "call").collect();
    let told = calls
        .iter()
        .map(|call| [text(call, "tool"), text(call, "decision"), text(call, "outcome")]);
    let mut told: Vec<_> = told.collect();
    // The canceled call may end before or after the next call.
    told[9..11].sort_unstable();
    assert_eq!(
        told,
        [
            ["echo", "allowed", "ok"],
            ["fail", "allowed", "tool_error"],
            ["refuse", "allowed", "protocol_error"],
            ["strict", "allowed", "invalid_arguments"],
            ["secret", "denied", ""],
            ["sacred", "unknown", ""],
            ["nothing", "unknown", ""],
            ["x", "unknown", ""],
            ["crash", "allowed", "server_exited"],
            ["echo", "allowed", "ok"],
            ["sleep", "allowed", "cancelled"],
            ["sleep", "allowed", "cancelled"],
        ]
    );
    let first = calls[0];
    assert_eq!(first["arguments"], json!({"say": "***", "password": "***"}));
    assert_eq!(
        [text(first, "agent"), text(first, "toolbox"), text(first, "server")],
        ["claude", "box", "srv"]
    );
    assert!(first["ms"].as_f64().is_some_and(|ms| ms > 0.0), "{first}");
    assert!(first["resultBytes"].as_u64().is_some_and(|bytes| bytes > 10), "{first}");
    assert_eq!(text(calls[4], "rule"), "mcp_servers.srv.tool_filters");
    let session = records.iter().find(|record| record["kind"] == "session").expect("a session");
    assert!(session["withoutWorkbenchBytes"].as_u64() > Some(100), "{session}");
    assert!(wait_file(&bench, ".key").exists());
}

#[test]
fn session_record_has_the_definition_size_without_the_workbench() {
    let session = |client: &str| {
        let bench = bench();
        let agent = bench.agent().relisting_on_change();
        agent.initialize_with(json!({"clientInfo": {"name": client, "version": "2.1.400"}}));
        agent.call("open_toolbox", json!({"toolbox": "box"}));
        agent.request("tools/list", json!({})).ok();
        let records = records(&bench, &agent);
        records.into_iter().find(|record| record["kind"] == "session").expect("a session")
    };
    let [claude, opencode] = ["claude-code", "opencode"].map(session);
    assert_eq!((text(&claude, "client"), &claude["hasToolSearch"]), ("claude-code", &json!(true)));
    assert_eq!((text(&opencode, "client"), &opencode["hasToolSearch"]), ("opencode", &Value::Null));
    // Six names with the prefix `mcp__srv__` and a newline each.
    let names: usize =
        ["echo", "fail", "refuse", "sleep", "crash", "strict"].map(str::len).iter().sum();
    assert_eq!(claude["withoutWorkbenchBytes"], json!(names + 6 * (3 + 8)));
    let without = |session: &Value| session["withoutWorkbenchBytes"].as_u64();
    assert!(without(&opencode) > without(&claude), "{opencode}");
}

// invariant: every-call-recorded
#[test]
fn calls_interrupted_by_a_kill_are_recorded_as_lost() {
    let bench = bench();
    let agent = bench.agent().relisting_on_change();
    agent.initialize();
    agent.call("box__srv__echo", json!({}));
    agent.send_call("box__srv__sleep", json!({"ms": 60_000}));
    wait_file(&bench, ".open");
    agent.signal(Signal::KILL);
    agent.wait_exit(GONE);

    let agent = bench.agent().relisting_on_change();
    agent.initialize();
    let records = records(&bench, &agent);
    let told: Vec<_> =
        records.iter().map(|call| [text(call, "tool"), text(call, "outcome")]).collect();
    assert_eq!(told, [["echo", "ok"], ["sleep", "lost"]]);
}

#[test]
fn refuses_to_serve_when_the_audit_file_is_not_writable() {
    let bench = bench().set("audit", json!({"file": "."}));
    let output = bench.run(["serve"]);
    assert_eq!(output.code, Some(1));
    assert!(output.stderr.contains("failed to open the audit log"), "{}", output.stderr);
}

#[test]
fn stats_summarize_used_and_unused_tools() {
    let line = |tool: &str, outcome: &str, ms: u32| {
        json!({
            "time": "2026-11-20T10:00:00.000Z", "kind": "call", "session": "a-1", "toolbox": "box",
            "server": "srv", "tool": tool, "outcome": outcome, "ms": ms, "resultBytes": 10,
        })
    };
    let mut lines: Vec<Value> = (0..30).map(|ms| line("echo", "ok", ms)).collect();
    lines.push(line("fail", "tool_error", 1_500));
    lines.push(line("fail", "ok", 5));
    let mut denied = line("secret", "", 0);
    let members = denied.as_object_mut().expect("an object");
    members.remove("outcome");
    members.insert("decision".to_owned(), json!("denied"));
    lines.push(denied);
    lines.push(json!({
        "time": "2026-11-21T10:00:00.000Z", "kind": "session", "session": "a-1",
        "client": "gemini-cli", "withoutWorkbenchBytes": 9_900, "shownBytes": 900,
    }));
    lines.push(json!({
        "time": "2026-11-21T10:00:00.000Z", "kind": "session", "session": "a-2",
        "client": "claude-code", "hasToolSearch": true, "withoutWorkbenchBytes": 900,
        "shownBytes": 1_800,
    }));
    lines.push(json!({
        "time": "2026-11-21T10:00:00.000Z", "kind": "session", "session": "a-3",
        "directBytes": 9_900, "shownBytes": 900,
    }));
    lines.push(json!({"time": "2026-11-21T10:00:00.000Z", "kind": "lost", "records": 2}));
    for (kind, outcome) in [("resource", "ok"), ("resource", "error"), ("prompt", "ok")] {
        lines.push(json!({
            "time": "2026-11-21T10:00:00.000Z", "kind": kind, "session": "a-1", "toolbox": "box",
            "server": "srv", "name": "x", "outcome": outcome, "ms": 1, "resultBytes": 10,
        }));
    }
    for times in [1, 21] {
        lines.push(json!({
            "time": "2026-11-21T10:00:00.000Z", "kind": "denied", "address": "10.0.0.1",
            "reason": "invalid_token", "times": times,
        }));
    }
    lines.push(json!({
        "time": "2026-11-21T10:00:00.000Z", "kind": "limit", "agent": "ann",
        "quota": "processes", "times": 1,
    }));
    for (day, model, outcome) in
        [(20, "small", "ok"), (21, "small", "ok"), (21, "haiku", "invalid_response")]
    {
        lines.push(json!({
            "time": format!("2026-11-{day}T10:00:00.000Z"), "kind": "llm", "request": "a-7",
            "session": "a-1", "model": model, "purpose": "tool", "outcome": outcome, "ms": 412.5,
            "tokensRead": 1_200, "tokensWritten": 10,
        }));
    }
    let lines: Vec<_> = lines.iter().map(Value::to_string).collect();
    let text = lines.join("\n") + "\n";
    let bench = bench().file("audit.jsonl", &text).file("audit.1.jsonl", "{\"torn\n");
    assert_eq!(bench.run(["cache", "refresh"]).code, Some(0));

    let told = bench.run(["stats"]);
    assert_eq!(told.code, Some(0), "{told:?}");
    bench.settings().bind(|| insta::assert_snapshot!(told.stdout));
    let patch = bench.run(["stats", "--patch"]);
    let filters: Value = serde_json::from_str(&patch.stdout).expect("JSON");
    assert_eq!(
        filters,
        json!({"toolboxes": {"box": {"mcpServers": {"srv": {"toolFilters":
            ["!secret", "!refuse", "!sleep", "!crash", "!strict"]}}}}})
    );
    let report = bench.run(["stats", "--json", "--since", "2026-11-21"]);
    let report: Value = serde_json::from_str(&report.stdout).expect("JSON");
    assert_eq!((&report["calls"], &report["saved_bytes"]), (&json!(0), &json!(9_000)));
    assert_eq!(report["never_used"].as_array().map(Vec::len), Some(6));
    let model = |model: &str, failed: u32| {
        json!({
            "model": model, "requests": 1, "failed": failed, "tokens_read": 1200, "tokens_written": 10,
        })
    };
    let mut small = model("small", 0);
    small["p50_ms"] = json!(412.5);
    small["p95_ms"] = json!(412.5);
    assert_eq!(report["models"], json!([model("haiku", 1), small]));
    let denied = json!([{ "caller": "10.0.0.1", "reason": "invalid_token", "count": 22 }]);
    let limits = json!([{ "caller": "ann", "quota": "processes", "count": 1 }]);
    assert_eq!((&report["access_denials"], &report["limits_reached"]), (&denied, &limits));
    assert_eq!(report["reads"][0]["resources"], 2);
}

#[test]
fn html_stats_escape_input_and_load_nothing() {
    let hostile = "</td><script>alert(1)</script>\u{1b}[31m";
    let line = |hour: u32, tool: &str, outcome: &str| {
        json!({
            "time": format!("2026-11-20T{hour:02}:00:00.000Z"), "kind": "call", "session": "a-1",
            "toolbox": "box", "server": "srv", "tool": tool, "outcome": outcome, "ms": 3, "resultBytes": 10,
        })
    };
    let session = json!({
        "time": "2026-11-20T12:00:00.000Z", "kind": "session", "session": "a-1",
        "client": "<b>gemini</b>", "withoutWorkbenchBytes": 9_900, "shownBytes": 900,
    });
    let lines = [
        line(10, "echo", "ok"),
        line(11, "echo", "tool_error"),
        line(11, hostile, "unknown_tool"),
        session,
    ];
    let lines: Vec<_> = lines.iter().map(Value::to_string).collect();
    let bench = bench().file("audit.jsonl", &lines.join("\n"));
    assert_eq!(bench.run(["cache", "refresh"]).code, Some(0));
    let told = bench.run(["stats", "--html"]);
    assert_eq!((told.code, told.stderr.as_str()), (Some(0), ""));
    let page = told.stdout;
    assert!(page.starts_with("<!DOCTYPE html>"), "{page}");
    for forbidden in ["<script", "http:", "https:", "url(", "src=", "<b>", "\u{1b}"] {
        assert!(!page.contains(forbidden), "{forbidden}: {page}");
    }
    for wanted in [
        "default-src 'none'",
        "2026-11-20T10: 1 call, 0 failed",
        "2026-11-20T11: 2 calls, 1 failed",
        "&lt;b&gt;gemini&lt;/b&gt;",
        "&lt;script&gt;alert(1)&lt;/script&gt;",
        "1 <code>tool_error</code>",
        "<code>sleep</code>",
        "!sleep",
    ] {
        assert!(page.contains(wanted), "{wanted}: {page}");
    }
}

#[test]
fn stats_patch_covers_tools_that_any_agent_may_use() {
    let line = json!({
        "time": "2026-11-20T10:00:00.000Z", "kind": "call", "session": "a-1", "agent": "ann",
        "toolbox": "box", "server": "srv", "tool": "echo", "outcome": "ok", "ms": 1, "resultBytes": 1,
    });
    let bench = bench()
        .file("audit.jsonl", &format!("{line}\n"))
        .set("agentPolicies", json!({ "ann": { "toolOverrides": { "srv": ["echo", "sleep"] } } }));
    assert_eq!(bench.run(["cache", "refresh"]).code, Some(0));
    let patch = bench.run(["stats", "--patch"]);
    let filters: Value = serde_json::from_str(&patch.stdout).expect("JSON");
    let filters = &filters["toolboxes"]["box"]["mcpServers"]["srv"]["toolFilters"];
    assert!(filters.as_array().is_some_and(|all| all.contains(&json!("!sleep"))), "{patch}");
    assert!(!filters.to_string().contains("echo"), "{patch}");
    let of_ann = bench.run(["stats", "--patch", "--agent", "ann"]);
    let filters: Value = serde_json::from_str(&of_ann.stdout).expect("JSON");
    let filters = &filters["toolboxes"]["box"]["mcpServers"]["srv"]["toolFilters"];
    assert_eq!(filters, &json!(["!secret", "!sleep"]), "only unused tools that Ann has access to");
}

#[test]
fn stats_explain_a_missing_audit() {
    let bench = bench();
    let missing = bench.run(["stats"]);
    assert_eq!(missing.code, Some(1));
    assert!(missing.stderr.contains("no audit log at"), "{}", missing.stderr);
    let none = TestEnvironment::new().server("box", "srv", fake(json!({}))).run(["stats"]);
    assert_eq!(none.code, Some(1));
    assert!(none.stderr.contains("has no `audit`"), "{}", none.stderr);
}

#[test]
fn cli_calls_are_recorded() {
    let bench = bench();
    assert_eq!(bench.run(["call", "box", "srv", "echo", "{}"]).code, Some(0));
    let told: Vec<_> = read(&bench.path("audit.jsonl"));
    assert_eq!((told.len(), text(&told[0], "tool"), text(&told[0], "outcome")), (1, "echo", "ok"));
    assert_eq!(told[0].get("agent"), None);
    assert_eq!(bench.run(["call", "box", "srv", "echo", "--agent", "ann"]).code, Some(0));
    let told: Vec<_> = read(&bench.path("audit.jsonl"));
    assert_eq!((told.len(), text(&told[1], "agent")), (2, "ann"));
}

/// Begins a session with a workbench that can't write files beyond 2 KiB, as on a full disk.
#[cfg(target_os = "linux")]
fn with_full_disk(bench: &TestEnvironment) -> Agent {
    let serve = bench.serve();
    let mut command = crate::support::command("sh");
    command.args(["-c", "ulimit -Sf 4; exec \"$@\"", "sh"]);
    command.arg(serve.get_program()).args(serve.get_args()).arg("--unlisted");
    command.env_clear().envs(serve.get_envs().filter_map(|(key, value)| Some((key, value?))));
    command.current_dir(bench.dir());
    Agent::start(command).begin(false, json!({}))
}

// invariant: telemetry-never-blocks
#[cfg(target_os = "linux")]
#[test]
fn full_disk_tears_no_line_and_counts_lost_records() {
    use rustix::process::{Pid, Resource, Rlimit, prlimit};

    const CALLS: u64 = 40;
    let bench = bench();
    let agent = with_full_disk(&bench);
    agent.open("box").ok();
    for number in 0..CALLS {
        agent.call("box__srv__echo", json!({ "number": number })).ok();
    }
    agent.wait_stderr("failed to write to the audit log");
    let path = bench.path("audit.jsonl");
    assert!(fs::metadata(&path).expect("the file").len() <= 2048);
    // A retry may have written half a line for a moment.
    let until = Instant::now() + DEADLINE;
    while !fs::read(&path).expect("the file").ends_with(b"}\n") {
        assert!(Instant::now() < until, "the audit log still ends with a partial line");
        std::thread::yield_now();
    }

    // Once there is space, lost records are reported even without further events.
    let pid = i32::try_from(agent.pid()).ok().and_then(Pid::from_raw);
    let unlimited = Rlimit { current: None, maximum: None };
    prlimit(pid, Resource::Fsize, unlimited).expect("a limit");
    let until = Instant::now() + DEADLINE;
    while !fs::read_to_string(&path).expect("the file").contains("\"lost\"") {
        assert!(Instant::now() < until, "the lost records are not reported");
        std::thread::yield_now();
    }
    agent.call("box__srv__echo", json!({ "number": CALLS })).ok();
    let records = records(&bench, &agent);
    let calls = records.iter().filter(|record| record["tool"] == "echo").count() as u64;
    let lost: u64 = records.iter().filter_map(|record| record["records"].as_u64()).sum();
    assert!(lost > 0);
    assert_eq!(calls + lost, CALLS + 1);
    let said = format!("warning: {lost} records could not be written");
    let stats = bench.run(["stats"]).stdout;
    assert!(stats.contains(&said), "{stats}");
    let stats: Value = serde_json::from_str(&bench.run(["stats", "--json"]).stdout).expect("JSON");
    assert_eq!((&stats["lost_records"], &stats["unreadable_lines"]), (&json!(lost), &json!(0)));
}

#[cfg(target_os = "linux")]
#[test]
fn records_lost_at_exit_on_a_full_disk_are_logged() {
    const CALLS: usize = 3;
    let bench = bench();
    let line =
        json!({ "time": "2026-01-01T00:00:00.000Z", "kind": "other", "x": "x".repeat(2048) });
    bench.write("audit.jsonl", &format!("{line}\n"));
    // The leftover of a program that was killed during two calls.
    bench.write("audit.jsonl.dead-1.open", "{}\n{}\n");
    let agent = with_full_disk(&bench);
    agent.open("box").ok();
    for number in 0..CALLS {
        agent.call("box__srv__echo", json!({ "number": number })).ok();
    }
    let records = records(&bench, &agent);
    assert_eq!(records, [line]);
    // The calls, and the session.
    agent.wait_stderr(&format!("audit log: {} records could not be written", 2 + CALLS + 1));
}

#[test]
fn reads_and_reloads_are_recorded() {
    let entry = fake(json!({
        "tools": ["echo"],
        "capabilities": { "resources": {}, "prompts": {} },
        "answers": {
            "resources/list": { "resources": [{ "uri": "odd://one", "name": "one" }] },
            "resources/templates/list": { "resourceTemplates": [] },
            "prompts/list": { "prompts": [{ "name": "ask" }] },
            "resources/read": { "contents": [{ "uri": "odd://one", "text": "x" }] },
        },
    }));
    let bench = TestEnvironment::new()
        .set("toolMode", json!("direct"))
        .set("audit", json!({ "file": "audit.jsonl" }))
        .server("box", "srv", entry);
    let agent = bench.agent().begin(false, json!({}));
    agent.request("resources/list", json!({})).ok();
    agent.request("prompts/list", json!({})).ok();
    agent.request("resources/read", json!({ "uri": "odd://one" })).ok();
    agent.request("prompts/get", json!({ "name": "ask" }));
    let wider = bench.clone().server("other", "more", fake(json!({ "tools": ["echo"] })));
    wider.write_config();
    agent.wait_stderr("apply it with `mcp-workbench reload`");
    agent.signal(Signal::HUP);
    agent.wait_stderr("configuration reloaded");
    bench.write("workbench.json", "{");
    agent.wait_stderr("configuration not reloaded");
    let records = records(&bench, &agent);
    let kinds = ["resource", "prompt", "reload"];
    let told = records.iter().filter(|record| kinds.contains(&text(record, "kind")));
    let told = told.map(|record| {
        let what = ["outcome", "server", "name"].map(|key| text(record, key));
        (text(record, "kind"), what, record["resultBytes"].as_u64().is_some_and(|bytes| bytes > 0))
    });
    let mut told: Vec<_> = told.collect();
    // An invalid file may be read twice.
    told.dedup();
    assert_eq!(
        told,
        [
            ("resource", ["ok", "srv", "odd://one"], true),
            ("prompt", ["protocol_error", "srv", "ask"], true),
            ("reload", ["pending", "", ""], false),
            ("reload", ["applied", "", ""], false),
            ("reload", ["rejected", "", ""], false),
        ]
    );
    for outcome in ["pending", "applied"] {
        let reload = records.iter().find(|record| record["outcome"] == outcome).expect("a line");
        assert_eq!(text(reload, "changes"), "added: `other`");
        assert!(text(reload, "difference").contains("other/more"), "{reload}");
    }
    let refused = records.iter().find(|record| record["outcome"] == "rejected").expect("a line");
    assert!(text(refused, "reason").contains("workbench.json"), "{refused}");
}
