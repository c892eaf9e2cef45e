//! Servers of the real `npx` and `uvx` that start from the package manager's cache.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::time::Instant;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::process::descendants;
use crate::support::real::{npm_downloads, uvx, wheels};
use crate::support::{Agent, DEADLINE, TestEnvironment};

const HELLO: &str = "mcp-hello-world@1.1.2";
const TIME: &str = "mcp-server-time==2026.10.19";

/// How the two servers were started: through `npx` and `uvx`, or directly.
#[derive(Debug, PartialEq, Eq)]
struct Starts {
    npx: bool,
    uvx: bool,
}

const THROUGH_RUNNERS: Starts = Starts { npx: true, uvx: true };
const DIRECT: Starts = Starts { npx: false, uvx: false };

/// A home without installed packages. The package managers need no network.
fn bench() -> TestEnvironment {
    let bench = TestEnvironment::new();
    fs::create_dir(bench.path("home/.npm")).expect("a folder");
    symlink(npm_downloads(), bench.path("home/.npm/_cacache")).expect("a link");
    bench.server("box", "hello", hello()).server("box", "time", time())
}

fn hello() -> Value {
    json!({
        "command": "npx",
        "args": ["-y", HELLO],
        "env": {"npm_config_offline": "true"},
    })
}

fn time() -> Value {
    json!({
        "command": uvx(),
        "args": [TIME],
        "env": {"UV_OFFLINE": "1", "UV_NO_INDEX": "1", "UV_FIND_LINKS": wheels()},
    })
}

fn agent(bench: &TestEnvironment) -> Agent {
    bench.agent_with(["--log-level", "debug"]).begin(false, json!({}))
}

/// Calls both servers.
fn work(agent: &Agent) {
    agent.open("box").ok();
    let said = agent.use_tool(["box", "hello", "echo"], json!({"message": "ahoy"})).text();
    assert!(said.contains("ahoy"), "{said}");
    let arguments = json!({"timezone": "Asia/Tokyo"});
    let said = agent.use_tool(["box", "time", "get_current_time"], arguments).text();
    assert!(said.contains("+09:00"), "{said}");
}

/// The command lines of an agent's servers.
fn starts(agent: &Agent) -> Starts {
    let lines = descendants(agent.pid()).into_iter().map(|pid| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).replace('\0', " ")
    });
    let lines: Vec<_> = lines.collect();
    let has = |part: &str| lines.iter().any(|line| line.contains(part));
    assert!(has("mcp-hello-world") && has("mcp-server-time"), "{lines:#?}");
    Starts { npx: has("npm exec"), uvx: has(&format!("uvx {TIME}")) }
}

fn leave(agent: &Agent) {
    agent.close_stdin();
    agent.wait_end();
}

/// Works in a session of its own, and returns how the servers were started.
fn session(bench: &TestEnvironment) -> Starts {
    let agent = agent(bench);
    work(&agent);
    let starts = starts(&agent);
    wait_for_record(bench);
    leave(&agent);
    starts
}

/// Waits for the record of uv's environment.
fn wait_for_record(bench: &TestEnvironment) {
    let end = Instant::now() + DEADLINE;
    let is_record = |entry: fs::DirEntry| entry.path().extension().is_some_and(|end| end == "json");
    let folder = bench.path("home/.cache/mcp-workbench/direct");
    while !fs::read_dir(&folder).into_iter().flatten().flatten().any(is_record) {
        assert!(Instant::now() < end, "no record in {}", folder.display());
    }
}

fn installed_hello(bench: &TestEnvironment) -> PathBuf {
    let folders = fs::read_dir(bench.path("home/.npm/_npx")).expect("the cache of npx");
    let folder = folders.flatten().next().expect("a package");
    folder.path().join("node_modules/mcp-hello-world")
}

#[test]
fn cached_servers_start_directly_until_their_cache_is_removed() {
    let bench = bench();
    let listed = bench.run(["check", "--details"]).stdout;
    let reason =
        format!("starts through its package runner: `{HELLO}` isn't in the cache of `npx`");
    assert!(listed.contains(&format!("`box/hello` {reason}")), "{listed}");
    assert_eq!(session(&bench), THROUGH_RUNNERS);
    assert_eq!(session(&bench), DIRECT);
    let listed = bench.run(["check", "--details"]).stdout;
    assert!(listed.contains(&format!("`box/hello` starts directly: `{HELLO}` in `")), "{listed}");
    let time = TIME.replace("==", "@");
    assert!(listed.contains(&format!("`box/time` starts directly: `{time}` in `")), "{listed}");

    let mut runners = (hello(), self::time());
    for entry in [&mut runners.0, &mut runners.1] {
        entry["direct"] = false.into();
    }
    let same = bench.clone().server("box", "hello", runners.0).server("box", "time", runners.1);
    assert_eq!(session(&same), THROUGH_RUNNERS);

    fs::remove_dir_all(bench.path("home/.npm/_npx")).expect("the cache of npx");
    fs::remove_dir_all(bench.path("home/.cache/uv")).expect("the cache of uv");
    assert_eq!(session(&bench), THROUGH_RUNNERS);
}

#[test]
fn workbenches_share_the_cache() {
    let bench = bench();
    for expected in [THROUGH_RUNNERS, DIRECT] {
        let agents = [agent(&bench), agent(&bench)];
        let toolbox = json!({"toolbox": "box"});
        let opening =
            agents.each_ref().map(|agent| agent.send_call("open_toolbox", toolbox.clone()));
        for (agent, id) in agents.iter().zip(&opening) {
            agent.wait(id).ok();
            work(agent);
        }
        wait_for_record(&bench);
        for agent in &agents {
            assert_eq!(starts(agent), expected);
            leave(agent);
        }
    }
}

#[test]
fn changed_files_of_a_locked_package_do_not_start() {
    let bench = bench();
    session(&bench);
    let bench = bench.set("onDefinitionChange", "quarantine".into());
    let locked = bench.run(["lock"]);
    assert_eq!(locked.code, Some(0), "{locked}");
    assert_eq!(session(&bench), DIRECT);
    let program = installed_hello(&bench).join("package.json");
    let mut text = fs::read_to_string(&program).expect("a manifest");
    text.push('\n');
    fs::write(&program, text).expect("a manifest");

    let agent = agent(&bench);
    let refused = agent.use_tool(["box", "hello", "echo"], json!({"message": "ahoy"})).text();
    bench.settings().bind(|| insta::assert_snapshot!(refused));
    let arguments = json!({"timezone": "Asia/Tokyo"});
    let said = agent.use_tool(["box", "time", "get_current_time"], arguments).text();
    assert!(said.contains("+09:00"), "{said}");
    leave(&agent);
    let listed = bench.run(["check", "--details"]).stdout;
    let reason = "does not start: the cached package `mcp-hello-world` differs";
    assert!(listed.contains(&format!("`box/hello` {reason}")), "{listed}");

    let (_, folder) = refused.split_once("delete `").expect("a hint");
    let (folder, _) = folder.split_once('`').expect("a folder");
    fs::remove_dir_all(folder).expect("the changed copy");
    assert_eq!(session(&bench), Starts { npx: true, uvx: false });
    assert_eq!(session(&bench), DIRECT);
}
