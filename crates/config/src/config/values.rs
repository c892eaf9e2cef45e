//! Values that stand elsewhere than in the configuration, as an argument.
//!
//! A configuration is read twice if it refers to such values: first to find out which it refers to,
//! then with them. So all are got at the same time and each once, and reading itself starts nothing:
//! a test hands in a map, and only who needs the values has commands run.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::settings::Reference;

/// The most bytes of a value.
pub const MAX_VALUE_BYTES: u64 = 64 * 1024;

/// Where values come from.
pub trait ValueSource {
    /// Gets these values. What is not in the answer is not known and not asked for now: whatever needs
    /// it can be looked at, but not be used.
    fn get(&self, wanted: &BTreeSet<Reference>) -> Values;
}

/// A source that asks nobody.
#[derive(Clone, Copy, Debug)]
pub struct Unasked;

impl ValueSource for Unasked {
    fn get(&self, _: &BTreeSet<Reference>) -> Values {
        Values::default()
    }
}

/// Values that were got, each with what is wrong or odd about it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Values(pub BTreeMap<Reference, Result<Value, Failure>>);

impl ValueSource for Values {
    fn get(&self, wanted: &BTreeSet<Reference>) -> Values {
        let found = self.0.iter().filter(|(reference, _)| wanted.contains(reference));
        Self(found.map(|(reference, value)| (reference.clone(), value.clone())).collect())
    }
}

/// Values are secret.
impl fmt::Debug for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// A value that was got.
#[derive(Clone, PartialEq, Eq)]
pub struct Value {
    text: String,
    /// The thing that is odd about the place that it is from.
    pub remark: Option<Failure>,
}

/// Values are secret.
impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Value").finish_non_exhaustive()
    }
}

/// Why a value cannot be had, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The reason, which names the place.
    pub reason: String,
    /// The advice to the user.
    pub hint: String,
}

impl Value {
    /// Takes the bytes that stand at a place, less one line break at the end.
    ///
    /// # Errors
    ///
    /// When they are no text, or too many, or none.
    pub fn of_bytes(place: &Reference, bytes: Vec<u8>) -> Result<Self, Failure> {
        let failure = |reason: String, hint: &str| Failure { reason, hint: hint.to_owned() };
        let alone = "the value has to stand there alone";
        if u64::try_from(bytes.len()).map_or(true, |length| length > MAX_VALUE_BYTES) {
            let reason = format!("{place} has more than 64 KiB");
            return Err(failure(reason, alone));
        }
        let Ok(mut text) = String::from_utf8(bytes) else {
            let reason = format!("what {place} has is not UTF-8 text");
            return Err(failure(reason, "save or print the value as UTF-8"));
        };
        if text.ends_with('\n') {
            text.pop();
            if text.ends_with('\r') {
                text.pop();
            }
        }
        if text.is_empty() {
            return Err(failure(format!("{place} is empty"), alone));
        }
        if text.contains('\0') {
            return Err(failure(format!("{place} has a NUL character in it"), alone));
        }
        Ok(Self { text, remark: None })
    }

    /// The text itself, which is secret.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}

/// The values that are known while a configuration is read, and those that it turns out to refer to.
#[derive(Debug, Default)]
pub(crate) struct Known {
    values: Values,
    wanted: RefCell<BTreeSet<Reference>>,
}

impl Known {
    /// These values, and nothing wanted yet.
    fn new(values: Values) -> Self {
        Self { values, wanted: RefCell::default() }
    }

    /// Looks a value up that is wanted.
    pub(crate) fn want(&self, reference: &Reference) -> Option<&Result<Value, Failure>> {
        self.wanted.borrow_mut().insert(reference.clone());
        self.values.0.get(reference)
    }

    /// The values that were wanted and are not known.
    pub(crate) fn unknown(&self) -> BTreeSet<Reference> {
        let wanted = self.wanted.borrow();
        wanted.iter().filter(|wanted| !self.values.0.contains_key(wanted)).cloned().collect()
    }
}

/// Reads with `read`, and once more if that wants values, with those of `source`.
pub(crate) fn with_values<T, E>(
    source: &dyn ValueSource,
    read: impl Fn(&Known) -> Result<T, E>,
) -> Result<T, E> {
    let known = Known::default();
    let first = read(&known)?;
    let wanted = known.wanted.into_inner();
    let values = if wanted.is_empty() { Values::default() } else { source.get(&wanted) };
    if values.0.is_empty() { Ok(first) } else { read(&Known::new(values)) }
}

#[cfg(test)]
mod tests;
