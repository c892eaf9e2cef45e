//! Agents of either era with servers of either era: every feature except plain calls.

use Way::{Connect, Http, Stdio};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::{Agent, TestEnvironment, conformance, fake};

type Row = (&'static str, fn(&Agent));

const ROWS: [Row; 10] = [
    ("elicitation", elicitation),
    ("sampling", sampling),
    ("roots", roots),
    ("roots that are not for the server", no_roots),
    ("several questions", several_questions),
    ("progress", progress),
    ("cancellation", cancellation),
    ("logging", logging),
    ("list change", list_change),
    ("resource update", resource_update),
];

#[derive(Clone, Copy, Debug)]
enum Way {
    Stdio,
    Http,
    /// On stdio, through the bridge to a workbench on HTTP.
    Connect,
}

const LEGACY: bool = false;
const MODERN: bool = true;
const WATCHED: &str = "test://watched-resource";

// invariant: any-era-pairing
#[test]
fn legacy_agent_on_stdio_with_legacy_servers() {
    pair(Stdio, LEGACY, "legacy");
}

// invariant: any-era-pairing
#[test]
fn legacy_agent_on_stdio_with_modern_servers() {
    pair(Stdio, LEGACY, "modern");
}

// invariant: any-era-pairing
#[test]
fn modern_agent_on_stdio_with_legacy_servers() {
    pair(Stdio, MODERN, "legacy");
}

// invariant: any-era-pairing
#[test]
fn modern_agent_on_stdio_with_modern_servers() {
    pair(Stdio, MODERN, "modern");
}

#[test]
fn legacy_agent_on_http_with_legacy_servers() {
    pair(Http, LEGACY, "legacy");
}

#[test]
fn legacy_agent_on_http_with_modern_servers() {
    pair(Http, LEGACY, "modern");
}

#[test]
fn modern_agent_on_http_with_legacy_servers() {
    pair(Http, MODERN, "legacy");
}

#[test]
fn modern_agent_on_http_with_modern_servers() {
    pair(Http, MODERN, "modern");
}

#[test]
fn legacy_agent_on_bridge_with_legacy_servers() {
    pair(Connect, LEGACY, "legacy");
}

#[test]
fn legacy_agent_on_bridge_with_modern_servers() {
    pair(Connect, LEGACY, "modern");
}

#[test]
fn modern_agent_on_bridge_with_legacy_servers() {
    pair(Connect, MODERN, "legacy");
}

#[test]
fn modern_agent_on_bridge_with_modern_servers() {
    pair(Connect, MODERN, "modern");
}

fn pair(way: Way, is_modern: bool, servers: &str) {
    let bench = bench(servers);
    let mut _program = None;
    let agent = match way {
        Stdio => bench.agent(),
        Http => Agent::over_http(bench.http()),
        Connect => {
            let (program, http) = bench.http();
            _program = Some(program);
            bench.connect_to(http.0)
        }
    };
    let agent = answering(agent).begin(
        is_modern,
        json!({ "elicitation": {}, "sampling": {}, "roots": { "listChanged": true } }),
    );
    for (name, row) in ROWS {
        println!("--- {name}");
        row(&agent);
    }
}

/// The conformance server, which gets the roots, and a scripted server, which doesn't.
fn bench(era: &str) -> TestEnvironment {
    let mut suite = conformance(era);
    suite["roots"] = true.into();
    let scripted = json!({ "protocol": era, "tools": ["sleep", "count", "ask"] });
    TestEnvironment::new().set("toolMode", json!("direct")).server("box", "suite", suite).server(
        "box",
        "scripted",
        fake(scripted),
    )
}

fn answering(agent: Agent) -> Agent {
    let contact = json!({ "username": "ann", "email": "ann@example.org", "name": "Ann" });
    agent
        .with_reply("elicitation/create", json!({ "action": "accept", "content": contact }))
        .with_reply(
            "sampling/createMessage",
            json!({
                "role": "assistant",
                "content": { "type": "text", "text": "Paris" },
                "model": "m",
                "stopReason": "endTurn",
            }),
        )
        .with_reply("roots/list", json!({ "roots": [{ "uri": "file:///work", "name": "work" }] }))
}

fn elicitation(agent: &Agent) {
    let answer = agent.call_to_completion("test_elicitation", json!({ "message": "Who are you?" }));
    assert_eq!(
        answer.text(),
        r#"User response: action=accept, content={"username":"ann","email":"ann@example.org","name":"Ann"}"#
    );
    let asked = agent.next_request("elicitation/create");
    assert_eq!(asked["params"]["message"], "Who are you?");
    assert_eq!(asked["params"]["requestedSchema"]["required"], json!(["username", "email"]));
}

fn sampling(agent: &Agent) {
    let answer = agent.call_to_completion("test_sampling", json!({ "prompt": "The capital?" }));
    assert_eq!(answer.text(), "LLM response: Paris");
    let asked = agent.next_request("sampling/createMessage");
    assert_eq!(asked["params"]["messages"][0]["content"]["text"], "The capital?");
    assert_eq!(asked["params"]["maxTokens"], 100);
}

fn roots(agent: &Agent) {
    let answer = agent.call_to_completion("test_list_roots", json!({}));
    assert!(answer.text().contains("file:///work"), "{}", answer.text());
    agent.next_request("roots/list");
}

/// The scripted server requests roots although the capability was not declared to it.
fn no_roots(agent: &Agent) {
    let answer = agent.call_to_completion("ask", json!({ "method": "roots/list" }));
    assert!(answer.line.contains("roots are not available to this server"), "{}", answer.line);
    assert!(!answer.line.contains("file:///work"));
}

fn several_questions(agent: &Agent) {
    let tool = "test_input_required_result_multiple_inputs";
    let answer = agent.call_to_completion(tool, json!({}));
    for part in ["Ann", "Paris", "file:///work"] {
        assert!(answer.text().contains(part), "{}", answer.text());
    }
    for method in ["elicitation/create", "sampling/createMessage", "roots/list"] {
        agent.next_request(method);
    }
    let prompt = json!({ "name": "test_input_required_result_prompt" });
    let prompt = agent.request_to_completion("prompts/get", prompt).ok();
    let text = &prompt["messages"][0]["content"]["text"];
    assert!(text.as_str().unwrap().starts_with("Answer in this context"), "{text}");
    agent.next_request("elicitation/create");
}

fn progress(agent: &Agent) {
    let call = agent.send_call("test_tool_with_progress", json!({}));
    assert_eq!(agent.wait(&call).text(), "Reported three times");
    let progress = agent.progress(&call);
    let done: Vec<&Value> = progress.iter().map(|params| &params["progress"]).collect();
    assert_eq!(done, [0, 50, 100]);
    assert!(progress.iter().all(|params| params["total"] == 100), "{progress:?}");
}

fn cancellation(agent: &Agent) {
    let cancelled = || {
        let counts = agent.call("count", json!({})).structured();
        counts["cancelled"].as_array().map_or(0, Vec::len)
    };
    assert_eq!(cancelled(), 0);
    let call = agent.send_call("sleep", json!({ "ms": 60_000, "progressEveryMs": 10 }));
    agent.wait_progress(&call, 1);
    agent.cancel(&call);
    let seen = (0..1000).any(|_| cancelled() == 1);
    assert!(seen, "the server was not notified of the cancellation");
    assert!(agent.answered(&call).is_none());
}

fn logging(agent: &Agent) {
    agent.hear_logs("error");
    agent.call("test_logging_tool", json!({})).ok();
    agent.hear_logs("info");
    agent.call("test_tool_with_logging", json!({})).ok();
    for expected in ["Tool execution started", "Tool processing data", "Tool execution completed"] {
        let message = agent.next_notification("notifications/message");
        assert_eq!(
            message,
            json!({ "level": "info", "logger": "suite/conformance", "data": expected })
        );
    }
}

fn list_change(agent: &Agent) {
    let listen = agent.hear_changes(&[]);
    let has = |method: &str, member: &str, name: &str| {
        let list = agent.request(method, json!({})).ok();
        list[member].as_array().unwrap().iter().any(|entry| entry["name"] == name)
    };
    for (kind, trigger, name) in [
        ("tools", "test_trigger_tool_change", "test_dynamic_tool"),
        ("prompts", "test_trigger_prompt_change", "test_dynamic_prompt"),
    ] {
        let list = format!("{kind}/list");
        assert!(!has(&list, kind, name));
        agent.call(trigger, json!({})).ok();
        // A legacy agent has pending changes of servers that started since the handshake.
        loop {
            let told = agent.next_notification(&format!("notifications/{kind}/list_changed"));
            let tag = &told["_meta"]["io.modelcontextprotocol/subscriptionId"];
            assert_eq!(*tag, listen.as_ref().map_or(Value::Null, |listen| listen.0.clone()));
            if has(&list, kind, name) {
                break;
            }
        }
    }
    assert_eq!(agent.call("test_dynamic_tool", json!({})).text(), "Here for now");
    if let Some(listen) = listen {
        agent.cancel(&listen);
    }
}

fn resource_update(agent: &Agent) {
    agent.call("test_trigger_resource_change", json!({})).ok();
    let listen = agent.hear_changes(&[WATCHED]);
    // Subscribing at a modern server takes a moment.
    agent.call("test_trigger_resource_change", json!({})).ok();
    let told = agent.next_notification("notifications/resources/updated");
    assert_eq!(told["uri"], WATCHED);
    let read = agent.request("resources/read", json!({ "uri": WATCHED })).ok();
    assert_eq!(read["contents"][0]["text"], "Revision 2");
    if listen.is_none() {
        agent.request("resources/unsubscribe", json!({ "uri": WATCHED })).ok();
    }
}
