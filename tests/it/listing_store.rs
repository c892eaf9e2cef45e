//! The listing store: servers that ran before are known without being started.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::process::{Output, StartedProcesses, fake_path, wait_until_exited};
use crate::support::{Agent, DEADLINE, TestEnvironment, command};

/// A server whose script is in a file: changing the script doesn't change the server's identity.
fn scripted(bench: TestEnvironment, toolbox: &str, server: &str, script: Value) -> TestEnvironment {
    let file = format!("{server}.script.json");
    let argument = format!("@{}", bench.path_text(&file));
    let bench = bench.file(&file, &script.to_string());
    bench.server(toolbox, server, json!({ "command": fake_path(), "args": [argument] }))
}

fn change(bench: &TestEnvironment, server: &str, script: Value) {
    bench.write(&format!("{server}.script.json"), &script.to_string());
}

fn bench(mode: &str) -> TestEnvironment {
    TestEnvironment::new().set("toolMode", json!(mode))
}

fn greeted(bench: &TestEnvironment) -> Agent {
    let agent = bench.agent();
    agent.initialize();
    agent
}

/// Ends the agent and waits for the program to exit, which writes the listing store.
fn leave(agent: &Agent) {
    agent.close_stdin();
    agent.wait_exit(DEADLINE);
}

fn warm(bench: &TestEnvironment) {
    let output = bench.run(["cache", "refresh"]);
    assert_eq!(output.code, Some(0), "{output}");
}

fn parse(output: &Output) -> Value {
    serde_json::from_str(&output.stdout).unwrap_or_else(|_| panic!("{output}"))
}

fn kept(bench: &TestEnvironment, member: &str) -> Vec<Value> {
    let report = parse(&bench.run(["cache", "list", "--json"]));
    let rows = report["listings"].as_array().expect("rows");
    rows.iter().map(|row| row[member].clone()).collect()
}

fn cache(bench: &TestEnvironment) -> PathBuf {
    bench.path("home/.cache/mcp-workbench/listings")
}

const TOOLBOXES: usize = 10;
const SERVERS: usize = 5;

fn fifty_servers(mode: &str) -> TestEnvironment {
    let mut bench = bench(mode);
    let pids = bench.path_text("pids");
    for toolbox in 0..TOOLBOXES {
        for server in 0..SERVERS {
            let name = format!("s{toolbox}x{server}");
            let tools = ["one", "two"].map(|tool| format!("{name}_{tool}"));
            let script = json!({ "tools": tools, "pidFile": pids });
            bench = scripted(bench, &format!("box{toolbox}"), &name, script);
        }
    }
    bench
}

fn started(bench: &TestEnvironment) -> usize {
    StartedProcesses::read(bench.path("pids")).servers.len()
}

#[test]
fn handshake_uses_cached_instructions_without_waiting() {
    let script = json!({ "tools": ["echo"], "instructions": "Be kind." });
    let bench = scripted(bench("direct"), "box", "srv", script);
    let is_told = || {
        let agent = bench.agent();
        let hello = agent.initialize();
        assert_eq!(agent.tool_names(), ["echo"]);
        leave(&agent);
        hello["instructions"].as_str().is_some_and(|said| said.contains("Be kind."))
    };
    assert!(!is_told(), "nothing is cached before the first run");
    assert!(is_told());
}

#[test]
fn lists_fifty_cached_servers_without_starting_one() {
    let bench = fifty_servers("dynamic");
    let first = parse(&bench.run(["list", "--json"]));
    assert_eq!(started(&bench), TOOLBOXES * SERVERS);
    let second = parse(&bench.run(["list", "--json"]));
    assert_eq!(started(&bench), TOOLBOXES * SERVERS);
    assert_eq!(second["tools"], first["tools"]);
    assert_eq!(second["tools"].as_array().map(Vec::len), Some(2 * TOOLBOXES * SERVERS));
    assert_eq!(second["cached"].as_array().map(Vec::len), Some(TOOLBOXES * SERVERS));
    bench.run(["list", "box0", "--refresh"]);
    assert_eq!(started(&bench), TOOLBOXES * SERVERS + SERVERS);
}

#[test]
fn refresh_of_many_servers_caches_all_and_leaves_no_process() {
    const MANY: usize = 80;
    let mut bench = bench("dynamic");
    let pids = bench.path_text("pids");
    for server in 0..MANY {
        let tools = [format!("tool{server}")];
        let script = json!({ "tools": tools, "pidFile": pids, "listDelayMs": 20 });
        bench = scripted(bench, "box", &format!("s{server}"), script);
    }
    warm(&bench);
    assert_eq!(kept(&bench, "state"), vec![json!("cached"); MANY]);
    assert_eq!(started(&bench), MANY);
    wait_until_exited(&StartedProcesses::read(bench.path("pids")).servers, DEADLINE);
}

fn a_list_starts_nothing(mode: &str, catalog: &str, of_each: impl Fn(usize, usize) -> String) {
    let bench = fifty_servers(mode);
    warm(&bench);
    assert_eq!(started(&bench), TOOLBOXES * SERVERS);
    let agent = greeted(&bench);
    let tools = agent.request("tools/list", json!({})).ok();
    let ours = tools["tools"].as_array().expect("tools").iter();
    let ours = ours.clone().find(|tool| tool["name"] == catalog).expect("the workbench's tool");
    let text = ours["description"].as_str().expect("a description");
    for toolbox in 0..TOOLBOXES {
        for server in 0..SERVERS {
            let entry = of_each(toolbox, server);
            assert!(text.contains(&entry), "{entry} is not in {text}");
        }
    }
    assert_eq!(started(&bench), TOOLBOXES * SERVERS, "`tools/list` started servers");
    leave(&agent);
    assert_eq!(started(&bench), TOOLBOXES * SERVERS, "a new session started servers");
}

// invariant: lists-are-stable
#[test]
fn activate_mode_lists_cached_servers_without_starting_one() {
    a_list_starts_nothing("activate", "toolman_activate", |toolbox, server| {
        format!("box{toolbox}_s{toolbox}x{server}_two")
    });
}

// invariant: lists-are-stable
#[test]
fn modular_mode_lists_cached_servers_without_starting_one() {
    a_list_starts_nothing("modular", "get-modular-tools", |toolbox, _| format!("box{toolbox}"));
}

#[test]
fn opening_does_not_wait_for_a_slow_cached_server() {
    let quick = json!({"tools": ["echo"]});
    let bench = scripted(bench("dynamic"), "box", "quick", quick);
    let bench = scripted(bench, "box", "slow", json!({"tools": ["think"]}));
    warm(&bench);
    change(&bench, "slow", json!({"tools": ["think"], "startDelayMs": 5000}));
    let agent = bench.agent().relisting_on_change();
    agent.initialize();
    let began = Instant::now();
    let opened = agent.open("box");
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    let answer = opened.structured();
    assert_eq!(answer["servers_connected"], 1);
    assert_eq!(answer["failed_servers"], json!([]));
    let starting = "slow: these tools were cached; a call waits until the server is ready";
    assert_eq!(answer["still_starting"], starting);
    assert!(agent.tool_names().contains(&"box__slow__think".to_owned()));
    let called = agent.call("box__slow__think", json!({"x": 1}));
    assert_eq!(called.structured(), json!({"x": 1}), "the call waits for its server");
}

#[test]
fn cached_tools_are_listed_while_servers_hang() {
    let bench = fifty_servers("direct");
    warm(&bench);
    for toolbox in 0..TOOLBOXES {
        for server in 0..SERVERS {
            change(&bench, &format!("s{toolbox}x{server}"), json!({ "hangOnInitialize": true }));
        }
    }
    let agent = greeted(&bench);
    assert_eq!(agent.tool_names().len(), 2 * TOOLBOXES * SERVERS);
}

#[test]
fn only_changed_listings_are_announced() {
    let bench = scripted(bench("direct"), "box", "same", json!({ "tools": ["echo"] }));
    let bench = scripted(bench, "box", "other", json!({ "tools": ["old", "kept"] }));
    warm(&bench);
    let script = json!({ "tools": ["kept", "new"], "startDelayMs": 2000 });
    change(&bench, "other", script);
    let agent = greeted(&bench);
    assert_eq!(agent.tool_names(), ["echo", "old", "kept"]);
    // Each call starts its server, and `same` has been compared before `other` is ready.
    agent.call("echo", json!({})).ok();
    agent.call("kept", json!({})).ok();
    agent.next_notification("notifications/tools/list_changed");
    assert_eq!(agent.tool_names(), ["echo", "kept", "new"]);
    leave(&agent);
    let told = agent.notifications();
    let changes = told.iter().filter(|n| n["method"] == "notifications/tools/list_changed");
    assert_eq!(changes.count(), 1, "{told:?}");
    assert_eq!(kept(&bench, "tools"), [1, 2]);
}

/// Modes, the tool that calls by name, and its arguments for the tool `fresh`.
fn calls_of_a_new_tool() -> [(&'static str, &'static str, Value); 6] {
    let used = json!({ "tool": "box__srv__fresh", "arguments": {} });
    let modular = json!({ "group": "box", "name": "fresh", "args": {} });
    [
        ("activate", "toolman_activate", json!({ "tools_on": ["box_fresh"] })),
        ("modular", "call-modular-tool", modular),
        ("search", "use_tool", used.clone()),
        ("navigate", "use_tool", used.clone()),
        ("dynamic", "use_tool", used.clone()),
        ("proxy", "use_tool", used),
    ]
}

#[test]
fn new_tool_of_a_cached_server_is_found_by_its_name() {
    for (mode, tool, arguments) in calls_of_a_new_tool() {
        let bench = bench(mode).set("activeToolsets", json!(["*"]));
        let bench = scripted(bench, "box", "srv", json!({ "tools": ["old"] }));
        warm(&bench);
        change(&bench, "srv", json!({ "tools": ["old", "fresh"] }));
        let agent = greeted(&bench);
        let answer = agent.call(tool, arguments);
        answer.ok();
        assert!(!answer.text().contains("nknown"), "{mode}: {}", answer.text());
    }
}

#[test]
fn new_tool_appears_once_its_server_runs() {
    let bench = bench("activate").set("activeToolsets", json!(["*"]));
    let bench = scripted(bench, "box", "srv", json!({ "tools": ["old"] }));
    warm(&bench);
    change(&bench, "srv", json!({ "tools": ["old", "fresh"] }));
    let agent = greeted(&bench);
    assert_eq!(agent.tool_names(), ["toolman_activate", "box_old"]);
    agent.call("box_old", json!({})).ok();
    agent.next_notification("notifications/tools/list_changed");
    assert_eq!(agent.tool_names(), ["toolman_activate", "box_old", "box_fresh"]);

    let bench = scripted(self::bench("search"), "box", "srv", json!({ "tools": ["old"] }));
    warm(&bench);
    change(&bench, "srv", json!({ "tools": ["old", "fresh"] }));
    let agent = greeted(&bench);
    let used = json!({ "tool": "box__srv__old", "arguments": {} });
    agent.call("use_tool", used).ok();
    let found = agent.call("search_tools", json!({ "query": "fresh" })).text();
    assert!(found.contains("fresh"), "{found}");

    let bench = scripted(self::bench("modular"), "box", "srv", json!({ "tools": ["old"] }));
    warm(&bench);
    change(&bench, "srv", json!({ "tools": ["old", "fresh"] }));
    let agent = greeted(&bench);
    let old = json!({ "group": "box", "name": "old", "args": {} });
    agent.call("call-modular-tool", old).ok();
    let tools = agent.call("get-modular-tools", json!({ "group": "box" })).text();
    assert!(tools.contains("fresh"), "{tools}");
}

#[test]
fn removed_tool_is_explained_with_its_catalog_name() {
    let bench = bench("activate").set("activeToolsets", json!(["*"]));
    let bench = scripted(bench, "box", "srv", json!({ "tools": ["convert_length"] }));
    warm(&bench);
    change(&bench, "srv", json!({ "tools": ["convert_lengths"] }));
    let agent = greeted(&bench);
    let gone: Value =
        serde_json::from_str(&agent.call("box_convert_length", json!({})).text()).expect("JSON");
    assert_eq!(
        gone["error"],
        "Unknown tool 'box_convert_length'. Similar: box_convert_lengths. Use toolman_activate to \
         see available tools."
    );
}

// invariant: store-is-a-cache
#[test]
fn cached_tool_is_called_and_removed_tool_is_explained() {
    let script = json!({ "tools": ["echo", "convert_length"] });
    let bench = scripted(bench("dynamic"), "box", "srv", script);
    warm(&bench);
    let schema = json!({ "type": "object", "required": ["unit"] });
    let convert = json!({ "name": "convert_lengths", "inputSchema": schema });
    change(&bench, "srv", json!({ "tools": ["echo", convert] }));
    let agent = greeted(&bench);
    let gone = agent.call("box__srv__convert_length", json!({})).text();
    assert!(gone.contains("convert_lengths"), "{gone}");
    agent.call("box__srv__echo", json!({})).ok();
    leave(&agent);

    // Arguments are checked against the tool's current schema.
    change(&bench, "srv", json!({ "tools": ["convert_lengths"] }));
    let agent = greeted(&bench);
    agent.call("box__srv__convert_lengths", json!({})).ok();
}

#[test]
fn call_explains_why_a_cached_server_fails_to_start() {
    let bench = scripted(bench("dynamic"), "box", "srv", json!({ "tools": ["echo"] }));
    warm(&bench);
    change(&bench, "srv", json!({ "failStart": { "code": 7, "stderr": ["no disk"] } }));
    let error = greeted(&bench).call("box__srv__echo", json!({})).text();
    assert!(error.contains("no disk"), "{error}");
}

#[test]
fn next_process_tries_the_cached_era_first() {
    let new = TestEnvironment::new();
    let requests = new.path("requests");
    let script = json!({ "tools": ["echo"], "protocol": "modern", "requestFile": requests });
    let bench = scripted(new, "box", "srv", script);
    warm(&bench);
    let first = fs::read_to_string(&requests).unwrap();
    assert!(first.starts_with("initialize\n"), "{first}");
    fs::remove_file(&requests).unwrap();
    warm(&bench);
    let second = fs::read_to_string(&requests).unwrap();
    assert!(second.starts_with("server/discover\n") && !second.contains("initialize"), "{second}");
}

#[test]
fn changed_listing_is_cached() {
    let script = json!({ "tools": ["grow"] });
    let bench = scripted(bench("direct"), "box", "srv", script);
    warm(&bench);
    let agent = greeted(&bench);
    agent.call("grow", json!({ "tools": ["one_more"] })).ok();
    agent.next_notification("notifications/tools/list_changed");
    leave(&agent);
    assert_eq!(kept(&bench, "tools"), [2]);
}

#[test]
fn rebuilds_damaged_cache_entries() {
    let bench = scripted(bench("dynamic"), "box", "srv", json!({ "tools": ["echo"] }));
    warm(&bench);
    for file in fs::read_dir(cache(&bench)).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_some() {
            fs::write(path, "rubbish").unwrap();
        }
    }
    assert_eq!(kept(&bench, "state"), ["damaged"]);
    let output = bench.run(["list", "--json"]);
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
    assert_eq!(parse(&output)["tools"][0]["tool"], "echo");
    assert_eq!(kept(&bench, "state"), ["cached"]);
}

#[test]
fn works_without_a_writable_cache() {
    let bench = scripted(bench("dynamic"), "box", "srv", json!({ "tools": ["echo"] }));
    let bench = bench.file("in-the-way", "").env("WORKBENCH_CACHE_DIR", "in-the-way");
    let output = bench.run(["list"]);
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
    let output = bench.run(["cache", "refresh"]);
    assert_eq!(output.code, Some(1));
    assert!(output.stderr.contains("failed to write its tool list"), "{output}");
}

#[test]
fn cache_folder_is_flag_then_variable_then_home() {
    let bench = scripted(bench("dynamic"), "box", "srv", json!({ "tools": ["echo"] }));
    let bench = bench.env("WORKBENCH_CACHE_DIR", "~/by-variable");
    warm(&bench);
    assert!(bench.path("home/by-variable/listings/key").exists());
    assert!(!cache(&bench).exists());
    let output = bench.run(["--cache-dir", "by-flag", "cache", "refresh"]);
    assert_eq!(output.code, Some(0));
    assert!(bench.path("by-flag/listings/key").exists());
}

// invariant: store-is-a-cache
#[test]
fn cache_contains_no_configured_secrets() {
    let mut entry =
        json!({ "command": fake_path(), "args": [r#"{"tools":["echo"],"name":"hunter2"}"#] });
    entry["env"] = json!({ "API_TOKEN": "hunter2" });
    let bench = bench("dynamic").server("box", "srv", entry);
    warm(&bench);
    let mut files = 0;
    for file in fs::read_dir(cache(&bench)).unwrap() {
        let file = file.unwrap();
        let text = String::from_utf8_lossy(&fs::read(file.path()).unwrap()).into_owned();
        assert!(!text.contains("hunter2") && !text.contains("API_TOKEN"), "{text}");
        assert!(!file.file_name().to_string_lossy().contains("hunter2"));
        files += 1;
    }
    assert_eq!(files, 2);
}

#[test]
fn cache_listings_are_shown_refreshed_and_cleared() {
    let bench = scripted(bench("dynamic"), "box", "srv", json!({ "tools": ["echo", "sleep"] }));
    assert_eq!(kept(&bench, "state"), ["missing"]);
    let output = bench.run(["list"]);
    assert!(!output.stderr.contains("not started"), "{output}");
    assert_eq!(
        (kept(&bench, "state"), kept(&bench, "tools")),
        (vec!["cached".into()], vec![2.into()])
    );
    let output = bench.run(["list"]);
    assert!(output.stderr.contains("1 server not started: showing cached tool lists"), "{output}");

    let bench = bench.server("box", "bad", json!({ "command": "no-such-program" }));
    let output = bench.run(["cache", "refresh", "--json"]);
    assert_eq!(output.code, Some(1));
    let report = parse(&output);
    assert_eq!(report["listings"][0]["state"], "cached");
    assert_eq!(report["listings"][1]["state"], "missing");
    assert!(report["listings"][1]["failure"]["reason"].is_string(), "{report}");

    let bench = bench.config(json!({
        "toolboxes": { "new": { "description": "x", "mcpServers": { "off": { "command": "x" } } } },
    }));
    let report = parse(&bench.run(["cache", "list", "--json"]));
    assert_eq!(report["listings"][1]["server"], "srv");
    assert_eq!(report["listings"][1]["toolbox"], Value::Null);
    let table = bench.run(["cache", "list"]);
    assert!(table.stdout.contains("(not configured)"), "{table}");

    let output = bench.run(["cache", "clear"]);
    assert!(output.stdout.starts_with("deleted 1 cached tool list from "), "{output}");
    assert!(!cache(&bench).exists());
    let output = bench.run(["cache", "clear"]);
    assert!(output.stdout.starts_with("deleted 0 cached tool lists from "), "{output}");
}

#[test]
fn embedded_configuration_is_not_cached() {
    let bench = TestEnvironment::new();
    let mut serve = command(env!("CARGO_BIN_EXE_mcp-workbench"));
    serve.args(["serve", "--embedded-config"]).current_dir(bench.dir());
    serve.env("HOME", bench.path("home")).env_remove("WORKBENCH_CACHE_DIR");
    let agent = Agent::start(serve);
    agent.initialize();
    agent.open("desk").ok();
    leave(&agent);
    assert!(!bench.path("home/.cache").exists());
}
