//! Time to summarize an audit log. Prints a table; it asserts nothing.
//!
//! Run with `cargo bench --bench stats`. The log has 100,000 calls of 200 tools in three files.
#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a developer tool: it spawns, prints and panics on errors"
)]

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use mcp_workbench_core::telemetry::stats::{StatsBuilder, audit_files};
use tempfile::TempDir;

const CALLS: usize = 100_000;
const TOOLS: usize = 200;
const FILES: usize = 3;
const ROUNDS: usize = 10;

fn main() {
    let folder = TempDir::new().expect("a temporary folder");
    let audit = folder.path().join("audit.jsonl");
    let bytes = write(&audit);
    println!("{CALLS} calls to {TOOLS} tools in {FILES} files, {bytes} bytes\n");
    println!("{:<40}{:>12}{:>12}", "ms", "median", "max");
    print_times("read and summarize in-process", || {
        let summary = StatsBuilder::read(&audit_files(&audit), None).expect("an audit").finish();
        assert_eq!((summary.calls(), summary.unreadable), (CALLS as u64, 0));
    });
    print_times("`stats --json`, start to exit", || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mcp-workbench"));
        command.env_clear().current_dir(folder.path()).stdout(Stdio::null());
        let status = command.args(["stats", "audit.jsonl", "--json"]).status();
        assert!(status.is_ok_and(|status| status.success()), "{command:?} failed");
    });
}

fn write(audit: &Path) -> usize {
    let mut bytes = 0;
    for file in 0..FILES {
        let mut text = String::new();
        for call in (file * CALLS / FILES)..((file + 1) * CALLS / FILES) {
            let (second, tool) = (call / 10 % 60, call * 7919 % TOOLS);
            let outcome = if call % 37 == 0 { "tool_error" } else { "ok" };
            writeln!(
                text,
                "{{\"time\":\"2026-11-20T10:00:{second:02}.123Z\",\"kind\":\"call\",\
                 \"call\":\"3f9a1c20-{call}\",\"agent\":\"claude\",\"session\":\"3f9a1c20-{}\",\
                 \"toolbox\":\"box{}\",\"server\":\"server{}\",\"tool\":\"tool_{tool}\",\
                 \"argumentBytes\":118,\"argumentsHash\":\"6b1f0a9c5e2d48b7a1c3e5f708192a3b\",\
                 \"decision\":\"allowed\",\"outcome\":\"{outcome}\",\"ms\":{}.{:03},\
                 \"resultBytes\":2048}}",
                call % 50,
                tool % 5,
                tool % 20,
                call % 997,
                call % 1000,
            )
            .expect("memory");
        }
        bytes += text.len();
        let name = match FILES - 1 - file {
            0 => "audit.jsonl".to_owned(),
            aside => format!("audit.{aside}.jsonl"),
        };
        fs::write(audit.with_file_name(name), text).expect("a file in the folder");
    }
    bytes
}

fn print_times(name: &str, work: impl Fn()) {
    let time = |_| {
        let start = Instant::now();
        work();
        start.elapsed()
    };
    let mut times: Vec<Duration> = (0..ROUNDS).map(time).collect();
    times.sort_unstable();
    let ms = |time: Duration| format!("{:.1}", time.as_secs_f64() * 1000.0);
    println!("{name:<40}{:>12}{:>12}", ms(times[ROUNDS / 2]), ms(times[ROUNDS - 1]));
}
