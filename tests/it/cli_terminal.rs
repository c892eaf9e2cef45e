//! Terminal output: control characters from servers, files and agents are escaped. And errors with
//! `--json`.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::process::Output;
use crate::support::{TestEnvironment, fake};

/// Characters that a terminal obeys: a clear-screen sequence with both forms of CSI, a backspace, a
/// right-to-left override and a carriage return.
const HOSTILE: &str = "x\u{1b}[2J\u{9b}2J\u{8}\u{202e}\r!";

/// Two servers with hostile text, the second of them failing to start, and a hostile audit log.
fn bench() -> TestEnvironment {
    let loud = json!({
        "instructions": HOSTILE,
        "tools": [
            {"name": "echo", "description": format!("Loud notes {HOSTILE}"), "inputSchema": {"type": "object"}},
            {"name": HOSTILE, "description": HOSTILE, "inputSchema": {"type": "object"}},
            "fails", "error", "crash",
        ],
        "behavior": {
            "echo": {"result": {"raw": json!({"content": [{"type": "text", "text": format!("one\n\ttwo {HOSTILE}")}]}).to_string()}},
            "fails": {"tool_error": {"text": HOSTILE}},
            "error": {"error": {"code": -32602, "message": HOSTILE}},
            "crash": {"crash": {"stderr": [HOSTILE], "code": 3}},
        },
        "noise": {"stderr": [HOSTILE]},
    });
    let broken = json!({"failStart": {"code": 3, "stderr": [HOSTILE]}});
    let record = json!({
        "time": "2026-11-20T10:00:00.000Z", "kind": "call", "session": HOSTILE, "agent": HOSTILE,
        "toolbox": HOSTILE, "server": HOSTILE, "tool": HOSTILE, "outcome": "ok", "ms": 1,
        "resultBytes": 10,
    });
    TestEnvironment::new()
        .server("dev", "loud", fake(loud))
        .server("dev", "broken", fake(broken))
        .set("audit", json!({"file": "audit.jsonl"}))
        .file("audit.jsonl", &format!("{record}\n"))
}

#[track_caller]
fn assert_tame(args: &[&str], output: &Output) {
    for text in [&output.stdout, &output.stderr] {
        let obeyed = |c: char| (c.is_control() && !"\n\t".contains(c)) || c == '\u{202e}';
        assert!(!text.contains(obeyed), "{args:?}\n{text:?}");
    }
}

// invariant: server-text-is-escaped
#[test]
fn escapes_terminal_controls_in_server_output() {
    let bench = bench();
    for (args, shows) in [
        (["check", "--connect"].as_slice(), "> x [2J 2J !"),
        (&["check", "--connect", "--json"], "> x [2J 2J !"),
        (&["list"], "x [2J 2J !"),
        (&["list", "--json"], r"\u202e\r!"),
        (&["search", "loud notes"], "x [2J 2J !"),
        (&["search", "loud notes", "--full", "--json"], r"\u202e\r!"),
        (&["call", "dev", "loud", "echo"], "one\n\ttwo x\\x1b[2J"),
        (&["call", "dev", "loud", "echo", "--json"], r"\u202e"),
        (&["call", "dev", "loud", "fails"], r"x\x1b[2J"),
        (&["call", "dev", "loud", "error"], r"x\x1b[2J"),
        (&["call", "dev", "loud", "crash"], "> x [2J 2J !"),
        (&["call", "dev", "broken", "echo", "--json"], "> x [2J 2J !"),
        (&["task", "--explain", "loud notes"], r"\x1b[2J"),
        (&["task", "--json", "loud notes"], ""),
        (&["explain", HOSTILE, "loud", HOSTILE], r"x\x1b[2J"),
        (&["stats"], r"x\x1b[2J"),
        (&["stats", "--json"], r"\u009b"),
        (&["cache", "refresh"], "> x [2J 2J !"),
        (&["cache", "list"], ""),
        (&["list", "--refresh", "--log-level", "debug"], r"x\x1b[2J"),
        (&["call", HOSTILE, HOSTILE, HOSTILE], r"x\x1b[2J"),
        (&["explain", "-", HOSTILE, "x"], r"x\x1b[2J"),
    ] {
        let output = bench.run(args.iter().copied());
        assert_tame(args, &output);
        let all = format!("{}{}", output.stdout, output.stderr);
        assert!(all.contains(shows), "{args:?}: {shows}\n{output}");
    }
}

#[test]
fn raw_prints_control_characters_verbatim() {
    let output = bench().run(["call", "dev", "loud", "echo", "--raw"]);
    assert_eq!((output.code, output.stdout), (Some(0), format!("one\n\ttwo {HOSTILE}\n")));
}

// invariant: server-text-is-escaped
#[test]
fn escapes_terminal_controls_in_the_log() {
    let agent = bench().agent();
    let agent = agent.begin(false, json!({}));
    let _ = agent.open("dev");
    agent.close_stdin();
    agent.wait_end();
    let log = agent.stderr();
    assert!(log.contains(r"x\x1b[2J\x9b2J\x08\u{202e}\r!"), "{log}");
    assert!(!log.contains(['\u{1b}', '\u{9b}', '\u{8}', '\u{202e}', '\r']), "{log:?}");
}

fn error_of(output: &Output) -> Value {
    let report: Value = serde_json::from_str(&output.stdout).unwrap_or_else(|_| panic!("{output}"));
    assert!(output.stderr.starts_with("error: "), "the error is also on stderr: {output}");
    let error = &report["error"];
    for key in ["kind", "message", "causes", "hints"] {
        assert!(!error[key].is_null(), "{output}");
    }
    error.clone()
}

#[test]
fn json_flag_prints_errors_as_json() {
    let bench = TestEnvironment::new().server("dev", "srv", json!({"command": "no-such-program"}));
    for (args, code, kind, message) in [
        (
            ["call", "dev", "srv", "x", "--json"].as_slice(),
            1,
            "failed",
            "server `srv` failed to start",
        ),
        (
            &["call", "dev", "srv", "x", "[]", "--json"],
            2,
            "usage",
            "the arguments must be a JSON object",
        ),
        (&["list", "nowhere", "--json"], 1, "failed", "there is no toolbox `nowhere`"),
        (
            &["search", "x", "--toolbox", "nowhere", "--json"],
            1,
            "failed",
            "there is no toolbox `nowhere`",
        ),
        (&["task", " ", "--json"], 2, "usage", "the task is empty"),
        (
            &["explain", "a", "nowhere", "x", "--json"],
            2,
            "usage",
            "no server `nowhere` in the configuration",
        ),
        (
            &["stats", "--json"],
            1,
            "failed",
            "audit logging is off: the configuration has no `audit`",
        ),
        (&["token", " ", "--json"], 2, "usage", "the agent name is empty"),
        (&["import", "nowhere.json", "--json"], 2, "usage", "cannot read `nowhere.json`"),
        (&["list", "--json", "--bogus"], 2, "usage", "unexpected argument '--bogus' found"),
    ] {
        let output = bench.run(args.iter().copied());
        let error = error_of(&output);
        assert_eq!(output.code, Some(code), "{output}");
        assert_eq!(error["kind"], kind, "{output}");
        assert!(
            error["message"].as_str().is_some_and(|text| text.starts_with(message)),
            "{output}"
        );
    }
    let output = bench.run_bare(["list", "--json"]);
    let error = error_of(&output);
    assert_eq!(output.code, Some(2));
    assert_eq!(error["hints"].as_array().map(Vec::len), Some(3), "{output}");
}

#[test]
fn errors_are_text_without_the_json_flag() {
    let output = TestEnvironment::new().run_bare(["list"]);
    assert_eq!(output.stdout, "");
    let output = TestEnvironment::new().run_bare(["list", "--bogus", "--", "--json"]);
    assert_eq!(output.stdout, "");
}
