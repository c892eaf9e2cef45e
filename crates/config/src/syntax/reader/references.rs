//! Secret references: objects in a file that name where a secret is stored.

use serde_json::Value as Json;

use crate::secret_values::{SecretError, SecretLookup};
use crate::syntax::document::{Node, SourceLocation};
use crate::syntax::finding::Severity;
use crate::syntax::paths::PathResolver;
use crate::syntax::reader::{ConfigReader, Located};
use mcp_workbench_settings::SecretRef;

/// How references are resolved.
#[derive(Clone, Copy)]
pub(crate) struct ReferenceContext<'e> {
    pub(crate) paths: PathResolver<'e>,
    /// The secrets that have been fetched, and a record of those asked for.
    pub(crate) secrets: &'e SecretLookup,
}

/// How the reader treats secret references.
#[derive(Clone, Copy)]
pub(super) enum ReferenceMode<'e> {
    Rejected,
    /// References are recorded as they are written, and their values are empty.
    Preserved,
    /// References are replaced by their values.
    Resolved(ReferenceContext<'e>),
}

pub(super) struct RecordedReference {
    /// `None` if references are preserved as they are written.
    reference: Option<SecretRef>,
    /// The object as the file has it.
    written: Json,
}

impl<'e> ConfigReader<'e> {
    /// Makes this reader resolve secret references from `values`.
    pub(crate) fn with_reference_context(
        self,
        places: PathResolver<'e>,
        values: &'e SecretLookup,
    ) -> Self {
        Self {
            references: ReferenceMode::Resolved(ReferenceContext {
                paths: places,
                secrets: values,
            }),
            ..self
        }
    }

    /// Makes this reader keep secret references as they are written, with empty values.
    pub fn with_references_preserved(self) -> Self {
        Self { references: ReferenceMode::Preserved, ..self }
    }

    /// Records the reference at `node` and returns an empty value, if references are preserved.
    pub(crate) fn preserve_reference(&mut self, node: &Node<'_>) -> Option<Located<String>> {
        let ReferenceMode::Preserved = self.references else { return None };
        self.note_reference(None, node);
        Some(Located { value: String::new(), location: node.location.clone() })
    }

    fn note_reference(&mut self, reference: Option<SecretRef>, node: &Node<'_>) {
        let written = Json::from(node.value.clone());
        self.referred.insert(node.location.path(), RecordedReference { reference, written });
    }

    /// Returns the context for resolving references, or `None` if they aren't resolved.
    pub(crate) fn reference_context(&self) -> Option<ReferenceContext<'e>> {
        match self.references {
            ReferenceMode::Resolved(outside) => Some(outside),
            ReferenceMode::Rejected | ReferenceMode::Preserved => None,
        }
    }

    /// Returns the reference of the object at `location`. `None` if it isn't one, or if references
    /// are preserved as written.
    pub(crate) fn reference_at(&self, location: &SourceLocation) -> Option<&SecretRef> {
        self.referred.get(&location.path())?.reference.as_ref()
    }

    /// Returns the object at `location` as the file has it, if it is a secret reference.
    pub fn reference_json_at(&self, location: &SourceLocation) -> Option<&Json> {
        Some(&self.referred.get(&location.path())?.written)
    }

    /// Resolves the reference at `node` and puts `prefix` before it. Returns an empty string while
    /// the reference is unresolved, and `None`, with an error reported, if it cannot be resolved.
    pub(crate) fn resolve_reference(
        &mut self,
        reference: SecretRef,
        prefix: &str,
        node: &Node<'_>,
    ) -> Option<Located<String>> {
        let ReferenceContext { secrets: values, .. } = self.reference_context()?;
        let spot = &node.location;
        let found = if self.is_disabled_entry { None } else { values.lookup(&reference) };
        let value = match found {
            None => Some(String::new()),
            Some(Err(failure)) => {
                self.report_unresolvable(spot, failure);
                None
            }
            Some(Ok(value)) => {
                if let Some(SecretError { reason, hint }) = &value.remark {
                    self.report_warning(spot, reason.clone(), Some(hint.clone()));
                }
                Some(format!("{prefix}{}", value.text()))
            }
        };
        self.note_reference(Some(reference), node);
        Some(Located { value: value?, location: spot.clone() })
    }

    /// Returns `true` if the object at `location` is a reference that has not been resolved.
    pub(crate) fn is_unresolved(&self, location: &SourceLocation) -> bool {
        let known = self.reference_context().zip(self.reference_at(location));
        known.is_some_and(|(outside, reference)| outside.secrets.lookup(reference).is_none())
    }

    /// Reports a secret that cannot be resolved. In a server's entry this disables the server;
    /// elsewhere only the setting that needs the secret, not the file.
    fn report_unresolvable(&mut self, location: &SourceLocation, failure: &SecretError) {
        let SecretError { reason, hint } = failure.clone();
        if location.server_entry().is_some() {
            return self.report_error(location, reason, Some(hint));
        }
        self.error_paths.insert(location.path());
        self.note(Severity::Error, location, reason, Some(hint));
    }
}
