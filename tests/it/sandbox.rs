//! Sandboxed servers have access to everything they need and to nothing else.

#![cfg(target_os = "linux")]

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::process::Command;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::process::descendants;
use crate::support::{Agent, TestEnvironment, command, fake};

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
    if mcp_workbench_os::supports_signal_scope() {
        assert_eq!(run(&format!("kill -0 {pid}")), None);
    }
    assert_eq!(run("unshare --user true"), None);
    assert_eq!(run("sleep 60 & kill $! && echo ended").as_deref(), Some("ended"));
}

/// Python code that defines `refused(call)`: whether a call fails with `EPERM`. A call is a function
/// that raises, or the result of a C function.
const REFUSED: &str = r"
import ctypes, errno, os, platform, resource, sys
c = ctypes.CDLL(None, use_errno=True)
other, files = int(sys.argv[1]), resource.RLIMIT_NOFILE
def refused(call):
    ctypes.set_errno(0)
    try:
        result = call()
    except PermissionError:
        return True
    return result == -1 and ctypes.get_errno() == errno.EPERM
";

#[test]
fn sandboxed_server_cannot_change_other_processes_or_reach_their_ipc() {
    let bench = bench(&json!("workspace"));
    let agent = agent(&bench);
    let pid = agent.pid();
    let python = |calls: &str| {
        let code =
            format!("{REFUSED}\nfor name, call in {{{calls}}}.items(): print(name, refused(call))");
        fs::write(bench.path("work/code.py"), code).unwrap();
        shell(&agent, &format!("python3 code.py {pid}")).unwrap()
    };
    let refused = python(
        r#"
        "prlimit": lambda: resource.prlimit(other, files, (64, 64)),
        "affinity": lambda: os.sched_setaffinity(other, {0}),
        "scheduler": lambda: os.sched_setscheduler(other, os.SCHED_BATCH, os.sched_param(0)),
        "param": lambda: os.sched_setparam(other, os.sched_param(0)),
        "priority": lambda: os.setpriority(os.PRIO_PROCESS, other, 19),
        "group priority": lambda: os.setpriority(os.PRIO_PGRP, os.getpgid(other), 19),
        "user priority": lambda: os.setpriority(os.PRIO_USER, os.getuid(), 19),
        "io priority": lambda: c.syscall(251 if platform.machine() == "x86_64" else 30, 1, other, 7),
        "signal to everyone": lambda: os.kill(-1, 0),
        "shared memory": lambda: c.shmget(0x5eed, 4096, 0o1600),
        "message queue": lambda: c.msgget(0x5eed, 0o1600),
        "semaphore": lambda: c.semget(0x5eed, 1, 0o1600),
        "named queue": lambda: c.mq_open(b"/5eed", os.O_RDWR | os.O_CREAT, 0o600, None),
        "#,
    );
    assert_eq!(refused.lines().count(), 13, "{refused}");
    assert!(refused.lines().all(|line| line.ends_with(" True")), "{refused}");
    let allowed = python(
        r#"
        "prlimit": lambda: resource.prlimit(0, files, resource.getrlimit(files)),
        "rlimit": lambda: resource.setrlimit(files, resource.getrlimit(files)),
        "affinity": lambda: os.sched_setaffinity(0, os.sched_getaffinity(0)),
        "scheduler": lambda: os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0)),
        "priority": lambda: os.setpriority(os.PRIO_PROCESS, 0, 19),
        "nice": lambda: os.nice(0),
        "io priority": lambda: c.syscall(251 if platform.machine() == "x86_64" else 30, 1, 0, 4 << 13),
        "#,
    );
    assert!(allowed.lines().all(|line| line.ends_with(" False")), "{allowed}");
}

/// Replaces the folder `data` by a link to `private`, and ends the server.
fn plant_link(bench: &TestEnvironment, agent: &Agent) {
    let private = bench.path_text("private");
    assert!(shell(agent, &format!("rmdir data && ln -s {private} data")).is_some());
    assert!(agent.call("box__srv__crash", json!({})).is_tool_error());
}

fn with_data_folder(sandbox: &Value) -> TestEnvironment {
    let bench = bench(sandbox);
    fs::create_dir(bench.path("work/data")).unwrap();
    fs::create_dir(bench.path("private")).unwrap();
    fs::write(bench.path("private/key"), "mine").unwrap();
    with_data_argument(bench, sandbox)
}

/// Adds a server with the working directory `work` and the argument `./data`.
fn with_data_argument(bench: TestEnvironment, sandbox: &Value) -> TestEnvironment {
    let mut server = fake(json!({ "tools": ["shell", "crash"] }));
    server["args"].as_array_mut().unwrap().push("./data".into());
    server["cwd"] = "work".into();
    server["sandbox"] = sandbox.clone();
    bench.server("box", "srv", server)
}

// invariant: sandbox-confines
#[test]
fn link_planted_by_a_server_grants_nothing_after_a_restart() {
    let bench = with_data_folder(&json!("workspace"));
    let agent = agent(&bench);
    plant_link(&bench, &agent);
    assert_eq!(shell(&agent, "cat own").as_deref(), Some("its own"), "it runs again");
    assert_eq!(shell(&agent, "cat data/key"), None);
    assert_eq!(shell(&agent, "echo x > data/new"), None);
    assert!(!bench.path("private/new").exists());
}

// invariant: sandbox-confines
#[test]
fn link_planted_by_a_server_stops_its_start_in_a_new_process() {
    let bench = with_data_folder(&json!("workspace"));
    plant_link(&bench, &agent(&bench));
    let checked = bench.run(["check", "--connect"]);
    assert_ne!(checked.code, Some(0));
    let text = checked.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("`./data` leads through the link `"), "{text}");
    assert!(text.contains("work/data`, which a sandboxed server can change"), "{text}");
    let private = bench.path("private").canonicalize().unwrap();
    // A user who created the link grants its target.
    let bench = with_data_argument(bench, &json!({ "write": [private] }));
    assert_eq!(shell(&agent(&bench), "cat data/key").as_deref(), Some("mine"));
}

// invariant: sandbox-confines
#[test]
fn home_of_a_server_is_never_behind_a_link_of_a_server() {
    let bench = bench(&json!({ "write": ["home/.cache"] }));
    let private = bench.path("private");
    fs::create_dir(&private).unwrap();
    fs::create_dir_all(bench.path("home/.cache")).unwrap();
    let agent = agent(&bench);
    let homes = bench.path_text("home/.cache/mcp-workbench/homes");
    let planted = format!("mv {homes} {homes}.old && ln -s {} {homes}", private.display());
    assert!(shell(&agent, &planted).is_some());
    drop(agent);
    let checked = bench.run(["check", "--connect"]);
    assert_ne!(checked.code, Some(0));
    let text = checked.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("failed to create its home folder"), "{text}");
    assert!(text.contains("leads through the link"), "{text}");
    assert_eq!(fs::read_dir(private).unwrap().count(), 0);
}

#[test]
fn folder_in_a_variable_is_only_readable() {
    let bench = bench(&json!("workspace"));
    let mut server = fake(json!({ "tools": ["shell"] }));
    server["sandbox"] = "workspace".into();
    server["env"] = json!({ "DATA_DIR": bench.path_text("shared") });
    let bench = bench.server("box", "srv", server);
    let started = agent(&bench);
    assert_eq!(shell(&started, "cat \"$DATA_DIR/book\"").as_deref(), Some("to read"));
    assert_eq!(shell(&started, "echo x > \"$DATA_DIR/new\""), None);
    let checked = bench.run(["check", "--connect"]);
    let text = checked.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("can only read the folders in its variables `DATA_DIR`"), "{text}");
}

#[test]
fn linker_variables_act_only_inside_the_sandbox() {
    let bench = bench(&json!("workspace"));
    let mut server = fake(json!({ "tools": ["shell"] }));
    server["cwd"] = "work".into();
    server["sandbox"] = "workspace".into();
    // The linker writes a file for each program that gets these variables.
    let [inside, outside] = ["work/linker", "linker"].map(|name| bench.path_text(name));
    server["env"] = json!({ "LD_DEBUG": "statistics", "LD_DEBUG_OUTPUT": outside });
    let bench = bench.server("box", "srv", server);
    let agent = agent(&bench);
    let printed = shell(&agent, &format!("LD_DEBUG_OUTPUT={inside} ls; echo $LD_DEBUG_OUTPUT"));
    let printed = printed.unwrap();
    assert_eq!(printed.lines().last(), Some(&*outside), "the server has its variables");
    let files = |folder: &str| {
        let files = fs::read_dir(bench.path(folder)).unwrap().flatten();
        files.filter(|file| file.file_name().to_string_lossy().starts_with("linker.")).count()
    };
    // Without the GNU linker, there are none at all.
    assert_eq!(files("."), 0, "{} in the sandbox", files("work"));
}

/// Runs the program with descriptor 9 open on `secret`.
fn with_inherited_file(bench: &TestEnvironment) -> Agent {
    let serve = bench.serve();
    let mut shell: Command = command("sh");
    shell.args(["-c", "exec 9< \"$0\"; exec \"$@\"", &bench.path_text("secret")]);
    shell.arg(serve.get_program()).args(serve.get_args()).current_dir(bench.dir());
    shell.env_remove("WORKBENCH_CACHE_DIR");
    shell.envs(serve.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let agent = Agent::start(shell);
    agent.initialize();
    agent
}

// invariant: sandbox-confines
#[test]
fn servers_and_the_guard_inherit_no_open_files() {
    for sandbox in ["workspace", "off"] {
        let bench = bench(&json!(sandbox));
        let agent = with_inherited_file(&bench);
        let secret = fs::canonicalize(bench.path("secret")).unwrap();
        assert_eq!(shell(&agent, "cat <&9"), None, "{sandbox}");
        let has_secret = |pid: u32| {
            let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
            files.filter_map(|file| fs::read_link(file.path()).ok()).any(|file| file == secret)
        };
        assert!(has_secret(agent.pid()), "the workbench inherits it");
        let started = descendants(agent.pid());
        assert!(started.len() >= 2, "server and guard: {started:?}");
        assert!(!started.into_iter().any(has_secret), "{sandbox}");
    }
}

#[test]
fn container_engines_inherit_no_open_files() {
    let bench = TestEnvironment::new();
    let engine = bench.path("docker");
    let files = bench.path_text("files");
    fs::write(bench.path("secret"), "mine").unwrap();
    fs::write(&engine, format!("#!/bin/sh\nls -l /proc/self/fd > '{files}'\n")).unwrap();
    fs::set_permissions(&engine, fs::Permissions::from_mode(0o755)).unwrap();
    let mut server = fake(json!({ "tools": ["shell"] }));
    server["container"] = json!({ "image": "any", "engine": engine });
    let bench = bench.server("box", "srv", server);
    let agent = with_inherited_file(&bench);
    agent.open("box");
    let files = fs::read_to_string(files).unwrap();
    assert!(files.contains("pipe:") && !files.contains("secret"), "{files}");
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
    let system = self::bench(&json!({ "write": ["/opt"] })).run(["check", "--connect"]).stdout;
    assert!(system.contains("/opt") && !system.contains("/dev/null"), "{system}");
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
