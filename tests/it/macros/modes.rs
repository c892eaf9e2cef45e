//! Macros as tools of their toolbox, in every mode.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::macros::{begin, bench, in_box};
use crate::support::Agent;

fn macros() -> Value {
    json!({
        "twice": in_box(json!({
            "a": {"tool": "one:echo", "arguments": {"n": 1}},
            "b": {"tool": "two:echo", "arguments": {"m": {"$from": "/steps/a/n"}}},
        })),
        "alone": {"description": "Stands alone", "steps": {"a": {"tool": "two:echo"}}},
    })
}

fn in_mode(mode: &str) -> Agent {
    begin(&bench(mode, macros()))
}

#[test]
fn toolbox_lists_macros_after_its_tools() {
    let agent = in_mode("dynamic").relisting_on_change();
    let opened = agent.open("box").text();
    assert!(opened.contains("box__macros__twice"), "{opened}");
    assert!(opened.contains(r#""servers_connected":2"#), "{opened}");
    assert_eq!(agent.tool_names().last().map(String::as_str), Some("box__macros__twice"));
    assert_eq!(agent.call("box__macros__twice", json!({})).structured(), json!({"m": 1}));
    // A macro without a toolbox gets one of its own.
    let opened = agent.open("macros").text();
    assert!(!opened.contains("servers_connected"), "{opened}");
    agent.call("macros__macros__alone", json!({})).ok();
}

#[test]
fn use_tool_calls_macros_without_opening_a_toolbox() {
    let agent = in_mode("proxy");
    assert_eq!(agent.use_tool(["box", "macros", "twice"], json!({})).structured(), json!({"m": 1}));
    let opened = agent.open("box").text();
    assert!(
        opened.contains(
            r#"{"toolbox":"box","server":"macros","name":"twice","description":"Does several things","inputSchema":{"type":"object","properties":{},"additionalProperties":false}}"#
        ),
        "{opened}"
    );
    let answer = agent.call("use_tool", json!({"tool": "macros:twice", "arguments": {}}));
    assert_eq!(answer.structured(), json!({"m": 1}));
}

#[test]
fn direct_mode_lists_macros_by_name() {
    let agent = in_mode("direct");
    let names = agent.tool_names();
    assert!(names.contains(&"twice".to_owned()), "{names:?}");
    assert!(names.contains(&"alone".to_owned()), "{names:?}");
    assert_eq!(agent.call("twice", json!({})).structured(), json!({"m": 1}));
}

#[test]
fn activate_mode_activates_macros() {
    let agent = in_mode("activate");
    let catalog = agent.tools()[0]["description"].as_str().unwrap_or_default().to_owned();
    assert!(catalog.contains("box_twice"), "{catalog}");
    agent.call("toolman_activate", json!({"tools_on": ["box_twice"]})).ok();
    assert_eq!(agent.call("box_twice", json!({})).structured(), json!({"m": 1}));
}

#[test]
fn modular_mode_groups_macros() {
    let agent = in_mode("modular");
    let group = agent.call("get-modular-tools", json!({"group": "box"})).text();
    assert!(group.contains("twice"), "{group}");
    let answer =
        agent.call("call-modular-tool", json!({"group": "box", "name": "twice", "args": {}}));
    assert_eq!(answer.structured(), json!({"m": 1}));
}

#[test]
fn search_mode_finds_and_calls_macros() {
    for is_modern in [false, true] {
        let agent = bench("search", macros()).agent().begin(is_modern, json!({}));
        let found = agent.call("search_tools", json!({"query": "does several things"})).text();
        assert!(found.contains("twice"), "{found}");
        let answer = agent.use_tool(["box", "macros", "twice"], json!({}));
        assert_eq!(answer.structured(), json!({"m": 1}));
    }
}

#[test]
fn navigate_mode_runs_macros() {
    for is_modern in [false, true] {
        let agent = bench("navigate", macros()).agent().begin(is_modern, json!({}));
        let done = agent.call("execute_task", json!({"task": "do several things twice"}));
        let expected = json!({"success": true, "tool_used": "macros.twice", "result": {"m": 1}});
        assert_eq!(done.structured(), expected);
    }
}

#[test]
fn commands_list_and_call_macros() {
    let bench = bench("dynamic", macros());
    let called = bench.run(["call", "box", "macros", "twice", "{}"]);
    assert!(
        called.stdout.contains(r#""m":1"#) || called.stdout.contains(r#""m": 1"#),
        "{called:?}"
    );
    let listed = bench.run(["list", "box"]);
    assert!(listed.stdout.contains("twice"), "{listed:?}");
    let checked = bench.run(["check"]);
    assert!(checked.stdout.contains("2 toolboxes, 2 servers"), "{checked:?}");
}

#[test]
fn changed_macro_is_announced() {
    let changed = bench("direct", macros()).set("autoReload", json!("all"));
    let agent = changed.agent().relisting_on_change().begin(false, json!({}));
    assert!(agent.tool_names().contains(&"twice".to_owned()));
    let mut macros = macros();
    macros["thrice"] = macros["twice"].take();
    macros.as_object_mut().unwrap().remove("twice");
    macros["thrice"]["steps"]["b"]["arguments"]["m"] = json!(3);
    let changed = changed.set("macros", macros);
    changed.write_config();
    let mut names = agent.tool_names();
    while !names.contains(&"thrice".to_owned()) {
        agent.next_notification("notifications/tools/list_changed");
        names = agent.tool_names();
    }
    assert!(!names.contains(&"twice".to_owned()), "{names:?}");
    assert_eq!(agent.call("thrice", json!({})).structured(), json!({"m": 3}));
}
