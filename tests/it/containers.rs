//! Isolation and cleanup of servers in containers.
//!
//! The engine is Podman with separate storage for each test. If it can't run containers, the tests
//! print a notice and pass.

#![cfg(target_os = "linux")]

use std::fs;
use std::process::Stdio;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::process::wait_until_exited;
use crate::support::{Agent, DEADLINE, TestEnvironment, command, fake};

const IMAGE: &str = "workbench-empty";

/// Environment variables that confine Podman to the test folder.
fn variables(bench: &TestEnvironment) -> [(&'static str, String); 2] {
    [
        ("CONTAINERS_CONF", bench.path_text("containers.conf")),
        ("CONTAINERS_STORAGE_CONF", bench.path_text("storage.conf")),
    ]
}

fn podman(bench: &TestEnvironment, args: &[&str]) -> Option<String> {
    let mut podman = command("podman");
    podman.args(args).envs(variables(bench)).stdin(Stdio::null());
    let output = podman.output().ok()?;
    if !output.status.success() {
        eprintln!("podman {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr));
        return None;
    }
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// A test environment with an image, or `None` if no engine can run containers.
fn engine() -> Option<TestEnvironment> {
    let bench = TestEnvironment::new();
    // Inside some virtual machines an engine can't set Podman's default limits.
    let conf = "[containers]\ndefault_ulimits = [\"nofile=1024:1024\", \"nproc=1024:1024\"]\n\
                [engine]\nruntime = \"runc\"\ncgroup_manager = \"cgroupfs\"\nevents_logger = \"none\"\n";
    let (graph, run) = (bench.path_text("graph"), bench.path_text("run"));
    let storage =
        format!("[storage]\ndriver = \"vfs\"\ngraphroot = \"{graph}\"\nrunroot = \"{run}\"\n");
    let bench = bench.file("containers.conf", conf).file("storage.conf", &storage);
    fs::create_dir_all(bench.path("rootfs/tmp")).unwrap();
    let (rootfs, tar) = (bench.path_text("rootfs"), bench.path_text("rootfs.tar"));
    let packed = command("tar").args(["-C", &rootfs, "-cf", &tar, "."]).status();
    assert!(packed.expect("tar").success());
    let runs = podman(&bench, &["import", "--quiet", &tar, IMAGE]).and_then(|_| {
        let bind =
            ["/bin", "/lib", "/lib64", "/usr"].map(|path| format!("--volume={path}:{path}:ro"));
        let run = ["run", "--rm", "--network=none"];
        let args = run.into_iter().chain(bind.iter().map(String::as_str));
        podman(&bench, &args.chain([IMAGE, "/bin/true"]).collect::<Vec<_>>())
    });
    if runs.is_none() {
        eprintln!("skipped: this machine cannot run containers");
        return None;
    }
    let [(conf, conf_file), (storage, storage_file)] = variables(&bench);
    let bench = bench.env(conf, &conf_file).env(storage, &storage_file);
    for (file, text) in [("secret", "mine"), ("work/own", "its own"), ("shared/book", "to read")] {
        let file = bench.path(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
    Some(bench)
}

/// A server in a container with the programs of this machine and the working directory `work`.
fn contained(script: Value) -> Value {
    let mut server = fake(script);
    let program = server["command"].as_str().unwrap().to_owned();
    server["cwd"] = "work".into();
    server["container"] = json!({
        "image": IMAGE,
        "engine": "podman",
        "network": false,
        "read": ["/bin", "/lib", "/lib64", "/usr", program, "shared"],
    });
    server
}

/// Runs a command in the server and returns its stdout, or `None` if it failed.
fn shell(agent: &Agent, command: &str) -> Option<String> {
    let done = agent.call("box__srv__shell", json!({ "command": command })).structured();
    (done["code"] == 0).then(|| done["stdout"].as_str().unwrap().to_owned())
}

// invariant: sandbox-confines
#[test]
fn container_sees_only_its_mounts() {
    let Some(bench) = engine() else { return };
    let mut server = contained(json!({ "tools": ["shell"] }));
    server["env"] = json!({ "TOKEN": "s3cret", "PATH": "/usr/bin:/bin" });
    let bench = bench.server("box", "srv", server);
    let agent = bench.agent();
    agent.initialize();
    let run = |command: &str| shell(&agent, command);
    assert_eq!(run("cat own").as_deref(), Some("its own"));
    assert_eq!(run("echo new > made && cat made").as_deref(), Some("new"));
    assert_eq!(fs::read_to_string(bench.path("work/made")).unwrap().trim(), "new");
    assert_eq!(run("cat ../shared/book").as_deref(), Some("to read"));
    assert_eq!(run("echo y > \"$HOME/y\" && cat ~/y").as_deref(), Some("y"));
    assert_eq!(run("echo $TOKEN $PATH").as_deref(), Some("s3cret /usr/bin:/bin"));
    for refused in [
        "cat ../secret",
        "cat ../config.json",
        "echo x > ../shared/book",
        "ls /etc/passwd",
        "printenv CONTAINERS_CONF",
        "test -e /sys/class/net/eth0",
        "mount -t tmpfs none /tmp",
    ] {
        assert_eq!(run(refused), None, "{refused}");
    }
    let command_lines = fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|process| fs::read(process.path().join("cmdline")).ok());
    let is_told = |line: &Vec<u8>| line.windows(6).any(|window| window == b"s3cret");
    assert!(
        !command_lines.into_iter().any(|line| is_told(&line)),
        "a command line contains a secret"
    );
    agent.close_stdin();
    assert_eq!(agent.wait_exit(DEADLINE).code(), Some(0));
    assert_eq!(podman(&bench, &["ps", "--all", "--quiet"]).as_deref(), Some(""));
}

// invariant: sandbox-confines
#[test]
fn link_planted_in_a_container_mounts_nothing_after_a_restart() {
    let Some(bench) = engine() else { return };
    let mut server = contained(json!({ "tools": ["shell", "crash"] }));
    server["args"].as_array_mut().unwrap().push("./data".into());
    server["env"] = json!({ "PATH": "/usr/bin:/bin", "BOOKS": bench.path_text("books") });
    let bench = bench.server("box", "srv", server);
    for folder in ["work/data", "private", "books"] {
        fs::create_dir(bench.path(folder)).unwrap();
    }
    fs::write(bench.path("private/key"), "mine").unwrap();
    let agent = bench.agent();
    agent.initialize();
    assert_eq!(shell(&agent, "echo x > \"$BOOKS/new\""), None, "a variable grants only reading");
    let private = bench.path_text("private");
    assert!(shell(&agent, &format!("rmdir data && ln -s {private} data")).is_some());
    assert!(agent.call("box__srv__crash", json!({})).is_tool_error());
    assert_eq!(shell(&agent, "cat own").as_deref(), Some("its own"), "it runs again");
    assert_eq!(shell(&agent, "cat data/key"), None);
    drop(agent);

    let agent = bench.agent().relisting_on_change();
    agent.initialize();
    let opened = agent.open("box").structured();
    assert!(opened.to_string().contains("`./data` leads through the link `"), "{opened}");
}

#[test]
fn container_stops_on_exit_and_on_kill() {
    let Some(bench) = engine() else { return };
    let script = json!({ "tools": ["echo"], "stubborn": true, "grandchild": "stubborn" });
    let bench = bench.server("box", "srv", contained(script));
    for is_killed in [false, true] {
        let agent = bench.agent();
        agent.initialize();
        agent.open("box");
        let inside = podman(&bench, &["ps", "--quiet"]).unwrap();
        let pid = podman(&bench, &["inspect", "--format", "{{.State.Pid}}", &inside]).unwrap();
        if is_killed {
            agent.kill();
        } else {
            agent.close_stdin();
            assert_eq!(agent.wait_exit(DEADLINE).code(), Some(0));
        }
        wait_until_exited(&[pid.parse().unwrap()], DEADLINE);
        // The engine removes a container shortly after its processes have exited.
        while podman(&bench, &["ps", "--all", "--quiet"]).as_deref() != Some("") {
            std::thread::yield_now();
        }
    }
}

#[test]
fn missing_engine_fails_only_that_server() {
    let mut server = fake(json!({ "tools": ["echo"] }));
    server["container"] = "any".into();
    let other = fake(json!({ "tools": ["echo"] }));
    let bench = TestEnvironment::new().server("box", "srv", server).server("box", "other", other);
    let bench = bench.env("PATH", "/nowhere");
    let agent = bench.agent().relisting_on_change();
    agent.initialize();
    let opened = agent.open("box").structured();
    assert_eq!(opened["servers_connected"], 1, "{opened}");
    let reason = "no container engine found: neither `docker` nor `podman` is on PATH";
    assert!(opened.to_string().contains(reason), "{opened}");
}
