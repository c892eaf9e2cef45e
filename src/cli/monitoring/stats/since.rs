//! Parses `--since`.

use std::time::{Duration, SystemTime};

use chrono::{DateTime, NaiveDate, SecondsFormat, Utc};

/// Parses an age such as `7d`, a date, or an RFC 3339 time. Returns UTC in the format of the audit
/// log.
pub(crate) fn parse(text: &str) -> Result<String, String> {
    parse_at(text, SystemTime::now())
}

fn parse_at(text: &str, now: SystemTime) -> Result<String, String> {
    let time = ago(text, now).or_else(|| {
        let time = DateTime::parse_from_rfc3339(text).map(|time| time.with_timezone(&Utc));
        let date = || Some(text.parse::<NaiveDate>().ok()?.and_hms_opt(0, 0, 0)?.and_utc());
        time.ok().or_else(date)
    });
    let time = time.ok_or_else(|| {
        "expected an age such as 30m, 24h or 7d, a date, or a time such as 2026-11-20T10:00:00Z"
            .to_owned()
    })?;
    Ok(time.to_rfc3339_opts(SecondsFormat::Millis, true))
}

fn ago(text: &str, now: SystemTime) -> Option<DateTime<Utc>> {
    let unit = text.chars().next_back()?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        'w' => 604_800,
        _ => return None,
    };
    let number: u64 = text.strip_suffix(unit)?.parse().ok()?;
    let time = now.checked_sub(Duration::from_secs(number.checked_mul(seconds)?))?;
    // An age beyond 1970 covers all records.
    Some(DateTime::from(time.max(SystemTime::UNIX_EPOCH)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_ages_dates_and_times() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_hours(48);
        let parse = |text| parse_at(text, now);
        assert_eq!(parse("1h").as_deref(), Ok("1970-01-02T23:00:00.000Z"));
        assert_eq!(parse("2d").as_deref(), Ok("1970-01-01T00:00:00.000Z"));
        assert_eq!(parse("9w").as_deref(), Ok("1970-01-01T00:00:00.000Z"));
        assert_eq!(parse("2026-11-20").as_deref(), Ok("2026-11-20T00:00:00.000Z"));
        assert_eq!(parse("2026-11-20T12:00:00.5+02:00").as_deref(), Ok("2026-11-20T10:00:00.500Z"));
        for text in ["", "h", "yesterday", "1y", "-1d", "2026-13-01"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
