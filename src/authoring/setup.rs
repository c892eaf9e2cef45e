//! Puts the workbench into clients' files instead of their servers, and takes it out again.
//!
//! No I/O: the functions map texts to texts. `client_file_editor` edits the servers of a file in
//! any syntax and verifies that nothing else changes. `entry` builds the workbench's entry.
//! `journal` records the changes and undoes them. `code_mode` adapts the workbench's configuration to
//! the model of a client.

use serde_json::Value;

use crate::authoring::setup::client_file_editor::{
    ClientEditError, ClientFileEditor, RemovedServer,
};
use mcp_workbench_config::syntax::document;

pub mod client_file_editor;
pub mod code_mode;
pub mod entry;
pub mod journal;
mod json;
mod toml;
mod yaml;

/// The name of the workbench's entry in clients' files.
pub const ENTRY_NAME: &str = "workbench";

/// A client's file with the workbench in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstallOutcome {
    pub text: String,
    /// The name of the entry. `None` if the user already had one, which setup doesn't own.
    pub entry: Option<String>,
    pub removed: Vec<RemovedServer>,
    /// The servers that cannot be removed from this file and stay in it, with the reasons.
    pub unremovable: Vec<(String, String)>,
}

/// Adds the workbench's entry to a file and removes `servers`. A `text` of `None` stands for a
/// missing file. `ours` is the name and value of the entry from an earlier setup. An entry with the
/// same launch stays as it is, and an outdated one is replaced.
pub fn install_workbench(
    editor: ClientFileEditor,
    text: Option<&str>,
    entry: &Value,
    (ours, servers): (Option<(&str, &Value)>, &[String]),
) -> Result<InstallOutcome, ClientEditError> {
    let mut text = text.unwrap_or_default().to_owned();
    let there = editor.entries(&text)?;
    // Keep an existing entry as it is: the user may have disabled or extended it.
    let same = there.iter().find(|(_, value)| entry::is_same_launch(value, entry));
    // An entry of an earlier setup gets the variables that it doesn't pass on yet.
    let outdated = same.filter(|(name, value)| {
        ours.is_some_and(|(ours, _)| ours == name) && !entry::is_complete(value, entry)
    });
    let completed = outdated.map(|(_, value)| entry::merge_entries(value, entry));
    let same = same.map(|(name, _)| name.clone()).filter(|_| completed.is_none());
    let entry = completed.as_ref().unwrap_or(entry);
    let earlier = ours.map(|(_, earlier)| earlier);
    let is_ours = |value: &Value| {
        entry::is_workbench_entry(value, entry)
            || earlier.is_some_and(|own| entry::is_workbench_entry(value, own))
    };
    let mut ours = ours.map(|(name, _)| name.to_owned());
    if let Some(old) = ours.as_deref().filter(|_| same.is_none())
        && there.iter().any(|(name, value)| name == old && is_ours(value))
    {
        text = editor.remove(&text, old)?.0;
    } else if same.is_none() {
        ours = None;
    }
    let name = if let Some(name) = same {
        // An entry that isn't in the journal belongs to the user.
        ours.filter(|ours| *ours == name)
    } else {
        let name =
            ours.unwrap_or_else(|| unique_entry_name(&editor.entries(&text).unwrap_or_default()));
        text = editor.insert(&text, &name, entry)?;
        Some(name)
    };
    let mut changed =
        InstallOutcome { text, entry: name, removed: Vec::new(), unremovable: Vec::new() };
    for server in servers {
        match editor.remove(&changed.text, server) {
            Ok((text, taken)) => {
                changed.text = text;
                changed.removed.push(taken);
            }
            Err(error) => changed.unremovable.push((server.clone(), error.to_string())),
        }
    }
    Ok(changed)
}

/// Adds an audit log to a configuration, unless it has one. Returns `None` if it cannot be edited.
pub fn add_audit_log(text: &str, file: &str) -> Option<String> {
    if audit_log(text).is_some() {
        return Some(text.to_owned());
    }
    let added = insert_json(text, "audit", "file", &file.into())?;
    (audit_log(&added).as_deref() == Some(file)).then_some(added)
}

/// Returns the file of a configuration's audit log.
pub fn audit_log(text: &str) -> Option<String> {
    let tree = document::parse_jsonc(document::strip_bom(text)).ok()?;
    Some(Value::from(tree).pointer("/audit/file")?.as_str()?.to_owned())
}

/// Adds a member to the object under the top-level `key`, which is created if needed.
pub(in crate::authoring) fn insert_json(
    text: &str,
    key: &str,
    name: &str,
    value: &Value,
) -> Option<String> {
    json::insert(text, key, name, value)
}

fn unique_entry_name(there: &[(String, Value)]) -> String {
    let is_free = |name: &String| there.iter().all(|(other, _)| other != name);
    let numbered = (2_u32..).map(|number| format!("{ENTRY_NAME}-{number}"));
    let mut names = std::iter::once(ENTRY_NAME.to_owned()).chain(numbered);
    names.find(is_free).unwrap_or_else(|| ENTRY_NAME.to_owned())
}

#[cfg(test)]
mod tests;
