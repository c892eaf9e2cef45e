//! The condition of a server, for whoever looks on: which part of its life it is in, since when and why,
//! and what it said last on its standard error. Nothing depends on it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use crate::backend::StderrTail;
use crate::backend::death::without_words;
use crate::name::seen;

/// The most characters of a reason, and of one of the last lines.
const MAX_TEXT: usize = 400;

/// The part of its life that a server is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// It does not run.
    #[default]
    Stopped,
    /// It could not be started, or has ended by itself.
    Failed,
    /// It has been started, and has not said yet what it has.
    Starting,
    /// It runs.
    Running,
}

/// The condition of a server at one moment.
#[derive(Clone, Debug, Default)]
pub struct Condition {
    /// The part of its life that it is in.
    pub phase: Phase,
    /// Since when it is in that.
    pub since: Option<SystemTime>,
    /// Its processes, each of which leads a group.
    pub pids: Vec<u32>,
    /// Why it could not be started or has ended, in a line.
    pub reason: Option<String>,
    /// Its last lines on standard error, without secrets and anything unseen.
    pub last_words: Vec<String>,
    /// `true` if the user does not want it to be started.
    pub is_muted: bool,
    /// `true` if all that it lacks is that somebody signs in.
    pub wants_sign_in: bool,
}

/// The condition of one backend, which its actor keeps.
#[derive(Clone, Debug, Default)]
pub(crate) struct Vitals(Arc<Mutex<Now>>);

#[derive(Debug, Default)]
struct Now {
    phase: Phase,
    since: Option<SystemTime>,
    pid: Option<u32>,
    reason: Option<String>,
    words: Option<StderrTail>,
    wants_sign_in: bool,
}

impl Vitals {
    fn now(&self) -> MutexGuard<'_, Now> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It begins to start.
    pub(crate) fn starting(&self) {
        let mut now = self.now();
        now.enter(Phase::Starting);
        now.reason = None;
    }

    /// It runs, as this process.
    pub(crate) fn running(&self, pid: Option<u32>, words: Option<StderrTail>) {
        let mut now = self.now();
        now.enter(Phase::Running);
        (now.pid, now.words) = (pid, words);
    }

    /// It could not be started for this reason, with these last words.
    pub(crate) fn failed(&self, reason: &str, words: Option<StderrTail>) {
        let mut now = self.now();
        now.enter(Phase::Failed);
        now.reason = Some(shown(without_words(reason)));
        now.words = words;
    }

    /// It runs as far as is known, and cannot be reached for this reason; `None`: it can be again.
    pub(crate) fn unreachable(&self, reason: Option<&str>) {
        let mut now = self.now();
        now.enter(if reason.is_some() { Phase::Failed } else { Phase::Running });
        now.reason = reason.map(shown);
    }

    /// It failed for nothing but that nobody has signed in.
    pub(crate) fn wants_sign_in(&self) {
        self.now().wants_sign_in = true;
    }

    /// It has ended by itself, so.
    pub(crate) fn died(&self, how: &str) {
        let mut now = self.now();
        now.enter(Phase::Failed);
        now.reason = Some(shown(&format!("it ended by itself: {}", without_words(how))));
    }

    /// It was stopped.
    pub(crate) fn stopped(&self) {
        let mut now = self.now();
        if now.phase != Phase::Failed {
            now.enter(Phase::Stopped);
            now.words = None;
        }
    }

    /// The condition that it is in.
    pub(crate) fn told(&self) -> Condition {
        let now = self.now();
        let words = now.words.as_ref().map(StderrTail::text).unwrap_or_default();
        Condition {
            phase: now.phase,
            since: now.since,
            pids: now.pid.into_iter().collect(),
            reason: now.reason.clone(),
            last_words: words.lines().map(shown).filter(|line| !line.is_empty()).collect(),
            is_muted: false,
            wants_sign_in: now.wants_sign_in,
        }
    }
}

impl Now {
    fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.since = Some(SystemTime::now());
        self.pid = None;
        self.wants_sign_in = false;
    }
}

impl Condition {
    /// Adds another process of the same server: what lives counts most.
    #[must_use]
    pub(crate) fn and(self, other: Self) -> Self {
        let (mut first, mut second) =
            if other.phase > self.phase { (other, self) } else { (self, other) };
        first.pids.append(&mut second.pids);
        first.is_muted |= second.is_muted;
        first.wants_sign_in |= second.wants_sign_in;
        first
    }
}

/// A text of a server as one line of what is seen.
fn shown(text: &str) -> String {
    seen::line(text).chars().take(MAX_TEXT).collect()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::backend::death::quoted;
    use crate::observe::Secrets;

    #[tokio::test]
    async fn the_last_words_are_beside_the_reason_and_nothing_of_them_commands_a_terminal() {
        let vitals = Vitals::default();
        let secrets = Secrets::of_environment([("API_TOKEN", "hunter2hunter2")]);
        let tail = StderrTail::new(Arc::new(secrets));
        let said = "\u{1b}[31mno key hunter2hunter2\u{1b}[0m\n\n".as_bytes();
        tail.clone().drain(said, "x".to_owned()).await;
        vitals.starting();
        vitals.failed(&quoted("it ended\u{7}", &tail.text(), true), Some(tail));
        let told = vitals.told();
        assert_eq!(told.phase, Phase::Failed);
        assert_eq!(told.reason.as_deref(), Some("it ended"));
        assert_eq!(told.last_words, ["[31mno key *** [0m"]);
        vitals.stopped();
        assert_eq!(vitals.told().phase, Phase::Failed, "it stays so until it is started again");
        vitals.starting();
        vitals.running(Some(7), None);
        let told = vitals.told().and(Condition { pids: vec![8], ..Condition::default() });
        assert_eq!((told.phase, told.pids, told.reason), (Phase::Running, vec![7, 8], None));
    }
}
