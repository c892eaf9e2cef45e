//! Process sharing between agents, and the isolation of their messages, logs and tasks.

use pretty_assertions::{assert_eq, assert_ne};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::support::process::StartedProcesses;
use crate::support::{Agent, TestEnvironment, fake};

fn first(has_roots: bool) -> Agent {
    first_of(&bench(has_roots))
}

fn first_of(bench: &TestEnvironment) -> Agent {
    Agent::over_http(bench.http())
}

fn bench(has_roots: bool) -> TestEnvironment {
    let bench = TestEnvironment::new();
    let mut server = fake(json!({
        "tools": ["ask", "pid", "notify"],
        "capabilities": { "logging": {} },
        "pidFile": bench.path_text("pids"),
    }));
    if has_roots {
        server["roots"] = true.into();
    }
    bench.server("box", "srv", server)
}

fn working_in(agent: Agent, uri: &str) -> Agent {
    agent
        .relisting_on_change()
        .with_reply("roots/list", json!({ "roots": [{ "uri": uri }] }))
        .begin(false, json!({ "roots": {} }))
}

fn process(agent: &Agent) -> Value {
    agent.call("box__srv__pid", json!({})).structured()["pid"].clone()
}

fn roots(agent: &Agent) -> Value {
    let asked = agent.call("box__srv__ask", json!({ "method": "roots/list" })).structured();
    asked["result"]["roots"][0]["uri"].clone()
}

#[test]
fn serves_agents_with_different_roots() {
    let agent = working_in(first(false), "file:///a");
    agent.open("box").ok();
    let other = agent.beside().begin(false, json!({}));
    assert!(process(&other).is_number());
    assert!(process(&agent).is_number());
}

// invariant: sharing-needs-equality
#[test]
fn agents_with_equivalent_capabilities_share_a_process() {
    let bench = bench(false);
    let odd = json!({ "example.com/odd": { "version": 7 } });
    let spellings = [
        json!({ "sampling": {}, "elicitation": {} }),
        json!({ "elicitation": {}, "sampling": {} }),
        json!({ "sampling": { "odd": 1 }, "elicitation": { "form": {} } }),
        json!({ "sampling": {}, "elicitation": {}, "roots": { "listChanged": true } }),
        json!({ "sampling": {}, "elicitation": {}, "experimental": odd, "extensions": odd }),
    ];
    let first = first_of(&bench).begin(false, spellings[0].clone());
    let shared = process(&first);
    let others: Vec<Agent> =
        spellings.into_iter().map(|said| first.beside().begin(false, said)).collect();
    for other in &others {
        assert_eq!(process(other), shared);
    }
    let started = || StartedProcesses::read(bench.path("pids")).servers.len();
    assert_eq!(started(), 1);
    let other = first.beside().begin(false, json!({ "elicitation": {} }));
    assert_ne!(process(&other), shared, "clients without sampling get their own process");
    assert_eq!(started(), 2);
}

#[test]
fn agents_with_different_roots_get_separate_processes() {
    let bench = bench(true);
    let opens = working_in(first_of(&bench), "file:///opens");
    opens.open("box").ok();
    let opened = StartedProcesses::read(bench.path("pids")).servers;
    let calls = working_in(opens.beside(), "file:///calls");
    assert_eq!(roots(&calls), "file:///calls");
    assert_eq!(roots(&opens), "file:///opens");
    assert_ne!(process(&calls), process(&opens));
    assert_eq!([process(&opens)], opened[..], "the agent does not use the process started for it");
}

#[test]
fn does_not_reuse_the_process_of_a_departed_agent() {
    let agent = working_in(first(true), "file:///before");
    assert_eq!(roots(&agent), "file:///before");
    let before = process(&agent);
    agent.leave();
    let next = working_in(agent.beside(), "file:///after");
    assert_ne!(process(&next), before);
    assert_eq!(roots(&next), "file:///after");
}

#[test]
fn log_messages_of_a_process_reach_only_its_agent() {
    let say = |agent: &Agent, data: &str| {
        let params = json!({ "level": "error", "data": data });
        let log = json!({ "method": "notifications/message", "params": params });
        agent.call("box__srv__notify", log).ok();
        agent.next_notification("notifications/message")["data"].clone()
    };
    let agent = working_in(first(true), "file:///a");
    assert_eq!(say(&agent, "here"), "here");
    let other = working_in(agent.beside(), "file:///b");
    other.open("box").ok();
    assert_eq!(say(&agent, "a secret"), "a secret");
    assert_eq!(say(&other, "there"), "there");
    assert!(!other.transcript().concat().contains("a secret"));
}

const ANN: &str = "a-token-for-ann-0123";
const BOB: &str = "a-token-for-bob-4567";
/// Text of ann that no other agent may see.
const MARK: &str = "anns-own-business";

fn entry(agent: &str, token: &str) -> Value {
    let digest = Sha256::digest(token.as_bytes());
    let sha256 = hex::encode(digest);
    json!({ "agent": agent, "sha256": sha256 })
}

/// Two agents with tokens and equal permissions on one server.
fn ann_and_bob(script: Value, begin: impl Fn(Agent) -> Agent) -> (Agent, Agent) {
    let tokens = json!({ "tokens": [entry("ann", ANN), entry("bob", BOB)] });
    let bench = TestEnvironment::new().server("box", "srv", fake(script)).set("auth", tokens);
    let ann = Agent::over_http_with(bench.http(), ANN);
    let bob = ann.beside_with(BOB);
    (begin(ann), begin(bob))
}

fn legacy(agent: Agent) -> Agent {
    let agent = agent.begin(false, json!({}));
    agent.open("box").ok();
    agent
}

fn talkative() -> Value {
    json!({ "tools": ["notify", "crash", "echo", "sleep"], "capabilities": { "logging": {} } })
}

fn notify(agent: &Agent, method: &str, data: &str) {
    let params = json!({ "level": "error", "data": data });
    agent.call("box__srv__notify", json!({ "method": method, "params": params })).ok();
}

// invariant: no-cross-agent-output
#[test]
fn unattributable_notifications_are_logged_not_forwarded() {
    let (ann, bob) = ann_and_bob(talkative(), legacy);
    let methods = ["notifications/message", "notifications/unheard/of"];
    for method in methods {
        notify(&ann, method, "for a sole user");
        assert_eq!(
            ann.next_notification(method)["data"],
            "for a sole user",
            "the sole user gets the notification"
        );
    }
    let before = bob.notifications().len();
    bob.call("box__srv__echo", json!({})).ok();
    // A running call could make bob the recipient of unattributed notifications.
    let running = bob.send_call("box__srv__sleep", json!({ "ms": 300 }));
    for method in methods {
        notify(&ann, method, MARK);
    }
    bob.wait(&running).ok();
    notify(&ann, methods[0], MARK);
    assert_eq!(bob.notifications().len(), before);
    assert!(!bob.transcript().concat().contains(MARK));
    let log = ann.program().wait_stderr_times(MARK, 3);
    assert_eq!(log.matches(MARK).count(), 3, "the log lacks notifications: {log}");
    assert_eq!(log.matches(r#"set `"isolation": "session"`"#).count(), 1, "{log}");
}

#[test]
fn unnamed_sessions_are_separate_agents() {
    let bench = TestEnvironment::new().server("box", "srv", fake(talkative()));
    let one = legacy(Agent::over_http(bench.http()));
    let other = legacy(one.beside());
    other.call("box__srv__echo", json!({})).ok();
    notify(&one, "notifications/message", MARK);
    other.call("box__srv__echo", json!({})).ok();
    assert!(!other.transcript().concat().contains(MARK));
}

// invariant: no-cross-agent-output
#[test]
fn crash_stderr_is_shown_only_to_a_sole_user() {
    let (ann, bob) = ann_and_bob(talkative(), legacy);
    let crash = |agent: &Agent| {
        let said = json!({ "stderr": [format!("it was about {MARK}")] });
        agent.call("box__srv__crash", said).text()
    };
    assert!(crash(&ann).contains(MARK), "Ann is the only user");
    ann.call("box__srv__echo", json!({})).ok();
    let told = crash(&bob);
    assert!(!told.contains(MARK), "{told}");
    assert!(told.contains("its stderr is in the workbench log"), "{told}");
    assert!(crash(&bob).contains(MARK), "Bob is the only user");
    bob.program().wait_stderr_times(MARK, 3);
}

#[test]
fn startup_error_is_shown_only_to_the_opening_agent() {
    let script = json!({ "failStart": { "stderr": [MARK] } });
    let begin = |agent: Agent| agent.begin(false, json!({}));
    let (ann, bob) = ann_and_bob(script, begin);
    let told = ann.open("box").text();
    assert!(told.contains(MARK), "{told}");
    let listed = bob.request("tools/list", json!({})).ok().to_string();
    assert!(!listed.contains(MARK), "{listed}");
}

/// A server with fixed task IDs (`begin`: t-1, `again`: t-2) that lists all tasks to every client.
fn with_tasks() -> Value {
    let task = json!({ "taskId": "t-1", "status": "working", "statusMessage": MARK,
        "createdAt": "2026-01-01T00:00:00Z", "ttl": null });
    let other = json!({ "taskId": "t-2", "status": "working", "statusMessage": "bobs" });
    json!({
        "tools": ["begin", "again"],
        "capabilities": { "tasks": { "list": {}, "cancel": {} } },
        "behavior": {
            "begin": { "result": { "raw": json!({ "task": task }).to_string() } },
            "again": { "result": { "raw": json!({ "task": other }).to_string() } },
        },
        "answers": {
            "tasks/get": task,
            "tasks/result": { "content": [{ "type": "text", "text": MARK }] },
            "tasks/cancel": task,
            "tasks/list": { "tasks": [task, other], "nextCursor": null },
        },
    })
}

// invariant: caller-owns-state
#[test]
fn tasks_are_visible_only_to_their_creator() {
    let (ann, bob) = ann_and_bob(with_tasks(), legacy);
    let id = json!({ "taskId": "t-1" });
    let all = ["tasks/get", "tasks/result", "tasks/cancel"];
    assert_eq!(bob.request("tasks/list", json!({})).ok()["tasks"], json!([]));
    ann.call("box__srv__begin", json!({})).ok();
    bob.call("box__srv__again", json!({})).ok();
    for method in all {
        assert!(ann.request(method, id.clone()).ok().to_string().contains(MARK), "{method}");
        assert_eq!(
            bob.request(method, id.clone()).error()["code"],
            -32601,
            "the task belongs to another agent: {method}"
        );
    }
    let own = |agent: &Agent| {
        let listed = agent.request("tasks/list", json!({})).ok();
        let tasks = listed["tasks"].as_array().expect("a list").clone();
        tasks.iter().map(|task| task["taskId"].clone()).collect::<Vec<_>>()
    };
    assert_eq!((own(&ann), own(&bob)), (vec![json!("t-1")], vec![json!("t-2")]));
    assert!(!bob.transcript().concat().contains(MARK));

    // Both agents now have a task with this ID, so neither may access it.
    bob.call("box__srv__begin", json!({})).ok();
    for agent in [&ann, &bob] {
        for method in all {
            assert_eq!(agent.request(method, id.clone()).error()["code"], -32601, "{method}");
        }
    }
    assert_eq!((own(&ann), own(&bob)), (vec![], vec![json!("t-2")]));
}

// invariant: caller-owns-state
#[test]
fn modern_agents_cannot_access_each_others_tasks() {
    let script = || {
        let mut script = with_tasks();
        script["tools"] = json!(["begin", "notify"]);
        script
    };
    let modern = |agent: Agent| {
        agent.modern_with(json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } }))
    };
    let (ann, bob) = ann_and_bob(script(), modern);
    ann.use_tool(["box", "srv", "begin"], json!({})).ok();
    assert_eq!(bob.request("tasks/get", json!({ "taskId": "t-1" })).error()["code"], -32601);
    let wanted = json!({ "notifications": { "taskIds": ["t-1"] } });
    for (agent, granted) in [(&ann, json!(["t-1"])), (&bob, Value::Null)] {
        agent.send_request("subscriptions/listen", wanted.clone());
        let told = agent.next_notification("notifications/subscriptions/acknowledged");
        assert_eq!(told["notifications"]["taskIds"], granted);
    }
    let said =
        json!({ "method": "notifications/tasks", "params": { "taskId": "t-1", "note": MARK } });
    bob.use_tool(["box", "srv", "notify"], said).ok();
    assert_eq!(ann.next_notification("notifications/tasks")["note"], MARK);
    let heard = bob.notifications();
    assert!(!heard.iter().any(|notice| notice.to_string().contains(MARK)), "{heard:?}");
}

#[test]
fn tasks_of_an_unnamed_session_are_private() {
    let bench = TestEnvironment::new().server("box", "srv", fake(with_tasks()));
    let one = legacy(Agent::over_http(bench.http()));
    let other = legacy(one.beside());
    one.call("box__srv__begin", json!({})).ok();
    let id = json!({ "taskId": "t-1" });
    assert_eq!(other.request("tasks/get", id.clone()).error()["code"], -32601);
    assert!(one.request("tasks/get", id).ok().to_string().contains(MARK));
}
