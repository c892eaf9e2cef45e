//! The setup plan: the servers to import, the entry of each client, and the skipped servers.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::authoring::client_files::ClientApp;
use crate::authoring::import::{
    AddedServer, CandidateServer, CoveredServer, Grade, ImportCandidates, ImportFinding,
    ImportOptions, SecretExtractor, SourceFile, TrialOutcome, collect_user_candidates, has_servers,
    is_location,
};
use crate::authoring::setup::client_file_editor::ClientFileEditor;
use crate::authoring::setup::entry::{
    is_same_launch, is_workbench_entry, pass_variables, remote_entry, stdio_entry,
};
use crate::authoring::setup::journal::Journal;
use crate::authoring::setup::{InstallOutcome, install_workbench};
use crate::backend::strip_stderr_tail;
use crate::cli::error::CommandError;
use crate::cli::import::toolbox_proposal::{self, ToolboxProposal};
use crate::cli::import::trial_run::{self, TrialRun};
use crate::cli::secret_variables::SecretVariables;
use crate::cli::setup::client_rules::ClientRules;
use crate::cli::setup::clients::{self, ClientFile, InstalledClients};
use crate::cli::setup::service_plan::{ServicePlan, token_of};
use crate::cli::setup::state_dir;
use crate::cli::units::ContextSize;
use crate::cli::{GlobalArgs, current_program};
use crate::config::env::{EnvSource, ProcessEnv};
use crate::config::{
    self, ConfigLocation, LoadError, parse_secrets_env, render_secrets_env, secrets_env_path,
};
use crate::os::{Platform, make_private_folder};

pub(super) struct SetupPlan {
    pub(super) target: ConfigLocation,
    /// `None` if the setup creates it.
    pub(super) config_before: Option<String>,
    pub(super) config: String,
    /// The path of `secrets.env`, its current text, and its new text.
    pub(super) secrets: (PathBuf, Option<String>, Option<String>),
    pub(super) new_secrets: usize,
    pub(super) proposed: Vec<ToolboxProposal>,
    pub(super) added: Vec<AddedServer>,
    /// `false` if the workbench would have no server. Then nothing is changed.
    pub(super) has_servers: bool,
    pub(super) remarks: Vec<ImportFinding>,
    /// A line for each rule of a client that now applies to all clients, or to none.
    pub(super) rules: Vec<String>,
    pub(super) clients: Vec<ClientPlan>,
    /// The client's title, path and error of each unreadable file.
    pub(super) unreadable: Vec<(&'static str, String, String)>,
    pub(super) shared: Option<ServicePlan>,
    pub(super) journal: Journal,
}

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
    #[expect(clippy::too_many_lines, reason = "each step needs the results of the earlier ones")]
    pub(super) fn build(
        global: &GlobalArgs,
        ids: &[String],
        service: bool,
    ) -> Result<Self, CommandError> {
        let folder = std::env::current_dir().map_err(CommandError::internal)?;
        let target = target(global, &folder)?;
        let config_before = read(&target.path, &target.display_path)?;
        let secrets_path = secrets_env_path(&target.path);
        let secrets_before = read(&secrets_path, &secrets_path)?;
        let journal = state_dir::journal()?.unwrap_or_default();
        let InstalledClients { files, unreadable } =
            clients::find(Platform::THIS, &ProcessEnv, &folder, ids);
        let unreadable: Vec<_> =
            unreadable.into_iter().map(|(client, file, why)| (client.title, file, why)).collect();
        if files.is_empty() && unreadable.is_empty() {
            return Err(no_client());
        }
        let shown = target.display_path.display().to_string();
        let existing =
            config_before.as_ref().map(|text| SourceFile { file: shown, text: text.clone() });
        let sources: Vec<SourceFile> =
            files.iter().filter_map(|file| source(file, &journal)).collect();
        let known = secrets_before.as_deref().unwrap_or_default();
        let (known, _) = parse_secrets_env(&secrets_path, known);
        let texts = sources.iter().chain(&existing).map(|source| source.text.as_str());
        let mut secrets = StoredSecrets(SecretVariables::with_existing(texts, known.clone()));
        let invalid = |report| CommandError::config(LoadError::Invalid(report));
        let gathered =
            collect_user_candidates(existing.as_ref(), &sources, &mut secrets).map_err(invalid)?;
        let StoredSecrets(secrets) = secrets;
        // Servers start in the folder of the configuration, which may not exist yet.
        let _folder = NewFolderGuard::make(target.path.parent());
        let trial = trial_run::run(global, &gathered, &target, (&secrets, &HashSet::new()))?;
        let all = gathered.covered_servers();
        let tools: Vec<usize> = bytes(&trial);
        let rules = ClientRules::read(&files);
        let mut stay = rules.servers_that_stay(&gathered, &trial);
        stay.extend(other_options(&gathered, &trial));
        let (mut gathered, trial, left) = split_skipped(gathered, trial, &stay);
        let (confirmations, rule_lines) = rules.carry_over(&mut gathered, &trial);

        let proposed = toolbox_proposal::propose_by_purpose(gathered.servers(), &trial);
        let carried = gathered.covered_servers();
        let foreign = gathered.workbenches();
        let found: Vec<&'static str> = files.iter().map(|file| file.program.id).collect();
        let rule_of = |id| Some((id, rules.missing_rule(id, &gathered)?));
        let missing: Vec<_> = found.iter().copied().filter_map(rule_of).collect();
        let options = ImportOptions {
            proposal: proposed.iter().map(ToolboxProposal::to_proposal).collect(),
            outcomes: trial.outcomes,
            confirmations,
            ..ImportOptions::default()
        };
        let is_configured = !gathered.existing_servers().is_empty();
        let planned = gathered.plan(&options).map_err(invalid)?;
        let has_servers = is_configured
            || !planned.added.is_empty()
            || config_before.is_some() && has_toolboxes(&planned.text, &target);
        let remarks = remarks(planned.findings, &carried);
        let mut shared = (has_servers && (service || journal.service.is_some()))
            .then(|| ServicePlan::build(&target.path, &planned.text, program(), &found))
            .transpose()?;
        let config = match &mut shared {
            Some(shared) => shared.add_tokens(&target.path, &planned.text)?,
            None => planned.text,
        };
        let is_stored = |name: &str| secrets.values().any(|(stored, _)| stored == name);
        let entry_of = EntryBuilder {
            program: program(),
            config: &target.path,
            shared: shared.as_ref(),
            variables: environment_variables(&config, &ProcessEnv, is_stored),
        };
        let clients = files.into_iter().map(|file| {
            let own = ClientPlanner {
                carried: &carried,
                foreign: &foreign,
                missing: &missing,
                journal: &journal,
            };
            let mut client = own.client(file, &entry_of);
            let here = |carried: &&CoveredServer| carried.file == client.file.shown;
            let sizes = all.iter().filter(here).filter(|c| carried.iter().any(|o| is_same(o, c)));
            client.size =
                sizes.filter_map(|c| tools.get(c.server?)).copied().map(ContextSize::of).sum();
            let stay = all.iter().filter(here).filter_map(|c| {
                let why = left.iter().find(|(place, _)| Some(*place) == c.server)?.1.clone();
                Some((c.name.clone(), why))
            });
            client.skipped.extend(stay);
            if !has_servers && client.new_text().is_some() {
                client.change = Err("the workbench has no servers yet".to_owned());
            }
            client
        });
        let (new_secrets, secrets_text) = updated_secrets(&secrets, &config, known);
        Ok(Self {
            config_before,
            config,
            secrets: (secrets_path, secrets_before, secrets_text),
            new_secrets,
            proposed,
            added: planned.added,
            has_servers,
            remarks,
            rules: rule_lines,
            clients: clients.collect(),
            unreadable,
            shared,
            journal,
            target,
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.has_servers
            || self.added.is_empty()
                && self.config_before.as_ref().is_none_or(|before| *before == self.config)
                && self.clients.iter().all(|client| client.new_text().is_none())
                && !self.shared.as_ref().is_some_and(ServicePlan::is_new)
    }
}

/// Creates a missing folder and removes it when dropped, if it is still empty.
struct NewFolderGuard(Option<PathBuf>);

impl NewFolderGuard {
    fn make(folder: Option<&Path>) -> Self {
        let missing = folder.filter(|folder| !folder.exists());
        // If this fails, each server reports the missing folder.
        Self(missing.filter(|folder| make_private_folder(folder).is_ok()).map(Path::to_owned))
    }
}

impl Drop for NewFolderGuard {
    fn drop(&mut self) {
        if let Some(folder) = &self.0 {
            let _ = std::fs::remove_dir(folder);
        }
    }
}

/// Returns the configuration named by `--config`, or else the user configuration.
pub(super) fn target(global: &GlobalArgs, folder: &Path) -> Result<ConfigLocation, CommandError> {
    let target = match &global.config {
        Some(file) => config::locate(Some(file.clone()), &ProcessEnv, folder),
        None => config::user_file(&ProcessEnv).ok_or_else(|| {
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
    let parsed = config::parse(text, &target.display_path, folder, &ProcessEnv);
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

fn bytes(trial: &TrialRun) -> Vec<usize> {
    let tools = trial.tools.iter();
    tools.map(|tools| tools.iter().map(|tool| tool.raw.len()).sum()).collect()
}

fn is_same(one: &CoveredServer, other: &CoveredServer) -> bool {
    one.file == other.file && one.name == other.name
}

/// Removes the servers that stay with their clients, among them those in `stay`.
fn split_skipped(
    gathered: ImportCandidates,
    trial: TrialRun,
    stay: &[(usize, String)],
) -> (ImportCandidates, TrialRun, Vec<(usize, String)>) {
    let reasons = gathered.servers().iter().zip(&trial.outcomes).map(skip_reason);
    let left: Vec<(usize, String)> = reasons
        .enumerate()
        .filter_map(|(index, why)| {
            let ruled = stay.iter().find(|(other, _)| *other == index);
            Some((index, ruled.map(|(_, why)| why.clone()).or(why)?))
        })
        .collect();
    let places: Vec<usize> = left.iter().map(|(place, _)| *place).collect();
    let TrialRun { outcomes, tools, texts } = trial;
    let stays = |place: &usize| places.contains(place);
    let outcomes = outcomes.into_iter().enumerate().filter(|(place, _)| !stays(place));
    let tools = tools.into_iter().enumerate().filter(|(place, _)| !stays(place));
    let texts = texts.into_iter().enumerate().filter(|(place, _)| !stays(place));
    let trial = TrialRun {
        outcomes: outcomes.map(|(_, outcome)| outcome).collect(),
        tools: tools.map(|(_, tools)| tools).collect(),
        texts: texts.map(|(_, texts)| texts).collect(),
    };
    (gathered.exclude(&places), trial, left)
}

/// Returns why a server stays with its client: it might not work when the workbench starts it.
fn skip_reason((server, outcome): (&CandidateServer, &TrialOutcome)) -> Option<String> {
    let is_relative = |word: &String| {
        matches!(word.as_str(), "." | "..") || word.starts_with("./") || word.starts_with("../")
    };
    let has_folder = || server.block.get("cwd").and_then(Value::as_str).is_some_and(is_absolute);
    match outcome {
        TrialOutcome::Failed { reason, .. } => {
            // The captured stderr lines don't fit here.
            let reason = strip_stderr_tail(reason).lines().next().unwrap_or_default();
            Some(format!("failed to start: {reason}"))
        }
        TrialOutcome::NotStarted => Some("not started".to_owned()),
        TrialOutcome::Started if server.command_line.iter().any(is_relative) && !has_folder() => {
            Some("depends on the client's working folder".to_owned())
        }
        // The workbench needs the same sign-in as the client; a remark explains how.
        TrialOutcome::Started | TrialOutcome::WantsSignIn => None,
    }
}

/// Returns the servers that differ from an earlier one only in options, such as a time zone. A task
/// couldn't tell the two apart, so the later one stays with its client.
fn other_options(gathered: &ImportCandidates, trial: &TrialRun) -> Vec<(usize, String)> {
    let tools = |index: usize| -> Vec<&str> {
        trial.tools.get(index).into_iter().flatten().map(|tool| &*tool.name).collect()
    };
    let servers = gathered.servers();
    let is_variant = |(one, other): (usize, usize)| {
        let (Some(own), Some(first)) = (servers.get(one), servers.get(other)) else { return false };
        let (words, others) = (&own.command_line, &first.command_line);
        let mut different = words.iter().filter(|word| !others.contains(word));
        let mut missing = others.iter().filter(|word| !words.contains(word));
        words.first() == others.first()
            && own.block.get("env") == first.block.get("env")
            && own.block.get("cwd") == first.block.get("cwd")
            && !tools(one).is_empty()
            && tools(one) == tools(other)
            && !different.any(|word| is_location(word))
            && !missing.any(|word| is_location(word))
    };
    let later = (0..servers.len()).filter_map(|one| {
        let other = (0..one).find(|other| is_variant((one, *other)))?;
        let name = servers.get(other).map_or("", |server| &server.name);
        Some((one, format!("differs from `{name}` only in its options")))
    });
    later.collect()
}

fn is_absolute(folder: &str) -> bool {
    Path::new(folder).is_absolute()
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

struct EntryBuilder<'a> {
    program: String,
    config: &'a Path,
    shared: Option<&'a ServicePlan>,
    /// Variables that the configuration takes from the environment.
    variables: Vec<String>,
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

/// Returns the set variables that the configuration refers to and that the secrets file doesn't
/// have. Clients give every server the common ones, such as `HOME`.
fn environment_variables(
    config: &str,
    env: &dyn EnvSource,
    is_stored: impl Fn(&str) -> bool,
) -> Vec<String> {
    const EVERYWHERE: [&str; 4] = ["HOME", "PATH", "USER", "USERPROFILE"];
    let names = config::variable_names(config)
        .into_iter()
        .filter(|name| !EVERYWHERE.contains(name) && !is_stored(name) && env.get(name).is_some());
    let names: BTreeSet<&str> = names.collect();
    names.into_iter().map(str::to_owned).collect()
}

struct ClientPlanner<'a> {
    carried: &'a [CoveredServer],
    foreign: &'a [(String, String)],
    /// The ID of each client with a rule that the configuration lacks, and the reason.
    missing: &'a [(&'static str, String)],
    journal: &'a Journal,
}

impl ClientPlanner<'_> {
    fn client(&self, file: ClientFile, entries: &EntryBuilder<'_>) -> ClientPlan {
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
        let stuck = change.iter().flat_map(|changed| &changed.unremovable);
        let stuck = stuck.map(|name| {
            (name.clone(), "cannot be removed without changing other parts of the file".to_owned())
        });
        let unruled = missing.filter(|_| ours.is_some());
        let unruled = unruled.map(|why| ("workbench".to_owned(), why.clone()));
        let left = stuck.chain(unruled).collect();
        ClientPlan { file, change, entry, skipped: left, size: ContextSize::default() }
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

/// Returns the program that clients start: its name on the search path, which survives updates, or
/// else its own path.
fn program() -> String {
    let own = current_program().and_then(|path| path.canonicalize().ok());
    let path = ProcessEnv.get("PATH").unwrap_or_default();
    let name = format!("{}{}", crate::cli::PROGRAM_NAME, std::env::consts::EXE_SUFFIX);
    let on_path = std::env::split_paths(&path).map(|folder| folder.join(&name)).find(|file| {
        file.is_absolute() && file.canonicalize().is_ok_and(|file| Some(&file) == own.as_ref())
    });
    let program = on_path.or(own);
    program.map_or_else(|| crate::cli::PROGRAM_NAME.to_owned(), |path| path.display().to_string())
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
