//! Denials and limits that were reached, counted by whom and why, so that nobody fills the disk by
//! trying again and again: the first of a kind is told at once, and how often it came again once a
//! minute.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::observe::event::DeniedFor;
use crate::observe::holdings::{Holding, Payer};

/// How long incidents of a kind are counted together.
const MINUTE: Duration = Duration::from_mins(1);
/// How many kinds are told apart in a minute; of the others it is only counted what they were.
const MAX_KINDS: usize = 256;

/// Somebody did not get what it wanted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Incident {
    /// Who that was; `None`: one of too many to tell them apart.
    pub(crate) who: Option<Payer>,
    pub(crate) cause: Cause,
}

/// The cause of an incident.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Cause {
    /// It was not let in.
    Denied(DeniedFor),
    /// It wanted to hold more than it may.
    Limit(Holding),
}

/// The incidents of a minute.
#[derive(Debug, Default)]
pub(crate) struct Tally(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// When the minute began; `None`: nothing is counted.
    since: Option<Instant>,
    /// How often each came since it was told.
    counts: HashMap<Incident, u64>,
}

impl Tally {
    /// Counts an incident, and returns what is to be told now, with how often it came.
    pub(crate) fn count(&self, incident: Incident, now: Instant) -> Vec<(Incident, u64)> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut told = state.end(now);
        state.since.get_or_insert(now);
        let is_told_apart = state.counts.len() < MAX_KINDS || state.counts.contains_key(&incident);
        let incident = if is_told_apart { incident } else { Incident { who: None, ..incident } };
        if let Some(count) = state.counts.get_mut(&incident) {
            *count += 1;
        } else {
            state.counts.insert(incident.clone(), 0);
            told.push((incident, 1));
        }
        told
    }

    /// Returns what came again in a minute that is over, or in one that is not where it `is_last`.
    pub(crate) fn take(&self, now: Instant, is_last: bool) -> Vec<(Incident, u64)> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.end(if is_last { now + MINUTE } else { now })
    }

    /// How long it takes until there is something to be told, if there is going to be.
    pub(crate) fn left(&self, now: Instant) -> Option<Duration> {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.since.map(|since| (since + MINUTE).saturating_duration_since(now))
    }
}

impl State {
    fn end(&mut self, now: Instant) -> Vec<(Incident, u64)> {
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

    fn denied(number: u32) -> Incident {
        let who = Some(Payer::Address(std::net::Ipv4Addr::from(number).into()));
        Incident { who, cause: Cause::Denied(DeniedFor::InvalidToken) }
    }

    #[test]
    fn the_first_is_told_at_once_and_the_others_once_a_minute() {
        let (tally, start) = (Tally::default(), Instant::now());
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
    fn any_number_of_addresses_makes_few_lines() {
        let (tally, start) = (Tally::default(), Instant::now());
        let told: usize = (0..100_000).map(|number| tally.count(denied(number), start).len()).sum();
        assert_eq!(told, MAX_KINDS + 1);
        let rest = tally.take(start, true);
        let others = Incident { who: None, ..denied(0) };
        assert_eq!(rest, [(others, 100_000 - MAX_KINDS as u64 - 1)]);
    }
}
