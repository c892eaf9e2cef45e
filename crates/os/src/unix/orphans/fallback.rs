//! Stubs for Unix systems other than Linux, where orphans become children of process 1.

use std::io;

/// Does nothing, for lack of a subreaper.
pub(crate) fn adopt() -> io::Result<()> {
    Ok(())
}

pub(crate) fn children() -> Vec<u32> {
    Vec::new()
}

pub(crate) fn has_ended(_: u32) -> bool {
    true
}

/// Not implemented: no orphans are found that could be killed.
pub fn kill(_: u32) {}

pub fn kill_if(_: u32, _: impl FnOnce(u32) -> bool) {}

pub fn start_time(_: u32) -> Option<u64> {
    None
}

pub fn variable_of(_: u32, _: &str) -> Option<String> {
    None
}

pub fn list_processes() -> Vec<u32> {
    Vec::new()
}
