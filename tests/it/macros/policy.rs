//! Policy applies to every step; a macro with a forbidden step doesn't exist for the agent.

use pretty_assertions::assert_eq;
use rustix::process::Signal;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::approvals::ask_page;
use crate::macros::{bench, in_box};
use crate::support::{Agent, TestEnvironment, fake};

const MODES: [&str; 7] =
    ["dynamic", "proxy", "direct", "activate", "modular", "search", "navigate"];

fn macros() -> Value {
    json!({
        "blend": in_box(json!({"a": {"tool": "one:echo"}, "b": {"tool": "two:request"}})),
        "fine": in_box(json!({"a": {"tool": "one:echo"}})),
        "lonely": {"description": "Alone in its toolbox", "steps": {"a": {"tool": "two:request"}}},
    })
}

/// All responses to an agent that explores in every mode.
fn seen(bench: &TestEnvironment, agent: &str, is_modern: bool) -> String {
    let agent = bench.agent_with(["--agent", agent]).begin(is_modern, json!({}));
    let first = agent.tools();
    let answers = [
        agent.open("box"),
        agent.open("macros"),
        agent.call("get-modular-tools", json!({"group": "box"})),
        agent.call("toolman_activate", json!({"tools_on": ["box_*"]})),
        agent.use_tool(["box", "macros", "blend"], json!({})),
        agent.use_tool(["macros", "macros", "lonely"], json!({})),
        agent.call("box__macros__blend", json!({})),
        agent.call("blend", json!({})),
        agent.call("macros:blend", json!({})),
        agent.call("search_tools", json!({"queries": ["blend several things", "alone"]})),
        agent.call("execute_task", json!({"task": "blend: several things"})),
        agent.call("execute_task", json!({"task": "lonely: alone in its toolbox"})),
    ];
    let answers: Vec<_> = answers.iter().map(|answer| answer.line.clone()).collect();
    format!("{first:?}\n{}\n{:?}", answers.join("\n"), agent.tools())
}

// invariant: macro-steps-are-calls
#[test]
fn macro_with_a_forbidden_step_is_hidden() {
    let rules = json!({
        "ann": {"toolOverrides": {"one": ["*"], "two": ["*"], "macros": ["*"]}},
        "bob": {"toolOverrides": {"one": ["*"], "two": ["echo"], "macros": ["*"]}},
    });
    let mut left = macros();
    for gone in ["blend", "lonely"] {
        left.as_object_mut().unwrap().remove(gone);
    }
    for mode in MODES {
        let with = bench(mode, macros()).set("agentPolicies", rules.clone());
        let without = bench(mode, left.clone()).set("agentPolicies", rules.clone());
        for is_modern in [false, true] {
            let (with_it, without_it) =
                (seen(&with, "bob", is_modern), seen(&without, "bob", is_modern));
            assert_eq!(with_it, without_it, "{mode}");
        }
        let other = seen(&with, "ann", false);
        let expected = if mode == "navigate" { "macros.lonely" } else { "Alone in its toolbox" };
        assert!(other.contains(expected), "{mode}: {other}");
    }
}

#[test]
fn rules_match_macros_by_name() {
    let rules = json!({"bob": {"toolOverrides": {"one": ["*"], "two": ["*"], "macros": ["fine"]}}});
    let bench = bench("proxy", macros()).set("agentPolicies", rules);
    let agent = bench.agent_with(["--agent", "bob"]).begin(false, json!({}));
    let opened = agent.open("box").text();
    assert!(opened.contains("fine") && !opened.contains("blend"), "{opened}");
    agent.use_tool(["box", "macros", "fine"], json!({})).ok();
}

#[test]
fn missing_tool_of_a_macro_is_reported_with_connect() {
    let macros =
        json!({"ghost": in_box(json!({"a": {"tool": "one:echo"}, "b": {"tool": "one:ecco"}}))});
    let bench = bench("proxy", macros);
    let said = "macro `ghost` of `box` is hidden: there is no tool `box/one/ecco`";
    let checked = bench.run(["check", "--connect"]);
    assert!(checked.stdout.contains(&format!("warning: {said}")), "{checked}");
    let agent = bench.agent().begin(false, json!({}));
    for _ in 0..2 {
        agent.open("box").ok();
    }
    agent.close_stdin();
    agent.wait_end();
    assert_eq!(agent.stderr().matches(said).count(), 1, "{}", agent.stderr());
}

#[test]
fn explain_names_the_forbidden_step_of_a_macro() {
    let rules =
        |two: Value| json!({"bob": {"toolOverrides": {"one": ["*"], "two": two, "macros": ["*"]}}});
    let bench = bench("proxy", macros()).set("agentPolicies", rules(json!(["echo"])));
    let denied = bench.run(["explain", "bob", "macros", "blend"]);
    assert!(denied.stdout.contains("`blend` of `box/macros` is hidden from"), "{denied}");
    assert!(denied.stdout.contains("the macro calls `box/two/request`"), "{denied}");
    assert!(denied.stdout.contains(r#"add "request""#), "{denied}");
    let allowed = bench.run(["explain", "bob", "macros", "fine"]);
    assert!(allowed.stdout.contains("`fine` of `box/macros` is available"), "{allowed}");
    let unknown = bench.run(["explain", "bob", "box/macros", "none"]);
    assert!(unknown.stdout.starts_with("no tool `"), "{unknown}");
    bench.clone().set("agentPolicies", rules(json!(["*"]))).write_config();
    std::fs::copy(bench.path("workbench.json"), bench.path("more.json")).unwrap();
    bench.write_config();
    let diff = bench.run_bare(["policy", "diff", "more.json", "workbench.json"]);
    assert!(diff.stdout.contains("  - box/macros: blend"), "{diff}");
    assert!(!diff.stdout.contains("fine"), "{diff}");
}

#[test]
fn macro_of_an_unlisted_tool_disappears_after_listing() {
    let bench =
        bench("proxy", json!({"ghost": in_box(json!({"a": {"tool": "one:no_such_tool"}}))}));
    let agent = bench.agent().begin(false, json!({}));
    let opened = agent.open("box").text();
    assert!(!opened.contains("ghost"), "{opened}");
    assert!(agent.use_tool(["box", "macros", "ghost"], json!({})).is_tool_error());
}

#[test]
fn toolbox_endpoint_hides_macros_that_leave_the_toolbox() {
    let across = json!({"description": "Across", "toolbox": "box", "steps": {
        "a": {"tool": "one:echo"}, "b": {"tool": "three:echo"},
    }});
    let mut macros = macros();
    macros["across"] = across;
    let bench = bench("proxy", macros).server("far", "three", fake(json!({"tools": ["echo"]})));
    let (_program, http) = bench.http();
    let listed = http.modern_at("/mcp/box", "tools/list", json!({}), &[]).json();
    let tools = listed["result"]["tools"].as_array().unwrap().iter();
    let names: Vec<_> = tools.map(|tool| tool["name"].as_str().unwrap_or_default()).collect();
    assert!(names.contains(&"fine"), "{names:?}");
    assert!(!names.contains(&"across"), "{names:?}");
}

#[test]
fn a_dangerous_step_is_confirmed() {
    let question = "elicitation/create";
    for (action, is_done) in [("accept", true), ("decline", false)] {
        let bench = bench("direct", macros()).set("dangerousTools", json!(["two:request"]));
        let agent: Agent = bench
            .agent()
            .with_reply(question, json!({"action": action, "content": {}}))
            .begin(false, json!({"elicitation": {}}));
        let answer = agent.call("blend", json!({}));
        let asked = agent.next_request(question)["params"]["message"].to_string();
        assert!(asked.contains("the tool `request` of server `two`"), "{asked}");
        assert_eq!(!answer.is_tool_error(), is_done, "{}", answer.text());
        if !is_done {
            let text = answer.text();
            assert!(text.contains("the user declined the call"), "{text}");
        }
    }
}

#[test]
fn a_dangerous_macro_is_confirmed_as_a_whole() {
    let bench = bench("direct", macros()).set("dangerousTools", json!(["macros:fine"]));
    let agent = bench.agent().begin(false, json!({}));
    let refused = agent.call("fine", json!({})).text();
    assert!(refused.starts_with("`box/macros/fine` was not called"), "{refused}");
    agent.call("blend", json!({})).ok();
}

// invariant: macro-steps-are-calls
#[test]
fn call_limits_count_steps_not_the_macro() {
    let limits = json!({"perAgent": {"callsPerMinute": 2, "maxConcurrentCalls": 1}});
    let bench = bench("direct", macros()).set("limits", limits);
    let agent = bench.agent().begin(false, json!({}));
    agent.call("blend", json!({})).ok();
    let refused = agent.call("blend", json!({}));
    assert!(refused.is_tool_error());
    assert!(refused.text().contains("too many calls"), "{}", refused.text());
}

// invariant: confirm-before-send
#[test]
fn dashboard_confirms_only_the_question_that_it_showed() {
    let steps = json!({
        "a": {"tool": "one:echo", "arguments": {"n": 1}},
        "b": {"tool": "two:echo", "arguments": {"key": {"$from": "/inputs/what"}}, "after": ["a"]},
    });
    let schema = json!({"type": "object", "properties": {"what": {"type": "string"}}});
    let mut fine = in_box(steps);
    fine["inputSchema"] = schema;
    let token = "an-operator-token-0123456789";
    let sha256 = hex::encode(Sha256::digest(token.as_bytes()));
    let bench = bench("proxy", json!({"fine": fine}))
        .set("dangerousTools", json!(["macros:fine", "two:echo"]))
        .set("auth", json!({"anonymous": true, "operators": [{"agent": "me", "sha256": sha256}]}))
        .set("audit", json!({"file": "audit.jsonl"}));
    let (program, http) = bench.http();
    let ask = |ask: &Value| ask_page(http, program.0.pid(), token, ask).1;
    let call = |what: &str, confirmed: Value| {
        json!({"ask": "call", "toolbox": "box", "server": "macros", "tool": "fine",
            "arguments": {"what": what}, "confirmed": confirmed})
    };
    let asked = |answer: &Value| {
        assert_eq!(answer["answer"], "confirm", "{answer}");
        (answer["question"].as_str().unwrap().to_owned(), answer["id"].clone())
    };
    let (question, first) = asked(&ask(&call("keys", Value::Null)));
    assert!(question.contains("the tool `fine`") && question.contains("keys"), "{question}");
    // The id belongs to this call with these arguments.
    for refused in
        [call("others", first.clone()), call("keys", json!("0")), call("keys", json!(""))]
    {
        let answer = ask(&refused);
        assert_eq!((&answer["answer"], &answer["kind"]), (&json!("error"), &json!("notAllowed")));
    }
    // The dangerous step asks again, with its own arguments.
    let (question, second) = asked(&ask(&call("keys", first.clone())));
    assert!(question.contains("the tool `echo` of server `two`"), "{question}");
    assert!(question.contains(r#"{"key":"keys"}"#), "{question}");
    assert_eq!(ask(&call("keys", first))["kind"], "notAllowed", "an id is valid once");
    // Another connection continues the same run; the first step doesn't run again.
    let answer = ask(&call("keys", second.clone()));
    assert_eq!(answer["answer"], "called", "{answer}");
    assert!(answer["result"].to_string().contains("keys"), "{answer}");
    assert_eq!(ask(&call("keys", second))["kind"], "notAllowed");
    program.0.signal(Signal::TERM);
    program.0.wait_end();
    let audit = std::fs::read_to_string(bench.path("audit.jsonl")).expect("an audit");
    let calls = || audit.lines().filter(|line| line.contains(r#""kind":"call""#));
    let ran = |tool: &str| calls().filter(|line| line.contains(tool)).count();
    assert_eq!((ran(r#""tool":"echo""#), ran(r#""tool":"fine""#)), (2, 1), "{audit}");
    let by = r#""outcome":"approved","by":"operator","operator":"me""#;
    assert_eq!(audit.matches(by).count(), 2, "{audit}");
}

#[test]
fn macro_inputs_with_repeated_names_are_rejected() {
    let step = json!({"a": {"tool": "one:echo", "arguments": {"n": {"$from": "/inputs/n"}}}});
    let mut fine = in_box(step);
    fine["inputSchema"] = json!({"type": "object", "properties": {"n": {}}});
    let bench = bench("direct", json!({"fine": fine}));
    let agent = bench.agent().begin(false, json!({}));
    agent.tools();
    agent.send_raw(
        r#"{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"fine","arguments":{"n":1,"\u006e":"evil"}}}"#,
    );
    let answer = agent.wait(&"x".into());
    assert!(answer.is_tool_error(), "{}", answer.line);
    assert!(answer.text().contains("duplicate name"), "{}", answer.line);
}
