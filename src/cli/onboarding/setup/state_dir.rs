//! The state of a setup: its journal and backups of the original files. Only the owner can read it,
//! because client files contain secrets.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::authoring::setup::journal::{Journal, VERSION};
use crate::cli::files::atomic_write;
use crate::cli::onboarding::setup::clients::{read, shown};
use crate::cli::output::{CommandError, print};
use mcp_workbench_config::env::{EnvSource, ProcessEnv};
use mcp_workbench_config::{ConfigLocation, ConfigOrigin};
use mcp_workbench_names::PROGRAM;
use mcp_workbench_os::{MAX_INPUT_BYTES, Platform, make_private_folder, read_own};

/// The folder of the original files, inside the state folder.
const BACKUPS: &str = "before";

pub(super) fn folder() -> Result<PathBuf, CommandError> {
    Ok(own_folder()?.join("setup"))
}

fn own_folder() -> Result<PathBuf, CommandError> {
    let state = ProcessEnv.state_dir();
    let state = state
        .ok_or_else(|| CommandError::usage("cannot locate the state folder: HOME is not set"))?;
    Ok(state.join(PROGRAM))
}

fn journal_file() -> Result<PathBuf, CommandError> {
    Ok(folder()?.join("journal.json"))
}

/// Returns `None` if there is no setup to undo.
pub(super) fn journal() -> Result<Option<Journal>, CommandError> {
    let path = journal_file()?;
    let broken = |why: &str| {
        CommandError::failed(format!("cannot read the setup journal `{}`", path.display()))
            .with_cause(why)
            .with_hint(format!("the original files are in `{}`", shown_backup_folder()))
    };
    // The journal decides which files `undo` writes.
    let text = match read_own(&path, MAX_INPUT_BYTES) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(broken(&error.to_string())),
    };
    let journal: Journal = serde_json::from_slice(&text).map_err(|e| broken(&e.to_string()))?;
    if journal.version == VERSION {
        Ok(Some(journal))
    } else {
        Err(broken(&format!("expected version {VERSION}, found {}", journal.version)))
    }
}

pub(super) fn write(journal: &Journal) -> Result<(), CommandError> {
    let path = journal_file()?;
    private(&path, &print::pretty_json(journal)?)
}

/// Archives the journal and backups of an undone setup, replacing the previous archive.
pub(super) fn archive_journal() -> Result<(), CommandError> {
    let folder = folder()?;
    let undone = folder.join("undone");
    // A failure here is harmless: there may be no backups.
    let _ = fs::remove_dir_all(&undone);
    let _ = fs::rename(folder.join(BACKUPS), &undone);
    fs::rename(journal_file()?, folder.join("undone.json")).map_err(CommandError::internal)
}

/// Backs up the original text of a file, unless there is a backup already.
pub(super) fn back_up(file: &Path, text: &str) -> Result<(), CommandError> {
    let path = backup_path(file)?;
    if path.exists() { Ok(()) } else { private(&path, text) }
}

pub(super) fn backup_path(file: &Path) -> Result<PathBuf, CommandError> {
    let name: String = file.display().to_string();
    let name = name.trim_start_matches(['/', '\\']).replace(['/', '\\', ':'], "%");
    Ok(folder()?.join(BACKUPS).join(name))
}

/// Returns the folder of the backups for messages.
pub(super) fn shown_backup_folder() -> String {
    let folder = folder().map_or_else(|_| PathBuf::from(BACKUPS), |folder| folder.join(BACKUPS));
    shown(&folder, ProcessEnv.home_dir().as_deref())
}

/// Returns the path of the audit log that setup turns on, as the configuration names it.
pub(super) fn shown_audit_log() -> Result<String, CommandError> {
    let path = own_folder()?.join("audit.jsonl");
    // Only the configuration expands `~`, and only before `/`.
    let home = ProcessEnv.home_dir().filter(|_| Platform::THIS != Platform::Windows);
    Ok(shown(&path, home.as_deref()))
}

/// Writes a file atomically, in a private folder.
fn private(path: &Path, text: &str) -> Result<(), CommandError> {
    if let Some(folder) = path.parent() {
        make_private_folder(folder).map_err(|error| {
            CommandError::failed(format!("cannot create the folder `{}`", folder.display()))
                .because(&error)
        })?;
    }
    atomic_write::write_atomically(&location(path), text, &[])
}

pub(super) fn location(path: &Path) -> ConfigLocation {
    ConfigLocation {
        display_path: path.to_owned(),
        path: path.to_owned(),
        chosen_by: ConfigOrigin::Default,
    }
}

/// Writes a file atomically and keeps its permissions. Fails if it is no longer as in `before`.
pub(super) fn write_if_unchanged(
    path: &Path,
    before: Option<&str>,
    text: &str,
) -> Result<(), String> {
    let models: &[&Path] = if before.is_some() { &[path] } else { &[] };
    replace(path, before, text, models)
}

/// Like [`write_if_unchanged`], for a file with secrets, which only its owner can read from now on.
pub(super) fn write_secret_if_unchanged(
    path: &Path,
    before: Option<&str>,
    text: &str,
) -> Result<(), String> {
    replace(path, before, text, &[])
}

fn replace(path: &Path, before: Option<&str>, text: &str, models: &[&Path]) -> Result<(), String> {
    check_unchanged(path, before)?;
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(|error| error.to_string())?;
    }
    atomic_write::write_atomically(&location(path), text, models)
        .map_err(CommandError::into_root_cause)
}

/// Like [`write_if_unchanged`], for a file that only its owner can read, in a private folder.
pub(super) fn write_private_if_unchanged(
    path: &Path,
    before: Option<&str>,
    text: &str,
) -> Result<(), String> {
    check_unchanged(path, before)?;
    private(path, text).map_err(CommandError::into_root_cause)
}

/// Fails if a file is no longer as in `before`; `None` means that it didn't exist.
pub(super) fn check_unchanged(path: &Path, before: Option<&str>) -> Result<(), String> {
    if read(path)?.as_deref() == before {
        Ok(())
    } else {
        Err("the file changed on disk in the meantime".to_owned())
    }
}
