//! Values that the file refers to.

use serde_json::Value as Json;

use crate::config::syntax::document::{Node, Spot};
use crate::config::syntax::finding::Severity;
use crate::config::syntax::places::Places;
use crate::config::syntax::reader::{Located, Reader};
use crate::config::values::{Failure, Known};
use crate::settings::Reference;

/// Where values come from that stand elsewhere than in the file.
#[derive(Clone, Copy)]
pub(crate) struct Outside<'e> {
    /// Where the paths of references start.
    pub(crate) places: Places<'e>,
    /// The values themselves.
    pub(crate) values: &'e Known,
}

/// The treatment of references to values.
#[derive(Clone, Copy)]
pub(super) enum References<'e> {
    /// They are wrong.
    Refused,
    /// They stay as they are written, and values are empty.
    AsWritten,
    /// The values are taken.
    Taken(Outside<'e>),
}

/// An object that refers to a value.
pub(super) struct Referred {
    /// The place; `None`: references stay as they are written.
    reference: Option<Reference>,
    /// The object, as it is written.
    written: Json,
}

impl<'e> Reader<'e> {
    /// Returns this reader with values that stand elsewhere.
    pub(crate) fn referring(self, places: Places<'e>, values: &'e Known) -> Self {
        Self { references: References::Taken(Outside { places, values }), ..self }
    }

    /// Returns this reader so that references to values stay as they are written, and values empty.
    pub fn keeping_references(self) -> Self {
        Self { references: References::AsWritten, ..self }
    }

    /// Takes the reference at `node` as it is written, if references are kept.
    pub(crate) fn keep(&mut self, node: &Node<'_>) -> Option<Located<String>> {
        let References::AsWritten = self.references else { return None };
        self.note_reference(None, node);
        Some(Located { value: String::new(), spot: node.spot.clone() })
    }

    fn note_reference(&mut self, reference: Option<Reference>, node: &Node<'_>) {
        let written = Json::from(node.value.clone());
        self.referred.insert(node.spot.path(), Referred { reference, written });
    }

    /// Where values come from that stand elsewhere, if any may.
    pub(crate) fn outside(&self) -> Option<Outside<'e>> {
        match self.references {
            References::Taken(outside) => Some(outside),
            References::Refused | References::AsWritten => None,
        }
    }

    /// The place of the value that the object at `spot` refers to, if it does.
    pub(crate) fn reference(&self, spot: &Spot) -> Option<&Reference> {
        self.referred.get(&spot.path())?.reference.as_ref()
    }

    /// The object at `spot` as it is written, if it refers to a value.
    pub fn written(&self, spot: &Spot) -> Option<&Json> {
        Some(&self.referred.get(&spot.path())?.written)
    }

    /// Takes the value that the object at `node` refers to, behind `prefix`. A value that is not known
    /// is empty; one that cannot be had costs what it is for.
    pub(crate) fn refer(
        &mut self,
        reference: Reference,
        prefix: &str,
        node: &Node<'_>,
    ) -> Option<Located<String>> {
        let Outside { values, .. } = self.outside()?;
        let spot = &node.spot;
        let found = if self.off { None } else { values.want(&reference) };
        let value = match found {
            None => Some(String::new()),
            Some(Err(failure)) => {
                self.lack(spot, failure);
                None
            }
            Some(Ok(value)) => {
                if let Some(Failure { reason, hint }) = &value.remark {
                    self.warn(spot, reason.clone(), Some(hint.clone()));
                }
                Some(format!("{prefix}{}", value.text()))
            }
        };
        self.note_reference(Some(reference), node);
        Some(Located { value: value?, spot: spot.clone() })
    }

    /// Returns `true` if the object at `spot` refers to a value that was not asked for.
    pub(crate) fn is_unasked(&self, spot: &Spot) -> bool {
        let known = self.outside().zip(self.reference(spot));
        known.is_some_and(|(outside, reference)| outside.values.want(reference).is_none())
    }

    /// Notes that a value cannot be had. That costs the server in whose entry it stands; elsewhere
    /// whatever it is for, and not the whole file.
    fn lack(&mut self, spot: &Spot, failure: &Failure) {
        let Failure { reason, hint } = failure.clone();
        if spot.entry().is_some() {
            return self.error(spot, reason, Some(hint));
        }
        self.wrong.insert(spot.path());
        self.note(Severity::Error, spot, reason, Some(hint));
    }
}
