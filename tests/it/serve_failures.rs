//! Failing servers affect neither other servers nor the gateway.

use std::fs::File;
use std::time::{Duration, Instant};

use pretty_assertions::assert_eq;
use rustix::fs::{CWD, Mode, mkfifoat};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::process::{StartedProcesses, fake_path, signal, wait_until_exited};
use crate::support::{Agent, TestEnvironment, fake};

const SOON: Duration = Duration::from_secs(5);

fn with_pids(bench: &TestEnvironment, mut script: Value) -> Value {
    script["pidFile"] = bench.path_text("pids").into();
    fake(script)
}

fn agent(bench: &TestEnvironment) -> Agent {
    let agent = bench.agent().relisting_on_change();
    agent.initialize();
    agent
}

fn starts(bench: &TestEnvironment) -> Vec<u32> {
    StartedProcesses::read(bench.path("pids")).servers
}

#[test]
fn concurrent_openings_start_each_server_once() {
    let bench = TestEnvironment::new();
    let slow =
        |bench: &TestEnvironment| with_pids(bench, json!({"tools": ["echo"], "startDelayMs": 100}));
    let (one, two) = (slow(&bench), slow(&bench));
    let mut two = two;
    two["shareProcess"] = json!(false);
    let bench = bench.server("box", "one", one).server("box", "two", two);
    let agent = agent(&bench);
    let ids: Vec<_> =
        (0..10).map(|_| agent.send_call("open_toolbox", json!({"toolbox": "box"}))).collect();
    for id in &ids {
        assert_eq!(agent.wait(id).structured()["servers_connected"], 2);
    }
    assert_eq!(starts(&bench).len(), 2);
}

#[test]
fn equal_launches_share_a_process_by_default() {
    let bench = TestEnvironment::new();
    let entry = with_pids(&bench, json!({"tools": ["pid"]}));
    let mut alone = entry.clone();
    alone["shareProcess"] = json!(false);
    let bench = bench
        .server("a", "one", entry.clone())
        .server("b", "two", entry)
        .server("c", "three", alone);
    let agent = agent(&bench);
    let pid = |tool: &str| agent.call(tool, json!({})).structured()["pid"].clone();
    assert_eq!(pid("a__one__pid"), pid("b__two__pid"));
    assert_ne!(pid("a__one__pid"), pid("c__three__pid"));
    assert_eq!(starts(&bench).len(), 2);
}

// invariant: no-unrelated-failures
#[test]
fn crash_fails_only_calls_in_flight_and_next_call_restarts() {
    let bench = TestEnvironment::new();
    let entry = with_pids(
        &bench,
        json!({
            "tools": ["echo", "sleep", "crash"],
            "behavior": {"crash": {"crash": {"stderr": ["db locked", "cannot go on"], "code": 3}}},
        }),
    );
    let bench = bench.server("box", "mortal", entry).server(
        "box",
        "healthy",
        fake(json!({"tools": ["sleep"]})),
    );
    let agent = agent(&bench);
    agent.open("box");
    let healthy = agent.send_call("box__healthy__sleep", json!({"ms": 300}));
    let lost = agent.send_call("box__mortal__sleep", json!({"ms": 60_000}));
    let crash = agent.call("box__mortal__crash", json!({}));
    assert!(crash.is_tool_error());
    insta::assert_snapshot!(crash.text());
    assert!(agent.wait(&lost).text().starts_with("server `mortal`: exited during the call"));
    assert!(!agent.wait(&healthy).is_tool_error());

    assert!(
        agent.tool_names().contains(&"box__mortal__echo".to_owned()),
        "the tools of the crashed server were removed"
    );
    assert_eq!(agent.call("box__mortal__echo", json!({"x": 1})).structured(), json!({"x": 1}));
    assert_eq!(starts(&bench).len(), 2, "one start, one restart and no repeated call");
}

#[cfg(target_os = "linux")]
#[test]
fn crash_fails_calls_while_a_child_holds_stdout_open() {
    let bench = TestEnvironment::new();
    let mut entry = fake(json!({
        "tools": ["sleep", "crash"],
        "behavior": {"crash": {"crash": {"code": 3}}},
    }));
    let program = entry["command"].take();
    let script = entry["args"][0].take();
    // `setsid` leaves the process group, so this child survives the kill of the group.
    entry["args"] = json!(["-c", r#"setsid sleep 10 & exec "$0" "$1""#, program, script]);
    entry["command"] = json!("sh");
    let bench = bench.server("box", "mortal", entry);
    let agent = agent(&bench);
    agent.open("box");
    let lost = agent.send_call("box__mortal__sleep", json!({"ms": 60_000}));
    let began = Instant::now();
    assert!(agent.call("box__mortal__crash", json!({})).is_tool_error());
    assert!(agent.wait(&lost).text().contains("exited during the call"));
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
}

#[test]
fn exit_is_noticed_while_a_grandchild_holds_the_streams() {
    let bench = TestEnvironment::new();
    let script = json!({"tools": ["crash", "echo"], "grandchild": "detached"});
    let entry = with_pids(&bench, script);
    let mut failing =
        with_pids(&bench, json!({"tools": ["never"], "dieOnList": true, "grandchild": "detached"}));
    failing["env"] = json!({"OTHER": "launch"});
    let bench = bench.server("box", "srv", entry).server("bad", "srv", failing);
    let agent = agent(&bench);
    let lost = agent.call("box__srv__crash", json!({"code": 3}));
    assert!(lost.text().contains("exit code 3"), "{}", lost.text());
    assert!(!agent.call("box__srv__echo", json!({})).is_tool_error());
    let opened = agent.open("bad").structured();
    let reason = opened["failed_servers"][0]["reason"].to_string();
    assert!(reason.contains("exited during startup"), "{reason}");
    for pid in StartedProcesses::read(bench.path("pids")).grandchildren {
        signal(pid, Signal::KILL);
    }
}

#[test]
fn server_with_closed_stdin_is_restarted() {
    let bench = TestEnvironment::new();
    let script =
        json!({"tools": ["echo"], "listDelayMs": 1500, "pidFile": bench.path_text("pids")});
    // Reads three messages (the handshake and `tools/list`), then closes its input while the
    // listing is delayed.
    let deaf = r#"
        listen() { for _ in 1 2 3; do IFS= read -r line; printf '%s\n' "$line"; done; }
        exec 3<&0 </dev/null
        { listen <&3; exec 3<&-; exec sleep 20; } | "$0" "$1" 3<&- &
        exec 3<&-; wait"#;
    let args = json!(["-c", deaf, fake_path(), script.to_string()]);
    let bench = bench.server("box", "deaf", json!({"command": "sh", "args": args}));
    let agent = agent(&bench);
    for starts_so_far in 1..=2 {
        let lost = agent.call("box__deaf__echo", json!({}));
        assert!(lost.text().contains("during the call"), "{}", lost.text());
        assert_eq!(starts(&bench).len(), starts_so_far);
    }
}

#[test]
fn a_blocked_log_file_does_not_block_serving() {
    let noise: Vec<_> = (0..1000).map(|n| format!("{n:090}")).collect();
    let script = json!({"tools": ["echo"], "noise": {"stderr": noise}});
    let bench = TestEnvironment::new().server("box", "srv", fake(script));
    let log = bench.path("log");
    mkfifoat(CWD, &log, Mode::RUSR | Mode::WUSR).unwrap();
    let _nobody_reads = File::options().read(true).write(true).open(&log).unwrap();
    let agent = bench.agent_with(["--log-file", &bench.path_text("log")]);
    agent.initialize();
    assert!(!agent.call("box__srv__echo", json!({})).is_tool_error());
    agent.signal(Signal::TERM);
    assert_eq!(agent.wait_exit(Duration::from_secs(2)).code(), Some(0));
}

// invariant: at-most-once
#[test]
fn crashing_server_is_started_once_per_call() {
    let bench = TestEnvironment::new();
    let entry = with_pids(&bench, json!({"tools": ["crash"]}));
    let bench = bench.server("box", "mortal", entry);
    let agent = agent(&bench);
    for _ in 0..3 {
        assert!(agent.call("box__mortal__crash", json!({})).is_tool_error());
    }
    assert_eq!(starts(&bench).len(), 3, "one start for each call");
}

#[test]
fn garbage_duplicate_responses_and_huge_lines_are_survived() {
    let bench = TestEnvironment::new().set("limits", json!({"maxMessageBytes": 1_000_000})).server(
        "box",
        "odd",
        fake(json!({
            "tools": ["garbage", "twice", "huge", "echo", "count"],
            "noise": {"stdout": ["Starting up...", "{\"half\":", "[]"], "stderr": ["warming up"]},
        })),
    );
    let agent = agent(&bench);
    agent.open("box");
    agent.call("box__odd__garbage", json!({"bytes": 100_000})).ok();
    agent.call("box__odd__twice", json!({})).ok();
    let huge = agent.call("box__odd__huge", json!({"bytes": 2_000_000}));
    assert!(huge.is_tool_error());
    assert!(huge.text().contains("exceeds `limits.maxMessageBytes`"), "{}", huge.text());
    assert!(!agent.call("box__odd__huge", json!({"bytes": 900_000})).is_tool_error());
    assert_eq!(agent.call("box__odd__echo", json!({"x": 1})).structured(), json!({"x": 1}));
    agent.wait_stderr("warming up");
}

#[test]
fn message_over_64_mib_is_rejected_by_default() {
    let bench = TestEnvironment::new()
        .server("box", "odd", fake(json!({"tools": ["huge", "echo"]})))
        .server("box", "calm", fake(json!({"tools": ["echo"]})));
    let agent = agent(&bench);
    agent.open("box");
    let huge = agent.send_call("box__odd__huge", json!({"bytes": 64 * 1024 * 1024 + 1000}));
    assert_eq!(agent.call("box__calm__echo", json!({"x": 1})).structured(), json!({"x": 1}));
    assert!(agent.wait(&huge).is_tool_error());
    assert_eq!(agent.call("box__odd__echo", json!({"x": 1})).structured(), json!({"x": 1}));
}

#[test]
fn hanging_start_times_out_without_blocking_others() {
    let bench = TestEnvironment::new();
    let pid_file = bench.path_text("pids");
    let mut endless = fake(json!({"hangOnInitialize": true, "pidFile": pid_file}));
    endless["startupTimeoutMs"] = json!(300);
    let bench = bench.server("box", "endless", endless).server(
        "box",
        "good",
        fake(json!({"tools": ["echo"]})),
    );
    let agent = agent(&bench);
    let opening = agent.send_call("open_toolbox", json!({"toolbox": "box"}));
    assert!(
        !agent.call("box__good__echo", json!({})).is_tool_error(),
        "the call waited for another server"
    );
    let opened = agent.wait(&opening).structured();
    assert_eq!(opened["servers_connected"], 1);
    let failed = &opened["failed_servers"][0];
    assert_eq!(failed["reason"], "not ready within 300 ms");
    wait_until_exited(&starts(&bench), SOON);
}

#[test]
fn timed_out_call_is_cancelled_at_the_server() {
    let mut entry = fake(json!({"tools": ["never", "sleep", "count"]}));
    entry["callTimeoutMs"] = json!(300);
    let bench = TestEnvironment::new().server("box", "slow", entry);
    let agent = agent(&bench);
    agent.open("box");
    let never = agent.call("box__slow__never", json!({}));
    assert!(never.is_tool_error());
    insta::assert_snapshot!(never.text());
    // Progress notifications extend the call timeout.
    let slow = agent.send_call("box__slow__sleep", json!({"ms": 900, "progressEveryMs": 100}));
    assert!(!agent.wait(&slow).is_tool_error());
    assert!(agent.progress(&slow).len() >= 7);
    let count = agent.call("box__slow__count", json!({})).structured();
    assert_eq!(count["cancelled"].as_array().map(Vec::len), Some(1), "{count}");
}

#[test]
fn cancellation_is_forwarded_and_gets_no_response() {
    let bench =
        TestEnvironment::new().server("box", "slow", fake(json!({"tools": ["sleep", "count"]})));
    let agent = agent(&bench);
    agent.open("box");
    let id = agent.send_call("box__slow__sleep", json!({"ms": 60_000, "progressEveryMs": 20}));
    agent.next_notification("notifications/progress");
    agent.cancel(&id);
    // The server reads in order, so it gets the cancellation before the next call.
    let count = agent.call("box__slow__count", json!({})).structured();
    assert_eq!(count["cancelled"].as_array().map(Vec::len), Some(1), "{count}");
    assert!(agent.answered(&id).is_none());
}

#[test]
fn concurrent_calls_get_their_own_responses() {
    let bench =
        TestEnvironment::new().server("box", "srv", fake(json!({"tools": ["echo", "sleep"]})));
    let agent = agent(&bench);
    agent.open("box");
    let ids: Vec<_> =
        (0..100).map(|n| agent.send_call("box__srv__sleep", json!({"ms": 100, "n": n}))).collect();
    let echoes: Vec<_> =
        (0..100).map(|n| agent.send_call("box__srv__echo", json!({"n": n}))).collect();
    for (n, id) in echoes.iter().enumerate() {
        assert_eq!(agent.wait(id).structured(), json!({"n": n}));
    }
    for id in &ids {
        assert!(!agent.wait(id).is_tool_error());
    }
}

#[test]
fn modern_only_server_works_for_a_legacy_agent() {
    let bench = TestEnvironment::new().server(
        "box",
        "new",
        fake(json!({
            "tools": ["echo", "grow"],
            "protocol": "modern",
        })),
    );
    let agent = agent(&bench);
    let opened = agent.open("box").structured();
    assert_eq!(opened["tools_registered"], 2, "{opened}");
    let result = agent.call("box__new__echo", json!({"x": 1})).ok();
    assert_eq!(result["structuredContent"], json!({"x": 1}));
    assert!(result.get("resultType").is_none(), "{result}");
    agent.wait_relists(1);
    agent.call("box__new__grow", json!({"tools": ["fresh"]})).ok();
    assert!(agent.wait_relists(2).contains(&"box__new__fresh".to_owned()));
}

// invariant: bytes-unchanged
#[test]
fn results_and_errors_pass_byte_for_byte() {
    let raw = r#"{"content":[{"type":"text","text":"\u00e9","later":1.0}],"structuredContent":null,"isError":true,"big":123456789012345678901234567890,"e":1e3, "x" : {}}"#;
    let bench = TestEnvironment::new().server(
        "box",
        "srv",
        fake(json!({
            "tools": ["result", "error", "echo"],
            "behavior": {
                "result": {"result": {"raw": raw}},
                "error": {"error": {"code": -32050, "message": "no", "data": {"n": 1.5}}},
            },
        })),
    );
    let agent = agent(&bench);
    agent.open("box");
    assert_eq!(agent.call("box__srv__result", json!({})).raw_result(), raw);
    assert_eq!(
        agent.call("box__srv__error", json!({})).error(),
        json!({"code": -32050, "message": "no", "data": {"n": 1.5}})
    );
    agent.send_raw(
        r#"{"jsonrpc":"2.0","id":"bytes","method":"tools/call","params":{"name":"box__srv__echo","arguments":{"z":1.0e2,"a":[ 1 ],"n":123456789012345678901234567890}}}"#,
    );
    let echoed = agent.wait(&"bytes".into()).raw_result();
    assert!(
        echoed.contains(
            r#""structuredContent":{"z":1.0e2,"a":[ 1 ],"n":123456789012345678901234567890}"#
        ),
        "{echoed}"
    );
}

#[test]
fn servers_get_a_minimal_environment_unless_they_inherit() {
    let mut own = fake(json!({"tools": ["env", "cwd"]}));
    own["env"] = json!({"MINE": "yes", "GREETING": "${HELLO:-hi} ${WORLD}"});
    let mut all = fake(json!({"tools": ["env"]}));
    all["inheritEnv"] = json!(true);
    let bench = TestEnvironment::new()
        .env("SECRET_OF_OURS", "s3cret")
        .env("WORLD", "${MINE}")
        .server("box", "own", own)
        .server("box", "all", all);
    let agent = agent(&bench);
    let env = |tool: &str| -> Value {
        serde_json::from_str(&agent.call(tool, json!({})).text()).unwrap()
    };
    let own = env("box__own__env");
    assert_eq!(own["MINE"], "yes");
    assert_eq!(own["GREETING"], "hi ${MINE}", "a value is not expanded again");
    assert!(own.get("PATH").is_some());
    assert!(own.get("SECRET_OF_OURS").is_none(), "{own}");
    assert_eq!(env("box__all__env")["SECRET_OF_OURS"], "s3cret");
    let cwd = agent.call("box__own__cwd", json!({})).text();
    assert!(cwd.contains(bench.dir().to_str().unwrap()), "{cwd}");
}

#[test]
fn idle_server_is_stopped_and_restarted_on_demand() {
    let bench = TestEnvironment::new();
    let mut entry = with_pids(&bench, json!({"tools": ["echo"]}));
    entry["idleTimeoutMs"] = json!(200);
    let bench = bench.server("box", "srv", entry);
    let agent = agent(&bench);
    agent.open("box");
    wait_until_exited(&starts(&bench), SOON);
    assert_eq!(agent.call("box__srv__echo", json!({"x": 1})).structured(), json!({"x": 1}));
    assert_eq!(starts(&bench).len(), 2);
}

#[test]
fn opening_fails_if_no_server_starts() {
    for mode in ["dynamic", "proxy"] {
        let bench = TestEnvironment::new().set("toolMode", json!(mode));
        let broken = fake(json!({"failStart": {"code": 3, "stderr": ["no database"]}}));
        let bench = bench
            .server("dead", "one", broken.clone())
            .server("dead", "two", json!({"command": "/no/such/program"}))
            .server("half", "one", broken)
            .server("half", "two", fake(json!({"tools": ["echo"]})));
        let agent = agent(&bench);
        let dead = agent.open("dead");
        assert!(dead.is_tool_error(), "{mode}: {}", dead.text());
        assert!(dead.text().contains("no database"), "{mode}: {}", dead.text());
        assert!(dead.text().contains("/no/such/program"), "{mode}: {}", dead.text());
        let half = agent.open("half");
        assert!(!half.is_tool_error(), "{mode}: {}", half.text());
        assert!(half.text().contains("no database"), "{mode}: {}", half.text());
    }
}

fn with_wrong_entries() -> TestEnvironment {
    TestEnvironment::new()
        .server("box", "good", fake(json!({"tools": ["echo"]})))
        .server("box", "unset", json!({"command": "x", "env": {"TOKEN": "${NO_SUCH_TOKEN}"}}))
        .server("box", "typed", json!({"command": 3, "args": "-y"}))
        .server("box", "text", json!("npx server"))
        .server("box", "empty", json!({}))
        .server("box", "moved", json!({"transport": "pigeon", "url": "https://example.com"}))
        .server("dead", "unset", json!({"command": "x", "args": ["${NO_SUCH_TOKEN}"]}))
}

// invariant: bad-entry-fails-alone
#[test]
fn invalid_entry_disables_only_its_server() {
    let bench = with_wrong_entries();
    let agent = agent(&bench);
    let opened = agent.open("box");
    let answer = opened.structured();
    assert_eq!(answer["servers_connected"], 1);
    insta::assert_snapshot!(format!("{:#}", answer["failed_servers"]));
    assert_eq!(agent.call("box__good__echo", json!({"x": 1})).structured(), json!({"x": 1}));
    let dead = agent.open("dead");
    assert!(dead.is_tool_error() && dead.text().contains("NO_SUCH_TOKEN"), "{}", dead.text());
    let called = agent.use_tool(["box", "unset", "anything"], json!({}));
    assert!(called.is_tool_error() && called.text().contains("NO_SUCH_TOKEN"), "{}", called.text());
    agent.wait_stderr("not serving `box/");
}

#[test]
fn strict_serve_rejects_an_invalid_entry() {
    let bench = with_wrong_entries();
    let output = bench.run(["serve", "--strict"]);
    assert_eq!((output.code, output.stdout.as_str()), (Some(2), ""), "{output}");
    assert!(output.stderr.contains("`NO_SUCH_TOKEN` is not set"), "{output}");
    let good = TestEnvironment::new().server("box", "good", fake(json!({"tools": ["echo"]})));
    assert_eq!(good.run(["serve", "--strict"]).code, Some(0));
}
