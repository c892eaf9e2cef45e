//! The `clock` server: tells the current time and the time between two times.

use std::fmt::Write;

use chrono::format::{Item, StrftimeItems};
use chrono::{DateTime, FixedOffset, SubsecRound, TimeDelta, Utc};
use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::builtin::{BuiltinResult, Toolset, answer, tool};

pub(super) struct Clock {
    /// Replaced in tests.
    pub(super) now: fn() -> DateTime<Utc>,
}

impl Default for Clock {
    fn default() -> Self {
        Self { now: Utc::now }
    }
}

impl Toolset for Clock {
    const NAME: &'static str = "workbench-clock";
    const TITLE: &'static str = "Clock";
    const INSTRUCTIONS: &'static str = "Tells the current time in UTC or at a fixed offset, and \
        the duration between two times. Times are RFC 3339, such as 2026-07-28T09:30:00+02:00.";

    fn tools() -> Vec<Tool> {
        vec![
            tool::<NowArguments, Now>(
                "now",
                "Tells what time it is: the current date, time and weekday, in UTC or at an offset",
                ToolAnnotations::with_title("Current time").read_only(true),
            ),
            tool::<ElapsedArguments, Elapsed>(
                "elapsed",
                "Calculates the duration between two RFC 3339 timestamps, or from one until now",
                ToolAnnotations::with_title("Duration").read_only(true),
            ),
        ]
    }

    fn call(&self, tool: &str, arguments: JsonObject) -> Option<BuiltinResult> {
        match tool {
            "now" => Some(self.now(arguments)),
            "elapsed" => Some(self.elapsed(arguments)),
            _ => None,
        }
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NowArguments {
    /// UTC offset such as `+02:00` (default: UTC).
    offset: Option<String>,
    /// Also format the time with this strftime pattern, such as `%A, %d %B %Y`.
    format: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct Now {
    /// The time in RFC 3339.
    time: String,
    /// Seconds since 1970-01-01T00:00:00Z.
    unix: i64,
    /// The weekday in English.
    weekday: String,
    /// The time in `format`.
    #[serde(skip_serializing_if = "Option::is_none")]
    formatted: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ElapsedArguments {
    /// The start, in RFC 3339.
    from: String,
    /// The end, in RFC 3339 (default: now).
    to: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct Elapsed {
    /// Whole seconds from start to end, negative if the end is earlier.
    seconds: i64,
    /// The duration in words.
    text: String,
}

impl Clock {
    fn now(&self, arguments: JsonObject) -> BuiltinResult {
        answer(arguments, |NowArguments { offset, format }| {
            let offset = match &offset {
                None => FixedOffset::east_opt(0),
                Some(text) => parse_offset(text),
            };
            let Some(offset) = offset else {
                return Err("`offset` must look like `+02:00`, `-05:30` or `Z`".to_owned());
            };
            let time = (self.now)().with_timezone(&offset).trunc_subsecs(0);
            Ok(Now {
                time: rfc3339(&time),
                unix: time.timestamp(),
                weekday: time.format("%A").to_string(),
                formatted: format.map(|format| formatted(&time, &format)).transpose()?,
            })
        })
    }

    fn elapsed(&self, arguments: JsonObject) -> BuiltinResult {
        answer(arguments, |ElapsedArguments { from, to }| {
            let start = parse_time("from", &from)?;
            let end = match to {
                None => (self.now)().fixed_offset(),
                Some(to) => parse_time("to", &to)?,
            };
            let between = end - start;
            Ok(Elapsed { seconds: between.num_seconds(), text: format_duration(between) })
        })
    }
}

fn parse_offset(text: &str) -> Option<FixedOffset> {
    if text.eq_ignore_ascii_case("z") {
        return FixedOffset::east_opt(0);
    }
    text.parse().ok()
}

fn parse_time(key: &str, text: &str) -> Result<DateTime<FixedOffset>, String> {
    DateTime::parse_from_rfc3339(text).map_err(|error| {
        format!("`{key}` must be a time like `2026-07-28T09:30:00Z`, not `{text}`: {error}")
    })
}

fn rfc3339(time: &DateTime<FixedOffset>) -> String {
    time.to_rfc3339_opts(chrono::SecondsFormat::Secs, true)
}

/// Checks the pattern first, because chrono's `to_string` panics on an invalid one.
fn formatted(time: &DateTime<FixedOffset>, pattern: &str) -> Result<String, String> {
    let items: Vec<Item<'_>> = StrftimeItems::new(pattern).collect();
    let mut text = String::new();
    if items.contains(&Item::Error)
        || write!(text, "{}", time.format_with_items(items.iter())).is_err()
    {
        return Err(format!("`format` is not a strftime pattern: `{pattern}`"));
    }
    Ok(text)
}

/// Formats as `1 day 2 h 3 min 4 s`, without parts that are zero.
fn format_duration(duration: TimeDelta) -> String {
    let seconds = duration.num_seconds().unsigned_abs();
    let days = seconds / 86_400;
    let parts = [
        (days, if days == 1 { "day" } else { "days" }),
        (seconds / 3600 % 24, "h"),
        (seconds / 60 % 60, "min"),
        (seconds % 60, "s"),
    ];
    let words: Vec<String> = parts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, unit)| format!("{count} {unit}"))
        .collect();
    match (words.is_empty(), duration < TimeDelta::zero()) {
        (true, _) => "0 s".to_owned(),
        (false, false) => words.join(" "),
        (false, true) => format!("-{}", words.join(" ")),
    }
}

#[cfg(test)]
mod tests;
