//! `modular` mode. Tests quote the sentences of the Modular MCP documentation that they verify.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::{Agent, TestEnvironment, fake};

const TOOLS: [&str; 2] = ["get-modular-tools", "call-modular-tool"];

fn bench() -> TestEnvironment {
    let mut context7 = fake(json!({"tools": [
        {"name": "resolve-library-id", "description": "Finds a library", "inputSchema": {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "type": "object",
            "properties": {"libraryName": {"type": "string"}},
            "required": ["libraryName"],
        }},
        {"name": "get-library-docs", "inputSchema": {"type": "object"}},
    ], "behavior": {"resolve-library-id": "echo"}}));
    context7["description"] = "Use when you need to search library documentation.".into();
    let raw = r#"{"content":[{"type":"text","text":"went"}],  "structuredContent":{"n":1.50},"_meta":{"x":1},"isError":false}"#;
    let mut playwright = fake(json!({"tools": [
        {
            "name": "browser_navigate",
            "title": "Navigate",
            "description": "Goes to a page",
            "inputSchema": {"type": "object", "properties": {"url": {"type": "string"}}, "required": ["url"]},
            "outputSchema": {"type": "object"},
            "annotations": {"destructiveHint": true},
            "icons": [],
        },
        "browser_close",
    ], "behavior": {"browser_navigate": {"result": {"raw": raw}}}}));
    playwright["description"] = "Use when you need to control or automate web browsers.".into();
    with_servers(json!({"context7": context7, "playwright": playwright}))
}

fn with_servers(servers: Value) -> TestEnvironment {
    TestEnvironment::new().config(json!({"toolMode": "modular", "mcpServers": servers}))
}

fn greeted(bench: &TestEnvironment) -> Agent {
    let agent = bench.agent();
    agent.initialize();
    agent
}

fn described(server: Value, description: &str) -> Value {
    let mut server = server;
    server["description"] = description.into();
    server
}

fn description(agent: &Agent) -> String {
    agent.tools()[0]["description"].as_str().expect("a description").to_owned()
}

fn get(agent: &Agent, group: &str) -> Value {
    let response = agent.call("get-modular-tools", json!({"group": group}));
    assert!(!response.is_tool_error(), "{}", response.text());
    serde_json::from_str(response.ok()["content"][0]["text"].as_str().expect("a text")).unwrap()
}

fn call(agent: &Agent, group: &str, name: &str, args: Value) -> Value {
    agent.call("call-modular-tool", json!({"group": group, "name": name, "args": args})).ok()
}

fn error(agent: &Agent, tool: &str, arguments: Value) -> String {
    let response = agent.call(tool, arguments);
    assert!(response.is_tool_error());
    response.text()
}

// "**Note**: The `type` field defaults to `"stdio"` if not specified. For `stdio` type servers, you
// can omit the `type` field for cleaner configuration."
#[test]
fn standard_server_entries_with_descriptions_are_accepted() {
    let mut plain = described(fake(json!({"tools": ["echo"]})), "Plain.");
    plain["env"] = json!({});
    let mut typed = plain.clone();
    typed["type"] = "stdio".into();
    let agent = greeted(&with_servers(json!({"plain": plain, "typed": typed})));
    for group in ["plain", "typed"] {
        assert_eq!(get(&agent, group)[0]["name"], "echo");
    }
}

// "Create a configuration file (e.g., `modular-mcp.json`) for the upstream MCP servers you want to
// manage." - "Register Modular MCP in your MCP client configuration"
#[test]
fn configuration_file_can_have_any_name() {
    let bench = bench();
    bench.write_config();
    std::fs::rename(bench.config_path(), bench.path("modular-mcp.json")).unwrap();
    let arguments = ["--config", &bench.path_text("modular-mcp.json")];
    let entry = json!({"command": env!("CARGO_BIN_EXE_mcp-workbench"), "args": arguments});
    let agent = bench.direct(&entry);
    agent.initialize();
    assert_eq!(agent.tool_names(), TOOLS);
}

// "This workflow keeps context usage minimal while providing access to all tools when needed."
#[test]
fn tool_list_does_not_grow_with_the_servers_tools() {
    let listed = |count: usize| {
        let tools: Vec<_> = (0..count).map(|n| format!("tool_{n}")).collect();
        let agent = greeted(&with_servers(json!({"s": fake(json!({"tools": tools}))})));
        let listed = agent.request("tools/list", json!({})).raw_result();
        let last = format!("tool_{}", count - 1);
        assert_eq!(call(&agent, "s", &last, json!({"x": 1}))["structuredContent"], json!({"x": 1}));
        listed
    };
    assert_eq!(listed(1), listed(300));
}

// "When Modular MCP starts, it registers only two tools to the LLM"
#[test]
fn both_eras_list_two_tools() {
    let bench = bench();
    for agent in [greeted(&bench), bench.agent().modern()] {
        assert_eq!(agent.tool_names(), TOOLS);
        get(&agent, "playwright");
        assert_eq!(agent.tool_names(), TOOLS, "the tool list changed");
    }
}

// "The `get-modular-tools` tool description includes information about available groups, like
// this"
#[test]
fn description_lists_the_groups() {
    let agent = greeted(&bench());
    assert_eq!(
        description(&agent),
        "modular-mcp manages multiple MCP servers as organized groups, providing only the \
         necessary group's tool descriptions to the LLM on demand instead of overwhelming it with \
         all tool descriptions at once.\n\nUse this tool to retrieve available tools in a specific \
         group, then use call-modular-tool to execute them.\n\nAvailable groups:\n- context7: Use \
         when you need to search library documentation.\n- playwright: Use when you need to \
         control or automate web browsers."
    );
}

// "allowing it to discover available groups without making any tool calls"
#[test]
fn input_schema_enumerates_the_groups() {
    let agent = greeted(&bench());
    for tool in agent.tools() {
        let groups = &tool["inputSchema"]["properties"]["group"]["enum"];
        assert_eq!(*groups, json!(["context7", "playwright"]));
    }
    let required: Vec<_> =
        agent.tools().iter().map(|tool| tool["inputSchema"]["required"].clone()).collect();
    assert_eq!(required, [json!(["group"]), json!(["group", "name"])]);
}

// "`get-modular-tools`: Retrieves tool name and schemas for a specific group"
#[test]
fn group_returns_its_tools_with_schemas() {
    let agent = greeted(&bench());
    let response = agent.call("get-modular-tools", json!({"group": "playwright"}));
    assert_eq!(response.ok()["content"].as_array().map(Vec::len), Some(1));
    let lines: Vec<String> = response.text().lines().map(str::to_owned).collect();
    assert_eq!(
        lines,
        [
            "[",
            r#"{"name":"browser_navigate","description":"Goes to a page","inputSchema":{"type":"object","properties":{"url":{"type":"string"}},"required":["url"]},"annotations":{"destructiveHint":true}},"#,
            r#"{"name":"browser_close","description":"The fake tool browser_close","inputSchema":{"type":"object"}}"#,
            "]",
        ]
    );
    assert_eq!(
        get(&agent, "context7"),
        json!([
            {"name": "resolve-library-id", "description": "Finds a library", "inputSchema": {
                "type": "object",
                "properties": {"libraryName": {"type": "string"}},
                "required": ["libraryName"],
            }},
            {"name": "get-library-docs", "inputSchema": {"type": "object"}},
        ])
    );
}

// "`call-modular-tool`: Executes a tool from a specific group"
// "**Transparent**: Tools execute exactly as if called directly on upstream servers"
#[test]
fn results_pass_byte_for_byte() {
    let agent = greeted(&bench());
    let args = json!({"url": "https://example.com"});
    let response = agent.call(
        "call-modular-tool",
        json!({"group": "playwright", "name": "browser_navigate", "args": args}),
    );
    assert_eq!(
        response.raw_result(),
        r#"{"content":[{"type":"text","text":"went"}],  "structuredContent":{"n":1.50},"_meta":{"x":1},"isError":false}"#
    );
}

// "**On-Demand Loading**: Retrieves detailed tool schemas only when needed for specific groups"
#[test]
fn tools_can_be_called_before_their_group_is_loaded() {
    let bench = bench();
    for agent in [greeted(&bench), bench.agent().modern()] {
        let result = call(&agent, "context7", "get-library-docs", json!({"a": 1}));
        assert_eq!(result["structuredContent"], json!({"a": 1}));
    }
}

// "It helps the LLM understand each tool group's purpose without loading detailed tool schemas."
#[test]
fn instructions_name_the_groups_and_stay_short() {
    let bench = bench();
    let agent = bench.agent();
    let instructions = agent.initialize()["instructions"].as_str().unwrap().to_owned();
    assert!(instructions.starts_with("Tool groups: context7, playwright."), "{instructions}");
    assert!(instructions.len() < 300);
    let modern = bench.agent().modern();
    let discovered = modern.request("server/discover", json!({})).ok();
    assert_eq!(discovered["instructions"], instructions);
}

#[test]
fn arguments_can_be_an_object_a_string_or_missing() {
    let agent = greeted(&bench());
    let x = json!({"x": 1});
    for (args, expected) in [
        (x.clone(), x.clone()),
        (x.to_string().into(), x.clone()),
        (json!(null), json!({})),
        (json!(""), json!({})),
    ] {
        let result = call(&agent, "context7", "get-library-docs", args.clone());
        let echoed = &result["structuredContent"];
        assert_eq!(if echoed.is_null() { json!({}) } else { echoed.clone() }, expected, "{args}");
    }
    let tool = json!({"group": "context7", "name": "get-library-docs"});
    assert!(!agent.call("call-modular-tool", tool).is_tool_error());
}

#[test]
fn tools_are_callable_with_or_without_server_prefix() {
    let agent = greeted(&bench());
    for name in
        ["browser_close", "mcp__playwright__browser_close", "playwright__playwright__browser_close"]
    {
        let result = call(&agent, "playwright", name, json!({"x": 1}));
        assert_eq!(result["structuredContent"], json!({"x": 1}), "{name}");
    }
    // Names of other modes also work.
    let used = agent.use_tool(["playwright", "playwright", "browser_close"], json!({"x": 1}));
    assert_eq!(used.structured(), json!({"x": 1}));
    let registered = agent.call("playwright__playwright__browser_close", json!({"x": 1}));
    assert_eq!(registered.structured(), json!({"x": 1}));
    assert!(agent.open("playwright").text().contains("browser_close"));
}

#[test]
fn duplicate_tools_of_a_group_are_disambiguated() {
    let bench = TestEnvironment::new()
        .set("toolMode", json!("modular"))
        .server("web", "one", fake(json!({"tools": ["search", "fetch"]})))
        .server("web", "two", fake(json!({"tools": ["search", "pid"]})));
    let agent = greeted(&bench);
    let tools = get(&agent, "web");
    let names: Vec<_> = tools.as_array().unwrap().iter().map(|tool| tool["name"].clone()).collect();
    assert_eq!(names, ["one__search", "fetch", "two__search", "pid"]);
    let result = call(&agent, "web", "two__search", json!({"x": 1}));
    assert_eq!(result["structuredContent"], json!({"x": 1}));
    let arguments = json!({"group": "web", "name": "search"});
    insta::assert_snapshot!(error(&agent, "call-modular-tool", arguments));
}

#[test]
fn invalid_calls_are_explained() {
    let agent = greeted(&bench());
    let explained = |tool: &str, arguments: Value| error(&agent, tool, arguments);
    insta::assert_snapshot!(explained(TOOLS[0], json!({})));
    insta::assert_snapshot!(explained(TOOLS[0], json!({"group": "plawright"})));
    insta::assert_snapshot!(explained(TOOLS[0], json!({"group": "context7", "names": ["docs"]})));
    insta::assert_snapshot!(explained(TOOLS[1], json!({"group": "playwright"})));
    insta::assert_snapshot!(explained(TOOLS[1], json!({"group": "zzz", "name": "x"})));
    let tool = |name: &str| json!({"group": "playwright", "name": name});
    insta::assert_snapshot!(explained(TOOLS[1], tool("browser_navigat")));
}

#[test]
fn server_error_is_followed_by_schema_mismatches() {
    let schema = json!({"type": "object", "properties": {"text": {}}, "required": ["text"]});
    let script = json!({
        "tools": [{"name": "type", "inputSchema": schema}],
        "behavior": {"type": {"tool_error": {"text": "nothing to type"}}},
    });
    let web = described(fake(script), "Types");
    let agent = greeted(&with_servers(json!({"web": web})));
    let failed = agent.call(TOOLS[1], json!({"group": "web", "name": "type"})).ok();
    assert_eq!(
        failed["content"],
        json!([
            {"type": "text", "text": "nothing to type"},
            {"type": "text", "text": "possible cause: the arguments violate the schema of \
                                      `web/web/type`:\n- `text` is required but missing; schema: {}"},
        ])
    );
}

#[test]
fn failed_server_is_an_unavailable_group_and_is_retried() {
    let bench = TestEnvironment::new();
    let counter = bench.path_text("count");
    let failing = json!({"tools": ["late"], "failTimes": {"n": 2, "counterFile": counter}});
    let bench = bench.config(json!({"toolMode": "modular", "mcpServers": {
        "good": described(fake(json!({"tools": ["echo"]})), "Works"),
        "db": described(fake(failing), "Asks the database"),
        "none": described(json!({"command": "/does/not/exist"}), "Is not there"),
    }}));
    let agent = greeted(&bench);
    let tools = agent.tools();
    let text = tools[0]["description"].as_str().unwrap();
    let (_, groups) = text.split_once("Available groups:\n").unwrap();
    bench.settings().bind(|| insta::assert_snapshot!(groups));
    assert_eq!(
        tools[1]["inputSchema"]["properties"]["group"]["enum"],
        json!(["good", "db", "none"])
    );
    assert_eq!(get(&agent, "good")[0]["name"], "echo");

    let group = |group: &str| json!({"group": group});
    let refused = error(&agent, TOOLS[0], group("none"));
    assert!(
        refused.starts_with("the group `none` is not available.\nserver `none`: "),
        "{refused}"
    );
    assert!(refused.contains("What to do: "), "{refused}");
    let call = json!({"group": "none", "name": "x"});
    assert!(error(&agent, TOOLS[1], call).starts_with("the group `none` is not available."));

    assert!(error(&agent, TOOLS[0], group("db")).contains("exited during startup"));
    assert!(agent.notifications().is_empty(), "notified without a change");
    assert_eq!(get(&agent, "db")[0]["name"], "late");
    agent.next_notification("notifications/tools/list_changed");
    assert!(description(&agent).contains("- db: Asks the database\n"), "{}", description(&agent));
}

#[test]
fn modern_subscriber_is_notified_of_a_recovered_group() {
    let bench = TestEnvironment::new();
    let counter = bench.path_text("count");
    let failing = json!({"tools": ["late"], "failTimes": {"n": 1, "counterFile": counter}});
    let bench = bench.config(json!({"toolMode": "modular", "mcpServers": {"db": fake(failing)}}));
    let agent = bench.agent().modern();
    assert!(description(&agent).contains("Unavailable groups (connection failed):\n- db: "));
    agent
        .send_request("subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
    agent.next_notification("notifications/subscriptions/acknowledged");
    assert_eq!(get(&agent, "db")[0]["name"], "late");
    agent.next_notification("notifications/tools/list_changed");
    assert!(!description(&agent).contains("Unavailable"));
}

#[test]
fn cached_listing_is_shown_without_a_start() {
    let bench = TestEnvironment::new();
    let pids = bench.path_text("pids");
    let starts = || std::fs::read_to_string(&pids).unwrap().lines().count();
    let server = fake(json!({"tools": ["echo"], "pidFile": pids}));
    let bench = bench.config(json!({"toolMode": "modular", "mcpServers": {"s": server}}));
    {
        let first = greeted(&bench);
        assert_eq!(get(&first, "s")[0]["name"], "echo");
        first.close_stdin();
        first.wait_exit(std::time::Duration::from_secs(3));
    }
    let agent = greeted(&bench);
    assert!(description(&agent).contains("- s: "));
    assert_eq!(get(&agent, "s")[0]["name"], "echo");
    assert_eq!(starts(), 1, "the server was restarted");
    assert_eq!(call(&agent, "s", "echo", json!({"x": 1}))["structuredContent"], json!({"x": 1}));
    assert_eq!(starts(), 2);
}

#[test]
fn slow_server_does_not_delay_the_list() {
    let bench = TestEnvironment::new().config(json!({"toolMode": "modular", "mcpServers": {
        "good": fake(json!({"tools": ["echo"]})),
        "slow": fake(json!({"initializeDelayMs": 3000, "dieOnList": true})),
    }}));
    let agent = greeted(&bench);
    let listing = agent.request("tools/list", json!({"_meta": {"progressToken": "p"}}));
    let text = listing.ok()["tools"][0]["description"].as_str().unwrap().to_owned();
    assert!(text.ends_with("Available groups:\n- good: Tools of the server `good`\n- slow: Tools of the server `slow`"), "{text}");
    let progress = agent.next_notification("notifications/progress");
    assert_eq!(progress["message"], "starting servers: waiting for `slow`");
    assert_eq!(progress["progressToken"], "p");
    agent.next_notification("notifications/tools/list_changed");
    assert!(description(&agent).contains("Unavailable groups (connection failed):\n- slow: "));
}

#[test]
fn long_answers_fall_back_to_signatures() {
    let tools: Vec<_> = (0..40)
        .map(|n| {
            json!({
                "name": format!("tool_{n}"),
                "description": format!("Does thing {n}. {}", "More about it. ".repeat(20)),
                "inputSchema": {"type": "object", "properties": {"path": {"type": "string"}}},
            })
        })
        .collect();
    let instructions = "Use it well.";
    let server = fake(json!({"tools": tools, "instructions": instructions}));
    let bench =
        with_servers(json!({"big": server})).set("limits", json!({"maxListingBytes": 8000}));
    let agent = greeted(&bench);
    let answer = agent.call(TOOLS[0], json!({"group": "big"})).ok();
    let text = |index: usize| answer["content"][index]["text"].as_str().unwrap();
    assert!(text(0).len() + text(1).len() < 8000);
    let listed: Value = serde_json::from_str(text(0)).unwrap();
    assert_eq!(listed.as_array().map(Vec::len), Some(40));
    assert_eq!(
        listed[3],
        json!({"name": "tool_3", "signature": "tool_3(path?: string)", "description": "Does thing 3."})
    );
    insta::assert_snapshot!(text(1));
    let some = agent.call(TOOLS[0], json!({"group": "big", "names": ["tool_3"]})).ok();
    let some: Value = serde_json::from_str(some["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(some.as_array().map(Vec::len), Some(1));
    assert_eq!(some[0]["inputSchema"]["type"], "object");
}

// Gemini CLI parses a JSON text as `structuredContent` if an answer has none, and rejects the
// answer if that isn't an object, as revisions up to 2025-11-25 require.
#[test]
fn legacy_agents_get_all_texts_as_structured_content() {
    let server = fake(json!({"tools": ["echo", "get"], "instructions": "Use it well."}));
    let bench = with_servers(json!({"s": server, "mute": fake(json!({"tools": ["get"]}))}));
    let arguments = json!({"group": "s"});
    let answer = greeted(&bench).call(TOOLS[0], arguments.clone()).ok();
    let text = |index: usize| answer["content"][index]["text"].as_str().unwrap();
    let tools: Value = serde_json::from_str(text(0)).unwrap();
    assert_eq!(tools.as_array().map(Vec::len), Some(2));
    assert!(text(1).contains("Use it well."), "{answer}");
    assert_eq!(answer["structuredContent"], json!({"tools": tools, "remarks": text(1)}));
    let answer = greeted(&bench).call(TOOLS[0], json!({"group": "mute"}));
    let tools: Value = serde_json::from_str(&answer.text()).unwrap();
    assert_eq!(answer.structured(), json!({"tools": tools}));
    let answer = bench.agent().modern().call(TOOLS[0], arguments).ok();
    assert_eq!(answer.get("structuredContent"), None, "{answer}");
}

#[test]
fn resources_and_prompts_come_with_loaded_groups() {
    let server = json!({ "command": env!("CARGO_BIN_EXE_conformance-server"), "args": ["both"] });
    let bench = with_servers(json!({"box": server}));
    let agent = greeted(&bench);
    agent.tools();
    assert_eq!(agent.request("resources/list", json!({})).ok()["resources"], json!([]));
    get(&agent, "box");
    agent.next_notification("notifications/resources/list_changed");
    agent.next_notification("notifications/prompts/list_changed");
    let resources = agent.request("resources/list", json!({})).ok();
    assert_eq!(resources["resources"][0]["uri"], "test://static-text");
}

/// The example of the documentation, with a fake server instead of Serena.
fn categories() -> TestEnvironment {
    let mut serena = fake(json!({"tools": [
        "read_file", "create_text_file", "list_dir", "get_symbols_overview", "find_symbol",
        "replace_symbol_body", "delete_everything",
    ]}));
    serena["description"] = "社内コードベース操作に最適化された MCP。".into();
    TestEnvironment::new().config(json!({
        "toolMode": "modular",
        "mcpServers": {"serena": serena, "notes": fake(json!({"tools": ["note"]}))},
        "categories": {
            "fs": {
                "description": "ファイル/ディレクトリの読み書きと検索。",
                "server": "serena",
                "tools": {
                    "includeNames": [
                        "mcp__serena__read_file",
                        "mcp__serena__create_text_file",
                        "mcp__serena__list_dir",
                        "mcp__serena__find_file",
                    ],
                    "overrides": {
                        "mcp__serena__read_file": {
                            "enabled": true,
                            "description": "大きなファイルは範囲指定を推奨（O(n) 回避）。",
                        },
                    },
                },
            },
            "code": {
                "description": "シンボル探索とコード編集。",
                "server": "serena",
                "tools": {
                    "includeNames": [
                        "mcp__serena__get_symbols_overview",
                        "mcp__serena__find_symbol",
                        "mcp__serena__replace_symbol_body",
                    ],
                    "overrides": {"mcp__serena__replace_symbol_body": {"enabled": false}},
                },
            },
        },
    }))
}

fn category_tools(agent: &Agent, category: &str) -> Vec<String> {
    let tools = get(agent, category)["tools"].clone();
    tools.as_object().expect("tools by name").keys().cloned().collect()
}

// "You can use both approaches simultaneously - organize multiple servers as groups, and subdivide
// large servers using categories."
#[test]
fn categories_replace_their_server_among_the_groups() {
    let agent = greeted(&categories());
    let text = description(&agent);
    let (_, groups) = text.split_once("Available groups:\n").unwrap();
    assert_eq!(
        groups,
        "- notes: Tools of the server `notes`\n- fs: ファイル/ディレクトリの読み書きと検索。\n- code: \
         シンボル探索とコード編集。"
    );
}

// "**Loading**: Use `get-modular-tools` with `group="category-name"` to load tools for that
// category" - "Returns file system tools from Serena"
// "**`server`**: Which MCP server (from `mcpServers`) these tools come from"
#[test]
fn category_returns_tools_under_configured_names() {
    let agent = greeted(&categories());
    let fs = get(&agent, "fs");
    assert_eq!(
        fs["meta"],
        json!({
            "category": "fs",
            "sourceServer": "serena",
            "unavailableTools": ["mcp__serena__find_file"],
        })
    );
    assert_eq!(
        category_tools(&agent, "fs"),
        ["mcp__serena__read_file", "mcp__serena__create_text_file", "mcp__serena__list_dir"]
    );
    assert_eq!(
        fs["tools"]["mcp__serena__list_dir"],
        json!({
            "name": "mcp__serena__list_dir",
            "description": "The fake tool list_dir",
            "inputSchema": {"type": "object"},
        })
    );
    // The tool names of the program that introduced categories also work.
    let same = agent.call("get-category-tools", json!({"category": "fs"})).text();
    assert_eq!(serde_json::from_str::<Value>(&same).unwrap(), fs);
}

// "**Execution**: Use `call-modular-tool` with the category name and tool name" - "Executes the
// file read through Serena MCP server"
#[test]
fn category_tools_are_callable_by_either_name() {
    let agent = greeted(&categories());
    let args = json!({"path": "src/index.ts"});
    for name in ["mcp__serena__read_file", "read_file", "serena__read_file"] {
        let result = call(&agent, "fs", name, args.clone());
        assert_eq!(result["structuredContent"], args, "{name}");
    }
    let asked = json!({"category": "fs", "name": "read_file", "args": args});
    assert_eq!(agent.call("call-category-tool", asked).structured(), args);
}

// "**Selective exposure**: When you want to enable/disable specific tools or customize their
// descriptions"
#[test]
fn tools_outside_a_category_are_not_callable_through_it() {
    let agent = greeted(&categories());
    let asked = json!({"group": "fs", "name": "delete_everything"});
    insta::assert_snapshot!(error(&agent, TOOLS[1], asked));
    let asked = json!({"group": "fs", "name": "mcp__serena__list_dirs"});
    insta::assert_snapshot!(error(&agent, TOOLS[1], asked));
    let asked = json!({"group": "fs", "name": "find_file"});
    assert!(error(&agent, TOOLS[1], asked).starts_with("the group `fs` has no tool `find_file`."));
}

// "**`enabled`**: Whether to expose this tool (default: true)"
// "**`description`**: Custom description to override the original"
#[test]
fn overrides_disable_or_redescribe_tools() {
    let agent = greeted(&categories());
    let fs = get(&agent, "fs");
    let described = &fs["tools"]["mcp__serena__read_file"]["description"];
    assert_eq!(*described, "大きなファイルは範囲指定を推奨（O(n) 回避）。");
    assert_eq!(
        category_tools(&agent, "code"),
        ["mcp__serena__get_symbols_overview", "mcp__serena__find_symbol"]
    );
    let code = get(&agent, "code");
    assert_eq!(code["meta"], json!({"category": "code", "sourceServer": "serena"}));
    assert!(!code.to_string().contains("replace_symbol_body"), "names a disabled tool");
    let asked = json!({"group": "code", "name": "mcp__serena__replace_symbol_body"});
    let refused = error(&agent, TOOLS[1], asked);
    assert!(refused.starts_with("the group `code` has no tool "), "{refused}");
}

// "Subset of tools from one server"
#[test]
fn categories_share_the_process_of_their_server() {
    let bench = categories();
    let pids = bench.path_text("pids");
    let server = fake(json!({"tools": ["a", "b"], "pidFile": pids}));
    let category =
        |tool: &str| json!({"description": "d", "server": "s", "tools": {"includeNames": [tool]}});
    let bench = bench.config(json!({
        "toolMode": "modular",
        "mcpServers": {"s": server},
        "categories": {"one": category("a"), "two": category("b")},
    }));
    let agent = greeted(&bench);
    assert_eq!(category_tools(&agent, "one"), ["a"]);
    assert_eq!(category_tools(&agent, "two"), ["b"]);
    call(&agent, "two", "b", json!({}));
    assert_eq!(std::fs::read_to_string(pids).unwrap().lines().count(), 1);
}

#[test]
fn unknown_tool_hint_names_get_modular_tools() {
    let agent = greeted(&bench());
    let unknown = agent.call("browser_navigat", json!({}));
    assert!(unknown.is_tool_error());
    let text = unknown.text();
    assert!(text.ends_with("get-modular-tools shows all tools of a group."), "{text}");
}

#[test]
fn unknown_long_names_are_truncated_in_errors() {
    let agent = greeted(&bench());
    let long = "x".repeat(100_000);
    let group = error(&agent, TOOLS[0], json!({"group": long}));
    let tool = error(&agent, TOOLS[1], json!({"group": "playwright", "name": long}));
    assert!(group.len() < 500 && tool.len() < 500, "{group}\n{tool}");
}
