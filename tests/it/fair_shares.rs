//! Per-caller limits: a client that exhausts its own quota doesn't affect another client.

use std::io::{Read, Write};
use std::net::TcpStream;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::support::http::{HttpClient, HttpWorkbench, Response, request, tool};
use crate::support::{DEADLINE, TestEnvironment, fake};

const ANN: &str = "a-token-for-ann-012345";
const EVE: &str = "a-token-for-eve-678901";

fn bench(per_caller: Value) -> TestEnvironment {
    let script = json!({ "tools": ["echo", "sleep", "count", "ask"] });
    let entry = |agent: &str, token: &str| {
        let digest = Sha256::digest(token.as_bytes());
        let sha256 = hex::encode(digest);
        json!({ "agent": agent, "sha256": sha256 })
    };
    TestEnvironment::new()
        .server("box", "fake", fake(script))
        .set("toolMode", json!("proxy"))
        .set("auth", json!({ "tokens": [entry("ann", ANN), entry("eve", EVE)] }))
        .set("limits", json!({ "perCaller": per_caller }))
}

#[derive(Clone, Copy)]
struct Client {
    http: HttpClient,
    token: &'static str,
}

impl Client {
    fn post(self, headers: &[(&str, &str)], message: &Value) -> Response {
        let bearer = format!("Bearer {}", self.token);
        let own = [("Authorization", bearer.as_str()), ("MCP-Protocol-Version", "2025-11-25")];
        let headers: Vec<_> = headers.iter().copied().chain(own).collect();
        self.http.post(&headers, message)
    }

    fn initialize(self) -> Response {
        let params = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": { "name": "test-agent", "version": "1.0.0" },
        });
        self.post(&[], &request(0, "initialize", params))
    }

    fn begin(self) -> String {
        let answer = self.initialize();
        assert_eq!(answer.status, 200);
        answer.header("mcp-session-id").expect("a session").to_owned()
    }

    fn lists(self, session: &str) -> u16 {
        self.post(&[("Mcp-Session-Id", session)], &request(1, "tools/list", json!({}))).status
    }

    fn modern(self, name: &str, params: Value) -> Response {
        let bearer = format!("Bearer {}", self.token);
        let headers = [("Authorization", bearer.as_str()), ("Mcp-Name", name)];
        self.http.modern("tools/call", params, &headers)
    }
}

fn two(bench: &TestEnvironment) -> (HttpWorkbench, [Client; 2]) {
    let (program, http) = bench.http();
    (program, [ANN, EVE].map(|token| Client { http, token }))
}

fn said(http: HttpClient, text: &str) -> TcpStream {
    let mut stream = TcpStream::connect(http.0).expect("the server listens");
    stream.set_read_timeout(Some(DEADLINE)).expect("a timeout");
    stream.write_all(text.as_bytes()).expect("the server reads");
    stream
}

fn figure(http: HttpClient, name: &str) -> u64 {
    let figures = http.send("GET", "/metrics", &[], "").text();
    let line = figures.lines().find(|line| line.starts_with(name));
    let value = line.and_then(|line| line.rsplit(' ').next()?.parse().ok());
    value.unwrap_or_else(|| panic!("no {name} in\n{figures}"))
}

// invariant: limits-hit-own-caller
#[test]
fn idle_connections_do_not_block_new_clients() {
    let (_program, [ann, eve]) =
        two(&bench(json!({ "maxConnections": 8 })).set("http", json!({ "maxConnections": 12 })));
    let http = eve.http;
    // Half of them send nothing, the others the start of a request.
    let mut crowd: Vec<_> =
        (0..60).map(|number| said(http, if number % 2 == 0 { "" } else { "GET /hea" })).collect();
    assert_eq!(http.send("GET", "/health", &[], "").status, 200);
    assert_eq!(http.send("GET", "/ready", &[], "").status, 200);
    assert_eq!(ann.lists(&ann.begin()), 200);
    assert!(figure(http, "mcp_workbench_caller_usage{quota=\"connections\"}") <= 8);
    assert!(figure(http, "mcp_workbench_limits_reached_total{quota=\"connections\"}") >= 50);
    assert_eq!(crowd[0].read(&mut [0]).ok(), Some(0));
}

#[test]
fn full_connection_limit_still_answers_health_checks() {
    let (_program, [ann, eve]) = two(&bench(json!({ "maxConnections": 3 })));
    let http = eve.http;
    let params = tool("sleep", json!({ "ms": 60_000, "progressEveryMs": 20 }));
    let mut running: Vec<_> = (0..3)
        .map(|_| {
            let mut params = params.clone();
            params["_meta"]["progressToken"] = json!("mine");
            let mut stream = eve.modern("use_tool", params);
            assert!(stream.event().is_some());
            stream
        })
        .collect();
    for path in ["/health", "/ready"] {
        assert_eq!(http.send("GET", path, &[], "").status, 200);
    }
    let refused = ann.initialize();
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("2")));
    let said = refused.json()["error"]["message"].to_string();
    assert!(said.contains("limits.perCaller.maxConnections"), "{said}");
    // A crowd can't use the connections reserved for health checks.
    let crowd: Vec<_> = (0..60).map(|_| self::said(http, "GET /hea")).collect();
    assert_eq!(http.send("GET", "/health", &[], "").status, 200);
    drop(crowd);
    running.pop();
    let end = std::time::Instant::now() + DEADLINE;
    while ann.initialize().status != 200 {
        assert!(std::time::Instant::now() < end, "the freed slot was not reused");
        std::thread::yield_now();
    }
}

#[test]
fn health_listener_serves_health_and_metrics_only() {
    let (program, http) = TestEnvironment::new()
        .server("box", "fake", fake(json!({ "tools": ["echo"] })))
        .set("http", json!({ "healthListen": "127.0.0.1:0", "maxConnections": 1 }))
        .http();
    let log = program.0.wait_stderr("/metrics at http://");
    let (_, address) = log.split_once("/metrics at http://").expect("an address");
    let address = address.split_whitespace().next().and_then(|address| address.parse().ok());
    let health = HttpClient(address.expect("an address"));
    for path in ["/health", "/ready", "/metrics"] {
        assert_eq!(health.send("GET", path, &[], "").status, 200, "{path}");
    }
    assert_eq!(health.post(&[], &request(0, "ping", json!({}))).status, 404);
    assert_eq!(http.send("GET", "/health", &[], "").status, 200);
}

// invariant: limits-hit-own-caller
#[test]
fn session_flood_evicts_only_its_own_sessions() {
    let limits = json!({ "maxSessions": 5, "sessionsPerMinute": 1000 });
    let (_program, [ann, eve]) = two(&bench(limits).set("http", json!({ "maxSessions": 8 })));
    let hers = ann.begin();
    let first = eve.begin();
    for _ in 0..40 {
        eve.begin();
    }
    assert_eq!((ann.lists(&hers), eve.lists(&first)), (200, 404));
    assert_eq!(figure(eve.http, "mcp_workbench_caller_usage{quota=\"sessions\"}"), 6);
    assert_eq!(figure(eve.http, "mcp_workbench_limits_reached_total{quota=\"sessions\"}"), 36);
}

#[test]
fn new_sessions_are_rate_limited_per_caller() {
    let (_program, [ann, eve]) = two(&bench(json!({ "sessionsPerMinute": 3 })));
    let answers: Vec<_> = (0..5).map(|_| eve.initialize()).collect();
    let statuses: Vec<_> = answers.iter().map(|answer| answer.status).collect();
    assert_eq!(statuses, [200, 200, 200, 429, 429]);
    let wait = answers[3].header("retry-after").and_then(|wait| wait.parse::<u64>().ok());
    assert!(wait.is_some_and(|wait| (1..=21).contains(&wait)), "{wait:?}");
    ann.begin();
}

#[test]
fn call_flood_counts_only_against_its_caller_over_http() {
    let (_program, [ann, eve]) = two(&bench(json!({ "maxConcurrentCalls": 3 })));
    let session = eve.begin();
    let running: Vec<_> = (0..3)
        .map(|id| {
            let mut params = tool("sleep", json!({ "ms": 60_000, "progressEveryMs": 20 }));
            params["_meta"]["progressToken"] = json!(id);
            let call = request(10 + id, "tools/call", params);
            let mut stream = eve.post(&[("Mcp-Session-Id", &session)], &call);
            assert!(stream.event().is_some());
            stream
        })
        .collect();
    // The limit covers all sessions and both eras.
    let answer = eve.modern("use_tool", tool("echo", json!({}))).json();
    assert_eq!(answer["result"]["isError"], true);
    let text = answer["result"]["content"][0]["text"].as_str().expect("a text");
    assert_eq!(
        text,
        "`use_tool` was not called: agent `eve` has reached its limit of 3 concurrent calls \
         (`limits.perCaller.maxConcurrentCalls`).\nWhat to do: wait for running calls to finish, \
         then retry.",
    );
    let listed =
        eve.post(&[("Mcp-Session-Id", &eve.begin())], &request(1, "tools/list", json!({})));
    assert_eq!(listed.json()["error"]["code"], -32000);
    let pong = eve.post(&[("Mcp-Session-Id", &session)], &request(2, "ping", json!({})));
    assert_eq!(pong.json()["result"], json!({}));
    assert_eq!(figure(eve.http, "mcp_workbench_caller_usage{quota=\"calls\"}"), 3);
    let answer = ann.modern("use_tool", tool("echo", json!({ "n": 1 }))).json();
    assert_eq!(answer["result"]["structuredContent"], json!({ "n": 1 }));
    drop(running);
}

#[test]
fn call_flood_is_rejected_over_stdio() {
    let agent = bench(json!({ "maxConcurrentCalls": 3 })).agent().begin(false, json!({}));
    let path = ["box", "fake", "sleep"];
    let long = json!({
        "tool": { "toolbox": path[0], "server": path[1], "tool": path[2] },
        "arguments": { "ms": 60_000, "progressEveryMs": 10 },
    });
    let running: Vec<_> = (0..3).map(|_| agent.send_call("use_tool", long.clone())).collect();
    for call in &running {
        agent.wait_progress(call, 1);
    }
    let refused = agent.use_tool(["box", "fake", "echo"], json!({}));
    assert!(refused.is_tool_error());
    assert!(
        refused.text().contains("the agent has reached its limit of 3 concurrent calls"),
        "{}",
        refused.text()
    );
    agent.request("ping", json!({})).ok();
    agent.cancel(&running[0]);
    let end = std::time::Instant::now() + DEADLINE;
    while agent.use_tool(["box", "fake", "echo"], json!({})).is_tool_error() {
        assert!(std::time::Instant::now() < end, "the freed slot was not reused");
    }
    agent.cancel(&running[1]);
    agent.cancel(&running[2]);
}

// invariant: limits-hit-own-caller
#[test]
fn pending_confirmations_are_evicted_per_caller() {
    let bench = bench(json!({ "maxInputRequests": 3 })).set("dangerousTools", json!(["echo"]));
    let (_program, [ann, eve]) = two(&bench);
    let asking = |client: Client, state: Option<&Value>| {
        let mut params = tool("echo", json!({ "n": 1 }));
        params["_meta"] = json!({
            "io.modelcontextprotocol/clientCapabilities": { "elicitation": {} },
        });
        if let Some(state) = state {
            params["requestState"] = state.clone();
            params["inputResponses"] = json!({ "question": { "action": "accept", "content": {} } });
        }
        client.modern("use_tool", params).json()
    };
    let hers = asking(ann, None)["result"]["requestState"].clone();
    let his: Vec<_> =
        (0..10).map(|_| asking(eve, None)["result"]["requestState"].clone()).collect();
    assert_eq!(figure(ann.http, "mcp_workbench_caller_usage{quota=\"input_requests\"}"), 4);
    assert_eq!(figure(ann.http, "mcp_workbench_limits_reached_total{quota=\"input_requests\"}"), 7);
    let answer = asking(ann, Some(&hers));
    assert_eq!(answer["result"]["structuredContent"], json!({ "n": 1 }), "{answer}");
    assert_eq!(asking(eve, Some(&his[0]))["error"]["code"], -32602);
    let answer = asking(eve, Some(&his[9]));
    assert_eq!(answer["result"]["structuredContent"], json!({ "n": 1 }), "{answer}");
}

#[test]
fn calls_with_endless_progress_time_out_and_release_slots() {
    let mut entry = fake(json!({ "tools": ["echo", "sleep"] }));
    entry["totalCallTimeoutMs"] = json!(700);
    let bench = bench(json!({})).server("box", "fake", entry);
    let bench = bench.set("limits", json!({ "maxConcurrentCalls": 2, "maxWaitMs": 60_000 }));
    let (_program, [ann, eve]) = two(&bench);
    let endless: Vec<_> = (0..2)
        .map(|_| {
            let mut params = tool("sleep", json!({ "ms": 60_000, "progressEveryMs": 10 }));
            params["_meta"]["progressToken"] = json!("mine");
            let mut stream = eve.modern("use_tool", params);
            assert!(stream.event().is_some());
            stream
        })
        .collect();
    let answer = ann.modern("use_tool", tool("echo", json!({ "n": 1 }))).json();
    assert_eq!(answer["result"]["structuredContent"], json!({ "n": 1 }));
    for stream in endless {
        let last = stream.messages().pop().expect("an answer");
        let text = last["result"]["content"][0]["text"].as_str().unwrap_or_default().to_owned();
        assert!(text.contains("no response within 700 ms in total"), "{last}");
    }
}

#[test]
fn process_limit_is_reported_and_affects_only_its_caller() {
    let mut apart = fake(json!({ "tools": ["pid"] }));
    apart["isolation"] = json!("session");
    let bench = bench(json!({ "maxProcesses": 2 })).server("box", "apart", apart);
    let bench = bench.set("audit", json!({ "file": "audit.jsonl" }));
    let (program, [ann, eve]) = two(&bench);
    let call = |client: Client, session: &str, name: &str, arguments: Value| {
        let params = json!({ "name": name, "arguments": arguments });
        let headers = [("Mcp-Session-Id", session)];
        let result = client.post(&headers, &request(1, "tools/call", params)).last();
        let text = result["result"]["content"][0]["text"].as_str().expect("a text").to_owned();
        (result["result"]["isError"] == true, text)
    };
    let pid = |client: Client, session: &str| {
        let tool = json!({ "toolbox": "box", "server": "apart", "tool": "pid" });
        call(client, session, "use_tool", json!({ "tool": tool, "arguments": {} }))
    };
    let sessions = [(); 3].map(|()| eve.begin());
    assert!(!pid(eve, &sessions[0]).0 && !pid(eve, &sessions[1]).0);
    let limit = "agent `eve` already has 2 server processes of its own, the maximum \
                 (`limits.perCaller.maxProcesses`)";
    let (is_error, text) = pid(eve, &sessions[2]);
    assert!(is_error && text.contains(limit) && text.contains("end unused sessions"), "{text}");
    let (is_error, text) = call(eve, &sessions[2], "open_toolbox", json!({ "toolbox": "box" }));
    assert!(!is_error && text.contains(limit) && text.contains("\"echo\""), "{text}");
    assert!(!pid(eve, &sessions[1]).0 && !pid(ann, &ann.begin()).0);
    assert_eq!(figure(ann.http, "mcp_workbench_caller_usage{quota=\"processes\"}"), 3);
    assert!(figure(ann.http, "mcp_workbench_limits_reached_total{quota=\"processes\"}") >= 2);
    let bearer = format!("Bearer {EVE}");
    let headers = [("Authorization", bearer.as_str()), ("Mcp-Session-Id", &sessions[0])];
    assert_eq!(eve.http.send("DELETE", "/mcp", &headers, "").status, 204);
    let end = std::time::Instant::now() + DEADLINE;
    while pid(eve, &sessions[2]).0 {
        assert!(std::time::Instant::now() < end, "the freed slot was not reused");
    }
    program.0.signal(rustix::process::Signal::TERM);
    program.0.wait_exit(DEADLINE);
    let text = std::fs::read_to_string(bench.path("audit.jsonl")).expect("the audit");
    let records = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let reached: Vec<_> = records
        .filter(|record| record["kind"] == "limit")
        .map(|record| (record["agent"].clone(), record["quota"].clone()))
        .collect();
    assert_eq!(reached.first(), Some(&(json!("eve"), json!("processes"))), "{text}");
}

#[test]
fn raises_the_file_limit_and_warns_if_it_is_low() {
    let bench = bench(json!({}));
    let mut command = crate::support::command("sh");
    command.args(["-c", "ulimit -Sn 100; ulimit -Hn 300; exec \"$@\"", "sh"]);
    let serve = bench.serve();
    command.arg(serve.get_program()).args(serve.get_args()).args(["--http", "127.0.0.1:0"]);
    command.env_clear().envs(serve.get_envs().filter_map(|(key, value)| Some((key, value?))));
    command.current_dir(bench.dir());
    let program = HttpWorkbench(crate::support::Agent::start(command));
    program.0.wait_stderr("the open-file limit of 300 allows at most 150 connections");
}

#[test]
fn rejected_tokens_are_audited_in_aggregate() {
    let bench = bench(json!({})).set("audit", json!({ "file": "audit.jsonl" }));
    let (program, [ann, eve]) = two(&bench);
    for _ in 0..22 {
        let wrong = ("Authorization", "Bearer a-token-that-nobody-has");
        assert_eq!(eve.http.post(&[wrong], &request(1, "ping", json!({}))).status, 401);
    }
    assert_eq!(eve.http.post(&[], &request(1, "ping", json!({}))).status, 401);
    for value in ["Bearer", "Bearer no token", "Bearer \"quoted\""] {
        let malformed = eve.http.post(&[("Authorization", value)], &request(1, "ping", json!({})));
        assert_eq!(malformed.status, 400, "{value}");
    }
    ann.modern("use_tool", tool("echo", json!({}))).json();
    program.0.signal(rustix::process::Signal::TERM);
    program.0.wait_exit(DEADLINE);
    let text = std::fs::read_to_string(bench.path("audit.jsonl")).expect("the audit");
    let records: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let denied: Vec<_> = records
        .iter()
        .filter(|record| record["kind"] == "denied")
        .map(|record| {
            assert_eq!(record["address"], "127.0.0.1");
            (record["reason"].as_str().unwrap_or_default(), record["times"].as_u64().unwrap_or(0))
        })
        .collect();
    // The first of each kind is written immediately, the others are counted together.
    let (first, others) = denied.split_at(3);
    assert_eq!(first, [("invalid_token", 1), ("no_token", 1), ("malformed_token", 1)]);
    let others: std::collections::BTreeMap<_, _> = others.iter().copied().collect();
    assert_eq!(others, [("invalid_token", 21), ("malformed_token", 2)].into());
    let said = ["nobody-has", "no token", "quoted"];
    assert!(!said.iter().any(|said| text.contains(said)), "the log file contains a token");
}

/// Limits messages to 1 MiB and every byte pool to its minimum.
fn little_room(bench: TestEnvironment) -> TestEnvironment {
    bench.set("limits", json!({ "maxMessageBytes": 1_048_576, "maxBytesInFlight": 6_700_000 }))
}

const LITTLE: u64 = 6_700_000;
const BYTES: &str = "mcp_workbench_caller_usage{quota=\"bytes\"}";

// invariant: limits-hit-own-caller
#[test]
fn unfinished_bodies_do_not_starve_other_requests() {
    let bench = little_room(bench(json!({})));
    let (_program, [ann, eve]) = two(&bench);
    let half = "x".repeat(900_000);
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Accept: application/json\r\nAuthorization: Bearer {EVE}\r\nContent-Length: 1000000\r\n\r\n"
    );
    let crowd: Vec<_> = (0..40)
        .map(|_| {
            let mut stream = said(eve.http, &head);
            let timeout = std::time::Duration::from_millis(20);
            stream.set_write_timeout(Some(timeout)).expect("a timeout");
            // The write blocks once the quota is used up.
            let _ = stream.write_all(half.as_bytes());
            stream
        })
        .collect();
    // Its share of the common pool, plus one message of maximum length once that is read.
    let end = std::time::Instant::now() + DEADLINE;
    let held = loop {
        let held = figure(ann.http, BYTES);
        if held >= 500_000 || std::time::Instant::now() > end {
            break held;
        }
    };
    assert!((500_000..=LITTLE / 3).contains(&held), "{held}");
    let long = "y".repeat(500_000);
    for _ in 0..3 {
        let answer = ann.modern("use_tool", tool("echo", json!({ "text": long }))).json();
        assert_eq!(answer["result"]["structuredContent"]["text"], json!(long));
    }
    drop(crowd);
}

#[test]
fn responses_beyond_the_byte_limit_wait_for_each_other() {
    let bench = little_room(bench(json!({})));
    let (_program, [ann, eve]) = two(&bench);
    let text = |number: usize| format!("{number} {}", "z".repeat(200_000));
    let calls: Vec<_> = (0..50)
        .map(|number| {
            let client = [ann, eve][number % 2];
            let params = tool("echo", json!({ "text": text(number) }));
            std::thread::spawn(move || client.modern("use_tool", params).json())
        })
        .collect();
    let mut most = 0;
    while !calls.iter().all(std::thread::JoinHandle::is_finished) {
        most = most.max(figure(ann.http, BYTES));
    }
    assert!((200_000..=LITTLE).contains(&most), "{most}");
    for (number, call) in calls.into_iter().enumerate() {
        let answer = call.join().expect("an answer");
        assert_eq!(answer["result"]["structuredContent"]["text"], json!(text(number)));
    }
    assert_eq!(figure(ann.http, BYTES), 0);
}

#[test]
fn long_responses_are_complete_over_stdio() {
    let agent = little_room(bench(json!({}))).agent().begin(false, json!({}));
    let text = |number: usize| format!("{number} {}", "z".repeat(400_000));
    let calls: Vec<_> = (0..12)
        .map(|number| {
            let path = json!({ "toolbox": "box", "server": "fake", "tool": "echo" });
            let arguments = json!({ "tool": path, "arguments": { "text": text(number) } });
            agent.send_call("use_tool", arguments)
        })
        .collect();
    for (number, call) in calls.iter().enumerate() {
        assert_eq!(agent.wait(call).structured()["text"], json!(text(number)));
    }
}
