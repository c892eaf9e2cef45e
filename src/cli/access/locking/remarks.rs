//! Remarks on locked definitions, or on listed ones that are compared with the lock.
//!
//! Remarks on definitions that the lock already has are reported separately: they have been
//! reviewed, and must not crowd out remarks on unreviewed definitions.

use crate::cli::diagnostics::definition_remarks::{DefinitionRemarks, words};
use crate::cli::output::format_count;
use crate::lint::{DefinitionKind, ScanInput, scan};
use mcp_workbench_core::catalog::Listing;
use mcp_workbench_settings::{LockedDefinition, LockedServer};
use mcp_workbench_wire::json::RawJson;

pub(crate) struct ServerDefinitions {
    server: String,
    all: Vec<DefinitionText>,
}

/// A definition in one of its recorded spellings.
struct DefinitionText {
    kind: DefinitionKind,
    name: String,
    raw: RawJson,
    is_reviewed: bool,
}

impl ServerDefinitions {
    /// `differs` returns `true` for a kind and name that isn't in the lock as listed.
    pub(crate) fn of_listing(
        server: &str,
        listing: &Listing,
        differs: impl Fn(&str, &str) -> bool,
    ) -> Self {
        let text = |(kind, name, raw): (DefinitionKind, &str, &RawJson)| DefinitionText {
            kind,
            name: name.to_owned(),
            raw: raw.clone(),
            is_reviewed: !differs(kind.as_str(), name),
        };
        let of = ScanInput::of(server, listing);
        let instructions = of.instructions.iter().map(|said| RawJson::from_text(said));
        let instructions: Vec<_> = instructions.collect();
        let instructions =
            instructions.iter().map(|raw| text((DefinitionKind::Instructions, "", raw)));
        // The lock doesn't record resources.
        let entries = of.entries.into_iter().filter(|(kind, ..)| *kind != DefinitionKind::Resource);
        let all = instructions.chain(entries.map(text)).collect();
        Self { server: server.to_owned(), all }
    }

    /// Marks the definitions that are unchanged since `before` as reviewed.
    pub(crate) fn of_locked(
        server: &str,
        locked: &LockedServer,
        before: Option<&LockedServer>,
    ) -> Self {
        let mut all = Vec::new();
        let mut put = |kind: DefinitionKind,
                       name: &str,
                       locked: &LockedDefinition,
                       before: Option<&LockedDefinition>| {
            let raws =
                locked.spellings.iter().filter_map(|one| serde_json::from_str(&one.text).ok());
            all.extend(raws.map(|raw| DefinitionText {
                kind,
                name: name.to_owned(),
                raw,
                is_reviewed: before == Some(locked),
            }));
        };
        if let Some(said) = &locked.instructions {
            let before = before.and_then(|before| before.instructions.as_ref());
            put(DefinitionKind::Instructions, "", said, before);
        }
        let kinds = [
            DefinitionKind::Tool,
            DefinitionKind::Prompt,
            DefinitionKind::Template,
            DefinitionKind::Resource,
        ];
        for (at, (kind, (_, own))) in kinds.into_iter().zip(locked.kinds()).enumerate() {
            let before = before.map(|before| before.kinds()[at].1);
            for (name, one) in own {
                put(kind, name, one, before.and_then(|before| before.get(name)));
            }
        }
        Self { server: server.to_owned(), all }
    }

    fn definitions<'a>(&'a self, said: &'a [Option<String>], is_reviewed: bool) -> ScanInput<'a> {
        let mut found = ScanInput { server: &self.server, ..ScanInput::default() };
        for (text, said) in self.all.iter().zip(said) {
            let name = text.name.as_str();
            match (text.is_reviewed == is_reviewed, said) {
                (true, Some(said)) => found.instructions.push(said),
                (true, None) => found.entries.push((text.kind, name, &text.raw)),
                (false, _) if text.kind == DefinitionKind::Tool => found.others.push(name),
                (false, _) => {}
            }
        }
        found
    }
}

/// Returns the remarks on all servers, those on unreviewed definitions first.
pub(crate) fn remarked(servers: &[ServerDefinitions]) -> Vec<DefinitionRemarks> {
    let said = |text: &DefinitionText| {
        (text.kind == DefinitionKind::Instructions)
            .then(|| text.raw.decode_string().map(std::borrow::Cow::into_owned).unwrap_or_default())
    };
    let said: Vec<Vec<_>> =
        servers.iter().map(|server| server.all.iter().map(said).collect()).collect();
    let pass = |is_reviewed: bool| {
        let all = servers.iter().zip(&said);
        let all: Vec<_> = all.map(|(one, said)| one.definitions(said, is_reviewed)).collect();
        let found = scan(&all).into_iter().filter(|server| !server.shown.is_empty());
        found.map(move |server| DefinitionRemarks {
            toolbox: None,
            is_reviewed: Some(is_reviewed),
            server,
        })
    };
    pass(false).chain(pass(true)).collect()
}

pub(crate) fn remarks_text(remarks: &[DefinitionRemarks]) -> Option<String> {
    let mut lines = Vec::new();
    let is_new = |one: &&DefinitionRemarks| one.is_reviewed == Some(false);
    for DefinitionRemarks { server, .. } in remarks.iter().filter(is_new) {
        let name = &server.server;
        for remark in &server.shown {
            lines.push(format!("  `{name}`: {}", words(remark)));
            lines.push(format!("    hint: {}", remark.rule.advice));
        }
        if server.omitted_count > 0 {
            lines.push(format!("  `{name}`: and {} more", server.omitted_count));
        }
    }
    if !lines.is_empty() {
        lines.insert(0, "findings in unreviewed definitions:".to_owned());
    }
    let reviewed = remarks.iter().filter(|one| one.is_reviewed == Some(true));
    let reviewed: usize =
        reviewed.map(|one| one.server.shown.len() + one.server.omitted_count).sum();
    if reviewed > 0 {
        lines.push(format!(
            "{} in reviewed definitions (use `--json` to show all)",
            format_count(reviewed, "finding")
        ));
    }
    (!lines.is_empty()).then(|| lines.join("\n"))
}
