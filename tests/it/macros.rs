//! Macros through the real program: values that are passed on, steps side by side, what an agent is
//! told of one that fails, and policy on each of its steps.

mod failures;
mod modes;
mod places;
mod policy;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::{Agent, Bench, fake};

/// Two servers in a toolbox.
fn bench(mode: &str, macros: Value) -> Bench {
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
    Bench::new()
        .set("toolMode", json!(mode))
        .set("macros", macros)
        .server("box", "one", one)
        .server("box", "two", two)
}

fn begin(bench: &Bench) -> Agent {
    bench.agent().begin(false, json!({}))
}

/// A macro in that toolbox.
fn in_box(steps: Value) -> Value {
    json!({"description": "Does several things", "toolbox": "box", "steps": steps})
}

/// How often each tool of the first server has been called, and what was cancelled there.
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
fn the_example_runs_with_the_servers_that_we_carry() {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/macros.json");
    let text = std::fs::read_to_string(example).unwrap();
    let program = json!(env!("CARGO_BIN_EXE_mcp-workbench")).to_string();
    let text = text.replace("\"mcp-workbench\"", &program);
    let bench = Bench::new().file("example.json", &text);
    let args = ["--config", "example.json", "call", "desk", "macros", "note_the_time"];
    let called = bench.run_bare(args.into_iter().chain([r#"{"title": "Lunch"}"#]));
    assert_eq!(called.code, Some(0), "{}", called.stderr);
    assert!(called.stdout.contains("Lunch"), "{}", called.stdout);
}

#[test]
fn a_result_is_made_of_what_the_steps_came_to() {
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
fn steps_that_do_not_need_each_other_run_at_the_same_time() {
    // Each of them is answered when three are waiting.
    let gather = json!({"tool": "one:gather", "arguments": {"count": 3}});
    let bench =
        bench("proxy", json!({"meet": in_box(json!({"a": gather, "b": gather, "c": gather}))}));
    let agent = begin(&bench);
    let met = agent.use_tool(["box", "macros", "meet"], json!({}));
    assert_eq!(met.text(), "all are here");
    assert_eq!(counts(&agent)["calls"]["gather"], 3);
}

#[test]
fn what_was_done_before_a_failure_is_told_and_nothing_more_is_begun() {
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
    // What has been sent is waited for, and it ends when this call joins it.
    agent.use_tool(["box", "one", "gather"], json!({"count": 2})).ok();
    let answer = agent.wait(&run);
    assert!(answer.is_tool_error());
    insta::assert_snapshot!(answer.text());
    let steps = answer.ok()["structuredContent"].clone();
    assert_eq!(steps["error"], json!({"step": "wrong", "message": "it does not work"}));
    let status = |step: &Value| step["status"].as_str().unwrap_or_default().to_owned();
    let status: Vec<_> = steps["steps"].as_array().unwrap().iter().map(status).collect();
    assert_eq!(status, ["done", "done", "failed", "not_begun", "not_begun"]);
    assert_eq!(counts(&agent)["calls"]["refuse"], 1, "nothing is tried twice");
}

#[test]
fn a_value_that_is_not_there_fails_the_step_that_wants_it() {
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
    let expected = json!({"step": "use", "message": "there is nothing at `/steps/get/nothing`"});
    assert_eq!(*error, expected);
    assert_eq!(counts(&agent)["calls"]["echo"], Value::Null);
}

#[test]
fn cancelling_one_cancels_the_steps_that_run() {
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
fn an_agent_hears_how_far_it_is() {
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
fn what_a_server_asks_within_a_step_is_asked_of_the_agent() {
    let form =
        json!({"message": "Go on?", "requestedSchema": {"type": "object", "properties": {}}});
    let ask = |server: &str| json!({"tool": format!("{server}:ask"), "arguments": {"method": "elicitation/create", "params": form}});
    let server = |eras: &str| fake(json!({"tools": ["ask"], "protocol": eras}));
    for is_modern in [false, true] {
        let bench = Bench::new()
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
            .answering("elicitation/create", json!({"action": "accept", "content": {}}))
            .begin(is_modern, json!({"elicitation": {}}));
        let answer = agent.call_through("box__macros__both", json!({}));
        let said = r#"{"result":{"action":"accept","content":{}}}"#;
        assert_eq!(answer.text(), format!("[{said},{said}]"), "{is_modern}");
    }
}

#[test]
fn a_value_is_in_structure_and_in_an_object_for_agents_of_the_older_revisions() {
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

#[test]
fn each_step_and_the_whole_have_a_line_in_the_audit() {
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
