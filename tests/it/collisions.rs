//! Two servers with equal names: only colliding names get a prefix, and every reference leads to
//! the right server.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::{Agent, TestEnvironment, fake};

const SHARED: &str = "odd://shared";

/// A server with some unique names, and some that the other server uses as well.
fn entry(name: &str) -> Value {
    let content = json!([
        { "type": "resource_link", "uri": SHARED, "name": "s" },
        { "type": "resource_link", "uri": format!("odd://{name}"), "name": "o" },
        { "type": "resource", "resource": { "uri": SHARED, "text": name } },
    ]);
    let app = json!({
        "name": "app",
        "inputSchema": { "type": "object" },
        "_meta": { "ui": { "resourceUri": SHARED, "odd": 1.5 } },
    });
    let own = json!({
        "name": format!("app_{name}"),
        "inputSchema": { "type": "object" },
        "_meta": { "ui": { "resourceUri": format!("odd://{name}") } },
    });
    let links = json!({ "content": content }).to_string();
    fake(json!({
        "tools": [app, own, "links", "notify", format!("only_{name}")],
        "behavior": {
            "links": { "result": { "raw": links } },
            "app": "pid",
        },
        "capabilities": {
            "resources": { "subscribe": true },
            "prompts": {},
            "completions": {},
        },
        "answers": {
            "resources/list": { "resources": [
                { "uri": SHARED, "name": "shared" },
                { "uri": format!("odd://{name}"), "name": name },
            ] },
            "resources/templates/list": { "resourceTemplates": [
                { "uriTemplate": "odd://rows/{id}", "name": "rows" },
            ] },
            "prompts/list": { "prompts": [
                { "name": "ask" },
                { "name": format!("ask_{name}") },
            ] },
            "resources/read": { "contents": [{ "uri": SHARED, "text": name }] },
            "prompts/get": { "messages": [
                { "role": "user", "content": content[0] },
                { "role": "user", "content": { "type": "text", "text": name } },
            ] },
            "resources/subscribe": {},
            "resources/unsubscribe": {},
        },
        "repeat": ["completion/complete"],
    }))
}

fn agent(is_modern: bool) -> Agent {
    let bench = TestEnvironment::new()
        .set("toolMode", json!("direct"))
        .server("box", "one", entry("one"))
        .server("box", "two", entry("two"));
    bench.agent().begin(is_modern, json!({}))
}

fn column(agent: &Agent, method: &str, member: &str, key: &str) -> Vec<String> {
    let list = agent.request(method, json!({})).ok();
    let entries = list[member].as_array().expect("a list");
    entries.iter().map(|entry| entry[key].as_str().expect("a text").to_owned()).collect()
}

/// The URI that agents see for a colliding resource.
fn of(server: &str, uri: &str) -> String {
    format!("mcp-workbench://box/{server}/{uri}")
}

#[test]
fn only_colliding_names_are_prefixed() {
    for is_modern in [false, true] {
        let agent = agent(is_modern);
        assert_eq!(
            column(&agent, "tools/list", "tools", "name"),
            [
                "box__one__app",
                "app_one",
                "box__one__links",
                "box__one__notify",
                "only_one",
                "box__two__app",
                "app_two",
                "box__two__links",
                "box__two__notify",
                "only_two",
            ]
        );
        assert_eq!(
            column(&agent, "resources/list", "resources", "uri"),
            [of("one", SHARED), "odd://one".to_owned(), of("two", SHARED), "odd://two".to_owned(),]
        );
        let templates =
            column(&agent, "resources/templates/list", "resourceTemplates", "uriTemplate");
        assert_eq!(templates, [of("one", "odd://rows/{id}"), of("two", "odd://rows/{id}")]);
        let prompts = column(&agent, "prompts/list", "prompts", "name");
        assert_eq!(prompts, ["box__one__ask", "ask_one", "box__two__ask", "ask_two"]);
    }
}

#[test]
fn prefixed_names_route_to_the_right_server() {
    for is_modern in [false, true] {
        let agent = agent(is_modern);
        agent.tools();
        for name in ["one", "two"] {
            let uri = of(name, SHARED);
            let read = agent.request("resources/read", json!({ "uri": uri })).ok();
            assert_eq!(read["contents"], json!([{ "uri": uri, "text": name }]));

            let prompt = json!({ "name": format!("box__{name}__ask") });
            let prompt = agent.request("prompts/get", prompt).ok();
            assert_eq!(prompt["messages"][0]["content"]["uri"], uri);
            assert_eq!(prompt["messages"][1]["content"]["text"], name);

            let content = agent.call(&format!("box__{name}__links"), json!({})).ok();
            let content = &content["content"];
            assert_eq!(content[0]["uri"], uri);
            assert_eq!(content[1]["uri"], format!("odd://{name}"));
            assert_eq!(content[2]["resource"], json!({ "uri": uri, "text": name }));

            let argument = json!({ "name": "id", "value": "1" });
            for (reference, own) in [
                (
                    json!({ "type": "ref/prompt", "name": format!("box__{name}__ask") }),
                    json!({ "type": "ref/prompt", "name": "ask" }),
                ),
                (
                    json!({ "type": "ref/prompt", "name": format!("ask_{name}") }),
                    json!({ "type": "ref/prompt", "name": format!("ask_{name}") }),
                ),
                (
                    json!({ "type": "ref/resource", "uri": of(name, "odd://rows/{id}") }),
                    json!({ "type": "ref/resource", "uri": "odd://rows/{id}" }),
                ),
            ] {
                let params = json!({ "ref": reference, "argument": argument });
                let completed = agent.request("completion/complete", params).ok();
                assert_eq!(completed["repeated"]["ref"], own);
                assert_eq!(completed["repeated"]["argument"], argument);
            }
        }
    }
}

#[test]
fn ui_resource_uris_are_rewritten() {
    let agent = agent(false);
    let tools = agent.tools();
    let ui = |name: &str| {
        let tool = tools.iter().find(|tool| tool["name"] == name).expect("the tool");
        tool["_meta"]["ui"].clone()
    };
    for name in ["one", "two"] {
        let changed = json!({ "resourceUri": of(name, SHARED), "odd": 1.5 });
        assert_eq!(ui(&format!("box__{name}__app")), changed);
        let own = json!({ "resourceUri": format!("odd://{name}") });
        assert_eq!(ui(&format!("app_{name}")), own);
    }
}

#[test]
fn resource_updates_use_the_subscribed_uri() {
    let agent = agent(false);
    agent.tools();
    let uri = of("two", SHARED);
    agent.request("resources/subscribe", json!({ "uri": uri })).ok();
    let notify = |name: &str| {
        let params = json!({
            "method": "notifications/resources/updated",
            "params": { "uri": SHARED, "by": name },
        });
        agent.call(&format!("box__{name}__notify"), params).ok();
    };
    notify("one");
    notify("two");
    let told = agent.next_notification("notifications/resources/updated");
    assert_eq!(told, json!({ "uri": uri, "by": "two" }));
    agent.request("resources/unsubscribe", json!({ "uri": uri })).ok();
    notify("two");
    let updates = agent.notifications();
    let updates = updates.iter().filter(|n| n["method"] == "notifications/resources/updated");
    assert_eq!(updates.count(), 1);
}
