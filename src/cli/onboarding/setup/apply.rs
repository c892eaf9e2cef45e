//! Applies a plan: first the journal, then the workbench's own files, then each client's.

use crate::authoring::setup::client_file_editor::ClientFileEditor;
use crate::authoring::setup::entry::has_bearer_token;
use crate::authoring::setup::journal::{FileRecord, sha256_hex};
use crate::cli::args::GlobalArgs;
use crate::cli::onboarding::setup::client_plan::ClientPlan;
use crate::cli::onboarding::setup::plan::{SecretsChange, SetupPlan};
use crate::cli::onboarding::setup::service_plan::PlannedFile;
use crate::cli::onboarding::setup::state_dir;
use crate::cli::output::CommandError;

#[derive(Debug, Default)]
pub(super) struct ApplyOutcome {
    /// Indexes of the plan's clients whose files were written.
    pub(super) written: Vec<usize>,
    /// Indexes of clients whose files could not be written, with the reason.
    pub(super) failed: Vec<(usize, String)>,
}

/// Applies the plan. A client's file that can't be written is recorded as failed, and the other
/// clients are still set up.
pub(super) fn apply(global: &GlobalArgs, plan: &SetupPlan) -> Result<ApplyOutcome, CommandError> {
    let mut journal = plan.journal.clone();
    let SecretsChange { path: secrets_path, before: secrets_before, text: secrets, .. } =
        &plan.secrets;
    let config_path = &plan.config.location.path;
    let config_before = plan.config.before.as_deref();
    let is_config_new = config_before != Some(&plan.config.text);
    let mut backups = Vec::new();
    if let Some(text) = secrets {
        let path = secrets_path.display().to_string();
        journal.merge(record(path, secrets_before.as_deref(), text), None);
        backups
            .extend(secrets_before.as_ref().map(|before| (secrets_path.clone(), before.clone())));
    }
    if is_config_new {
        let path = config_path.display().to_string();
        journal.merge(record(path, config_before, &plan.config.text), None);
        backups.extend(config_before.map(|before| (config_path.clone(), before.to_owned())));
    }
    if let Some(shared) = &plan.shared {
        journal.service = Some(shared.managed());
        for PlannedFile { path, before, text } in &shared.files {
            let shown = path.display().to_string();
            journal.merge(record(shown, before.as_deref(), text), None);
            backups.extend(before.as_ref().map(|before| (path.clone(), before.clone())));
        }
    }
    for client in &plan.clients {
        let Some(changed) = client.new_text() else { continue };
        let path = client.file.path.display().to_string();
        let new = FileRecord {
            client: Some(client.file.program.id.to_owned()),
            entry: changed.entry.clone().map(|name| (name, client.entry.clone())),
            removed: changed.removed.clone(),
            ..record(path, client.file.text.as_deref(), &changed.text)
        };
        journal.merge(new, Some(ClientFileEditor::for_client(client.file.program)));
        let before = client.file.text.clone();
        backups.extend(before.map(|before| (client.file.path.clone(), before)));
    }
    for (path, before) in backups {
        state_dir::back_up(&path, &before)?;
    }
    state_dir::write(&journal)?;

    let unwritable = |file: String, why: String| {
        CommandError::failed(format!("cannot write `{file}`"))
            .with_cause(&why)
            .with_hint("no client was changed; run `mcp-workbench setup undo` to revert the rest")
    };
    if let Some(text) = secrets {
        state_dir::write_private_if_unchanged(secrets_path, secrets_before.as_deref(), text)
            .map_err(|why| unwritable(secrets_path.display().to_string(), why))?;
    }
    if is_config_new {
        state_dir::write_if_unchanged(config_path, config_before, &plan.config.text).map_err(
            |why| unwritable(plan.config.location.display_path.display().to_string(), why),
        )?;
    }
    if let Some(shared) = &plan.shared {
        for PlannedFile { path, before, text } in &shared.files {
            state_dir::write_secret_if_unchanged(path, before.as_deref(), text)
                .map_err(|why| unwritable(path.display().to_string(), why))?;
        }
        shared.enable(global, config_path).map_err(|why| {
            let error = CommandError::failed("the background service failed to start");
            error.with_cause(&why).with_hint(
                "no client was changed; run `mcp-workbench setup undo` to revert the rest. \
                 Without `--service`, each client starts its own workbench.",
            )
        })?;
    }
    let mut done = ApplyOutcome::default();
    for (index, client) in plan.clients.iter().enumerate() {
        match put(client) {
            Some(Ok(())) => done.written.push(index),
            Some(Err(why)) => done.failed.push((index, why)),
            None => {}
        }
    }
    Ok(done)
}

fn put(client: &ClientPlan) -> Option<Result<(), String>> {
    let changed = client.new_text()?;
    let (path, before) = (&client.file.path, client.file.text.as_deref());
    Some(if has_bearer_token(&client.entry) {
        state_dir::write_secret_if_unchanged(path, before, &changed.text)
    } else {
        state_dir::write_if_unchanged(path, before, &changed.text)
    })
}

fn record(path: String, before: Option<&str>, after: &str) -> FileRecord {
    FileRecord {
        path,
        client: None,
        before: before.map(str::to_owned),
        after: sha256_hex(after),
        entry: None,
        removed: Vec::new(),
    }
}
