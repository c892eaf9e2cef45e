//! Macros whose steps fail or wait, or whose configuration is replaced while they run.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::macros::{begin, bench, counts, in_box};
use crate::support::{Response, TestEnvironment, fake};

fn stages(answer: &Response) -> Value {
    assert!(answer.is_tool_error(), "{}", answer.text());
    let told = answer.ok()["structuredContent"]["steps"].clone();
    let told = told.as_array().unwrap().iter();
    told.map(|step| (step["step"].as_str().unwrap().to_owned(), step["status"].clone())).collect()
}

fn beside(server: &str, tool: &str) -> Value {
    in_box(json!({"check": {"tool": "one:refuse"}, "do": {"tool": format!("{server}:{tool}")}}))
}

#[test]
fn queued_step_is_dropped_when_another_fails() {
    let bench = bench("proxy", json!({"both": beside("one", "echo")}))
        .set("limits", json!({"perServer": {"maxConcurrentCalls": 1}}));
    let agent = begin(&bench);
    let answer = agent.use_tool(["box", "macros", "both"], json!({}));
    assert_eq!(stages(&answer), json!({"check": "failed", "do": "not_begun"}));
    assert_eq!(counts(&agent)["calls"], json!({"refuse": 1, "count": 1}));
}

#[test]
fn step_awaiting_confirmation_is_dropped_when_another_fails() {
    let bench = bench("proxy", json!({"both": beside("two", "request")}))
        .set("dangerousTools", json!(["two:request"]));
    // The confirmation is never answered.
    let agent = bench.agent().without_reply("elicitation/create");
    let agent = agent.begin(false, json!({"elicitation": {}}));
    let answer = agent.use_tool(["box", "macros", "both"], json!({}));
    assert_eq!(stages(&answer), json!({"check": "failed", "do": "not_begun"}));
}

#[test]
fn steps_respect_the_concurrency_limit_without_timing_out() {
    let steps: Value = (0..12)
        .map(|n| (format!("s{n}"), json!({"tool": "one:sleep", "arguments": {"ms": 10}})))
        .collect();
    let server = fake(json!({"tools": ["sleep"]}));
    // A queued call times out after 1 ms.
    let limits = json!({"perAgent": {"maxConcurrentCalls": 1}, "maxWaitMs": 1});
    let bench = TestEnvironment::new()
        .set("toolMode", json!("direct"))
        .set("limits", limits)
        .set("macros", json!({"many": in_box(steps)}))
        .server("box", "one", server);
    let answer = begin(&bench).call("many", json!({}));
    assert!(!answer.is_tool_error(), "{}", answer.text());
}

#[test]
fn reload_stops_a_running_macro_after_its_current_step() {
    let steps = json!({
        "meet": {"tool": "one:gather", "arguments": {"count": 2}},
        "then": {"tool": "two:echo", "after": ["meet"]},
    });
    let before = bench("direct", json!({"old": in_box(steps.clone())}));
    let before = before.set("autoReload", json!("all"));
    let agent = before.agent().relisting_on_change().begin(false, json!({}));
    let run = agent.send_call("old", json!({}));
    while counts_of(&agent.call("count", json!({})).structured()) != 1 {}
    before.clone().set("macros", json!({"new": in_box(steps)})).write_config();
    while !agent.tool_names().contains(&"new".to_owned()) {
        agent.next_notification("notifications/tools/list_changed");
    }
    agent.call("gather", json!({"count": 2})).ok();
    let answer = agent.wait(&run);
    assert_eq!(stages(&answer), json!({"meet": "done", "then": "not_begun"}));
    assert!(answer.text().contains("the configuration has changed"), "{}", answer.text());
}

fn counts_of(counted: &Value) -> u64 {
    counted["calls"]["gather"].as_u64().unwrap_or_default()
}

#[test]
fn failure_report_has_the_step_results() {
    let long = json!({"id": "an-id", "text": "word ".repeat(400)});
    let raw = json!({"content": [], "structuredContent": long}).to_string();
    let wrong = r#"{"content":[],"structuredContent":{"code":1.50},"isError":true}"#;
    let server = fake(json!({
        "tools": ["long", "short", "wrong"],
        "behavior": {
            "long": {"result": {"raw": raw}},
            "short": {"result": {"raw": r#"{"content":[],"structuredContent":{"id":1.0}}"#}},
            "wrong": {"result": {"raw": wrong}},
        },
    }));
    let steps = json!({
        "a": {"tool": "one:long"},
        "b": {"tool": "one:short"},
        "c": {"tool": "one:wrong", "after": ["a", "b"]},
    });
    let bench = TestEnvironment::new()
        .set("toolMode", json!("direct"))
        .set("macros", json!({"all": in_box(steps)}))
        .server("box", "one", server);
    let answer = begin(&bench).call("all", json!({}));
    let told = answer.ok()["structuredContent"].clone();
    let begun = told["steps"][0]["result"].as_str().unwrap_or_default();
    assert!(begun.starts_with(r#"{"id":"an-id","text":"word"#) && begun.ends_with('…'), "{told}");
    assert_eq!(told["steps"][1]["result"], json!({"id": 1.0}));
    assert_eq!(told["steps"][2]["error"], r#"{"code":1.50}"#);
    assert!(answer.raw_result().contains(r#""result":{"id":1.0}"#));
    assert!(
        answer.text().contains("`a` (box/one/long) done: {\"id\":\"an-id\""),
        "{}",
        answer.text()
    );
}

#[test]
fn numeric_text_results_stay_strings() {
    let id = json!({"content": [{"type": "text", "text": "4e2"}]}).to_string();
    let take = json!({"name": "take", "inputSchema": {
        "type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"],
    }});
    let server = fake(json!({
        "tools": ["make", take],
        "behavior": {"make": {"result": {"raw": id}}, "take": "echo"},
    }));
    let steps = json!({
        "make": {"tool": "one:make"},
        "take": {"tool": "one:take", "arguments": {"id": {"$from": "/steps/make"}}},
    });
    let bench = TestEnvironment::new()
        .set("toolMode", json!("direct"))
        .set("macros", json!({"all": in_box(steps)}))
        .server("box", "one", server);
    assert_eq!(begin(&bench).call("all", json!({})).structured(), json!({"id": "4e2"}));
}

#[test]
fn inputs_too_long_to_validate_are_rejected() {
    let mut tool = in_box(json!({"a": {"tool": "one:echo"}}));
    tool["inputSchema"] = json!({"type": "object", "properties": {"n": {"type": "string"}}});
    let agent = begin(&bench("direct", json!({"long": tool})));
    let answer = agent.call("long", json!({"n": "x".repeat(300_000)}));
    assert!(answer.is_tool_error());
    assert!(answer.text().contains("is too long"), "{}", answer.text());
    let answer = agent.call("long", json!({"n": "x".repeat(30_000)}));
    assert!(!answer.is_tool_error(), "{}", answer.text());
}

#[test]
fn half_of_a_surrogate_pair_in_a_result_fails_no_step() {
    let half = r#"{"content":[{"type":"text","text":"[\"a \\ud800 b\"] \ud800"}]}"#;
    let tool = in_box(json!({
        "get": {"tool": "odd:get"},
        "send": {"tool": "odd:echo", "arguments": {"text": {"$from": "/steps/get"}}},
    }));
    let odd = json!({"tools": ["get", "echo"], "behavior": {"get": {"result": {"raw": half}}}});
    let bench = TestEnvironment::new()
        .set("toolMode", json!("direct"))
        .set("macros", json!({"pass": tool}))
        .server("box", "odd", fake(odd));
    let answer = begin(&bench).call("pass", json!({}));
    assert!(!answer.is_tool_error(), "{}", answer.text());
    assert!(answer.text().contains('\u{fffd}'), "{}", answer.text());
}

#[test]
fn inputs_that_parsers_read_differently_are_rejected() {
    let mut tool =
        in_box(json!({"a": {"tool": "one:echo", "arguments": {"n": {"$from": "/inputs/n"}}}}));
    tool["inputSchema"] = json!({"type": "object", "properties": {"n": {"const": "ok"}}});
    let bench = bench("direct", json!({"checked": tool}));
    let call = |inputs: &str| bench.run(["call", "box", "macros", "checked", inputs]);
    assert_eq!(call(r#"{"n":"ok"}"#).code, Some(0));
    for inputs in [
        r#"{"n":"other","n":"ok"}"#,
        r#"{"\u006e":"other","n":"ok"}"#,
        r#"{"n":"other","big":1e400}"#,
        r#"{"n":"other","half":"\ud800"}"#,
    ] {
        let output = call(inputs);
        assert_eq!(output.code, Some(1), "{output}");
        assert!(output.to_string().contains("is invalid"), "{output}");
    }
}
