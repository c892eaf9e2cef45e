//! Startup time with cached tool listings. Prints a table; it asserts nothing.
//!
//! Run with `cargo bench --bench warm`. Fifty servers of ten tools run once to fill the cache. Then
//! the program is started repeatedly and its tools are listed.
#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a developer tool: it spawns, prints and panics on errors"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use tempfile::TempDir;

#[path = "stdio/client.rs"]
#[allow(dead_code, reason = "this benchmark makes no calls")]
mod client;

use client::Client;

/// The modes that show tools before anything has been opened.
const MODES: [&str; 3] = ["activate", "modular", "direct"];
const TOOLBOXES: usize = 10;
const SERVERS: usize = 5;
const STARTS: usize = 30;

fn main() {
    let folder = TempDir::new().expect("a temporary folder");
    let folder = folder.path();
    println!("{} servers with 10 tools each\n", TOOLBOXES * SERVERS);
    println!("{:<52}{:>12}{:>12}{:>12}", "ms", "median", "min", "max");
    for mode in MODES {
        let config = configuration(folder, mode);
        let cold = Client::start(program(&config, &folder.join("empty"), &["serve"]));
        let (greeted, listed) = first_list(cold);
        print_times(
            &format!("{mode}: `initialize` and `tools/list`, empty cache"),
            &[greeted + listed],
        );
        let cache = folder.join("cache");
        let time = run(program(&config, &cache, &["cache", "refresh"]));
        print_times("`cache refresh`", &[time]);
        let time = |_| first_list(Client::start(program(&config, &cache, &["serve"])));
        let (greeted, listed): (Vec<_>, Vec<_>) = (0..STARTS).map(time).unzip();
        print_times(&format!("{mode}: start until response to `initialize`"), &greeted);
        print_times(&format!("{mode}: then until response to `tools/list`"), &listed);
        let time = |_| run(program(&config, &cache, &["list"]));
        print_times("`list`, start to exit", &(0..STARTS).map(time).collect::<Vec<_>>());
    }
}

/// Returns the time of the handshake, including the start, and the time of the list after it.
fn first_list(mut agent: Client) -> (Duration, Duration) {
    let start = Instant::now();
    agent.initialize();
    let greeted = start.elapsed();
    agent.request("tools/list", "{}");
    let listed = start.elapsed().saturating_sub(greeted);
    let answer = agent.answer();
    let told = (0..TOOLBOXES).filter(|toolbox| answer.contains(&format!("box{toolbox}"))).count();
    let defined = answer.matches("inputSchema").count();
    assert!(
        told == TOOLBOXES || defined == TOOLBOXES * SERVERS * 10,
        "the list is incomplete: {answer}"
    );
    (greeted, listed)
}

fn run(mut command: Command) -> Duration {
    let start = Instant::now();
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    assert!(status.is_ok_and(|status| status.success()), "{command:?} failed");
    start.elapsed()
}

fn configuration(folder: &Path, mode: &str) -> PathBuf {
    let mut toolboxes = Map::new();
    for toolbox in 0..TOOLBOXES {
        let mut servers = Map::new();
        for server in 0..SERVERS {
            let name = format!("s{toolbox}x{server}");
            let tools: Vec<_> = (0..10).map(|number| tool(&format!("{name}_{number}"))).collect();
            let script = folder.join(format!("{name}.script.json"));
            fs::write(&script, json!({ "tools": tools }).to_string()).expect("a file");
            let argument = format!("@{}", script.display());
            let command = env!("CARGO_BIN_EXE_fake-mcp-server");
            servers.insert(name, json!({ "command": command, "args": [argument] }));
        }
        let entry = json!({ "description": "Test tools", "mcpServers": servers });
        toolboxes.insert(format!("box{toolbox}"), entry);
    }
    let config = folder.join(format!("{mode}.json"));
    let text = json!({ "toolMode": mode, "toolboxes": toolboxes }).to_string();
    fs::write(&config, text).expect("a file in the folder");
    config
}

fn tool(name: &str) -> Value {
    let property = json!({ "type": "string", "description": "Text to be echoed" });
    json!({
        "name": name,
        "description": "Returns the text unchanged. ".repeat(20),
        "inputSchema": { "type": "object", "properties": { "text": property } },
    })
}

/// The program, which inherits only `PATH`.
fn program(config: &Path, cache: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcp-workbench"));
    command.env_clear().args(args).arg("--config").arg(config).arg("--cache-dir").arg(cache);
    if let Some(path) = std::env::var_os("PATH") {
        command.env("PATH", path);
    }
    command
}

fn print_times(name: &str, times: &[Duration]) {
    let mut times = times.to_vec();
    times.sort_unstable();
    let [median, min, max] =
        [50, 0, 100].map(|percent| times[(times.len() - 1) * percent / 100].as_secs_f64() * 1e3);
    println!("{name:<52}{median:>12.1}{min:>12.1}{max:>12.1}");
}
