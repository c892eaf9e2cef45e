//! Real servers through the real executable: an agent gets what they said, byte for byte.

use std::fs;
use std::path::Path;

use pretty_assertions::assert_eq;
use regex::Regex;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::support::agent::Response;
use crate::support::process::finish;
use crate::support::real::{entry, npm, pypi};
use crate::support::{Agent, Bench, command};

/// The toolbox that all of them are in.
const TOOLBOX: &str = "box";

/// One server: how it is started, and calls that show what it does.
struct Real {
    name: &'static str,
    entry: Value,
    calls: Vec<(&'static str, Value)>,
    /// Patterns of what is another text at every call; all else must be the same.
    unstable: &'static [&'static str],
}

fn everything(_: &Bench) -> Real {
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
            // It asks for a task, which neither we nor the direct client offer.
            ("simulate-research-query", json!({ "topic": "tools" })),
        ],
        // Its resources say when they were made, as text and inside of Base64.
        unstable: &[
            r"\d+:\d\d:\d\d.[AP]M",
            r#""blob":"UmVzb3VyY2UgMjogVGhpcyBpcyBhIGJhc2U2NCBibG9i[^"]+""#,
        ],
    }
}

fn filesystem(bench: &Bench) -> Real {
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
        // When the file was made, changed and read.
        unstable: &[r"(created|modified|accessed): [^\\]+"],
    }
}

fn memory(bench: &Bench) -> Real {
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

fn time(_: &Bench) -> Real {
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
        // The time, and the day where a test runs into midnight.
        unstable: &[r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", r"(Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day"],
    }
}

fn git(bench: &Bench) -> Real {
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

/// Who commits when: with these in the environment a commit always has the same hash.
fn author() -> Value {
    let date = "2026-01-02T03:04:05+00:00";
    json!({
        "GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@example.com", "GIT_AUTHOR_DATE": date,
        "GIT_COMMITTER_NAME": "A", "GIT_COMMITTER_EMAIL": "a@example.com", "GIT_COMMITTER_DATE": date,
    })
}

/// Brings what the servers work on back to its beginning.
fn reset(bench: &Bench) {
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
    let output = finish(git, "");
    assert_eq!(output.code, Some(0), "{output:#?}");
}

/// How an agent gets at a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Direct,
    Dynamic,
    Proxy,
}

impl Way {
    /// The ways through the gateway.
    const THROUGH: [Self; 2] = [Self::Dynamic, Self::Proxy];

    /// Starts a gateway in this mode and opens the toolbox; the text of the answer comes along.
    fn open(self, bench: &Bench, servers: &[&Real]) -> (Agent, String) {
        let mode = if self == Self::Dynamic { "dynamic" } else { "proxy" };
        let bench = servers.iter().fold(bench.clone(), |bench, server| {
            bench.server(TOOLBOX, server.name, server.entry.clone())
        });
        let agent = bench.set("toolMode", mode.into()).agent().relisting();
        agent.initialize();
        let opened = agent.open(TOOLBOX);
        assert!(!opened.is_tool_error(), "{}", opened.text());
        (agent, opened.text())
    }

    /// Calls a tool; returns its answer and the progress before it.
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
        // What we say of a server that is slow to start is none of its own.
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
    /// The exact text of the result, but for what is unstable.
    fn steady(&self, server: &Real) -> String {
        // Each launch has a mark of its own in the environment.
        let mark = Regex::new(r#"\\n *\\"MCP_WORKBENCH_LAUNCH\\": \\"[^"\\]*\\","#).unwrap();
        let mut text = mark.replace_all(&self.response.raw_result(), "").into_owned();
        for pattern in server.unstable {
            let pattern = Regex::new(pattern).unwrap();
            text = pattern.replace_all(&text, "[UNSTABLE]").into_owned();
        }
        text
    }
}

/// Makes all calls of a server, in order, from the same beginning.
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

/// The definitions of a `tools/list` result, each as its exact text.
fn definitions(list: &Response) -> Vec<String> {
    #[derive(Deserialize)]
    struct List {
        tools: Vec<Box<RawValue>>,
    }
    let list: List = serde_json::from_str(&list.raw_result()).unwrap();
    let tools = list.tools.iter();
    tools.map(|tool| tool.get().to_owned()).collect()
}

/// The definition with the name that it is registered under.
fn registered(server: &str, definition: &str) -> String {
    let head: Value = serde_json::from_str(definition).unwrap();
    let name = head["name"].as_str().unwrap();
    let own = format!(r#""name":"{name}""#);
    assert!(definition.contains(&own), "{definition}");
    let ours = format!(r#""name":"{TOOLBOX}__{server}__{name}""#);
    definition.replacen(&own, &ours, 1)
}

/// The definition as opening a toolbox in proxy mode returns it.
fn located(server: &str, definition: &str) -> String {
    let members = definition.strip_prefix('{').unwrap();
    format!(r#"{{"toolbox":"{TOOLBOX}","server":"{server}",{members}"#)
}

/// The lines of an answer that hold tools.
fn tool_lines(text: &str) -> Vec<&str> {
    let lines = text.lines().map(|line| line.trim_end_matches(','));
    lines
        .filter(|line| line.starts_with(r#"{"toolbox":"#) && line.contains(r#""inputSchema":"#))
        .collect()
}

/// Drives a server directly and through the gateway, each time from the same beginning.
fn compare(server: impl Fn(&Bench) -> Real) {
    let bench = Bench::new();
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

/// Checks that the tools are those of the servers, in their order, each as its server wrote it.
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

/// However often a server says that its list has changed, the agent is told what changes for it.
#[track_caller]
fn assert_changes_told(way: Way, agent: &Agent) {
    let told = agent.notifications().into_iter();
    let told = told.filter(|message| message["method"] == "notifications/tools/list_changed");
    assert_eq!(told.count(), usize::from(way == Way::Dynamic), "{way:?}");
}

#[test]
fn everything_is_the_same() {
    compare(everything);
}

#[test]
fn filesystem_is_the_same() {
    compare(filesystem);
}

#[test]
fn memory_is_the_same() {
    compare(memory);
}

#[test]
fn time_is_the_same() {
    compare(time);
}

#[test]
fn git_is_the_same() {
    compare(git);
}

#[test]
fn one_toolbox_holds_them_all() {
    let bench = Bench::new().set("limits", json!({ "maxListingBytes": 1_000_000 }));
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
        // A server that was listed before may still be starting on a busy machine.
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
fn what_a_server_offers_for_a_capability_of_the_client_is_not_there() {
    let bench = Bench::new();
    let server = everything(&bench);
    let capable = bench.direct(&server.entry);
    let capabilities = json!({ "roots": {}, "sampling": {}, "elicitation": {} });
    capable.initialize_with(json!({ "capabilities": capabilities }));
    let more = capable.tool_names();
    for way in Way::THROUGH {
        // Servers are shared by sessions, so the gateway declares no capability of one agent.
        let (agent, _) = way.open(&bench, &[&server]);
        let name = "trigger-elicitation-request";
        assert!(more.iter().any(|tool| tool == name), "{more:?}");
        let refused = way.call(&agent, server.name, name, json!({})).response;
        assert!(refused.is_tool_error());
        assert!(refused.text().contains("there is no tool"), "{}", refused.text());
    }
}

#[test]
fn arguments_that_do_not_fit_are_refused_by_the_server_in_its_own_words() {
    let bench = Bench::new();
    let server = everything(&bench);
    for way in Way::THROUGH {
        let (agent, _) = way.open(&bench, &[&server]);
        let refused = way.call(&agent, server.name, "get-sum", json!({ "a": "one" }));
        let text = refused.response.text();
        assert!(refused.response.is_tool_error());
        assert!(text.starts_with("MCP error -32602: "), "{text}");
    }
}
