//! Rules of who may use what, which are carried over whole or not at all: servers without the rules
//! that were made for them would let everybody use everything.

use serde_json::{Map, Value};

use crate::authoring::import::grading::graded;
use crate::authoring::import::{Grade, ImportFinding, Source};
use crate::authoring::tailor::keys;
use crate::config::Dialect;
use crate::config::keys::raw::RawConfig;
use crate::config::syntax::document::Node;
use crate::config::syntax::finding::Severity;
use crate::config::syntax::reader::listed;
use crate::config::syntax::section::{Described, Kind};

/// The rules of a file, in our words, with the settings beside them.
#[derive(Debug)]
pub(super) struct Rules {
    /// Their names in the file.
    names: Vec<String>,
    /// Each setting by our name for it; `None`: some cannot be read, which has been said.
    settings: Option<Map<String, Value>>,
}

/// Settings of ours that are carried over in other ways.
const ELSEWHERE: [&str; 4] = ["toolMode", "toolboxes", "activeToolsets", "categories"];

impl Rules {
    /// Reads the rules of a file, if it has any, and notes what is wrong with them.
    pub(super) fn read(
        source: &Source,
        text: &str,
        root: &Node<'_>,
        dialect: Dialect,
    ) -> (Option<Self>, Vec<ImportFinding>) {
        let Value::Object(written) = Value::from(root.value.clone()) else {
            return (None, Vec::new());
        };
        let mut notes = Vec::new();
        let settings = keys::every(written.clone(), dialect, &mut notes);
        let is_rule = |key: &str| kind(key) == Some(Kind::Rule);
        if !settings.keys().any(|key| is_rule(key)) {
            return (None, Vec::new());
        }
        let note = |grade, message: String| ImportFinding {
            grade,
            file: source.file.clone(),
            path: String::new(),
            position: None,
            message,
            hint: None,
        };
        let mut notes: Vec<_> =
            notes.into_iter().map(|text| note(Grade::Approximate, text)).collect();
        let names = written.keys().filter(|key| {
            let ours = keys::every(
                [((*key).clone(), written[*key].clone())].into_iter().collect(),
                dialect,
                &mut Vec::new(),
            );
            ours.keys().any(|key| is_rule(key))
        });
        let names = names.cloned().collect();

        let mut reader = dialect.reader(None);
        _ = dialect.read(root, None, &mut reader);
        let wrong = reader.into_findings(text).into_iter().filter(|finding| {
            let is_of_servers = ["servers", "mcpServers", "toolboxes"]
                .iter()
                .any(|key| finding.path.starts_with(key));
            finding.severity == Severity::Error && !is_of_servers
        });
        let wrong: Vec<_> = wrong.collect();
        if !wrong.is_empty() {
            notes.extend(graded(source, wrong, true));
            return (Some(Self { names, settings: None }), notes);
        }
        let left = settings.keys().filter(|key| !is_carried(key) && !is_known(key));
        let left: Vec<&String> = left.collect();
        if !left.is_empty() {
            let message = format!("not carried over: {}", listed(&left, "and"));
            notes.push(note(Grade::Approximate, message));
        }
        let settings = settings
            .into_iter()
            .filter(|(key, _)| is_carried(key) && !ELSEWHERE.contains(&key.as_str()));
        (Some(Self { names, settings: Some(settings.collect()) }), notes)
    }

    /// The settings to write into a configuration, or why its servers cannot be carried over at all.
    /// `existing` is what the configuration has at its top; `None`: there is none yet, and nothing
    /// but this file goes into it.
    pub(super) fn settings(
        self,
        existing: Option<&Map<String, Value>>,
    ) -> Result<Map<String, Value>, String> {
        let names = listed(&self.names, "and");
        let Some(settings) = self.settings else {
            return Err(format!("{names} cannot be read, and servers come with their rules"));
        };
        let Some(existing) = existing else { return Ok(settings) };
        let is_there = |(key, value): (&String, &Value)| existing.get(key) == Some(value);
        if settings.iter().all(is_there) {
            return Ok(Map::new());
        }
        Err(format!("{names} would hold for other servers too"))
    }
}

/// Returns the kind of a key that may stand at the top of our files.
fn kind(key: &str) -> Option<Kind> {
    RawConfig::DESCRIPTION.key(key).map(|key| key.kind)
}

/// Returns whether a key is a setting of ours, and not one that other programs have as well.
fn is_carried(key: &str) -> bool {
    kind(key).is_some_and(|kind| kind != Kind::Everybodys)
}

/// Returns `true` if a key has been dealt with where it stands.
fn is_known(key: &str) -> bool {
    ELSEWHERE.contains(&key) || matches!(key, "mcpServers" | "servers" | "$schema" | "version")
}
