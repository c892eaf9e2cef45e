//! The scripted startup, before the first line is read.

use std::fs::{OpenOptions, read_to_string};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio, exit, id};
use std::thread;
use std::time::Duration;

use crate::STUBBORN_LIFE;
use crate::script::{Grandchild, GrandchildKind, Script};
use crate::wire::Output;

/// Marks a stubborn server that has already re-executed itself.
const TRAPPED: &str = "--trapped";

pub(crate) fn start(script: &Script, text: &str) -> Vec<u32> {
    if script.stubborn && std::env::args().nth(2).as_deref() != Some(TRAPPED) {
        trap(text);
    }
    if let Some(file) = &script.pid_file {
        append(file, &format!("server {}", id()));
    }
    for line in &script.noise.stderr {
        eprintln!("{line}");
    }
    for line in &script.noise.stdout {
        Output::default().line(line);
    }
    if let Some(fail) = &script.fail_times {
        append(&fail.counter_file, "started");
        let starts = read_to_string(&fail.counter_file).map_or(0, |text| text.lines().count());
        if starts <= fail.n {
            eprintln!("fake-mcp-server: start {starts} fails as scripted");
            exit(1);
        }
    }
    if let Some(fail) = &script.fail_start {
        for line in &fail.stderr {
            eprintln!("{line}");
        }
        exit(fail.code);
    }
    let grandchildren = grandchildren(script);
    thread::sleep(Duration::from_millis(script.start_delay_ms));
    grandchildren
}

/// Re-executes this process with SIGTERM ignored. An ignored signal stays ignored across `exec`,
/// and the standard library has no way to ignore one. The PID stays the same.
fn trap(text: &str) {
    let this = std::env::current_exe().expect("a running program has a path");
    let error = Command::new("sh")
        .args(["-c", r#"trap "" TERM; exec "$@""#, "sh"])
        .arg(this)
        .args([text, TRAPPED])
        .exec();
    eprintln!("fake-mcp-server: cannot ignore SIGTERM: {error}");
    exit(2);
}

#[expect(clippy::zombie_processes, reason = "leaves grandchildren behind on purpose")]
fn grandchildren(script: &Script) -> Vec<u32> {
    let (trap, stdout, group) = match script.grandchild {
        Grandchild::Flag(false) => return Vec::new(),
        Grandchild::Flag(true) => ("", Stdio::null(), None),
        Grandchild::Kind(GrandchildKind::Stubborn) => (r#"trap "" TERM; "#, Stdio::null(), None),
        Grandchild::Kind(GrandchildKind::Holding) => ("", Stdio::inherit(), None),
        Grandchild::Kind(GrandchildKind::Detached) => ("", Stdio::inherit(), Some(0)),
        Grandchild::Kind(GrandchildKind::Astray) => return vec![daemon(script, false)],
        Grandchild::Kind(GrandchildKind::Unmarked) => return vec![daemon(script, true)],
    };
    let mut command = Command::new("sh");
    if let Some(group) = group {
        command.process_group(group);
    }
    let child = command
        .arg("-c")
        .arg(format!("{trap}exec sleep {}", STUBBORN_LIFE.as_secs()))
        .stdin(Stdio::null())
        .stdout(stdout)
        .spawn()
        .expect("a shell");
    note(script, child.id());
    vec![child.id()]
}

/// Starts a process in its own session whose parent exits immediately.
fn daemon(script: &Script, is_unmarked: bool) -> u32 {
    let mut command = Command::new("setsid");
    if is_unmarked {
        command.env_clear();
    }
    let mut parent = command
        .args(["--fork", "sh", "-c"])
        .arg(format!("echo $$; exec sleep {} >/dev/null", STUBBORN_LIFE.as_secs()))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("`setsid`");
    let mut id = String::new();
    let output = parent.stdout.take().expect("piped");
    BufReader::new(output).read_line(&mut id).expect("the daemon's PID");
    parent.wait().expect("an exit status");
    let id = id.trim().parse().expect("an id");
    note(script, id);
    id
}

fn note(script: &Script, grandchild: u32) {
    if let Some(file) = &script.pid_file {
        append(file, &format!("grandchild {grandchild}"));
    }
}

pub(crate) fn append(file: &Path, line: &str) {
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(file)
        .and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()))
        .unwrap_or_else(|error| panic!("cannot write {}: {error}", file.display()));
}
