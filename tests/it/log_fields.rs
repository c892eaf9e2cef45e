//! The fields of sessions, requests, servers and tools in log lines.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Barrier;
use std::thread;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::support::http::{HttpClient, request, tool};
use crate::support::{TestEnvironment, fake};

const ANN: &str = "a-token-for-ann-012345";
const EVE: &str = "a-token-for-eve-678901";
/// Number of sessions of each agent.
const SESSIONS: u32 = 8;

/// A long result exceeds the stored bytes of a caller, which is logged.
fn bench() -> TestEnvironment {
    let limits = json!({ "maxResultBytes": 1000, "perCaller": { "maxStoredBytes": 1000 } });
    TestEnvironment::new().set("toolMode", json!("proxy")).set("limits", limits).server(
        "box",
        "srv",
        fake(json!({ "tools": ["huge", "echo"] })),
    )
}

/// Returns the value of a field, and checks that the line has it at most once.
#[track_caller]
fn field<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let key = format!(" {name}=");
    assert!(line.matches(&key).count() <= 1, "{line}");
    let (_, value) = line.split_once(&key)?;
    value.split(' ').next()
}

fn fields(line: &str) -> [Option<&str>; 4] {
    ["session_id", "request_id", "server", "tool"].map(|name| field(line, name))
}

#[test]
fn lines_of_a_call_name_its_session_request_server_and_tool() {
    let bench = bench().set("audit", json!({ "file": "audit.jsonl" }));
    let agent = bench.agent().begin(false, json!({}));
    let id = agent.send_call(
        "use_tool",
        json!({ "tool": { "toolbox": "box", "server": "srv", "tool": "huge" }, "arguments": { "bytes": 9000 } }),
    );
    agent.wait(&id).ok();
    let log = agent.wait_stderr("limit reached");
    let shown = bench.run(["logs", "--json", "box/srv"]).stdout;
    agent.close_stdin();
    agent.wait_end();
    let audit = fs::read_to_string(bench.path("audit.jsonl")).expect("the audit log");
    let records = audit.lines().map(|line| serde_json::from_str(line).expect("JSON"));
    let call = records.into_iter().find(|record: &Value| record["kind"] == "call").expect("a call");
    let session = call["session"].as_str();

    let line = |text: &str| log.lines().find(|line| line.contains(text)).expect(text);
    let server = Some("\"box/srv\"");
    let limit = line("limit reached");
    let [of_session, of_request, of_server, of_tool] = fields(limit);
    assert_eq!((of_session, of_server, of_tool), (session, server, Some("\"huge\"")));
    assert_eq!(of_request, Some(id.0.to_string().as_str()), "{limit}");
    // The server outlives the request that started it.
    assert_eq!(fields(line("server is ready")), [None, None, server, None]);
    let [of_session, of_request, of_server, of_tool] = fields(line("agent connected"));
    assert_eq!((of_session, of_server, of_tool), (session, None, None));
    assert!(of_request.is_some());

    let lines = shown.lines().map(|line| serde_json::from_str(line).expect("JSON"));
    let limit = lines.into_iter().find(|line: &Value| {
        line["text"].as_str().is_some_and(|text| text.starts_with("limit reached"))
    });
    let text = limit.expect("a line of the server")["text"].as_str().map(str::to_owned);
    let text = text.unwrap_or_default();
    assert_eq!(field(&text, "session_id"), session);
    assert_eq!([field(&text, "tool"), field(&text, "server")], [Some("\"huge\""), None]);
}

/// Opens sessions and calls a tool in each. The IDs of the requests begin at `first`.
fn work(http: HttpClient, token: &str, client: &str, first: u32, called: &str) {
    let bearer = format!("Bearer {token}");
    let own = [("Authorization", &*bearer), ("MCP-Protocol-Version", "2025-11-25")];
    for number in 0..SESSIONS {
        let name = format!("{client}-{number}");
        let params = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": { "name": name, "version": "1" },
        });
        let id = first + 2 * number;
        let answer = http.post(&own, &request(id, "initialize", params));
        let session = answer.header("mcp-session-id").expect("a session").to_owned();
        let headers = [own[0], own[1], ("Mcp-Session-Id", &session)];
        let mut params = tool("echo", json!({ "text": "x".repeat(5000), "bytes": 5000 }));
        params["arguments"]["tool"] = json!({ "toolbox": "box", "server": "srv", "tool": called });
        let answer = http.post(&headers, &request(id + 1, "tools/call", params));
        assert_eq!(answer.json()["result"]["isError"], Value::Null);
    }
}

#[test]
fn lines_of_two_agents_at_a_time_have_their_own_fields() {
    let entry = |agent: &str, token: &str| json!({ "agent": agent, "sha256": hex::encode(Sha256::digest(token.as_bytes())) });
    let bench = bench().set("auth", json!({ "tokens": [entry("ann", ANN), entry("eve", EVE)] }));
    let (program, http) = bench.http();
    let agents = [("ann", ANN, 1000, "huge"), ("eve", EVE, 2000, "echo")];
    let both = Barrier::new(agents.len());
    thread::scope(|scope| {
        for (agent, token, first, called) in agents {
            let both = &both;
            scope.spawn(move || {
                both.wait();
                work(http, token, agent, first, called);
            });
        }
    });
    let log = program.0.wait_stderr_times("limit reached", 2);
    let log: Vec<_> = log.lines().collect();
    let mut sessions = BTreeSet::new();
    for (agent, _, first, called) in agents {
        let mut of_agent = BTreeSet::new();
        for number in 0..SESSIONS {
            let client = format!("client=\"{agent}-{number}\"");
            let line = log.iter().find(|line| line.contains(&client)).expect(&client);
            let [session, request, server, tool] = fields(line);
            assert_eq!(request, Some((first + 2 * number).to_string().as_str()), "{line}");
            assert_eq!((server, tool), (None, None), "{line}");
            of_agent.insert(session.expect("a session"));
        }
        assert_eq!(of_agent.len(), SESSIONS as usize, "{log:#?}");
        let limit = log.iter().find(|line| {
            line.contains("limit reached") && line.contains(&format!("agent=\"{agent}\""))
        });
        let [session, request, server, tool] = fields(limit.expect("a reached limit"));
        assert!(session.is_some_and(|session| of_agent.contains(session)), "{log:#?}");
        let request: u32 = request.and_then(|request| request.parse().ok()).expect("a number");
        assert!((first..first + 2 * SESSIONS).contains(&request), "{log:#?}");
        assert_eq!((server, tool), (Some("\"box/srv\""), Some(&*format!("\"{called}\""))));
        sessions.extend(of_agent);
    }
    assert_eq!(sessions.len(), agents.len() * SESSIONS as usize, "{log:#?}");
}
