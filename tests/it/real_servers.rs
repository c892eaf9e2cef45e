//! Real servers through the real executable: an agent gets their messages byte for byte.

use std::fs;
use std::path::Path;

use pretty_assertions::assert_eq;
use regex::Regex;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::support::agent::Response;
use crate::support::process::run_to_exit;
use crate::support::real::{entry, npm, pypi};
use crate::support::{Agent, TestEnvironment, command};

const TOOLBOX: &str = "box";

struct Real {
    name: &'static str,
    entry: Value,
    calls: Vec<(&'static str, Value)>,
    /// Patterns of text that differs in each call; the rest must be equal.
    unstable: &'static [&'static str],
}

fn everything(_: &TestEnvironment) -> Real {
    let reference = |kind: &str, id: i64| json!({ "resourceType": kind, "resourceId": id });
    let message = |kind: &str, image: bool| json!({ "messageType": kind, "includeImage": image });
    let gzip = |output: &str| json!({ "name": "a.gz", "data": "data:text/plain,hello", "outputType": output });
    Real {
        name: "everything",
        entry: json!({
            "command": npm("mcp-server-everything"),
            "args": ["stdio"],
            "env": { "OF_THE_ENTRY": "is passed on" },
        }),
        calls: vec![
            ("echo", json!({ "message": "größer 🧰 \u{2028}\u{0} \\ \"" })),
            ("echo", json!({ "message": "long ".repeat(100_000) })),
            ("get-annotated-message", message("error", true)),
            ("get-annotated-message", message("success", false)),
            ("get-annotated-message", message("debug", false)),
            ("get-env", json!({})),
            ("get-resource-links", json!({ "count": 10 })),
            ("get-resource-reference", reference("Text", 1)),
            ("get-resource-reference", reference("Blob", 2)),
            ("get-resource-reference", reference("Text", -1)),
            ("get-structured-content", json!({ "location": "Chicago" })),
            ("get-sum", json!({ "a": 1.5, "b": -2 })),
            ("get-tiny-image", json!({})),
            ("gzip-file-as-resource", gzip("resource")),
            ("gzip-file-as-resource", gzip("resourceLink")),
            ("gzip-file-as-resource", json!({ "data": "ftp://nowhere/file" })),
            ("toggle-simulated-logging", json!({})),
            ("toggle-simulated-logging", json!({})),
            ("toggle-subscriber-updates", json!({})),
            ("toggle-subscriber-updates", json!({})),
            ("trigger-long-running-operation", json!({ "duration": 0.2, "steps": 4 })),
            // It needs a task, which neither the workbench nor the direct client offers.
            ("simulate-research-query", json!({ "topic": "tools" })),
        ],
        // Its resources contain their creation time, as text and in Base64.
        unstable: &[
            r"\d+:\d\d:\d\d.[AP]M",
            r#""blob":"UmVzb3VyY2UgMjogVGhpcyBpcyBhIGJhc2U2NCBibG9i[^"]+""#,
        ],
    }
}

fn filesystem(bench: &TestEnvironment) -> Real {
    let dir = bench.path_text("state");
    let at = |file: &str| json!({ "path": format!("{dir}/{file}") });
    let write = |file: &str, text: &str| {
        let mut arguments = at(file);
        arguments["content"] = text.into();
        arguments
    };
    Real {
        name: "filesystem",
        entry: entry(&npm("mcp-server-filesystem"), &[&dir]),
        calls: vec![
            ("list_allowed_directories", json!({})),
            ("list_directory", at("")),
            ("directory_tree", at("")),
            ("read_text_file", at("hello.txt")),
            ("read_text_file", at("missing.txt")),
            ("read_text_file", json!({ "path": "/etc/hostname" })),
            ("read_media_file", at("dot.png")),
            ("read_text_file", at("large.txt")),
            ("get_file_info", at("hello.txt")),
            ("write_file", write("new.txt", "größer\r\n\t\"quoted\" \u{1F9F0}")),
            ("read_text_file", at("new.txt")),
            ("write_file", write("big.txt", &"0123456789".repeat(100_000))),
            ("read_text_file", at("big.txt")),
            (
                "edit_file",
                json!({
                    "path": format!("{dir}/hello.txt"),
                    "edits": [{ "oldText": "world", "newText": "toolbox" }],
                }),
            ),
            (
                "read_multiple_files",
                json!({ "paths": [format!("{dir}/hello.txt"), format!("{dir}/missing.txt")] }),
            ),
            ("list_directory", at("")),
        ],
        // Timestamps of the file.
        unstable: &[r"(created|modified|accessed): [^\\]+"],
    }
}

fn memory(bench: &TestEnvironment) -> Real {
    let entity = |name: &str| json!({ "name": name, "entityType": "thing", "observations": ["is named", name] });
    Real {
        name: "memory",
        entry: json!({
            "command": npm("mcp-server-memory"),
            "env": { "MEMORY_FILE_PATH": bench.path_text("state/memory.jsonl") },
        }),
        calls: vec![
            ("read_graph", json!({})),
            ("create_entities", json!({ "entities": [entity("a"), entity("ü")] })),
            (
                "create_relations",
                json!({ "relations": [{ "from": "a", "to": "ü", "relationType": "knows" }] }),
            ),
            ("search_nodes", json!({ "query": "ü" })),
            (
                "add_observations",
                json!({ "observations": [{ "entityName": "nobody", "contents": ["x"] }] }),
            ),
            ("delete_entities", json!({ "entityNames": ["a"] })),
            ("read_graph", json!({})),
        ],
        unstable: &[],
    }
}

fn time(_: &TestEnvironment) -> Real {
    let convert = |time: &str| json!({ "source_timezone": "UTC", "time": time, "target_timezone": "Asia/Tokyo" });
    Real {
        name: "time",
        entry: entry(&pypi("mcp-server-time"), &["--local-timezone", "UTC"]),
        calls: vec![
            ("get_current_time", json!({ "timezone": "UTC" })),
            ("convert_time", convert("12:30")),
            ("convert_time", convert("25:30")),
            ("get_current_time", json!({ "timezone": "Nowhere/Town" })),
        ],
        // The time, and the weekday in case the test runs across midnight.
        unstable: &[r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", r"(Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day"],
    }
}

fn git(bench: &TestEnvironment) -> Real {
    let repository = bench.path_text("state/repository");
    let with = |members: Value| {
        let mut arguments = json!({ "repo_path": repository });
        for (key, value) in members.as_object().into_iter().flatten() {
            arguments[key] = value.clone();
        }
        arguments
    };
    Real {
        name: "git",
        entry: json!({
            "command": pypi("mcp-server-git"),
            "args": ["--repository", repository],
            "env": author(),
        }),
        calls: vec![
            ("git_status", with(json!({}))),
            ("git_log", with(json!({ "max_count": 5 }))),
            ("git_diff_unstaged", with(json!({}))),
            ("git_add", with(json!({ "files": ["file.txt"] }))),
            ("git_diff_staged", with(json!({ "context_lines": 1 }))),
            ("git_commit", with(json!({ "message": "second" }))),
            ("git_show", with(json!({ "revision": "HEAD" }))),
            ("git_show", with(json!({ "revision": "nowhere" }))),
            ("git_branch", with(json!({ "branch_type": "local" }))),
            ("git_status", json!({ "repo_path": "/" })),
        ],
        unstable: &[],
    }
}

/// Fixed identities and dates, so that a commit always has the same hash.
fn author() -> Value {
    let date = "2026-01-02T03:04:05+00:00";
    json!({
        "GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@example.com", "GIT_AUTHOR_DATE": date,
        "GIT_COMMITTER_NAME": "A", "GIT_COMMITTER_EMAIL": "a@example.com", "GIT_COMMITTER_DATE": date,
    })
}

fn reset(bench: &TestEnvironment) {
    let state = bench.path("state");
    let repository = state.join("repository");
    if state.exists() {
        fs::remove_dir_all(&state).unwrap();
    }
    fs::create_dir_all(&repository).unwrap();
    fs::write(state.join("hello.txt"), "hello, world\n").unwrap();
    fs::write(state.join("large.txt"), "0123456789abcde\n".repeat(200_000)).unwrap();
    fs::write(state.join("dot.png"), b"\x89PNG\r\n\x1a\n").unwrap();
    fs::write(repository.join("file.txt"), "one\n").unwrap();
    run_git(&repository, &["init", "--quiet", "--initial-branch=main"]);
    run_git(&repository, &["add", "file.txt"]);
    run_git(&repository, &["commit", "--quiet", "--message=first"]);
    fs::write(repository.join("file.txt"), "one\ntwo\n").unwrap();
}

fn run_git(repository: &Path, args: &[&str]) {
    let mut git = command("git");
    let author = author();
    let author = author.as_object().unwrap().iter();
    git.args(args)
        .current_dir(repository)
        .envs(author.map(|(name, value)| (name, value.as_str().unwrap())));
    let output = run_to_exit(git, "");
    assert_eq!(output.code, Some(0), "{output:#?}");
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Direct,
    Dynamic,
    Proxy,
}

impl Way {
    const THROUGH: [Self; 2] = [Self::Dynamic, Self::Proxy];

    fn open(self, bench: &TestEnvironment, servers: &[&Real]) -> (Agent, String) {
        let mode = if self == Self::Dynamic { "dynamic" } else { "proxy" };
        let bench = servers.iter().fold(bench.clone(), |bench, server| {
            bench.server(TOOLBOX, server.name, server.entry.clone())
        });
        let agent = bench.set("toolMode", mode.into()).agent().relisting_on_change();
        agent.initialize();
        let opened = agent.open(TOOLBOX);
        assert!(!opened.is_tool_error(), "{}", opened.text());
        (agent, opened.text())
    }

    fn call(self, agent: &Agent, server: &str, tool: &str, arguments: Value) -> Answer {
        let id = match self {
            Self::Direct => agent.send_call(tool, arguments),
            Self::Dynamic => agent.send_call(&format!("{TOOLBOX}__{server}__{tool}"), arguments),
            Self::Proxy => agent.send_call(
                "use_tool",
                json!({
                    "tool": { "toolbox": TOOLBOX, "server": server, "tool": tool },
                    "arguments": arguments,
                }),
            ),
        };
        let response = agent.wait(&id);
        // Progress that the gateway itself reports during a slow start doesn't count.
        let is_its_own = |params: &Value| {
            let message = params["message"].as_str();
            !message.is_some_and(|message| message.starts_with("waiting for server"))
        };
        let progress = agent.progress(&id).into_iter().filter(is_its_own).map(|mut params| {
            params["progressToken"] = "of the call".into();
            params
        });
        Answer { progress: progress.collect(), response }
    }
}

struct Answer {
    response: Response,
    progress: Vec<Value>,
}

impl Answer {
    /// The exact result text with unstable parts replaced.
    fn steady(&self, server: &Real) -> String {
        // Each launch gets a unique mark in its environment, as the last variable.
        let mark = Regex::new(r#",\\n *\\"WORKBENCH_LAUNCH\\": \\"[^"\\]*\\""#).unwrap();
        let mut text = mark.replace_all(&self.response.raw_result(), "").into_owned();
        for pattern in server.unstable {
            let pattern = Regex::new(pattern).unwrap();
            text = pattern.replace_all(&text, "[UNSTABLE]").into_owned();
        }
        text
    }
}

fn answers(way: Way, agent: &Agent, server: &Real) -> Vec<Answer> {
    let calls = server.calls.iter();
    calls.map(|(tool, arguments)| way.call(agent, server.name, tool, arguments.clone())).collect()
}

#[track_caller]
fn assert_same(way: Way, server: &Real, direct: &[Answer], through: &[Answer]) {
    assert_eq!(direct.len(), through.len());
    for (((tool, arguments), direct), through) in server.calls.iter().zip(direct).zip(through) {
        let arguments: String = arguments.to_string().chars().take(200).collect();
        let call = format!("{way:?}: {tool} {arguments}");
        let (steady, expected) = (through.steady(server), direct.steady(server));
        if expected.len() < 10_000 {
            assert_eq!(steady, expected, "{call}");
        } else {
            assert!(steady == expected, "{call}: long results differ");
        }
        assert_eq!(through.progress, direct.progress, "{call}");
    }
}

fn definitions(list: &Response) -> Vec<String> {
    #[derive(Deserialize)]
    struct List {
        tools: Vec<Box<RawValue>>,
    }
    let list: List = serde_json::from_str(&list.raw_result()).unwrap();
    let tools = list.tools.iter();
    tools.map(|tool| tool.get().to_owned()).collect()
}

fn registered(server: &str, definition: &str) -> String {
    let head: Value = serde_json::from_str(definition).unwrap();
    let name = head["name"].as_str().unwrap();
    let own = format!(r#""name":"{name}""#);
    assert!(definition.contains(&own), "{definition}");
    let ours = format!(r#""name":"{TOOLBOX}__{server}__{name}""#);
    definition.replacen(&own, &ours, 1)
}

/// The definition as `open_toolbox` returns it in proxy mode.
fn located(server: &str, definition: &str) -> String {
    let members = definition.strip_prefix('{').unwrap();
    format!(r#"{{"toolbox":"{TOOLBOX}","server":"{server}",{members}"#)
}

fn tool_lines(text: &str) -> Vec<&str> {
    let lines = text.lines().map(|line| line.trim_end_matches(','));
    lines
        .filter(|line| line.starts_with(r#"{"toolbox":"#) && line.contains(r#""inputSchema":"#))
        .collect()
}

/// Compares a server with itself behind the gateway, each time from the initial state.
fn compare(server: impl Fn(&TestEnvironment) -> Real) {
    let bench = TestEnvironment::new();
    let server = server(&bench);
    reset(&bench);
    let agent = bench.direct(&server.entry);
    agent.initialize();
    let definitions = definitions(&agent.request("tools/list", json!({})));
    let direct = answers(Way::Direct, &agent, &server);
    drop(agent);
    for way in Way::THROUGH {
        reset(&bench);
        let (agent, opened) = way.open(&bench, &[&server]);
        assert_tools(way, &agent, &opened, &[(&server, definitions.as_slice())]);
        let through = answers(way, &agent, &server);
        assert_same(way, &server, &direct, &through);
        assert_changes_told(way, &agent);
    }
}

/// Checks that the agent gets all tools of `servers`, in order and verbatim.
#[track_caller]
fn assert_tools(way: Way, agent: &Agent, opened: &str, servers: &[(&Real, &[String])]) {
    let all = |wanted: fn(&str, &str) -> String| -> Vec<String> {
        let of_server = |(server, definitions): &(&Real, &[String])| {
            let definitions = definitions.iter();
            definitions.map(|definition| wanted(server.name, definition)).collect::<Vec<_>>()
        };
        servers.iter().flat_map(of_server).collect()
    };
    let listed = definitions(&agent.request("tools/list", json!({})));
    if way == Way::Dynamic {
        assert_eq!(listed[1..], all(registered));
    } else {
        assert_eq!(agent.tool_names(), ["open_toolbox", "use_tool"]);
        assert_eq!(tool_lines(opened), all(located));
    }
}

/// Checks that the agent was notified only of changes that it can see.
#[track_caller]
fn assert_changes_told(way: Way, agent: &Agent) {
    let told = agent.notifications().into_iter();
    let told = told.filter(|message| message["method"] == "notifications/tools/list_changed");
    assert_eq!(told.count(), usize::from(way == Way::Dynamic), "{way:?}");
}

#[test]
fn everything_is_equivalent() {
    compare(everything);
}

#[test]
fn filesystem_is_equivalent() {
    compare(filesystem);
}

#[test]
fn memory_is_equivalent() {
    compare(memory);
}

#[test]
fn time_is_equivalent() {
    compare(time);
}

#[test]
fn git_is_equivalent() {
    compare(git);
}

#[test]
fn one_toolbox_holds_all_servers() {
    let bench = TestEnvironment::new().set("limits", json!({ "maxListingBytes": 1_000_000 }));
    let servers = [everything, filesystem, memory, time, git].map(|server| server(&bench));
    reset(&bench);
    let direct = servers.each_ref().map(|server| {
        let agent = bench.direct(&server.entry);
        agent.initialize();
        let definitions = definitions(&agent.request("tools/list", json!({})));
        let (tool, arguments) = server.calls[0].clone();
        let answer = Way::Direct.call(&agent, server.name, tool, arguments);
        (definitions, answer)
    });
    let pairs = servers.iter().zip(&direct);
    let listed: Vec<_> =
        pairs.map(|(server, (definitions, _))| (server, definitions.as_slice())).collect();
    let counts = listed.iter().map(|(_, definitions)| definitions.len());
    assert_eq!(counts.collect::<Vec<_>>(), [13, 14, 9, 2, 12]);
    for way in Way::THROUGH {
        let (agent, opened) = way.open(&bench, &servers.each_ref());
        let header: Value = serde_json::from_str(&opened).unwrap();
        // A cached server may still be starting on a busy machine.
        let starting = header["still_starting"].as_str().map_or(0, |text| {
            let (names, _) = text.split_once(':').unwrap();
            names.split(", ").count() as u64
        });
        assert_eq!(header["servers_connected"].as_u64().unwrap() + starting, 5, "{opened}");
        assert_eq!(header["failed_servers"], json!([]));
        assert_tools(way, &agent, &opened, &listed);
        for (server, (_, direct)) in servers.iter().zip(&direct) {
            let (tool, arguments) = server.calls[0].clone();
            let through = way.call(&agent, server.name, tool, arguments);
            assert_eq!(through.steady(server), direct.steady(server), "{way:?}");
        }
    }
}

#[test]
fn tools_that_need_client_capabilities_are_absent() {
    let bench = TestEnvironment::new();
    let server = everything(&bench);
    let capable = bench.direct(&server.entry);
    let capabilities = json!({ "roots": {}, "sampling": {}, "elicitation": {} });
    capable.initialize_with(json!({ "capabilities": capabilities }));
    let more = capable.tool_names();
    for way in Way::THROUGH {
        // Sessions share servers, so the gateway doesn't declare one agent's capabilities.
        let (agent, _) = way.open(&bench, &[&server]);
        let name = "trigger-elicitation-request";
        assert!(more.iter().any(|tool| tool == name), "{more:?}");
        let refused = way.call(&agent, server.name, name, json!({})).response;
        assert!(refused.is_tool_error());
        assert!(refused.text().contains("there is no tool"), "{}", refused.text());
    }
}

#[test]
fn server_rejects_invalid_arguments_in_its_own_words() {
    let bench = TestEnvironment::new();
    let server = everything(&bench);
    for way in Way::THROUGH {
        let (agent, _) = way.open(&bench, &[&server]);
        let refused = way.call(&agent, server.name, "get-sum", json!({ "a": "one" }));
        let text = refused.response.text();
        assert!(refused.response.is_tool_error());
        assert!(text.starts_with("MCP error -32602: "), "{text}");
    }
}
