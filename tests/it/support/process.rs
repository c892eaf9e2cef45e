//! Runs programs to their end, and looks up processes by pid.

use std::fmt;
use std::fs::{read_dir, read_to_string};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::Value;

use crate::support::DEADLINE;

pub(crate) fn fake_path() -> &'static str {
    env!("CARGO_BIN_EXE_fake-mcp-server")
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct StartedProcesses {
    pub(crate) servers: Vec<u32>,
    pub(crate) grandchildren: Vec<u32>,
}

impl StartedProcesses {
    /// A missing file means that nothing was started.
    pub(crate) fn read(file: impl AsRef<Path>) -> Self {
        let mut started = Self::default();
        for line in read_to_string(file).unwrap_or_default().lines() {
            let (kind, pid) = line.split_once(' ').expect("a kind and a pid");
            let pids = match kind {
                "server" => &mut started.servers,
                _ => &mut started.grandchildren,
            };
            pids.push(pid.parse().expect("a pid"));
        }
        started
    }

    pub(crate) fn all(&self) -> Vec<u32> {
        [self.servers.as_slice(), self.grandchildren.as_slice()].concat()
    }
}

/// Returns `true` if the process runs. Zombies don't count.
pub(crate) fn alive(pid: u32) -> bool {
    let stat = read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").map(|(_, rest)| rest.as_bytes()[0]);
    state.is_some_and(|state| !matches!(state, b'Z' | b'X'))
}

pub(crate) fn descendants(pid: u32) -> Vec<u32> {
    let entries = read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let parent = |pid: u32| -> Option<u32> {
        let stat = read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
    };
    let all: Vec<(u32, u32)> = pids.filter_map(|pid| Some((pid, parent(pid)?))).collect();
    let mut found = vec![pid];
    let mut next = 0;
    while let Some(&above) = found.get(next) {
        found.extend(all.iter().filter(|(_, parent)| *parent == above).map(|(pid, _)| *pid));
        next += 1;
    }
    found.split_off(1)
}

/// Waits until all processes have exited, and panics with the survivors after `within`. It polls,
/// because they aren't children of the test.
#[track_caller]
pub(crate) fn wait_until_exited(pids: &[u32], within: Duration) {
    let end = Instant::now() + within;
    loop {
        let left: Vec<u32> = pids.iter().copied().filter(|pid| alive(*pid)).collect();
        if left.is_empty() {
            return;
        }
        assert!(Instant::now() < end, "still alive after {within:?}: {left:?}");
        // The end of another process's child can only be polled.
        sleep(Duration::from_millis(5));
    }
}

/// Ignores errors, because the process can have exited.
pub(crate) fn signal(pid: u32, signal: Signal) {
    let _ = kill_process(handle(pid), signal);
}

pub(crate) fn signal_group(pid: u32, signal: Signal) {
    let _ = kill_process_group(handle(pid), signal);
}

fn handle(pid: u32) -> Pid {
    let raw = i32::try_from(pid).expect("a pid is an i32");
    Pid::from_raw(raw).expect("a pid is not 0")
}

#[derive(Debug)]
pub(crate) struct Output {
    /// `None` if a signal ended the command.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Output {
    /// Parses each line of stdout as JSON. The command must have succeeded.
    #[track_caller]
    pub(crate) fn json_lines(&self) -> Vec<Value> {
        assert_eq!(self.code, Some(0), "{self:#?}");
        let lines = self.stdout.lines();
        lines.map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }
}

impl fmt::Display for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { code, stdout, stderr } = self;
        let code = code.map_or("none".to_owned(), |code| code.to_string());
        write!(f, "--- code {code}\n{stdout}")?;
        if stderr.is_empty() {
            return Ok(());
        }
        write!(f, "--- stderr\n{stderr}")
    }
}

/// Runs a command to its end. `input` must fit into a pipe buffer.
#[track_caller]
pub(crate) fn run_to_exit(command: Command, input: &str) -> Output {
    finish_within(DEADLINE, command, input)
}

#[track_caller]
pub(crate) fn finish_within(within: Duration, mut command: Command, input: &str) -> Output {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let pid = child.id();
    let mut stdin = child.stdin.take().expect("piped");
    // A command that reads no input can have exited already.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    let (done, finished) = channel();
    thread::spawn(move || done.send(child.wait_with_output()));
    let output = finished.recv_timeout(within).unwrap_or_else(|_| {
        signal(pid, Signal::KILL);
        panic!("{command:?} is still running after {within:?}");
    });
    let output = output.expect("the program's output");
    let text = |bytes| String::from_utf8(bytes).expect("output in UTF-8");
    Output { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}
