//! The course of time: how many calls there were in each hour or day.

use std::collections::BTreeMap;

/// The most columns that a plot has room for.
const MOST: usize = 62;
/// The bytes of a time as lines write it that say the hour, and the day.
const HOUR: usize = "2026-01-31T23".len();
const DAY: usize = "2026-01-31".len();

/// Calls by the hour.
#[derive(Debug, Default)]
pub(super) struct Course {
    hours: BTreeMap<String, [u64; 2]>,
}

/// The calls of one hour or day that had any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The hour as `2026-01-31T23`, or the day as `2026-01-31`, in universal time.
    pub begins: String,
    /// How many calls there were.
    pub calls: u64,
    /// How many of them failed on their way, or at the tool.
    pub failed: u64,
}

impl Course {
    /// Counts a call at a time as lines write it.
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

    /// The calls of each hour if there are few of those, else of each day; of the last ones where there
    /// are too many.
    pub(super) fn finish(self) -> Vec<Span> {
        let is_long = self.hours.len() > MOST;
        let mut spans: Vec<Span> = Vec::new();
        for (hour, [calls, failed]) in self.hours {
            let begins = hour.get(..if is_long { DAY } else { HOUR }).unwrap_or_default();
            match spans.last_mut() {
                Some(last) if last.begins == begins => {
                    last.calls += calls;
                    last.failed += failed;
                }
                _ => spans.push(Span { begins: begins.to_owned(), calls, failed }),
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
    fn calls_are_counted_by_the_hour_or_where_there_are_many_by_the_day() {
        let span = |begins: &str, calls, failed| Span { begins: begins.to_owned(), calls, failed };
        let mut course = Course::default();
        course.add("2026-01-31T23:59:59.000Z", false);
        course.add("2026-01-31T23:00:00.000Z", true);
        course.add("2026-02-01T00:00:00.000Z", false);
        course.add("nonsense", false);
        assert_eq!(course.finish(), [span("2026-01-31T23", 2, 1), span("2026-02-01T00", 1, 0)]);
        let mut course = Course::default();
        for hour in 0..72 {
            course.add(&format!("2026-03-{:02}T{:02}:00:00Z", 1 + hour / 24, hour % 24), hour == 0);
        }
        let days = course.finish();
        assert_eq!((days.len(), &days[0]), (3, &span("2026-03-01", 24, 1)));
        let mut course = Course::default();
        for day in 0..100 {
            course.add(&format!("2026-{:02}-{:02}T00:00:00Z", 1 + day / 28, 1 + day % 28), false);
        }
        assert_eq!(course.finish().len(), MOST);
    }
}
