//! `activate` mode as the Toolman gateway documents it. Each test quotes the sentences it verifies.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::{Agent, Response, TestEnvironment, conformance, fake};

fn pjpd() -> Value {
    fake(json!({
        "tools": [
            tool("list_projects", "List all projects in the workspace"),
            tool("get_task", "Get a task by ID"),
            tool("create_task", "Create a new task in a project"),
            {"name": "die", "description": "Ends it", "inputSchema": {"type": "object"}},
        ],
        "behavior": {"die": "crash"},
        "capabilities": {"resources": {}, "prompts": {}},
        "answers": {
            "resources/list": {"resources": [
                {"uri": "projects://all", "name": "All", "description": "All project summaries"},
            ]},
            "resources/templates/list": {"resourceTemplates": [
                {"uriTemplate": "projects://{id}", "name": "One", "description": "One project"},
            ]},
            "prompts/list": {"prompts": [{"name": "summarize"}]},
            "prompts/get": {"messages": [
                {"role": "user", "content": {"type": "text", "text": "Summarize"}},
            ]},
            "resources/read": {"contents": [{"uri": "projects://all", "text": "alpha, beta"}]},
        },
    }))
}

fn vec() -> Value {
    fake(json!({
        "tools": [tool("search", "Search documents by semantic similarity")],
        "capabilities": {"resources": {}},
        "answers": {
            "resources/list": {"resources": [
                {"uri": "data://stats", "name": "Stats", "description": "Index statistics"},
            ]},
            "resources/templates/list": {"resourceTemplates": []},
        },
    }))
}

fn tool(name: &str, description: &str) -> Value {
    let schema = json!({"type": "object", "properties": {"id": {"type": "string"}}});
    json!({"name": name, "description": description, "inputSchema": schema})
}

fn bench(active: &[&str]) -> TestEnvironment {
    let bench = TestEnvironment::new()
        .set("toolMode", json!("activate"))
        .set("activeToolsets", json!(active));
    bench.server("pjpd", "projects", pjpd()).server("vec", "vecbook", vec())
}

fn greeted(bench: &TestEnvironment) -> Agent {
    let agent = bench.agent().relisting_on_change();
    agent.initialize();
    agent
}

fn catalog(agent: &Agent) -> String {
    let tools = agent.tools();
    let own = tools.first().expect("at least one tool");
    assert_eq!(own["name"], "toolman_activate");
    let text = own["description"].as_str().expect("a text");
    text.split_once("\n\n").expect("a catalog").1.to_owned()
}

fn activate(agent: &Agent, arguments: Value) -> Value {
    ours(&agent.call("toolman_activate", arguments))
}

/// Parses a response of the workbench itself, as opposed to a relayed one.
fn ours(response: &Response) -> Value {
    let answer: Value = serde_json::from_str(&response.text()).expect("JSON");
    assert_eq!(answer["success"] == false, response.is_tool_error());
    assert!(answer.get("result").is_some() && answer["error"].is_string(), "{answer}");
    answer
}

fn problem(response: &Response) -> String {
    let answer = ours(response);
    assert_eq!((&answer["success"], &answer["result"]), (&json!(false), &json!("")));
    answer["error"].as_str().expect("a text").to_owned()
}

fn uris(agent: &Agent) -> Vec<String> {
    let list = |method, member: &str, key: &str| {
        let list = agent.request(method, json!({})).ok();
        let entries = list[member].as_array().expect("a list").clone();
        entries
            .iter()
            .map(|entry| entry[key].as_str().expect("a text").to_owned())
            .collect::<Vec<_>>()
    };
    let mut uris = list("resources/list", "resources", "uri");
    uris.extend(list("resources/templates/list", "resourceTemplates", "uriTemplate"));
    uris
}

/// "The model sees `toolman_activate` (with the full catalog in its description) plus the currently
/// active tools." "Items marked with `*` are currently active."
#[test]
fn catalog_matches_the_documented_format() {
    let agent = greeted(&bench(&["pjpd_list*", "pjpd_get*", "pjpd_projects://all"]));
    assert_eq!(
        catalog(&agent),
        "TOOLS:\n\
         * pjpd_list_projects: List all projects in the workspace\n\
         * pjpd_get_task: Get a task by ID\n  \
           pjpd_create_task: Create a new task in a project\n  \
           pjpd_die: Ends it\n  \
           vec_search: Search documents by semantic similarity\n\
         \n\
         RESOURCES:\n\
         * pjpd+projects://all: All project summaries\n  \
           pjpd+projects://{id}: One project\n  \
           vec+data://stats: Index statistics"
    );
    let names = ["toolman_activate", "pjpd_list_projects", "pjpd_get_task"];
    assert_eq!(agent.tool_names(), names);
}

/// "Each description is truncated to 132 characters."
#[test]
fn descriptions_are_truncated_to_132_characters() {
    let long = format!("Liest {}", "größere\n  Dateien ".repeat(20));
    let bench = TestEnvironment::new().set("toolMode", json!("activate"));
    let bench = bench.server("box", "s", fake(json!({"tools": [tool("read", &long)]})));
    let catalog = catalog(&greeted(&bench));
    let line = catalog.lines().nth(1).expect("a tool");
    let description = line.strip_prefix("  box_read: ").expect("a name");
    assert!(description.chars().count() <= 132, "{description}");
    assert!(description.chars().count() > 120, "{description}");
    assert!(
        description.ends_with("größere…") || description.ends_with("Dateien…"),
        "{description}"
    );
}

/// "With namespace `pjpd`: Tool `list_projects` becomes `pjpd_list_projects`; Resource
/// `projects://all` becomes `pjpd_projects://all`; Prompt `summarize` becomes `pjpd_summarize`."
/// "When the model calls an active tool, toolman strips the namespace and forwards the request to
/// the upstream server."
///
/// Resources are listed as `pjpd+projects://all`, because some clients reject `_` in a URI scheme.
/// Both forms can be read.
#[test]
fn namespaces_are_added_and_stripped_before_forwarding() {
    let bench = bench(&["pjpd*"]);
    let requests = bench.path_text("requests");
    let entry = json!({"tools": ["request"], "requestFile": requests});
    let agent =
        greeted(&bench.server("vec", "second", fake(entry)).set("activeToolsets", json!(["*"])));
    assert!(agent.tool_names().contains(&"pjpd_list_projects".to_owned()));
    assert!(uris(&agent).contains(&"pjpd+projects://all".to_owned()));
    let prompts = agent.request("prompts/list", json!({})).ok();
    assert_eq!(prompts["prompts"][0]["name"], "pjpd_summarize");
    agent.request("prompts/get", json!({"name": "pjpd_summarize"})).ok();
    for uri in ["pjpd_projects://all", "pjpd+projects://all"] {
        let read = agent.request("resources/read", json!({"uri": uri})).ok();
        assert_eq!(read["contents"], json!([{"uri": uri, "text": "alpha, beta"}]));
    }
    let forwarded: Value =
        serde_json::from_str(&agent.call("vec_request", json!({"a": 1})).text()).expect("JSON");
    assert_eq!(forwarded["name"], "request");
    assert_eq!(forwarded["arguments"], json!({"a": 1}));
}

/// "Use an empty string to pass names through as-is." (Fields, `namespace`)
#[test]
fn empty_namespace_passes_names_through() {
    let mut config = json!({"toolMode": "activate", "activeToolsets": ["*"], "toolboxes": {}});
    config["toolboxes"]["any"] =
        json!({"description": "x", "namespace": "", "mcpServers": {"one": pjpd()}});
    let agent = greeted(&TestEnvironment::new().config(config));
    assert_eq!(agent.tool_names()[1], "list_projects");
    assert_eq!(uris(&agent)[0], "projects://all");
    agent.call("get_task", json!({"id": "7"})).ok();
}

/// "If two servers produce the same namespaced name, the first one listed in `tools.toml` wins. The
/// duplicate is discarded."
#[test]
fn first_server_wins_a_duplicate_name() {
    let mut config = json!({"toolMode": "activate", "activeToolsets": ["*"], "toolboxes": {}});
    for (toolbox, text) in [("first", "One"), ("second", "Two")] {
        let server = fake(json!({"tools": [tool("same", text), tool(text, text)]}));
        config["toolboxes"][toolbox] =
            json!({"description": "x", "namespace": "n", "mcpServers": {"srv": server}});
    }
    let agent = greeted(&TestEnvironment::new().config(config));
    assert_eq!(catalog(&agent), "TOOLS:\n* n_same: One\n* n_One: One\n* n_Two: Two");
    agent.wait_stderr("tool `n_same` of server `srv` in `second` is hidden");
}

/// "A list of glob patterns matched against the full namespaced name (namespace + `_` + original
/// name). Matching tools and resources start active. Non-matching ones start inactive. Prompts are
/// always active."
#[test]
fn patterns_select_the_initially_active_items() {
    let agent = greeted(&bench(&["pjpd_*task", "vec*"]));
    let tools = ["toolman_activate", "pjpd_get_task", "pjpd_create_task", "vec_search"];
    assert_eq!(agent.tool_names(), tools);
    assert_eq!(uris(&agent), ["vec+data://stats"]);
    let nothing = greeted(&bench(&[]));
    assert_eq!(nothing.tool_names(), ["toolman_activate"]);
    assert!(uris(&nothing).is_empty());
    let prompts = nothing.request("prompts/list", json!({})).ok();
    assert_eq!(prompts["prompts"], json!([{"name": "pjpd_summarize"}]));
}

/// "The model calls `toolman_activate` to turn tools and resources on or off as needed."
#[test]
fn tools_and_resources_are_activated_and_deactivated() {
    let agent = greeted(&bench(&["pjpd_get_task"]));
    agent.tools();
    let answer = activate(
        &agent,
        json!({
            "tools_on": ["vec_search"],
            "tools_off": "pjpd_get_task",
            "resources_on": ["pjpd_projects://all"],
            "resources_off": null,
        }),
    );
    assert_eq!(answer["error"], "");
    let definition = json!({
        "name": "vec_search",
        "description": "Search documents by semantic similarity",
        "inputSchema": {"type": "object", "properties": {"id": {"type": "string"}}},
    });
    assert_eq!(answer["result"]["activated"], json!([definition]));
    assert_eq!(answer["result"]["resources"][0]["uri"], "pjpd+projects://all");
    let relisted = agent.relists().pop().expect("a refreshed tool list");
    assert_eq!(
        relisted,
        ["toolman_activate", "vec_search"],
        "the client had refreshed its list before the response arrived"
    );
    agent.next_notification("notifications/resources/list_changed");
    assert_eq!(uris(&agent), ["pjpd+projects://all"]);
    assert!(catalog(&agent).contains("\n  pjpd_get_task: Get a task by ID\n"));
    assert!(catalog(&agent).contains("\n* vec_search: "));
    let echoed = agent.call("vec_search", json!({"id": "x"})).structured();
    assert_eq!(echoed, json!({"id": "x"}));
    let off = activate(&agent, json!({"tools_off": ["vec_search"]}));
    assert_eq!(off, json!({"success": true, "result": "OK", "error": ""}));
    assert_eq!(agent.tool_names(), ["toolman_activate"]);
}

/// "Toolman's own errors (inactive tool, unknown name, empty activation) return a JSON object with
/// `success`, `result`, and `error` fields. The error messages are written as actionable prompts
/// that tell the model how to fix the problem."
#[test]
fn own_errors_are_objects_with_a_hint() {
    let agent = greeted(&bench(&["pjpd_get_task"]));
    assert_eq!(
        problem(&agent.call("vec_search", json!({}))),
        "Tool 'vec_search' is inactive. Use toolman_activate with tools_on=[\"vec_search\"] to \
         activate it first."
    );
    assert_eq!(
        problem(&agent.call("vec_serch", json!({}))),
        "Unknown tool 'vec_serch'. Similar: vec_search. Use toolman_activate to see available \
         tools."
    );
    let empty = problem(&agent.call("toolman_activate", json!({"tools_on": []})));
    assert!(empty.starts_with("All lists are empty. Specify at least one tool or resource name"));
    let mixed = json!({"tools_on": ["vec_search", "nothing_like_it"]});
    let unknown = problem(&agent.call("toolman_activate", mixed));
    assert!(unknown.starts_with("Unknown names: tool 'nothing_like_it'. No changes applied."));
    assert_eq!(agent.tool_names(), ["toolman_activate", "pjpd_get_task"]);
    let inactive = agent.request("resources/read", json!({"uri": "pjpd_projects://all"})).error();
    assert_eq!(
        inactive["message"],
        "Resource 'pjpd_projects://all' is inactive. Use toolman_activate with \
         resources_on=[\"pjpd+projects://all\"] to activate it first."
    );
    assert_eq!(inactive["data"]["success"], false);
    let made = agent.request("resources/read", json!({"uri": "pjpd_projects://7"})).error();
    let message = made["message"].as_str().expect("a text");
    assert!(message.contains("resources_on=[\"pjpd+projects://{id}\"]"), "{message}");
}

/// "Errors from upstream servers are relayed directly without wrapping."
#[test]
fn server_errors_are_relayed_unchanged() {
    let behavior = json!({
        "one": {"error": {"code": -32050, "message": "no such thing"}},
        "two": {"tool_error": {"text": "it went wrong"}},
    });
    let script = json!({"tools": ["one", "two"], "behavior": behavior});
    let bench = TestEnvironment::new()
        .set("toolMode", json!("activate"))
        .set("activeToolsets", json!(["*"]));
    let agent = greeted(&bench.server("box", "s", fake(script)));
    agent.tools();
    let error = agent.call("box_one", json!({})).error();
    assert_eq!(error, json!({"code": -32050, "message": "no such thing"}));
    let failed = agent.call("box_two", json!({}));
    assert!(failed.is_tool_error());
    assert_eq!(failed.text(), "it went wrong");
}

/// "If an upstream server crashes, toolman removes all of its tools, resources, and prompts from
/// the catalog. The model sees them disappear on the next `listTools` call."
#[test]
fn crashed_server_leaves_the_catalog_until_restarted() {
    let agent = greeted(&bench(&["*"]));
    let before = catalog(&agent);
    agent.next_notification("notifications/prompts/list_changed");
    let crash = problem(&agent.call("pjpd_die", json!({})));
    assert!(
        crash.starts_with(
            "Upstream server for 'pjpd_die' crashed and has been removed from the catalog. Error: "
        ),
        "{crash}"
    );
    agent.next_notification("notifications/prompts/list_changed");
    assert_eq!(agent.tool_names(), ["toolman_activate", "vec_search"]);
    assert!(catalog(&agent).starts_with("TOOLS:\n* vec_search: "));
    assert!(catalog(&agent).contains("Not available now: pjpd."));
    assert_eq!(uris(&agent), ["vec+data://stats"]);
    assert_eq!(agent.request("prompts/list", json!({})).ok()["prompts"], json!([]));

    // Calling a tool that the model remembers restarts the server and restores the catalog.
    agent.call("pjpd_get_task", json!({"id": "1"})).ok();
    agent.next_notification("notifications/prompts/list_changed");
    assert_eq!(catalog(&agent), before);

    // Activating one does so, too.
    problem(&agent.call("pjpd_die", json!({})));
    agent.next_notification("notifications/prompts/list_changed");
    let answer = activate(&agent, json!({"tools_on": ["pjpd_get_task"]}));
    assert_eq!(answer["result"]["activated"][0]["name"], "pjpd_get_task");
    assert!(agent.tool_names().contains(&"pjpd_get_task".to_owned()));
}

/// Stopping an idle server isn't a crash.
#[test]
fn idle_server_keeps_its_catalog_entries() {
    let entry = |script: Value| {
        let mut entry = fake(script);
        entry["idleTimeoutMs"] = json!(100);
        entry
    };
    let bench = TestEnvironment::new()
        .set("toolMode", json!("activate"))
        .set("activeToolsets", json!(["*"]));
    let agent = greeted(&bench.server("box", "s", entry(json!({"tools": ["echo"]}))));
    agent.tools();
    agent.wait_stderr("stopped after the idle timeout");
    assert_eq!(agent.tool_names(), ["toolman_activate", "box_echo"]);
    agent.call("box_echo", json!({})).ok();
}

/// "It queries every server for tools, resources, and prompts": a server that can't start doesn't
/// delay the others.
#[test]
fn unstartable_server_leaves_the_others_in_the_catalog() {
    let bench = bench(&["vec*"]).server("bad", "missing", json!({"command": "/does/not/exist"}));
    let agent = greeted(&bench);
    assert_eq!(agent.tool_names(), ["toolman_activate", "vec_search"]);
    assert!(catalog(&agent).contains("Not available now: bad."));
    let unknown = problem(&agent.call("bad_tool", json!({})));
    assert!(unknown.contains("server `missing`, which may have it, could not be started"));
}

#[test]
fn modern_agents_get_constant_lists_and_call_any_tool() {
    let bench = bench(&["pjpd_get*"]);
    let agent = bench.agent().modern();
    let refused = agent.request("server/discover", json!({}));
    assert_eq!(refused.error()["code"], -32601, "stdio clients should use `initialize` instead");
    assert_eq!(agent.tool_names(), ["toolman_activate", "use_tool", "pjpd_get_task"]);
    let answer =
        activate(&agent, json!({"tools_on": ["vec_search"], "resources_on": ["vec_data://stats"]}));
    assert_eq!(answer["result"]["activated"][0]["name"], "vec_search");
    assert!(answer["result"]["note"].as_str().expect("a text").contains("call these tools"));
    assert_eq!(agent.tool_names(), ["toolman_activate", "use_tool", "pjpd_get_task"]);
    agent.call("vec_search", json!({})).ok();
    let used = agent.call("use_tool", json!({"tool": "vec_search", "arguments": {}}));
    assert!(!used.is_tool_error(), "{used:?}");
    agent.request("resources/read", json!({"uri": "pjpd_projects://all"})).ok();
}

/// List entries carry the namespace, URIs inside results don't. Both can be read.
#[test]
fn uris_in_results_are_unchanged_and_readable() {
    let bench = TestEnvironment::new()
        .set("toolMode", json!("activate"))
        .set("activeToolsets", json!(["*"]));
    let agent = greeted(&bench.server("my_box", "one", conformance("legacy")));
    assert!(uris(&agent).contains(&"my-box+test://static-text".to_owned()));
    let result = agent.call("my_box_test_embedded_resource", json!({})).ok();
    assert_eq!(result["content"][0]["resource"]["uri"], "test://embedded-resource");
    for uri in ["my-box+test://template/7/data", "my_box_test://template/7/data"] {
        let read = agent.request("resources/read", json!({"uri": uri})).ok();
        assert_eq!(read["contents"][0]["uri"], uri);
    }
    let own = agent.request("resources/read", json!({"uri": "test://static-text"})).ok();
    assert_eq!(
        own["contents"][0]["uri"], "test://static-text",
        "the server's own URI, which results may contain"
    );
    let watched = json!({"uri": "my-box+test://watched-resource"});
    agent.request("resources/subscribe", watched.clone()).ok();
    agent.call("my_box_test_trigger_resource_change", json!({})).ok();
    let told = agent.next_notification("notifications/resources/updated");
    assert_eq!(told["uri"], watched["uri"]);
    agent.request("resources/unsubscribe", watched).ok();
}

#[test]
fn shared_uri_in_a_result_resolves_to_its_server() {
    let bench = TestEnvironment::new()
        .set("toolMode", json!("activate"))
        .set("activeToolsets", json!(["*"]));
    let server = |text: &str| {
        let link = json!({"type": "resource_link", "uri": "notes://all", "name": "All"});
        let result = json!({"content": [link]}).to_string();
        fake(json!({
            "tools": ["link"],
            "behavior": {"link": {"result": {"raw": result}}},
            "capabilities": {"resources": {}},
            "answers": {
                "resources/list": {"resources": [{"uri": "notes://all", "name": "All"}]},
                "resources/templates/list": {"resourceTemplates": []},
                "resources/read": {"contents": [{"uri": "notes://all", "text": text}]},
            },
        }))
    };
    let agent = greeted(&bench.server("a", "s", server("A")).server("b", "s", server("B")));
    agent.tools();
    let linked = agent.call("b_link", json!({})).ok();
    let uri = &linked["content"][0]["uri"];
    assert_eq!(uri, "b+notes://all");
    let read = agent.request("resources/read", json!({"uri": uri})).ok();
    assert_eq!(read["contents"][0]["text"], "B");
}

/// "A list of glob patterns matched against the full namespaced name." Names that are too long for
/// clients are listed with a hash suffix; the full name still works.
#[test]
fn shortened_names_also_work_in_full() {
    let long = format!("read_{}", "very_".repeat(10));
    let full = format!("box_{long}");
    let bench = TestEnvironment::new()
        .set("toolMode", json!("activate"))
        .set("activeToolsets", json!([full]))
        .server("box", "s", fake(json!({"tools": [long, "other"]})));
    let agent = greeted(&bench);
    let names = agent.tool_names();
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(names[1].len() <= 48, "{names:?}");
    agent.call(&full, json!({})).ok();
    agent.call(&names[1], json!({})).ok();
    activate(&agent, json!({"tools_off": [full]}));
    assert_eq!(agent.tool_names(), ["toolman_activate"]);
    activate(&agent, json!({"tools_on": [full, names[1]]}));
    assert_eq!(agent.tool_names(), names);
}

#[test]
fn each_session_has_its_own_active_tools() {
    let first = Agent::over_http(bench(&["pjpd_get*"]).http());
    let second = first.beside();
    for agent in [&first, &second] {
        agent.initialize();
        assert_eq!(agent.tool_names(), ["toolman_activate", "pjpd_get_task"]);
    }
    activate(&first, json!({"tools_on": ["vec_search"], "tools_off": ["pjpd_get_task"]}));
    assert_eq!(first.tool_names(), ["toolman_activate", "vec_search"]);
    assert_eq!(second.tool_names(), ["toolman_activate", "pjpd_get_task"]);
}

#[test]
fn long_answers_stay_within_max_listing_bytes() {
    let long = "A very long story. ".repeat(20);
    let tools: Vec<_> = (0..8).map(|n| tool(&format!("tool_{n}"), &long)).collect();
    let bench = TestEnvironment::new()
        .set("toolMode", json!("activate"))
        .set("limits", json!({"maxListingBytes": 2000}))
        .server("box", "srv", fake(json!({"tools": tools})));
    let agent = greeted(&bench);
    assert!(agent.tools()[0]["description"].as_str().expect("a text").len() <= 2000);
    let names: Vec<_> = (0..8).map(|n| format!("box_tool_{n}")).collect();
    let answer = agent.call("toolman_activate", json!({"tools_on": names}));
    assert!(answer.text().len() <= 2000, "{}", answer.text());
    let answer = ours(&answer);
    assert_eq!(answer["result"]["activated"].as_array().expect("a list").len(), 8);
    assert!(answer["result"]["more"].is_string(), "{answer}");
    assert_eq!(agent.tool_names().len(), 9);
    let one = activate(&agent, json!({"tools_on": ["box_tool_3"]}));
    assert!(one["result"]["activated"][0]["inputSchema"].is_object());
}
