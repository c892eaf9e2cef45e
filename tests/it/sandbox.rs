//! Sandboxed servers have access to everything they need and to nothing else.

#![cfg(target_os = "linux")]

use std::fs;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::{Agent, TestEnvironment, fake};

fn bench(sandbox: &Value) -> TestEnvironment {
    let bench = TestEnvironment::new();
    for (file, text) in [("secret", "mine"), ("work/own", "its own"), ("shared/book", "to read")] {
        let file = bench.path(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
    let mut server = fake(json!({ "tools": ["shell"] }));
    server["cwd"] = "work".into();
    server["sandbox"] = sandbox.clone();
    bench.server("box", "srv", server)
}

fn agent(bench: &TestEnvironment) -> Agent {
    let agent = bench.agent();
    agent.initialize();
    agent
}

/// Runs a command in the server's process. Returns its stdout, or `None` if it failed.
fn shell(agent: &Agent, command: &str) -> Option<String> {
    let done = agent.call("box__srv__shell", json!({ "command": command })).structured();
    (done["code"] == 0).then(|| done["stdout"].as_str().unwrap().to_owned())
}

// invariant: sandbox-confines
#[test]
fn sandboxed_server_sees_only_granted_paths() {
    let bench = bench(&json!("workspace"));
    let agent = agent(&bench);
    let run = |command: &str| shell(&agent, command);
    assert_eq!(run("cat own").as_deref(), Some("its own"));
    assert_eq!(run("echo new > made && cat made").as_deref(), Some("new"));
    assert_eq!(run("echo x > \"$TMPDIR/x\" && cat \"$TMPDIR/x\"").as_deref(), Some("x"));
    assert_eq!(run("echo y > \"$HOME/y\" && cat ~/y").as_deref(), Some("y"));
    for refused in [
        "cat ../secret",
        "cat ../config.json",
        "echo x > ../new",
        "echo x >> ../config.json",
        "mv ../secret stolen",
        "ln ../secret stolen",
        "ls ..",
        "echo x > /etc/new",
        "echo x > /tmp/new",
        "ls /root /home",
    ] {
        assert_eq!(run(refused), None, "{refused}");
    }
    assert_eq!(fs::read_to_string(bench.path("secret")).unwrap(), "mine");
    assert!(!bench.path("new").exists());
}

#[test]
fn sandboxed_server_cannot_access_other_processes() {
    let bench = bench(&json!("workspace"));
    let agent = agent(&bench);
    let run = |command: &str| shell(&agent, command);
    let pid = agent.pid();
    assert_eq!(run("grep -aqz ^HOME= /proc/self/environ && echo found").as_deref(), Some("found"));
    for refused in [
        format!("cat /proc/{pid}/environ"),
        format!("cat /proc/{pid}/mem"),
        format!("readlink /proc/{pid}/fd/0"),
        format!("readlink /proc/{pid}/cwd"),
    ] {
        assert_eq!(run(&refused), None, "{refused}");
    }
    // Older kernels don't restrict signals to processes outside; `check --connect` reports that.
    if mcp_workbench_os::os::supports_signal_scope() {
        assert_eq!(run(&format!("kill -0 {pid}")), None);
    }
    assert_eq!(run("unshare --user true"), None);
    assert_eq!(run("sleep 60 & kill $! && echo ended").as_deref(), Some("ended"));
}

#[test]
fn sandbox_grants_network_and_sockets_as_configured() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = port.local_addr().unwrap().port();
    for (sandbox, has_network, has_sockets) in [
        (json!("workspace"), true, false),
        (json!({ "network": false }), false, false),
        (json!({ "network": false, "unixSockets": true }), false, true),
    ] {
        let bench = bench(&sandbox);
        let _listener = UnixListener::bind(bench.path("work/socket")).unwrap();
        let agent = agent(&bench);
        let python = |code: &str| shell(&agent, &format!("python3 -c '{code}'")).is_some();
        let tcp = format!("import socket; socket.create_connection((\"127.0.0.1\", {address}))");
        assert_eq!(python(&tcp), has_network, "{sandbox}");
        let udp = "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM)";
        assert_eq!(python(udp), has_network, "{sandbox}");
        let unix = "import socket; socket.socket(socket.AF_UNIX).connect(\"socket\")";
        assert_eq!(python(unix), has_sockets, "{sandbox}");
        assert!(python("import socket; socket.socketpair()"), "{sandbox}");
    }
}

#[test]
fn sandbox_grants_configured_and_argument_paths() {
    let bench = bench(&json!({ "read": ["shared"], "write": ["work/../extra"] }));
    fs::create_dir(bench.path("extra")).unwrap();
    let agent = agent(&bench);
    assert_eq!(shell(&agent, "cat ../shared/book").as_deref(), Some("to read"));
    assert_eq!(shell(&agent, "echo x > ../shared/book"), None);
    assert_eq!(shell(&agent, "echo x > ../extra/new && cat ../extra/new").as_deref(), Some("x"));
}

#[test]
fn server_can_opt_out_of_the_global_sandbox() {
    let bench = bench(&json!("off")).set("sandbox", json!("workspace"));
    let mut confined = fake(json!({ "tools": ["shell"] }));
    confined["env"] = json!({ "OTHER": "launch" });
    let bench = bench.server("box", "confined", confined);
    let agent = agent(&bench);
    assert_eq!(shell(&agent, "cat ../secret").as_deref(), Some("mine"));
    let command = json!({ "command": format!("cat '{}'", bench.path_text("secret")) });
    let done = agent.call("box__confined__shell", command).structured();
    assert_ne!(done["code"], 0, "{done}");
}

#[test]
fn check_reports_the_reach_of_each_server() {
    let bench = bench(&json!({ "read": ["shared"], "network": false }));
    let bench = bench.server("box", "free", fake(json!({ "tools": ["echo"] })));
    let checked = bench.run(["check", "--connect"]);
    let text = checked.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("`box/srv` is sandboxed: "), "{text}");
    assert!(text.contains(", no network"), "{text}");
    assert!(text.contains("with your full permissions: `box/free`"), "{text}");
    let checked = bench.run(["check", "--connect", "--json"]);
    let report: Value = serde_json::from_str(&checked.stdout).unwrap();
    assert_eq!(report["servers"][0]["reach"]["network"], false);
    assert_eq!(report["servers"][1]["reach"], "everything");
}

#[test]
fn unknown_sandbox_value_is_rejected() {
    let bench = bench(&json!("workspce"));
    let checked = bench.run(["check"]);
    assert_ne!(checked.code, Some(0));
    assert!(checked.stderr.contains("did you mean `workspace`"), "{}", checked.stderr);
}

#[test]
fn built_in_server_runs_in_a_sandbox() {
    let server = json!({
        "command": "mcp-workbench", "args": ["builtin", "clock"], "sandbox": "workspace",
    });
    let agent = agent(&TestEnvironment::new().server("box", "clock", server));
    agent.open("box").ok();
    assert!(agent.call("box__clock__now", json!({})).structured()["time"].is_string());
}
