//! Sizes in bytes and estimated tokens, numbers and times as text.

use std::iter::Sum;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use chrono::{DateTime, SecondsFormat, Utc};
use indicatif::HumanCount;
use serde::{Serialize, Serializer};

use mcp_workbench_core::telemetry::estimate_tokens;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ContextSize {
    bytes: usize,
}

impl ContextSize {
    pub(crate) fn of(bytes: usize) -> Self {
        Self { bytes }
    }

    pub(crate) fn bytes(self) -> usize {
        self.bytes
    }

    pub(crate) fn tokens(self) -> usize {
        estimate_tokens(self.bytes)
    }
}

impl std::ops::Add for ContextSize {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self::of(self.bytes + other.bytes)
    }
}

impl Sum for ContextSize {
    fn sum<I: Iterator<Item = Self>>(sizes: I) -> Self {
        sizes.fold(Self::default(), |sum, size| sum + size)
    }
}

impl std::fmt::Display for ContextSize {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}, about {}",
            format_count(self.bytes, "byte"),
            format_count(self.tokens(), "token")
        )
    }
}

/// Serializes as `bytes` and `estimated_tokens`, to be flattened into other objects.
impl Serialize for ContextSize {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct SizeFields {
            bytes: usize,
            estimated_tokens: usize,
        }

        let members = SizeFields { bytes: self.bytes, estimated_tokens: self.tokens() };
        members.serialize(serializer)
    }
}

/// Formats a number with thousands separators.
pub(crate) fn number(number: usize) -> String {
    HumanCount(number as u64).to_string()
}

/// Converts a time that came from a file or another process. Times that can't be represented become
/// the Unix epoch.
pub(crate) fn system_time(since_epoch: Duration) -> SystemTime {
    UNIX_EPOCH.checked_add(since_epoch).unwrap_or(UNIX_EPOCH)
}

/// Formats a time as RFC 3339. `DateTime::from` would panic for times past its range.
pub(crate) fn format_time(time: SystemTime, precision: SecondsFormat) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = i64::try_from(since.as_secs()).ok();
    let date = seconds.and_then(|at| DateTime::from_timestamp(at, since.subsec_nanos()));
    date.unwrap_or(DateTime::<Utc>::MAX_UTC).to_rfc3339_opts(precision, true)
}

/// Time since `since`, or zero if that is in the future.
pub(crate) fn age(since: SystemTime) -> Duration {
    since.elapsed().unwrap_or_default()
}

pub(crate) fn format_age(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..86_400 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// Formats a size in MB, rounded up; empty if it is unknown.
pub(crate) fn mebibytes(bytes: Option<u64>) -> String {
    let whole = |bytes: u64| usize::try_from(bytes.div_ceil(1024 * 1024)).unwrap_or(usize::MAX);
    bytes.map(|bytes| format!("{} MB", number(whole(bytes)))).unwrap_or_default()
}

/// Formats a number of things, with their plural.
pub(crate) fn format_count(number: usize, thing: &str) -> String {
    let (stem, plural) = match thing.strip_suffix("ory") {
        _ if number == 1 => (thing, ""),
        Some(stem) => (stem, "ories"),
        None if thing.ends_with('x') || thing.ends_with("ch") => (thing, "es"),
        None => (thing, "s"),
    };
    format!("{} {stem}{plural}", self::number(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_time_can_be_formatted() {
        let text =
            |seconds| format_time(system_time(Duration::from_secs(seconds)), SecondsFormat::Millis);
        assert_eq!(text(1), "1970-01-01T00:00:01.000Z");
        assert_eq!(text(u64::MAX), text(0), "no such time");
        for seconds in (0..64).map(|bit| u64::MAX >> bit) {
            assert!(text(seconds).ends_with('Z'), "{seconds}");
        }
        let before = UNIX_EPOCH - Duration::from_hours(1);
        assert_eq!(format_time(before, SecondsFormat::Secs), "1970-01-01T00:00:00Z");
    }

    #[test]
    fn formats_age_in_its_largest_unit() {
        let told = [0, 59, 60, 7199, 86_399, 200_000].map(|s| format_age(Duration::from_secs(s)));
        assert_eq!(told, ["0 s", "59 s", "1 min", "1 h", "23 h", "2 d"]);
    }

    #[test]
    fn formats_bytes_and_tokens_with_plurals() {
        assert_eq!(ContextSize::of(1).to_string(), "1 byte, about 0 tokens");
        assert_eq!(ContextSize::of(12_345).to_string(), "12,345 bytes, about 2,743 tokens");
        assert_eq!(format_count(2, "toolbox"), "2 toolboxes");
        assert_eq!(format_count(2, "workbench"), "2 workbenches");
        assert_eq!(format_count(2, "category"), "2 categories");
        assert_eq!(format_count(1, "category"), "1 category");
    }
}
