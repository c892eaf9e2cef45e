//! Sessions that go on from their records. In a rehearsal every record is written as text and read
//! again, and before each request of a session that has nothing under way another takes its place,
//! which is made of that text. Whole modules of scenarios are run so; what they assert is the same.

use std::process::Command;
use std::thread;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::http::request;
use crate::support::{Agent, Bench, REHEARSAL, fake};

/// Runs the tests whose names have this in them, in a rehearsal in which sessions lose this member of theirs.
/// Returns `true` if all pass, and what was said.
#[expect(clippy::disallowed_methods, reason = "it is this program that is spawned")]
fn rehearsed(tests: &str, without: &str) -> (bool, String) {
    let mut run = Command::new(std::env::current_exe().expect("this program"));
    let run = run.arg(tests).args(["--test-threads", "2"]).env(REHEARSAL, without).output();
    let run = run.expect("it starts");
    let said = [run.stdout, run.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
    assert!(!said[0].contains("running 0 tests"), "there is no {tests}");
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
    agents_apart, collisions, confirmations, conformance_server, extensions, greetings, isolation,
    limits, long_results, macros, policy_changes, questions, reload, serve_activate, serve_auto,
    serve_direct, serve_dynamic, serve_http, serve_modular, serve_navigate, serve_policy, serve_proxy,
    serve_search, who_asks,
}

#[test]
fn each_member_of_a_record_is_missed_where_it_is_lost() {
    let scenarios = [
        ("agent", "who_asks::a_session_is_its_own_agents"),
        ("toolbox", "rehearsal::one_toolbox_alone_stays_the_one"),
        ("mode", "reload::another_mode_is_for_new_sessions"),
        ("introduction", "agents_apart::agents_that_can_do_the_same_share"),
        ("chosen", "serve_activate::each_session_has_its_own_active_tools"),
        ("lists", "serve_auto::a_model_is_told_that_its_client_which_nobody"),
        ("subscriptions", "collisions::an_update_is_told"),
        ("logLevel", "questions::a_wanted_log_level"),
    ];
    thread::scope(|scope| {
        for (member, scenario) in scenarios {
            scope.spawn(move || {
                let (passes, said) = rehearsed(scenario, "nothing");
                assert!(passes, "{said}");
                let (passes, said) = rehearsed(scenario, member);
                assert!(!passes, "nobody misses `{member}`: {said}");
            });
        }
    });
}

#[test]
fn one_toolbox_alone_stays_the_one() {
    let bench = Bench::new().server("box", "fake", fake(json!({ "tools": ["echo"] })));
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

/// Says how often sessions have gone on from their records.
fn resumed(log: &str) -> usize {
    log.matches("a session goes on from its record").count()
}

fn bench() -> Bench {
    Bench::new().server("box", "fake", fake(json!({ "tools": ["echo"] }))).env(REHEARSAL, "nothing")
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

#[test]
fn what_is_opened_stays_open_over_stdio() {
    let agent = bench().agent();
    agent.initialize();
    goes_on(&agent);
    assert!(resumed(&agent.stderr()) >= 4, "{}", agent.stderr());
}

#[test]
fn what_is_opened_stays_open_over_http() {
    let (program, http) = bench().http();
    let agent = Agent::over_http((program, http)).begin(false, json!({}));
    goes_on(&agent);
    assert!(resumed(&agent.program_log()) >= 4, "{}", agent.program_log());
}

#[test]
fn without_a_rehearsal_no_session_is_made_of_a_record() {
    let agent = Bench::new().server("box", "fake", fake(json!({ "tools": ["echo"] }))).agent();
    agent.initialize();
    goes_on(&agent);
    assert_eq!(resumed(&agent.stderr()), 0);
}
