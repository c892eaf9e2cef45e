//! The cost of many servers and many agents, beside one of each: a table, not a test.
//!
//! `cargo bench --bench open`. Fifty servers of a hundred tools are opened, and one server of five
//! thousand; nothing is known of any before. Processor time is that of the workbench alone
//! (`/proc/<pid>/task/*/schedstat`). Wall time is until the client has all tools, beside relays that only
//! copy lines, one for each server, all of which are asked at once; in `dynamic` mode the answer to
//! `open_toolbox` waits for the client's model besides, which is a time of its own. Then named agents come
//! over HTTP who may all use the same: what each costs is what the program has more of its own memory
//! (`/proc/<pid>/smaps_rollup`).
#![allow(
    clippy::cast_precision_loss,
    clippy::disallowed_methods,
    clippy::exit,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a program for developers: it spawns, prints, and gives up where it cannot go on"
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
mod measured;
#[path = "stdio/relay.rs"]
mod relay;

use agents::Agents;
use client::{Call, Client};

/// How many servers, and how many tools each of them has.
const SHAPES: [(usize, usize); 2] = [(1, 5_000), (50, 100)];
const ROUNDS: usize = 5;
const MODES: [&str; 7] =
    ["dynamic", "proxy", "search", "navigate", "direct", "activate", "modular"];
/// As the first argument, makes this program a relay before the server with the second.
const RELAY: &str = "--relay";
/// How many agents come before what one more costs is measured, and how many then.
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

/// So many servers with so many tools, ready to be started.
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
        // The program watches the folder of its configuration, and servers read their scripts.
        let folder = folder.join("configurations");
        fs::create_dir(&folder).expect("a folder");
        Self { name: format!("{servers} × {tools}"), scripts, folder, tools: servers * tools }
    }

    /// A configuration with all of them in one toolbox, and this besides.
    fn configuration(&self, name: &str, more: Value) -> PathBuf {
        let servers = self.scripts.iter().enumerate().map(|(number, script)| {
            let command = env!("CARGO_BIN_EXE_fake-mcp-server");
            let entry = json!({ "command": command, "args": [argument(script)] });
            (format!("srv{number}"), entry)
        });
        let servers: Map<_, _> = servers.collect();
        let toolbox = json!({ "description": "Tools to measure with", "mcpServers": servers });
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

/// A tool of an ordinary size.
fn definition(server: usize, tool: usize) -> Value {
    let property = json!({ "type": "string", "description": "What to say again" });
    json!({
        "name": format!("say_{server}_{tool}"),
        "description": "Says again what it is told. ".repeat(15),
        "inputSchema": { "type": "object", "properties": { "text": property } },
    })
}

/// The server with this argument.
fn server(argument: &str) -> Command {
    let mut command = bare(env!("CARGO_BIN_EXE_fake-mcp-server"));
    command.arg(argument);
    command
}

/// The program, which knows nothing of any server.
fn program(config: &Path, args: &[&str]) -> Command {
    let cache = config.with_extension("cache");
    // What it knew before is no more.
    let _ = fs::remove_dir_all(&cache);
    let mut command = bare(measured::program());
    command.args(args).arg("--config").arg(config).arg("--cache-dir").arg(cache);
    command
}

/// A command that inherits nothing but the search path.
fn bare(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command
}

/// Prints what it takes until everything is open and the client has the tools.
fn print_openings(shapes: &[Shape; 2]) {
    let heads = ["processor", "wall", "relays", "÷", "answered"];
    println!("{:<44}{}", "ms, median", heads.map(|head| format!("{head:>12}")).concat());
    for mode in ["dynamic", "proxy", "direct"] {
        let mut processor = Vec::new();
        for shape in shapes {
            let config = shape.configuration(mode, json!({ "toolMode": mode }));
            let mut measured = [const { Vec::new() }; 4];
            for _ in 0..ROUNDS {
                let Opened { processor, wall, answered } = opened(&config, mode, shape.tools);
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
        println!("{:<44}{:>12.2}", "  processor time, many ÷ one", processor[1] / processor[0]);
    }
}

/// The time that it takes to open everything.
struct Opened {
    /// Processor time of ours.
    processor: Duration,
    /// From the start until the client has all tools.
    wall: Duration,
    /// From the start until it has been answered last.
    answered: Duration,
}

/// Opens everything in a workbench of its own.
fn opened(config: &Path, mode: &str, tools: usize) -> Opened {
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
            // Other answers are lists, for which it asks when it hears that they have changed.
            while agent.receive() != call {
                if has_all.is_none() && count(&agent) >= tools {
                    has_all = Some(start.elapsed());
                }
            }
            has_all.expect("all tools are listed before the call is answered")
        }
    };
    Opened { processor: processor_time(agent.pid()), wall, answered: start.elapsed() }
}

fn open() -> Call {
    Call::new("open_toolbox", r#"{"toolbox":"box"}"#)
}

/// How many tools the last answer lists.
fn count(agent: &Client) -> usize {
    agent.answer().matches("inputSchema").count()
}

/// How long it takes to have the tools of all servers through a relay each.
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

/// The processor time that a process has used.
fn processor_time(pid: u32) -> Duration {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).expect("Linux tells");
    let nanoseconds = threads.filter_map(|thread| {
        let text = fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanoseconds.sum())
}

/// Prints how long the greeting takes where nothing is known of any server.
fn print_greetings(shape: &Shape) {
    println!("\n{:<44}{:>12}{:>12}", "ms, from start to `initialize` answered", "median", "max");
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

/// Prints what one more named agent costs, when it has looked at all there is.
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
        println!("{:<44}{each:>12.1}", format!("{mode}: a further named agent"));
    }
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    millis(times[times.len() / 2])
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
