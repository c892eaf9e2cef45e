//! `setup undo`: restores every file, or at least removes the workbench's entry.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Serialize;

use crate::authoring::client_files::ClientApp;
use crate::authoring::service::definition::{disable_commands, reload_command};
use crate::authoring::setup::client_file_editor::ClientFileEditor;
use crate::authoring::setup::journal::{
    FileRecord, Journal, ServiceRecord, UndoAction, needs_secrets,
};
use crate::cli::args::GlobalArgs;
use crate::cli::onboarding::setup::{clients, state_dir};
use crate::cli::output::{CommandError, Table, print};
use crate::cli::servers::background_service::{self, run_manager};
use mcp_workbench_config::env::{EnvSource, ProcessEnv};
use mcp_workbench_config::secrets_env_path;

/// Restore your clients' files to what they were before setup
///
/// A file that hasn't changed since setup is restored byte for byte. From a file that has changed,
/// only the workbench's entry is removed, and the servers that setup moved come back unless their
/// names are taken.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Show what would change, without changing it
    #[arg(long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct UndoOutcome {
    client: Option<&'static str>,
    file: String,
    is_undone: bool,
    message: String,
}

/// Fails if a file could not be restored.
pub(super) fn run(global: &GlobalArgs, args: &Args) -> Result<ExitCode, CommandError> {
    let Some(journal) = state_dir::journal()? else {
        return Err(CommandError::failed("nothing to undo")
            .with_hint("run `mcp-workbench setup status` to see which clients use the workbench"));
    };
    let (ours, of_clients): (Vec<_>, Vec<_>) =
        journal.files.iter().cloned().partition(|record| record.client.is_none());
    let mut left = Vec::new();
    let mut outcomes = Vec::new();
    for record in of_clients {
        let outcome = undo(&record, args.dry_run);
        if !outcome.is_undone {
            left.push(record);
        }
        outcomes.push(outcome);
    }
    // The configuration is needed as long as a client starts the workbench.
    let is_needed = !left.is_empty();
    let mut is_kept = is_needed;
    let mut service = journal.service.clone();
    let journal_service = journal.service;
    if let Some(managed) = service.clone().filter(|_| !is_needed) {
        let outcome = stop_service(global, &managed, args.dry_run);
        if outcome.is_undone {
            service = None;
        } else {
            is_kept = true;
        }
        outcomes.push(outcome);
    }
    let is_running = service.is_some();
    let configs = remaining_configs(&ours);
    for record in ours.into_iter().rev() {
        let is_used = configs.iter().any(|(config, text)| {
            secrets_env_path(config) == Path::new(&record.path)
                && clients::read(Path::new(&record.path))
                    .ok()
                    .flatten()
                    .is_some_and(|secrets| needs_secrets(text, &secrets, record.before.as_deref()))
        });
        let (outcome, is_done) = undo_own_file(&record, is_kept || is_used, args.dry_run);
        is_kept |= !outcome.is_undone;
        if is_needed || is_running || !is_done {
            left.push(record);
        }
        outcomes.push(outcome);
    }
    if let Some(managed) = journal_service.filter(|_| !args.dry_run && !is_running)
        && let Some(words) = reload_command(managed.manager)
    {
        // The service has stopped and its file is removed, so a failure is harmless.
        let _ = run_manager(&words);
    }
    if !args.dry_run {
        if left.is_empty() && service.is_none() {
            state_dir::archive_journal()?;
        } else {
            state_dir::write(&Journal { files: left.clone(), service, ..Journal::default() })?;
        }
    }
    if args.json {
        print::json(&outcomes)?;
    } else {
        print::prose(&report(&outcomes, args.dry_run, !left.is_empty()))?;
    }
    Ok(if left.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns the workbench's files that exist after the undo, with their text then.
fn remaining_configs(records: &[FileRecord]) -> Vec<(PathBuf, String)> {
    let remaining = records.iter().filter_map(|record| {
        let path = PathBuf::from(&record.path);
        let now = clients::read(&path).ok()?;
        let after = match record.undo(now.as_deref(), None) {
            UndoAction::Restore(_) if now.is_none() => None,
            UndoAction::Restore(before) => before,
            UndoAction::Unchanged | UndoAction::Revert { .. } | UndoAction::Skip(_) => now,
        };
        Some((path, after?))
    });
    remaining.collect()
}

fn report(outcomes: &[UndoOutcome], is_dry: bool, is_left: bool) -> String {
    let mut table = Table::left(["Client", "File", "Outcome"]);
    for UndoOutcome { client, file, message, .. } in outcomes {
        let client = client.unwrap_or("MCP Workbench");
        table.row([client.to_owned(), print::escape_to_line(file), print::escape_to_line(message)]);
    }
    let end = match (is_dry, is_left) {
        (true, _) => "hint: nothing was changed; run `mcp-workbench setup undo` to apply this",
        (false, true) => "hint: run `mcp-workbench setup undo` again to retry the rest",
        (false, false) => "hint: restart your clients to apply the change",
    };
    let backups = match state_dir::folder() {
        Ok(folder) if !is_dry && !is_left => format!(
            "note: backups, which can contain secrets, remain in `{}`; delete it if you don't need \
             them\n",
            folder.display()
        ),
        _ => String::new(),
    };
    format!("{table}\n\n{backups}{end}")
}

fn stop_service(global: &GlobalArgs, managed: &ServiceRecord, is_dry: bool) -> UndoOutcome {
    let outcome = |is_undone, message: String| UndoOutcome {
        client: None,
        file: format!("service at {}", managed.address),
        is_undone,
        message,
    };
    if is_dry {
        return outcome(true, "stopped".to_owned());
    }
    let commands = disable_commands(managed.manager, &managed.name);
    let told: Result<Vec<String>, String> =
        commands.iter().map(|words| run_manager(words)).collect();
    // A client may have started it without the manager, so only `stop` decides.
    match background_service::stop(global, managed.address) {
        Ok(()) => match told {
            Ok(_) => outcome(true, "stopped".to_owned()),
            Err(why) => outcome(true, format!("stopped; the service manager reported: {why}")),
        },
        Err(why) => outcome(false, why),
    }
}

fn undo(record: &FileRecord, is_dry: bool) -> UndoOutcome {
    let path = Path::new(&record.path);
    let program = record.client.as_deref().and_then(ClientApp::from_id);
    let outcome = |is_undone, message: String| UndoOutcome {
        client: program.map(|program| program.title),
        file: clients::shown(path, ProcessEnv.home_dir().as_deref()),
        is_undone,
        message,
    };
    let now = match clients::read(path) {
        Ok(now) => now,
        Err(why) => return outcome(false, format!("not changed: {why}")),
    };
    let undone = record.undo(now.as_deref(), program.map(ClientFileEditor::for_client));
    let (text, message) = match undone {
        UndoAction::Unchanged => return outcome(true, "already restored".to_owned()),
        UndoAction::Skip(why) => {
            let copy = state_dir::backup_path(path).map(|copy| copy.display().to_string());
            let copy = copy.map(|copy| format!("; the original is `{copy}`")).unwrap_or_default();
            return outcome(false, format!("not changed: {why}{copy}"));
        }
        UndoAction::Restore(None) => (None, "removed (created by setup)".to_owned()),
        UndoAction::Restore(text) => (text, "restored exactly".to_owned()),
        UndoAction::Revert { text, back, taken } => {
            let back = match back.as_slice() {
                [] => String::new(),
                names => format!(", restored {}", names.join(", ")),
            };
            let taken = match taken.as_slice() {
                [] => String::new(),
                names => format!(
                    "; not restored, because the file has another server of that name: {}",
                    names.join(", ")
                ),
            };
            (Some(text), format!("edited since setup: removed the workbench{back}{taken}"))
        }
    };
    if is_dry {
        return outcome(true, message);
    }
    match put(path, now.as_deref(), text.as_deref()) {
        Ok(()) => outcome(true, message),
        Err(why) => outcome(false, format!("not changed: cannot write the file: {why}")),
    }
}

/// Restores one of the workbench's own files, unless it is still needed or the user has edited it.
/// The flag is `true` if nothing remains to be done for the file.
fn undo_own_file(record: &FileRecord, is_kept: bool, is_dry: bool) -> (UndoOutcome, bool) {
    let path = Path::new(&record.path);
    let outcome = |is_undone, message: &str| UndoOutcome {
        client: None,
        file: clients::shown(path, ProcessEnv.home_dir().as_deref()),
        is_undone,
        message: message.to_owned(),
    };
    let now = match clients::read(path) {
        Ok(now) => now,
        Err(why) => return (outcome(false, &format!("not changed: {why}")), false),
    };
    match record.undo(now.as_deref(), None) {
        UndoAction::Unchanged => (outcome(true, "already restored"), true),
        // The user has deleted it.
        UndoAction::Restore(_) if now.is_none() => (outcome(true, "already removed"), true),
        UndoAction::Restore(_) if is_kept => (outcome(false, "kept (in use)"), true),
        UndoAction::Restore(before) => {
            let message = if before.is_some() { "restored exactly" } else { "removed" };
            if is_dry {
                return (outcome(true, message), true);
            }
            match put(path, now.as_deref(), before.as_deref()) {
                Ok(()) => (outcome(true, message), true),
                Err(why) => {
                    (outcome(false, &format!("not changed: cannot write the file: {why}")), false)
                }
            }
        }
        UndoAction::Revert { .. } | UndoAction::Skip(_) => {
            (outcome(false, "kept (you edited it)"), true)
        }
    }
}

/// Writes the file, or removes it if `text` is `None`. Fails if it is no longer as in `before`.
fn put(path: &Path, before: Option<&str>, text: Option<&str>) -> Result<(), String> {
    let Some(text) = text else {
        state_dir::check_unchanged(path, before)?;
        fs::remove_file(path).map_err(|error| error.to_string())?;
        // Remove the workbench's own folder if it is empty now; clients' folders existed before.
        if let Some(folder) =
            path.parent().filter(|folder| folder.ends_with(mcp_workbench_names::PROGRAM))
        {
            let _ = fs::remove_dir(folder);
        }
        return Ok(());
    };
    state_dir::write_if_unchanged(path, before, text)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn file_that_changed_since_it_was_read_is_not_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.json");
        fs::write(&path, "edited meanwhile").unwrap();
        let changed = "the file changed on disk in the meantime".to_owned();
        assert_eq!(put(&path, Some("as read"), None), Err(changed.clone()));
        assert_eq!(put(&path, Some("as read"), Some("before setup")), Err(changed));
        assert_eq!(fs::read_to_string(&path).unwrap(), "edited meanwhile");
        assert_eq!(put(&path, Some("edited meanwhile"), None), Ok(()));
        assert!(!path.exists());
    }
}
