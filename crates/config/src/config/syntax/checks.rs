//! Checks and conversions that many sections have in common.

use std::time::Duration;

use crate::config::syntax::reader::{Located, Reader};

pub(crate) fn check_name(name: &Located<String>, what: &str, reader: &mut Reader<'_>) {
    if name.value.trim().is_empty() {
        reader.refuse(&name.spot, format!("expected a name for the {what}"), None);
    } else if name.value.chars().any(char::is_control) {
        reader.refuse(
            &name.spot,
            format!("the name of a {what} may not contain control characters"),
            None,
        );
    }
}

/// Returns the number if it is at least `least` and at most `most`; anything else is an error.
pub(crate) fn within(
    number: Located<u64>,
    (least, most): (u64, u64),
    reader: &mut Reader<'_>,
) -> Option<Located<u64>> {
    if (least..=most).contains(&number.value) {
        return Some(number);
    }
    let message = format!("expected a number from {least} to {most}, found {}", number.value);
    reader.error(&number.spot, message, None);
    None
}

/// Returns a number that was read in another type of numbers, which has room for its range.
pub(crate) fn number<T: TryFrom<u64>>(read: Option<Located<u64>>) -> Option<T> {
    T::try_from(read?.value).ok()
}

/// Returns a number of milliseconds that was read as a duration.
pub(crate) fn milliseconds(read: Option<Located<u64>>) -> Option<Duration> {
    Some(Duration::from_millis(read?.value))
}
