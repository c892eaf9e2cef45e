//! Reloading the configuration while agents are connected: unchanged parts keep running.

use std::collections::BTreeSet;
use std::fs::{create_dir, read_dir, rename};
use std::os::unix::fs::symlink;
use std::thread::yield_now;
use std::time::Instant;

use pretty_assertions::{assert_eq, assert_ne};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::process::{StartedProcesses, alive, descendants, wait_until_exited};
use crate::support::{Agent, DEADLINE, TestEnvironment, fake};

const CHANGED: &str = "notifications/tools/list_changed";
const READ: &str = "configuration reloaded: ";

/// A configuration that applies every change without an explicit reload.
fn watching() -> TestEnvironment {
    TestEnvironment::new().set("autoReload", json!("all"))
}

fn server(bench: &TestEnvironment, name: &str, tools: &[&str]) -> Value {
    fake(json!({ "tools": tools, "pidFile": bench.path_text(name) }))
}

fn with_toolbox(bench: TestEnvironment, name: &str, tools: &[&str]) -> TestEnvironment {
    let entry = server(&bench, name, tools);
    bench.server(name, "srv", entry)
}

fn begin(bench: &TestEnvironment) -> Agent {
    bench
        .agent()
        .relisting_on_change()
        .without_reply("elicitation/create")
        .begin(false, json!({ "elicitation": {} }))
}

fn pid(agent: &Agent, tool: &str) -> u32 {
    pid_of(&agent.call(tool, json!({})).structured())
}

fn pid_of(answer: &Value) -> u32 {
    let pid = answer["pid"].as_u64().expect("a pid");
    u32::try_from(pid).expect("a pid")
}

/// Relists after each change until the tool appears or disappears.
fn wait_for_tool(agent: &Agent, tool: &str, is_there: bool) -> Vec<String> {
    let mut names = agent.tool_names();
    while names.iter().any(|name| name == tool) != is_there {
        agent.next_notification(CHANGED);
        names = agent.tool_names();
    }
    names
}

fn ask(agent: &Agent, tool: &str) -> (crate::support::RequestId, Value) {
    let form = json!({ "message": "Go on?", "requestedSchema": { "type": "object" } });
    let question = json!({ "method": "elicitation/create", "params": form });
    let call = agent.send_call(tool, question);
    (call, agent.next_request("elicitation/create"))
}

// invariant: reload-is-minimal
#[test]
fn changing_one_server_restarts_only_that_server() {
    let mut bench = watching();
    let names = ["a", "b", "c", "d", "e"];
    for name in names {
        let entry = server(&bench, name, &["pid"]);
        bench = bench.server("box", name, entry);
    }
    let agent = begin(&bench);
    agent.open("box").ok();
    let pids = || names.map(|name| pid(&agent, &format!("box__{name}__pid")));
    let before = pids();
    let changed = server(&bench, "c", &["pid", "more"]);
    bench.clone().server("box", "c", changed).write_config();
    wait_for_tool(&agent, "box__c__more", true);
    let after = pids();
    for (index, name) in names.iter().enumerate() {
        assert_eq!(before[index] == after[index], *name != "c", "{name}");
    }
    wait_until_exited(&[before[2]], DEADLINE);
    agent.wait_stderr(&format!("{READ}changed: `box`"));
}

// invariant: reload-is-minimal
#[test]
fn invalid_file_is_logged_and_changes_nothing() {
    let bench = with_toolbox(watching(), "box", &["pid"]);
    let agent = begin(&bench);
    agent.open("box").ok();
    let before = pid(&agent, "box__srv__pid");
    let tools = agent.tools();
    for (text, why) in [
        (r#"{"toolboxes": {"box": {"description": "x", "mcp"#, "workbench.json:1:"),
        (r#"{"toolMode": "dynamix", "toolboxes": {}}"#, "dynamix"),
    ] {
        bench.write("workbench.json", text);
        agent.wait_stderr(why);
    }
    agent.wait_stderr("configuration not reloaded, the previous one stays active");
    assert_eq!((pid(&agent, "box__srv__pid"), agent.tools()), (before, tools));
    with_toolbox(bench.clone(), "other", &["pid"]).write_config();
    agent.wait_stderr(&format!("{READ}added: `other`"));
    assert_eq!(pid(&agent, "box__srv__pid"), before);
}

#[test]
fn invalid_entry_stops_only_its_server() {
    let bench = with_toolbox(watching(), "good", &["pid"]);
    let both = with_toolbox(bench.clone(), "bad", &["pid"]);
    let agent = begin(&both);
    agent.open("good").ok();
    agent.open("bad").ok();
    let [good, bad] = ["good", "bad"].map(|name| pid(&agent, &format!("{name}__srv__pid")));
    let wrong = json!({ "command": "x", "env": { "T": "${NO_SUCH_TOKEN}" } });
    bench.clone().server("bad", "srv", wrong).write_config();
    agent.wait_stderr("`NO_SUCH_TOKEN` is not set");
    wait_until_exited(&[bad], DEADLINE);
    let lost = agent.call("bad__srv__pid", json!({}));
    assert!(lost.is_tool_error() && lost.text().contains("NO_SUCH_TOKEN"), "{}", lost.text());
    assert_eq!(pid(&agent, "good__srv__pid"), good);
    wait_for_tool(&agent, "bad__srv__pid", false);
    both.write_config();
    wait_for_tool(&agent, "bad__srv__pid", true);
    assert_ne!(pid(&agent, "bad__srv__pid"), bad);
}

// invariant: reload-is-minimal
#[test]
fn removed_toolbox_completes_its_call_then_stops_its_server() {
    let bench = with_toolbox(watching(), "stays", &["ask", "pid"]);
    let both = with_toolbox(with_toolbox(bench.clone(), "goes", &["ask", "pid"]), "idle", &["pid"]);
    let agent = begin(&both);
    for toolbox in ["stays", "goes", "idle"] {
        agent.open(toolbox).ok();
    }
    let [stays, goes, idle] =
        ["stays", "goes", "idle"].map(|toolbox| pid(&agent, &format!("{toolbox}__srv__pid")));
    let (call, question) = ask(&agent, "goes__srv__ask");
    bench.write_config();
    let tools = wait_for_tool(&agent, "goes__srv__pid", false);
    assert!(tools.contains(&"stays__srv__pid".to_owned()), "{tools:?}");
    // Unused servers stop immediately, even while others have calls in flight.
    wait_until_exited(&[idle], DEADLINE);
    assert!(alive(goes));
    agent.respond(&question, json!({ "action": "accept", "content": {} }));
    let answer = agent.wait(&call).structured();
    assert_eq!(answer["result"]["action"], "accept");
    wait_until_exited(&[goes], DEADLINE);
    assert_eq!(pid(&agent, "stays__srv__pid"), stays);
    assert!(agent.open("goes").is_tool_error(), "the removed toolbox can still be opened");
}

#[test]
fn changed_server_starts_after_the_old_process_exits() {
    let bench = with_toolbox(watching(), "box", &["ask", "pid"]);
    let agent = begin(&bench);
    agent.open("box").ok();
    let before = pid(&agent, "box__srv__pid");
    let (call, question) = ask(&agent, "box__srv__ask");
    with_toolbox(bench.clone(), "box", &["pid", "more"]).write_config();
    wait_for_tool(&agent, "box__srv__ask", false);
    assert_eq!(StartedProcesses::read(bench.path("box")).servers, [before]);
    agent.respond(&question, json!({ "action": "decline" }));
    assert_eq!(agent.wait(&call).structured()["result"]["action"], "decline");
    wait_for_tool(&agent, "box__srv__more", true);
    assert_ne!(pid(&agent, "box__srv__pid"), before);
    assert!(!alive(before));
}

#[test]
fn added_toolbox_is_announced_and_can_be_opened() {
    let bench = with_toolbox(watching(), "box", &["pid"]);
    let agent = begin(&bench);
    assert_eq!(agent.tool_names(), ["open_toolbox"]);
    // Editors replace the file by renaming a new one.
    let next = with_toolbox(bench.clone(), "other", &["pid"]);
    rename(bench.config_path(), bench.path("old")).expect("a file");
    next.write_config();
    rename(bench.config_path(), bench.path("new")).expect("a file");
    rename(bench.path("new"), bench.config_path()).expect("a file");
    agent.next_notification(CHANGED);
    assert!(agent.tools()[0]["description"].to_string().contains("other"));
    agent.open("other").ok();
    assert!(alive(pid(&agent, "other__srv__pid")));
}

#[test]
fn link_target_is_watched() {
    let empty = watching();
    let bench = with_toolbox(empty.clone(), "one", &["pid"]);
    for (folder, toolbox) in [("here", "one"), ("there", "two")] {
        create_dir(bench.path(folder)).expect("a folder");
        with_toolbox(empty.clone(), toolbox, &["pid"]).write_config();
        rename(bench.config_path(), bench.path(folder).join("real.json")).expect("a file");
    }
    let lead = |folder: &str| {
        symlink(bench.path(folder).join("real.json"), bench.path("link")).expect("a link");
        rename(bench.path("link"), bench.config_path()).expect("a link");
    };
    lead("here");
    let agent = begin(&bench);
    lead("there");
    agent.wait_stderr(&format!("{READ}added: `two`; removed: `one`"));
    with_toolbox(empty, "three", &["pid"]).write_config();
    agent.wait_stderr(&format!("{READ}added: `three`; removed: `two`"));
}

/// Kubernetes mounts a `ConfigMap` as a link through `..data` and swaps that link. The old and the
/// new folder both stay.
#[test]
fn swapped_folder_link_is_noticed() {
    let empty = watching();
    let bench = with_toolbox(empty.clone(), "one", &["pid"]);
    for (folder, toolbox) in [("..first", "one"), ("..second", "two"), ("..third", "three")] {
        create_dir(bench.path(folder)).expect("a folder");
        with_toolbox(empty.clone(), toolbox, &["pid"]).write_config();
        rename(bench.config_path(), bench.path(folder).join("config.json")).expect("a file");
    }
    let swap = |folder: &str| {
        symlink(folder, bench.path("..data_tmp")).expect("a link");
        rename(bench.path("..data_tmp"), bench.path("..data")).expect("a link");
    };
    swap("..first");
    symlink("..data/config.json", bench.path("mounted.json")).expect("a link");
    let mounted = bench.path_text("mounted.json");
    let program = env!("CARGO_BIN_EXE_mcp-workbench");
    let entry = json!({ "command": program, "args": ["serve", "--config", mounted] });
    let agent = bench.direct(&entry);
    agent.initialize();
    swap("..second");
    agent.wait_stderr(&format!("{READ}added: `two`; removed: `one`"));
    swap("..third");
    agent.wait_stderr(&format!("{READ}added: `three`; removed: `two`"));
}

#[test]
fn a_server_that_is_added_to_an_open_toolbox_is_started() {
    let bench = with_toolbox(watching(), "box", &["pid"]);
    let agent = begin(&bench);
    agent.open("box").ok();
    let added = server(&bench, "added", &["pid"]);
    bench.clone().server("box", "added", added).write_config();
    wait_for_tool(&agent, "box__added__pid", true);
}

// invariant: reload-is-minimal
#[test]
fn settings_outside_the_launch_apply_without_a_restart() {
    let bench = watching();
    let mut entry = server(&bench, "pids", &["pid", "echo"]);
    let agent = begin(&bench.clone().server("box", "srv", entry.clone()));
    agent.open("box").ok();
    let before = pid(&agent, "box__srv__pid");
    entry["toolFilters"] = json!(["pid"]);
    entry["idleTimeoutMs"] = json!(600_000);
    entry["callTimeoutMs"] = json!(5000);
    bench.clone().server("box", "srv", entry.clone()).write_config();
    let tools = wait_for_tool(&agent, "box__srv__echo", false);
    assert_eq!(tools, ["open_toolbox", "box__srv__pid"]);
    assert!(agent.call("box__srv__echo", json!({})).is_tool_error());
    // The server's identity doesn't depend on its toolbox.
    bench.clone().server("renamed", "srv", entry).write_config();
    agent.wait_stderr(&format!("{READ}added: `renamed`; removed: `box`"));
    wait_for_tool(&agent, "box__srv__pid", false);
    agent.open("renamed").ok();
    assert_eq!(pid(&agent, "renamed__srv__pid"), before);
    assert_eq!(StartedProcesses::read(bench.path("pids")).servers, [before]);
}

#[test]
fn sighup_with_an_unchanged_file_changes_nothing() {
    let bench = with_toolbox(watching(), "box", &["pid"]);
    let agent = begin(&bench);
    agent.open("box").ok();
    let before = pid(&agent, "box__srv__pid");
    agent.signal(Signal::HUP);
    agent.wait_stderr("the configuration has not changed");
    assert_eq!(pid(&agent, "box__srv__pid"), before);
    assert!(!agent.stderr().contains(READ));
}

#[test]
fn another_mode_is_for_new_sessions() {
    let bench = with_toolbox(watching(), "box", &["pid"]).set("toolMode", "dynamic".into());
    let (program, http) = bench.http();
    let old = Agent::over_http((program, http)).relisting_on_change().begin(false, json!({}));
    assert_eq!(old.tool_names(), ["open_toolbox"]);
    bench.clone().set("toolMode", "direct".into()).write_config();
    let new = loop {
        let new = old.beside().begin(false, json!({}));
        // No connected agent is notified of the new mode, so new sessions poll for it.
        if new.tool_names() == ["pid"] {
            break new;
        }
        new.leave();
    };
    assert_eq!(old.tool_names(), ["open_toolbox"]);
    old.open("box").ok();
    assert_eq!(old.tool_names(), ["open_toolbox", "box__srv__pid"]);
    assert_eq!(pid(&old, "box__srv__pid"), pid(&new, "pid"), "both sessions share one process");
    let modern = old.beside().begin(true, json!({}));
    assert_eq!(modern.tool_names(), ["pid"]);
}

#[test]
fn private_processes_survive_a_reload() {
    let bench = watching();
    let mut entry = server(&bench, "pids", &["pid"]);
    entry["roots"] = true.into();
    let bench = bench.server("box", "srv", entry);
    let first = Agent::over_http(bench.http());
    let second = first.beside();
    let [first, second] = [first, second].map(|agent| {
        let agent = agent.relisting_on_change().with_reply("roots/list", json!({ "roots": [] }));
        agent.begin(false, json!({ "roots": {} }))
    });
    let pids = || [&first, &second].map(|agent| pid(agent, "box__srv__pid"));
    let before = pids();
    assert_ne!(before[0], before[1]);
    with_toolbox(bench.clone(), "other", &["pid"]).write_config();
    for agent in [&first, &second] {
        wait_for_tool(agent, "box__srv__pid", true);
        while !agent.tools()[0]["description"].to_string().contains("other") {
            agent.next_notification(CHANGED);
        }
    }
    assert_eq!(pids(), before);
}

#[test]
fn modular_groups_follow_the_file() {
    let bench = with_toolbox(watching(), "box", &["pid"]).set("toolMode", "modular".into());
    let agent = bench.agent();
    agent.initialize();
    let groups = || agent.tools()[0]["description"].to_string();
    assert!(!groups().contains("other"));
    with_toolbox(bench.clone(), "other", &["pid"]).write_config();
    while !groups().contains("other") {
        agent.next_notification(CHANGED);
    }
    let call = json!({ "group": "other", "name": "pid", "args": {} });
    assert!(alive(pid_of(&agent.call("call-modular-tool", call).structured())));
}

#[test]
fn subscribed_modern_agent_is_notified() {
    let bench = with_toolbox(watching(), "box", &["pid"]).set("toolMode", "proxy".into());
    let agent = bench.agent().begin(true, json!({}));
    agent.hear_changes(&[]);
    with_toolbox(bench.clone(), "other", &["pid"]).write_config();
    agent.next_notification(CHANGED);
    assert!(agent.tools()[0]["description"].to_string().contains("other"));
    let called = agent.use_tool(["other", "srv", "pid"], json!({}));
    assert!(called.structured()["pid"].is_number());
}

#[test]
fn direct_mode_starts_added_servers_and_drops_removed_ones() {
    let bench = watching().set("toolMode", "direct".into());
    let first = with_toolbox(bench.clone(), "box", &["pid"]);
    let agent = begin(&first);
    assert_eq!(agent.tool_names(), ["pid"]);
    with_toolbox(first, "other", &["more"]).write_config();
    wait_for_tool(&agent, "more", true);
    with_toolbox(bench, "other", &["more"]).write_config();
    assert_eq!(wait_for_tool(&agent, "pid", false), ["more"]);
}

#[test]
fn resource_subscription_moves_to_the_changed_server() {
    let entry = |version: &str| {
        fake(json!({
            "version": version,
            "tools": ["notify"],
            "capabilities": { "resources": { "subscribe": true } },
            "answers": {
                "resources/list": { "resources": [{ "uri": "test://one", "name": "one" }] },
                "resources/subscribe": {},
            },
        }))
    };
    let bench = watching();
    let agent = begin(&bench.clone().server("box", "srv", entry("1")));
    agent.open("box").ok();
    agent.hear_changes(&["test://one"]);
    bench.clone().server("box", "srv", entry("2")).write_config();
    agent.wait_stderr(READ);
    let updated = json!({
        "method": "notifications/resources/updated",
        "params": { "uri": "test://one" },
    });
    agent.call("box__srv__notify", updated).ok();
    let notice = agent.next_notification("notifications/resources/updated");
    assert_eq!(notice["uri"], "test://one");
}

// invariant: reload-is-minimal
#[test]
fn twenty_reloads_leak_nothing() {
    let bench = with_toolbox(watching(), "stays", &["pid"]);
    let agent = begin(&bench);
    agent.open("stays").ok();
    let stays = pid(&agent, "stays__srv__pid");
    let files = || read_dir(format!("/proc/{}/fd", agent.pid())).expect("a process").count();
    let change = |round: usize| {
        let name = format!("box{round}");
        with_toolbox(bench.clone(), &name, &["pid"]).write_config();
        agent.wait_stderr(&format!("{READ}added: `{name}`"));
        agent.open(&name).ok();
        let pid = pid(&agent, &format!("{name}__srv__pid"));
        bench.write_config();
        agent.wait_stderr(&format!("{READ}removed: `{name}`"));
        wait_until_exited(&[pid], DEADLINE);
    };
    change(0);
    let processes = || -> BTreeSet<u32> {
        descendants(agent.pid()).into_iter().filter(|pid| alive(*pid)).collect()
    };
    let end = Instant::now() + DEADLINE;
    let (most, before) = (files(), processes());
    for round in 1..10 {
        change(round);
    }
    assert_eq!(pid(&agent, "stays__srv__pid"), stays);
    assert_eq!(processes(), before);
    // The pipes of a server are closed slightly after it exits.
    while files() > most {
        assert!(Instant::now() < end, "{} files are open, expected at most {most}", files());
        yield_now();
    }
}

#[test]
fn policy_changes_wait_for_an_explicit_reload() {
    let bench = with_toolbox(TestEnvironment::new(), "box", &["pid"]);
    let agent = begin(&bench);
    agent.open("box").ok();
    let before = (pid(&agent, "box__srv__pid"), agent.tools());
    // As an agent with a file tool could write it.
    let wider = with_toolbox(bench.clone(), "other", &["pid"]);
    let wider = wider.set("toolMode", json!("proxy"));
    wider.write_config();
    agent.wait_stderr("apply it with `mcp-workbench reload`, SIGHUP or a restart");
    agent.wait_stderr("+ other/srv: the server, with its resources and prompts");
    assert!(agent.open("other").is_tool_error(), "the new toolbox was applied without a reload");
    assert_eq!((pid(&agent, "box__srv__pid"), agent.tools()), before);
    let asked = wider.run(["reload"]);
    assert_eq!((asked.code, asked.stdout.as_str()), (Some(0), ""), "{asked}");
    agent.wait_stderr(&format!("{READ}added: `other`"));
    agent.open("other").ok();
    assert_eq!(pid(&agent, "box__srv__pid"), before.0);
}

#[test]
fn watch_everything_applies_only_after_an_explicit_reload() {
    let bench = with_toolbox(TestEnvironment::new(), "box", &["pid"]);
    let agent = begin(&bench);
    let wider = with_toolbox(bench.clone(), "other", &["pid"]);
    let following = wider.clone().set("autoReload", json!("all"));
    following.write_config();
    agent.wait_stderr("apply it with `mcp-workbench reload`");
    assert_eq!(following.run(["reload"]).code, Some(0));
    agent.wait_stderr(&format!("{READ}added: `other`"));
    with_toolbox(following, "third", &["pid"]).write_config();
    agent.wait_stderr(&format!("{READ}added: `third`"));
}

#[test]
fn presentation_changes_apply_immediately() {
    let bench = with_toolbox(TestEnvironment::new(), "box", &["pid"]);
    let agent = begin(&bench);
    bench.clone().toolbox("box", "Another description").write_config();
    agent.wait_stderr(&format!("{READ}changed: `box`"));
    let listed = agent.tools()[0]["description"].to_string();
    assert!(listed.contains("Another description"), "{listed}");
}

#[test]
fn reload_fails_without_a_workbench_or_with_an_invalid_file() {
    let bench = with_toolbox(TestEnvironment::new(), "box", &["pid"]);
    let nobody = bench.run(["reload"]);
    assert_eq!(nobody.code, Some(1), "{nobody}");
    assert!(nobody.stderr.contains("no running workbench uses"), "{nobody}");
    let wrong = bench.set("toolMode", json!("dynamix")).run(["reload"]);
    assert_eq!(wrong.code, Some(2), "{wrong}");
    assert!(wrong.stderr.contains("dynamix"), "{wrong}");
}
