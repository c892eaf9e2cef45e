//! Calls per hour or day.

use std::collections::BTreeMap;

/// Number of columns that fit in a chart.
const MOST: usize = 62;
/// Length of a timestamp's prefix up to the hour, and up to the day.
const HOUR: usize = "2026-01-31T23".len();
const DAY: usize = "2026-01-31".len();

#[derive(Debug, Default)]
pub(super) struct Timeline {
    hours: BTreeMap<String, [u64; 2]>,
}

/// The calls of one hour or day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeBucket {
    /// UTC hour as `2026-01-31T23`, or day as `2026-01-31`.
    pub begins: String,
    pub calls: u64,
    /// Number of calls that failed in transit, at the server or in the tool.
    pub failed: u64,
}

impl Timeline {
    /// Counts a call; `time` is the timestamp of an audit line.
    pub(super) fn add(&mut self, time: &str, is_failed: bool) {
        let Some(hour) = time.get(..HOUR) else { return };
        if !self.hours.contains_key(hour) {
            self.hours.insert(hour.to_owned(), [0, 0]);
        }
        if let Some([calls, failed]) = self.hours.get_mut(hour) {
            *calls += 1;
            *failed += u64::from(is_failed);
        }
    }

    /// Returns the calls per hour, or per day if there are too many hours to chart; only the last
    /// days if there are too many of those.
    pub(super) fn finish(self) -> Vec<TimeBucket> {
        let is_long = self.hours.len() > MOST;
        let mut spans: Vec<TimeBucket> = Vec::new();
        for (hour, [calls, failed]) in self.hours {
            let begins = hour.get(..if is_long { DAY } else { HOUR }).unwrap_or_default();
            match spans.last_mut() {
                Some(last) if last.begins == begins => {
                    last.calls += calls;
                    last.failed += failed;
                }
                _ => spans.push(TimeBucket { begins: begins.to_owned(), calls, failed }),
            }
        }
        spans.split_off(spans.len().saturating_sub(MOST))
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn counts_calls_by_hour_or_by_day_for_long_spans() {
        let span =
            |begins: &str, calls, failed| TimeBucket { begins: begins.to_owned(), calls, failed };
        let mut course = Timeline::default();
        course.add("2026-01-31T23:59:59.000Z", false);
        course.add("2026-01-31T23:00:00.000Z", true);
        course.add("2026-02-01T00:00:00.000Z", false);
        course.add("nonsense", false);
        assert_eq!(course.finish(), [span("2026-01-31T23", 2, 1), span("2026-02-01T00", 1, 0)]);
        let mut course = Timeline::default();
        for hour in 0..72 {
            course.add(&format!("2026-03-{:02}T{:02}:00:00Z", 1 + hour / 24, hour % 24), hour == 0);
        }
        let days = course.finish();
        assert_eq!((days.len(), &days[0]), (3, &span("2026-03-01", 24, 1)));
        let mut course = Timeline::default();
        for day in 0..100 {
            course.add(&format!("2026-{:02}-{:02}T00:00:00Z", 1 + day / 28, 1 + day % 28), false);
        }
        assert_eq!(course.finish().len(), MOST);
    }
}
