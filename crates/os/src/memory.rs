//! Resident memory of processes and process groups, read from `/proc`. Empty on systems without it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// The resident memory of a set of processes, as of one point in time.
#[derive(Debug, Default)]
pub struct ProcessMemory {
    /// Bytes by group and process.
    held: BTreeMap<(u32, u32), u64>,
}

impl ProcessMemory {
    /// Reads the memory of these processes, and of the process groups with these ids.
    pub fn of(wanted: impl IntoIterator<Item = u32>) -> Self {
        let wanted: BTreeSet<u32> = wanted.into_iter().collect();
        if wanted.is_empty() {
            return Self::default();
        }
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let held = pids.filter_map(|pid| {
            let group = group(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?;
            if !wanted.contains(&group) && !wanted.contains(&pid) {
                return None;
            }
            let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
            Some(((group, pid), resident(&status)?))
        });
        Self { held: held.collect() }
    }

    /// Returns the resident bytes of a process; `None` if unknown.
    pub fn process(&self, pid: u32) -> Option<u64> {
        self.held.iter().find(|((_, other), _)| *other == pid).map(|(_, bytes)| *bytes)
    }

    /// Returns the total resident bytes of a process group; `None` if unknown.
    pub fn group(&self, group: u32) -> Option<u64> {
        let mut held = self.held.range((group, 0)..=(group, u32::MAX)).map(|(_, bytes)| *bytes);
        let first = held.next()?;
        Some(first + held.sum::<u64>())
    }
}

fn group(stat: &str) -> Option<u32> {
    // The process name can contain spaces and parentheses.
    stat.rsplit_once(") ")?.1.split(' ').nth(2)?.parse().ok()
}

fn resident(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_group_and_resident_memory() {
        assert_eq!(group("12 (a) b) S 1 10 10 0 -1"), Some(10));
        assert_eq!(resident("Name:\tx\nVmRSS:\t    5124 kB\n"), Some(5124 * 1024));
        assert_eq!((group(""), resident("Name:\tx\n")), (None, None));
    }
}
