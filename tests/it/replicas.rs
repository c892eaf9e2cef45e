//! Several workbenches with a shared store, behind a proxy or addressed directly: sessions survive
//! the loss of their workbench.

#[path = "../../benches/load/agent.rs"]
mod agent;
#[path = "../../benches/load/fleet.rs"]
pub(crate) mod fleet;

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::support::http::{HttpClient, Response, Session, request};
use crate::support::test_environment::{TOKEN_OF_ANN, TOKEN_OF_BOB};
use crate::support::{DEADLINE, TestEnvironment, fake};
use agent::{Line, Step, StepError};
use fleet::{Fleet, Process, Proxy, wait_until};

const PROGRAM: &str = env!("CARGO_BIN_EXE_mcp-workbench");

fn sha256(token: &str) -> String {
    let digest = Sha256::digest(token);
    hex::encode(digest)
}

fn config(mode: &str, script: Value) -> Value {
    let toolbox = json!({ "description": "All tools", "mcpServers": { "srv": fake(script) } });
    json!({ "toolMode": mode, "toolboxes": { "box": toolbox } })
}

fn several(count: usize, proxy: Proxy, config: &Value) -> Fleet {
    Fleet::start(PROGRAM, count, proxy, |_| config.clone())
}

/// The same session, with requests going to another workbench.
fn at(replica: &Process, session: &Session) -> Session {
    Session { http: HttpClient(replica.address), id: session.id.clone() }
}

fn open(session: &Session) -> Value {
    let params = json!({ "name": "open_toolbox", "arguments": { "toolbox_name": "box" } });
    session.post(&request(1, "tools/call", params)).last()
}

fn tool_names(session: &Session) -> Vec<String> {
    let listed = session.post(&request(2, "tools/list", json!({}))).last();
    let tools = listed["result"]["tools"].as_array().cloned().unwrap_or_default();
    tools.iter().map(|tool| tool["name"].as_str().unwrap_or_default().to_owned()).collect()
}

fn figure(replica: &Process, name: &str) -> Option<f64> {
    let text = HttpClient(replica.address).send("GET", "/metrics", &[], "").text();
    let line = text.lines().find(|line| line.starts_with(name))?;
    line.rsplit_once(' ')?.1.parse().ok()
}

#[test]
fn session_moves_with_its_open_toolboxes() {
    let config = config("dynamic", json!({ "tools": ["echo", "add"] }));
    let fleet = several(2, Proxy::Haproxy, &config);
    let [first, second] = [&fleet.replicas[0], &fleet.replicas[1]];
    let session = Session::begin(HttpClient(first.address));
    let few = tool_names(&session);
    open(&session);
    let all = tool_names(&session);
    assert!(all.len() > few.len(), "{all:?}");

    first.signal("KILL");
    let moved = at(second, &session);
    assert_eq!(tool_names(&moved), all);
    let params = json!({ "name": "box__srv__echo", "arguments": { "text": "still here" } });
    let answer = moved.post(&request(3, "tools/call", params)).last();
    assert_eq!(answer["result"]["structuredContent"]["text"], "still here", "{answer}");
    assert_eq!(figure(second, "mcp_workbench_sessions_adopted_total"), Some(1.0));

    assert_eq!(moved.http.send("DELETE", "/mcp", &moved.headers(), "").status, 204);
    assert_eq!(moved.post(&request(4, "ping", json!({}))).status, 404);
}

#[test]
fn replicas_reject_sessions_of_other_callers() {
    let mut config = config("proxy", json!({ "tools": ["echo"] }));
    config["auth"] = json!({ "tokens": [
        { "agent": "ann", "sha256": sha256(TOKEN_OF_ANN) },
        { "agent": "bob", "sha256": sha256(TOKEN_OF_BOB) },
    ] });
    let fleet = several(3, Proxy::Haproxy, &config);
    let ask = |replica: &Process, token: &str, id: Option<&str>, method: &str, params: Value| {
        let bearer = format!("Bearer {token}");
        let mut headers = vec![("Authorization", bearer.as_str())];
        if let Some(id) = id {
            headers.extend([("Mcp-Session-Id", id), ("MCP-Protocol-Version", "2025-11-25")]);
        }
        HttpClient(replica.address).post(&headers, &request(1, method, params))
    };
    let params = json!({
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": { "name": "test-agent", "version": "1.0.0" },
    });
    let begun = ask(&fleet.replicas[0], TOKEN_OF_ANN, None, "initialize", params);
    let id = begun.header("mcp-session-id").expect("a session").to_owned();
    let seen = |answer: Response| (answer.status, answer.last()["error"].clone());
    for replica in &fleet.replicas {
        let foreign = seen(ask(replica, TOKEN_OF_BOB, Some(&id), "tools/list", json!({})));
        let unknown =
            seen(ask(replica, TOKEN_OF_BOB, Some(&"0".repeat(32)), "tools/list", json!({})));
        assert_eq!(foreign.0, 404);
        assert_eq!(foreign, unknown, "another agent's session looks like an unknown one");
    }
    for replica in &fleet.replicas {
        let own = ask(replica, TOKEN_OF_ANN, Some(&id), "tools/list", json!({}));
        assert_eq!(own.status, 200, "the owner's session still works");
    }
}

/// Drives agents around `meanwhile`. Returns the number of steps and the failures.
fn drive(fleet: &Fleet, meanwhile: impl FnOnce(&AtomicUsize)) -> (usize, Vec<StepError>) {
    const LINES: usize = 6;
    let address = fleet.proxy.address;
    let (taken, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        let drive = || {
            let mut line = Line::to(address);
            let mut sessions: Vec<_> =
                (0..6).map(|_| agent::Session::begin(&mut line).expect("a session")).collect();
            let mut failed = Vec::new();
            while !is_over.load(Ordering::SeqCst) {
                for session in &mut sessions {
                    failed.extend(session.next(&mut line).err());
                    taken.fetch_add(1, Ordering::SeqCst);
                }
            }
            for session in &mut sessions {
                session.take(Step::List, &mut line).expect("a working session");
            }
            failed
        };
        let driven: Vec<_> = (0..LINES).map(|_| scope.spawn(drive)).collect();
        wait_until("the agents make calls", || taken.load(Ordering::SeqCst) > 200);
        meanwhile(&taken);
        let then = taken.load(Ordering::SeqCst);
        wait_until("the agents continue", || taken.load(Ordering::SeqCst) > then + 200);
        is_over.store(true, Ordering::SeqCst);
        let failed = driven
            .into_iter()
            .flat_map(|one| one.join().expect("a thread without panics"))
            .collect();
        (taken.load(Ordering::SeqCst), failed)
    })
}

#[test]
fn killed_workbench_loses_calls_in_flight_but_no_session() {
    for proxy in [Proxy::Haproxy, Proxy::Nginx] {
        let fleet = several(3, proxy, &config("proxy", json!({ "tools": ["echo"] })));
        let (taken, failed) = drive(&fleet, |_| fleet.replicas[0].signal("KILL"));
        // Each of the six lines can lose one call in flight and one more on a connection that the
        // proxy kept open.
        assert!(failed.len() <= 12, "{proxy:?}: {} of {taken}: {failed:?}", failed.len());
    }
}

#[test]
fn draining_workbench_loses_no_call() {
    let config = config("proxy", json!({ "tools": ["echo"] }));
    let mut fleet = several(3, Proxy::Haproxy, &config);
    let (taken, failed) = drive(&fleet, |_| fleet.replicas[0].signal("TERM"));
    assert!(failed.is_empty(), "{} of {taken}: {failed:?}", failed.len());
    assert!(fleet.replicas[0].ends_within(DEADLINE));
}

#[test]
fn call_rate_is_shared_by_all_workbenches() {
    let mut config = config("proxy", json!({ "tools": ["echo"] }));
    config["limits"] = json!({ "perAgent": { "callsPerMinute": 30 }, "maxWaitMs": 0 });
    let fleet = several(3, Proxy::Haproxy, &config);
    let sessions: Vec<Session> =
        fleet.replicas.iter().map(|replica| Session::begin(HttpClient(replica.address))).collect();
    let path = json!({ "toolbox": "box", "server": "srv", "tool": "echo" });
    let params =
        json!({ "name": "use_tool", "arguments": { "tool": path, "arguments": { "text": "x" } } });
    let is_done = |n: usize| {
        let answer = sessions[n % 3].post(&request(1, "tools/call", params.clone())).last();
        answer["result"]["isError"] != true
    };
    assert_eq!((0..40).filter(|n| is_done(*n)).count(), 30);
}

#[test]
fn local_sessions_survive_the_loss_of_the_store() {
    let config = config("dynamic", json!({ "tools": ["echo"] }));
    let mut fleet = several(2, Proxy::Haproxy, &config);
    let [here, there] = [0, 1].map(|n| HttpClient(fleet.replicas[n].address));
    let session = Session::begin(here);
    let other = Session::begin(here);
    open(&session);
    let all = tool_names(&session);
    for trouble in ["CLIENT PAUSE 600000 ALL", "SHUTDOWN NOSAVE"] {
        fleet.ask_store(trouble);
        assert_eq!(tool_names(&session), all, "{trouble}");
        open(&other);
        assert_eq!(tool_names(&other), all, "{trouble}");
        let new = Session::begin(here);
        open(&new);
        assert_eq!(tool_names(&new), all, "{trouble}");
        // Workbenches that don't know the session return 404, and the client starts a new one.
        let lost = Session { http: there, id: session.id.clone() };
        assert_eq!(lost.post(&request(1, "ping", json!({}))).status, 404, "{trouble}");
        for replica in &fleet.replicas {
            wait_until("the metric reports that the store is down", || {
                figure(replica, "mcp_workbench_shared_store_up") == Some(0.0)
            });
            assert_eq!(HttpClient(replica.address).send("GET", "/ready", &[], "").status, 200);
        }
        fleet.restart_store();
        wait_until("the metric reports that the store is up", || {
            let up = |replica| figure(replica, "mcp_workbench_shared_store_up") == Some(1.0);
            fleet.replicas.iter().all(up)
        });
    }
    // The restarted store is empty; new sessions are shared again.
    let new = Session::begin(here);
    open(&new);
    assert_eq!(tool_names(&at(&fleet.replicas[1], &new)), all);
    fleet.ask_store("FLUSHALL");
    assert_eq!(tool_names(&at(&fleet.replicas[1], &new)), all, "the workbench caches the session");
}

#[test]
fn missing_affinity_duplicates_no_call_and_is_logged() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("requests");
    let script = json!({ "tools": ["echo", "sleep"], "requestFile": file });
    let fleet = several(3, Proxy::RoundRobin, &config("proxy", script));
    let session = Session::begin(HttpClient(fleet.proxy.address));
    let path = json!({ "toolbox": "box", "server": "srv", "tool": "echo" });
    let params =
        json!({ "name": "use_tool", "arguments": { "tool": path, "arguments": { "text": "x" } } });
    let is_done = |n: u32| {
        let answer = session.post(&request(n, "tools/call", params.clone()));
        let is_there = answer.status == 200;
        is_there && answer.last()["result"]["structuredContent"]["text"] == "x"
    };
    let done = (0..30).filter(|n| is_done(*n)).count();
    let counted = fs::read_to_string(&file).expect("a file with one line per request");
    let counted = counted.lines().filter(|line| *line == "tools/call").count();
    assert_eq!(counted, done);
    wait_until("a log recommends session affinity", || {
        fleet.replicas.iter().any(|replica| replica.log().contains("enable session affinity"))
    });
}

#[test]
fn differing_configurations_are_logged() {
    let with = |tool: &str| config("dynamic", json!({ "tools": [tool] }));
    let fleet = Fleet::start(PROGRAM, 2, Proxy::Haproxy, |n| with(["echo", "add"][n]));
    let session = Session::begin(HttpClient(fleet.replicas[0].address));
    open(&session);
    assert!(tool_names(&session).contains(&"box__srv__echo".to_owned()));
    let moved = at(&fleet.replicas[1], &session);
    assert!(tool_names(&moved).contains(&"box__srv__add".to_owned()), "{:?}", tool_names(&moved));
    wait_until("the log reports different configurations", || {
        fleet.replicas[1].log().contains("configuration")
    });
}

#[test]
fn later_workbench_adopts_existing_sessions() {
    let config = config("dynamic", json!({ "tools": ["echo"] }));
    let fleet = several(1, Proxy::Haproxy, &config);
    let session = Session::begin(HttpClient(fleet.replicas[0].address));
    open(&session);
    let all = tool_names(&session);
    let late = fleet.one_more(&config);
    fleet.replicas[0].signal("KILL");
    assert_eq!(tool_names(&at(&late, &session)), all);
}

#[test]
fn check_connects_to_the_store_and_reports_failures() {
    let mut fleet = several(1, Proxy::Haproxy, &config("dynamic", json!({ "tools": ["echo"] })));
    let url = format!("redis://:hunter2@{}", fleet.store.address);
    let bench = |url: &str| {
        let server = fake(json!({ "tools": ["echo"] }));
        TestEnvironment::new()
            .server("box", "srv", server)
            .set("sharedStore", json!({ "url": url }))
    };
    let open = bench(&format!("redis://{}", fleet.store.address));
    let tried = open.run(["check", "--connect"]);
    assert_eq!(tried.code, Some(0), "{tried}");
    assert!(tried.stdout.contains(", Redis ") && tried.stdout.contains(" ms latency"), "{tried}");
    // A password for a store that requires none.
    let refused = bench(&url).run(["check", "--connect"]);
    assert_eq!(refused.code, Some(1), "{refused}");
    assert!(refused.stderr.contains("shared store redis://"), "{refused}");
    assert!(!format!("{refused}").contains("hunter2"), "{refused}");
    assert_eq!(
        bench(&url).run(["check"]).code,
        Some(0),
        "`check` without --connect contacted the store"
    );
    fleet.store.signal("KILL");
    assert!(fleet.store.ends_within(DEADLINE));
    let gone = open.run(["check", "--connect"]);
    assert_eq!(gone.code, Some(1), "{gone}");
    assert!(gone.stderr.contains("`sharedStore.url` is correct"), "{gone}");
}
