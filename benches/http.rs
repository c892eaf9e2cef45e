//! Cost of many sessions over HTTP. Prints a table; it asserts nothing.
//!
//! Run with `cargo bench --bench http`. The cost of a session is the growth of the workbench's
//! anonymous memory (`/proc/<pid>/smaps_rollup`) with a thousand sessions. Throughput is compared
//! with a relay that only copies messages, in the same run.
#![allow(
    clippy::cast_precision_loss,
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a developer tool: it spawns, prints and panics on errors"
)]

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;
use tempfile::TempDir;

#[path = "http/load.rs"]
mod load;
#[path = "http/program.rs"]
mod program;
#[path = "http/relay.rs"]
mod relay;

use load::Load;
use program::Program;

const SESSIONS: usize = 1_000;
const LISTENING: usize = 200;
/// Calls per session, and the numbers of concurrent clients.
const CALLS: usize = 10;
const CLIENTS: [usize; 2] = [1, 16];
/// For the comparison with the relay: concurrent clients, total calls and rounds.
const BESIDE: [usize; 2] = [1, 32];
const CALLS_BESIDE: usize = 20_000;
const ROUNDS: usize = 5;
/// `--relay SCRIPT` runs this program as a relay to a fake server.
const RELAY: &str = "--relay";

fn main() {
    if let (Some(first), Some(script)) = (std::env::args().nth(1), std::env::args().nth(2))
        && first == RELAY
    {
        let mut server = Command::new(env!("CARGO_BIN_EXE_fake-mcp-server"));
        server.arg(script);
        return relay::run(server);
    }
    let folder = TempDir::new().expect("a temporary folder");
    let server = ours(&folder);
    // Warm up: start the server and fault in the code.
    drop(Load::begin(server.address, 50).call(2, 2));
    let before = memory(&server);
    let mut load = Load::begin(server.address, SESSIONS);
    let idle = memory(&server);
    load.listen(LISTENING);
    let listening = memory(&server);
    println!("{:<52}{:>12}", "bytes", "each");
    print_bytes("an idle session", idle - before, SESSIONS);
    print_bytes("an open stream with its connection", listening - idle, LISTENING);
    println!("\n{:<52}{:>12}{:>12}{:>12}", "µs, one call", "p50", "p99", "max");
    for clients in CLIENTS {
        let times = load.call(CALLS, clients);
        let [p50, p99, max] = [50, 99, 100].map(|percent| micros(&times, percent));
        let name = format!("{SESSIONS} sessions, {clients} concurrent");
        println!("{name:<52}{p50:>12.1}{p99:>12.1}{max:>12.1}");
    }
    print_bytes("\na session after the calls", memory(&server) - listening, load.sessions.len());
    drop((load, server));
    beside_the_relay(&folder);
}

fn beside_the_relay(folder: &TempDir) {
    println!("\n{:<52}{:>12}{:>12}{:>12}", "calls/s, median", "workbench", "relay", "÷");
    for clients in BESIDE {
        let mut measured = [Vec::new(), Vec::new()];
        for _ in 0..ROUNDS {
            let server = ours(folder);
            measured[0].push(speed(server.address, clients));
            let beside = relay();
            measured[1].push(speed(beside.address, clients));
        }
        let [ours, relay] = measured.map(|mut speeds| {
            speeds.sort_by(f64::total_cmp);
            speeds[speeds.len() / 2]
        });
        let name = format!("{clients} in flight");
        println!("{name:<52}{ours:>12.0}{relay:>12.0}{:>12.2}", ours / relay);
    }
}

fn speed(address: SocketAddr, clients: usize) -> f64 {
    let load = Load::begin(address, clients);
    load.call(CALLS_BESIDE / clients / 10, clients);
    let began = Instant::now();
    let calls = load.call(CALLS_BESIDE / clients, clients).len();
    calls as f64 / began.elapsed().as_secs_f64()
}

fn print_bytes(name: &str, bytes: f64, count: usize) {
    println!("{name:<52}{:>12.0}", bytes / count as f64);
}

fn micros(sorted: &[Duration], percent: usize) -> f64 {
    sorted[(sorted.len() - 1) * percent / 100].as_secs_f64() * 1e6
}

fn script() -> String {
    json!({ "lean": true, "tools": ["echo"] }).to_string()
}

fn ours(folder: &TempDir) -> Program {
    let server = json!({ "command": env!("CARGO_BIN_EXE_fake-mcp-server"), "args": [script()] });
    let toolbox = json!({ "description": "Test tools", "mcpServers": { "srv": server } });
    let config = json!({
        "toolMode": "proxy",
        "http": { "maxSessions": SESSIONS + 100 },
        "limits": { "perCaller": { "maxSessions": SESSIONS + 100, "sessionsPerMinute": 1_000_000 } },
        "toolboxes": { "box": toolbox },
    });
    Program::start(folder, &config)
}

fn relay() -> Program {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.arg(RELAY).arg(script()).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("this executable starts");
    let mut said = String::new();
    let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
    stdout.read_line(&mut said).expect("an address");
    Program { child, address: said.trim().parse().expect("an address") }
}

/// The anonymous memory of the program, in bytes.
fn memory(program: &Program) -> f64 {
    let text = fs::read_to_string(format!("/proc/{}/smaps_rollup", program.child.id()));
    let text = text.expect("a file in /proc");
    let line = text.lines().find_map(|line| line.strip_prefix("Pss_Anon:"));
    let kb = line.and_then(|line| line.split_whitespace().next());
    kb.and_then(|kb| kb.parse::<f64>().ok()).expect("a number") * 1024.0
}
