//! Macros end to end: passing values, parallel steps, failure reports and policy on each step.

mod catalogs_and_categories;
mod failures;
mod modes;
mod policy;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::{Agent, TestEnvironment, fake};

fn bench(mode: &str, macros: Value) -> TestEnvironment {
    let raw = r#"{"content":[],"structuredContent":{"one":1.0,"big":123456789012345678901234,"e":1e3,"a/b":["x"]}}"#;
    let one = fake(json!({
        "tools": ["echo", "get", "plain", "gather", "count", "never", "refuse", "ask"],
        "behavior": {
            "get": {"result": {"raw": raw}},
            "plain": {"result": {"raw": r#"{"content":[{"type":"text","text":"[1e3, -0]"}]}"#}},
            "refuse": {"tool_error": {"text": "it does not work"}},
        },
    }));
    let two = fake(json!({"tools": ["request", "echo"], "name": "two"}));
    TestEnvironment::new()
        .set("toolMode", json!(mode))
        .set("macros", macros)
        .server("box", "one", one)
        .server("box", "two", two)
}

fn begin(bench: &TestEnvironment) -> Agent {
    bench.agent().begin(false, json!({}))
}

fn in_box(steps: Value) -> Value {
    json!({"description": "Does several things", "toolbox": "box", "steps": steps})
}

fn counts(agent: &Agent) -> Value {
    agent.use_tool(["box", "one", "count"], json!({})).structured()
}

#[test]
fn values_are_passed_by_pointer_and_keep_their_spelling() {
    let mut tool = in_box(json!({
        "get": {"tool": "one:get"},
        "plain": {"tool": "one:plain"},
        "send": {"tool": "two:request", "arguments": {
            "all": {"$from": "/steps/get"},
            "list": [{"$from": "/steps/get/a~1b/0"}, {"$from": "/steps/plain/0"}, {"$from": "/inputs/word"}],
            "none": {"$from": "/steps/get/none", "default": null},
            "text": {"$join": ["big: ", {"$from": "/steps/get/big"}, ", ", {"$from": "/inputs/word"}]},
            "own": {"$from": "/inputs/n"},
        }},
    }));
    tool["inputSchema"] = json!({
        "type": "object",
        "properties": {"word": {"type": "string"}, "n": {"type": "number"}},
        "required": ["word"],
    });
    let bench = bench("direct", json!({"pass": tool}));
    let agent = begin(&bench);
    agent.send_raw(
        r#"{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"pass","arguments":{"word":"a \"word\"","n":2.50}}}"#,
    );
    let answer = agent.wait(&"x".into());
    assert!(!answer.is_tool_error(), "{}", answer.text());
    let expected = concat!(
        r#"{"name":"request","arguments":{"#,
        r#""all":{"one":1.0,"big":123456789012345678901234,"e":1e3,"a/b":["x"]},"#,
        r#""list":["x",1e3,"a \"word\""],"none":null,"#,
        r#""text":"big: 123456789012345678901234, a \"word\"","own":2.50},"#
    );
    assert!(answer.text().starts_with(expected), "{}", answer.text());
    let wrong = agent.call("pass", json!({"n": 1}));
    assert!(wrong.is_tool_error());
    assert!(wrong.text().contains("`word`"), "{}", wrong.text());
}

#[test]
fn example_runs_with_the_built_in_servers() {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/macros.json");
    let text = std::fs::read_to_string(example).unwrap();
    let program = json!(env!("CARGO_BIN_EXE_mcp-workbench")).to_string();
    let text = text.replace("\"mcp-workbench\"", &program);
    let bench = TestEnvironment::new().file("example.json", &text);
    let args = ["--config", "example.json", "call", "desk", "macros", "note_the_time"];
    let called = bench.run_bare(args.into_iter().chain([r#"{"title": "Lunch"}"#]));
    assert_eq!(called.code, Some(0), "{}", called.stderr);
    assert!(called.stdout.contains("Lunch"), "{}", called.stdout);
}

#[test]
fn result_template_uses_step_results() {
    let mut tool = in_box(json!({
        "a": {"tool": "one:get"},
        "b": {"tool": "one:echo", "arguments": {"n": 1}},
    }));
    tool["result"] = json!({"first": {"$from": "/steps/a/one"}, "second": {"$from": "/steps/b"}, "fixed": [true]});
    let mut text = tool.clone();
    text["result"] = json!({"$join": ["n is ", {"$from": "/steps/b/n"}]});
    let bench = bench("direct", json!({"make": tool, "say": text}));
    let agent = begin(&bench);
    let made = agent.call("make", json!({}));
    assert_eq!(made.text(), r#"{"first":1.0,"second":{"n":1},"fixed":[true]}"#);
    assert!(made.raw_result().contains(r#""structuredContent":{"first":1.0,"#));
    let said = agent.call("say", json!({}));
    assert_eq!(said.ok(), json!({"content": [{"type": "text", "text": "n is 1"}]}));
}

#[test]
fn independent_steps_run_in_parallel() {
    // `gather` answers once three calls are waiting, so sequential steps would hang.
    let gather = json!({"tool": "one:gather", "arguments": {"count": 3}});
    let bench =
        bench("proxy", json!({"meet": in_box(json!({"a": gather, "b": gather, "c": gather}))}));
    let agent = begin(&bench);
    let met = agent.use_tool(["box", "macros", "meet"], json!({}));
    assert_eq!(met.text(), "all are here");
    assert_eq!(counts(&agent)["calls"]["gather"], 3);
}

#[test]
fn failed_macro_reports_completed_steps_and_stops() {
    let bench = bench(
        "proxy",
        json!({"try": in_box(json!({
            "first": {"tool": "one:echo", "arguments": {"n": 1}},
            "beside": {"tool": "one:gather", "arguments": {"count": 2}, "after": ["first"]},
            "wrong": {"tool": "one:refuse", "after": ["first"]},
            "then": {"tool": "two:echo", "after": ["wrong"]},
            "last": {"tool": "two:echo", "after": ["beside"]},
        }))}),
    )
    .set("audit", json!({"file": "audit.jsonl"}));
    let agent = begin(&bench);
    let run =
        agent.send_request("tools/call", json!({"name": "box__macros__try", "arguments": {}}));
    let audit = bench.path("audit.jsonl");
    while !std::fs::read_to_string(&audit).unwrap_or_default().contains("refuse") {
        std::thread::yield_now();
    }
    // The macro waits for the running `gather` step, which this call completes.
    agent.use_tool(["box", "one", "gather"], json!({"count": 2})).ok();
    let answer = agent.wait(&run);
    assert!(answer.is_tool_error());
    insta::assert_snapshot!(answer.text());
    let steps = answer.ok()["structuredContent"].clone();
    assert_eq!(steps["error"], json!({"step": "wrong", "message": "it does not work"}));
    let status = |step: &Value| step["status"].as_str().unwrap_or_default().to_owned();
    let status: Vec<_> = steps["steps"].as_array().unwrap().iter().map(status).collect();
    assert_eq!(status, ["done", "done", "failed", "not_begun", "not_begun"]);
    assert_eq!(counts(&agent)["calls"]["refuse"], 1, "a failed step was retried");
}

#[test]
fn missing_value_fails_the_step_that_uses_it() {
    let bench = bench(
        "proxy",
        json!({"lack": in_box(json!({
            "get": {"tool": "one:get"},
            "use": {"tool": "one:echo", "arguments": {"n": {"$from": "/steps/get/nothing"}}},
        }))}),
    );
    let agent = begin(&bench);
    let answer = agent.use_tool(["box", "macros", "lack"], json!({}));
    assert!(answer.is_tool_error());
    let error = &answer.ok()["structuredContent"]["error"];
    let expected = json!({"step": "use", "message": "no value at `/steps/get/nothing`"});
    assert_eq!(*error, expected);
    assert_eq!(counts(&agent)["calls"]["echo"], Value::Null);
}

#[test]
fn canceling_a_macro_cancels_its_running_steps() {
    let bench = bench(
        "proxy",
        json!({"wait": in_box(json!({
            "forever": {"tool": "one:never"},
            "beside": {"tool": "one:never"},
        }))}),
    );
    let agent = begin(&bench);
    agent.open("box").ok();
    let run =
        agent.send_request("tools/call", json!({"name": "box__macros__wait", "arguments": {}}));
    while counts(&agent)["calls"]["never"] != 2 {}
    agent.cancel(&run);
    while counts(&agent)["cancelled"].as_array().map_or(0, Vec::len) != 2 {}
}

#[test]
fn progress_is_reported_for_each_step() {
    let bench = bench(
        "proxy",
        json!({"three": in_box(json!({
            "a": {"tool": "one:echo"},
            "b": {"tool": "one:echo", "after": ["a"]},
            "c": {"tool": "one:echo", "after": ["b"]},
        }))}),
    );
    let agent = begin(&bench);
    agent.open("box").ok();
    let run = agent.send_call("box__macros__three", json!({}));
    agent.wait(&run).ok();
    let told = agent.progress(&run);
    let told: Vec<_> =
        told.iter().map(|told| json!([told["progress"], told["total"], told["message"]])).collect();
    assert_eq!(
        json!(told),
        json!([
            [1.0, 3, "step `a` is done"],
            [2.0, 3, "step `b` is done"],
            [3.0, 3, "step `c` is done"],
        ])
    );
}

#[test]
fn server_requests_within_a_step_reach_the_agent() {
    let form =
        json!({"message": "Go on?", "requestedSchema": {"type": "object", "properties": {}}});
    let ask = |server: &str| json!({"tool": format!("{server}:ask"), "arguments": {"method": "elicitation/create", "params": form}});
    let server = |eras: &str| fake(json!({"tools": ["ask"], "protocol": eras}));
    for is_modern in [false, true] {
        let bench = TestEnvironment::new()
            .set("toolMode", json!("proxy"))
            .set(
                "macros",
                json!({"both": {"description": "d", "toolbox": "box",
                    "steps": {"old": ask("old"), "new": ask("new")},
                    "result": [{"$from": "/steps/old"}, {"$from": "/steps/new"}]}}),
            )
            .server("box", "old", server("legacy"))
            .server("box", "new", server("modern"));
        let agent = bench
            .agent()
            .with_reply("elicitation/create", json!({"action": "accept", "content": {}}))
            .begin(is_modern, json!({"elicitation": {}}));
        let answer = agent.call_to_completion("box__macros__both", json!({}));
        let said = r#"{"result":{"action":"accept","content":{}}}"#;
        assert_eq!(answer.text(), format!("[{said},{said}]"), "{is_modern}");
    }
}

#[test]
fn structured_results_are_wrapped_for_legacy_agents() {
    let valued = |value: Value| {
        let mut tool = in_box(json!({"a": {"tool": "one:echo"}}));
        tool["result"] = value;
        tool
    };
    let values = [
        ("list", json!(["a"])),
        ("number", json!(5)),
        ("digits", json!("5")),
        ("object", json!({"a": 1})),
        ("nothing", json!(null)),
    ];
    let written = values.iter().map(|(name, value)| {
        let template = match value {
            Value::Null => json!({"$from": "/steps/a/none", "default": null}),
            value => value.clone(),
        };
        ((*name).to_owned(), valued(template))
    });
    let mut macros: serde_json::Map<_, _> = written.collect();
    macros.insert("words".to_owned(), valued(json!("five of them")));
    for mode in ["direct", "proxy", "activate"] {
        let bench = bench(mode, json!(macros));
        for is_modern in [false, true] {
            let agent = bench.agent().begin(is_modern, json!({}));
            let answered = |name: &str| match mode {
                "proxy" => agent.use_tool(["box", "macros", name], json!({})),
                "activate" => {
                    let name = format!("box_{name}");
                    agent.call("toolman_activate", json!({"tools_on": [name]})).ok();
                    agent.call(&name, json!({}))
                }
                _ => agent.call(name, json!({})),
            };
            for (name, value) in &values {
                let wrapped = !is_modern && !value.is_object();
                let expected = if wrapped { json!({"result": value}) } else { value.clone() };
                assert_eq!(answered(name).ok().get("structuredContent"), Some(&expected), "{name}");
            }
            let words = answered("words");
            assert_eq!(words.text(), "five of them");
            assert_eq!(words.ok().get("structuredContent"), None);
        }
    }
}

// invariant: macro-steps-are-calls
#[test]
fn each_step_and_the_macro_are_audited() {
    let macros = json!({"two": in_box(json!({
        "a": {"tool": "one:echo"},
        "b": {"tool": "two:echo", "after": ["a"]},
    }))});
    let bench = bench("proxy", macros).set("audit", json!({"file": "audit.jsonl"}));
    let agent = begin(&bench);
    agent.use_tool(["box", "macros", "two"], json!({})).ok();
    agent.close_stdin();
    agent.wait_end();
    let text = std::fs::read_to_string(bench.path("audit.jsonl")).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let calls: Vec<_> = lines
        .filter(|line| line["tool"].is_string())
        .map(|line| json!([line["server"], line["tool"], line["outcome"]]))
        .collect();
    assert_eq!(
        json!(calls),
        json!([["one", "echo", "ok"], ["two", "echo", "ok"], ["macros", "two", "ok"]]),
        "{text}"
    );
}
