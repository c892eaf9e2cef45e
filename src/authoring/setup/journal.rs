//! The journal of a setup: the changes to each file, and how to undo them.
//!
//! It is written before the first file changes, so that an interrupted setup can be undone too.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::authoring::service::ServiceManager;
use crate::authoring::setup::client_file_editor::{
    ClientEditError, ClientFileEditor, RemovedServer,
};
use crate::authoring::setup::entry::is_workbench_entry;
use mcp_workbench_config::{parse_secrets_env, variable_names};

pub const VERSION: u32 = 1;

/// The changes of all setups that have not been undone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Journal {
    pub version: u32,
    /// The changed files, in the order they were written.
    pub files: Vec<FileRecord>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceRecord>,
}

/// The service that a setup registered, with the details needed to remove it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServiceRecord {
    pub manager: ServiceManager,
    /// Its name in the service manager.
    pub name: String,
    pub address: core::net::SocketAddr,
}

impl Default for Journal {
    fn default() -> Self {
        Self { version: VERSION, files: Vec::new(), service: None }
    }
}

impl Journal {
    /// Adds a record. If the file already has one, the two are merged: `before` becomes the text
    /// that undoing both changes restores.
    pub fn merge(&mut self, mut new: FileRecord, editor: Option<ClientFileEditor>) {
        let Some(old) = self.files.iter_mut().find(|old| old.path == new.path) else {
            self.files.push(new);
            return;
        };
        match old.undo(new.before.as_deref(), editor) {
            UndoAction::Restore(before) => new.before = before,
            UndoAction::Revert { text, .. } => new.before = Some(text),
            // Restoring `before` would bring the earlier entry back, so undo has to edit the file.
            UndoAction::Skip(_) if editor.is_some() => new.after.clear(),
            UndoAction::Unchanged | UndoAction::Skip(_) => {}
        }
        new.entry = new.entry.or_else(|| old.entry.take());
        let is_new =
            |removed: &RemovedServer| new.removed.iter().all(|other| other.name != removed.name);
        let earlier: Vec<RemovedServer> =
            old.removed.iter().filter(|removed| is_new(removed)).cloned().collect();
        new.removed.extend(earlier);
        *old = new;
    }
}

/// Returns `true` if a remaining configuration refers to a secret that `before`, the earlier text of
/// its secrets file, doesn't have. `secrets` is the current text.
pub fn needs_secrets(config: &str, secrets: &str, before: Option<&str>) -> bool {
    let names = |text: &str| parse_secrets_env(Path::new(""), text).0;
    let (now, before) = (names(secrets), names(before.unwrap_or_default()));
    let is_lost =
        |name: &&str| now.get(*name).is_some_and(|value| before.get(*name) != Some(value));
    variable_names(config).iter().any(is_lost)
}

/// The change to one file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FileRecord {
    pub path: String,
    /// The id of the client. `None` for the workbench's own files.
    pub client: Option<String>,
    /// The original text. `None` if the file didn't exist.
    pub before: Option<String>,
    /// The SHA-256 digest of the text that setup wrote, in hex.
    pub after: String,
    /// The name and value of the workbench's entry.
    pub entry: Option<(String, Value)>,
    #[serde(rename = "taken")]
    pub removed: Vec<RemovedServer>,
}

/// How to undo the change to one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UndoAction {
    /// Nothing to do: the file has its original text.
    Unchanged,
    /// Write the original text. `None`: remove the file.
    Restore(Option<String>),
    /// The file has changed since: remove the workbench's entry and restore the servers `back`.
    /// Other edits stay, among them servers that have the names in `taken` now.
    Revert { text: String, back: Vec<String>, taken: Vec<String> },
    /// The file has changed since and cannot be edited safely. Holds the reason.
    Skip(String),
}

/// Returns the SHA-256 digest of `text` in hex.
pub fn sha256_hex(text: &str) -> String {
    hex::encode(Sha256::digest(text))
}

impl FileRecord {
    /// Determines how to undo the change. `now` is the current text, or `None` if the file is gone;
    /// `editor` is the one for the client's file.
    pub fn undo(&self, now: Option<&str>, editor: Option<ClientFileEditor>) -> UndoAction {
        if now == self.before.as_deref() {
            return UndoAction::Unchanged;
        }
        let Some(text) = now else { return UndoAction::Restore(self.before.clone()) };
        if sha256_hex(text) == self.after {
            return UndoAction::Restore(self.before.clone());
        }
        let Some(editor) = editor else {
            return UndoAction::Skip("the file has changed since setup".to_owned());
        };
        match self.revert_edits(text, editor) {
            Ok((text, back, taken)) => UndoAction::Revert { text, back, taken },
            Err(error) => UndoAction::Skip(error.to_string()),
        }
    }

    /// Removes the workbench's entry and restores the servers whose names are still free. Returns
    /// the text, the restored servers, and those that differ from the current one of their name.
    fn revert_edits(
        &self,
        text: &str,
        editor: ClientFileEditor,
    ) -> Result<(String, Vec<String>, Vec<String>), ClientEditError> {
        let mut text = text.to_owned();
        let (mut back, mut taken) = (Vec::new(), Vec::new());
        for removed in &self.removed {
            let there = editor.entries(&text)?;
            let Some(current) = there.iter().position(|(name, _)| *name == removed.name) else {
                text = editor.restore(&text, removed)?;
                back.push(removed.name.clone());
                continue;
            };
            let before = self.before.as_deref().and_then(|before| editor.entries(before).ok());
            if !before.is_some_and(|before| there.get(current).is_some_and(|e| before.contains(e)))
            {
                taken.push(removed.name.clone());
            }
        }
        if let Some((name, ours)) = &self.entry {
            let there = editor.entries(&text)?;
            if there.iter().any(|(other, value)| other == name && is_workbench_entry(value, ours)) {
                text = editor.remove(&text, name)?.0;
            }
        }
        Ok((text, back, taken))
    }
}
