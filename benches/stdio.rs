//! Cost of the gateway over stdio. Prints tables; it asserts nothing.
//!
//! Run with `cargo bench --bench stdio`. Calls are made directly, through a relay that only copies
//! lines, and through the gateway by registered name and by `use_tool`. The variants alternate
//! within one run, so that their ratios hold on a busy machine. `taskset -c 0` puts everything on
//! one CPU, which shows the pure path length.
#![allow(
    clippy::disallowed_methods,
    clippy::exit,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a developer tool: it spawns, prints and panics on errors"
)]

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use tempfile::TempDir;

#[path = "stdio/client.rs"]
mod client;
mod program_under_test;
#[path = "stdio/relay.rs"]
mod relay;

use client::{Call, Client};

const TOOLBOXES: usize = 10;
const SERVERS: usize = 5;
const SLOW: Duration = Duration::from_secs(3);
const RELAY: &str = "--relay";
const STARTS: usize = 40;
/// Timed first calls per variant.
const FIRST_CALLS: usize = 10;
const ROUNDS: usize = 20;
/// Name, bytes and calls per turn.
const SIZES: [(&str, usize, usize); 3] =
    [("100 B", 100, 300), ("10 KB", 10_000, 100), ("1 MB", 1_000_000, 4)];
const IN_FLIGHT: u32 = 32;
/// Calls per turn with `IN_FLIGHT` in flight.
const BURST: u32 = 5_000;
const BURSTS: usize = 10;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|arg| arg == RELAY) {
        relay::run(server(&args[1]));
        return;
    }
    let folder = TempDir::new().expect("a temporary folder");
    let lean = Script::new(folder.path(), Duration::ZERO);
    let slow = Gateway::new(folder.path(), &lean, &Script::new(folder.path(), SLOW));
    let fast = Gateway::new(folder.path(), &lean, &lean);

    // Measure memory first: a second gateway would share the pages of the executable.
    let mut memory = memory_of_servers(&fast);
    println!("{} servers configured\n", TOOLBOXES * SERVERS);
    println!("{:<52}{:>12}{:>12}{:>12}", "ms", "median", "min", "max");
    print_times("start until response to `initialize`", &starts(&slow));
    for (name, call) in spellings(SIZES[0].1) {
        let title = format!("first call with a cold server, by {name}");
        print_times(&title, &first_calls(&slow, &call, false));
        print_times(
            &format!("  while open_toolbox waits {} s for another server", SLOW.as_secs()),
            &first_calls(&slow, &call, true),
        );
    }
    let mut ways = Ways::start(&fast, &lean);
    print_latencies(&mut ways);
    print_throughput(&mut ways);
    memory.push(("after the calls above", Memory::of(&ways.clients[2])));
    println!("\n{:<52}{:>12}{:>12}{:>12}", "MB", "peak RSS", "PSS", "own");
    for (name, memory) in memory {
        println!(
            "{name:<52}{:>12.1}{:>12.1}{:>12.1}",
            memory.peak, memory.proportional, memory.own
        );
    }
}

fn memory_of_servers(gateway: &Gateway) -> Vec<(&'static str, Memory)> {
    let mut agent = gateway.agent();
    agent.request("tools/list", "{}");
    let at_rest = Memory::of(&agent);
    for toolbox in 0..TOOLBOXES {
        let toolbox = json!({ "toolbox": format!("box{toolbox}") });
        agent.call(&Call::new("open_toolbox", &toolbox.to_string()));
    }
    vec![
        ("idle, no server started", at_rest),
        ("all servers started, 10 tools each", Memory::of(&agent)),
    ]
}

struct Script {
    argument: String,
    name: String,
}

impl Script {
    fn new(folder: &Path, start_delay: Duration) -> Self {
        let tool = |number: usize| {
            let property = json!({ "type": "string", "description": "Text to be echoed" });
            json!({
                "name": format!("echo{number}"),
                "description": "Returns the text unchanged. ".repeat(20),
                "inputSchema": {
                    "type": "object",
                    "properties": { "text": property },
                    "required": ["text"],
                },
            })
        };
        let tools: Vec<Value> = (0..10).map(tool).collect();
        let delay = u64::try_from(start_delay.as_millis()).unwrap_or(u64::MAX);
        let script = json!({ "lean": true, "startDelayMs": delay, "tools": tools });
        let name = format!("starts-in-{delay}-ms");
        let path = folder.join(format!("{name}.script.json"));
        fs::write(&path, script.to_string()).expect("a file in the folder");
        let argument = format!("@{}", path.display());
        Self { argument, name }
    }

    fn server(&self) -> Command {
        server(&self.argument)
    }
}

struct Gateway {
    config: PathBuf,
}

impl Gateway {
    /// All servers use `script`, except the second server of the first toolbox, which uses `other`.
    fn new(folder: &Path, script: &Script, other: &Script) -> Self {
        let mut toolboxes = Map::new();
        for toolbox in 0..TOOLBOXES {
            let mut servers = Map::new();
            for server in 0..SERVERS {
                let is_other = (toolbox, server) == (0, 1);
                let script = if is_other { other } else { script };
                let entry = json!({
                    "command": env!("CARGO_BIN_EXE_fake-mcp-server"),
                    "args": [script.argument],
                });
                servers.insert(format!("srv{server}"), entry);
            }
            let entry = json!({ "description": "Test tools", "mcpServers": servers });
            toolboxes.insert(format!("box{toolbox}"), entry);
        }
        let config = folder.join(format!("{}.json", other.name));
        let text = json!({ "toolMode": "dynamic", "toolboxes": toolboxes }).to_string();
        fs::write(&config, text).expect("a file in the folder");
        Self { config }
    }

    fn start(&self) -> Client {
        let mut command = bare(program_under_test::program());
        command.arg("serve").arg("--config").arg(&self.config);
        // Don't touch the user's cache.
        command.arg("--cache-dir").arg(self.config.with_extension("cache"));
        Client::start(command)
    }

    fn agent(&self) -> Client {
        let mut agent = self.start();
        agent.initialize();
        agent
    }
}

fn server(argument: &str) -> Command {
    let mut command = bare(env!("CARGO_BIN_EXE_fake-mcp-server"));
    command.arg(argument);
    command
}

/// A command that inherits only `PATH`.
fn bare(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.env_clear();
    if let Some(path) = std::env::var_os("PATH") {
        command.env("PATH", path);
    }
    command
}

/// JSON arguments of about `size` bytes.
fn arguments(size: usize) -> String {
    json!({ "text": "x".repeat(size.saturating_sub(11)) }).to_string()
}

fn spellings(size: usize) -> [(&'static str, Call); 2] {
    let arguments = arguments(size);
    let tool = r#"{"toolbox":"box0","server":"srv0","tool":"echo0"}"#;
    let wrapped = format!(r#"{{"tool":{tool},"arguments":{arguments}}}"#);
    [
        ("registered name", Call::new("box0__srv0__echo0", &arguments)),
        ("use_tool", Call::new("use_tool", &wrapped)),
    ]
}

fn starts(gateway: &Gateway) -> Vec<Duration> {
    let time = |_| {
        let start = Instant::now();
        let _agent = gateway.agent();
        start.elapsed()
    };
    (0..STARTS).map(time).collect()
}

fn first_calls(gateway: &Gateway, call: &Call, while_opening: bool) -> Vec<Duration> {
    let time = |_| {
        let mut agent = gateway.agent();
        if while_opening {
            agent.send(&Call::new("open_toolbox", r#"{"toolbox":"box0"}"#));
        }
        let start = Instant::now();
        agent.call(call);
        let elapsed = start.elapsed();
        assert_echoed(&agent);
        elapsed
    };
    (0..FIRST_CALLS).map(time).collect()
}

fn assert_echoed(client: &Client) {
    let answer = client.answer();
    assert!(answer.contains("structuredContent"), "{answer}");
}

/// The measured variants; each has a client and its own form of the call.
struct Ways {
    clients: [Client; 3],
}

impl Ways {
    const NAMES: [&str; 4] = ["direct", "relay", "registered name", "use_tool"];
    const CLIENTS: [usize; 4] = [0, 1, 2, 2];

    fn start(gateway: &Gateway, script: &Script) -> Self {
        let this = std::env::current_exe().expect("a running program has a path");
        let mut relay = bare(&this);
        relay.args([RELAY, &script.argument]);
        let mut clients = [Client::start(script.server()), Client::start(relay), gateway.start()];
        clients.iter_mut().for_each(Client::initialize);
        Self { clients }
    }

    fn calls(size: usize) -> [Call; 4] {
        let own = || Call::new("echo0", &arguments(size));
        let [(_, registered), (_, use_tool)] = spellings(size);
        [own(), own(), registered, use_tool]
    }

    /// Runs `turn` for all variants alternately. Returns the sorted times of each variant.
    fn measure(
        &mut self,
        size: usize,
        rounds: usize,
        turn: impl Fn(&mut Client, &Call) -> Vec<Duration>,
    ) -> [Vec<Duration>; 4] {
        let calls = Self::calls(size);
        let mut measured = [const { Vec::new() }; 4];
        for (way, call) in calls.iter().enumerate() {
            let client = &mut self.clients[Self::CLIENTS[way]];
            turn(client, call);
            assert_echoed(client);
        }
        for _ in 0..rounds {
            for (way, call) in calls.iter().enumerate() {
                measured[way].extend(turn(&mut self.clients[Self::CLIENTS[way]], call));
            }
        }
        for times in &mut measured {
            times.sort_unstable();
        }
        measured
    }
}

fn print_latencies(ways: &mut Ways) {
    for (name, size, count) in SIZES {
        let times = ways.measure(size, ROUNDS, |client, call| {
            let time = |_| {
                let start = Instant::now();
                client.call(call);
                start.elapsed()
            };
            (0..count).map(time).collect()
        });
        println!(
            "\n{:<28}{:>12}{:>12}{:>12}{:>12}{:>12}",
            format!("µs, one call of {name}"),
            "p50",
            "p99",
            "added",
            "x direct",
            "x relay"
        );
        let medians = times.each_ref().map(|times| micros(quantile(times, 50)));
        for (way, times) in times.iter().enumerate() {
            let p50 = medians[way];
            println!(
                "{:<28}{p50:>12.1}{:>12.1}{:>12.1}{:>12.2}{:>12.2}",
                Ways::NAMES[way],
                micros(quantile(times, 99)),
                p50 - medians[0],
                p50 / medians[0],
                p50 / medians[1],
            );
        }
    }
}

fn print_throughput(ways: &mut Ways) {
    let (name, size, _) = SIZES[0];
    let times = ways.measure(size, BURSTS, |client, call| vec![burst(client, call)]);
    println!(
        "\n{:<28}{:>12}{:>12}",
        format!("{IN_FLIGHT} in flight, {name}"),
        "calls/s",
        "relay ÷"
    );
    let calls = f64::from(BURST);
    let rates = times.map(|times| calls / quantile(&times, 50).as_secs_f64());
    for (way, rate) in rates.iter().enumerate() {
        let name = Ways::NAMES[way];
        println!("{name:<28}{rate:>12.0}{:>12.2}", rates[1] / rate);
    }
}

fn burst(client: &mut Client, call: &Call) -> Duration {
    let start = Instant::now();
    for _ in 0..IN_FLIGHT {
        client.send(call);
    }
    for answered in 1..=BURST {
        client.receive();
        if answered + IN_FLIGHT <= BURST {
            client.send(call);
        }
    }
    start.elapsed()
}

/// Memory of a process according to `/proc`, in MB.
struct Memory {
    peak: f64,
    proportional: f64,
    /// Anonymous pages; excludes the executable, which the kernel can drop at any time.
    own: f64,
}

impl Memory {
    fn of(client: &Client) -> Self {
        let read = |file: &str, key: &str| {
            let text = fs::read_to_string(format!("/proc/{}/{file}", client.pid()));
            let text = text.unwrap_or_default();
            let line = text.lines().find_map(|line| line.strip_prefix(key));
            let number = line.and_then(|line| line.split_whitespace().next());
            number.and_then(|kb| kb.parse::<f64>().ok()).unwrap_or(f64::NAN) / 1024.0
        };
        Self {
            peak: read("status", "VmHWM:"),
            proportional: read("smaps_rollup", "Pss:"),
            own: read("smaps_rollup", "Pss_Anon:"),
        }
    }
}

fn print_times(name: &str, times: &[Duration]) {
    let mut times = times.to_vec();
    times.sort_unstable();
    let [median, min, max] = [50, 0, 100].map(|percent| micros(quantile(&times, percent)) / 1000.0);
    println!("{name:<52}{median:>12.1}{min:>12.1}{max:>12.1}");
}

fn quantile(sorted: &[Duration], percent: usize) -> Duration {
    sorted[(sorted.len() - 1) * percent / 100]
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
