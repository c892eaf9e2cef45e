//! Misbehaving peers, in large numbers or for minutes. Healthy peers must not fail, every call must
//! end, and nothing may leak. Each test prints its figures to stderr.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::agent::Response;
use crate::support::process::{descendants, wait_until_exited};
use crate::support::{Agent, DEADLINE, RequestId};

mod agents;
mod crowd;
mod cycles;
mod pressure;

#[derive(Clone, Copy)]
struct Held {
    files: usize,
    threads: usize,
    /// In kB.
    resident: usize,
    processes: usize,
}

impl Held {
    fn by(agent: &Agent) -> Self {
        let pid = agent.pid();
        let count = |what: &str| fs::read_dir(format!("/proc/{pid}/{what}")).unwrap().count();
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        let resident = resident.trim().trim_end_matches(" kB").parse().unwrap();
        let processes = descendants(pid).len();
        Self { files: count("fd"), threads: count("task"), resident, processes }
    }

    #[track_caller]
    fn once(agent: &Agent, what: &str, is_so: impl Fn(&Self) -> bool) -> Self {
        let end = Instant::now() + DEADLINE;
        loop {
            let held = Self::by(agent);
            if is_so(&held) {
                return held;
            }
            assert!(Instant::now() < end, "{what}: {held}");
            // The descriptors of another process can only be polled.
            sleep(Duration::from_millis(5));
        }
    }
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { files, threads, resident, processes } = self;
        write!(f, "{files} files, {threads} threads, {resident} kB, {processes} processes")
    }
}

/// The calls of a test; each must end exactly once.
struct Calls<'a> {
    agent: &'a Agent,
    sent: Vec<RequestId>,
    ends: BTreeMap<&'static str, usize>,
}

impl<'a> Calls<'a> {
    fn of(agent: &'a Agent) -> Self {
        Self { agent, sent: Vec::new(), ends: BTreeMap::new() }
    }

    fn send(&mut self, server: &str, tool: &str, arguments: &Value) -> RequestId {
        let tool = json!({"toolbox": "all", "server": server, "tool": tool});
        let id = self.agent.send_call("use_tool", json!({"tool": tool, "arguments": arguments}));
        self.sent.push(id.clone());
        id
    }

    fn wait(&mut self, id: &RequestId) -> Response {
        let response = self.agent.wait(id);
        *self.ends.entry(response.kind()).or_default() += 1;
        response
    }

    /// Cancels a call, which must then stay unanswered.
    fn cancel(&mut self, id: &RequestId) {
        self.agent.cancel(id);
        *self.ends.entry("cancelled").or_default() += 1;
    }

    fn check(&self) {
        assert_eq!(self.ends.values().sum::<usize>(), self.sent.len());
        for id in &self.sent {
            assert!(self.agent.answered(id).is_none(), "{id:?} was answered again");
        }
    }
}

impl fmt::Display for Calls<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} calls", self.sent.len())?;
        for (kind, count) in &self.ends {
            write!(f, ", {count} {kind}")?;
        }
        Ok(())
    }
}

/// Asserts that the idle workbench uses almost no CPU time.
#[track_caller]
fn check_rest(agent: &Agent) {
    let spent = || -> u64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", agent.pid())).unwrap();
        let fields: Vec<_> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    };
    let before = spent();
    // The idle interval that is measured.
    sleep(Duration::from_millis(300));
    let spent = spent() - before;
    assert!(spent <= 6, "used {spent} of 30 ticks while idle");
}

/// Stops the workbench, which must exit within 3 s and leave no process behind.
fn end(agent: &Agent) {
    let everybody = descendants(agent.pid());
    agent.close_stdin();
    assert_eq!(agent.wait_exit(Duration::from_secs(3)).code(), Some(0));
    wait_until_exited(&everybody, Duration::from_secs(2));
}
