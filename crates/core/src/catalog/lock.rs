//! Compares the listings of a server with its entry in `workbench.lock`.

mod samples;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use foldhash::HashMap;

use crate::catalog::change_tracker::members;
use crate::catalog::repair::RepairNotes;
use crate::catalog::{Definition, Listing, Resource};
use mcp_workbench_names::untrusted_text;
use mcp_workbench_settings::{DefinitionDigest, LockedDefinition, LockedDefinitions, LockedServer};
use mcp_workbench_wire::json::RawJson;
use mcp_workbench_wire::json::definition_text::canonical_definition;

pub use crate::catalog::lock::samples::ListingSamples;

/// The longest name in a message, in characters.
const MAX_NAME: usize = 128;
/// The kind of a server's instructions, and their name in `lock --accept`.
const INSTRUCTIONS: &str = "instructions";

/// One difference between a server's listing and the lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefinitionDrift {
    /// The kind of primitive, such as `tool`.
    pub word: &'static str,
    /// The server's own name or URI; empty for instructions.
    pub name: String,
    pub kind: DriftKind,
}

/// How a definition differs from the lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DriftKind {
    /// Listed, but not in the lock.
    New,
    /// The members that differ; empty for instructions, which have no members.
    Changed(Vec<String>),
    /// In the lock, but no longer listed.
    Removed,
    /// Ambiguous, such as by a repeated member, so that a user can't have approved it.
    Ambiguous,
}

impl DriftKind {
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Changed(_) => "changed",
            Self::Removed => "removed",
            Self::Ambiguous => "unclear",
        }
    }
}

impl DefinitionDrift {
    /// Returns the command that accepts the change. `server` is the server's name in the lock.
    pub fn accept_command(&self, server: &str) -> String {
        accept_command(server, Some(if self.name.is_empty() { INSTRUCTIONS } else { &self.name }))
    }
}

impl fmt::Display for DefinitionDrift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word)?;
        if !self.name.is_empty() {
            write!(f, " `{}`", untrusted_text::display_name(&self.name, MAX_NAME))?;
        }
        match &self.kind {
            DriftKind::New => f.write_str(" is new"),
            DriftKind::Removed => f.write_str(" was removed"),
            DriftKind::Ambiguous => f.write_str(" is ambiguous: it repeats a member"),
            DriftKind::Changed(members) if members.is_empty() => f.write_str(" changed"),
            DriftKind::Changed(members) => write!(f, " changed: {}", members.join(", ")),
        }
    }
}

/// Returns the command that accepts a server's definitions, or only the one called `own`.
///
/// If the name can't be typed, because it has quotes or invisible characters, the command accepts
/// the whole server.
pub fn accept_command(server: &str, own: Option<&str>) -> String {
    let can_be_typed =
        |own: &&str| untrusted_text::display_name(own, MAX_NAME) == **own && !own.contains('\'');
    let whole = match own.filter(can_be_typed) {
        Some(own) => format!("{server}:{own}"),
        None => server.to_owned(),
    };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+=,".contains(c);
    let word = if whole.chars().all(is_plain) {
        whole
    } else {
        format!("'{}'", whole.replace('\'', r"'\''"))
    };
    format!("mcp-workbench lock --accept {word}")
}

/// Finds where a server's listings differ from the lock.
///
/// Results are cached by the bytes of each definition, so an unchanged definition costs one lookup.
#[derive(Debug, Default)]
pub struct DriftDetector {
    known: HashMap<(&'static str, Bytes), Option<DriftKind>>,
}

impl DriftDetector {
    /// Returns the differences by kind, in listing order, with removed definitions at the end of
    /// each kind.
    pub fn detect(&mut self, locked: &LockedServer, listing: &Listing) -> Vec<DefinitionDrift> {
        let (mut drift, before) = (Vec::new(), std::mem::take(&mut self.known));
        let mut look = KindComparison { before, now: &mut self.known, drift: &mut drift };
        look.at_kind(&locked.tools, &listing.tools, |one| one.raw.clone());
        look.at_kind(&locked.prompts, &listing.prompts, |one| one.raw.clone());
        look.at_kind(&locked.templates, &listing.templates, |one| one.raw.clone());
        if let Some(resources) = &locked.resources {
            look.at_kind(resources, &listing.resources, Resource::stable_definition);
            // Resources come and go with a server's data.
            drift.retain(|one| {
                one.word != Resource::KIND.word() || !matches!(one.kind, DriftKind::Removed)
            });
        }
        drift.extend(instructions(locked.instructions.as_ref(), instructions_of(listing)));
        drift
    }
}

fn instructions_of(listing: &Listing) -> Option<&str> {
    listing.instructions.as_deref().filter(|text| !text.trim().is_empty())
}

fn instructions(locked: Option<&LockedDefinition>, said: Option<&str>) -> Option<DefinitionDrift> {
    let what = match (locked, said) {
        (None, None) => return None,
        (None, Some(_)) => DriftKind::New,
        (Some(locked), None) if locked.is_conditional => return None,
        (Some(_), None) => DriftKind::Removed,
        (Some(locked), Some(said)) => difference(locked, &RawJson::from_text(said))?,
    };
    Some(DefinitionDrift { word: INSTRUCTIONS, name: String::new(), kind: what })
}

struct KindComparison<'a> {
    before: HashMap<(&'static str, Bytes), Option<DriftKind>>,
    now: &'a mut HashMap<(&'static str, Bytes), Option<DriftKind>>,
    drift: &'a mut Vec<DefinitionDrift>,
}

impl KindComparison<'_> {
    fn at_kind<D: Definition>(
        &mut self,
        locked: &LockedDefinitions,
        listed: &[Arc<D>],
        raw: fn(&D) -> RawJson,
    ) {
        let mut left: BTreeMap<&str, &LockedDefinition> =
            locked.iter().map(|(name, one)| (name.as_str(), one)).collect();
        for one in listed {
            let definition = raw(one);
            let key = (D::KIND.word(), definition.clone().into_bytes());
            let locked = left.remove(one.key());
            let what = self.before.remove(&key).unwrap_or_else(|| match locked {
                None => Some(DriftKind::New),
                Some(locked) => difference(locked, &definition)
                    .filter(|_| !is_repaired_form::<D>(locked, &definition)),
            });
            self.now.insert(key, what.clone());
            if let Some(what) = what {
                self.drift.push(DefinitionDrift {
                    word: D::KIND.word(),
                    name: one.key().to_owned(),
                    kind: what,
                });
            }
        }
        let gone = left.into_iter().filter(|(_, locked)| !locked.is_conditional);
        self.drift.extend(gone.map(|(name, _)| DefinitionDrift {
            word: D::KIND.word(),
            name: name.to_owned(),
            kind: DriftKind::Removed,
        }));
    }
}

fn difference(locked: &LockedDefinition, raw: &RawJson) -> Option<DriftKind> {
    let Some(said) = canonical_definition(raw, &locked.ignore) else {
        return Some(DriftKind::Ambiguous);
    };
    let digest = DefinitionDigest::of(&said);
    if locked.spellings.iter().any(|one| one.digest == digest) {
        return None;
    }
    let read = |text: &str| serde_json::from_str::<RawJson>(text).ok();
    let before = locked.spellings.first().and_then(|one| read(&one.text));
    let said = serde_json::from_slice::<RawJson>(&canonical_definition(raw, &[])?).ok();
    let members = before.zip(said).map(|(before, now)| members(&before, &now));
    Some(DriftKind::Changed(members.unwrap_or_default()))
}

/// Returns `true` if the locked definition is malformed, and repairing it results in `raw`.
/// Earlier releases locked definitions as they were sent.
fn is_repaired_form<D: Definition>(locked: &LockedDefinition, raw: &RawJson) -> bool {
    let said = canonical_definition(raw, &locked.ignore);
    locked.spellings.iter().any(|one| {
        let mut notes = RepairNotes::default();
        let before = serde_json::from_str::<RawJson>(&one.text).ok();
        let repaired = before.and_then(|before| D::repair(&before, &mut notes).ok());
        let repaired = repaired.map(|repaired| D::check(repaired, &mut notes));
        let repaired = repaired.and_then(|it| canonical_definition(&it, &locked.ignore));
        repaired.is_some() && repaired == said
    })
}

impl Listing {
    /// Returns the listing without the definitions that differ, as if the server had never listed
    /// them.
    #[must_use]
    pub fn without_drift(&self, drift: &[DefinitionDrift]) -> Self {
        Self {
            tools: without_drift(&self.tools, drift),
            resources: without_drift(&self.resources, drift),
            templates: without_drift(&self.templates, drift),
            prompts: without_drift(&self.prompts, drift),
            capabilities: self.capabilities.clone(),
            instructions: self
                .instructions
                .clone()
                .filter(|_| drift.iter().all(|one| one.word != INSTRUCTIONS)),
            violations: self.violations.clone(),
        }
    }
}

fn without_drift<D: Definition>(all: &[Arc<D>], drift: &[DefinitionDrift]) -> Vec<Arc<D>> {
    let of_kind = drift.iter().filter(|one| one.word == D::KIND.word());
    let left_out: std::collections::HashSet<&str> = of_kind.map(|one| one.name.as_str()).collect();
    all.iter().filter(|one| !left_out.contains(one.key())).map(Arc::clone).collect()
}

#[cfg(test)]
mod tests;
