//! Logins during a call, requested from the user by URL elicitation.

use std::net::TcpStream;
use std::thread::sleep;
use std::time::{Duration, Instant};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use url::Url;

use crate::cli_top::Desk;
use crate::sign_in::authority::Authority;
use crate::sign_in::{bench, credentials};
use crate::support::{Agent, DEADLINE, RequestId};

pub(crate) const QUESTION: &str = "elicitation/create";
pub(crate) const HINT: &str = "run `mcp-workbench auth login hub`, then try again";

pub(crate) fn abilities() -> Value {
    json!({ "elicitation": { "form": {}, "url": {} } })
}

pub(crate) fn send(agent: &Agent, tool: &str) -> RequestId {
    let tool = json!({ "toolbox": "dev", "server": "hub", "tool": tool });
    agent.send_call("use_tool", json!({ "tool": tool, "arguments": {} }))
}

pub(crate) fn text(agent: &Agent, call: &RequestId) -> String {
    format!("{:?}", agent.wait(call))
}

pub(crate) fn address(asked: &Value) -> &str {
    asked["params"]["url"].as_str().expect("an address")
}

#[test]
fn call_continues_after_login() {
    for over_http in [false, true] {
        let authority = Authority::start();
        let bench = bench(&authority);
        let agent = if over_http { Agent::over_http(bench.http()) } else { bench.agent() };
        let agent = agent.without_reply(QUESTION).begin(false, abilities());
        let call = send(&agent, "read");
        let asked = agent.next_request(QUESTION);
        assert_eq!(asked["params"]["mode"], "url");
        assert_eq!(
            asked["params"]["message"],
            "Server `hub` requires a sign-in. Open this page in your browser and approve the access. \
             The call continues afterwards."
        );
        assert!(address(&asked).starts_with(&authority.issuer), "{asked}");
        agent.respond(&asked, json!({ "action": "accept" }));
        assert_eq!(authority.browse(address(&asked))["status"], 200);
        let answer = text(&agent, &call);
        assert!(answer.contains("read by ann"), "{answer}");
        let complete = agent.next_notification("notifications/elicitation/complete");
        let id = &complete["elicitationId"];
        assert_eq!((id, id.as_str().map(str::len)), (&asked["params"]["elicitationId"], Some(32)));
        assert_eq!(credentials(&bench).len(), 1);

        // A tool that needs more scopes asks for another login, although the server runs.
        let call = send(&agent, "write");
        let asked = agent.next_request(QUESTION);
        agent.respond(&asked, json!({ "action": "accept" }));
        authority.browse(address(&asked));
        let answer = text(&agent, &call);
        assert!(answer.contains("write by ann"), "{answer}");
    }
}

#[test]
fn modern_call_continues_after_login() {
    let authority = Authority::start();
    let bench = bench(&authority);
    let agent = bench.agent().begin(true, abilities());
    let tool = json!({ "toolbox": "dev", "server": "hub", "tool": "read" });
    let mut params = json!({ "name": "use_tool", "arguments": { "tool": tool, "arguments": {} } });
    let required = agent.request("tools/call", params.clone()).ok();
    assert_eq!(required["resultType"], "input_required");
    let asked = &required["inputRequests"]["question"];
    assert_eq!((&asked["method"], &asked["params"]["mode"]), (&json!(QUESTION), &json!("url")));
    assert_eq!(
        asked["params"]["elicitationId"],
        Value::Null,
        "this protocol version has no elicitation ID"
    );
    params["requestState"] = required["requestState"].clone();
    params["inputResponses"] = json!({ "question": { "action": "accept" } });
    let again = agent.send_request("tools/call", params);
    authority.browse(address(asked));
    let answer = text(&agent, &again);
    assert!(answer.contains("read by ann"), "{answer}");
    assert_eq!(agent.notifications(), Vec::<Value>::new());
}

#[test]
fn declined_login_returns_the_hint() {
    let authority = Authority::start();
    for (is_modern, action) in [(false, "decline"), (false, "cancel"), (true, "decline")] {
        let bench = bench(&authority);
        let agent = bench
            .agent()
            .with_reply(QUESTION, json!({ "action": action }))
            .begin(is_modern, abilities());
        let tool = json!({ "toolbox": "dev", "server": "hub", "tool": "read" });
        let told = agent.call_to_completion("use_tool", json!({ "tool": tool, "arguments": {} }));
        assert!(told.is_tool_error() && told.text().contains(HINT), "{told:?}");
        agent.next_request(QUESTION);
        assert_eq!(credentials(&bench).len(), 1, "the client registration was lost");
    }
    // The user opens the page and denies access there.
    authority.set("deny=true");
    let bench = bench(&authority);
    let agent = bench.agent().without_reply(QUESTION).begin(false, abilities());
    let call = send(&agent, "read");
    let asked = agent.next_request(QUESTION);
    agent.respond(&asked, json!({ "action": "accept" }));
    authority.browse(address(&asked));
    assert!(text(&agent, &call).contains(HINT));
    let complete = "notifications/elicitation/complete";
    assert!(!agent.notifications().iter().any(|told| told["method"] == complete));
}

#[test]
fn hint_is_returned_if_the_user_cannot_be_asked() {
    let authority = Authority::start();
    let forms = json!({ "elicitation": { "form": {} } });
    for capabilities in [json!({}), json!({ "elicitation": {} }), forms] {
        let bench = bench(&authority);
        let agent = bench.agent().without_reply(QUESTION).begin(false, capabilities);
        let call = send(&agent, "read");
        assert!(text(&agent, &call).contains(HINT));
    }
    // The user can be on another machine, whose browser can't reach the callback here.
    let bench = bench(&authority).set("http", json!({ "allowedHosts": ["tools.example.com"] }));
    let agent = Agent::over_http(bench.http()).without_reply(QUESTION).begin(false, abilities());
    let call = send(&agent, "read");
    assert!(text(&agent, &call).contains(HINT));
}

#[test]
fn concurrent_calls_share_one_login_page() {
    let authority = Authority::start();
    let bench = bench(&authority);
    let one = Agent::over_http(bench.http()).without_reply(QUESTION).begin(false, abilities());
    let other = one.beside().without_reply(QUESTION).begin(false, abilities());
    let calls = [&one, &one, &other].map(|agent| (agent, send(agent, "read")));
    let asked = [&one, &one, &other].map(|agent| agent.next_request(QUESTION));
    let [first, second, third] = &asked;
    assert_eq!([address(first), address(first)], [address(second), address(third)]);
    one.respond(first, json!({ "action": "decline" }));
    other.respond(third, json!({ "action": "accept" }));
    authority.browse(address(first));
    let answers = calls.map(|(agent, call)| text(agent, &call));
    let ids = [first, second, third].map(|asked| asked["params"]["elicitationId"].clone());
    assert!(ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2], "{ids:?}");
    assert_eq!(answers.iter().filter(|answer| answer.contains("read by ann")).count(), 2);
    assert!(answers[2].contains("read by ann") && answers.iter().any(|a| a.contains(HINT)));
    assert_eq!(authority.counts()["code"], 1);
    // The other call has completed, so its unanswered elicitation is cancelled.
    let told = one.next_notification("notifications/cancelled");
    assert_eq!(told["requestId"], second["id"]);
}

#[test]
fn cancelled_call_stops_waiting_for_the_login() {
    let authority = Authority::start();
    let bench = bench(&authority);
    let agent = bench.agent().without_reply(QUESTION).begin(false, abilities());
    let call = send(&agent, "read");
    let asked = agent.next_request(QUESTION);
    agent.cancel(&call);
    let told = agent.next_notification("notifications/cancelled");
    assert_eq!(told["requestId"], asked["id"]);
    let page = Url::parse(address(&asked)).unwrap();
    let back = page.query_pairs().find(|(key, _)| key == "redirect_uri").unwrap().1;
    let back = Url::parse(&back).unwrap().socket_addrs(|| None).unwrap()[0];
    let began = Instant::now();
    while TcpStream::connect(back).is_ok() {
        assert!(began.elapsed() < DEADLINE, "the callback listener is still open");
        // Another process owns the port, so poll.
        sleep(Duration::from_millis(20));
    }
    assert!(agent.answered(&call).is_none());
}

#[test]
fn repeated_refusal_does_not_ask_twice() {
    let authority = Authority::start();
    let bench = bench(&authority);
    let agent = bench.agent().without_reply(QUESTION).begin(false, abilities());
    let call = send(&agent, "read");
    let asked = agent.next_request(QUESTION);
    authority.set("closed=true");
    agent.respond(&asked, json!({ "action": "accept" }));
    authority.browse(address(&asked));
    let told = text(&agent, &call);
    assert!(told.contains("sign-in required"), "{told}");
    let questions = agent.transcript().iter().filter(|line| line.contains(QUESTION)).count();
    assert_eq!(questions, 1);
}

#[test]
fn admin_call_does_not_ask_for_a_login() {
    let authority = Authority::start();
    let bench = bench(&authority);
    let agent = bench.agent().without_reply(QUESTION).begin(false, abilities());
    // This starts the agent's gateway, which could send an elicitation to its client.
    agent.tools();
    let told = Desk::new(&bench).ask(&json!({
        "ask": "call", "toolbox": "dev", "server": "hub", "tool": "read",
        "arguments": {},
    }));
    assert!(told.to_string().contains("auth login hub"), "{told}");
    assert!(!agent.transcript().iter().any(|line| line.contains(QUESTION)));
}
