//! Secrets that a configuration refers to but doesn't contain, and the trait that resolves them.
//!
//! A configuration with secret references is read twice: first to collect the references, then with
//! their values. This way each secret is fetched once, all of them in one batch, and the reader
//! itself never runs a command. Tests pass in a map.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use mcp_workbench_settings::SecretRef;

/// Maximum size of a secret.
pub const MAX_VALUE_BYTES: u64 = 64 * 1024;

/// Resolves secret references to their values.
pub trait SecretResolver {
    /// Resolves these references. A reference missing from the result stays unresolved: the
    /// settings that need it can be inspected, but the server or endpoint cannot be used.
    fn resolve(&self, references: &BTreeSet<SecretRef>) -> ResolvedSecrets;
}

/// A resolver that resolves nothing.
#[derive(Clone, Copy, Debug)]
pub struct NoSecrets;

impl SecretResolver for NoSecrets {
    fn resolve(&self, _: &BTreeSet<SecretRef>) -> ResolvedSecrets {
        ResolvedSecrets::default()
    }
}

/// The outcome for each reference that was resolved.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ResolvedSecrets(pub BTreeMap<SecretRef, Result<SecretValue, SecretError>>);

impl SecretResolver for ResolvedSecrets {
    fn resolve(&self, wanted: &BTreeSet<SecretRef>) -> ResolvedSecrets {
        let found = self.0.iter().filter(|(reference, _)| wanted.contains(reference));
        Self(found.map(|(reference, value)| (reference.clone(), value.clone())).collect())
    }
}

/// Shows only the references; the values are secret.
impl fmt::Debug for ResolvedSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// A secret that was resolved.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretValue {
    text: String,
    /// A warning about the secret's source.
    pub remark: Option<SecretError>,
}

/// Redacts the value.
impl fmt::Debug for SecretValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecretValue").finish_non_exhaustive()
    }
}

/// The reason why a secret cannot be resolved, with advice for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretError {
    /// Names the reference that failed.
    pub reason: String,
    pub hint: String,
}

impl SecretValue {
    /// Parses the content of a secret's source and removes one trailing line break.
    ///
    /// # Errors
    ///
    /// Returns an error if `bytes` is not UTF-8, is empty, contains NUL, or exceeds
    /// [`MAX_VALUE_BYTES`].
    pub fn from_bytes(reference: &SecretRef, bytes: Vec<u8>) -> Result<Self, SecretError> {
        let failure = |reason: String, hint: &str| SecretError { reason, hint: hint.to_owned() };
        let alone = "the source must contain only the secret";
        if u64::try_from(bytes.len()).map_or(true, |length| length > MAX_VALUE_BYTES) {
            let reason = format!("the value from {reference} is larger than 64 KiB");
            return Err(failure(reason, alone));
        }
        let Ok(mut text) = String::from_utf8(bytes) else {
            let reason = format!("the value from {reference} is not valid UTF-8");
            return Err(failure(reason, "store or print the secret as UTF-8"));
        };
        if text.ends_with('\n') {
            text.pop();
            if text.ends_with('\r') {
                text.pop();
            }
        }
        if text.is_empty() {
            return Err(failure(format!("the value from {reference} is empty"), alone));
        }
        if text.contains('\0') {
            return Err(failure(
                format!("the value from {reference} contains a NUL character"),
                alone,
            ));
        }
        Ok(Self { text, remark: None })
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}

/// The secrets known while a configuration is read. Records every reference that is looked up.
#[derive(Debug, Default)]
pub(crate) struct SecretLookup {
    values: ResolvedSecrets,
    wanted: RefCell<BTreeSet<SecretRef>>,
}

impl SecretLookup {
    fn new(values: ResolvedSecrets) -> Self {
        Self { values, wanted: RefCell::default() }
    }

    pub(crate) fn lookup(
        &self,
        reference: &SecretRef,
    ) -> Option<&Result<SecretValue, SecretError>> {
        self.wanted.borrow_mut().insert(reference.clone());
        self.values.0.get(reference)
    }

    /// Returns the references that were looked up but have no value.
    pub(crate) fn unresolved(&self) -> BTreeSet<SecretRef> {
        let references = self.wanted.borrow();
        references
            .iter()
            .filter(|reference| !self.values.0.contains_key(reference))
            .cloned()
            .collect()
    }
}

/// Runs `read`, and again with the values from `source` if the first run looked up any references.
pub(crate) fn read_resolving<T, E>(
    source: &dyn SecretResolver,
    read: impl Fn(&SecretLookup) -> Result<T, E>,
) -> Result<T, E> {
    let known = SecretLookup::default();
    let first = read(&known)?;
    let references = known.wanted.into_inner();
    let values = if references.is_empty() {
        ResolvedSecrets::default()
    } else {
        source.resolve(&references)
    };
    if values.0.is_empty() { Ok(first) } else { read(&SecretLookup::new(values)) }
}

#[cfg(test)]
mod tests;
