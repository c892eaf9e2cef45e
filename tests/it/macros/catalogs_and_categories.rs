//! Macros in toolboxes with a single server, over the servers of a catalog, and over servers with
//! equal resource URIs.

use std::fs;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::macros::{begin, in_box};
use crate::support::{TestEnvironment, fake};

fn with_catalog(macros: Value, service: &str) -> TestEnvironment {
    let bench = TestEnvironment::new()
        .set("toolMode", json!("navigate"))
        .set("navigator", json!({"catalog": "catalog"}))
        .set("macros", macros)
        .server("box", "one", fake(json!({"tools": ["echo"]})));
    let own = json!({"mcp_servers": {"slack-mcp": fake(json!({"tools": ["send", "echo"]}))}});
    for (path, text) in [
        // JSON is valid YAML.
        ("catalog/_config.yaml", own.to_string()),
        ("catalog/talk/_category.yaml", "description: Messages".to_owned()),
        ("catalog/talk/slack/_service.yaml", "description: Chat\nmcp_server: slack-mcp".to_owned()),
        ("catalog/talk/slack/echo.yaml", "description: Says it again".to_owned()),
        ("catalog/talk/more/_service.yaml", format!("description: More\nmcp_server: {service}")),
        ("catalog/talk/more/echo.yaml", "description: Says it again".to_owned()),
    ] {
        fs::create_dir_all(bench.path(path).parent().unwrap()).unwrap();
        bench.write(path, &text);
    }
    bench
}

#[test]
fn macro_calls_servers_of_a_catalog() {
    let shout = json!({"description": "Shouts", "toolbox": "talk", "steps": {
        "a": {"tool": "one:echo", "arguments": {"n": 1}},
        "b": {"tool": "slack:echo", "arguments": {"m": {"$from": "/steps/a/n"}}},
    }});
    let bench = with_catalog(json!({"shout": shout}), "one");
    let checked = bench.run(["check"]);
    assert_eq!((checked.code, checked.stderr.as_str()), (Some(0), ""), "{checked}");
    let called = bench.run(["call", "talk", "macros", "shout", "{}"]);
    assert_eq!(called.code, Some(0), "{called}");
    assert!(called.stdout.contains("\"m\""), "{called}");
}

#[test]
fn catalog_cannot_reference_macros() {
    let fine = in_box(json!({"a": {"tool": "one:echo"}}));
    for service in ["macros", "box/macros"] {
        let checked = with_catalog(json!({"fine": fine}), service).run(["check"]);
        assert_eq!(checked.code, Some(1), "{checked}");
        let expected =
            format!("no server `{service}`: macros are not supported in a catalog folder");
        assert!(checked.stderr.contains(&expected), "{checked}");
        assert!(checked.stderr.contains("catalog/talk/more/_service.yaml:2:13"), "{checked}");
    }
}

#[test]
fn macro_result_uris_resolve_to_the_server_of_the_step() {
    let server = |name: &str| {
        let link =
            json!({"content": [{"type": "resource_link", "uri": "odd://both", "name": "b"}]});
        fake(json!({
            "tools": ["link", "echo"],
            "behavior": {"link": {"result": {"raw": link.to_string()}}},
            "capabilities": {"resources": {}},
            "answers": {
                "resources/list": {"resources": [{"uri": "odd://both", "name": "both"}]},
                "resources/read": {"contents": [{"uri": "odd://both", "text": name}]},
            },
        }))
    };
    let steps =
        json!({"last": {"tool": "two:echo"}, "first": {"tool": "one:link", "after": ["last"]}});
    for mode in ["direct", "activate", "proxy", "navigate"] {
        let bench = TestEnvironment::new()
            .set("toolMode", json!(mode))
            .set("macros", json!({"passed": in_box(steps.clone())}))
            .server("box", "one", server("one"))
            .server("box", "two", server("two"));
        let agent = begin(&bench);
        let name = match mode {
            "proxy" => "box__macros__passed",
            "activate" => "box_passed",
            _ => "passed",
        };
        if mode == "activate" {
            let on = json!({"tools_on": [name], "resources_on": ["box_odd://both"]});
            agent.call("toolman_activate", on).ok();
        }
        let passed = match mode {
            "navigate" => agent.call("execute_task", json!({"task": "passed: do several things"})),
            _ => agent.call(name, json!({})),
        };
        let passed = passed.ok();
        let link = passed["content"].as_array().unwrap().iter().find(|c| c["uri"].is_string());
        let link = link.unwrap_or_else(|| panic!("{mode}: {passed}"))["uri"].clone();
        assert!(link != "odd://both" && !link.to_string().contains("macros"), "{mode}: {link}");
        if mode == "direct" || mode == "activate" {
            let read = agent.request("resources/read", json!({"uri": link})).ok();
            assert_eq!(read["contents"][0]["text"], "one", "{mode}");
        }
    }
}

#[test]
fn single_server_toolbox_with_macros_needs_no_server_name() {
    let steps = json!({"a": {"tool": "only:echo", "arguments": {"n": 1}}});
    let bench = TestEnvironment::new()
        .set("toolMode", json!("proxy"))
        .set("macros", json!({"again": in_box(steps)}))
        .server("box", "only", fake(json!({"tools": ["echo"]})));
    let agent = begin(&bench);
    for (tool, arguments, expected) in
        [("echo", json!({"n": 2}), json!({"n": 2})), ("again", json!({}), json!({"n": 1}))]
    {
        let tool = json!({"toolbox": "box", "tool": tool});
        let answer = agent.call("use_tool", json!({"tool": tool, "arguments": arguments}));
        assert_eq!(answer.structured(), expected);
    }
}

#[test]
fn macros_are_not_described_as_a_server() {
    let bench = TestEnvironment::new()
        .set("toolMode", json!("search"))
        .set("macros", json!({"again": in_box(json!({"a": {"tool": "only:echo"}}))}))
        .server("box", "only", fake(json!({"tools": ["echo"]})));
    let described = begin(&bench).tools()[0]["description"].to_string();
    assert!(described.contains("box (only):") && !described.contains("macros"), "{described}");
}

#[test]
fn category_can_have_a_macro() {
    let config = json!({
        "toolMode": "modular",
        "mcpServers": {"only": fake(json!({"tools": ["echo", "plain"]}))},
        "categories": {"box": {"description": "A part", "server": "only", "tools": {"includeNames": ["echo"]}}},
        "macros": {"again": in_box(json!({"a": {"tool": "only:echo"}}))},
    });
    let agent = begin(&TestEnvironment::new().config(config));
    let tools = agent.call("get-modular-tools", json!({"group": "box"})).text();
    let tools: Value = serde_json::from_str(&tools).unwrap_or_else(|_| panic!("{tools}"));
    assert_eq!(tools["meta"]["sourceServer"], "only");
    assert!(tools["tools"]["echo"].is_object() && tools["tools"]["again"].is_object(), "{tools}");
}

#[test]
fn group_fails_if_all_its_servers_fail_despite_macros() {
    let gone = json!({"command": "/no/such/program"});
    let bench = TestEnvironment::new()
        .set("toolMode", json!("modular"))
        .set("macros", json!({"again": in_box(json!({"a": {"tool": "only:echo"}}))}))
        .server("box", "only", gone);
    let agent = begin(&bench);
    let answer = agent.call("get-modular-tools", json!({"group": "box"}));
    assert!(answer.is_tool_error(), "{}", answer.text());
}
