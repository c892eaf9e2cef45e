//! Time windows: whether one is open, and when that changes. The clock is an argument.

use std::time::{SystemTime, UNIX_EPOCH};

use mcp_workbench_settings::TimeWindow;

const MINUTE: i64 = 60;
const DAY: i64 = 24 * 60 * MINUTE;

/// A point in time, in whole seconds since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnixTime(i64);

impl UnixTime {
    pub const fn new(seconds: i64) -> Self {
        Self(seconds)
    }

    /// Returns the seconds since the Unix epoch.
    pub const fn seconds(self) -> i64 {
        self.0
    }

    /// Returns the seconds since `earlier`, or 0 if `earlier` is later.
    pub fn seconds_since(self, earlier: Self) -> u64 {
        u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or_default()
    }
}

impl From<SystemTime> for UnixTime {
    fn from(time: SystemTime) -> Self {
        let seconds = |duration: std::time::Duration| i64::try_from(duration.as_secs());
        Self(match time.duration_since(UNIX_EPOCH) {
            Ok(after) => seconds(after).unwrap_or(i64::MAX),
            Err(before) => seconds(before.duration()).map_or(i64::MIN, |seconds| -seconds),
        })
    }
}

/// Returns `true` if the window is open. A window that ends at or before its start runs past
/// midnight and belongs to the day that it starts on.
pub(crate) fn is_open(window: &TimeWindow, now: UnixTime) -> bool {
    let local = local(window, now);
    let (day, second) = (local.div_euclid(DAY), local.rem_euclid(DAY));
    let (from, to) = bounds(window);
    let begun = begins_on(window, day) && second >= from;
    if from < to {
        begun && second < to
    } else {
        begun || (begins_on(window, day - 1) && second < to)
    }
}

/// Returns when the window next opens or closes; `None` if it never does.
pub(crate) fn next_change(window: &TimeWindow, now: UnixTime) -> Option<UnixTime> {
    let is_open_now = is_open(window, now);
    let local = local(window, now);
    let (from, to) = bounds(window);
    let shift = local.checked_sub(now.0)?;
    let first = local.div_euclid(DAY);
    // Windows repeat weekly, so the next change is at most eight days ahead.
    let edges = (first..=first.checked_add(8)?).flat_map(|day| {
        let midnight = day.saturating_mul(DAY);
        let mut edges = [midnight, midnight.saturating_add(from), midnight.saturating_add(to)];
        edges.sort_unstable();
        edges
    });
    let mut edges = edges.map(|edge| UnixTime(edge.saturating_sub(shift)));
    edges.find(|edge| *edge > now && is_open(window, *edge) != is_open_now)
}

fn local(window: &TimeWindow, now: UnixTime) -> i64 {
    now.0.saturating_add(i64::from(window.utc_offset) * MINUTE)
}

fn bounds(window: &TimeWindow) -> (i64, i64) {
    (i64::from(window.from) * MINUTE, i64::from(window.to) * MINUTE)
}

/// Returns `true` if the window starts on this day, counted from 1970-01-01 (a Thursday).
fn begins_on(window: &TimeWindow, day: i64) -> bool {
    let from_monday = usize::try_from((day + 3).rem_euclid(7)).unwrap_or_default();
    window.days.get(from_monday).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests;
