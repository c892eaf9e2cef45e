//! How many agents several workbenches with a shared store can carry. Prints a table; it asserts
//! nothing.
//!
//! Run with `just load` or `cargo bench --bench load -- --replicas 3 --proxy haproxy --idle 10000
//! --busy 1000`. Idle sessions are opened first. Then busy agents take one step a second, and a few
//! as fast as they can. Finally one workbench is killed while they continue. The cost of a session
//! is the growth of the anonymous memory of all workbenches (`/proc/<pid>/smaps_rollup`).
#![allow(
    clippy::cast_precision_loss,
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a developer tool: it spawns, prints and panics on errors"
)]

use std::fs;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

#[path = "load/agent.rs"]
mod agent;
#[path = "load/fleet.rs"]
#[allow(dead_code, reason = "the tests use the rest")]
mod fleet;

use agent::{Line, Session, Step, StepError};
use fleet::{Fleet, Proxy};

/// The number of connections that the sessions share.
const LINES: usize = 64;
/// The interval between two steps of a busy agent.
const PACE: Duration = Duration::from_secs(1);

struct LoadOptions {
    replicas: usize,
    proxy: Proxy,
    idle: usize,
    busy: usize,
    seconds: u64,
}

fn main() {
    let wanted = LoadOptions::read(std::env::args().skip(1));
    let config = config(wanted.idle + wanted.busy);
    let program = env!("CARGO_BIN_EXE_mcp-workbench");
    let mut fleet = Fleet::start(program, wanted.replicas, wanted.proxy, |_| config.clone());
    let address = fleet.proxy.address;
    println!("{} workbenches behind {:?}, one store\n", wanted.replicas, wanted.proxy);
    // Warm up: start the servers and fault in the code.
    let warm = begin(address, 20 * wanted.replicas);
    drop(warm);

    println!("{:<44}{:>10}", "bytes", "each");
    let (before, store) = (memory(&fleet), store_memory(&fleet));
    let began = Instant::now();
    let idle = begin(address, wanted.idle);
    let took = began.elapsed();
    if wanted.idle > 0 {
        let each = |bytes: f64| bytes / wanted.idle as f64;
        println!("{:<44}{:>10.0}", "an idle session", each(memory(&fleet) - before));
        println!(
            "{:<44}{:>10.0}",
            "an idle session, in the store",
            each(store_memory(&fleet) - store)
        );
        println!(
            "{} started in {:.1} s, {:.0} per second\n",
            idle.len(),
            took.as_secs_f64(),
            idle.len() as f64 / took.as_secs_f64()
        );
    }

    let mut busy = begin(address, wanted.busy);
    let time = Duration::from_secs(wanted.seconds);
    println!(
        "{:<36}{:>10}{:>9}{:>9}{:>9}{:>8}",
        "ms, one step", "steps/s", "p50", "p99", "max", "failed"
    );
    go_on(address, &mut busy, time, Some(PACE))
        .print(&format!("{} agents, one step per second each", busy.len()));
    let mut few: Vec<Session> = busy.drain(..busy.len().min(32)).collect();
    go_on(address, &mut few, time, None).print(&format!("{} agents without a pause", few.len()));
    busy.append(&mut few);

    let killed = &mut fleet.replicas[0];
    let ran = thread::scope(|scope| {
        let going = scope.spawn(|| {
            let ran = go_on(address, &mut busy, time, Some(PACE));
            (ran, busy)
        });
        thread::sleep(time / 3); // Kill in the middle of the run.
        killed.signal("KILL");
        going.join().expect("a thread without panics")
    });
    let (ran, mut busy) = ran;
    ran.print("all, one workbench killed halfway");
    let mut line = Line::to(address);
    let slowest = busy.iter_mut().map(|session| session.take(Step::List, &mut line));
    let (mut most, mut lost) = (Duration::ZERO, 0);
    for taken in slowest {
        match taken {
            Ok(time) => most = most.max(time),
            Err(_) => lost += 1,
        }
    }
    println!(
        "\nafterwards, {lost} of {} sessions are lost; the slowest responds in {most:.1?}",
        busy.len()
    );
    drop(idle);
}

impl LoadOptions {
    fn read(args: impl Iterator<Item = String>) -> Self {
        let mut wanted =
            Self { replicas: 3, proxy: Proxy::Haproxy, idle: 10_000, busy: 1_000, seconds: 15 };
        let mut args = args.filter(|arg| arg != "--bench");
        while let Some(name) = args.next() {
            let value = args.next().unwrap_or_default();
            let number = || value.parse().unwrap_or_else(|_| panic!("{name} requires a number"));
            match name.as_str() {
                "--replicas" => wanted.replicas = number(),
                "--idle" => wanted.idle = number(),
                "--busy" => wanted.busy = number(),
                "--seconds" => wanted.seconds = number() as u64,
                "--proxy" => {
                    wanted.proxy = match value.as_str() {
                        "haproxy" => Proxy::Haproxy,
                        "nginx" => Proxy::Nginx,
                        "none" => Proxy::RoundRobin,
                        _ => panic!("--proxy must be haproxy, nginx or none (no affinity)"),
                    }
                }
                _ => panic!("expected --replicas, --proxy, --idle, --busy or --seconds"),
            }
        }
        wanted
    }
}

fn config(sessions: usize) -> Value {
    let script = json!({ "lean": true, "tools": ["echo"] }).to_string();
    let server = json!({ "command": env!("CARGO_BIN_EXE_fake-mcp-server"), "args": [script] });
    let most = 2 * sessions + 1000;
    json!({
        "toolMode": "proxy",
        "http": { "maxSessions": most },
        "limits": { "perCaller": { "maxSessions": most, "sessionsPerMinute": 1_000_000 } },
        "toolboxes": { "box": { "description": "Test tools", "mcpServers": { "srv": server } } },
    })
}

fn begin(address: SocketAddr, count: usize) -> Vec<Session> {
    let share = count.div_ceil(LINES);
    thread::scope(|scope| {
        let all: Vec<_> = (0..count)
            .step_by(share.max(1))
            .map(|first| {
                scope.spawn(move || {
                    let mut line = Line::to(address);
                    let some = first..count.min(first + share);
                    some.map(|_| Session::begin(&mut line).expect("a session")).collect::<Vec<_>>()
                })
            })
            .collect();
        all.into_iter().flat_map(|some| some.join().expect("sessions")).collect()
    })
}

#[derive(Default)]
struct StepTimings {
    times: Vec<Duration>,
    failed: Vec<StepError>,
    took: Duration,
}

impl StepTimings {
    fn print(mut self, name: &str) {
        self.times.sort_unstable();
        let at = |percent: usize| {
            let last = self.times.len().saturating_sub(1);
            self.times.get(last * percent / 100).map_or(0.0, |time| time.as_secs_f64() * 1e3)
        };
        let speed = self.times.len() as f64 / self.took.as_secs_f64();
        let (p50, p99, max, failed) = (at(50), at(99), at(100), self.failed.len());
        println!("{name:<36}{speed:>10.0}{p50:>9.2}{p99:>9.2}{max:>9.1}{failed:>8}");
        for why in self.failed.iter().take(3) {
            match why {
                StepError::Broken(error) => println!("    connection lost: {error}"),
                StepError::Refused(status, said) => {
                    println!("    {status}: {}", said.get(..200).unwrap_or(said));
                }
            }
        }
    }
}

/// Lets all sessions take steps for `time`, one per `pace` or without a pause.
fn go_on(
    address: SocketAddr,
    all: &mut [Session],
    time: Duration,
    pace: Option<Duration>,
) -> StepTimings {
    let share = all.len().div_ceil(LINES).max(1);
    let began = Instant::now();
    let is_over = AtomicBool::new(false);
    let mut ran = thread::scope(|scope| {
        let going: Vec<_> = all
            .chunks_mut(share)
            .map(|some| scope.spawn(|| steps(address, some, pace, &is_over)))
            .collect();
        thread::sleep(time);
        is_over.store(true, Ordering::Relaxed);
        let mut ran = StepTimings::default();
        for one in going {
            let one = one.join().expect("a thread without panics");
            ran.times.extend(one.times);
            ran.failed.extend(one.failed);
        }
        ran
    });
    ran.took = began.elapsed();
    ran
}

fn steps(
    address: SocketAddr,
    some: &mut [Session],
    pace: Option<Duration>,
    is_over: &AtomicBool,
) -> StepTimings {
    let mut line = Line::to(address);
    let mut ran = StepTimings::default();
    loop {
        let round = Instant::now();
        let count = u32::try_from(some.len()).expect("a small number");
        for (n, session) in (1..).zip(&mut *some) {
            if is_over.load(Ordering::Relaxed) {
                return ran;
            }
            match session.next(&mut line) {
                Ok(time) => ran.times.push(time),
                Err(why) => ran.failed.push(why),
            }
            if let Some(pace) = pace {
                let due = round + pace * n / count;
                thread::sleep(due.saturating_duration_since(Instant::now())); // Keeps the pace.
            }
        }
    }
}

/// The anonymous memory of all workbenches, in bytes.
fn memory(fleet: &Fleet) -> f64 {
    let of = |pid: u32| {
        let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("Pss_Anon:"));
        let kb = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
        kb.unwrap_or_default() * 1024.0
    };
    fleet.replicas.iter().map(|replica| of(replica.child.id())).sum()
}

fn store_memory(fleet: &Fleet) -> f64 {
    let said = fleet.ask_store("INFO memory");
    let line = said.lines().find_map(|line| line.strip_prefix("used_memory:"));
    line.and_then(|bytes| bytes.trim().parse().ok()).unwrap_or_default()
}
