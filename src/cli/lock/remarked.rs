//! Remarks on the definitions that are locked, or compared with the lock.
//!
//! Remarks on definitions that the lock has already are kept apart: somebody has read these, and they are not to
//! hide remarks on what nobody has.

use crate::catalog::Listing;
use crate::catalog::remarks::{Definitions, Kind, remarks};
use crate::cli::misleading::{Remarks, words};
use crate::raw::Raw;
use crate::settings::{Locked, LockedServer};

/// The texts of one server that is locked, or compared with the lock.
pub(super) struct Texts {
    server: String,
    all: Vec<Text>,
}

/// One definition, in one spelling.
struct Text {
    kind: Kind,
    name: String,
    raw: Raw,
    /// `true` if the lock has it as it is.
    is_reviewed: bool,
}

impl Texts {
    /// The texts of a server as it lists them. What differs from the lock is told by its kind and name.
    pub(super) fn of_listing(
        server: &str,
        listing: &Listing,
        differs: impl Fn(&str, &str) -> bool,
    ) -> Self {
        let text = |(kind, name, raw): (Kind, &str, &Raw)| Text {
            kind,
            name: name.to_owned(),
            raw: raw.clone(),
            is_reviewed: !differs(kind.as_str(), name),
        };
        let of = Definitions::of(server, listing);
        let instructions = of.instructions.iter().map(|said| Raw::of_text(said));
        let instructions: Vec<_> = instructions.collect();
        let instructions = instructions.iter().map(|raw| text((Kind::Instructions, "", raw)));
        // The lock has no resources.
        let entries = of.entries.into_iter().filter(|(kind, ..)| *kind != Kind::Resource);
        let all = instructions.chain(entries.map(text)).collect();
        Self { server: server.to_owned(), all }
    }

    /// The texts of a server as they are locked, beside what the lock had before.
    pub(super) fn of_locked(
        server: &str,
        locked: &LockedServer,
        before: Option<&LockedServer>,
    ) -> Self {
        let mut all = Vec::new();
        let mut put = |kind: Kind, name: &str, locked: &Locked, before: Option<&Locked>| {
            let raws =
                locked.spellings.iter().filter_map(|one| serde_json::from_str(&one.text).ok());
            all.extend(raws.map(|raw| Text {
                kind,
                name: name.to_owned(),
                raw,
                is_reviewed: before == Some(locked),
            }));
        };
        if let Some(said) = &locked.instructions {
            let before = before.and_then(|before| before.instructions.as_ref());
            put(Kind::Instructions, "", said, before);
        }
        let kinds = [Kind::Tool, Kind::Prompt, Kind::Template];
        for (at, (kind, (_, own))) in kinds.into_iter().zip(locked.kinds()).enumerate() {
            let before = before.map(|before| before.kinds()[at].1);
            for (name, one) in own {
                put(kind, name, one, before.and_then(|before| before.get(name)));
            }
        }
        Self { server: server.to_owned(), all }
    }

    /// Returns those texts to be remarked on that are reviewed, or those that are not.
    fn definitions<'a>(&'a self, said: &'a [Option<String>], is_reviewed: bool) -> Definitions<'a> {
        let mut found = Definitions { server: &self.server, ..Definitions::default() };
        for (text, said) in self.all.iter().zip(said) {
            let name = text.name.as_str();
            match (text.is_reviewed == is_reviewed, said) {
                (true, Some(said)) => found.instructions.push(said),
                (true, None) => found.entries.push((text.kind, name, &text.raw)),
                (false, _) if text.kind == Kind::Tool => found.others.push(name),
                (false, _) => {}
            }
        }
        found
    }
}

/// Returns the remarks on what servers say: those on what nobody has reviewed first.
pub(super) fn remarked(servers: &[Texts]) -> Vec<Remarks> {
    let said = |text: &Text| {
        (text.kind == Kind::Instructions)
            .then(|| text.raw.text().map(std::borrow::Cow::into_owned).unwrap_or_default())
    };
    let said: Vec<Vec<_>> =
        servers.iter().map(|server| server.all.iter().map(said).collect()).collect();
    let pass = |is_reviewed: bool| {
        let all = servers.iter().zip(&said);
        let all: Vec<_> = all.map(|(one, said)| one.definitions(said, is_reviewed)).collect();
        let found = remarks(&all).into_iter().filter(|server| !server.shown.is_empty());
        found.map(move |server| Remarks { toolbox: None, is_reviewed: Some(is_reviewed), server })
    };
    pass(false).chain(pass(true)).collect()
}

/// Returns the remarks on what nobody has reviewed and the number of the others, for a person.
pub(super) fn told(remarks: &[Remarks]) -> Option<String> {
    let mut lines = Vec::new();
    let is_new = |one: &&Remarks| one.is_reviewed == Some(false);
    for Remarks { server, .. } in remarks.iter().filter(is_new) {
        let name = &server.server;
        for remark in &server.shown {
            lines.push(format!("  `{name}`: {}", words(remark)));
            lines.push(format!("    hint: {}", remark.rule.advice));
        }
        if server.more > 0 {
            lines.push(format!("  `{name}`: and {} more", server.more));
        }
    }
    if !lines.is_empty() {
        lines.insert(0, "remarks on what nobody has reviewed:".to_owned());
    }
    let reviewed = remarks.iter().filter(|one| one.is_reviewed == Some(true));
    let reviewed: usize = reviewed.map(|one| one.server.shown.len() + one.server.more).sum();
    if reviewed > 0 {
        let (s, are) = if reviewed == 1 { ("", "is") } else { ("s", "are") };
        lines.push(format!(
            "{reviewed} remark{s} {are} on what the lock has as it is: `--json` shows {}",
            if reviewed == 1 { "it" } else { "them" }
        ));
    }
    (!lines.is_empty()).then(|| lines.join("\n"))
}
