//! Durations with a unit on the command line, such as `10s`.

use std::time::Duration;

const EXPECTED: &str = "expected a number and a unit (ms, s, m or h), such as 500ms, 10s or 2m";
const MAX: Duration = Duration::from_hours(1);

/// Parses `500ms`, `10s`, `2m` or `1h`; at most one hour.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let number: u64 = text[..text.len() - unit.len()].parse().map_err(|_| EXPECTED)?;
    let millis: u64 = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "" => {
            return Err(format!(
                "add a unit: `{number}s` for seconds, `{number}ms` for milliseconds"
            ));
        }
        _ => return Err(EXPECTED.to_owned()),
    };
    let duration = number.checked_mul(millis).map(Duration::from_millis);
    duration.filter(|duration| *duration <= MAX).ok_or_else(|| "expected at most 1h".to_owned())
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn parses_numbers_with_units() {
        for (text, millis) in
            [("500ms", 500), ("0s", 0), ("10s", 10_000), ("2m", 120_000), ("1h", 3_600_000)]
        {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn bare_numbers_need_a_unit() {
        let error = parse("30").unwrap_err();
        assert_eq!(error, "add a unit: `30s` for seconds, `30ms` for milliseconds");
    }

    #[test]
    fn rejects_other_texts_and_long_durations() {
        for text in ["", "s", "-1s", "1.5s", "1 s", "1d", "1S", "99999999999999999999s"] {
            assert_eq!(parse(text), Err(EXPECTED.to_owned()), "{text}");
        }
        for text in ["61m", "3601s", "18446744073709551615h"] {
            assert_eq!(parse(text), Err("expected at most 1h".to_owned()), "{text}");
        }
    }
}
