//! Latency of a well-behaved client while 200 hostile clients attack the same workbench. Prints a
//! table; it asserts nothing.
//!
//! Run with `cargo bench --bench hostile`. The client calls a fast tool 200 times a second, in
//! turns without and with the hostile clients, so that both figures see the same machine load. The
//! hostile clients use another token or an invalid one; `hostile/crowd.rs` lists what they do. They
//! and their servers run with `chrt --idle` (Linux), so that the figures show the workbench and not
//! the CPU scheduler. The goal is a p99 below twice the p99 without them.
#![allow(
    clippy::cast_precision_loss,
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a developer tool: it spawns, prints and panics on errors"
)]

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

#[path = "http/connection.rs"]
mod connection;
#[path = "hostile/crowd.rs"]
mod crowd;
#[path = "http/program.rs"]
mod program;

use connection::Connection;
use crowd::HostileClients;
use program::Program;

const GOOD: &str = "a-token-of-the-good-client";
const BAD: &str = "a-token-of-all-the-others";
/// The pace of the client: `CONNECTIONS` connections, one call per `EVERY` on each.
const CONNECTIONS: u32 = 4;
const EVERY: Duration = Duration::from_millis(20);
const TURN: Duration = Duration::from_secs(10);
const TURNS: usize = 4;

fn main() {
    let folder = TempDir::new().expect("a temporary folder");
    let program = Program::start(&folder, &config());
    // Warm up: start the servers and fault in the code.
    calls(program.address, Duration::from_secs(1));
    let (mut alone, mut beside, mut done) = (Vec::new(), Vec::new(), [0; crowd::KINDS.len()]);
    for _ in 0..TURNS {
        alone.extend(calls(program.address, TURN));
        let clients = HostileClients::gather(program.address, BAD);
        // Let all hostile clients get going.
        thread::sleep(Duration::from_secs(2));
        clients.forget();
        beside.extend(calls(program.address, TURN));
        for (sum, count) in done.iter_mut().zip(clients.leave()) {
            *sum += count;
        }
    }
    println!("{:<44}{:>12}{:>12}", "hostile clients", "connections", "per second");
    for (kind, count) in crowd::KINDS.iter().zip(done) {
        let rate = count as f64 / TURN.as_secs_f64() / TURNS as f64;
        println!("{:<44}{:>12}{rate:>12.1}", kind.does, kind.connections);
    }
    println!("\n{:<44}{:>12}{:>12}{:>12}", "µs, one call of the good client", "p50", "p99", "max");
    let [alone, beside] = [("without hostile clients", alone), ("with hostile clients", beside)]
        .map(|(name, times)| {
            let figures = figures(times);
            let [p50, p99, max] = figures;
            println!("{name:<44}{p50:>12.1}{p99:>12.1}{max:>12.1}");
            figures
        });
    let [p50, p99] = [beside[0] / alone[0], beside[1] / alone[1]];
    println!("{:<44}{p50:>12.2}{p99:>12.2}", "÷");
}

/// One server that both sides share, and two only for the hostile clients, so that a busy server
/// doesn't distort the client's latency.
fn config() -> Value {
    let program = env!("CARGO_BIN_EXE_fake-mcp-server");
    let server = |script: Value| json!({ "command": program, "args": [script.to_string()] });
    let theirs = |script: Value| json!({ "command": "chrt", "args": ["--idle", "0", program, script.to_string()] });
    let entry = |agent: &str, token: &str| {
        let digest = Sha256::digest(token.as_bytes());
        let sha256 = hex::encode(digest);
        json!({ "agent": agent, "sha256": sha256 })
    };
    json!({
        "toolMode": "proxy",
        "auth": { "tokens": [entry("good", GOOD), entry("bad", BAD)] },
        "toolboxes": { "box": { "description": "Test tools", "mcpServers": {
            "srv": server(json!({ "lean": true, "tools": ["echo"] })),
            "long": theirs(json!({ "lean": true, "tools": ["echo"] })),
            "slow": theirs(json!({ "tools": ["sleep"] })),
        } } },
    })
}

fn calls(address: SocketAddr, how_long: Duration) -> Vec<Duration> {
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CONNECTIONS)
            .map(|number| {
                scope.spawn(move || {
                    let mut connection = Connection::open(address, Some(GOOD));
                    let session = connection.begin();
                    let begun = Instant::now();
                    // Spreads the connections over the interval.
                    let mut next = begun + EVERY * number / CONNECTIONS;
                    let mut times = Vec::new();
                    while begun.elapsed() < how_long {
                        thread::sleep(next.saturating_duration_since(Instant::now()));
                        times.push(connection.call(&session));
                        next += EVERY;
                    }
                    times
                })
            })
            .collect();
        clients.into_iter().flat_map(|client| client.join().expect("call times")).collect()
    })
}

/// Returns p50, p99 and maximum in microseconds.
fn figures(mut times: Vec<Duration>) -> [f64; 3] {
    times.sort_unstable();
    [50, 99, 100].map(|percent| times[(times.len() - 1) * percent / 100].as_secs_f64() * 1e6)
}
