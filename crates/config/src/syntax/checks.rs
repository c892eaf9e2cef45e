//! Checks and conversions shared by several sections.

use std::time::Duration;

use crate::syntax::reader::{ConfigReader, Located};

pub(crate) fn check_name(name: &Located<String>, what: &str, reader: &mut ConfigReader<'_>) {
    if name.value.trim().is_empty() {
        reader.report_fatal(&name.location, format!("expected a {what} name"), None);
    } else if name.value.chars().any(char::is_control) {
        reader.report_fatal(
            &name.location,
            format!("a {what} name must not contain control characters"),
            None,
        );
    }
}

/// Returns the number if it is in the inclusive range; otherwise reports an error.
pub(crate) fn check_range(
    number: Located<u64>,
    (least, most): (u64, u64),
    reader: &mut ConfigReader<'_>,
) -> Option<Located<u64>> {
    if (least..=most).contains(&number.value) {
        return Some(number);
    }
    let message = format!("expected a number from {least} to {most}, found {}", number.value);
    reader.report_error(&number.location, message, None);
    None
}

/// Converts a number to a narrower type. `None` if it doesn't fit, which range checks rule out.
pub(crate) fn narrow_number<T: TryFrom<u64>>(read: Option<Located<u64>>) -> Option<T> {
    T::try_from(read?.value).ok()
}

pub(crate) fn duration_from_millis(read: Option<Located<u64>>) -> Option<Duration> {
    Some(Duration::from_millis(read?.value))
}
