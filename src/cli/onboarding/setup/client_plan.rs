//! The plan for one client: its entry, and the servers that stay.

use std::path::Path;

use serde_json::Value;

use crate::authoring::client_files::ClientApp;
use crate::authoring::import::CoveredServer;
use crate::authoring::setup::client_file_editor::ClientFileEditor;
use crate::authoring::setup::entry::{is_same_launch, pass_variables, remote_entry, stdio_entry};
use crate::authoring::setup::journal::Journal;
use crate::authoring::setup::{InstallOutcome, install_workbench};
use crate::cli::onboarding::setup::clients::ClientFile;
use crate::cli::onboarding::setup::service_plan::{ServicePlan, token_of};
use crate::cli::onboarding::setup::tried_servers::TriedEntry;
use crate::cli::output::ContextSize;

pub(super) struct ClientPlan {
    pub(super) file: ClientFile,
    pub(super) change: Result<InstallOutcome, String>,
    pub(super) entry: Value,
    pub(super) skipped: Vec<(String, String)>,
    /// The tool definitions of the servers that the workbench replaces.
    pub(super) size: ContextSize,
}

impl ClientPlan {
    /// Returns the change, unless the file already has the new text.
    pub(super) fn new_text(&self) -> Option<&InstallOutcome> {
        let changed = self.change.as_ref().ok()?;
        (self.file.text.as_deref() != Some(&changed.text)).then_some(changed)
    }

    /// Says what happens to the workbench's entry.
    pub(super) fn entry_change(&self) -> &'static str {
        let Ok(changed) = &self.change else { return "skipped" };
        // An entry without a name here belongs to the user, and stays.
        let Some(name) = &changed.entry else { return "unchanged" };
        let editor = ClientFileEditor::for_client(self.file.program);
        let entry = |text: &str| {
            let all = editor.entries(text).unwrap_or_default();
            all.into_iter().find(|(other, _)| other == name)
        };
        match entry(self.file.text.as_deref().unwrap_or_default()) {
            None => "add",
            Some(before) if Some(&before) == entry(&changed.text).as_ref() => "unchanged",
            Some(_) => "update",
        }
    }
}

pub(super) struct EntryBuilder<'a> {
    pub(super) program: String,
    pub(super) config: &'a Path,
    pub(super) shared: Option<&'a ServicePlan>,
    /// Variables that the configuration takes from the environment.
    pub(super) variables: Vec<String>,
}

impl EntryBuilder<'_> {
    fn of(&self, program: &ClientApp) -> Value {
        let config = ["--config".to_owned(), self.config.display().to_string()];
        let stdio = |args: &[String]| {
            let mut entry = stdio_entry(program.entry, &self.program, args);
            pass_variables(&mut entry, program.env, &self.variables);
            entry
        };
        let Some(shared) = self.shared else { return stdio(&config) };
        if let Some(form) = program.remote.filter(|_| shared.can_use_url()) {
            let token = token_of(&shared.service.tokens, program.id);
            remote_entry(form, &shared.service.url(), token)
        } else {
            let bridge = ["connect", "--agent", program.id].map(str::to_owned);
            let args: Vec<String> = bridge.into_iter().chain(config).collect();
            stdio(&args)
        }
    }
}

pub(super) struct ClientPlanner<'a> {
    pub(super) carried: Vec<CoveredServer>,
    /// The entries that start a workbench, by file and name.
    pub(super) foreign: Vec<(String, String)>,
    /// The ID of each client with a rule that the configuration lacks, and the reason.
    pub(super) missing: Vec<(&'static str, String)>,
    pub(super) tried: Vec<TriedEntry>,
    pub(super) journal: &'a Journal,
}

impl ClientPlanner<'_> {
    pub(super) fn client(&self, file: ClientFile, entries: &EntryBuilder<'_>) -> ClientPlan {
        let entry = entries.of(file.program);
        let editor = ClientFileEditor::for_client(file.program);
        let path = file.path.display().to_string();
        let record = self.journal.files.iter().find(|record| record.path == path);
        let ours = record.and_then(|record| record.entry.as_ref());
        let ours = ours.map(|(name, value)| (name.as_str(), value));
        let own = self.carried.iter().filter(|carried| carried.file == file.shown);
        let names: Vec<String> = own.map(|carried| carried.name.clone()).collect();
        let missing = self.missing.iter().find(|(id, _)| *id == file.program.id);
        let missing = missing.map(|(_, why)| why);
        let change = match self.foreign_entry(&file, editor, &entry, ours.map(|(name, _)| name)) {
            Some(name) => Err(format!("already starts another workbench (`{name}`)")),
            None if ours.is_none() && missing.is_some() => {
                Err(missing.cloned().unwrap_or_default())
            }
            None if editor.blocks_workbench(file.text.as_deref().unwrap_or_default()) => {
                Err("its `mcp.allowed` or `mcp.excluded` blocks `workbench`; change that first"
                    .to_owned())
            }
            None => {
                install_workbench(editor, file.text.as_deref(), &entry, (ours, names.as_slice()))
                    .map_err(|error| error.to_string())
            }
        };
        let stuck = change.iter().flat_map(|changed| changed.unremovable.clone());
        let unruled = missing.filter(|_| ours.is_some());
        let unruled = unruled.map(|why| ("workbench".to_owned(), why.clone()));
        let tried = || self.tried.iter().filter(|tried| tried.file == file.shown);
        let stay = tried().filter_map(|tried| Some((tried.name.clone(), tried.stays.clone()?)));
        let skipped = stuck.chain(unruled).chain(stay).collect();
        let replaced = tried().filter(|tried| tried.stays.is_none());
        let size = replaced.map(|tried| ContextSize::of(tried.size)).sum();
        ClientPlan { file, change, entry, skipped, size }
    }

    fn foreign_entry(
        &self,
        file: &ClientFile,
        editor: ClientFileEditor,
        entry: &Value,
        ours: Option<&str>,
    ) -> Option<String> {
        let there = editor.entries(file.text.as_deref().unwrap_or_default()).ok()?;
        let is_foreign =
            |name: &str| self.foreign.iter().any(|(of, other)| *of == file.shown && other == name);
        let mut there = there.into_iter().filter(|(name, value)| {
            is_foreign(name) && Some(name.as_str()) != ours && !is_same_launch(value, entry)
        });
        there.next().map(|(name, _)| name)
    }
}
