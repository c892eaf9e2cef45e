//! Cost of many servers and many agents compared with one of each. Prints tables; it asserts
//! nothing.
//!
//! Run with `cargo bench --bench open`. Opens fifty servers of a hundred tools, and one server of
//! five thousand, without cached listings. Processor time covers only the workbench
//! (`/proc/<pid>/task/*/schedstat`). Wall time ends when the client has all tools. The baseline is
//! one relay per server, all queried in parallel. In `dynamic` mode the response to `open_toolbox`
//! also waits for the client to list the tools, so its time is a column of its own. Then named
//! agents with equal permissions connect over HTTP. The cost of each is the growth of the
//! workbench's anonymous memory (`/proc/<pid>/smaps_rollup`).
#![allow(
    clippy::cast_precision_loss,
    clippy::disallowed_methods,
    clippy::exit,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a developer tool: it spawns, prints and panics on errors"
)]

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use tempfile::TempDir;

#[path = "open/agents.rs"]
mod agents;
#[path = "stdio/client.rs"]
mod client;
mod program_under_test;
#[path = "stdio/relay.rs"]
mod relay;

use agents::Agents;
use client::{Call, Client};

/// Numbers of servers and of tools per server.
const SHAPES: [(usize, usize); 2] = [(1, 5_000), (50, 100)];
const ROUNDS: usize = 5;
const MODES: [&str; 7] =
    ["dynamic", "proxy", "search", "navigate", "direct", "activate", "modular"];
/// `--relay ARGUMENT` runs this program as a relay to a fake server.
const RELAY: &str = "--relay";
/// The number of agents before the measurement, and the number at its end.
const AGENTS: [usize; 2] = [20, 100];

fn main() {
    let arguments: Vec<_> = std::env::args().collect();
    if let [_, first, argument] = arguments.as_slice()
        && first == RELAY
    {
        return relay::run(server(argument));
    }
    let folder = TempDir::new().expect("a temporary folder");
    let shapes = SHAPES.map(|shape| Shape::new(folder.path(), shape));
    print_openings(&shapes);
    print_greetings(&shapes[1]);
    for shape in &shapes {
        print_agents(shape);
    }
}

struct Shape {
    name: String,
    scripts: Vec<PathBuf>,
    folder: PathBuf,
    tools: usize,
}

impl Shape {
    fn new(folder: &Path, (servers, tools): (usize, usize)) -> Self {
        let folder = folder.join(format!("{servers}x{tools}"));
        fs::create_dir(&folder).expect("a folder");
        let scripts = (0..servers).map(|server| {
            let tools: Vec<_> = (0..tools).map(|tool| definition(server, tool)).collect();
            let script = folder.join(format!("{server}.script.json"));
            fs::write(&script, json!({ "lean": true, "tools": tools }).to_string())
                .expect("a file");
            script
        });
        let scripts = scripts.collect();
        // A folder of its own: the workbench watches the folder of its configuration, and the
        // servers read their scripts.
        let folder = folder.join("configurations");
        fs::create_dir(&folder).expect("a folder");
        Self { name: format!("{servers} × {tools}"), scripts, folder, tools: servers * tools }
    }

    /// Writes a configuration with all servers in one toolbox and the keys of `more`.
    fn configuration(&self, name: &str, more: Value) -> PathBuf {
        let servers = self.scripts.iter().enumerate().map(|(number, script)| {
            let command = env!("CARGO_BIN_EXE_fake-mcp-server");
            let entry = json!({ "command": command, "args": [argument(script)] });
            (format!("srv{number}"), entry)
        });
        let servers: Map<_, _> = servers.collect();
        let toolbox = json!({ "description": "Test tools", "mcpServers": servers });
        let mut config = json!({ "toolboxes": { "box": toolbox } });
        if let (Some(config), Value::Object(more)) = (config.as_object_mut(), more) {
            config.extend(more);
        }
        let file = self.folder.join(format!("{name}.json"));
        fs::write(&file, config.to_string()).expect("a file");
        file
    }
}

fn argument(script: &Path) -> String {
    format!("@{}", script.display())
}

fn definition(server: usize, tool: usize) -> Value {
    let property = json!({ "type": "string", "description": "Text to be echoed" });
    json!({
        "name": format!("say_{server}_{tool}"),
        "description": "Returns the text unchanged. ".repeat(15),
        "inputSchema": { "type": "object", "properties": { "text": property } },
    })
}

fn server(argument: &str) -> Command {
    let mut command = bare(env!("CARGO_BIN_EXE_fake-mcp-server"));
    command.arg(argument);
    command
}

/// The workbench with an empty listing cache.
fn program(config: &Path, args: &[&str]) -> Command {
    let cache = config.with_extension("cache");
    // The folder is missing on the first run.
    let _ = fs::remove_dir_all(&cache);
    let mut command = bare(program_under_test::program());
    command.args(args).arg("--config").arg(config).arg("--cache-dir").arg(cache);
    command
}

/// A command that inherits only `PATH`.
fn bare(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command
}

fn print_openings(shapes: &[Shape; 2]) {
    let heads = ["processor", "wall", "relays", "÷", "answered"];
    println!("{:<44}{}", "ms, median", heads.map(|head| format!("{head:>12}")).concat());
    for mode in ["dynamic", "proxy", "direct"] {
        let mut processor = Vec::new();
        for shape in shapes {
            let config = shape.configuration(mode, json!({ "toolMode": mode }));
            let mut measured = [const { Vec::new() }; 4];
            for _ in 0..ROUNDS {
                let OpenTimings { processor, wall, answered } = opened(&config, mode, shape.tools);
                let round = [processor, wall, relayed(shape), answered];
                measured.iter_mut().zip(round).for_each(|(of, time)| of.push(time));
            }
            let [ours, wall, relays, answered] = measured.map(median);
            processor.push(ours);
            println!(
                "{:<44}{ours:>12.1}{wall:>12.1}{relays:>12.1}{:>12.2}{answered:>12.1}",
                format!("{mode}: {}", shape.name),
                wall / relays,
            );
        }
        println!("{:<44}{:>12.2}", "  CPU time, many ÷ one", processor[1] / processor[0]);
    }
}

struct OpenTimings {
    processor: Duration,
    /// From the start until the client has all tools.
    wall: Duration,
    /// From the start until the last response.
    answered: Duration,
}

fn opened(config: &Path, mode: &str, tools: usize) -> OpenTimings {
    let start = Instant::now();
    let mut agent = Client::start(program(config, &["serve"]));
    agent.initialize();
    let wall = match mode {
        "direct" => {
            agent.request("tools/list", "{}");
            let elapsed = start.elapsed();
            assert!(count(&agent) >= tools, "{} of {tools} tools are listed", count(&agent));
            elapsed
        }
        "proxy" => {
            agent.call(&open());
            start.elapsed()
        }
        _ => {
            agent.follows = true;
            let call = agent.send(&open());
            let mut has_all = None;
            // Responses in between are tool lists, requested after each `list_changed`.
            while agent.receive() != call {
                if has_all.is_none() && count(&agent) >= tools {
                    has_all = Some(start.elapsed());
                }
            }
            has_all.expect("the tools are listed before the response")
        }
    };
    OpenTimings { processor: processor_time(agent.pid()), wall, answered: start.elapsed() }
}

fn open() -> Call {
    Call::new("open_toolbox", r#"{"toolbox":"box"}"#)
}

fn count(agent: &Client) -> usize {
    agent.answer().matches("inputSchema").count()
}

fn relayed(shape: &Shape) -> Duration {
    let this = std::env::current_exe().expect("a running program has a path");
    let start = Instant::now();
    let clients = shape.scripts.iter().map(|script| {
        let mut relay = bare(&this);
        relay.arg(RELAY).arg(argument(script));
        Client::start(relay)
    });
    let mut clients: Vec<_> = clients.collect();
    std::thread::scope(|scope| {
        for client in &mut clients {
            scope.spawn(|| {
                client.initialize();
                client.request("tools/list", "{}");
            });
        }
    });
    start.elapsed()
}

fn processor_time(pid: u32) -> Duration {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).expect("a file in /proc");
    let nanoseconds = threads.filter_map(|thread| {
        let text = fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanoseconds.sum())
}

fn print_greetings(shape: &Shape) {
    println!("\n{:<44}{:>12}{:>12}", "ms, start until response to `initialize`", "median", "max");
    for mode in MODES {
        let config = shape.configuration(mode, json!({ "toolMode": mode }));
        let time = |_| {
            let start = Instant::now();
            let mut agent = Client::start(program(&config, &["serve"]));
            agent.initialize();
            start.elapsed()
        };
        let times: Vec<_> = (0..ROUNDS).map(time).collect();
        let max = times.iter().max().copied().unwrap_or_default();
        println!("{:<44}{:>12.1}{:>12.1}", mode, median(times), millis(max));
    }
}

fn print_agents(shape: &Shape) {
    println!("\n{:<44}{:>12}", format!("KB, {} tools", shape.name), "each");
    let [before, after] = AGENTS;
    for mode in ["dynamic", "proxy"] {
        let more = json!({ "toolMode": mode, "search": true });
        let mut agents = Agents::serve(after, |more_of_it| {
            let mut more = more.clone();
            if let (Some(more), Value::Object(of_it)) = (more.as_object_mut(), more_of_it) {
                more.extend(of_it);
            }
            let config = shape.configuration(&format!("{mode}-http"), more);
            let mut command = program(&config, &["serve", "--http", "127.0.0.1:0"]);
            command.stdin(Stdio::null()).stderr(Stdio::piped());
            command
        });
        agents.come(0..before);
        let first = agents.memory();
        agents.come(before..after);
        let each = (agents.memory() - first) / (after - before) as f64;
        println!("{:<44}{each:>12.1}", format!("{mode}: each further named agent"));
    }
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    millis(times[times.len() / 2])
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
