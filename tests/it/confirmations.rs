//! Calls that need confirmation: accepted, declined, ignored, and with a client that can't ask.

use std::time::{Duration, Instant};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::{Agent, RequestId, Response, TestEnvironment, fake};

const QUESTION: &str = "elicitation/create";
const WAYS: [(bool, bool); 4] = [(false, false), (false, true), (true, false), (true, true)];

fn bench(confirm_timeout: u64) -> TestEnvironment {
    TestEnvironment::new()
        .set("toolMode", json!("direct"))
        .set("dangerousTools", json!(["srv:ech*"]))
        .set("limits", json!({ "confirmTimeoutMs": confirm_timeout }))
        .server("box", "srv", fake(json!({ "tools": ["echo", "count", "ask"] })))
}

fn agent(bench: &TestEnvironment, over_http: bool) -> Agent {
    if over_http { Agent::over_http(bench.http()) } else { bench.agent() }
}

fn calls(agent: &Agent) -> Value {
    agent.call("count", json!({})).structured()["calls"]["echo"].clone()
}

fn secret() -> Value {
    json!({ "path": "/x", "token": "hidden-1" })
}

#[test]
fn accepted_call_runs_once_and_each_call_is_confirmed() {
    for (is_modern, over_http) in WAYS {
        let bench = bench(60_000);
        let agent = agent(&bench, over_http)
            .with_reply(QUESTION, json!({ "action": "accept", "content": {} }))
            .begin(is_modern, json!({ "elicitation": {} }));
        for times in 1..=2 {
            let answer = agent.call_to_completion("echo", secret());
            assert_eq!(answer.structured(), secret(), "the arguments changed");
            let asked = agent.next_request(QUESTION);
            assert_eq!(
                asked["params"]["message"],
                "The agent wants to call the tool `echo` of server `srv`. It needs your \
                 confirmation because the configuration marks it as dangerous.\nArguments: \
                 {\"path\":\"/x\",\"token\":\"hidden-1\"}\nAllow this call?"
            );
            let schema = json!({ "type": "object", "properties": {} });
            assert_eq!(asked["params"]["requestedSchema"], schema);
            assert_eq!(calls(&agent), times, "{is_modern} {over_http}");
        }
        agent.call("count", json!({})).ok();
    }
}

// invariant: confirm-before-send
#[test]
fn declined_call_never_reaches_the_server() {
    for (is_modern, over_http) in WAYS {
        for (action, reason) in
            [("decline", "the user declined"), ("cancel", "the user dismissed the confirmation")]
        {
            let bench = bench(60_000);
            let agent = agent(&bench, over_http)
                .with_reply(QUESTION, json!({ "action": action }))
                .begin(is_modern, json!({ "elicitation": {} }));
            refused(&agent.call_to_completion("echo", json!({})), reason);
            assert_eq!(calls(&agent), Value::Null);
        }
    }
}

// invariant: confirm-before-send
#[test]
fn confirmation_shows_the_exact_characters() {
    let bench = bench(60_000);
    let agent = bench
        .agent()
        .with_reply(QUESTION, json!({ "action": "decline" }))
        .begin(false, json!({ "elicitation": {} }));
    let asked = |arguments: Value| {
        agent.call("echo", arguments);
        agent.next_request(QUESTION)["params"]["message"].as_str().unwrap().to_owned()
    };
    for (arguments, shown) in [
        (json!({"a": "x `id`"}), r#"{"a":"x `id`"}"#),
        (json!({"a": "x 'id'"}), r#"{"a":"x 'id'"}"#),
        (json!({"`": 1}), r#"{"`":1}"#),
        (json!({"a": format!("x{}y", " ".repeat(20))}), r#"{"a":"x" … 20 spaces … "y"}"#),
        (json!({"a": "x … 20 spaces … y"}), r#"{"a":"x … 20 spaces … y"}"#),
        (json!({"a": "x\" … 20 spaces … \"y"}), r#"{"a":"x\" … 20 spaces … \"y"}"#),
    ] {
        let message = asked(arguments);
        assert!(message.contains(&format!("\nArguments: {shown}\nAllow")), "{message}");
    }
}

// invariant: confirm-before-send
#[test]
fn confirmed_call_is_refused_if_the_rules_changed_meanwhile() {
    let with = |bench: TestEnvironment, tools: Value| {
        bench.set("agentPolicies", json!({ "a": { "toolOverrides": { "srv": tools } } }))
    };
    for is_modern in [false, true] {
        let bench = with(bench(60_000), json!(["echo", "count"]));
        let agent = bench
            .agent_with(["--agent", "a"])
            .without_reply(QUESTION)
            .begin(is_modern, json!({ "elicitation": {} }));
        agent.tools();
        let call = agent.send_call("echo", json!({}));
        let (asked, required) = if is_modern {
            (Value::Null, agent.wait(&call).ok())
        } else {
            (agent.next_request(QUESTION), Value::Null)
        };
        let narrower = with(bench.clone(), json!(["count"]));
        narrower.write_config();
        assert_eq!(narrower.run(["reload"]).code, Some(0));
        agent.wait_stderr("configuration reloaded: ");
        let accept = json!({ "action": "accept", "content": {} });
        let answer = if is_modern {
            let again = json!({
                "name": "echo", "arguments": {}, "requestState": required["requestState"],
                "inputResponses": { "question": accept },
            });
            agent.request("tools/call", again)
        } else {
            agent.respond(&asked, accept);
            agent.wait(&call)
        };
        refused(&answer, "the rules have changed");
        assert_eq!(calls(&agent), Value::Null, "{is_modern}");
    }
}

fn refused(answer: &Response, reason: &str) {
    assert!(answer.is_tool_error());
    let text = answer.text();
    assert!(text.starts_with("`box/srv/echo` was not called: "), "{text}");
    assert!(text.contains(reason) && text.contains("\nWhat to do: "), "{text}");
}

#[test]
fn call_is_refused_if_the_client_cannot_ask() {
    for (is_modern, over_http) in WAYS {
        let bench = bench(60_000);
        let agent = agent(&bench, over_http).begin(is_modern, json!({ "sampling": {} }));
        refused(&agent.call_to_completion("echo", json!({})), "this client cannot ask");
        assert_eq!(calls(&agent), Value::Null);
    }
    let run = bench(60_000).run(["call", "box", "srv", "echo", "{}"]);
    assert!(run.stderr.contains("this client cannot ask"), "{}", run.stderr);
}

#[test]
fn unanswered_confirmation_times_out() {
    for over_http in [false, true] {
        let bench = bench(100);
        let agent = agent(&bench, over_http)
            .without_reply(QUESTION)
            .begin(false, json!({ "elicitation": {} }));
        let call = agent.send_call("echo", json!({}));
        let asked = agent.next_request(QUESTION);
        refused(&agent.wait(&call), "did not answer within 0.1 s");
        // A late answer changes nothing.
        let told = agent.next_notification("notifications/cancelled");
        assert_eq!(told["requestId"], asked["id"]);
        agent.respond(&asked, json!({ "action": "accept", "content": {} }));
        assert_eq!(calls(&agent), Value::Null);
    }
}

#[test]
fn canceled_call_cancels_its_confirmation() {
    let bench = bench(60_000);
    let agent = bench.agent().without_reply(QUESTION).begin(false, json!({ "elicitation": {} }));
    let call: RequestId = agent.send_call("echo", json!({}));
    let asked = agent.next_request(QUESTION);
    agent.cancel(&call);
    let told = agent.next_notification("notifications/cancelled");
    assert_eq!(told["requestId"], asked["id"]);
    agent.respond(&asked, json!({ "action": "accept", "content": {} }));
    assert_eq!(calls(&agent), Value::Null);
    assert!(agent.answered(&call).is_none());
}

// invariant: confirm-before-send
#[test]
fn confirmation_is_bound_to_the_confirmed_call() {
    let bench = bench(60_000);
    let agent = bench.agent().begin(true, json!({ "elicitation": {} }));
    let accept = json!({ "question": { "action": "accept", "content": {} } });
    let call = |arguments: Value, state: &Value| {
        let mut params = json!({ "name": "echo", "arguments": arguments });
        params["inputResponses"] = accept.clone();
        if !state.is_null() {
            params["requestState"] = state.clone();
        }
        agent.request("tools/call", params)
    };
    // An answer without the server's `requestState` confirms nothing.
    let asked = call(json!({ "n": 1 }), &Value::Null).ok();
    assert_eq!(asked["resultType"], "input_required");
    assert_eq!(call(json!({ "n": 1 }), &json!("made up")).ok()["resultType"], "input_required");
    // The call runs with the arguments that were confirmed.
    let answer = call(json!({ "n": 2 }), &asked["requestState"]);
    assert_eq!(answer.structured(), json!({ "n": 1 }));
    assert_eq!(call(json!({ "n": 1 }), &asked["requestState"]).error()["code"], -32602);
    assert_eq!(calls(&agent), 1);
}

#[test]
fn server_requests_are_distinguished_from_confirmations() {
    for (is_modern, over_http) in WAYS {
        for protocol in ["legacy", "modern"] {
            for (dangerous, before) in
                [(json!(["echo"]), "A server asks this, not MCP Workbench:\n\n"), (json!([]), "")]
            {
                let server = fake(json!({ "tools": ["ask"], "protocol": protocol }));
                let bench = TestEnvironment::new()
                    .set("toolMode", json!("direct"))
                    .set("dangerousTools", dangerous)
                    .server("box", "srv", server);
                let agent = agent(&bench, over_http)
                    .with_reply(QUESTION, json!({ "action": "accept", "content": {} }))
                    .begin(is_modern, json!({ "elicitation": {} }));
                let own = "The agent wants to call the tool `pay`.";
                let params = json!({
                    "message": own, "requestedSchema": { "type": "object", "properties": {} },
                });
                agent
                    .call_to_completion("ask", json!({ "method": QUESTION, "params": params }))
                    .ok();
                let asked = agent.next_request(QUESTION);
                let told = format!("{is_modern} {over_http} {protocol}");
                assert_eq!(asked["params"]["message"], format!("{before}{own}"), "{told}");
            }
        }
    }
}

// invariant: suspended-call-once
#[test]
fn answer_after_the_deadline_confirms_nothing() {
    for over_http in [false, true] {
        let bench = bench(1);
        let agent = agent(&bench, over_http)
            .with_reply(QUESTION, json!({ "action": "accept", "content": {} }))
            .begin(true, json!({ "elicitation": {} }));
        let asked = agent.call("echo", json!({}));
        let since = Instant::now();
        while since.elapsed() < Duration::from_millis(2) {
            agent.call("count", json!({})).ok();
        }
        let mut again = json!({ "name": "echo", "arguments": {} });
        for (key, value) in agent.answers(&asked).expect("a question").as_object().unwrap() {
            again[key] = value.clone();
        }
        let late = agent.request("tools/call", again);
        assert_eq!(late.error()["code"], -32602, "{}", late.line);
        assert_eq!(calls(&agent), Value::Null, "{over_http}");
    }
}
