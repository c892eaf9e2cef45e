//! The conformance server follows the protocol in both eras.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::support::Agent;

const TASKS: &str = "io.modelcontextprotocol/tasks";
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

fn start(eras: &str) -> Agent {
    Agent::spawn(env!("CARGO_BIN_EXE_conformance-server"), [eras])
}

fn legacy() -> Agent {
    let agent = start("legacy");
    let capabilities = json!({ "elicitation": {}, "sampling": {}, "roots": {} });
    agent.initialize_with(json!({ "capabilities": capabilities }));
    agent
}

fn modern(capabilities: Value) -> Agent {
    start("modern").modern_with(capabilities)
}

fn with_tasks() -> Agent {
    modern(json!({ "elicitation": {}, "extensions": { TASKS: {} } }))
}

#[test]
fn legacy_session_starts_with_initialize() {
    let agent = start("legacy");
    assert_eq!(agent.request("tools/list", json!({})).error()["code"], -32600);
    assert_eq!(agent.request("server/discover", json!({})).error()["code"], -32601);
    let result = agent.initialize();
    assert_eq!(result["protocolVersion"], "2025-11-25");
    assert_eq!(result["capabilities"]["extensions"], Value::Null);
    assert_eq!(agent.request("ping", json!({})).ok(), json!({}));
    assert_eq!(agent.tool_names()[0], "test_simple_text");
    let text = agent.call("test_simple_text", json!({})).raw_result();
    assert_eq!(
        text,
        r#"{"content":[{"type":"text","text":"This is a simple text response for testing."}]}"#
    );
}

#[test]
fn argument_selects_the_protocol_versions() {
    let agent = start("both");
    agent.initialize();
    let agent = agent.modern();
    let discovered = agent.request("server/discover", json!({})).ok();
    assert_eq!(
        discovered["supportedVersions"],
        json!(["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"])
    );
    let agent = start("modern");
    let params = json!({ "protocolVersion": "2025-11-25" });
    assert_eq!(agent.request("initialize", params).error()["code"], -32022);
    let agent = start("neither");
    agent.wait_stderr("unknown argument `neither`");
}

#[test]
fn legacy_client_receives_server_requests() {
    let agent = legacy()
        .with_reply(
            "elicitation/create",
            json!({ "action": "accept", "content": { "name": "Ann" } }),
        )
        .with_reply("roots/list", json!({ "roots": [] }))
        .with_reply(
            "sampling/createMessage",
            json!({
                "role": "assistant",
                "content": { "type": "text", "text": "Hi" },
                "model": "m",
            }),
        );
    let ask = |tool: &str, arguments: Value| agent.call(tool, arguments).text();
    assert_eq!(ask("test_sampling", json!({ "prompt": "Hi?" })), "LLM response: Hi");
    assert_eq!(
        ask("test_elicitation", json!({ "message": "Who?" })),
        r#"User response: action=accept, content={"name":"Ann"}"#
    );
    assert_eq!(ask("test_input_required_result_elicitation", json!({})), "Hello, Ann!");
    assert!(ask("test_list_roots", json!({})).contains("roots"));
    let request = agent.next_request("sampling/createMessage");
    assert_eq!(request["params"]["messages"][0]["content"]["text"], "Hi?");
}

#[test]
fn legacy_client_receives_only_supported_requests() {
    let agent = start("legacy");
    agent.initialize();
    assert!(agent.call("test_sampling", json!({ "prompt": "Hi?" })).is_tool_error());
    assert!(agent.call("test_missing_capability", json!({})).is_tool_error());
}

#[test]
fn log_level_filters_messages() {
    let agent = legacy();
    agent.request("logging/setLevel", json!({ "level": "error" })).ok();
    agent.call("test_logging_tool", json!({}));
    agent.request("logging/setLevel", json!({ "level": "info" })).ok();
    agent.call("test_tool_with_logging", json!({}));
    let said = |agent: &Agent| agent.next_notification("notifications/message")["data"].clone();
    assert_eq!(said(&agent), "Tool execution started");
    assert_eq!(said(&agent), "Tool processing data");
    let level = agent.request("logging/setLevel", json!({ "level": "loud" }));
    assert_eq!(level.error()["code"], -32602);
}

#[test]
fn progress_carries_the_token() {
    let agent = legacy();
    let call = agent.send_call("test_tool_with_progress", json!({}));
    agent.wait(&call);
    let done: Vec<Value> = agent.progress(&call).iter().map(|p| p["progress"].clone()).collect();
    assert_eq!(done, [0, 50, 100]);
}

#[test]
fn legacy_client_is_notified_of_subscribed_resources() {
    let agent = legacy();
    let watched = json!({ "uri": "test://watched-resource" });
    agent.call("test_trigger_resource_change", json!({}));
    agent.request("resources/subscribe", watched.clone()).ok();
    agent.call("test_trigger_resource_change", json!({}));
    agent.request("resources/unsubscribe", watched.clone()).ok();
    agent.call("test_trigger_resource_change", json!({}));
    let told = agent.notifications();
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0]["params"], watched);
    let contents = agent.request("resources/read", watched).ok();
    assert_eq!(contents["contents"][0]["text"], "Revision 3");
    let missing = agent.request("resources/read", json!({ "uri": "test://none" })).error();
    assert_eq!(
        (&missing["code"], &missing["data"]["uri"]),
        (&json!(-32002), &json!("test://none"))
    );
}

#[test]
fn modern_request_requires_version_and_capabilities() {
    let agent = start("modern");
    let meta = |changes: Value| {
        let mut meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        for (key, value) in changes.as_object().into_iter().flatten() {
            meta[format!("io.modelcontextprotocol/{key}")] = value.clone();
        }
        let answer = agent.request("tools/list", json!({ "_meta": meta }));
        answer.line.contains("\"error\"").then(|| answer.error())
    };
    assert_eq!(agent.request("tools/list", json!({})).error()["code"], -32602);
    assert_eq!(meta(json!({ "clientCapabilities": null })).unwrap()["code"], -32602);
    let unknown = meta(json!({ "protocolVersion": "2099-01-01" })).unwrap();
    assert_eq!(unknown["code"], -32022);
    assert_eq!(unknown["data"], json!({ "supported": ["2026-07-28"], "requested": "2099-01-01" }));
    assert_eq!(meta(json!({})), None);
}

#[test]
fn modern_results_have_a_type_and_cache_hints() {
    let agent = modern(json!({}));
    for method in ["tools/list", "prompts/list", "resources/list", "resources/templates/list"] {
        let result = agent.request(method, json!({})).ok();
        assert_eq!(result["resultType"], "complete", "{method}");
        assert_eq!((&result["ttlMs"], &result["cacheScope"]), (&json!(0), &json!("private")));
    }
    let called = agent.call("test_simple_text", json!({})).ok();
    assert_eq!(called["resultType"], "complete");
    assert_eq!(called["ttlMs"], Value::Null);
    for removed in ["ping", "initialize", "logging/setLevel", "resources/subscribe", "tasks/list"] {
        assert_eq!(agent.request(removed, json!({})).error()["code"], -32601, "{removed}");
    }
    let missing = agent.request("resources/read", json!({ "uri": "test://none" })).error();
    assert_eq!(missing["code"], -32602);
}

#[test]
fn modern_client_is_asked_only_for_supported_input() {
    let agent = modern(json!({ "sampling": {} }));
    assert_eq!(agent.call("test_missing_capability", json!({})).ok()["resultType"], "complete");
    let adapted = agent.call("test_input_required_result_capabilities", json!({})).ok();
    let asked: Vec<&String> = adapted["inputRequests"].as_object().unwrap().keys().collect();
    assert_eq!(asked, ["greeting"]);
    let refused = agent.call("test_input_required_result_multiple_inputs", json!({})).error();
    assert_eq!(refused["code"], -32021);
    assert_eq!(refused["data"]["requiredCapabilities"], json!({ "elicitation": {}, "roots": {} }));
}

#[test]
fn dialogue_state_travels_with_the_client() {
    let agent = modern(json!({ "elicitation": {} }));
    let go_on = |answer: Option<Value>, state: &Value| {
        let mut params = json!({ "name": "test_input_required_result_multi_round" });
        if let Some(answer) = answer {
            params["inputResponses"] = answer;
        }
        if !state.is_null() {
            params["requestState"] = state.clone();
        }
        agent.request("tools/call", params)
    };
    let accept = |content: Value| json!({ "action": "accept", "content": content });
    let first = go_on(None, &Value::Null).ok();
    assert_eq!(first["inputRequests"]["step1"]["method"], "elicitation/create");
    let name = Some(json!({ "step1": accept(json!({ "name": "Ann" })) }));
    let second = go_on(name.clone(), &first["requestState"]).ok();
    assert!(second["inputRequests"]["step2"].is_object());
    let color = Some(json!({ "step2": accept(json!({ "color": "blue" })), "other": 1 }));
    let done = go_on(color, &second["requestState"]);
    assert_eq!(done.text(), "Ann likes blue.");
    let tampered = format!("{}x", first["requestState"].as_str().unwrap());
    for (answer, state) in [
        (name, json!(tampered)),
        (None, json!("0.{}")),
        (Some(Value::Null), first["requestState"].clone()),
        (Some(json!({ "step1": 12_345 })), first["requestState"].clone()),
    ] {
        assert_eq!(go_on(answer, &state).error()["code"], -32602);
    }
}

#[test]
fn listener_receives_only_requested_changes() {
    let agent = modern(json!({}));
    let wants = |filter: Value| {
        let listen = agent.send_request("subscriptions/listen", json!({ "notifications": filter }));
        let granted = agent.next_notification("notifications/subscriptions/acknowledged");
        assert_eq!(granted["_meta"][SUBSCRIPTION], listen.0);
        assert_eq!(granted["notifications"], filter);
        listen
    };
    let tools = wants(json!({ "toolsListChanged": true }));
    let prompts = wants(json!({ "promptsListChanged": true }));
    agent.call("test_trigger_tool_change", json!({}));
    agent.call("test_trigger_prompt_change", json!({}));
    let tag = |method: &str| agent.next_notification(method)["_meta"][SUBSCRIPTION].clone();
    assert_eq!(tag("notifications/tools/list_changed"), tools.0);
    assert_eq!(tag("notifications/prompts/list_changed"), prompts.0);
    assert!(agent.tool_names().contains(&"test_dynamic_tool".to_owned()));
    agent.cancel(&tools);
    agent.call("test_trigger_tool_change", json!({}));
    assert_eq!(agent.notifications().len(), 4);
}

#[test]
fn task_exists_immediately_and_ends_once() {
    let agent = with_tasks();
    let created = agent.call("slow_compute", json!({ "seconds": 60, "label": "x" })).ok();
    assert_eq!(created["resultType"], "task");
    let id = json!({ "taskId": created["taskId"] });
    assert_eq!(agent.request("tasks/get", id.clone()).ok()["status"], "working");
    agent.request("tasks/cancel", id.clone()).ok();
    agent.request("tasks/cancel", id.clone()).ok();
    assert_eq!(agent.request("tasks/get", id).ok()["status"], "cancelled");
    let unknown = agent.request("tasks/get", json!({ "taskId": "task-0" })).error();
    assert_eq!(unknown["code"], -32602);
}

#[test]
fn task_waits_for_all_answers() {
    let agent = with_tasks();
    let created = agent.call("multi_input", json!({})).ok();
    let id = &created["taskId"];
    let filter = json!({ "notifications": { "taskIds": [id] } });
    agent.send_request("subscriptions/listen", filter);
    agent.next_notification("notifications/subscriptions/acknowledged");
    let get = || agent.request("tasks/get", json!({ "taskId": id })).ok();
    // The task may have asked before the subscription was open.
    if get()["status"] == "working" {
        agent.next_notification("notifications/tasks");
    }
    let answer = |key: &str, name: &str| {
        let answer = json!({ "action": "accept", "content": { "name": name } });
        let params = json!({ "taskId": id, "inputResponses": { key: answer, "odd": 1 } });
        agent.request("tasks/update", params).ok();
    };
    answer("first", "Ann");
    let open = get();
    assert_eq!(open["status"], "input_required");
    assert_eq!(open["inputRequests"].as_object().unwrap().len(), 1);
    answer("second", "Bob");
    loop {
        let told = agent.next_notification("notifications/tasks");
        if told["status"] == "completed" {
            assert_eq!(told["result"]["content"][0]["text"], "Ann, Bob");
            break;
        }
    }
}

#[test]
fn tasks_require_the_extension() {
    let agent = modern(json!({}));
    let required = json!({ "requiredCapabilities": { "extensions": { TASKS: {} } } });
    for error in [
        agent.call("failing_job", json!({})).error(),
        agent.request("tasks/get", json!({ "taskId": "task-0" })).error(),
    ] {
        assert_eq!((&error["code"], &error["data"]), (&json!(-32021), &required));
    }
    let computed = agent.call("slow_compute", json!({ "seconds": 0, "label": "x" }));
    assert_eq!(computed.text(), "Computed x");
}

#[test]
fn skill_files_match_their_digests() {
    let agent = modern(json!({}));
    let mut cursor = Value::Null;
    let mut skills = Vec::new();
    loop {
        let params = if cursor.is_null() { json!({}) } else { json!({ "cursor": cursor }) };
        let mut page = agent.request("skills/list", params).ok();
        skills.append(page["skills"].as_array_mut().unwrap());
        cursor = page["nextCursor"].take();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!(skills.len(), 2);
    for file in skills.iter().flat_map(|skill| skill["resources"].as_array().unwrap()) {
        let read = agent.request("resources/read", json!({ "uri": file["uri"] })).ok();
        let text = read["contents"][0]["text"].as_str().unwrap();
        assert_eq!(file["digest"], format!("sha256:{}", hex::encode(Sha256::digest(text))));
        assert_eq!(file["size"], text.len());
    }
    let folder = json!({ "uri": "skill://greeting-cards" });
    let children = agent.request("resources/directory/read", folder).ok();
    assert_eq!(children["resources"][1]["mimeType"], "inode/directory");
    for unknown in ["skill://greeting-cards/SKILL.md", "skill://none"] {
        let answer = agent.request("resources/directory/read", json!({ "uri": unknown }));
        assert_eq!(answer.error()["code"], -32602, "{unknown}");
    }
}
