//! The calls of a good client while 200 others do what they can against it: a table, not a test.
//!
//! `cargo bench --bench hostile`. The good client, with its token, calls a fast tool 200 times a second,
//! first alone, then beside the others, who have another token or a wrong one (`hostile/crowd.rs` says
//! what they do, and how often); this in turns, so that what else the machine does is in both. The others
//! mostly wait, and they and their servers run only when nobody else wants to (`chrt --idle`, on Linux),
//! so that it is the program that is measured, and not whose turn it is on two processors. A call is to
//! take less than twice its usual p99 beside them.
#![allow(
    clippy::cast_precision_loss,
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a program for developers: it spawns, prints, and gives up where it cannot go on"
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
use crowd::Crowd;
use program::Program;

const GOOD: &str = "a-token-of-the-good-client";
const BAD: &str = "a-token-of-all-the-others";
/// From how many connections the good client calls, how often from each, and for how long at a time.
const CONNECTIONS: u32 = 4;
const EVERY: Duration = Duration::from_millis(20);
const TURN: Duration = Duration::from_secs(10);
const TURNS: usize = 4;

fn main() {
    let folder = TempDir::new().expect("a temporary folder");
    let program = Program::start(&folder, &config());
    // What is there once and for all: the servers, the code that runs.
    calls(program.address, Duration::from_secs(1));
    let (mut alone, mut beside, mut done) = (Vec::new(), Vec::new(), [0; crowd::KINDS.len()]);
    for _ in 0..TURNS {
        alone.extend(calls(program.address, TURN));
        let crowd = Crowd::gather(program.address, BAD);
        // Until all of them are at it.
        thread::sleep(Duration::from_secs(2));
        crowd.forget();
        beside.extend(calls(program.address, TURN));
        for (sum, count) in done.iter_mut().zip(crowd.leave()) {
            *sum += count;
        }
    }
    println!("{:<44}{:>12}{:>12}", "what the others do", "connections", "a second");
    for (kind, count) in crowd::KINDS.iter().zip(done) {
        let rate = count as f64 / TURN.as_secs_f64() / TURNS as f64;
        println!("{:<44}{:>12}{rate:>12.1}", kind.does, kind.connections);
    }
    println!("\n{:<44}{:>12}{:>12}{:>12}", "µs, a call of the good client", "p50", "p99", "max");
    let [alone, beside] = [("alone", alone), ("beside the others", beside)].map(|(name, times)| {
        let figures = figures(times);
        let [p50, p99, max] = figures;
        println!("{name:<44}{p50:>12.1}{p99:>12.1}{max:>12.1}");
        figures
    });
    let [p50, p99] = [beside[0] / alone[0], beside[1] / alone[1]];
    println!("{:<44}{p50:>12.2}{p99:>12.2}", "÷");
}

/// A server that both have, and two for the others alone, so that it is not the server that is measured:
/// one for what is long, and one that takes as long as it is told.
fn config() -> Value {
    let program = env!("CARGO_BIN_EXE_fake-mcp-server");
    let server = |script: Value| json!({ "command": program, "args": [script.to_string()] });
    let theirs = |script: Value| json!({ "command": "chrt", "args": ["--idle", "0", program, script.to_string()] });
    let entry = |agent: &str, token: &str| {
        let digest = Sha256::digest(token.as_bytes());
        let sha256 = digest.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
        json!({ "agent": agent, "sha256": sha256 })
    };
    json!({
        "toolMode": "proxy",
        "auth": { "tokens": [entry("good", GOOD), entry("bad", BAD)] },
        "toolboxes": { "box": { "description": "To measure with", "mcpServers": {
            "srv": server(json!({ "lean": true, "tools": ["echo"] })),
            "long": theirs(json!({ "lean": true, "tools": ["echo"] })),
            "slow": theirs(json!({ "tools": ["sleep"] })),
        } } },
    })
}

/// Makes calls at a steady pace for a while; what each takes.
fn calls(address: SocketAddr, how_long: Duration) -> Vec<Duration> {
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CONNECTIONS)
            .map(|number| {
                scope.spawn(move || {
                    let mut connection = Connection::open(address, Some(GOOD));
                    let session = connection.begin();
                    let begun = Instant::now();
                    // Not all at the same moment.
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
        clients.into_iter().flat_map(|client| client.join().expect("its calls")).collect()
    })
}

/// The p50, the p99 and the most of some times, in microseconds.
fn figures(mut times: Vec<Duration>) -> [f64; 3] {
    times.sort_unstable();
    [50, 99, 100].map(|percent| times[(times.len() - 1) * percent / 100].as_secs_f64() * 1e6)
}
