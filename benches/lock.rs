//! The cost of a lock: a table, not a test.
//!
//! `cargo bench --bench lock`. Listings of several sizes are compared with the lock that was made of
//! them: as they are seen first, and as they are listed again, which is what a storm of
//! `list_changed` costs.
#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a program for developers: it prints, and gives up where it cannot go on"
)]

use std::time::{Duration, Instant};

use mcp_workbench::catalog::{Comparison, Definition, Listing, Recordings, ToolDefinition};
use mcp_workbench::raw::Raw;
use serde_json::json;

/// How many tools a listing has.
const SIZES: [usize; 3] = [100, 1_000, 10_000];
/// How often each comparison is timed; the shortest counts.
const TURNS: usize = 10;

fn main() {
    println!("{:>8}{:>14}{:>14}{:>14}", "tools", "KiB", "first, ms", "again, ms");
    for size in SIZES {
        let listing = listing(size);
        let recordings = Recordings { least: &listing, full: &listing, elsewhere: &listing };
        let (locked, unclear) = recordings.locked();
        assert!(unclear.is_empty(), "{unclear:?}");
        let (mut first, mut again) = (Duration::MAX, Duration::MAX);
        for _ in 0..TURNS {
            let mut comparison = Comparison::default();
            for shortest in [&mut first, &mut again] {
                let began = Instant::now();
                let drift = comparison.drift(&locked, &listing);
                *shortest = began.elapsed().min(*shortest);
                assert!(drift.is_empty(), "{drift:?}");
            }
        }
        let bytes: usize = listing.tools.iter().map(|tool| tool.raw.len()).sum();
        let ms = |took: Duration| took.as_secs_f64() * 1e3;
        println!("{size:>8}{:>14}{:>14.2}{:>14.2}", bytes / 1024, ms(first), ms(again));
    }
}

/// Tools of the size that real ones have.
fn listing(size: usize) -> Listing {
    let property = |number: usize| {
        let text = format!("The value of field {number}, which is looked up before it is written");
        (format!("field_{number}"), json!({"type": "string", "description": text}))
    };
    let tools = (0..size).map(|number| {
        let properties: serde_json::Map<_, _> = (0..8).map(property).collect();
        Raw::encode(&json!({
            "name": format!("tool_{number}"),
            "description": "Looks something up, and writes it where it belongs. ".repeat(6),
            "inputSchema": {"type": "object", "properties": properties, "required": ["field_1"]},
            "annotations": {"readOnlyHint": number % 2 == 0},
        }))
    });
    Listing { tools: ToolDefinition::read_all(tools).0, ..Listing::default() }
}
