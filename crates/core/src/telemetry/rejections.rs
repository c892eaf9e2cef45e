//! Rate-limits audit and log lines about denials and exhausted quotas, so that a client that keeps
//! retrying can't fill the disk. The first rejection of a kind is reported immediately, repeats once a
//! minute with their count.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::telemetry::event::AccessDenialReason;
use crate::telemetry::quota::{QuotaKind, QuotaOwner};

/// Interval between reports of repeats.
const MINUTE: Duration = Duration::from_mins(1);
/// Number of distinct rejections tracked per interval. Beyond that, callers are merged and only
/// causes are distinguished.
const MAX_KINDS: usize = 256;

/// A request that was denied or exceeded a quota.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Rejection {
    /// `None` if there are too many callers to track.
    pub(crate) who: Option<QuotaOwner>,
    pub(crate) cause: RejectionCause,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum RejectionCause {
    Denied(AccessDenialReason),
    Limit(QuotaKind),
}

#[derive(Debug, Default)]
pub(crate) struct RejectionCounter(Mutex<RejectionCounts>);

#[derive(Debug, Default)]
struct RejectionCounts {
    /// Start of the interval; `None` if nothing is counted.
    since: Option<Instant>,
    /// Repeats since the last report.
    counts: HashMap<Rejection, u64>,
}

impl RejectionCounter {
    /// Counts a rejection and returns the rejections to report now, with their counts.
    pub(crate) fn count(&self, incident: Rejection, now: Instant) -> Vec<(Rejection, u64)> {
        let mut state = self.0.lock();
        let mut told = state.end(now);
        state.since.get_or_insert(now);
        let is_told_apart = state.counts.len() < MAX_KINDS || state.counts.contains_key(&incident);
        let incident = if is_told_apart { incident } else { Rejection { who: None, ..incident } };
        if let Some(count) = state.counts.get_mut(&incident) {
            *count += 1;
        } else {
            state.counts.insert(incident.clone(), 0);
            told.push((incident, 1));
        }
        told
    }

    /// Returns the repeats if the interval has elapsed or `is_last` is set.
    pub(crate) fn take(&self, now: Instant, is_last: bool) -> Vec<(Rejection, u64)> {
        let mut state = self.0.lock();
        state.end(if is_last { now + MINUTE } else { now })
    }

    /// Returns the time until the next report is due; `None` if nothing is counted.
    pub(crate) fn left(&self, now: Instant) -> Option<Duration> {
        let state = self.0.lock();
        state.since.map(|since| (since + MINUTE).saturating_duration_since(now))
    }
}

impl RejectionCounts {
    fn end(&mut self, now: Instant) -> Vec<(Rejection, u64)> {
        if self.since.is_none_or(|since| now.saturating_duration_since(since) < MINUTE) {
            return Vec::new();
        }
        self.since = None;
        self.counts.drain().filter(|(_, count)| *count > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denied(number: u32) -> Rejection {
        let who = Some(QuotaOwner::Address(std::net::Ipv4Addr::from(number).into()));
        Rejection { who, cause: RejectionCause::Denied(AccessDenialReason::InvalidToken) }
    }

    #[test]
    fn reports_the_first_rejection_at_once_and_repeats_once_a_minute() {
        let (tally, start) = (RejectionCounter::default(), Instant::now());
        assert_eq!(tally.count(denied(1), start), [(denied(1), 1)]);
        for _ in 0..1000 {
            assert_eq!(tally.count(denied(1), start), []);
        }
        assert_eq!(tally.count(denied(2), start), [(denied(2), 1)]);
        assert_eq!(tally.take(start + MINUTE / 2, false), []);
        assert_eq!(tally.left(start + MINUTE / 2), Some(MINUTE / 2));
        assert_eq!(tally.take(start + MINUTE, false), [(denied(1), 1000)]);
        assert_eq!(tally.left(start), None);
        tally.count(denied(3), start);
        tally.count(denied(3), start);
        assert_eq!(tally.take(start, true), [(denied(3), 1)]);
    }

    #[test]
    fn bounds_the_rejections_tracked_per_minute() {
        let (tally, start) = (RejectionCounter::default(), Instant::now());
        let told: usize = (0..100_000).map(|number| tally.count(denied(number), start).len()).sum();
        assert_eq!(told, MAX_KINDS + 1);
        let rest = tally.take(start, true);
        let others = Rejection { who: None, ..denied(0) };
        assert_eq!(rest, [(others, 100_000 - MAX_KINDS as u64 - 1)]);
    }
}
