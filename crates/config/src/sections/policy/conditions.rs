//! Validation of policy conditions (`when`).

use std::cmp::Ordering;

use globset::GlobBuilder;
use regex::Regex;

use crate::sections::policy::patterns::check_tool_patterns;
use crate::sections::policy::raw::{RawArgument, RawPolicyCondition, RawTimeWindow};
use crate::syntax::paths::{PathResolver, expand_tilde};
use crate::syntax::reader::{ConfigReader, Located, did_you_mean, quoted_list};
use mcp_workbench_settings::{ArgumentTest, PolicyCondition, TimeWindow};
use mcp_workbench_wire::json::exact::compare_numbers;

/// Checks one condition and reports its errors; the result may still contain invalid parts.
pub(super) fn check(
    raw: Located<RawPolicyCondition>,
    servers: &[String],
    paths: &PathResolver<'_>,
    reader: &mut ConfigReader<'_>,
) -> PolicyCondition {
    let Located { value: raw, location: spot } = raw;
    let RawPolicyCondition { tools, arguments, working_directory, time } = raw;
    let is_idle = arguments.is_none() && working_directory.is_none() && time.is_none();
    if is_idle && !reader.has_error_in(&spot) {
        let hint = "add `arguments`, `workingDirectory` or `time`".to_owned();
        reader.report_error(&spot, "expected a condition", Some(hint));
    }
    if tools.as_ref().is_some_and(Vec::is_empty) {
        reader.report_warning(&spot, "no effect: `tools` is empty", None);
    }
    PolicyCondition {
        tools: tools.map(|tools| check_tool_patterns(tools, servers, reader)),
        arguments: arguments
            .unwrap_or_default()
            .0
            .into_iter()
            .map(|(pointer, raw)| {
                check_pointer(&pointer, reader);
                (pointer.value, argument(raw, reader))
            })
            .collect(),
        working_directory: working_directory.map(|globs| {
            globs.into_iter().map(|folder| folder_glob(&folder, paths, reader)).collect()
        }),
        time: time.and_then(|raw| window(raw, reader)),
    }
}

fn check_pointer(pointer: &Located<String>, reader: &mut ConfigReader<'_>) {
    if !pointer.value.starts_with('/') {
        let hint = format!("write `/{}`", pointer.value);
        let message = "expected a JSON pointer, which starts with `/`";
        reader.report_error(&pointer.location, message, Some(hint));
    }
}

fn argument(raw: Located<RawArgument>, reader: &mut ConfigReader<'_>) -> ArgumentTest {
    let Located { value: raw, location: spot } = raw;
    let RawArgument { matches, not_matches, min, max, one_of } = raw;
    let is_idle = matches.is_none() && not_matches.is_none();
    if is_idle && min.is_none() && max.is_none() && one_of.is_none() && !reader.has_error_in(&spot)
    {
        let hint = "add `matches`, `notMatches`, `min`, `max` or `oneOf`".to_owned();
        reader.report_error(&spot, "expected a condition on the argument", Some(hint));
    }
    for pattern in [&matches, &not_matches].into_iter().flatten() {
        if let Err(error) = Regex::new(&pattern.value) {
            let text = error.to_string();
            // The last line is the reason; the lines before it show the position in the pattern.
            let why = text.lines().last().unwrap_or_default().trim_start_matches("error: ");
            let message = format!("`{}` is not a regular expression: {why}", pattern.value);
            let hint = "see https://docs.rs/regex for the syntax".to_owned();
            reader.report_error(&pattern.location, message, Some(hint));
        }
    }
    if let (Some(min), Some(max)) = (&min, &max)
        && compare_numbers(&min.value.to_string(), &max.value.to_string())
            .is_some_and(Ordering::is_gt)
    {
        reader.report_error(&min.location, "`min` is larger than `max`", None);
    }
    ArgumentTest {
        matches: matches.map(|pattern| pattern.value),
        not_matches: not_matches.map(|pattern| pattern.value),
        min: min.map(|number| number.value),
        max: max.map(|number| number.value),
        one_of,
    }
}

/// Returns an absolute glob: expands `~`, and resolves relative globs against the file's directory.
fn folder_glob(
    folder: &Located<String>,
    paths: &PathResolver<'_>,
    reader: &mut ConfigReader<'_>,
) -> String {
    let glob = expand_tilde(&folder.value, paths);
    let is_anywhere = glob.starts_with('*') || std::path::Path::new(&glob).is_absolute();
    let glob = if is_anywhere {
        glob
    } else {
        let base = globset::escape(&paths.base_dir.to_string_lossy());
        let rest = glob.strip_prefix("./").unwrap_or(&glob);
        let rest = if rest == "." { "" } else { rest };
        format!("{}/{rest}", base.trim_end_matches('/')).trim_end_matches('/').to_owned()
    };
    if let Err(error) = GlobBuilder::new(&glob).literal_separator(true).build() {
        let message = format!("`{}` is not a glob: {}", folder.value, error.kind());
        let hint = "write a folder, or a glob such as `~/work/**`".to_owned();
        reader.report_error(&folder.location, message, Some(hint));
    }
    glob
}

fn window(raw: Located<RawTimeWindow>, reader: &mut ConfigReader<'_>) -> Option<TimeWindow> {
    let Located { value: RawTimeWindow { between, days, utc_offset }, location: spot } = raw;
    if between.is_none() && days.is_none() && !reader.has_error_in(&spot) {
        let hint = "add `\"between\": [\"09:00\", \"17:00\"]` or `days`".to_owned();
        reader.report_error(&spot, "expected `between` or `days`", Some(hint));
    }
    let (from, to) = match between.as_deref() {
        None => (0, MINUTES_PER_DAY),
        Some([from, to]) => {
            let minutes =
                (clock(from, MINUTES_PER_DAY - 1, reader)?, clock(to, MINUTES_PER_DAY, reader)?);
            if minutes.0 == minutes.1 {
                let hint = "remove `between` for the whole day".to_owned();
                reader.report_error(&to.location, "start and end are equal", Some(hint));
            }
            minutes
        }
        Some(_) => {
            let hint = "write `\"between\": [\"09:00\", \"17:00\"]`".to_owned();
            if !reader.has_error_in(&spot) {
                reader.report_error(&spot, "expected two times in `between`", Some(hint));
            }
            return None;
        }
    };
    let days = days.map_or(Some([true; 7]), |days| week(&days, reader))?;
    let utc_offset = utc_offset.map_or(Some(0), |text| offset(&text, reader))?;
    Some(TimeWindow { from, to, days, utc_offset })
}

const MINUTES_PER_HOUR: u32 = 60;
const MINUTES_PER_DAY: u32 = 24 * MINUTES_PER_HOUR;

/// Parses `HH:MM` to minutes since midnight.
fn minutes(text: &str) -> Option<u32> {
    let (hours, minutes) = text.split_once(':')?;
    let number = |part: &str| {
        let is_number = part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| part.parse::<u32>().ok())?
    };
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    (minutes < MINUTES_PER_HOUR).then_some(hours * MINUTES_PER_HOUR + minutes)
}

fn clock(text: &Located<String>, most: u32, reader: &mut ConfigReader<'_>) -> Option<u32> {
    let found = minutes(text.value.trim()).filter(|minutes| *minutes <= most);
    if found.is_none() {
        let message = format!("expected a time such as `09:00`, found `{}`", text.value);
        reader.report_error(&text.location, message, None);
    }
    found
}

const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
const LONG_DAYS: [&str; 7] =
    ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];

fn week(days: &[Located<String>], reader: &mut ConfigReader<'_>) -> Option<[bool; 7]> {
    let mut week = [false; 7];
    let mut is_right = true;
    for day in days {
        let name = day.value.trim().to_lowercase();
        let is_it = |known: &str| known == name;
        let index = DAYS.iter().position(|d| is_it(d)).or(LONG_DAYS.iter().position(|d| is_it(d)));
        if let Some(on) = index.and_then(|index| week.get_mut(index)) {
            *on = true;
        } else {
            is_right = false;
            let message = format!("expected {}, found `{}`", quoted_list(&DAYS, "or"), day.value);
            reader.report_error(&day.location, message, did_you_mean(&name, &DAYS));
        }
    }
    is_right.then_some(week)
}

/// Parses an offset such as `+02:00`, `-05:30`, `Z` or `UTC` to minutes.
fn offset(text: &Located<String>, reader: &mut ConfigReader<'_>) -> Option<i32> {
    /// The largest UTC offset in use (Line Islands).
    const MOST: u32 = 14 * MINUTES_PER_HOUR;
    let written = text.value.trim();
    if matches!(written, "Z" | "UTC") {
        return Some(0);
    }
    let (sign, rest) = match written.split_at_checked(1) {
        Some(("+", rest)) => (1, rest),
        Some(("-", rest)) => (-1, rest),
        _ => (0, ""),
    };
    let found = minutes(rest).filter(|minutes| *minutes <= MOST);
    let found = found.and_then(|minutes| i32::try_from(minutes).ok());
    if found.is_none() {
        let message = format!("expected a UTC offset such as `+02:00`, found `{}`", text.value);
        reader.report_error(&text.location, message, None);
    }
    Some(sign * found?)
}
