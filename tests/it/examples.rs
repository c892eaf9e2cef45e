//! The files of other programs that are among the examples, run as they are, with the servers that
//! they start.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::real::{entry, npm};
use crate::support::{Agent, Bench};

/// A folder with a copy of an example, in which what `npx` starts is installed.
fn folder(example: &str) -> Bench {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(repository.join("examples").join(example)).expect("an example");
    let (_, name) = example.split_once('/').expect("a folder of examples");
    let bench = Bench::new().file(name, &text);
    npm("mcp-server-memory");
    symlink(repository.join(".test-env/node/node_modules"), bench.path("node_modules"))
        .expect("a link to the installed servers");
    bench.env("npm_config_offline", "true")
}

/// An agent on the workbench, which was told of the file alone.
fn agent(bench: &Bench, file: &str) -> Agent {
    let workbench = entry(env!("CARGO_BIN_EXE_mcp-workbench"), &["--config", file]);
    let agent = bench.direct(&workbench).relisting();
    agent.initialize();
    agent
}

/// What the first tool says of itself after its first sentences.
fn catalog(agent: &Agent, begins: &str) -> String {
    let tools = agent.tools();
    let text = tools[0]["description"].as_str().expect("a text");
    let start = text.find(begins).expect("a catalog");
    text[start..].to_owned()
}

fn parsed(agent: &Agent, tool: &str, arguments: Value) -> Value {
    let response = agent.call(tool, arguments);
    assert!(!response.is_tool_error(), "{}", response.text());
    serde_json::from_str(response.ok()["content"][0]["text"].as_str().expect("a text"))
        .expect("JSON")
}

#[test]
fn the_file_of_toolman_runs_as_it_is() {
    let agent = agent(&folder("toolman/tools.toml"), "tools.toml");
    let catalog = catalog(&agent, "TOOLS:");
    let lines: Vec<_> = catalog.lines().collect();
    assert_eq!(
        lines[1],
        "* notes_add_note: Keeps a new note; fails if there is one with this title"
    );
    let marked = |name: &str| lines.iter().any(|line| line.starts_with(&format!("* {name}: ")));
    let listed = |name: &str| lines.iter().any(|line| line.starts_with(&format!("  {name}: ")));
    assert!(marked("search_nodes") && listed("read_graph") && listed("clock_now"), "{catalog}");
    assert!(listed("memory://knowledge-graph"), "{catalog}");
    let names = agent.tool_names();
    assert_eq!(names[0], "toolman_activate");
    assert!(names[1..].iter().all(|n| n.starts_with("notes_") || n == "search_nodes"), "{names:?}");

    let inactive = agent.call("clock_now", json!({}));
    assert!(inactive.text().contains("tools_on=[\\\"clock_now\\\"]"), "{}", inactive.text());
    let on = json!({"tools_on": ["clock_now"], "resources_on": ["memory://knowledge-graph"]});
    let answer = parsed(&agent, "toolman_activate", on);
    assert_eq!(answer["result"]["activated"][0]["name"], "clock_now");
    assert!(agent.tool_names().contains(&"clock_now".to_owned()));
    assert!(agent.call("clock_now", json!({})).structured()["time"].is_string());
    agent.call("notes_add_note", json!({"title": "a", "text": "milk"})).ok();
    let found = agent.call("notes_search_notes", json!({"query": "MILK"})).text();
    assert!(found.contains("milk"), "{found}");
    let nodes = agent.call("search_nodes", json!({"query": "x"})).structured();
    assert!(nodes["entities"].is_array(), "{nodes}");
    let read = agent.request("resources/read", json!({"uri": "memory://knowledge-graph"})).ok();
    assert_eq!(read["contents"][0]["uri"], "memory://knowledge-graph");
}

#[test]
fn the_file_of_modular_mcp_runs_as_it_is() {
    let agent = agent(&folder("modular/modular-mcp.json"), "modular-mcp.json");
    assert_eq!(agent.tool_names(), ["get-modular-tools", "call-modular-tool"]);
    assert_eq!(
        catalog(&agent, "Available groups:"),
        "Available groups:\n\
         - notes: Use when something is to be remembered for later.\n\
         - everything: Use when you need to try out what MCP can do."
    );
    let tools = parsed(&agent, "get-modular-tools", json!({"group": "everything"}));
    let echo = tools.as_array().expect("a list").iter().find(|tool| tool["name"] == "echo");
    assert!(echo.expect("the tool")["inputSchema"]["properties"]["message"].is_object());
    let call = |group: &str, name: &str, args: Value| {
        agent.call("call-modular-tool", json!({"group": group, "name": name, "args": args}))
    };
    assert_eq!(call("everything", "echo", json!({"message": "hi"})).text(), "Echo: hi");
    call("notes", "add_note", json!({"title": "a", "text": "b"})).ok();
    let listed = call("notes", "list_notes", Value::Null).text();
    assert!(listed.contains('a'), "{listed}");
}

#[test]
fn the_file_with_categories_runs_as_it_is() {
    let bench = folder("modular/categories.json").file("notes.txt", "Guten Tag\n");
    let agent = agent(&bench, "categories.json");
    assert_eq!(agent.tool_names(), ["get-modular-tools", "call-modular-tool"]);
    assert_eq!(
        catalog(&agent, "Available groups:"),
        "Available groups:\n\
         - clock: Use when you need to know the time.\n\
         - fs: ファイル/ディレクトリの読み書きと検索。\n\
         - edit: Changing what is there."
    );
    let fs = parsed(&agent, "get-modular-tools", json!({"group": "fs"}));
    assert_eq!(fs["meta"], json!({"category": "fs", "sourceServer": "files"}));
    assert_eq!(fs["tools"].as_object().expect("tools").len(), 4);
    let read = "mcp__files__read_text_file";
    assert_eq!(fs["tools"][read]["description"], "大きなファイルは範囲指定を推奨（O(n) 回避）。");
    let edit = parsed(&agent, "get-modular-tools", json!({"group": "edit"}));
    let names: Vec<_> = edit["tools"].as_object().expect("tools").keys().collect();
    assert_eq!(names, ["mcp__files__edit_file"]);
    let call = |group: &str, name: &str, args: Value| {
        agent.call("call-modular-tool", json!({"group": group, "name": name, "args": args}))
    };
    assert_eq!(call("fs", read, json!({"path": "notes.txt"})).text(), "Guten Tag\n");
    let moved = json!({"source": "notes.txt", "destination": "b.txt"});
    assert!(call("edit", "mcp__files__move_file", moved).is_tool_error());
    assert!(bench.path("notes.txt").exists(), "what is disabled was not called");
    assert!(call("clock", "now", json!({})).structured()["time"].is_string());
}
