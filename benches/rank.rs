//! Cost of search. Prints a table; it asserts nothing.
//!
//! Run with `cargo bench --bench rank`. Catalogs of several sizes are generated from the words of
//! `tests/eval` and searched with its queries. The table has the time to build an index, the time
//! of a search, and the memory of an index.
#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "a developer tool: it prints and panics on errors"
)]

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mcp_workbench_core::catalog::rank::{RankingMethod, SearchIndex, ToolDocument};
use mcp_workbench_core::catalog::{Definition, ToolDefinition};
use mcp_workbench_wire::json::RawJson;
use serde_json::{Map, Value, json};

/// Tools per catalog.
const SIZES: [usize; 3] = [100, 1_000, 10_000];
const METHODS: [RankingMethod; 2] = [RankingMethod::Lexical, RankingMethod::Hybrid];
/// Tools per server.
const TOOLS: usize = 10;
const QUERIES: usize = 20_000;
const LIMIT: usize = 10;

fn main() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/eval");
    let read = |name: &str| fs::read_to_string(folder.join(name)).expect("a file");
    let catalog: Value = serde_json::from_str(&read("catalog.json")).expect("a catalog");
    let words = words_of(&catalog);
    let queries: Vec<String> = read("queries.jsonl").lines().map(query_of).collect();
    println!(
        "{:>8}{:>8}{:>12}{:>12}{:>12}{:>14}{:>12}{:>12}",
        "", "tools", "index, ms", "p50, µs", "p99, µs", "longest, µs", "index, KiB", "per tool, B"
    );
    // Indexes stay alive, so that memory freed by one isn't reused by the next and missed.
    let mut kept = Vec::new();
    for (method, size) in METHODS.into_iter().flat_map(|method| SIZES.map(|size| (method, size))) {
        let tools = tools(&words, size);
        let held = held_by(&tools, method, &mut kept);
        let (index, made) = index(&tools, method);
        let mut times: Vec<Duration> =
            (0..QUERIES).map(|turn| time(&index, &queries[turn % queries.len()])).collect();
        times.sort_unstable();
        let longest = words.join(" ");
        let longest = (0..100).map(|_| time(&index, &longest)).min().expect("a time");
        println!(
            "{:>8}{size:>8}{:>12.2}{:>12.1}{:>12.1}{:>14.1}{:>12.0}{:>12.0}",
            format!("{method:?}"),
            made.as_secs_f64() * 1e3,
            micros(times[times.len() / 2]),
            micros(times[times.len() * 99 / 100]),
            micros(longest),
            held / 1024.0,
            held / size as f64,
        );
    }
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn query_of(line: &str) -> String {
    let query: Value = serde_json::from_str(line).expect("a query");
    query["query"].as_str().expect("a text").to_owned()
}

fn words_of(catalog: &Value) -> Vec<String> {
    let said = match catalog {
        Value::String(text) => return text.split_whitespace().map(str::to_owned).collect(),
        Value::Array(items) => items.iter().collect::<Vec<_>>(),
        Value::Object(members) => members.values().collect(),
        _ => Vec::new(),
    };
    said.into_iter().flat_map(words_of).collect()
}

/// Generates tools from random `words`. Deterministic.
fn tools(words: &[String], count: usize) -> Vec<(String, Arc<ToolDefinition>)> {
    let mut state = 1_u64;
    let mut word = || {
        // Knuth's linear congruential generator (MMIX).
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        words[(state >> 33) as usize % words.len()].as_str()
    };
    let mut text = |length: usize| (0..length).map(|_| word()).collect::<Vec<_>>();
    let raw = (0..count).map(|number| {
        let parameters: Map<String, Value> =
            text(4).into_iter().map(|name| (name.to_owned(), json!({"type": "string"}))).collect();
        RawJson::encode(&json!({
            "name": format!("{}_{number}", text(2).join("_")),
            "description": text(20).join(" "),
            "inputSchema": {"type": "object", "properties": parameters},
        }))
    });
    let (read, bad) = ToolDefinition::read_all(raw.collect::<Vec<_>>());
    assert_eq!(bad, []);
    let tools = read.into_iter().enumerate();
    tools.map(|(number, tool)| (format!("Server {}", number / TOOLS), tool)).collect()
}

fn index(
    tools: &[(String, Arc<ToolDefinition>)],
    method: RankingMethod,
) -> (SearchIndex, Duration) {
    let about = "The purpose of this server, in one sentence of about a dozen words";
    let start = Instant::now();
    let entries = tools.iter().map(|(server, tool)| ToolDocument { server, about, tool });
    (SearchIndex::new(entries, method), start.elapsed())
}

fn time(index: &SearchIndex, query: &str) -> Duration {
    let start = Instant::now();
    let hits = index.search(query, LIMIT, |_| true);
    let time = start.elapsed();
    assert!(hits.len() <= LIMIT);
    time
}

/// The memory of one index in bytes, from the growth of the RSS by many copies.
fn held_by(
    tools: &[(String, Arc<ToolDefinition>)],
    method: RankingMethod,
    kept: &mut Vec<SearchIndex>,
) -> f64 {
    let copies = (200_000 / tools.len()).min(500);
    let before = resident();
    kept.extend((0..copies).map(|_| index(tools, method).0));
    (resident() - before) / copies as f64
}

fn resident() -> f64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line");
    let number = line.trim().split(' ').next().and_then(|number| number.parse::<f64>().ok());
    number.expect("a number") * 1024.0
}
