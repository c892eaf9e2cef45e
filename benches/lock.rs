//! Cost of comparing a listing with its lock. Prints a table; it asserts nothing.
//!
//! Run with `cargo bench --bench lock`. Listings of several sizes are compared with a lock that was
//! made from them: on first sight, and again, which is the cost of each `list_changed` in a storm.
#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a developer tool: it prints and panics on errors"
)]

use std::time::{Duration, Instant};

use mcp_workbench_core::catalog::{
    Definition, DriftDetector, Listing, ListingSamples, ToolDefinition,
};
use mcp_workbench_wire::json::RawJson;
use serde_json::json;

/// Tools per listing.
const SIZES: [usize; 3] = [100, 1_000, 10_000];
/// Repetitions; the shortest time counts.
const TURNS: usize = 10;

fn main() {
    println!("{:>8}{:>14}{:>14}{:>14}", "tools", "KiB", "first, ms", "again, ms");
    for size in SIZES {
        let listing = listing(size);
        let recordings = ListingSamples {
            minimal_client: &listing,
            full_client: &listing,
            other_locale: &listing,
        };
        let (locked, unclear) = recordings.to_locked_server();
        assert!(unclear.is_empty(), "{unclear:?}");
        let (mut first, mut again) = (Duration::MAX, Duration::MAX);
        for _ in 0..TURNS {
            let mut comparison = DriftDetector::default();
            for shortest in [&mut first, &mut again] {
                let began = Instant::now();
                let drift = comparison.detect(&locked, &listing);
                *shortest = began.elapsed().min(*shortest);
                assert!(drift.is_empty(), "{drift:?}");
            }
        }
        let bytes: usize = listing.tools.iter().map(|tool| tool.raw.len()).sum();
        let ms = |took: Duration| took.as_secs_f64() * 1e3;
        println!("{size:>8}{:>14}{:>14.2}{:>14.2}", bytes / 1024, ms(first), ms(again));
    }
}

fn listing(size: usize) -> Listing {
    let property = |number: usize| {
        let text = format!("The value of field {number}, which is looked up before it is written");
        (format!("field_{number}"), json!({"type": "string", "description": text}))
    };
    let tools = (0..size).map(|number| {
        let properties: serde_json::Map<_, _> = (0..8).map(property).collect();
        RawJson::encode(&json!({
            "name": format!("tool_{number}"),
            "description": "Looks something up, and writes it where it belongs. ".repeat(6),
            "inputSchema": {"type": "object", "properties": properties, "required": ["field_1"]},
            "annotations": {"readOnlyHint": number % 2 == 0},
        }))
    });
    Listing { tools: ToolDefinition::read_all(tools).0, ..Listing::default() }
}
