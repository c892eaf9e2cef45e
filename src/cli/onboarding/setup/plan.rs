//! The setup plan: the servers to import, the entry of each client, and the skipped servers.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::authoring::import::{
    AddedServer, CoveredServer, Grade, ImportCandidates, ImportFinding, ImportOptions,
    SecretExtractor, SourceFile, collect_user_candidates, has_servers,
};
use crate::authoring::setup::client_file_editor::ClientFileEditor;
use crate::authoring::setup::code_mode::{codex_model_without_code_mode, without_codex_code_mode};
use crate::authoring::setup::entry::is_workbench_entry;
use crate::authoring::setup::journal::Journal;
use crate::authoring::setup::{add_audit_log, audit_log};
use crate::cli::args::GlobalArgs;
use crate::cli::files::secret_variables::SecretVariables;
use crate::cli::onboarding::setup::client_plan::{ClientPlan, ClientPlanner, EntryBuilder};
use crate::cli::onboarding::setup::client_rules::ClientRules;
use crate::cli::onboarding::setup::clients::{self, ClientFile, InstalledClients};
use crate::cli::onboarding::setup::service_plan::ServicePlan;
use crate::cli::onboarding::setup::state_dir;
use crate::cli::onboarding::setup::tried_servers::TriedServers;
use crate::cli::onboarding::toolbox_proposal::{self, ToolboxProposal};
use crate::cli::output::{CommandError, quote_for_shell};
use crate::cli::runtime::{current_folder, current_program};
use mcp_workbench_config::env::{EnvSource, ProcessEnv};
use mcp_workbench_config::{
    ConfigLocation, parse_secrets_env, render_secrets_env, secrets_env_path,
};
use mcp_workbench_os::Platform;

pub(super) struct SetupPlan {
    pub(super) config: ConfigChange,
    pub(super) secrets: SecretsChange,
    pub(super) imported: ImportedServers,
    /// `false` if the workbench would have no server. Then nothing is changed.
    pub(super) has_servers: bool,
    pub(super) clients: Vec<ClientPlan>,
    /// The model of Codex for which the configuration turns off its code mode.
    pub(super) without_code_mode: Option<String>,
    /// The client's title, path and error of each unreadable file.
    pub(super) unreadable: Vec<(&'static str, String, String)>,
    pub(super) shared: Option<ServicePlan>,
    pub(super) journal: Journal,
}

/// The workbench's configuration.
pub(super) struct ConfigChange {
    pub(super) location: ConfigLocation,
    /// `None` if the setup creates it.
    pub(super) before: Option<String>,
    pub(super) text: String,
}

/// The file `secrets.env`.
pub(super) struct SecretsChange {
    pub(super) path: PathBuf,
    pub(super) before: Option<String>,
    /// `None` if nothing changes.
    pub(super) text: Option<String>,
    pub(super) new_count: usize,
}

/// The servers that the workbench takes over from the clients.
pub(super) struct ImportedServers {
    pub(super) proposed: Vec<ToolboxProposal>,
    pub(super) added: Vec<AddedServer>,
    pub(super) remarks: Vec<ImportFinding>,
    /// A line for each rule of a client that now applies to all clients, or to none.
    pub(super) rules: Vec<String>,
}

fn no_client() -> CommandError {
    CommandError::usage("no MCP client found").with_hint(
        "add servers with `mcp-workbench add`, or use those of another client with \
         `mcp-workbench import FILE`",
    )
}

/// Returns the number of new secrets that the configuration uses, and the file with all secrets if
/// there are new ones.
fn updated_secrets(
    secrets: &SecretVariables,
    config: &str,
    known: BTreeMap<String, String>,
) -> (usize, Option<String>) {
    let used = secrets.values().filter(|(name, _)| config.contains(&format!("${{{name}}}")));
    let used: BTreeMap<String, String> =
        used.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let new_secrets = used.keys().filter(|name| !known.contains_key(*name)).count();
    let all_secrets = known.into_iter().chain(used).collect();
    (new_secrets, (new_secrets > 0).then(|| render_secrets_env(&all_secrets)))
}

impl SetupPlan {
    /// Plans for all clients, or for those with these IDs, and starts each server once. Clients
    /// share a service if `service` is set or an earlier setup created one.
    pub(super) fn build(
        global: &GlobalArgs,
        ids: &[String],
        service: bool,
    ) -> Result<Self, CommandError> {
        let found = FoundFiles::read(global, ids)?;
        let (gathered, secrets) = found.gather()?;
        let rules = ClientRules::read(&found.clients);
        let add = match &global.config {
            Some(_) => {
                let path = found.target.path.display().to_string();
                let config = quote_for_shell(&path);
                format!("mcp-workbench add --config {config}")
            }
            None => "mcp-workbench add --user".to_owned(),
        };
        let TriedServers { mut gathered, trial, entries } =
            TriedServers::run(global, gathered, (&found.target, &add), &secrets, &rules)?;
        let (confirmations, rule_lines) = rules.carry_over(&mut gathered, &trial);

        let proposed = toolbox_proposal::propose_by_purpose(gathered.servers(), &trial);
        let options = ImportOptions {
            proposal: proposed.iter().map(ToolboxProposal::to_proposal).collect(),
            outcomes: trial.outcomes,
            confirmations,
            ..ImportOptions::default()
        };
        let clients = ClientPlanner {
            carried: gathered.covered_servers(),
            foreign: gathered.workbenches(),
            missing: found
                .client_ids()
                .filter_map(|id| Some((id, rules.missing_rule(id, &gathered)?)))
                .collect(),
            tried: entries,
            journal: &found.journal,
        };
        let is_configured = !gathered.existing_servers().is_empty();
        let planned = gathered.plan(&options).map_err(CommandError::invalid_config)?;
        let has_servers = is_configured
            || !planned.added.is_empty()
            || found.config.is_some() && has_toolboxes(&planned.text, &found.target);
        let remarks = remarks(planned.findings, &clients.carried);
        let has_service = service || found.journal.service.is_some();
        let (config, shared) = found.with_service(planned.text, has_servers && has_service)?;
        let model = found.codex_model_without_code_mode().filter(|_| has_servers);
        let without_code_mode =
            model.and_then(|model| Some((model, without_codex_code_mode(&config)?)));
        let (without_code_mode, config) = match without_code_mode {
            Some((model, config)) => (Some(model), config),
            None => (None, config),
        };
        let is_stored = |name: &str| secrets.values().any(|(stored, _)| stored == name);
        let entry_of = EntryBuilder {
            program: program(),
            config: &found.target.path,
            shared: shared.as_ref(),
            variables: environment_variables(&config, &ProcessEnv, is_stored),
        };
        let clients = found.clients.iter().map(|file| {
            let mut client = clients.client(file.clone(), &entry_of);
            if !has_servers && client.new_text().is_some() {
                client.change = Err("the workbench has no servers yet".to_owned());
            }
            client
        });
        let clients = clients.collect();
        let (new_secrets, secrets_text) = updated_secrets(&secrets, &config, found.known_secrets);
        Ok(Self {
            config: ConfigChange { location: found.target, before: found.config, text: config },
            secrets: SecretsChange {
                path: found.secrets_path,
                before: found.secrets,
                text: secrets_text,
                new_count: new_secrets,
            },
            imported: ImportedServers {
                proposed,
                added: planned.added,
                remarks,
                rules: rule_lines,
            },
            has_servers,
            clients,
            without_code_mode,
            unreadable: found.unreadable,
            shared,
            journal: found.journal,
        })
    }

    /// Returns the audit log that the setup turns on.
    pub(super) fn new_audit_log(&self) -> Option<String> {
        let before = self.config.before.as_deref().and_then(audit_log);
        audit_log(&self.config.text).filter(|_| before.is_none() && self.has_servers)
    }

    /// Turns on an audit log in the state folder, unless the configuration has one.
    pub(super) fn add_audit_log(&mut self) -> Result<(), CommandError> {
        let file = state_dir::shown_audit_log()?;
        self.config.text = add_audit_log(&self.config.text, &file).ok_or_else(|| {
            let shown = self.config.location.display_path.display();
            CommandError::usage(format!("cannot add an audit log to `{shown}`"))
                .with_hint(format!("add `\"audit\": {{\"file\": \"{file}\"}}` yourself"))
        })?;
        Ok(())
    }

    pub(super) fn has_audit_log(&self) -> bool {
        audit_log(&self.config.text).is_some()
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.has_servers
            || self.imported.added.is_empty()
                && self.config.before.as_ref().is_none_or(|before| *before == self.config.text)
                && self.clients.iter().all(|client| client.new_text().is_none())
                && !self.shared.as_ref().is_some_and(ServicePlan::is_new)
    }
}

/// The files of the clients and of the workbench, as they are.
struct FoundFiles {
    target: ConfigLocation,
    config: Option<String>,
    secrets_path: PathBuf,
    secrets: Option<String>,
    known_secrets: BTreeMap<String, String>,
    clients: Vec<ClientFile>,
    /// The client's title, path and error of each unreadable file.
    unreadable: Vec<(&'static str, String, String)>,
    journal: Journal,
}

impl FoundFiles {
    /// Fails if there is no client.
    fn read(global: &GlobalArgs, ids: &[String]) -> Result<Self, CommandError> {
        let folder = current_folder()?;
        let target = target(global, &folder)?;
        let config = read(&target.path, &target.display_path)?;
        let secrets_path = secrets_env_path(&target.path);
        let secrets = read(&secrets_path, &secrets_path)?;
        let known = secrets.as_deref().unwrap_or_default();
        let (known_secrets, _) = parse_secrets_env(&secrets_path, known);
        let journal = state_dir::journal()?.unwrap_or_default();
        let InstalledClients { files: clients, unreadable } =
            clients::find(Platform::THIS, &ProcessEnv, &folder, ids);
        let unreadable: Vec<_> =
            unreadable.into_iter().map(|(client, file, why)| (client.title, file, why)).collect();
        if clients.is_empty() && unreadable.is_empty() {
            return Err(no_client());
        }
        Ok(Self {
            target,
            config,
            secrets_path,
            secrets,
            known_secrets,
            clients,
            unreadable,
            journal,
        })
    }

    fn client_ids(&self) -> impl Iterator<Item = &'static str> {
        self.clients.iter().map(|file| file.program.id)
    }

    fn codex_model_without_code_mode(&self) -> Option<String> {
        let mut files = self.clients.iter().filter(|file| file.program.id == "codex");
        files.find_map(|file| codex_model_without_code_mode(file.text.as_deref()?))
    }

    /// Collects the servers, and all secrets: those of the clients and the known ones.
    fn gather(&self) -> Result<(ImportCandidates, SecretVariables), CommandError> {
        let shown = self.target.display_path.display().to_string();
        let existing =
            self.config.as_ref().map(|text| SourceFile { file: shown, text: text.clone() });
        let sources: Vec<SourceFile> =
            self.clients.iter().filter_map(|file| source(file, &self.journal)).collect();
        let texts = sources.iter().chain(&existing).map(|source| source.text.as_str());
        let known = self.known_secrets.clone();
        let mut secrets = StoredSecrets(SecretVariables::with_existing(texts, known));
        let gathered = collect_user_candidates(existing.as_ref(), &sources, &mut secrets)
            .map_err(CommandError::invalid_config)?;
        Ok((gathered, secrets.0))
    }

    /// Returns the configuration with the tokens of the service, and the service, if the clients
    /// share one.
    fn with_service(
        &self,
        config: String,
        is_wanted: bool,
    ) -> Result<(String, Option<ServicePlan>), CommandError> {
        if !is_wanted {
            return Ok((config, None));
        }
        let ids: Vec<&'static str> = self.client_ids().collect();
        let mut shared = ServicePlan::build(&self.target.path, &config, program(), &ids)?;
        Ok((shared.add_tokens(&self.target.path, &config)?, Some(shared)))
    }
}

/// Returns the configuration named by `--config`, or else the user configuration.
pub(super) fn target(global: &GlobalArgs, folder: &Path) -> Result<ConfigLocation, CommandError> {
    let target = match &global.config {
        Some(file) => mcp_workbench_config::locate(Some(file.clone()), &ProcessEnv, folder),
        None => mcp_workbench_config::user_file(&ProcessEnv).ok_or_else(|| {
            CommandError::usage("cannot locate the user configuration: HOME is not set")
        })?,
    };
    if target.path.is_dir() {
        let shown = target.display_path.display();
        return Err(CommandError::usage(format!(
            "`{shown}` is a catalog folder, which `setup` cannot edit"
        ))
        .with_hint("choose a configuration file with `--config FILE`"));
    }
    Ok(target)
}

/// Returns `true` if a configuration has toolboxes, which can come from other files.
fn has_toolboxes(text: &str, target: &ConfigLocation) -> bool {
    let folder = target.path.parent().unwrap_or(Path::new("/"));
    let parsed = mcp_workbench_config::parse(text, &target.display_path, folder, &ProcessEnv);
    parsed.is_ok_and(|parsed| !parsed.config.toolboxes.is_empty())
}

fn read(path: &Path, shown: &Path) -> Result<Option<String>, CommandError> {
    clients::read(path).map_err(|why| {
        CommandError::usage(format!("cannot read `{}`", shown.display())).with_cause(&why)
    })
}

fn source(file: &ClientFile, journal: &Journal) -> Option<SourceFile> {
    let editor = ClientFileEditor::for_client(file.program);
    let text = file.text.clone()?;
    // Remove the workbench's own remote entry, which must not be imported as a server.
    let path = file.path.display().to_string();
    let record = journal.files.iter().find(|record| record.path == path);
    let text = match record.and_then(|record| record.entry.as_ref()) {
        Some((name, ours)) if has_ours(editor, &text, name, ours) => {
            editor.remove(&text, name).map_or(text, |(text, _)| text)
        }
        Some(_) | None => text,
    };
    let source = SourceFile { file: file.shown.clone(), text };
    // A file that can't be parsed is reported when it is about to be changed.
    (editor.entries(&source.text).is_ok() && has_servers(&source)).then_some(source)
}

fn has_ours(editor: ClientFileEditor, text: &str, name: &str, ours: &Value) -> bool {
    let there = editor.entries(text).unwrap_or_default();
    there.iter().any(|(other, value)| other == name && is_workbench_entry(value, ours))
}

/// Drops remarks that report an exact import, and those on servers that are not imported.
fn remarks(findings: Vec<ImportFinding>, carried: &[CoveredServer]) -> Vec<ImportFinding> {
    let is_told = |finding: &ImportFinding| {
        let names_it = |carried: &CoveredServer| {
            carried.file == finding.file && finding.path.contains(&carried.name)
        };
        finding.grade != Grade::Exact && carried.iter().any(names_it)
    };
    findings.into_iter().filter(is_told).collect()
}

/// Returns the set variables that the configuration refers to and that the secrets file doesn't
/// have. Clients give every server the common ones, such as `HOME`.
fn environment_variables(
    config: &str,
    env: &dyn EnvSource,
    is_stored: impl Fn(&str) -> bool,
) -> Vec<String> {
    const EVERYWHERE: [&str; 4] = ["HOME", "PATH", "USER", "USERPROFILE"];
    let names = mcp_workbench_config::variable_names(config)
        .into_iter()
        .filter(|name| !EVERYWHERE.contains(name) && !is_stored(name) && env.get(name).is_some());
    let names: BTreeSet<&str> = names.collect();
    names.into_iter().map(str::to_owned).collect()
}

/// Returns the program that clients start: its name on the search path, which survives updates, or
/// else its own path.
fn program() -> String {
    let own = current_program().and_then(|path| path.canonicalize().ok());
    let path = ProcessEnv.get("PATH").unwrap_or_default();
    let name = format!("{}{}", crate::cli::runtime::PROGRAM_NAME, std::env::consts::EXE_SUFFIX);
    let on_path = std::env::split_paths(&path).map(|folder| folder.join(&name)).find(|file| {
        file.is_absolute() && file.canonicalize().is_ok_and(|file| Some(&file) == own.as_ref())
    });
    let program = on_path.or(own);
    program.map_or_else(
        || crate::cli::runtime::PROGRAM_NAME.to_owned(),
        |path| path.display().to_string(),
    )
}

struct StoredSecrets(SecretVariables);

impl SecretExtractor for StoredSecrets {
    fn extract_from_args(&mut self, server: &str, args: &mut Vec<String>) -> Vec<String> {
        self.0.extract_from_args(server, args)
    }

    fn extract_from_url(&mut self, server: &str, address: &mut String) -> Vec<String> {
        self.0.extract_from_url(server, address)
    }

    fn extract_named(&mut self, wanted: &str, name: &str, value: &mut String) {
        self.0.hide_named(wanted, name, value);
    }

    fn stores_values(&self) -> bool {
        true
    }
}
