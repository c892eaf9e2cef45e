//! Tasks are routed to the server that runs them. Methods of extensions need an entry in
//! `extensionMethods`, and then follow the rules for tools.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::{Agent, TestEnvironment, conformance, fake};

const TASKS: &str = "io.modelcontextprotocol/tasks";

fn bench() -> TestEnvironment {
    TestEnvironment::new()
        .set("toolMode", json!("direct"))
        .server("box", "plain", fake(json!({ "tools": ["echo"] })))
        .server("box", "suite", with_methods(conformance("modern"), json!(["skills/*"])))
}

fn with_methods(mut entry: Value, methods: Value) -> Value {
    entry["extensionMethods"] = methods;
    entry
}

const METHODS: [&str; 3] = ["acme/read", "acme/wipe", "other/read"];

/// A server that declares an extension and writes all its requests to `server.requests`.
fn acme(bench: TestEnvironment, server: &str, methods: Value) -> TestEnvironment {
    let script = json!({
        "name": server,
        "tools": ["echo"],
        "protocol": "modern",
        "capabilities": {"extensions": {"example.com/acme": {}, TASKS: {}}},
        "repeat": METHODS,
        "requestFile": bench.path_text(&format!("{server}.requests")),
    });
    bench.server("box", server, with_methods(fake(script), methods))
}

fn arrived(bench: &TestEnvironment, server: &str, method: &str) -> usize {
    let requests = std::fs::read_to_string(bench.path(&format!("{server}.requests")));
    requests.unwrap_or_default().lines().filter(|line| *line == method).count()
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
fn only_usable_capabilities_are_declared() {
    let declared = |bench: TestEnvironment| {
        let agent = bench.agent().modern_with(speaking());
        agent.tools();
        agent.request("server/discover", json!({})).ok()["capabilities"].clone()
    };
    let bench = || TestEnvironment::new().set("toolMode", json!("direct"));
    let one = declared(acme(bench(), "one", json!(["acme/*"])));
    assert_eq!(one["extensions"], json!({ "example.com/acme": {}, TASKS: {} }));
    assert!(one.get("logging").is_none(), "{one}");
    // A method without an owner would be ambiguous.
    let two = acme(acme(bench(), "one", json!(["acme/*"])), "two", json!(["acme/*"]));
    assert_eq!(declared(two)["extensions"], json!({ TASKS: {} }));
    let logging =
        json!({ "tools": ["echo"], "protocol": "modern", "capabilities": { "logging": {} } });
    let logging = declared(bench().server("box", "logging", fake(logging)));
    assert_eq!(logging["logging"], json!({}));
}

// invariant: forbidden-equals-missing
#[test]
fn unlisted_extension_method_is_not_forwarded() {
    let rules = json!({"reader": {"toolOverrides": {"one": ["echo", "other/*"]}}});
    for over_http in [false, true] {
        let bench = TestEnvironment::new().set("toolMode", json!("direct"));
        let bench = acme(bench, "one", json!(["acme/read"])).set("agentPolicies", rules.clone());
        let start = |name: &str| {
            if over_http {
                return Agent::over_http(bench.http_with(["--agent", name]));
            }
            bench.agent_with(["--agent", name])
        };
        // A claim of extensions changes nothing, in either era.
        let claims =
            json!({ "extensions": {"example.com/acme": {}}, "experimental": {"acme": {}} });
        for is_modern in [true, false] {
            let agent = start("reader").begin(is_modern, claims.clone());
            agent.tools();
            agent.call("echo", json!({})).ok();
            let missing = agent.request("none/such", json!({})).error();
            for method in
                ["acme/read", "acme/wipe", "other/read", "Acme/read", "tools/read", "tasks/wipe"]
            {
                let error = agent.request(method, json!({"taskId": "1"})).error();
                let expected = missing.to_string().replace("none/such", method);
                assert_eq!(error.to_string(), expected, "{method} {is_modern} {over_http}");
            }
            if !over_http {
                agent.notify("acme/wipe", json!({}));
            }
            agent.call("echo", json!({})).ok();
        }
        assert_ne!(arrived(&bench, "one", "tools/call"), 0);
        for method in METHODS {
            assert_eq!(arrived(&bench, "one", method), 0, "{method}");
        }
    }
}

#[test]
fn listed_extension_method_is_limited_confirmed_and_audited() {
    const QUESTION: &str = "elicitation/create";
    for is_modern in [true, false] {
        let bench = TestEnvironment::new()
            .set("toolMode", json!("direct"))
            .set("audit", json!({"file": "audit.jsonl", "arguments": "whole"}))
            .set("dangerousTools", json!(["one:acme/wipe"]))
            .set(
                "agentPolicies",
                json!({"ann": {"toolOverrides": {"one": ["*"]}, "when": [
                    {"tools": ["acme/read"], "arguments": {"/path": {"matches": "^/tmp/"}}},
                ]}}),
            );
        let bench = acme(bench, "one", json!(["acme/*"]));
        let begin = |action: &str| {
            let reply = json!({ "action": action, "content": {} });
            let agent = bench.agent_with(["--agent", "ann"]).with_reply(QUESTION, reply);
            agent.begin(is_modern, json!({ "elicitation": {} }))
        };
        let agent = begin("decline");
        let read = |path: &str| agent.request("acme/read", json!({"path": path, "n": 1.50}));
        assert!(read("/tmp/x").line.contains(r#""repeated":{"path":"/tmp/x","n":1.5"#));
        let similar = json!({"path": "/tmp/x", "Path": "/etc/passwd"});
        let error = agent.request("acme/read", similar).error();
        assert_eq!(error["code"], -32602, "{error}");
        for method in ["acme/re\u{1b}ad", "acme/read\r\n", "acme/\u{202e}read"] {
            assert_eq!(agent.request(method, json!({"path": "/tmp/x"})).error()["code"], -32601);
        }
        let refused = read("/etc/passwd").error().to_string();
        assert!(refused.contains("was not called"), "{refused}");
        let wipe = json!({"path": "/tmp/x"});
        let declined = agent.request_to_completion("acme/wipe", wipe.clone()).error();
        assert!(declined.to_string().contains("the user declined"), "{declined}");
        let asked = agent.next_request(QUESTION)["params"]["message"].to_string();
        assert!(asked.contains("acme/wipe") && asked.contains("/tmp/x"), "{asked}");
        assert_eq!(arrived(&bench, "one", "acme/wipe"), 0);
        agent.close_stdin();
        agent.wait_end();
        let agent = begin("accept");
        agent.request_to_completion("acme/wipe", wipe).ok();
        assert_eq!(arrived(&bench, "one", "acme/wipe"), 1);
        agent.close_stdin();
        agent.wait_end();
        let audit = std::fs::read_to_string(bench.path("audit.jsonl")).expect("an audit");
        let outcomes: Vec<_> = audit
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).expect("JSON"))
            .filter(|line| line["kind"] == "call" && line["tool"].is_string())
            .filter(|line| line["decision"] != "unknown")
            .map(|line| [line["tool"].clone(), line["decision"].clone()])
            .collect();
        assert_eq!(
            json!(outcomes),
            json!([
                ["acme/read", "allowed"],
                ["acme/read", "denied"],
                ["acme/wipe", "denied"],
                ["acme/wipe", "allowed"],
            ]),
            "{audit}"
        );
    }
}

#[test]
fn method_of_several_servers_goes_to_the_owner_of_its_uri_or_fails_clearly() {
    let bench = TestEnvironment::new().set("toolMode", json!("direct"));
    let bench = acme(acme(bench, "one", json!(["acme/*"])), "two", json!(["acme/read"]));
    let agent = bench.agent().modern();
    let error = agent.request("acme/read", json!({})).error().to_string();
    assert!(error.contains("`box/one`, `box/two`"), "{error}");
    agent.request("acme/wipe", json!({})).ok();
    assert_eq!((arrived(&bench, "one", "acme/wipe"), arrived(&bench, "two", "acme/wipe")), (1, 0));
    assert_eq!(arrived(&bench, "one", "acme/read") + arrived(&bench, "two", "acme/read"), 0);
}

#[test]
fn only_usable_extensions_are_advertised() {
    for methods in [json!([]), json!(["acme/read"])] {
        let bench = TestEnvironment::new().set("toolMode", json!("direct"));
        let bench = acme(bench, "one", methods.clone());
        let names = |agent: Agent| {
            let found = agent.request("server/discover", json!({})).ok();
            let all = found["capabilities"]["extensions"].as_object().cloned().unwrap_or_default();
            all.keys().cloned().collect::<Vec<_>>()
        };
        let expected =
            if methods == json!([]) { vec![TASKS] } else { vec!["example.com/acme", TASKS] };
        assert_eq!(names(bench.agent().modern()), expected);
        assert_eq!(names(Agent::over_http(bench.expose(["one"])).modern()), expected);
    }
}

#[test]
fn task_requests_reach_only_servers_with_tasks() {
    let script =
        json!({"tools": ["echo"], "protocol": "modern", "repeat": ["tasks/get", "tasks/list"]});
    let bench =
        TestEnvironment::new().set("toolMode", json!("direct")).server("box", "one", fake(script));
    let agent = bench.agent().modern_with(speaking());
    agent.call("echo", json!({})).ok();
    for method in ["tasks/get", "tasks/list"] {
        let error = agent.request(method, json!({"taskId": "1"})).error();
        assert_eq!(error["code"], -32601, "{method}");
    }
}
