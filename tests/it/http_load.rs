//! A small version of `benches/http.rs`: many concurrent sessions without a failure.

use pretty_assertions::assert_eq;
use serde_json::json;

use crate::support::{TestEnvironment, fake};

#[path = "../../benches/http/load.rs"]
mod load;

#[test]
fn many_sessions_are_held_and_served_at_once() {
    const SESSIONS: usize = 100;
    const CALLS: usize = 3;
    let script = json!({ "tools": ["echo"] });
    let bench =
        TestEnvironment::new().server("box", "srv", fake(script)).set("toolMode", "proxy".into());
    let (program, http) = bench.http();
    let mut load = load::Load::begin(http.0, SESSIONS);
    load.listen(SESSIONS / 5);
    let times = load.call(CALLS, 8);
    assert_eq!(times.len(), SESSIONS * CALLS);
    assert!(!program.0.stderr().contains("http.maxSessions"));
}
