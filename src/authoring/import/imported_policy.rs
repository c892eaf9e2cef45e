//! Imports a file's policy, completely or not at all: without their policy, the file's servers
//! would be open to every agent.

use serde_json::{Map, Value};

use crate::authoring::import::grading::grade_findings;
use crate::authoring::import::{Grade, ImportFinding, SourceFile};
use crate::authoring::tailor::native_keys;
use mcp_workbench_config::Dialect;
use mcp_workbench_config::sections::root::RawConfig;
use mcp_workbench_config::syntax::document::Node;
use mcp_workbench_config::syntax::finding::Severity;
use mcp_workbench_config::syntax::reader::quoted_list;
use mcp_workbench_config::syntax::section::{ConfigSection, KeyOwnership};

/// The policy of a file in native form, with its other settings.
#[derive(Debug)]
pub(super) struct ImportedPolicy {
    /// The policy keys, as the file spells them.
    names: Vec<String>,
    /// Settings by native key. `None` if some cannot be read, which has been reported.
    settings: Option<Map<String, Value>>,
}

/// Native settings that are imported separately.
const HANDLED_KEYS: [&str; 4] = ["toolMode", "toolboxes", "activeToolsets", "categories"];

impl ImportedPolicy {
    /// Reads the policy of a file, and reports errors in it. Returns `None` if the file has no
    /// policy.
    pub(super) fn read(
        source: &SourceFile,
        text: &str,
        root: &Node<'_>,
        dialect: Dialect,
    ) -> (Option<Self>, Vec<ImportFinding>) {
        let Value::Object(written) = Value::from(root.value.clone()) else {
            return (None, Vec::new());
        };
        let mut notes = Vec::new();
        let settings = native_keys::rename_keys(written.clone(), dialect, &mut notes);
        let is_rule = |key: &str| kind(key) == Some(KeyOwnership::Policy);
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
            let ours = native_keys::rename_keys(
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
            notes.extend(grade_findings(source, wrong, true));
            return (Some(Self { names, settings: None }), notes);
        }
        let left = settings.keys().filter(|key| !is_carried(key) && !is_known(key));
        let left: Vec<&String> = left.collect();
        if !left.is_empty() {
            let message = format!("not imported: {}", quoted_list(&left, "and"));
            notes.push(note(Grade::Approximate, message));
        }
        let settings = settings
            .into_iter()
            .filter(|(key, _)| is_carried(key) && !HANDLED_KEYS.contains(&key.as_str()));
        (Some(Self { names, settings: Some(settings.collect()) }), notes)
    }

    /// Returns the settings to add to the configuration, or the reason why the file's servers
    /// cannot be imported. `existing` holds its top-level members; `None` for a new configuration
    /// that is made from this file only.
    pub(super) fn settings(
        self,
        existing: Option<&Map<String, Value>>,
    ) -> Result<Map<String, Value>, String> {
        let names = quoted_list(&self.names, "and");
        let Some(settings) = self.settings else {
            return Err(format!(
                "errors in {names}: servers are imported only with their access rules"
            ));
        };
        let Some(existing) = existing else { return Ok(settings) };
        let is_there = |(key, value): (&String, &Value)| existing.get(key) == Some(value);
        if settings.iter().all(is_there) {
            return Ok(Map::new());
        }
        Err(format!("{names} would also apply to other servers"))
    }
}

fn kind(key: &str) -> Option<KeyOwnership> {
    RawConfig::SPEC.key(key).map(|key| key.ownership)
}

/// Returns `true` for native settings, except those that other programs share.
fn is_carried(key: &str) -> bool {
    kind(key).is_some_and(|kind| kind != KeyOwnership::Universal)
}

/// Returns `true` if another part of the import handles `key`.
fn is_known(key: &str) -> bool {
    HANDLED_KEYS.contains(&key) || matches!(key, "mcpServers" | "servers" | "$schema" | "version")
}
