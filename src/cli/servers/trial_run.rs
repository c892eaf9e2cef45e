//! Starts imported servers once to list their tools, within their configured timeouts.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::authoring::import::{CandidateServer, TrialOutcome};
use crate::cli::args::GlobalArgs;
use crate::cli::files::secret_variables::SecretVariables;
use crate::cli::gateways::{with_gateway, without_policy};
use crate::cli::output::{CommandError, register_secrets};
use crate::cli::servers::server_phrase::ServerTexts;
use crate::cli::servers::startup::listed_tools;
use crate::cli::servers::startup::{self, StartReport};
use mcp_workbench_config::env::{EnvSource, ProcessEnv};
use mcp_workbench_config::{ConfigLocation, Severity};
use mcp_workbench_core::catalog::ToolDefinition;
use mcp_workbench_core::gateway::{FailedServer, Gateway};
use mcp_workbench_names::ServerRef;
use mcp_workbench_settings::{Config, Launch};

/// Results by server, in the order of the servers.
#[derive(Debug)]
pub(crate) struct TrialRun {
    pub(crate) outcomes: Vec<TrialOutcome>,
    pub(crate) tools: Vec<Vec<Arc<ToolDefinition>>>,
    /// The texts of the servers that started about themselves.
    pub(crate) texts: Vec<ServerTexts>,
}

impl TrialRun {
    pub(crate) fn skipped(servers: usize) -> Self {
        Self {
            outcomes: vec![TrialOutcome::NotStarted; servers],
            tools: vec![Vec::new(); servers],
            texts: vec![ServerTexts::default(); servers],
        }
    }
}

/// Starts the servers for a configuration at `target`, with `secrets` as values of the variables
/// that replaced them. Skips disabled servers and those from untrusted files.
pub(crate) fn run(
    global: &GlobalArgs,
    tried: &[CandidateServer],
    target: &ConfigLocation,
    (secrets, unasked): (&SecretVariables, &HashSet<String>),
) -> Result<TrialRun, CommandError> {
    let folder = target.path.parent().unwrap_or(Path::new("/"));
    let secrets = secrets.values().map(|(name, value)| (name.to_owned(), value.to_owned()));
    let environment = SecretsEnv(secrets.collect());
    let mut trial = TrialRun::skipped(tried.len());
    let mut servers = Vec::new();
    let mut whole: Option<Config> = None;
    for (index, server) in tried.iter().enumerate() {
        if server.is_disabled || unasked.contains(&server.file) {
            continue;
        }
        match configuration(server, folder, &environment) {
            Ok((server, config)) => {
                servers.push((index, server));
                match &mut whole {
                    Some(whole) => whole.toolboxes.extend(config.toolboxes),
                    None => whole = Some(config),
                }
            }
            Err(outcome) => trial.outcomes[index] = outcome,
        }
    }
    let Some(whole) = whole else { return Ok(trial) };
    register_secrets(&whole);
    let came =
        with_gateway(global, without_policy(whole), async |gateway| start(gateway, servers).await);
    let came = came.map_err(|error| error.with_hint("nothing was changed"))?;
    for (index, outcome, tools, texts) in came {
        trial.outcomes[index] = outcome;
        trial.tools[index] = tools;
        trial.texts[index] = texts;
    }
    Ok(trial)
}

/// Returns a configuration with only this server, and the server's place in it.
fn configuration(
    server: &CandidateServer,
    folder: &Path,
    environment: &SecretsEnv,
) -> Result<(ServerRef, Config), TrialOutcome> {
    let failed = |reason: &str, hint: &str| TrialOutcome::Failed {
        reason: reason.to_owned(),
        hint: hint.to_owned(),
    };
    if let Some(reason) = &server.needs.value {
        return Err(failed(reason, "write the value itself"));
    }
    let text = server.trial_config();
    let loaded =
        mcp_workbench_config::parse(&text, Path::new("workbench-config.json"), folder, environment);
    let config = match loaded {
        Ok(loaded) => loaded.config,
        Err(report) => {
            let mut errors = report.findings.iter();
            let error = errors.find(|finding| finding.severity == Severity::Error);
            let error = error.or(report.findings.first());
            let (reason, hint) = error.map_or(("its entry is invalid", None), |finding| {
                (finding.message.as_str(), finding.hint.as_deref())
            });
            return Err(failed(reason, hint.unwrap_or("correct the entry")));
        }
    };
    let server = config.toolboxes.first().and_then(|toolbox| {
        let server = toolbox.servers.first()?;
        let server_ref = ServerRef { toolbox: toolbox.name.clone(), server: server.name.clone() };
        Some((server_ref, &server.launch))
    });
    match server {
        None => Err(failed("its entry is invalid", "correct the entry")),
        Some((_, Launch::Unsupported { reason, hint } | Launch::Broken { reason, hint })) => {
            Err(failed(reason, hint))
        }
        Some((server_ref, _)) => Ok((server_ref, config)),
    }
}

type ServerTrial = (usize, TrialOutcome, Vec<Arc<ToolDefinition>>, ServerTexts);

async fn start(gateway: &Gateway, servers: Vec<(usize, ServerRef)>) -> Vec<ServerTrial> {
    let started = start_all(gateway).await.into_iter();
    let trials = started.filter_map(|StartedServer { at, report, tools, texts }| {
        let (index, _) = servers.iter().find(|(_, other)| *other == at)?;
        let outcome = match report.failure {
            None => TrialOutcome::Started,
            Some(failure) if failure.wants_sign_in => TrialOutcome::WantsSignIn,
            Some(FailedServer { reason, hint, .. }) => TrialOutcome::Failed { reason, hint },
        };
        Some((*index, outcome, tools, texts))
    });
    trials.collect()
}

/// A server that was started once and is stopped again, or that failed to start.
pub(crate) struct StartedServer {
    pub(crate) at: ServerRef,
    pub(crate) report: StartReport,
    pub(crate) tools: Vec<Arc<ToolDefinition>>,
    /// The server's own description and instructions.
    pub(crate) texts: ServerTexts,
}

/// Starts every server of the gateway once.
pub(crate) async fn start_all(gateway: &Gateway) -> Vec<StartedServer> {
    let toolboxes: Vec<_> = gateway.config().toolboxes.iter().collect();
    let at = |report: &StartReport| ServerRef {
        toolbox: report.toolbox.clone(),
        server: report.server.clone(),
    };
    let mut texts = HashMap::new();
    let read_texts = |report: &StartReport| {
        let at = at(report);
        let instructions =
            gateway.snapshot().view(&at.toolbox).instructions_of(&at.server).map(str::to_owned);
        let info = gateway.servers().server_info(&at);
        texts.insert(at, ServerTexts { info, instructions });
    };
    let reports = startup::start_servers_with(gateway, &toolboxes, |_| true, read_texts).await;
    let snapshot = gateway.snapshot();
    let started = reports.into_iter().map(|report| {
        let at = at(&report);
        let tools = listed_tools(&snapshot, &at);
        let texts = texts.remove(&at).unwrap_or_default();
        StartedServer { at, report, tools, texts }
    });
    started.collect()
}

#[derive(Debug)]
struct SecretsEnv(BTreeMap<String, String>);

impl EnvSource for SecretsEnv {
    fn get(&self, name: &str) -> Option<String> {
        self.0.get(name).cloned().or_else(|| ProcessEnv.get(name))
    }

    fn vars(&self) -> Vec<(OsString, OsString)> {
        ProcessEnv.vars()
    }

    fn home_dir(&self) -> Option<PathBuf> {
        ProcessEnv.home_dir()
    }

    fn cache_dir(&self) -> Option<PathBuf> {
        ProcessEnv.cache_dir()
    }
}
