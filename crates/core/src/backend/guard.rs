//! The guard: a second process of ours that ends what servers leave when we are killed.
//!
//! A workbench that ends in order stops its servers itself. For the case that it is killed
//! outright, the guard holds the other end of a pipe: at its end of input it kills what is left.
//! The parent-death signal set by `launch` reaches direct children only; the guard also reaches
//! what those have started: their process groups, and whatever has left these and still has the mark
//! of the launch in its environment.

use std::collections::BTreeMap;
use std::io::{self, BufRead, PipeReader, PipeWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

use crate::backend::launch::container::Farewell;
use crate::os::{self, Started, kill_group};

/// The variable with the mark of a launch.
pub(crate) const MARK: &str = "MCP_WORKBENCH_LAUNCH";

/// How often what is marked is looked for: while it is killed, it can start more.
const MAX_SWEEPS: usize = 50;

/// A guard that is gone sooner than this may be gone at once each time.
const SHORT_LIFE: Duration = Duration::from_secs(1);
/// How many guards in a row may be gone so soon. After them the next server that starts gets another.
pub(crate) const MAX_SHORT_LIVES: usize = 5;

/// The bytes that a pipe takes in at the least before anybody reads from it.
const PIPE_ROOM: usize = 4096;

/// Starts a guard from its executable, with its input.
type Start = fn(&Path, PipeReader) -> io::Result<(Child, Option<Started>)>;

/// Tells the guard which process groups are ours; starts it with the first one, and again when it has
/// gone.
#[derive(Debug)]
pub(crate) struct Guard {
    /// The executable that becomes the guard when it is run as `guard`; `None`: no guard.
    program: Option<PathBuf>,
    start: Start,
    /// How the marks of all launches of ours begin.
    run: String,
    running: Option<Running>,
    /// How many guards in a row were gone soon after their start.
    short_lives: usize,
    /// The groups that are to be ended, each with what is to be said after it.
    groups: BTreeMap<u32, Option<Farewell>>,
}

/// A guard that was started.
#[derive(Debug)]
struct Running {
    child: Child,
    input: PipeWriter,
    since: Instant,
    _started: Option<Started>,
}

impl Guard {
    /// Makes one that is started, as it is needed, from this executable by `start`. It ends whatever
    /// has a mark that begins with `run`.
    pub(crate) fn new(program: Option<PathBuf>, start: Start, run: String) -> Self {
        Self { program, start, run, running: None, short_lives: 0, groups: BTreeMap::new() }
    }

    /// From now on the group is ended when we are killed, and then the farewell is said.
    pub(crate) fn watch(&mut self, group: u32, farewell: Option<&Farewell>) {
        self.groups.insert(group, farewell.cloned());
        if self.running.is_some() {
            self.tell(&added(group, farewell));
        }
        self.short_lives = 0;
        self.renew();
    }

    /// The group is gone.
    pub(crate) fn release(&mut self, group: u32) {
        if self.groups.remove(&group).is_some() {
            self.tell(&format!("-{group}"));
        }
    }

    /// Starts one if there is none, and something to guard.
    pub(crate) fn renew(&mut self) {
        let has_gone = |it: &mut Running| it.child.try_wait().is_ok_and(|status| status.is_some());
        if let Some(gone) = self.running.take_if(has_gone) {
            tracing::warn!(
                "the guard has gone, which ends what is left when the workbench is killed"
            );
            let is_short = gone.since.elapsed() < SHORT_LIFE;
            self.short_lives = if is_short { self.short_lives + 1 } else { 0 };
        }
        let has_given_up = self.short_lives >= MAX_SHORT_LIVES;
        let Some(program) = &self.program else { return };
        if self.running.is_some() || self.groups.is_empty() || has_given_up {
            return;
        }
        let groups = self.groups.iter();
        let groups = groups.map(|(group, farewell)| added(*group, farewell.as_ref()) + "\n");
        let list = format!("={}\n{}", self.run, groups.collect::<String>());
        self.running = start_with(self.start, program, list.as_bytes())
            .inspect_err(|error| tracing::warn!(%error, "the guard could not be started"))
            .ok();
    }

    fn tell(&mut self, line: &str) {
        let input = self.running.as_mut().map(|running| &mut running.input);
        // In one write, which wakes it once.
        let line = format!("{line}\n");
        if let Some(Err(error)) = input.map(|input| input.write_all(line.as_bytes())) {
            tracing::debug!(%error, "the guard is gone");
        }
    }
}

/// The line by which a guard hears of a group: its number, and after it the farewell as JSON.
fn added(group: u32, farewell: Option<&Farewell>) -> String {
    let farewell = farewell.and_then(|farewell| serde_json::to_string(farewell).ok());
    format!("+{group} {}", farewell.unwrap_or_default())
}

/// Starts a guard that has its list from its first moment on: we can be killed in the next.
fn start_with(start: Start, program: &Path, list: &[u8]) -> io::Result<Running> {
    let (early, late) = list.split_at_checked(PIPE_ROOM).unwrap_or((list, &[]));
    let (reader, mut input) = io::pipe()?;
    input.write_all(early)?;
    let (child, started) = start(program, reader)?;
    let mut running = Running { child, input, since: Instant::now(), _started: started };
    if let Err(error) = running.input.write_all(late) {
        tracing::debug!(%error, "the guard is gone");
    }
    Ok(running)
}

/// Runs the guard process: keeps the list until `input` ends, then kills the processes on it, and those
/// with a mark of the same run.
pub fn keep(input: impl BufRead) {
    // From here on it waits, for as long as the workbench lives.
    os::release_program_pages();
    let mut groups = BTreeMap::new();
    let mut run = None;
    for line in input.lines().map_while(Result::ok) {
        match line.split_at_checked(1) {
            Some(("=", name)) => run = Some(name.to_owned()),
            Some(("+", added)) => {
                let (group, farewell) = added.split_once(' ').unwrap_or((added, ""));
                let farewell = serde_json::from_str::<Farewell>(farewell).ok();
                groups.extend(group.parse::<u32>().ok().map(|group| (group, farewell)));
            }
            Some(("-", group)) => {
                let _farewell = group.parse::<u32>().ok().and_then(|group| groups.remove(&group));
            }
            _ => {}
        }
    }
    for group in groups.keys() {
        kill_group(*group);
    }
    if let Some(run) = run {
        kill_marked(&run);
    }
    groups.into_values().flatten().for_each(|farewell| farewell.say());
}

fn kill_marked(run: &str) {
    for _ in 0..MAX_SWEEPS {
        let mut marked = os::processes();
        marked.retain(|process| {
            os::variable_of(*process, MARK).is_some_and(|mark| mark.starts_with(run))
        });
        if marked.is_empty() {
            return;
        }
        marked.into_iter().for_each(os::kill);
    }
}
