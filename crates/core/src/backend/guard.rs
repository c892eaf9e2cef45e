//! The guard: a second process of ours that ends every server's process group when we are killed.
//!
//! A workbench that ends in order stops its servers itself. For the case that it is killed
//! outright, the guard holds the other end of a pipe: at its end of input it kills what is left.
//! The parent-death signal set by `launch` reaches direct children only; the guard also reaches
//! what those have started.

use std::collections::BTreeSet;
use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};
use std::process::ChildStdin;
use std::sync::{Mutex, PoisonError};

use crate::os::kill_group;

/// Starts a guard from its executable, and gives what it is told by.
type Start = fn(&Path) -> io::Result<ChildStdin>;

/// Tells the guard which process groups are ours; starts it with the first one.
#[derive(Debug)]
pub(crate) struct Guard {
    /// The executable that becomes the guard when it is run as `guard`; `None`: no guard.
    program: Option<PathBuf>,
    start: Start,
    input: Mutex<Option<ChildStdin>>,
}

impl Guard {
    /// Makes one that is started, as it is needed, from this executable by `start`.
    pub(crate) fn new(program: Option<PathBuf>, start: Start) -> Self {
        Self { program, start, input: Mutex::new(None) }
    }

    /// From now on the group is ended when we are killed.
    pub(crate) fn watch(&self, group: u32) {
        let mut input = self.input.lock().unwrap_or_else(PoisonError::into_inner);
        if input.is_none()
            && let Some(program) = &self.program
        {
            *input = (self.start)(program)
                .inspect_err(|error| tracing::warn!(%error, "the guard could not be started"))
                .ok();
        }
        Self::tell(input.as_mut(), '+', group);
    }

    /// The group is gone.
    pub(crate) fn release(&self, group: u32) {
        let mut input = self.input.lock().unwrap_or_else(PoisonError::into_inner);
        Self::tell(input.as_mut(), '-', group);
    }

    fn tell(input: Option<&mut ChildStdin>, verb: char, group: u32) {
        let told = input.map(|input| writeln!(input, "{verb}{group}"));
        if let Some(Err(error)) = told {
            tracing::debug!(%error, "the guard is gone");
        }
    }
}

/// Runs the guard process: keeps the list until `input` ends, then kills the processes on it.
pub fn keep(input: impl BufRead) {
    let mut groups = BTreeSet::new();
    for line in input.lines().map_while(Result::ok) {
        match line.split_at_checked(1) {
            Some(("+", group)) => groups.extend(group.parse::<u32>().ok()),
            Some(("-", group)) => {
                let _known = group.parse().is_ok_and(|group: u32| groups.remove(&group));
            }
            _ => {}
        }
    }
    for group in groups {
        kill_group(group);
    }
}
