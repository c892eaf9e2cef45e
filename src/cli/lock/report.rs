//! The findings of `lock --check`.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use serde::Serialize;

use crate::catalog::{Difference, Drifted, Listing, accepting};
use crate::cli::lock::drift;
use crate::cli::lock::package::{self, Told};
use crate::cli::lock::record::All;
use crate::cli::lock::remarked::{self, Texts};
use crate::cli::misleading::{self, Remarks};
use crate::cli::packages::Identity;
use crate::cli::size::count;
use crate::name::seen;
use crate::raw::Raw;
use crate::settings::{Lock, Locked, LockedServer};

/// The word for a package in place of a kind of definitions.
pub(super) const PACKAGE: &str = "package";
/// The most characters of a name.
const MAX_NAME: usize = 128;

/// The end of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Outcome {
    /// Every server says what the lock has.
    InSync,
    /// Some do not.
    Drift,
    /// Some could not be asked, and the others are in sync.
    Unknown,
}

/// Everything that was found.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) file: String,
    outcome: Outcome,
    checked: usize,
    pub(super) drift: Vec<Row>,
    pub(super) failed: Vec<Failed>,
    notes: Vec<String>,
    /// The remarks on what servers say: those on what nobody has reviewed first.
    #[serde(serialize_with = "misleading::rows", skip_serializing_if = "Vec::is_empty")]
    pub(super) remarks: Vec<Remarks>,
}

/// One definition that is not as the lock has it.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    pub(super) server: String,
    pub(super) kind: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) name: String,
    pub(super) difference: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) members: Vec<String>,
    /// The line of the lock that it stands in.
    #[serde(skip)]
    pub(super) said: String,
    /// The name as the server has it.
    #[serde(skip)]
    pub(super) own: String,
    /// How it is written in the lock, and how it is said now.
    #[serde(skip)]
    pub(super) texts: [String; 2],
    #[serde(skip)]
    pub(super) accept: String,
}

/// A server that could not be asked.
#[derive(Debug, Serialize)]
pub(super) struct Failed {
    pub(super) server: String,
    pub(super) reason: String,
}

impl Report {
    /// Compares what servers say with the lock, and the packages that they are run from.
    pub(super) fn new(
        before: &Lock,
        now: &All,
        packages: &BTreeMap<String, Identity>,
        file: &Path,
    ) -> Self {
        let (mut rows, mut notes, mut texts) = (Vec::new(), Vec::new(), Vec::new());
        for (name, listed) in &now.servers {
            let locked = before.servers.get(name);
            if locked.is_none() {
                notes.push(format!("`{name}` is not in the lock"));
            }
            let drift = drift(before, listed, name);
            for one in &drift {
                rows.push(Row::new(name, one, locked.map(|locked| &**locked), &listed.listing));
            }
            texts.push(Texts::of_listing(name, &listed.listing, |word, own| {
                drift.iter().any(|one| (one.word, one.name.as_str()) == (word, own))
            }));
            let Some(locked) = locked else { continue };
            let info = listed.info.as_ref().and_then(|info| info.canonical(usize::MAX));
            let info = info.and_then(|info| String::from_utf8(info).ok());
            if info.as_deref() != locked.info.as_deref() {
                notes.push(format!(
                    "`{name}` calls itself {} now, and {} in the lock",
                    called(info.as_deref()),
                    called(locked.info.as_deref())
                ));
            }
            if listed.launch != locked.launch {
                notes.push(format!("`{name}` is launched otherwise than when it was locked"));
            }
            let package = locked.package.as_ref().zip(packages.get(name));
            match package.and_then(|(then, now)| package::compared(name, then, now)) {
                Some(Told::Note(note)) => notes.push(note),
                Some(Told::Drift(said, texts)) => rows.push(Row::of_package(name, said, texts)),
                None => {}
            }
        }
        let is_there = |name: &String| {
            now.servers.contains_key(name)
                || now.failed.contains_key(name)
                || now.disabled.contains(name)
        };
        for name in before.servers.keys().filter(|name| !is_there(name)) {
            notes.push(format!("`{name}` is in the lock alone: `mcp-workbench lock` removes it"));
        }
        let failed = now
            .failed
            .iter()
            .map(|(server, reason)| Failed { server: server.clone(), reason: reason.clone() });
        let failed: Vec<_> = failed.collect();
        let outcome = match (rows.is_empty(), failed.is_empty()) {
            (false, _) => Outcome::Drift,
            (true, false) => Outcome::Unknown,
            (true, true) => Outcome::InSync,
        };
        let (file, checked) = (file.display().to_string(), now.servers.len());
        let remarks = remarked::remarked(&texts);
        Self { file, outcome, checked, drift: rows, failed, notes, remarks }
    }

    /// Adds something that was noticed besides.
    pub(super) fn noted(mut self, note: Option<String>) -> Self {
        self.notes.extend(note);
        self
    }

    /// How it has ended.
    pub(super) fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// The findings in a line.
    pub(super) fn summary(&self) -> String {
        let packages = self.drift.iter().filter(|row| row.kind == PACKAGE).count();
        let definitions = self.drift.len() - packages;
        let mut differing = Vec::new();
        if definitions > 0 {
            differing.push(count(definitions, "definition"));
        }
        if packages > 0 {
            differing.push(count(packages, "package"));
        }
        let differing = differing.join(" and ");
        match self.outcome {
            Outcome::InSync => {
                format!("in sync: {} as `{}` has them", count(self.checked, "server"), self.file)
            }
            Outcome::Drift => format!("drift: {differing} not as `{}` has them", self.file),
            Outcome::Unknown => format!(
                "{} could not be checked; the others are as `{}` has them",
                count(self.failed.len(), "server"),
                self.file
            ),
        }
    }

    /// Things that were noticed besides.
    pub(super) fn notes(&self) -> &[String] {
        &self.notes
    }
}

fn called(info: Option<&str>) -> String {
    let info: Option<Raw> = info.and_then(|info| serde_json::from_str(info).ok());
    let text = |key: &str| Some(info.as_ref()?.member(key)?.text()?.into_owned());
    let words: Vec<String> = [text("name"), text("version")].into_iter().flatten().collect();
    if words.is_empty() {
        "nothing".to_owned()
    } else {
        format!("`{}`", seen::named(&words.join(" "), MAX_NAME))
    }
}

impl Row {
    fn new(server: &str, one: &Drifted, locked: Option<&LockedServer>, listing: &Listing) -> Self {
        let members = match &one.what {
            Difference::Changed(members) => members.clone(),
            _ => Vec::new(),
        };
        let before = locked.and_then(|locked| find_locked(locked, one));
        let before = before.and_then(|locked| locked.spellings.first());
        let before = before.and_then(|one| serde_json::from_str::<Raw>(&one.text).ok());
        let lines = |raw: Option<Raw>| {
            let raw = raw.map(|raw| raw.without_member("_meta").unwrap_or(raw));
            raw.map(|raw| raw.on_lines(0, |_| false).unwrap_or_else(|| raw.as_str().into_owned()))
        };
        let name = seen::named(&one.name, MAX_NAME);
        Self {
            server: server.to_owned(),
            kind: one.word,
            said: one.to_string(),
            own: one.name.clone(),
            name,
            difference: one.what.word(),
            members,
            texts: [before, find_listed(listing, one)].map(|raw| lines(raw).unwrap_or_default()),
            accept: one.accepting(server),
        }
    }
}

impl Row {
    /// Other bytes of the version of a package that was recorded.
    fn of_package(server: &str, said: String, texts: [String; 2]) -> Self {
        Self {
            server: server.to_owned(),
            kind: PACKAGE,
            name: String::new(),
            difference: "changed",
            members: vec!["integrity".to_owned()],
            said,
            own: String::new(),
            texts,
            accept: accepting(server, Some(PACKAGE)),
        }
    }
}

fn find_locked<'a>(server: &'a LockedServer, one: &Drifted) -> Option<&'a Locked> {
    if one.name.is_empty() {
        return server.instructions.as_ref();
    }
    let (_, kind) = server.kinds().into_iter().find(|(word, _)| *word == one.word)?;
    kind.get(&one.name)
}

fn find_listed(listing: &Listing, one: &Drifted) -> Option<Raw> {
    let Listing { tools, templates, prompts, instructions, .. } = listing;
    match one.word {
        "tool" => tools.iter().find(|t| t.name == one.name).map(|t| t.raw.clone()),
        "prompt" => prompts.iter().find(|p| p.name == one.name).map(|p| p.raw.clone()),
        "resource template" => templates.iter().find(|t| t.uri == one.name).map(|t| t.raw.clone()),
        _ => instructions.as_deref().map(Raw::of_text),
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.summary())?;
        let mut last = None;
        for row in &self.drift {
            if last != Some(&row.server) {
                write!(f, "\n\n`{}`:", row.server)?;
                last = Some(&row.server);
            }
            write!(f, "\n  {}", row.said)?;
        }
        for Failed { server, reason } in &self.failed {
            let reason = reason.replace('\n', "\n  ");
            write!(f, "\n\n`{server}` could not be started: {reason}")?;
        }
        if let Some(remarks) = remarked::told(&self.remarks) {
            write!(f, "\n\n{remarks}")?;
        }
        for (at, note) in self.notes.iter().enumerate() {
            write!(f, "{}\nnote: {note}", if at == 0 { "\n" } else { "" })?;
        }
        if self.outcome == Outcome::Drift {
            f.write_str(
                "\n\nhint: `mcp-workbench lock --diff` shows what differs\n\
                 hint: `mcp-workbench lock --accept SERVER[:TOOL]` takes it over",
            )?;
        }
        Ok(())
    }
}
