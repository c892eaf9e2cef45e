//! Tasks and extension methods are routed to the right server if the client declared the extension.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::{Agent, TestEnvironment, conformance, fake};

const TASKS: &str = "io.modelcontextprotocol/tasks";

fn bench() -> TestEnvironment {
    TestEnvironment::new()
        .set("toolMode", json!("direct"))
        .server("box", "plain", fake(json!({ "tools": ["echo"] })))
        .server("box", "suite", conformance("modern"))
}

fn speaking() -> Value {
    json!({ "extensions": { TASKS: {}, "io.modelcontextprotocol/skills": {} } })
}

#[test]
fn task_requests_reach_the_server_that_runs_the_task() {
    let bench = bench();
    let agent = bench.agent().modern_with(speaking());
    let created = agent.call("slow_compute", json!({ "seconds": 60, "label": "x" })).ok();
    assert_eq!(created["resultType"], "task", "{created}");
    let id = json!({ "taskId": created["taskId"] });
    assert_eq!(agent.request("tasks/get", id.clone()).ok()["status"], "working");
    agent.request("tasks/cancel", id.clone()).ok();
    assert_eq!(agent.request("tasks/get", id).ok()["status"], "cancelled");
}

#[test]
fn task_notifications_reach_subscribers() {
    let bench = bench();
    let agent = bench.agent().modern_with(speaking());
    let created = agent.call("slow_compute", json!({ "seconds": 0.5, "label": "x" })).ok();
    let filter = json!({ "notifications": { "taskIds": [created["taskId"]] } });
    agent.send_request("subscriptions/listen", filter);
    let granted = agent.next_notification("notifications/subscriptions/acknowledged");
    assert_eq!(granted["notifications"]["taskIds"], json!([created["taskId"]]));
    let told = agent.next_notification("notifications/tasks");
    assert_eq!((&told["taskId"], &told["status"]), (&created["taskId"], &json!("completed")));
}

#[test]
fn task_input_requests_are_answered_with_tasks_update() {
    let bench = bench();
    let mut capabilities = speaking();
    capabilities["elicitation"] = json!({});
    let agent = bench.agent().modern_with(capabilities);
    let created = agent.call("confirm_delete", json!({ "filename": "a" })).ok();
    let id = &created["taskId"];
    let get = |agent: &Agent| agent.request("tasks/get", json!({ "taskId": id })).ok();
    let until = |status: &str| {
        (0..1000).find_map(|_| Some(get(&agent)).filter(|task| task["status"] == status))
    };
    let open = until("input_required").expect("a question");
    let key = open["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    let answer = json!({ "action": "accept", "content": { "confirm": true } });
    let params = json!({ "taskId": id, "inputResponses": { key: answer } });
    agent.request("tasks/update", params).ok();
    let done = until("completed").expect("an end");
    assert_eq!(done["result"]["content"][0]["text"], "Deleted a.");
}

#[test]
fn extension_methods_reach_the_server_that_implements_them() {
    let bench = bench();
    let agent = bench.agent().modern_with(speaking());
    let skills = agent.request("skills/list", json!({})).ok();
    assert!(!skills["skills"].as_array().unwrap().is_empty());
    assert_eq!(skills["resultType"], "complete");
    let discovered = agent.request("server/discover", json!({})).ok();
    assert!(discovered["capabilities"]["extensions"][TASKS].is_object(), "{discovered}");
    assert_eq!(agent.request("skills/invent", json!({})).error()["code"], -32601);

    let plain = bench.agent().modern();
    for method in ["nobody/knows", "tasks/list", "resources/subscribe"] {
        assert_eq!(plain.request(method, json!({})).error()["code"], -32601, "{method}");
    }
    let legacy = bench.agent();
    legacy.initialize();
    for method in ["nobody/knows", "server/discover", "subscriptions/listen"] {
        assert_eq!(legacy.request(method, json!({})).error()["code"], -32601, "{method}");
    }
}

#[test]
fn extension_methods_require_an_agent_with_extensions() {
    let script = json!({ "tools": ["echo"], "repeat": ["odd/method"] });
    let bench =
        TestEnvironment::new().set("toolMode", json!("direct")).server("box", "one", fake(script));
    let odd = |agent: &Agent| agent.request("odd/method", json!({ "n": 1.5 }));
    assert_eq!(odd(&bench.agent().modern()).error()["code"], -32601);
    let passed = odd(&bench.agent().modern_with(speaking())).ok();
    assert_eq!(passed["repeated"]["n"], 1.5);
}
