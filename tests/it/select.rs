//! Selected fields of results: `select` of `use_tool` and of the configuration.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::{Agent, Response, TestEnvironment, fake};

const WAYS: [(bool, bool); 4] = [(false, false), (true, false), (false, true), (true, true)];
const RECORD: [&str; 3] = ["box", "srv", "record"];
const URI: &str = "mcp-workbench://results/";

/// A server that returns the text `raw` of the arguments as the result.
fn server(bench: &TestEnvironment) -> Value {
    let record = json!({
        "name": "record",
        "inputSchema": { "type": "object" },
        "outputSchema": { "type": "object", "required": ["total", "items"] },
        "annotations": { "readOnlyHint": true, "idempotentHint": true },
    });
    fake(json!({
        "protocol": "dual",
        "tools": [record, "echo", "count", "tool_error", "secret"],
        "behavior": { "record": "result" },
        "capabilities": { "resources": {} },
        "requestFile": bench.path_text("requests"),
    }))
}

fn bench(mode: &str) -> TestEnvironment {
    let bench =
        TestEnvironment::new().set("toolMode", json!(mode)).set("activeToolsets", json!(["*"]));
    let server = server(&bench);
    bench.server("box", "srv", server)
}

fn with_select(mode: &str, pointers: Value) -> TestEnvironment {
    let bench = bench(mode);
    let mut entry = server(&bench);
    entry["overrides"] = json!({ "record": { "select": pointers } });
    bench.server("box", "srv", entry)
}

/// A record of 40 kB, as text and as `structuredContent`.
fn record() -> String {
    record_of(40)
}

fn record_of(items: usize) -> String {
    let item = |n| {
        let body = "b".repeat(900);
        format!(
            r#"{{ "id": 1234567890123456789{n}, "title":"Issue \u0023{n}", "body": "{body}" }}"#
        )
    };
    let items: Vec<String> = (10..10 + items).map(item).collect();
    let text = format!(r#"{{"total": 4.0e1, "items": [{}]}}"#, items.join(", "));
    let content = json!([{ "type": "text", "text": text }]);
    format!(r#"{{"content":{content},"structuredContent":{text}}}"#)
}

fn use_record(agent: &Agent, raw: &str, select: Value) -> Response {
    let [toolbox, server, tool] = RECORD;
    let tool = json!({ "toolbox": toolbox, "server": server, "tool": tool });
    agent.call("use_tool", json!({ "tool": tool, "arguments": { "raw": raw }, "select": select }))
}

fn texts(result: &Value) -> Vec<&str> {
    let blocks = result["content"].as_array().unwrap();
    blocks.iter().map(|block| block["text"].as_str().unwrap()).collect()
}

/// Reads the resource that the last word of `note` names.
fn read_whole(agent: &Agent, note: &str) -> String {
    let (_, uri) = note.rsplit_once(' ').unwrap();
    assert!(uri.starts_with(URI), "{note}");
    let read = agent.request("resources/read", json!({ "uri": uri })).ok();
    read["contents"][0]["text"].as_str().unwrap().to_owned()
}

fn methods(bench: &TestEnvironment, method: &str) -> usize {
    let requests = std::fs::read_to_string(bench.path("requests")).unwrap_or_default();
    requests.lines().filter(|line| *line == method).count()
}

// invariant: bytes-unchanged
#[test]
fn agent_gets_only_the_selected_fields_and_can_read_the_rest() {
    let raw = record();
    let whole: Value = serde_json::from_str(&raw).unwrap();
    for mode in ["proxy", "search", "dynamic", "activate"] {
        for (is_modern, over_http) in WAYS {
            let bench = bench(mode);
            let agent = if over_http { Agent::over_http(bench.http()) } else { bench.agent() };
            let agent = agent.begin(is_modern, json!({}));
            let answer = use_record(&agent, &raw, json!(["/total", "/items/*/id"]));
            let bytes = answer.raw_result().len();
            assert!(bytes < raw.len() / 30, "{bytes} of {} bytes", raw.len());
            let result = answer.ok();
            let [fields, note] = texts(&result)[..] else { panic!("{result}") };
            let ids: Vec<_> =
                (10..50).map(|n| format!(r#"{{"id":1234567890123456789{n}}}"#)).collect();
            assert_eq!(fields, format!(r#"{{"total":4.0e1,"items":[{}]}}"#, ids.join(",")));
            assert_eq!(result["structuredContent"], Value::Null, "{mode} {is_modern} {over_http}");
            assert_eq!(read_whole(&agent, note), texts(&whole)[0]);
        }
    }
}

#[test]
fn answers_about_fields_name_what_there_is() {
    let agent = bench("proxy").agent().begin(false, json!({}));
    let small = r#"{"content":[{"type":"text","text":"{\"total\":1,\"items\":[{\"id\":1}]}"}]}"#;
    let answers = [
        json!(["/items/*/id", "/item", "/items/0/name"]),
        json!("/items/id"),
        json!("[\"/total\"]"),
        json!([]),
        json!(null),
    ]
    .map(|select| use_record(&agent, small, select).ok());
    let text = texts(&answers[0]).into_iter().chain(texts(&answers[1])).collect::<Vec<_>>();
    let text = text.join("\n").split(URI).collect::<Vec<_>>().join("<uri>");
    let id = regex::Regex::new("<uri>[0-9a-f]{32}").unwrap();
    insta::assert_snapshot!(id.replace_all(&text, "<uri>"));
    assert_eq!(texts(&answers[2])[0], r#"{"total":1}"#);
    // An empty selection is the whole result, and so is none.
    for whole in &answers[3..] {
        assert_eq!(*whole, serde_json::from_str::<Value>(small).unwrap());
    }
    let plain = r#"{"content":[{"type":"text","text":"no rows"}]}"#;
    let plain = use_record(&agent, plain, json!(["/a"])).ok();
    assert_eq!(texts(&plain), ["no rows", "`select` had no effect: the result is not JSON."]);
    let failed = r#"{"content":[{"type":"text","text":"{\"a\":1}"}],"isError":true}"#;
    let failed = use_record(&agent, failed, json!(["/b"])).ok();
    assert!(texts(&failed)[0].starts_with(r#"{"a":1}"#) && failed["isError"] == true, "{failed}");
}

#[test]
fn malformed_pointers_are_refused_before_the_call() {
    for mode in ["proxy", "activate"] {
        let bench = bench(mode);
        let agent = bench.agent().begin(false, json!({}));
        let many: Vec<String> = (0..10_000).map(|n| format!("/x{n}")).collect();
        let mut said = Vec::new();
        for select in [json!(["items"]), json!(["/~2"]), json!(many), json!([1]), json!({"a": 1})] {
            let answer = use_record(&agent, "{}", select);
            assert!(answer.is_tool_error());
            // `activate` answers in JSON.
            let text = answer.text();
            let outcome: Value = serde_json::from_str(&text).unwrap_or_default();
            said.push(outcome["error"].as_str().unwrap_or(&text).to_owned());
        }
        insta::allow_duplicates! { insta::assert_snapshot!(said.join("\n")) }
        assert_eq!(methods(&bench, "tools/call"), 0);
    }
}

#[test]
fn argument_of_the_tool_called_select_is_its_own() {
    let agent = bench("proxy").agent().begin(false, json!({}));
    let arguments = json!({ "select": ["not a pointer"], "x": 1 });
    assert_eq!(agent.use_tool(["box", "srv", "echo"], arguments.clone()).structured(), arguments);
    let tool = json!({ "toolbox": "box", "server": "srv", "tool": "echo" });
    let both = json!({ "tool": tool, "arguments": arguments, "select": ["/select"] });
    let result = agent.call("use_tool", both).ok();
    assert_eq!(texts(&result)[0], r#"{"select":["not a pointer"]}"#);
}

#[test]
fn configured_fields_apply_in_every_mode_unless_the_call_selects() {
    let raw = record();
    for (mode, listed) in
        [("direct", "record"), ("dynamic", "box__srv__record"), ("activate", "box_record")]
    {
        let agent = with_select(mode, json!(["/total", "/gone"])).agent().begin(false, json!({}));
        if mode == "dynamic" {
            agent.open("box").ok();
        }
        let tools = agent.tools();
        let record = tools.iter().find(|tool| tool["name"] == listed).unwrap();
        assert!(record["outputSchema"].is_null(), "the result lacks required fields: {record}");
        let result = agent.call(listed, json!({ "raw": raw })).ok();
        assert_eq!(texts(&result)[0], r#"{"total":4.0e1}"#, "{mode}");
        assert!(texts(&result)[1].starts_with("Only selected fields."), "{mode}: {result}");
        let other = use_record(&agent, &raw, json!(["/items/0/title"])).ok();
        assert_eq!(texts(&other)[0], r#"{"items":[{"title":"Issue \u002310"}]}"#, "{mode}");
        assert_eq!(use_record(&agent, &raw, json!([])).raw_result(), raw, "{mode}");
        // Other results and errors are passed on unchanged.
        let empty = r#"{"content":[{"type":"text","text":"{\"message\":\"none\"}"}]}"#;
        assert_eq!(agent.call(listed, json!({ "raw": empty })).raw_result(), empty, "{mode}");
    }
    let modular = with_select("modular", json!(["/total"])).agent().begin(false, json!({}));
    let call = json!({ "group": "box", "name": "record", "args": { "raw": raw } });
    assert_eq!(texts(&modular.call("call-modular-tool", call).ok())[0], r#"{"total":4.0e1}"#);
}

#[test]
fn selection_passes_policy_confirmation_lock_and_audit() {
    const QUESTION: &str = "elicitation/create";
    let bench = bench("proxy");
    let mut entry = server(&bench);
    entry["toolFilters"] = json!(["!secret"]);
    entry["onDefinitionChange"] = json!("deny");
    let bench = bench
        .set("dangerousTools", json!(["srv:record"]))
        .set("audit", json!({ "file": "audit.jsonl" }))
        .server("box", "srv", entry.clone());
    assert_eq!(bench.run(["lock"]).code, Some(0));
    let raw = record();
    for (is_modern, over_http) in WAYS {
        let agent = if over_http { Agent::over_http(bench.http()) } else { bench.agent() };
        let agent = agent
            .with_reply(QUESTION, json!({ "action": "accept", "content": {} }))
            .begin(is_modern, json!({ "elicitation": {} }));
        let tool = |name: &str| json!({ "toolbox": "box", "server": "srv", "tool": name });
        let before = methods(&bench, "tools/call");
        let call =
            json!({ "tool": tool("record"), "arguments": { "raw": raw }, "select": ["/total"] });
        let result = agent.call_to_completion("use_tool", call).ok();
        assert_eq!(texts(&result)[0], r#"{"total":4.0e1}"#, "{is_modern} {over_http}");
        let question = agent.next_request(QUESTION);
        assert!(question.to_string().contains("call the tool `record`"), "{question}");
        for hidden in ["secret", "absent"] {
            let call = json!({ "tool": tool(hidden), "select": ["/a"] });
            assert!(agent.call("use_tool", call).is_tool_error(), "{hidden}");
        }
        assert_eq!(methods(&bench, "tools/call"), before + 1);
    }
    let audit = std::fs::read_to_string(bench.path("audit.jsonl")).unwrap();
    let called = audit
        .lines()
        .filter(|line| line.contains(r#""kind":"call""#) && line.contains(r#""record""#))
        .count();
    assert_eq!(called, WAYS.len(), "{audit}");
    // A changed definition is blocked, with a selection as without one.
    entry["args"][0] = entry["args"][0].as_str().unwrap().replace("\"total\"", "\"sum\"").into();
    let changed = bench.clone().server("box", "srv", entry);
    let agent = changed.agent().begin(false, json!({}));
    let before = methods(&bench, "tools/call");
    assert!(use_record(&agent, &raw, json!(["/total"])).is_tool_error());
    assert_eq!(methods(&bench, "tools/call"), before);
}

// invariant: results-per-agent
#[test]
fn cached_result_is_whole_and_limits_apply_to_the_selection() {
    let bench = bench("proxy").set("resultCache", json!({ "ttlMs": 3_600_000 }));
    let agent = Agent::over_http(bench.http());
    let other = agent.beside().begin(false, json!({}));
    let agent = agent.begin(false, json!({}));
    // Longer arguments aren't cached.
    let raw = record_of(4);
    let total = use_record(&agent, &raw, json!(["/total"])).ok();
    let title = use_record(&agent, &raw, json!(["/items/0/title"])).ok();
    assert_eq!(texts(&title)[0], r#"{"items":[{"title":"Issue \u002310"}]}"#);
    assert_eq!(methods(&bench, "tools/call"), 1);
    let (_, uri) = texts(&total)[1].rsplit_once(' ').unwrap();
    let foreign = other.request("resources/read", json!({ "uri": uri })).error();
    assert_eq!(foreign["code"], -32002, "another session can't read the whole result");
    let limited = bench.clone().set("limits", json!({ "maxResultBytes": 2000 }));
    let agent = limited.agent().begin(false, json!({}));
    let short = use_record(&agent, &raw, json!(["/total"])).ok();
    assert_eq!(texts(&short).len(), 2, "{short}");
    let long = use_record(&agent, &raw, json!(["/items/*/body"])).ok();
    assert!(long.to_string().contains("This result was truncated"), "{long}");
}

#[test]
fn hostile_results_are_selected_in_bounded_time_and_space() {
    let agent = bench("proxy").agent().begin(false, json!({}));
    let deep = format!("{}1{}", "[".repeat(200_000), "]".repeat(200_000));
    let rows = vec![r#"{"a":{},"b":"x"}"#; 200_000].join(",");
    let text = format!(r#"{{"deep":{deep},"rows":[{rows}],"a":1,"a":2}}"#);
    let raw = format!(r#"{{"structuredContent":{text}}}"#);
    let pointers: Vec<_> = (0..31).map(|n| format!("/rows/*/a/{n}")).chain(["/a".into()]).collect();
    let result = use_record(&agent, &raw, json!(pointers)).ok();
    let said = texts(&result);
    assert_eq!(said[0], r#"{"a":1,"a":2}"#);
    assert!(said[1].len() < 1000 && said[1].contains("; 26 more."), "{}", said[1]);
    let every = use_record(&agent, &raw, json!(["/rows/*/b"])).ok();
    assert_eq!(texts(&every)[0].matches(r#"{"b":"x"}"#).count(), 200_000);
}
