//! Server requests that don't complete normally: unanswered, canceled, answered twice.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::agent::Response;
use crate::support::{Agent, TestEnvironment, fake};

const QUESTION: &str = "elicitation/create";

fn question() -> Value {
    json!({ "method": QUESTION, "params": { "message": "Sure?", "requestedSchema": { "type": "object", "properties": {} } } })
}

/// A legacy server that sends requests, with a call timeout of 1 s, and one with the default
/// timeout.
fn bench() -> TestEnvironment {
    let mut asking = fake(json!({ "tools": ["ask", "withdraw", "sleep", "count", "never"] }));
    asking["callTimeoutMs"] = 1000.into();
    let clock = fake(
        json!({ "tools": [{ "name": "clock", "inputSchema": {} }], "behavior": { "clock": "sleep" } }),
    );
    TestEnvironment::new()
        .set("toolMode", json!("direct"))
        .server("box", "asking", asking)
        .server("box", "clock", clock)
}

fn legacy(bench: &TestEnvironment) -> Agent {
    bench.agent().without_reply(QUESTION).begin(false, json!({ "elicitation": {} }))
}

fn modern(bench: &TestEnvironment) -> Agent {
    bench.agent().begin(true, json!({ "elicitation": {} }))
}

fn accept() -> Value {
    json!({ "action": "accept", "content": {} })
}

/// Repeats a call with the `requestState`, as a modern client does.
fn go_on(agent: &Agent, tool: &str, state: &Value, answer: Option<Value>) -> Response {
    let mut params = json!({ "name": tool, "arguments": question(), "requestState": state });
    if let Some(answer) = answer {
        params["inputResponses"] = json!({ "question": answer });
    }
    agent.request("tools/call", params)
}

#[test]
fn request_state_is_bound_to_its_request_and_single_use() {
    let bench = bench();
    let agent = modern(&bench);
    let asked = agent.call("ask", question()).ok();
    assert_eq!(asked["resultType"], "input_required");
    assert_eq!(asked["inputRequests"]["question"]["params"]["message"], "Sure?");
    let state = &asked["requestState"];
    let text = state.as_str().unwrap();
    let mut tampered = text.to_owned();
    let last = if tampered.pop() == Some('A') { 'B' } else { 'A' };
    tampered.push(last);
    let middle = text.len() / 2;
    let cut = format!("{}{}", &text[..middle], &text[middle + 1..]);
    for (tool, state) in
        [("ask", json!(cut)), ("ask", json!("workbench.")), ("sleep", state.clone())]
    {
        let refused = go_on(&agent, tool, &state, Some(accept())).error();
        assert_eq!(refused["code"], -32602, "{tool} {state}: {refused}");
    }
    // A retry without a response doesn't consume the state.
    assert_eq!(go_on(&agent, "ask", state, None).error()["code"], -32602);
    let answered = go_on(&agent, "ask", state, Some(accept()));
    assert_eq!(answered.structured(), json!({ "result": accept() }));
    let again = go_on(&agent, "ask", state, Some(accept())).error();
    assert_eq!(again["code"], -32602);
    assert!(again["message"].as_str().unwrap().contains("already used"), "{again}");
}

#[test]
fn request_state_of_another_process_is_rejected() {
    let bench = bench();
    let state = modern(&bench).call("ask", question()).ok()["requestState"].clone();
    let refused = go_on(&modern(&bench), "ask", &state, Some(accept())).error();
    assert_eq!(refused["code"], -32602);
}

#[test]
fn canceled_call_cancels_its_server_request() {
    let bench = bench();
    let agent = legacy(&bench);
    let call = agent.send_call("ask", question());
    let asked = agent.next_request(QUESTION);
    agent.cancel(&call);
    let told = agent.next_notification("notifications/cancelled");
    assert_eq!(told["requestId"], asked["id"]);
    agent.respond(&asked, accept());
    let cancelled = |agent: &Agent| {
        let counts = agent.call("count", json!({})).structured();
        counts["cancelled"].as_array().is_some_and(|cancelled| cancelled.len() == 1)
    };
    assert!(
        (0..1000).any(|_| cancelled(&agent)),
        "the server was not notified of the cancellation"
    );
    assert!(agent.answered(&call).is_none());
}

#[test]
fn canceled_server_request_is_canceled_at_the_agent() {
    let bench = bench();
    let agent = legacy(&bench);
    let call = agent.send_call("withdraw", question());
    assert_eq!(agent.wait(&call).text(), "never mind");
    // The request may have been canceled before the agent got it.
    let asked = agent.transcript().iter().filter(|line| line.contains(QUESTION)).count();
    let calls = usize::from(asked > 1);
    for _ in 0..calls {
        agent.next_notification("notifications/cancelled");
    }
    agent.call("count", json!({})).ok();
}

#[test]
fn call_timeout_pauses_while_the_user_is_asked() {
    let bench = bench();
    let agent = legacy(&bench);
    let call = agent.send_call("ask", question());
    let asked = agent.next_request(QUESTION);
    // Longer than the call timeout.
    agent.call("clock", json!({ "ms": 1500 })).ok();
    assert!(agent.answered(&call).is_none());
    agent.respond(&asked, accept());
    assert_eq!(agent.wait(&call).structured(), json!({ "result": accept() }));

    let agent = modern(&bench);
    let state = agent.call("ask", question()).ok()["requestState"].clone();
    agent.call("clock", json!({ "ms": 1500 })).ok();
    let answered = go_on(&agent, "ask", &state, Some(accept()));
    assert_eq!(answered.structured(), json!({ "result": accept() }));
}

#[test]
fn only_progress_extends_the_call_timeout() {
    let bench = bench();
    let agent = legacy(&bench);
    let call = agent.call("sleep", json!({ "ms": 1600, "progressEveryMs": 100 }));
    assert_eq!(call.text(), "slept 1600 ms");
    let late = agent.call("never", json!({}));
    assert!(late.is_tool_error());
    assert!(late.text().contains("no response or progress for 1000 ms"), "{}", late.text());
}

#[test]
fn agent_gets_only_requests_it_supports() {
    let bench = bench();
    let agent = bench.agent();
    agent.initialize();
    let answer = agent.call("ask", question()).structured();
    assert_eq!(answer["error"]["code"], -32601, "{answer}");
    let agent = bench.agent().modern();
    let answer = agent.call("ask", question()).structured();
    assert_eq!(answer["error"]["code"], -32601, "{answer}");
}

#[test]
fn connection_level_error_codes_are_translated() {
    let script = json!({ "tools": ["error"], "protocol": "dual" });
    let bench =
        TestEnvironment::new().set("toolMode", json!("direct")).server("box", "srv", fake(script));
    let code = |agent: &Agent, code: i64| {
        let answer =
            agent.call("error", json!({ "code": code, "message": "so", "data": { "n": 1 } }));
        let error = answer.error();
        if error["code"] != code {
            assert_eq!(
                error["data"]["error"],
                json!({ "code": code, "message": "so", "data": { "n": 1 } })
            );
        }
        error["code"].as_i64().unwrap()
    };
    let older = bench.agent();
    older.initialize();
    let newer = bench.agent().modern();
    // The server's code, then the codes for a legacy and a modern agent.
    for (given, to_older, to_newer) in [
        (-32601, -32603, -32603),
        (-32020, -32603, -32603),
        (-32021, -32603, -32021),
        (-32022, -32603, -32603),
        (-32042, -32042, -32603),
        (-32602, -32602, -32602),
        (-32000, -32000, -32000),
        (-1, -1, -1),
    ] {
        assert_eq!((code(&older, given), code(&newer, given)), (to_older, to_newer), "{given}");
    }
}

#[test]
fn log_level_reaches_later_servers_and_stateless_requests() {
    let bench = TestEnvironment::new();
    let entry = |file: &str, protocol: &str| {
        fake(json!({
            "protocol": protocol,
            "tools": ["notify", "request"],
            "capabilities": { "logging": {} },
            "answers": { "logging/setLevel": {} },
            "requestFile": bench.path_text(file),
        }))
    };
    let bench = bench.clone().server("box", "older", entry("older", "legacy")).server(
        "box",
        "newer",
        entry("newer", "modern"),
    );
    let agent = bench.agent();
    agent.initialize();
    agent.request("logging/setLevel", json!({ "level": "warning" })).ok();
    agent.open("box").ok();
    let say = |level: &str| {
        let params = json!({ "level": level, "data": level });
        let notify = json!({ "method": "notifications/message", "params": params });
        agent.call("box__older__notify", notify).ok();
    };
    say("info");
    say("error");
    let heard = agent.next_notification("notifications/message");
    assert_eq!(heard, json!({ "level": "error", "data": "error", "logger": "older" }));
    let requests = std::fs::read_to_string(bench.path("older")).unwrap();
    assert!(requests.contains("logging/setLevel"), "{requests}");
    let sent = agent.call("box__newer__request", json!({})).text();
    assert!(sent.contains(r#""io.modelcontextprotocol/logLevel":"warning""#), "{sent}");
    let loud = agent.request("logging/setLevel", json!({ "level": "loud" }));
    assert_eq!(loud.error()["code"], -32602);
}
