//! MCP Apps: tools with a user interface are listed in every mode to clients that show it, their
//! pages can be read, and apps call tools by the names of their server.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::process::{StartedProcesses, fake_path};
use crate::support::{Agent, TestEnvironment, fake};

const APPS: &str = "io.modelcontextprotocol/ui";
const PAGE_TYPE: &str = "text/html;profile=mcp-app";
const PAGE: &str = "ui://chart/view.html";
/// All modes that can serve several servers.
const MODES: [&str; 8] =
    ["auto", "dynamic", "proxy", "search", "navigate", "direct", "activate", "modular"];

fn showing() -> Value {
    json!({ "extensions": { APPS: { "mimeTypes": [PAGE_TYPE] } } })
}

/// A tool with a page, one that only the app calls, one in the older spelling, and a plain one.
fn tools() -> Value {
    let schema = json!({ "type": "object", "properties": { "of": { "type": "string" } } });
    json!([
        {
            "name": "chart",
            "description": "Draws a chart",
            "inputSchema": schema,
            "_meta": { "ui": { "resourceUri": PAGE, "odd": 1.5 }, "ui/resourceUri": PAGE },
        },
        {
            "name": "refresh",
            "inputSchema": schema,
            "_meta": { "ui": { "visibility": ["app"] } },
        },
        {
            "name": "older",
            "inputSchema": schema,
            "_meta": { "ui/resourceUri": "ui://chart/older.html" },
        },
        { "name": "plain", "inputSchema": schema },
    ])
}

fn script(name: &str) -> Value {
    json!({
        "name": name,
        "tools": tools(),
        "behavior": { "refresh": { "result": { "raw": text(name) } }, "plain": "echo" },
        "capabilities": { "resources": {} },
        "answers": { "resources/read": {
            "contents": [{ "uri": PAGE, "mimeType": PAGE_TYPE, "text": name }],
        } },
    })
}

fn text(said: &str) -> String {
    json!({ "content": [{ "type": "text", "text": said }] }).to_string()
}

/// One server with apps, and one without.
fn bench(mode: &str) -> TestEnvironment {
    TestEnvironment::new()
        .set("toolMode", json!(mode))
        .server("box", "srv", fake(script("srv")))
        .server("other", "plain", fake(json!({ "tools": ["echo"] })))
}

/// A workbench that knows its servers from an earlier run.
fn known(bench: TestEnvironment) -> TestEnvironment {
    let refreshed = bench.run(["cache", "refresh"]);
    assert_eq!(refreshed.code, Some(0), "{refreshed}");
    bench
}

fn agent(bench: &TestEnvironment, is_modern: bool, capabilities: Value) -> Agent {
    bench.agent().begin(is_modern, capabilities)
}

fn has_page(tool: &Value) -> bool {
    !tool["_meta"]["ui"].is_null() || !tool["_meta"]["ui/resourceUri"].is_null()
}

/// The listed tools with metadata of apps, without their names.
fn apps(agent: &Agent) -> Vec<Value> {
    let nameless = |mut tool: Value| {
        tool.as_object_mut().expect("a tool").remove("name");
        tool
    };
    agent.tools().into_iter().filter(has_page).map(nameless).collect()
}

fn expected() -> Vec<Value> {
    let nameless = |tool: &Value| {
        let mut tool = tool.clone();
        tool.as_object_mut().expect("a tool").remove("name");
        tool
    };
    tools().as_array().expect("tools").iter().take(3).map(nameless).collect()
}

fn name_of(agent: &Agent, own: &str) -> String {
    let names = agent.tool_names();
    let found = names.iter().find(|name| name.ends_with(own));
    found.unwrap_or_else(|| panic!("{own} in {names:?}")).clone()
}

fn read(agent: &Agent, uri: &str) -> Value {
    agent.request("resources/read", json!({ "uri": uri })).ok()["contents"].clone()
}

#[test]
fn tools_with_a_page_are_listed_whole_in_every_mode() {
    for mode in MODES {
        let bench = known(bench(mode));
        for is_modern in [false, true] {
            let agent = agent(&bench, is_modern, showing());
            assert_eq!(apps(&agent), expected(), "{mode}, modern: {is_modern}");
            let page = json!([{ "uri": PAGE, "mimeType": PAGE_TYPE, "text": "srv" }]);
            assert_eq!(read(&agent, PAGE), page, "{mode}, modern: {is_modern}");
            // A page that the server doesn't list, either.
            let older = read(&agent, "ui://chart/older.html");
            assert_eq!(older[0]["text"], "srv", "{mode}, modern: {is_modern}");
        }
    }
}

#[test]
fn clients_that_show_no_pages_see_no_difference() {
    for mode in MODES {
        let bench = known(bench(mode));
        for is_modern in [false, true] {
            let plain = agent(&bench, is_modern, json!({}));
            let listed = plain.tools();
            let lists_all = mode == "direct";
            assert_eq!(listed.iter().any(has_page), lists_all, "{mode}, modern: {is_modern}");
            // An unknown page type counts as none.
            let other = json!({ "extensions": { APPS: { "mimeTypes": ["text/plain"] } } });
            assert_eq!(agent(&bench, is_modern, other).tools(), listed, "{mode}");
        }
    }
}

#[test]
fn apps_call_tools_by_the_names_of_their_server_in_every_mode() {
    for mode in MODES {
        let bench = known(bench(mode));
        for is_modern in [false, true] {
            let agent = agent(&bench, is_modern, showing());
            let before = agent.tool_names();
            assert_eq!(agent.call("refresh", json!({})).text(), "srv", "{mode}");
            // Apps call tools without metadata, too.
            let echoed = agent.call("plain", json!({ "of": "x" }));
            assert!(!echoed.is_tool_error(), "{mode}: {}", echoed.text());
            let listed = name_of(&agent, "refresh");
            assert_eq!(agent.call(&listed, json!({})).text(), "srv", "{mode}");
            assert_eq!(agent.tool_names(), before, "{mode}: an app adds nothing to the list");
        }
    }
}

#[test]
fn denied_tools_of_apps_are_not_listed_and_not_called() {
    for mode in MODES {
        let allowed = json!({ "srv": ["chart", "older", "plain"], "plain": ["*"] });
        let policies = json!({ "reader": { "toolOverrides": allowed } });
        let bench = known(bench(mode).set("agentPolicies", policies));
        for is_modern in [false, true] {
            let agent = bench.agent_with(["--agent", "reader"]).begin(is_modern, showing());
            let names = agent.tool_names();
            assert!(!names.iter().any(|name| name.ends_with("refresh")), "{mode}: {names:?}");
            assert_eq!(apps(&agent).len(), 2, "{mode}");
            let refused = agent.call("refresh", json!({}));
            assert!(refused.is_tool_error(), "{mode}: {}", refused.text());
        }
    }
}

#[test]
fn names_and_pages_of_two_servers_are_kept_apart() {
    for mode in MODES {
        let bench = TestEnvironment::new()
            .set("toolMode", json!(mode))
            .server("box", "one", fake(script("one")))
            .server("more", "two", fake(script("two")));
        let bench = known(bench);
        for is_modern in [false, true] {
            let agent = agent(&bench, is_modern, showing());
            let refused = agent.call("refresh", json!({}));
            assert!(refused.is_tool_error(), "{mode}: {}", refused.text());
            let why = refused.text();
            assert!(why.contains("several servers have a tool `refresh`"), "{mode}: {why}");
            assert!(why.contains("box__one__refresh, more__two__refresh"), "{mode}: {why}");
            let tools = agent.tools();
            let mut pages = Vec::new();
            for tool in tools.iter().filter(|tool| !tool["_meta"]["ui"]["resourceUri"].is_null()) {
                let page = tool["_meta"]["ui"]["resourceUri"].as_str().expect("a URI");
                assert_eq!(tool["_meta"]["ui/resourceUri"], page, "both spellings agree");
                assert_eq!(tool["_meta"]["ui"]["odd"], 1.5);
                pages.push((page.to_owned(), read(&agent, page)[0].clone()));
            }
            let page = |toolbox: &str, server: &str| {
                let uri = format!("ui://mcp-workbench/{toolbox}/{server}/chart/view.html");
                let read = json!({ "uri": uri, "mimeType": PAGE_TYPE, "text": server });
                (uri, read)
            };
            assert_eq!(pages, [page("box", "one"), page("more", "two")], "{mode}: {is_modern}");
            for server in ["box__one__refresh", "more__two__refresh"] {
                let answer = agent.call(server, json!({})).text();
                assert_eq!(answer, if server.contains("one") { "one" } else { "two" }, "{mode}");
            }
        }
    }
}

#[test]
fn a_server_cannot_claim_the_page_of_another() {
    let claimed = "ui://mcp-workbench/box/one/chart/view.html";
    let mut evil = script("evil");
    evil["tools"][0]["_meta"] = json!({ "ui": { "resourceUri": claimed } });
    evil["answers"]["resources/list"] = json!({ "resources": [{ "uri": claimed, "name": "mine" }, { "uri": PAGE, "name": "too" }] });
    let bench = TestEnvironment::new()
        .set("toolMode", json!("proxy"))
        .server("box", "evil", fake(evil))
        .server("box", "one", fake(script("one")));
    let bench = known(bench);
    for is_modern in [false, true] {
        let agent = agent(&bench, is_modern, showing());
        let tools = agent.tools();
        let page = |server: &str| {
            let name = format!("box__{server}__chart");
            let tool = tools.iter().find(|tool| tool["name"] == *name).expect("a tool");
            tool["_meta"]["ui"]["resourceUri"].as_str().expect("a page").to_owned()
        };
        assert_eq!(page("one"), claimed);
        assert_eq!(read(&agent, &page("one"))[0]["text"], "one");
        assert_ne!(page("evil"), claimed);
        assert_eq!(read(&agent, &page("evil"))[0]["text"], "evil");
    }
}

#[test]
fn listing_apps_starts_no_server_and_later_ones_are_announced() {
    let file = |bench: &TestEnvironment| format!("@{}", bench.path_text("srv.json"));
    let bench = TestEnvironment::new().set("toolMode", json!("dynamic"));
    let mut script = script("srv");
    script["pidFile"] = bench.path_text("pids").into();
    bench.write("srv.json", &script.to_string());
    let entry = json!({ "command": fake_path(), "args": [file(&bench)] });
    let bench = bench.server("box", "srv", entry);
    let fresh = agent(&bench, false, showing());
    assert_eq!(apps(&fresh), Vec::<Value>::new(), "nothing is known yet");
    assert!(!bench.path("pids").exists());
    // A call by the qualified name starts the server without opening its toolbox.
    assert_eq!(fresh.call("srv:refresh", json!({})).text(), "srv");
    fresh.next_notification("notifications/tools/list_changed");
    assert_eq!(apps(&fresh), expected());
    let started = || StartedProcesses::read(bench.path("pids")).servers.len();
    assert_eq!(started(), 1);
    let bench = known(bench);
    let before = StartedProcesses::read(bench.path("pids")).servers.len();
    let later = agent(&bench, false, showing());
    assert_eq!(apps(&later), expected());
    assert_eq!(StartedProcesses::read(bench.path("pids")).servers.len(), before);
}

#[test]
fn the_extension_is_declared_only_to_clients_that_show_apps() {
    let declared = |bench: &TestEnvironment, capabilities: Value| {
        let agent = agent(bench, true, capabilities);
        let discovered = agent.request("server/discover", json!({})).ok();
        !discovered["capabilities"]["extensions"][APPS].is_null()
    };
    for mode in ["proxy", "search", "modular", "navigate", "direct"] {
        let bench = known(bench(mode));
        assert!(declared(&bench, showing()), "{mode}");
        assert!(!declared(&bench, json!({})), "{mode}");
        let without = TestEnvironment::new().set("toolMode", json!(mode)).server(
            "box",
            "srv",
            fake(json!({ "tools": ["echo"] })),
        );
        assert!(!declared(&known(without), showing()), "{mode}");
    }
}

#[test]
fn answers_point_models_to_the_listed_tool_and_omit_those_of_apps() {
    let bench = known(bench("proxy").set("search", json!({ "tool": true })));
    for is_modern in [false, true] {
        let opened = |capabilities: Value| {
            let agent = agent(&bench, is_modern, capabilities);
            let text = agent.open("box").text();
            serde_json::from_str::<Value>(&text).expect("JSON")
        };
        let with = opened(showing());
        let row = |opened: &Value, name: &str| {
            let rows = opened["tools"].as_array().expect("tools").clone();
            rows.into_iter().find(|row| row["name"] == name)
        };
        assert_eq!(row(&with, "chart").expect("a tool")["in_your_list"], "box__srv__chart");
        assert_eq!(row(&with, "plain").expect("a tool")["in_your_list"], Value::Null);
        assert_eq!(row(&with, "refresh"), None);
        assert!(with["call"].as_str().is_some_and(|call| call.contains("in_your_list")));
        let without = opened(json!({}));
        assert_eq!(row(&without, "chart").expect("a tool")["in_your_list"], Value::Null);
        assert!(row(&without, "refresh").is_some());
    }
}

#[test]
fn first_requests_of_an_app_need_no_list() {
    for mode in MODES {
        let bench = known(bench(mode));
        for is_modern in [false, true] {
            let read = agent(&bench, is_modern, showing());
            let page = read.request("resources/read", json!({ "uri": PAGE })).ok();
            assert_eq!(page["contents"][0]["text"], "srv", "{mode}, modern: {is_modern}");
            let call = agent(&bench, is_modern, showing());
            assert_eq!(call.call("refresh", json!({})).text(), "srv", "{mode}, {is_modern}");
        }
    }
}

#[test]
fn texts_for_the_model_omit_tools_that_only_apps_call() {
    let told = |mode: &str, capabilities: Value| {
        let bench = known(bench(mode));
        let agent = agent(&bench, false, capabilities);
        let own = agent.tools()[0]["description"].as_str().unwrap_or_default().to_owned();
        let answer = match mode {
            "modular" => agent.call("get-modular-tools", json!({ "group": "box" })),
            "search" => agent.call("search_tools", json!({ "queries": ["refresh plain"] })),
            _ => agent.call("toolman_activate", json!({ "tools_on": ["box_plain"] })),
        };
        format!("{own} {}", answer.text())
    };
    let named = r#""name":"refresh""#;
    for (mode, name) in [("modular", named), ("search", named), ("activate", "box_refresh")] {
        assert!(!told(mode, showing()).contains(name), "{mode}");
        assert!(told(mode, json!({})).contains(name), "{mode}");
    }
}

#[test]
fn task_and_signatures_omit_tools_that_only_apps_call() {
    for (capabilities, is_offered) in [(showing(), false), (json!({}), true)] {
        let bench = known(bench("navigate"));
        let navigating = agent(&bench, false, capabilities.clone());
        let task = navigating.call("execute_task", json!({ "task": "refresh" })).text();
        let named = task.contains("srv.refresh") || task == "srv";
        assert_eq!(named, is_offered, "{task}");
        let bench = known(self::bench("proxy"));
        let proxied = bench.agent();
        let client = json!({ "name": "claude-code", "version": "2.1.332" });
        proxied.initialize_with(json!({ "clientInfo": client, "capabilities": capabilities }));
        let tools = proxied.tools();
        let use_tool = tools.iter().find(|tool| tool["name"] == "use_tool").expect("a tool");
        let signatures = use_tool["description"].as_str().expect("a text");
        assert!(signatures.contains("plain(of?)"), "{signatures}");
        assert_eq!(signatures.contains("refresh(of?)"), is_offered, "{signatures}");
    }
}

#[test]
fn results_of_our_tools_match_their_output_schemas() {
    let client = json!({ "clientInfo": { "name": "gemini-cli", "version": "0.61.0" } });
    for mode in ["dynamic", "auto"] {
        let bench = bench(mode).server(
            "broken",
            "gone",
            fake(json!({ "failStart": { "code": 3, "stderr": ["no"] } })),
        );
        let agent = bench.agent().relisting_on_change();
        agent.initialize_with(client.clone());
        let tools = agent.tools();
        let schema = &tools[0]["outputSchema"];
        assert_eq!(tools[0]["name"], "open_toolbox");
        assert!(schema.is_object(), "{mode}");
        let validator = jsonschema::validator_for(schema).expect("a schema");
        for toolbox in ["box", "other", "broken"] {
            let result = agent.open(toolbox).ok();
            let shape = &result["structuredContent"];
            assert!(validator.is_valid(shape), "{mode}, {toolbox}: {shape}");
        }
        let refused = agent.open("absent");
        assert!(refused.is_tool_error(), "errors need no shape");
    }
    // These clients may get the definitions as a text, which isn't repeated as an object.
    for (mode, name) in [("dynamic", "unknown"), ("auto", "unknown"), ("auto", "codex-mcp-client")]
    {
        let agent = bench(mode).agent();
        agent.initialize_with(json!({ "clientInfo": { "name": name, "version": "1.0.0" } }));
        assert_eq!(agent.tools()[0]["outputSchema"], Value::Null, "{mode}, {name}");
    }
}

#[test]
fn apps_work_over_http_with_headers_for_their_arguments() {
    let mut charts = script("srv");
    charts["tools"][0]["inputSchema"]["properties"]["of"]["x-mcp-header"] = "Of".into();
    let bench =
        TestEnvironment::new().set("toolMode", json!("proxy")).server("box", "srv", fake(charts));
    let (_program, http) = known(bench).http();
    let ask = |method: &str, mut params: Value, headers: &[(&str, &str)]| {
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = showing();
        http.modern(method, params, headers).last()
    };
    let tools = ask("tools/list", json!({}), &[])["result"]["tools"].clone();
    let tools = tools.as_array().expect("a list").clone();
    assert_eq!(tools.iter().filter(|tool| has_page(tool)).count(), 3);
    let read = ask("resources/read", json!({ "uri": PAGE }), &[("Mcp-Name", PAGE)]);
    assert_eq!(read["result"]["contents"][0]["text"], "srv");
    let call = |name: &str, header: &[(&str, &str)]| {
        let headers: Vec<_> = [("Mcp-Name", name)].iter().chain(header).copied().collect();
        ask("tools/call", json!({ "name": name, "arguments": { "of": "x" } }), &headers)
    };
    let listed = call("box__srv__chart", &[("Mcp-Param-Of", "x")]);
    assert_eq!(listed["result"]["isError"], Value::Null, "{listed}");
    assert!(call("box__srv__chart", &[])["error"].is_object(), "the header is missing");
    assert_eq!(call("refresh", &[])["result"]["content"][0]["text"], "srv");
}

#[test]
fn an_opened_or_repeated_server_lists_its_apps_once() {
    let repeated = |mode: &str| {
        let bench = bench(mode);
        known(bench.server("again", "srv", fake(script("srv"))))
    };
    let client = json!({
        "capabilities": showing(),
        "clientInfo": { "name": "gemini-cli", "version": "0.61.0" },
    });
    let bench = repeated("dynamic");
    let agent = bench.agent().relisting_on_change();
    agent.initialize_with(client);
    assert_eq!(apps(&agent), expected());
    agent.open("box").ok();
    assert_eq!(apps(&agent), expected());
    let names = agent.tool_names();
    let of_box = ["chart", "refresh", "older", "plain"].map(|own| format!("box__srv__{own}"));
    assert!(names.ends_with(&of_box), "{names:?}");
}

#[test]
fn servers_without_apps_still_need_activation() {
    let bench = known(bench("activate"));
    let agent = agent(&bench, false, showing());
    let refused = agent.call("echo", json!({})).text();
    assert!(refused.contains("is inactive"), "{refused}");
    let switched = agent.call("toolman_activate", json!({ "tools_off": ["box_refresh"] }));
    assert!(!switched.is_tool_error(), "{}", switched.text());
    assert_eq!(agent.call("refresh", json!({})).text(), "srv", "the app still needs it");
}
