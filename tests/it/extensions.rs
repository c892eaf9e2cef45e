//! Tasks and methods of extensions: they reach the server that is meant, where the client has
//! said that it speaks them.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::{Agent, Bench, conformance, fake};

const TASKS: &str = "io.modelcontextprotocol/tasks";

fn bench() -> Bench {
    Bench::new()
        .set("toolMode", json!("direct"))
        .server("box", "plain", fake(json!({ "tools": ["echo"] })))
        .server("box", "suite", conformance("modern"))
}

fn speaking() -> Value {
    json!({ "extensions": { TASKS: {}, "io.modelcontextprotocol/skills": {} } })
}

#[test]
fn a_task_is_asked_after_where_it_runs() {
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
fn a_task_tells_those_who_listen() {
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
fn what_a_task_asks_is_answered_through_it() {
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
fn a_method_of_an_extension_reaches_the_server_that_speaks_it() {
    let bench = bench();
    let agent = bench.agent().modern_with(speaking());
    let skills = agent.request("skills/list", json!({})).ok();
    assert!(!skills["skills"].as_array().unwrap().is_empty());
    assert_eq!(skills["resultType"], "complete");
    let discovered = agent.request("server/discover", json!({})).ok();
    assert!(discovered["capabilities"]["extensions"][TASKS].is_object(), "{discovered}");
    // The server does not know it, and so nobody does.
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
fn where_no_server_speaks_extensions_a_method_is_for_agents_that_do() {
    let script = json!({ "tools": ["echo"], "repeat": ["odd/method"] });
    let bench = Bench::new().set("toolMode", json!("direct")).server("box", "one", fake(script));
    let odd = |agent: &Agent| agent.request("odd/method", json!({ "n": 1.5 }));
    assert_eq!(odd(&bench.agent().modern()).error()["code"], -32601);
    let passed = odd(&bench.agent().modern_with(speaking())).ok();
    assert_eq!(passed["repeated"]["n"], 1.5);
}
