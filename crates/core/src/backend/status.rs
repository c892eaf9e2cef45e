//! Status of a server for display: phase, reason and last stderr lines. Nothing depends on it.

use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::{Mutex, MutexGuard};

use crate::backend::StderrTail;
use crate::backend::exit_cause::strip_stderr_tail;
use mcp_workbench_names::untrusted_text;

/// Maximum characters of a reason or a stderr line.
const MAX_TEXT: usize = 400;

/// Lifecycle phase of a server. The order is the precedence in `BackendStatus::and`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    #[default]
    Stopped,
    /// Failed to start, crashed, or unreachable.
    Failed,
    Starting,
    Running,
}

#[derive(Clone, Debug, Default)]
pub struct BackendStatus {
    pub phase: Phase,
    /// When the phase began.
    pub since: Option<SystemTime>,
    /// Server processes, each the leader of a process group.
    pub pids: Vec<u32>,
    /// Why the server failed, in one line.
    pub reason: Option<String>,
    /// Last lines of stderr, redacted and without control characters.
    pub stderr_tail: Vec<String>,
    /// `true` if an operator stopped it and blocked its start.
    pub is_paused: bool,
    /// `true` if only a sign-in is missing.
    pub wants_sign_in: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct StatusRecorder(Arc<Mutex<CurrentStatus>>);

#[derive(Debug, Default)]
struct CurrentStatus {
    phase: Phase,
    since: Option<SystemTime>,
    pid: Option<u32>,
    reason: Option<String>,
    words: Option<StderrTail>,
    wants_sign_in: bool,
}

impl StatusRecorder {
    fn now(&self) -> MutexGuard<'_, CurrentStatus> {
        self.0.lock()
    }

    pub(crate) fn starting(&self) {
        let mut now = self.now();
        now.enter(Phase::Starting);
        now.reason = None;
    }

    pub(crate) fn running(&self, pid: Option<u32>, stderr_tail: Option<StderrTail>) {
        let mut now = self.now();
        now.enter(Phase::Running);
        (now.pid, now.words) = (pid, stderr_tail);
    }

    pub(crate) fn failed(&self, reason: &str, stderr_tail: Option<StderrTail>) {
        let mut now = self.now();
        now.enter(Phase::Failed);
        now.reason = Some(shown(strip_stderr_tail(reason)));
        now.words = stderr_tail;
    }

    /// Records that the running server is unreachable, or with `None`, reachable again.
    pub(crate) fn unreachable(&self, reason: Option<&str>) {
        let mut now = self.now();
        now.enter(if reason.is_some() { Phase::Failed } else { Phase::Running });
        now.reason = reason.map(shown);
    }

    pub(crate) fn mark_sign_in_wanted(&self) {
        self.now().wants_sign_in = true;
    }

    pub(crate) fn died(&self, how: &str) {
        let mut now = self.now();
        now.enter(Phase::Failed);
        now.reason = Some(shown(strip_stderr_tail(how)));
    }

    /// Records a stop. A failed server stays failed.
    pub(crate) fn stopped(&self) {
        let mut now = self.now();
        if now.phase != Phase::Failed {
            now.enter(Phase::Stopped);
            now.words = None;
        }
    }

    pub(crate) fn snapshot(&self) -> BackendStatus {
        let now = self.now();
        let words = now.words.as_ref().map(StderrTail::text).unwrap_or_default();
        BackendStatus {
            phase: now.phase,
            since: now.since,
            pids: now.pid.into_iter().collect(),
            reason: now.reason.clone(),
            stderr_tail: words.lines().map(shown).filter(|line| !line.is_empty()).collect(),
            is_paused: false,
            wants_sign_in: now.wants_sign_in,
        }
    }
}

impl CurrentStatus {
    fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.since = Some(SystemTime::now());
        self.pid = None;
        self.wants_sign_in = false;
    }
}

impl BackendStatus {
    /// Merges the status of another process of the server. The higher phase wins.
    #[must_use]
    pub(crate) fn and(self, other: Self) -> Self {
        let (mut first, mut second) =
            if other.phase > self.phase { (other, self) } else { (self, other) };
        first.pids.append(&mut second.pids);
        first.is_paused |= second.is_paused;
        first.wants_sign_in |= second.wants_sign_in;
        first
    }
}

fn shown(text: &str) -> String {
    untrusted_text::single_line(text).chars().take(MAX_TEXT).collect()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::backend::exit_cause::with_stderr_tail;
    use crate::telemetry::Redactor;

    #[tokio::test]
    async fn status_keeps_the_stderr_tail_apart_and_escapes_control_characters() {
        let vitals = StatusRecorder::default();
        let secrets = Redactor::from_environment([("API_TOKEN", "hunter2hunter2")]);
        let tail = StderrTail::new(Arc::new(secrets));
        let said = "\u{1b}[31mno key hunter2hunter2\u{1b}[0m\n\n".as_bytes();
        tail.clone().drain(said, "x".to_owned()).await;
        vitals.starting();
        vitals.failed(&with_stderr_tail("exited\u{7}", &tail.text(), true), Some(tail));
        let told = vitals.snapshot();
        assert_eq!(told.phase, Phase::Failed);
        assert_eq!(told.reason.as_deref(), Some("exited"));
        assert_eq!(told.stderr_tail, ["[31mno key *** [0m"]);
        vitals.stopped();
        assert_eq!(vitals.snapshot().phase, Phase::Failed, "stays failed until the next start");
        vitals.starting();
        vitals.running(Some(7), None);
        let told =
            vitals.snapshot().and(BackendStatus { pids: vec![8], ..BackendStatus::default() });
        assert_eq!((told.phase, told.pids, told.reason), (Phase::Running, vec![7, 8], None));
    }
}
