//! Example files of other programs, run unmodified with the servers that they start.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::real::{entry, npm};
use crate::support::{Agent, TestEnvironment, fake};

/// A folder with a copy of the example and with the packages installed that its `npx` commands
/// start.
fn folder(example: &str) -> TestEnvironment {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(repository.join("examples").join(example)).expect("an example");
    let (_, name) = example.split_once('/').expect("a folder of examples");
    let bench = TestEnvironment::new().file(name, &text);
    npm("mcp-server-memory");
    symlink(repository.join(".test-env/node/node_modules"), bench.path("node_modules"))
        .expect("a link to the installed servers");
    bench.env("npm_config_offline", "true")
}

fn agent(bench: &TestEnvironment, file: &str) -> Agent {
    let workbench = entry(env!("CARGO_BIN_EXE_mcp-workbench"), &["--config", file]);
    let agent = bench.direct(&workbench).relisting_on_change();
    agent.initialize();
    agent
}

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
fn toolman_file_runs_unmodified() {
    let agent = agent(&folder("toolman/tools.toml"), "tools.toml");
    let catalog = catalog(&agent, "TOOLS:");
    let lines: Vec<_> = catalog.lines().collect();
    assert_eq!(lines[1], "* notes_add_note: Keeps a new note; fails if the title exists");
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
fn modular_mcp_file_runs_unmodified() {
    let agent = agent(&folder("modular/modular-mcp.json"), "modular-mcp.json");
    assert_eq!(agent.tool_names(), ["get-modular-tools", "call-modular-tool"]);
    assert_eq!(
        catalog(&agent, "Available groups:"),
        "Available groups:\n\
         - notes: Use when you need to remember something for later.\n\
         - everything: Use when you need to test MCP features."
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
fn file_with_categories_runs_unmodified() {
    let bench = folder("modular/categories.json");
    fs::create_dir(bench.path("files")).expect("a folder");
    bench.write("files/notes.txt", "Guten Tag\n");
    let agent = agent(&bench, "categories.json");
    assert_eq!(agent.tool_names(), ["get-modular-tools", "call-modular-tool"]);
    assert_eq!(
        catalog(&agent, "Available groups:"),
        "Available groups:\n\
         - clock: Use when you need to know the time.\n\
         - fs: ファイル/ディレクトリの読み書きと検索。\n\
         - edit: Edit and move existing files."
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
    assert!(bench.path("files/notes.txt").exists(), "a disabled tool was called");
    assert!(call("clock", "now", json!({})).structured()["time"].is_string());
}

/// The tools that the servers in the selective example really have.
const REAL: [(&str, &[&str]); 8] = [
    (
        "server-filesystem",
        &[
            "read_file",
            "read_text_file",
            "read_media_file",
            "read_multiple_files",
            "write_file",
            "edit_file",
            "create_directory",
            "list_directory",
            "list_directory_with_sizes",
            "directory_tree",
            "move_file",
            "search_files",
            "get_file_info",
            "list_allowed_directories",
        ],
    ),
    (
        "server-github",
        &[
            "create_or_update_file",
            "search_repositories",
            "create_repository",
            "get_file_contents",
            "push_files",
            "create_issue",
            "create_pull_request",
            "fork_repository",
            "create_branch",
            "list_commits",
            "list_issues",
            "update_issue",
            "add_issue_comment",
            "search_code",
            "search_issues",
            "search_users",
            "get_issue",
            "get_pull_request",
            "list_pull_requests",
            "create_pull_request_review",
            "merge_pull_request",
            "get_pull_request_files",
            "get_pull_request_status",
            "update_pull_request_branch",
            "get_pull_request_comments",
            "get_pull_request_reviews",
        ],
    ),
    (
        "mcp-server-git",
        &[
            "git_status",
            "git_diff_unstaged",
            "git_diff_staged",
            "git_diff",
            "git_commit",
            "git_add",
            "git_reset",
            "git_log",
            "git_create_branch",
            "git_checkout",
            "git_show",
            "git_branch",
        ],
    ),
    ("server-brave-search", &["brave_web_search", "brave_local_search"]),
    (
        "server-memory",
        &[
            "create_entities",
            "create_relations",
            "add_observations",
            "delete_entities",
            "delete_observations",
            "delete_relations",
            "read_graph",
            "search_nodes",
            "open_nodes",
        ],
    ),
    (
        "server-puppeteer",
        &[
            "puppeteer_navigate",
            "puppeteer_screenshot",
            "puppeteer_click",
            "puppeteer_fill",
            "puppeteer_select",
            "puppeteer_hover",
            "puppeteer_evaluate",
        ],
    ),
    ("server-postgres", &["query"]),
    (
        "mcp-server-sqlite",
        &[
            "read_query",
            "write_query",
            "create_table",
            "list_tables",
            "describe_table",
            "append_insight",
        ],
    ),
];

/// A folder with the selective example, where `npx` and `uvx` start fakes of its servers.
fn selective() -> TestEnvironment {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR"));
    let example = repository.join("examples/selective/toolman_example.json");
    let text = fs::read_to_string(example).expect("the example");
    let bench = TestEnvironment::new().file("toolman_example.json", &text);
    for (server, tools) in REAL {
        let tools: Vec<Value> = tools
            .iter()
            .map(|name| json!({"name": name, "inputSchema": {"type": "object"}}))
            .collect();
        let script = json!({ "tools": tools });
        bench.write(&format!("{server}.json"), &script.to_string());
    }
    let starter = format!(
        "#!/bin/sh\nfor word; do\n  script=\"{}/${{word##*/}}.json\"\n  \
         if [ -f \"$script\" ]; then exec {} \"@$script\"; fi\ndone\n",
        bench.dir().display(),
        fake(json!({}))["command"].as_str().expect("a path"),
    );
    fs::create_dir(bench.path("bin")).expect("a folder");
    for program in ["npx", "uvx"] {
        let path = format!("bin/{program}");
        bench.write(&path, &starter);
        fs::set_permissions(bench.path(&path), Permissions::from_mode(0o755)).expect("a program");
    }
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", bench.path_text("bin"));
    bench.env("PATH", &path)
}

fn seen_by(bench: &TestEnvironment, config: &str, agent: &[&str]) -> Vec<String> {
    let args = [&["--config", config], agent].concat();
    let agent = bench.direct(&entry(env!("CARGO_BIN_EXE_mcp-workbench"), &args));
    agent.initialize();
    agent.tool_names()
}

#[test]
fn selective_example_is_valid_unmodified() {
    let bench = selective();
    let output = bench.run_bare(["check", "--config", "toolman_example.json", "--json"]);
    let report: Value = serde_json::from_str(&output.stdout).expect("JSON");
    assert_eq!((&report["errors"], &report["warnings"]), (&json!([]), &json!([])), "{output}");
    assert_eq!(output.code, Some(0));
    assert_eq!(report["mode"], "direct");
    // The document promises **8 Real MCP Servers**, **50+ Actual Tools** and **5 Agent Personas**.
    assert_eq!(report["servers"].as_array().map(Vec::len), Some(8));
    let text = fs::read_to_string(bench.path("toolman_example.json")).expect("the example");
    let example: Value = serde_json::from_str(&text).expect("plain JSON");
    let exposed = example["exposed_tools"].as_object().expect("lists").values();
    assert!(exposed.map(|list| list.as_array().map_or(0, Vec::len)).sum::<usize>() >= 50);
    assert_eq!(example["agent_policies"].as_object().map(serde_json::Map::len), Some(5));
}

#[test]
fn each_persona_sees_the_tools_of_its_use_case() {
    let bench = selective();
    for (agent, expected) in [
        (
            "claude-developer",
            &[
                "read_file",
                "write_file",
                "create_directory",
                "list_directory",
                "get_file_contents",
                "create_issue",
                "create_pull_request",
                "git_diff",
                "git_log",
            ][..],
        ),
        (
            "claude-researcher",
            &["read_file", "search_files", "brave_web_search", "create_entities", "search_nodes"],
        ),
        (
            "claude-analyst",
            &[
                "read_file",
                "list_directory",
                "query",
                "read_query",
                "list_tables",
                "describe_table",
            ],
        ),
        (
            "claude-automation",
            &[
                "read_file",
                "write_file",
                "get_file_contents",
                "create_issue",
                "puppeteer_navigate",
                "puppeteer_screenshot",
            ],
        ),
        (
            "claude-readonly",
            &[
                "read_file",
                "list_directory",
                "search_files",
                "get_file_info",
                "search_repositories",
                "get_file_contents",
                "list_commits",
                "git_status",
                "git_diff",
                "git_log",
                "git_show",
            ],
        ),
    ] {
        let names = seen_by(&bench, "toolman_example.json", &["--agent", agent]);
        assert_eq!(names, expected, "{agent}");
    }
    let anybody = seen_by(&bench, "toolman_example.json", &[]);
    assert_eq!(anybody.len(), 60, "the tools exposed to all agents");
    for hidden in ["git_reset", "delete_entities", "puppeteer_evaluate", "fork_repository"] {
        assert!(!anybody.contains(&hidden.to_owned()), "{hidden}");
    }
}

#[test]
fn selective_example_is_tailored_to_a_task() {
    let bench = selective();
    let task = "Deploy the new endpoint";
    let args =
        ["tailor", "--config", "toolman_example.json", "--output", "task.json", "--task", task];
    let output = bench.run_bare(args);
    assert_eq!(output.code, Some(0), "{output}");
    let expected = [
        "read_file",
        "write_file",
        "edit_file",
        "search_files",
        "get_file_contents",
        "create_pull_request",
        "create_branch",
        "list_commits",
        "merge_pull_request",
        "get_pull_request_status",
        "git_status",
        "git_log",
        "query",
    ];
    assert_eq!(sorted(seen_by(&bench, "task.json", &[])), sorted(expected.map(str::to_owned)));
    let developer = seen_by(&bench, "task.json", &["--agent", "claude-developer"]);
    let expected =
        ["read_file", "write_file", "get_file_contents", "create_pull_request", "git_log"];
    assert_eq!(sorted(developer), sorted(expected.map(str::to_owned)));
}

fn sorted(names: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut names: Vec<String> = names.into_iter().collect();
    names.sort();
    names
}

/// Follows the sections "Architecture", "Global Tool Exposure" and "Agent-Specific Overrides" of
/// the document.
#[test]
fn exposure_and_overrides_match_the_document() {
    let many = |names: &[&str], count: usize| {
        let more = (names.len()..count).map(|number| format!("other_{number}"));
        let names = names.iter().map(|&name| name.to_owned()).chain(more);
        fake(json!({"tools": names.collect::<Vec<_>>()}))
    };
    let config = json!({
        "servers": {
            "github": many(&["create_pull_request", "get_file_contents"], 30),
            "taskmaster": many(&["get_tasks", "add_task", "update_task_status"], 20),
            "filesystem": many(&["read_file", "write_file"], 10),
        },
        "exposed_tools": {
            "github": ["create_pull_request", "get_file_contents"],
            "taskmaster": ["get_tasks", "add_task", "update_task_status"],
            "filesystem": ["read_file", "write_file"],
        },
        "agent_policies": {
            "claude-code": {
                "allowed_servers": ["github", "taskmaster", "filesystem"],
                "tool_overrides": {
                    "github": ["create_pull_request", "get_file_contents"],
                    "taskmaster": ["get_tasks", "add_task"],
                    "filesystem": ["read_file", "write_file"],
                },
            },
        },
    });
    let bench = TestEnvironment::new().file("config.json", &config.to_string());
    // The diagram says "Agent sees only: 2 GitHub tools, 3 Taskmaster tools, 2 Filesystem tools".
    assert_eq!(
        seen_by(&bench, "config.json", &[]),
        [
            "create_pull_request",
            "get_file_contents",
            "get_tasks",
            "add_task",
            "update_task_status",
            "read_file",
            "write_file",
        ]
    );
    assert_eq!(
        seen_by(&bench, "config.json", &["--agent", "claude-code"]),
        [
            "create_pull_request",
            "get_file_contents",
            "get_tasks",
            "add_task",
            "read_file",
            "write_file",
        ]
    );
}

#[test]
fn catalog_example_loads_cleanly_with_its_variables_set() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/catalog");
    let folder = folder.display().to_string();
    let bench = TestEnvironment::new()
        .env("SLACK_TOKEN", "x")
        .env("DATABASE_URL", "postgres://localhost/x");
    let checked = bench.run(["check", "--config", &folder]);
    assert_eq!((checked.code, checked.stderr.as_str()), (Some(0), ""), "{checked}");
    assert!(checked.stdout.contains("3 toolboxes, 4 servers, mode `navigate`"), "{checked}");
    let unset = TestEnvironment::new().run(["check", "--config", &folder]);
    assert_eq!(unset.code, Some(1), "{unset}");
    assert!(unset.stderr.contains("  _config.yaml:9:20: "), "{unset}");
    assert!(unset.stdout.contains("communication  email     python   not started"), "{unset}");
}
