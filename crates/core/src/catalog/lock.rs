//! Listings of a server, compared with what the lock has of it.

mod recording;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use foldhash::HashMap;

use crate::catalog::changed::members;
use crate::catalog::{Definition, Listing};
use crate::name::seen;
use crate::raw::Raw;
use crate::settings::{Locked, LockedKind, LockedServer, Sum};

pub use crate::catalog::lock::recording::Recordings;

/// The most characters of a name.
const MAX_NAME: usize = 128;
/// The word for a server's instructions, and their name where one is typed.
const INSTRUCTIONS: &str = "instructions";

/// How a server differs from the lock in one thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drifted {
    /// The word for its kind, such as `tool`.
    pub word: &'static str,
    /// Its name or address, as the server has it; empty for instructions.
    pub name: String,
    /// The way in which it differs.
    pub what: Difference,
}

/// The ways in which something differs from the lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// It is not in the lock.
    New,
    /// These members of it are others; none where it has no members.
    Changed(Vec<String>),
    /// It is in the lock alone.
    Removed,
    /// It is not clear what it says, so that nobody can have agreed to it.
    Unclear,
}

impl Difference {
    /// The word for it.
    pub fn word(&self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Changed(_) => "changed",
            Self::Removed => "removed",
            Self::Unclear => "unclear",
        }
    }
}

impl Drifted {
    /// Returns the command that takes it over, by the name of its server in the lock.
    pub fn accepting(&self, server: &str) -> String {
        accepting(server, Some(if self.name.is_empty() { INSTRUCTIONS } else { &self.name }))
    }
}

impl fmt::Display for Drifted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word)?;
        if !self.name.is_empty() {
            write!(f, " `{}`", seen::named(&self.name, MAX_NAME))?;
        }
        match &self.what {
            Difference::New => f.write_str(" is new"),
            Difference::Removed => f.write_str(" is gone"),
            Difference::Unclear => f.write_str(" is not clear: a member stands in it twice"),
            Difference::Changed(members) if members.is_empty() => f.write_str(" has changed"),
            Difference::Changed(members) => write!(f, " has changed: {}", members.join(", ")),
        }
    }
}

/// Returns the command that takes over what a server says, by its name in the lock, or one thing of it,
/// by the name that the server has for that. A name that cannot be typed means all of its server.
pub fn accepting(server: &str, own: Option<&str>) -> String {
    let can_be_typed = |own: &&str| seen::named(own, MAX_NAME) == **own && !own.contains('\'');
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

/// Compares the listings of one server with the lock, and remembers what it has found out about each
/// definition as it is written: one that is listed again costs nothing.
#[derive(Debug, Default)]
pub struct Comparison {
    known: HashMap<(&'static str, Bytes), Option<Difference>>,
}

impl Comparison {
    /// Returns in what a listing differs from the lock, in the order of the listing; what is gone last.
    pub fn drift(&mut self, locked: &LockedServer, listing: &Listing) -> Vec<Drifted> {
        let (mut drift, before) = (Vec::new(), std::mem::take(&mut self.known));
        let mut look = Looking { before, now: &mut self.known, drift: &mut drift };
        look.at_kind(&locked.tools, &listing.tools, |one| &one.raw);
        look.at_kind(&locked.prompts, &listing.prompts, |one| &one.raw);
        look.at_kind(&locked.templates, &listing.templates, |one| &one.raw);
        drift.extend(instructions(locked.instructions.as_ref(), said(listing)));
        drift
    }
}

/// The instructions of a server, if it says anything with them.
fn said(listing: &Listing) -> Option<&str> {
    listing.instructions.as_deref().filter(|text| !text.trim().is_empty())
}

fn instructions(locked: Option<&Locked>, said: Option<&str>) -> Option<Drifted> {
    let what = match (locked, said) {
        (None, None) => return None,
        (None, Some(_)) => Difference::New,
        (Some(locked), None) if locked.is_conditional => return None,
        (Some(_), None) => Difference::Removed,
        (Some(locked), Some(said)) => difference(locked, &Raw::of_text(said))?,
    };
    Some(Drifted { word: INSTRUCTIONS, name: String::new(), what })
}

struct Looking<'a> {
    before: HashMap<(&'static str, Bytes), Option<Difference>>,
    now: &'a mut HashMap<(&'static str, Bytes), Option<Difference>>,
    drift: &'a mut Vec<Drifted>,
}

impl Looking<'_> {
    fn at_kind<D: Definition>(
        &mut self,
        locked: &LockedKind,
        listed: &[Arc<D>],
        raw: fn(&D) -> &Raw,
    ) {
        let mut left: BTreeMap<&str, &Locked> =
            locked.iter().map(|(name, one)| (name.as_str(), one)).collect();
        for one in listed {
            let key = (D::WORD, raw(one).clone().into_bytes());
            let locked = left.remove(one.key());
            let what = self.before.remove(&key).unwrap_or_else(|| match locked {
                None => Some(Difference::New),
                Some(locked) => difference(locked, raw(one)),
            });
            self.now.insert(key, what.clone());
            if let Some(what) = what {
                self.drift.push(Drifted { word: D::WORD, name: one.key().to_owned(), what });
            }
        }
        let gone = left.into_iter().filter(|(_, locked)| !locked.is_conditional);
        self.drift.extend(gone.map(|(name, _)| Drifted {
            word: D::WORD,
            name: name.to_owned(),
            what: Difference::Removed,
        }));
    }
}

/// Returns in what a definition differs from the lock, if it does.
fn difference(locked: &Locked, raw: &Raw) -> Option<Difference> {
    let Some(said) = raw.said(&locked.ignore) else { return Some(Difference::Unclear) };
    let sum = Sum::of(&said);
    if locked.spellings.iter().any(|one| one.sum == sum) {
        return None;
    }
    let read = |text: &str| serde_json::from_str::<Raw>(text).ok();
    let before = locked.spellings.first().and_then(|one| read(&one.text));
    let said = serde_json::from_slice::<Raw>(&raw.said(&[])?).ok();
    let members = before.zip(said).map(|(before, now)| members(&before, &now));
    Some(Difference::Changed(members.unwrap_or_default()))
}

impl Listing {
    /// The listing without what differs from the lock, as if its server had none of it.
    #[must_use]
    pub fn without(&self, drift: &[Drifted]) -> Self {
        Self {
            tools: kept(&self.tools, drift),
            resources: self.resources.clone(),
            templates: kept(&self.templates, drift),
            prompts: kept(&self.prompts, drift),
            abilities: self.abilities.clone(),
            instructions: self
                .instructions
                .clone()
                .filter(|_| drift.iter().all(|one| one.word != INSTRUCTIONS)),
        }
    }
}

fn kept<D: Definition>(all: &[Arc<D>], drift: &[Drifted]) -> Vec<Arc<D>> {
    let of_kind = drift.iter().filter(|one| one.word == D::WORD);
    let left_out: std::collections::HashSet<&str> = of_kind.map(|one| one.name.as_str()).collect();
    all.iter().filter(|one| !left_out.contains(one.key())).map(Arc::clone).collect()
}

#[cfg(test)]
mod tests;
