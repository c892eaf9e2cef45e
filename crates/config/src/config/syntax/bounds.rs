//! Checks that many sections have in common.

use std::ops::RangeInclusive;

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

/// The number, if it is there and within bounds.
pub(crate) fn bounded<T: TryFrom<u64>>(
    number: Option<Located<u64>>,
    bounds: RangeInclusive<u64>,
    reader: &mut Reader<'_>,
) -> Option<T> {
    let number = number?;
    if bounds.contains(&number.value) {
        return T::try_from(number.value).ok();
    }
    let message = format!(
        "expected a number from {} to {}, found {}",
        bounds.start(),
        bounds.end(),
        number.value
    );
    reader.error(&number.spot, message, None);
    None
}
