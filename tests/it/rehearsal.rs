//! Sessions that resume from their records. In rehearsal mode the program serializes each record,
//! and before each request of an idle session replaces the session with one restored from that
//! text. Entire test modules run again in this mode and must still pass.

use std::process::Command;
use std::thread;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::http::request;
use crate::support::{Agent, REHEARSAL_VAR, TestEnvironment, fake};

/// Runs the matching tests in rehearsal mode, where restored sessions lack the member `without`.
/// Returns whether all passed, and the output.
#[expect(clippy::disallowed_methods, reason = "spawns this test executable")]
fn rehearsed(tests: &str, without: &str) -> (bool, String) {
    let mut run = Command::new(std::env::current_exe().expect("this program"));
    let run = run.arg(tests).args(["--test-threads", "2"]).env(REHEARSAL_VAR, without).output();
    let run = run.expect("this executable starts");
    let said = [run.stdout, run.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
    assert!(!said[0].contains("running 0 tests"), "no test matches {tests}");
    (run.status.success(), said.concat())
}

#[track_caller]
fn rehearse(module: &str) {
    let (passes, said) = rehearsed(&format!("{module}::"), "nothing");
    assert!(passes, "{said}");
}

macro_rules! rehearsals {
    ($($module:ident),* $(,)?) => {
        $(#[test]
        fn $module() {
            rehearse(stringify!($module));
        })*
    };
}

rehearsals! {
    process_sharing, collisions, confirmations, conformance_server, extensions, handshakes, isolation,
    limits, long_results, macros, policy_changes, questions, reload, serve_activate, serve_auto,
    serve_direct, serve_dynamic, serve_http, serve_modular, serve_navigate, serve_policy, serve_proxy,
    serve_search, http_auth,
}

#[test]
fn losing_any_member_of_a_record_fails_a_test() {
    let scenarios = [
        ("agent", "http_auth::sessions_are_bound_to_their_agent"),
        ("toolbox", "rehearsal::session_at_a_toolbox_endpoint_keeps_its_toolbox"),
        ("mode", "reload::another_mode_is_for_new_sessions"),
        ("introduction", "process_sharing::agents_with_equivalent_capabilities"),
        ("chosen", "serve_activate::each_session_has_its_own_active_tools"),
        ("lists", "serve_auto::dynamic_mode_notes_a_client"),
        ("subscriptions", "collisions::resource_updates_use"),
        ("logLevel", "questions::log_level_reaches"),
    ];
    thread::scope(|scope| {
        for (member, scenario) in scenarios {
            scope.spawn(move || {
                let (passes, said) = rehearsed(scenario, "nothing");
                assert!(passes, "{said}");
                let (passes, said) = rehearsed(scenario, member);
                assert!(!passes, "no test fails without `{member}`: {said}");
            });
        }
    });
}

#[test]
fn session_at_a_toolbox_endpoint_keeps_its_toolbox() {
    let bench = TestEnvironment::new().server("box", "fake", fake(json!({ "tools": ["echo"] })));
    let (_program, http) = bench.server("other", "fake", fake(json!({ "tools": ["pid"] }))).http();
    let post = |session: &[(&str, &str)], method: &str, params: Value| {
        http.send("POST", "/mcp/box", session, &request(1, method, params).to_string())
    };
    let client = json!({ "name": "client", "version": "1" });
    let greeting =
        json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
    let begun = post(&[], "initialize", greeting);
    let session = [("Mcp-Session-Id", begun.header("mcp-session-id").expect("an id"))];
    for _ in 0..3 {
        let tools = post(&session, "tools/list", json!({})).json()["result"]["tools"].clone();
        let names: Vec<_> = tools.as_array().expect("a list").iter().map(|t| &t["name"]).collect();
        assert_eq!(names, ["echo"]);
    }
}

const RESUMED: &str = "restored a session from its record";

fn bench() -> TestEnvironment {
    TestEnvironment::new()
        .server("box", "fake", fake(json!({ "tools": ["echo"] })))
        .env(REHEARSAL_VAR, "nothing")
}

#[track_caller]
fn goes_on(agent: &Agent) {
    agent.open("box").ok();
    let opened = agent.tool_names();
    assert!(opened.contains(&"box__fake__echo".to_owned()), "{opened:?}");
    for text in ["a", "b"] {
        let answer = agent.call("box__fake__echo", json!({ "text": text })).structured();
        assert_eq!(answer["text"], Value::from(text));
    }
    assert_eq!(agent.tool_names(), opened);
}

// invariant: session-from-record
#[test]
fn open_toolbox_survives_a_resume_over_stdio() {
    let agent = bench().agent();
    agent.initialize();
    goes_on(&agent);
    agent.wait_stderr_times(RESUMED, 4);
}

#[test]
fn open_toolbox_survives_a_resume_over_http() {
    let (program, http) = bench().http();
    let agent = Agent::over_http((program, http)).begin(false, json!({}));
    goes_on(&agent);
    agent.program().wait_stderr_times(RESUMED, 4);
}

#[test]
fn sessions_do_not_resume_without_a_rehearsal() {
    let agent =
        TestEnvironment::new().server("box", "fake", fake(json!({ "tools": ["echo"] }))).agent();
    agent.initialize();
    goes_on(&agent);
    agent.close_stdin();
    agent.wait_end();
    assert_eq!(agent.stderr().matches(RESUMED).count(), 0);
}
