//! Several agents at one workbench while policies change.

use pretty_assertions::{assert_eq, assert_ne};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::support::http::{HttpClient, Response, request};
use crate::support::process::{StartedProcesses, alive};
use crate::support::{TestEnvironment, fake};

const READ: &str = "configuration reloaded: ";

fn token(agent: &str) -> String {
    format!("a-token-for-{agent}-0123")
}

fn bench(is_eager: bool, policies: Value) -> TestEnvironment {
    let bench = TestEnvironment::new().set("autoReload", json!("all"));
    let tokens = ["claude", "codex"].map(|agent| {
        let digest = Sha256::digest(token(agent).as_bytes());
        let sha256 = hex::encode(digest);
        json!({ "agent": agent, "sha256": sha256 })
    });
    let mut server = fake(json!({
        "tools": ["pid", "notify"],
        "pidFile": bench.path_text("pids"),
        "capabilities": { "resources": { "subscribe": true } },
        "answers": {
            "resources/list": { "resources": [{ "uri": "test://one", "name": "one" }] },
            "resources/subscribe": {},
        },
    }));
    server["eager"] = is_eager.into();
    bench
        .server("box", "fake", server)
        .set("toolMode", json!("direct"))
        .set("auth", json!({ "tokens": tokens }))
        .set("defaultPolicy", json!({ "allowUnknownTools": true }))
        .set("agentPolicies", policies)
}

fn call_with(http: HttpClient, agent: &str, tool: &str, arguments: Value) -> Value {
    let params = json!({ "name": tool, "arguments": arguments });
    let bearer = format!("Bearer {}", token(agent));
    let headers = [("Mcp-Name", tool), ("Authorization", bearer.as_str())];
    http.modern("tools/call", params, &headers).json()["result"].clone()
}

fn call(http: HttpClient, agent: &str) -> Value {
    call_with(http, agent, "pid", json!({}))["structuredContent"]["pid"].clone()
}

/// A legacy session.
struct Session {
    http: HttpClient,
    bearer: String,
    id: String,
}

impl Session {
    fn begin(http: HttpClient, agent: &str) -> Self {
        let params = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": { "name": "test-agent", "version": "1.0.0" },
        });
        let mut session =
            Self { http, bearer: format!("Bearer {}", token(agent)), id: String::new() };
        let answer = http
            .post(&[("Authorization", session.bearer.as_str())], &request(0, "initialize", params));
        answer.header("mcp-session-id").expect("a session").clone_into(&mut session.id);
        session
    }

    fn send(&self, method: &str, body: &str) -> Response {
        let headers =
            [("Mcp-Session-Id", self.id.as_str()), ("Authorization", self.bearer.as_str())];
        self.http.send(method, "/mcp", &headers, body)
    }

    fn answer(&self, method: &str, params: Value) -> Value {
        self.send("POST", &request(1, method, params).to_string()).json()
    }

    fn ask(&self, method: &str, params: Value) -> Value {
        self.answer(method, params)["result"].clone()
    }
}

#[test]
fn server_keeps_running_when_one_agent_loses_access() {
    for is_eager in [false, true] {
        let bench = bench(is_eager, json!({}));
        let (program, http) = bench.http();
        let before = call(http, "claude");
        assert_eq!(call(http, "codex"), before, "both agents share one process");
        let policies = json!({ "codex": { "allowedServers": [] } });
        bench.clone().set("agentPolicies", policies).write_config();
        program.0.wait_stderr(READ);
        for _ in 0..3 {
            assert_eq!(call(http, "claude"), before);
        }
        assert_eq!(call(http, "codex"), Value::Null);
        let servers = StartedProcesses::read(bench.path("pids")).servers;
        assert_eq!(servers.len(), 1, "the server was restarted");
        assert!(alive(servers[0]));
    }
}

#[test]
fn agent_gets_no_notifications_after_losing_access() {
    let bench = bench(false, json!({}));
    let (program, http) = bench.http();
    let codex = Session::begin(http, "codex");
    assert_eq!(codex.ask("resources/list", json!({}))["resources"][0]["uri"], "test://one");
    assert_eq!(codex.ask("resources/subscribe", json!({ "uri": "test://one" })), json!({}));
    let mut told = codex.send("GET", "");
    let change = || {
        let params = json!({ "uri": "test://one" });
        let arguments = json!({ "method": "notifications/resources/updated", "params": params });
        call_with(http, "claude", "notify", arguments)
    };
    let mut next = || loop {
        match told.event() {
            Some(event) if event.data.is_empty() => {}
            event => return event.map(|event| event.json()["method"].clone()),
        }
    };
    change();
    while next().expect("an event") != "notifications/resources/updated" {}

    let policies = json!({ "codex": { "allowedServers": [] } });
    bench.clone().set("agentPolicies", policies).write_config();
    program.0.wait_stderr(READ);
    while next().expect("an event") != "notifications/tools/list_changed" {}
    for _ in 0..3 {
        assert_ne!(change()["isError"], true);
    }
    codex.send("DELETE", "");
    let heard: Vec<_> = std::iter::from_fn(next).collect();
    assert!(heard.iter().all(|method| method != "notifications/resources/updated"), "{heard:?}");
}

#[test]
fn tasks_are_private_if_agents_have_different_tools() {
    let task = json!({ "taskId": "t1", "status": "working" });
    let server = fake(json!({
        "tools": ["free", "secret"],
        "capabilities": { "tasks": { "list": {} } },
        "rawAnswers": { "tools/call": json!({ "task": task }).to_string() },
        "answers": { "tasks/get": task, "tasks/list": { "tasks": [task] } },
    }));
    let policies = json!({ "codex": { "toolOverrides": { "fake": ["free"] } } });
    let (_program, http) = bench(false, policies).server("box", "fake", server).http();
    let [claude, codex] = ["claude", "codex"].map(|agent| Session::begin(http, agent));
    for session in [&claude, &codex] {
        session.ask("tools/list", json!({}));
    }
    let id = json!({ "taskId": "t1" });
    let call = json!({ "name": "secret", "arguments": {}, "task": {} });
    assert_eq!(claude.ask("tools/call", call)["task"], task);
    assert_eq!(claude.ask("tasks/get", id.clone()), task);
    assert_eq!(codex.answer("tasks/get", id)["error"]["code"], -32601);
    assert_eq!(codex.ask("tasks/list", json!({}))["tasks"], json!([]));
}
