//! `direct` mode, and the resources and prompts of servers in every mode.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::{Agent, TestEnvironment, fake};

fn server(era: &str) -> Value {
    json!({ "command": env!("CARGO_BIN_EXE_conformance-server"), "args": [era] })
}

fn bench(mode: &str) -> TestEnvironment {
    TestEnvironment::new().set("toolMode", json!(mode)).server("box", "one", server("both"))
}

fn greeted(bench: &TestEnvironment) -> Agent {
    let agent = bench.agent();
    agent.initialize();
    agent
}

fn listed(agent: &Agent, method: &str, member: &str, key: &str) -> Vec<String> {
    let result = agent.request(method, json!({})).ok();
    let entries = result[member].as_array().expect("a list");
    entries.iter().map(|entry| entry[key].as_str().expect("a name").to_owned()).collect()
}

fn uris(agent: &Agent) -> Vec<String> {
    listed(agent, "resources/list", "resources", "uri")
}

fn prompts(agent: &Agent) -> Vec<String> {
    listed(agent, "prompts/list", "prompts", "name")
}

fn read(agent: &Agent, uri: &str) -> Value {
    agent.request("resources/read", json!({ "uri": uri })).ok()["contents"][0].clone()
}

#[test]
fn direct_mode_lists_everything_from_the_start() {
    let bench = bench("direct");
    for agent in [greeted(&bench), bench.agent().modern()] {
        assert_eq!(agent.tool_names()[0], "test_simple_text");
        assert_eq!(uris(&agent)[0], "test://static-text");
        assert_eq!(prompts(&agent)[0], "test_simple_prompt");
        let text = agent.call("test_simple_text", json!({})).text();
        assert_eq!(text, "This is a simple text response for testing.");
    }
}

#[test]
fn unstartable_server_leaves_the_others_listed() {
    let bench = bench("direct").server("box", "bad", json!({ "command": "/does/not/exist" }));
    assert_eq!(greeted(&bench).tool_names()[0], "test_simple_text");
}

/// A server that starts 300 ms after the file `go` appears, so that earlier requests have arrived.
fn late(tool: &str) -> Value {
    let server = fake(json!({ "tools": [tool] }));
    let wait = "until [ -e go ]; do sleep 0.02; done; sleep 0.3; exec \"$@\"";
    let args = json!(["-c", wait, "late", server["command"], server["args"][0]]);
    json!({ "command": "sh", "args": args })
}

fn early_and_late() -> TestEnvironment {
    let bench = TestEnvironment::new().set("toolMode", json!("direct"));
    let early = fake(json!({ "tools": ["grow"] }));
    bench.server("box", "early", early).server("box", "late", late("sleep"))
}

const CHANGED: &str = "notifications/tools/list_changed";

fn is_told_to_list(agent: &Agent) -> bool {
    agent.notifications().iter().any(|told| told["method"] == CHANGED)
}

#[test]
fn awaited_list_is_complete_without_list_changed() {
    for over_http in [false, true] {
        let bench = TestEnvironment::new().set("toolMode", json!("direct"));
        let bench = bench.server("box", "one", late("grow")).server("box", "two", late("sleep"));
        let agent = if over_http { Agent::over_http(bench.http()) } else { bench.agent() };
        agent.initialize();
        let listing = agent.send_request("tools/list", json!({}));
        bench.write("go", "");
        let listed = agent.wait(&listing).ok();
        let names: Vec<_> =
            listed["tools"].as_array().unwrap().iter().map(|it| &it["name"]).collect();
        assert_eq!(names, ["grow", "sleep"]);
        assert!(!is_told_to_list(&agent), "notified of tools that the list already has");
        agent.call("grow", json!({ "tools": ["grown"] })).ok();
        agent.next_notification(CHANGED);
        assert_eq!(agent.tool_names(), ["grow", "grown", "sleep"]);
    }
}

#[test]
fn slow_list_does_not_delay_list_changed() {
    let bench = early_and_late();
    let agent = greeted(&bench);
    let listing = agent.send_request("tools/list", json!({}));
    agent.next_notification(CHANGED);
    assert!(agent.answered(&listing).is_none(), "the list did not wait for the slow server");
    // A client may have dropped the list, so it is also notified of tools in that list.
    bench.write("go", "");
    agent.wait(&listing).ok();
    agent.next_notification(CHANGED);
}

#[test]
fn cancelled_list_is_followed_by_list_changed() {
    let bench = early_and_late();
    let agent = greeted(&bench);
    let listing = agent.send_request("tools/list", json!({}));
    agent.cancel(&listing);
    agent.next_notification(CHANGED);
    bench.write("go", "");
    agent.next_notification(CHANGED);
    assert_eq!(agent.tool_names(), ["grow", "sleep"]);
}

// invariant: names-lead-to-owner
#[test]
fn duplicate_names_and_uris_are_disambiguated() {
    let bench = bench("direct").server("other", "two", server("legacy"));
    let agent = greeted(&bench);
    let names = agent.tool_names();
    let own: Vec<_> = names.iter().filter(|name| !name.contains("__")).collect();
    assert!(own.is_empty(), "both servers have these tools: {own:?}");
    let addresses = uris(&agent);
    let second = "mcp-workbench://other/two/test://static-text";
    assert!(addresses.iter().any(|uri| uri == second), "{addresses:?}");
    assert_eq!(read(&agent, second)["uri"], second);
    assert!(prompts(&agent).contains(&"other__two__test_simple_prompt".to_owned()));
    let prompt = json!({ "name": "other__two__test_simple_prompt" });
    agent.request("prompts/get", prompt).ok();
}

#[test]
fn resources_and_prompts_come_with_their_toolbox() {
    for mode in ["dynamic", "proxy"] {
        let bench = bench(mode);
        let agent = bench.agent().relisting_on_change();
        agent.initialize();
        assert!(uris(&agent).is_empty() && prompts(&agent).is_empty());
        agent.open("box").ok();
        agent.next_notification("notifications/resources/list_changed");
        agent.next_notification("notifications/prompts/list_changed");
        assert_eq!(uris(&agent)[0], "test://static-text", "{mode}");
        assert_eq!(prompts(&agent)[0], "test_simple_prompt", "{mode}");
    }
}

// invariant: lists-are-stable
#[test]
fn modern_lists_are_constant_and_open_resources_readable() {
    for mode in ["dynamic", "proxy"] {
        let bench = bench(mode);
        let agent = bench.agent().modern();
        let missing = agent.request("resources/read", json!({ "uri": "test://static-text" }));
        assert_eq!(missing.error()["code"], -32602);
        agent.open("box").ok();
        assert_eq!(agent.tool_names(), ["open_toolbox", "use_tool"]);
        assert!(uris(&agent).is_empty() && prompts(&agent).is_empty());
        assert_eq!(read(&agent, "test://static-text")["mimeType"], "text/plain");
        agent.request("prompts/get", json!({ "name": "test_simple_prompt" })).ok();
    }
}

// invariant: suspended-call-once
#[test]
fn request_state_is_valid_once_and_for_its_own_request() {
    let bench =
        TestEnvironment::new().set("toolMode", json!("direct")).server("b", "s", server("legacy"));
    let agent = bench.agent().modern_with(json!({ "elicitation": {} }));
    let tool = "test_input_required_result_elicitation";
    let call = |params: Value| agent.request("tools/call", params);
    let asked = call(json!({ "name": tool, "arguments": {} })).ok();
    assert_eq!(asked["resultType"], "input_required");
    let questions = asked["inputRequests"].as_object().expect("questions");
    let (key, question) = questions.iter().next().expect("a question");
    assert_eq!(question["method"], "elicitation/create");
    let mut again = json!({
        "name": tool,
        "arguments": {},
        "requestState": asked["requestState"],
        "inputResponses": { key: { "action": "accept", "content": { "name": "Ann" } } },
    });
    let mut other = again.clone();
    other["name"] = "test_simple_text".into();
    assert_eq!(call(other).error()["code"], -32602);
    again["requestState"] = format!("{}x", asked["requestState"].as_str().expect("a state")).into();
    assert_eq!(call(again.clone()).error()["code"], -32602, "the state is signed");
    again["requestState"] = asked["requestState"].clone();
    assert_eq!(call(again.clone()).text(), "Hello, Ann!");
    assert_eq!(call(again).error()["code"], -32602, "the state was already used");
}
