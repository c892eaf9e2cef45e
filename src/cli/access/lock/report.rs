//! The findings of `lock --check`.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use serde::Serialize;

use crate::cli::access::locking::package_record::{self, PackageChange};
use crate::cli::access::locking::recording::{Recording, ServerRecording};
use crate::cli::access::locking::remarks::{self, ServerDefinitions};
use crate::cli::diagnostics::definition_remarks::{self, DefinitionRemarks};
use crate::cli::output::format_count;
use crate::cli::servers::package_identity::PackageIdentity;
use mcp_workbench_core::catalog::{
    DefinitionDrift, DriftDetector, DriftKind, Listing, accept_command,
};
use mcp_workbench_names::untrusted_text;
use mcp_workbench_settings::{LockedDefinition, LockedServer, Lockfile};
use mcp_workbench_wire::json::RawJson;
use mcp_workbench_wire::json::definition_text::{to_pretty_string, without_meta};

/// The `kind` of a row about a package instead of a definition.
pub(super) const PACKAGE_KIND: &str = "package";
/// In characters.
const MAX_NAME: usize = 128;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum CheckOutcome {
    InSync,
    Drift,
    /// No drift, but at least one server couldn't be started.
    Unknown,
}

#[derive(Debug, Serialize)]
pub(super) struct DriftReport {
    pub(super) file: String,
    outcome: CheckOutcome,
    checked: usize,
    pub(super) drift: Vec<DriftRow>,
    pub(super) failed: Vec<UncheckedServer>,
    notes: Vec<String>,
    /// Those on unreviewed definitions first.
    #[serde(serialize_with = "definition_remarks::rows", skip_serializing_if = "Vec::is_empty")]
    pub(super) findings: Vec<DefinitionRemarks>,
}

#[derive(Debug, Serialize)]
pub(super) struct DriftRow {
    pub(super) server: String,
    pub(super) kind: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) name: String,
    pub(super) difference: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) members: Vec<String>,
    /// The difference in words, for plain text and SARIF.
    #[serde(skip)]
    pub(super) text: String,
    /// `name` escapes and shortens it.
    #[serde(skip)]
    pub(super) own: String,
    /// The locked and the current definition, indented; empty if missing.
    #[serde(skip)]
    pub(super) texts: [String; 2],
    #[serde(skip)]
    pub(super) accept: String,
}

#[derive(Debug, Serialize)]
pub(super) struct UncheckedServer {
    pub(super) server: String,
    pub(super) reason: String,
}

impl DriftReport {
    pub(super) fn new(
        before: &Lockfile,
        now: &Recording,
        packages: &BTreeMap<String, PackageIdentity>,
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
                rows.push(DriftRow::new(
                    name,
                    one,
                    locked.map(|locked| &**locked),
                    &listed.listing,
                ));
            }
            texts.push(ServerDefinitions::of_listing(name, &listed.listing, |word, own| {
                drift.iter().any(|one| (one.word, one.name.as_str()) == (word, own))
            }));
            let Some(locked) = locked else { continue };
            let info = listed.info.as_ref().and_then(|info| info.canonical(usize::MAX));
            let info = info.and_then(|info| String::from_utf8(info).ok());
            if info.as_deref() != locked.info.as_deref() {
                notes.push(format!(
                    "`{name}` reports itself as {}; the lock has {}",
                    server_label(info.as_deref()),
                    server_label(locked.info.as_deref())
                ));
            }
            if listed.launch != locked.launch {
                notes.push(format!("`{name}` is launched differently than in the lock"));
            }
            let package = locked.package.as_ref().zip(packages.get(name));
            match package.and_then(|(then, now)| package_record::compare_package(name, then, now)) {
                Some(PackageChange::Note(note)) => notes.push(note),
                Some(PackageChange::Drift(said, texts)) => {
                    rows.push(DriftRow::of_package(name, said, texts));
                }
                None => {}
            }
        }
        let is_there = |name: &String| {
            now.servers.contains_key(name)
                || now.failed.contains_key(name)
                || now.disabled.contains(name)
        };
        for name in before.servers.keys().filter(|name| !is_there(name)) {
            notes.push(format!("`{name}` is only in the lock; `mcp-workbench lock` removes it"));
        }
        let failed = now.failed.iter().map(|(server, reason)| UncheckedServer {
            server: server.clone(),
            reason: reason.clone(),
        });
        let failed: Vec<_> = failed.collect();
        let outcome = match (rows.is_empty(), failed.is_empty()) {
            (false, _) => CheckOutcome::Drift,
            (true, false) => CheckOutcome::Unknown,
            (true, true) => CheckOutcome::InSync,
        };
        let (file, checked) = (file.display().to_string(), now.servers.len());
        let findings = remarks::remarked(&texts);
        Self { file, outcome, checked, drift: rows, failed, notes, findings }
    }

    pub(super) fn with_note(mut self, note: Option<String>) -> Self {
        self.notes.extend(note);
        self
    }

    pub(super) fn outcome(&self) -> CheckOutcome {
        self.outcome
    }

    pub(super) fn summary(&self) -> String {
        let packages = self.drift.iter().filter(|row| row.kind == PACKAGE_KIND).count();
        let definitions = self.drift.len() - packages;
        let mut differing = Vec::new();
        if definitions > 0 {
            differing.push(format_count(definitions, "definition"));
        }
        if packages > 0 {
            differing.push(format_count(packages, "package"));
        }
        let differing = differing.join(" and ");
        match self.outcome {
            CheckOutcome::InSync => {
                format!(
                    "in sync with `{}`: {} checked",
                    self.file,
                    format_count(self.checked, "server")
                )
            }
            CheckOutcome::Drift => format!("drift from `{}`: {differing}", self.file),
            CheckOutcome::Unknown => format!(
                "{} could not be checked; the others match `{}`",
                format_count(self.failed.len(), "server"),
                self.file
            ),
        }
    }

    pub(super) fn notes(&self) -> &[String] {
        &self.notes
    }
}

fn server_label(info: Option<&str>) -> String {
    let info: Option<RawJson> = info.and_then(|info| serde_json::from_str(info).ok());
    let text = |key: &str| Some(info.as_ref()?.member(key)?.decode_string()?.into_owned());
    let words: Vec<String> = [text("name"), text("version")].into_iter().flatten().collect();
    if words.is_empty() {
        "unnamed".to_owned()
    } else {
        format!("`{}`", untrusted_text::display_name(&words.join(" "), MAX_NAME))
    }
}

impl DriftRow {
    fn new(
        server: &str,
        one: &DefinitionDrift,
        locked: Option<&LockedServer>,
        listing: &Listing,
    ) -> Self {
        let members = match &one.kind {
            DriftKind::Changed(members) => members.clone(),
            _ => Vec::new(),
        };
        let before = locked.and_then(|locked| find_locked(locked, one));
        let before = before.and_then(|locked| locked.spellings.first());
        let before = before.and_then(|one| serde_json::from_str::<RawJson>(&one.text).ok());
        let lines = |raw: Option<RawJson>| {
            let raw = raw.and_then(|raw| without_meta(&raw).ok());
            raw.map(|raw| {
                to_pretty_string(&raw, 0, |_| false).unwrap_or_else(|| raw.as_str().into_owned())
            })
        };
        let name = untrusted_text::display_name(&one.name, MAX_NAME);
        Self {
            server: server.to_owned(),
            kind: one.word,
            text: one.to_string(),
            own: one.name.clone(),
            name,
            difference: one.kind.as_str(),
            members,
            texts: [before, find_listed(listing, one)].map(|raw| lines(raw).unwrap_or_default()),
            accept: one.accept_command(server),
        }
    }
}

impl DriftRow {
    fn of_package(server: &str, text: String, texts: [String; 2]) -> Self {
        Self {
            server: server.to_owned(),
            kind: PACKAGE_KIND,
            name: String::new(),
            difference: "changed",
            members: vec!["integrity".to_owned()],
            text,
            own: String::new(),
            texts,
            accept: accept_command(server, Some(PACKAGE_KIND)),
        }
    }
}

fn find_locked<'a>(
    server: &'a LockedServer,
    one: &DefinitionDrift,
) -> Option<&'a LockedDefinition> {
    if one.name.is_empty() {
        return server.instructions.as_ref();
    }
    let (_, kind) = server.kinds().into_iter().find(|(word, _)| *word == one.word)?;
    kind.get(&one.name)
}

fn find_listed(listing: &Listing, one: &DefinitionDrift) -> Option<RawJson> {
    let Listing { tools, templates, resources, prompts, instructions, .. } = listing;
    match one.word {
        "tool" => tools.iter().find(|t| t.name == one.name).map(|t| t.raw.clone()),
        "prompt" => prompts.iter().find(|p| p.name == one.name).map(|p| p.raw.clone()),
        "resource" => resources.iter().find(|r| r.uri == one.name).map(|r| r.raw.clone()),
        "resource template" => templates.iter().find(|t| t.uri == one.name).map(|t| t.raw.clone()),
        _ => instructions.as_deref().map(RawJson::from_text),
    }
}

impl fmt::Display for DriftReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.summary())?;
        let mut last = None;
        for row in &self.drift {
            if last != Some(&row.server) {
                write!(f, "\n\n`{}`:", row.server)?;
                last = Some(&row.server);
            }
            write!(f, "\n  {}", row.text)?;
        }
        for UncheckedServer { server, reason } in &self.failed {
            let reason = reason.replace('\n', "\n  ");
            write!(f, "\n\n`{server}` failed to start: {reason}")?;
        }
        if let Some(findings) = remarks::remarks_text(&self.findings) {
            write!(f, "\n\n{findings}")?;
        }
        for (at, note) in self.notes.iter().enumerate() {
            write!(f, "{}\nnote: {note}", if at == 0 { "\n" } else { "" })?;
        }
        if self.outcome == CheckOutcome::Drift {
            f.write_str(
                "\n\nhint: run `mcp-workbench lock --diff` to see the differences\n\
                 hint: run `mcp-workbench lock --accept SERVER[:TOOL]` to accept them",
            )?;
        }
        Ok(())
    }
}

fn drift(before: &Lockfile, listed: &ServerRecording, name: &str) -> Vec<DefinitionDrift> {
    let nothing = LockedServer::unreviewed();
    let locked = before.servers.get(name).map_or(&nothing, |locked| &**locked);
    DriftDetector::default().detect(locked, &listed.listing)
}
