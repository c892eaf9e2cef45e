//! Starts the servers of the clients once, and decides which stay with their client.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::authoring::import::{CandidateServer, CoveredServer, ImportCandidates, TrialOutcome};
use crate::cli::args::GlobalArgs;
use crate::cli::files::secret_variables::SecretVariables;
use crate::cli::onboarding::setup::client_rules::ClientRules;
use crate::cli::output::{CommandError, quote_for_shell};
use crate::cli::servers::trial_run::{self, TrialRun};
use mcp_workbench_config::ConfigLocation;
use mcp_workbench_core::backend::strip_stderr_tail;
use mcp_workbench_os::make_private_folder;

/// The servers of the clients, after a start of each.
pub(super) struct TriedServers {
    /// Without the servers that stay with their clients.
    pub(super) gathered: ImportCandidates,
    /// For the remaining candidates.
    pub(super) trial: TrialRun,
    /// The entries of all clients, except those for the workbench itself.
    pub(super) entries: Vec<TriedEntry>,
}

/// A server in a client's file.
pub(super) struct TriedEntry {
    pub(super) file: String,
    pub(super) name: String,
    /// The size of its tool definitions, in bytes.
    pub(super) size: usize,
    /// Why it stays with the client.
    pub(super) stays: Option<String>,
}

impl TriedServers {
    /// Starts the candidates, and the servers of the configuration that the clients have or that
    /// resemble a candidate. `added_with` is the command that adds a server to the configuration.
    pub(super) fn run(
        global: &GlobalArgs,
        gathered: ImportCandidates,
        (target, added_with): (&ConfigLocation, &str),
        secrets: &SecretVariables,
        rules: &ClientRules,
    ) -> Result<Self, CommandError> {
        let new = gathered.servers().len();
        let servers: Vec<CandidateServer> =
            gathered.servers().iter().chain(gathered.configured()).cloned().collect();
        // Servers start in the folder of the configuration, which may not exist yet.
        let _folder = NewFolderGuard::make(target.path.parent());
        let trial = trial_run::run(global, &servers, target, (secrets, &HashSet::new()))?;
        let ruled = rules.servers_that_stay(&gathered, &trial);
        let reason = |place: usize| {
            let (server, outcome) = (servers.get(place)?, trial.outcomes.get(place)?);
            let rule = ruled.iter().find(|(other, _)| *other == place);
            let rule = rule.map(|(_, why)| why.clone());
            let is_new = place < new;
            rule.or_else(|| variant_reason(place, new, (&servers, &trial)).filter(|_| is_new))
                .or_else(|| skip_reason(server, outcome, Some(added_with).filter(|_| is_new)))
        };
        let stays: Vec<Option<String>> = (0..servers.len()).map(reason).collect();
        let entry = |covered: CoveredServer| {
            let place = covered.server.or(covered.configured.map(|place| new + place));
            let tools = place.and_then(|place| trial.tools.get(place));
            TriedEntry {
                size: tools.into_iter().flatten().map(|tool| tool.raw.len()).sum(),
                stays: place.and_then(|place| stays.get(place)?.clone()),
                file: covered.file,
                name: covered.name,
            }
        };
        let entries = gathered.covered_servers().into_iter().map(entry);
        let left_out = gathered.left_out().iter().map(|server| TriedEntry {
            file: server.file.clone(),
            name: server.name.clone(),
            size: 0,
            stays: Some(server.reason.to_owned()),
        });
        let entries = entries.chain(left_out).collect();
        let is_kept = |place: &usize| stays.get(*place).is_some_and(Option::is_none);
        let stay_in = |places: std::ops::Range<usize>| -> Vec<usize> {
            let first = places.start;
            places.filter(|place| !is_kept(place)).map(|place| place - first).collect()
        };
        let gathered = gathered.exclude(&stay_in(0..new), &stay_in(new..servers.len()));
        Ok(Self { trial: select(trial, |place| *place < new && is_kept(place)), gathered, entries })
    }
}

/// Keeps the results of some servers.
fn select(trial: TrialRun, is_kept: impl Fn(&usize) -> bool) -> TrialRun {
    fn select<T>(all: Vec<T>, is_kept: &impl Fn(&usize) -> bool) -> Vec<T> {
        let all = all.into_iter().enumerate().filter(|(place, _)| is_kept(place));
        all.map(|(_, one)| one).collect()
    }
    let TrialRun { outcomes, tools, texts } = trial;
    TrialRun {
        outcomes: select(outcomes, &is_kept),
        tools: select(tools, &is_kept),
        texts: select(texts, &is_kept),
    }
}

/// Returns why a server stays with its client: it might not work when the workbench starts it.
/// `added_with` is the command that adds the server, unless the configuration has it.
fn skip_reason(
    server: &CandidateServer,
    outcome: &TrialOutcome,
    added_with: Option<&str>,
) -> Option<String> {
    let is_relative = |word: &String| {
        matches!(word.as_str(), "." | "..") || word.starts_with("./") || word.starts_with("../")
    };
    let is_absolute = |folder: &str| Path::new(folder).is_absolute();
    let has_folder = || server.block.get("cwd").and_then(Value::as_str).is_some_and(is_absolute);
    if server.needs.value.is_some() {
        return server.needs.value.clone();
    }
    if let (TrialOutcome::Failed { .. }, Some(id)) = (outcome, &server.needs.prompt) {
        return Some(format!("asks for `{id}` when it starts, which the workbench can't"));
    }
    match outcome {
        TrialOutcome::Failed { reason, .. } => {
            // The captured stderr lines don't fit here.
            let reason = strip_stderr_tail(reason).lines().next().unwrap_or_default();
            Some(format!("failed to start: {reason}"))
        }
        TrialOutcome::NotStarted if server.is_disabled => {
            Some("disabled in the configuration".to_owned())
        }
        TrialOutcome::NotStarted => Some("not started".to_owned()),
        TrialOutcome::WantsSignIn => Some(sign_in_reason(server, added_with)),
        TrialOutcome::Started if server.command_line.iter().any(is_relative) && !has_folder() => {
            Some("depends on the client's working folder".to_owned())
        }
        TrialOutcome::Started => None,
    }
}

/// The client's login cannot be moved, so the server stays until the workbench has its own.
fn sign_in_reason(server: &CandidateServer, added_with: Option<&str>) -> String {
    let name = quote_for_shell(&server.name);
    let url = server.command_line.first().map(String::as_str).unwrap_or_default();
    // Other keys, such as headers, are part of the entry that has to be added.
    let is_plain = server.block.keys().all(|key| matches!(key.as_str(), "url" | "description"))
        && !url.contains("${");
    let add = match added_with {
        None => String::new(),
        Some(add) if is_plain => format!("`{add} {name} {}`, ", quote_for_shell(url)),
        Some(add) => format!("`{add} {name} -` with its entry as JSON on stdin, "),
    };
    let then = if added_with.is_some() { "then " } else { "" };
    format!(
        "requires a sign-in, and the client's login cannot be moved. To move it, run {add}{then}\
         `mcp-workbench auth login {name}`, and setup again"
    )
}

/// Returns why the new server at `place` stays with its client if it differs only in options, such
/// as a time zone, from an earlier one or from one of the configuration, which follow the first
/// `new`. A task couldn't tell the two apart.
fn variant_reason(
    place: usize,
    new: usize,
    (servers, trial): (&[CandidateServer], &TrialRun),
) -> Option<String> {
    let tools = |place: usize| -> Vec<&str> {
        trial.tools.get(place).into_iter().flatten().map(|tool| &*tool.name).collect()
    };
    let (server, own) = (servers.get(place)?, tools(place));
    let is_variant = |other: &usize| {
        let others = tools(*other);
        let Some(there) = servers.get(*other) else { return false };
        // The clients can hide some of the tools.
        let is_limited = [server, there].iter().any(|one| one.block.contains_key("toolFilters"));
        let is_part = own.iter().all(|tool| others.contains(tool))
            || others.iter().all(|tool| own.contains(tool));
        !own.is_empty()
            && !others.is_empty()
            && (own == others || is_limited && is_part)
            && server.differs_only_in_options(there)
    };
    let other = (new..servers.len()).chain(0..place).find(is_variant)?;
    let name = servers.get(other).map_or("", |server| &server.name);
    Some(format!("differs from `{name}` only in its options"))
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
