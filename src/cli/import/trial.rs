//! Starting servers once, to see what their tools do: some at a time, and never for longer than
//! their configuration gives them.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::authoring::import::{Gathered, Outcome};
use crate::catalog::ToolDefinition;
use crate::cli::error::Error;
use crate::cli::hidden::hide;
use crate::cli::secrets::Variables;
use crate::cli::servers::{self, Start};
use crate::cli::{Global, catalog, with_gateway, without_rules};
use crate::config::env::{EnvSource, ProcessEnv};
use crate::config::{self, Location, Severity};
use crate::gateway::{FailedServer, Gateway};
use crate::name::ServerRef;
use crate::settings::{Config, Launch};

/// The outcome of starting servers, for each of them.
#[derive(Debug)]
pub(in crate::cli) struct Trial {
    pub(in crate::cli) outcomes: Vec<Outcome>,
    /// The tools that they list.
    pub(in crate::cli) tools: Vec<Vec<Arc<ToolDefinition>>>,
}

impl Trial {
    /// The outcome for so many servers when none was started.
    pub(super) fn none(servers: usize) -> Self {
        Self { outcomes: vec![Outcome::NotStarted; servers], tools: vec![Vec::new(); servers] }
    }
}

/// Starts the servers that were gathered for a configuration at `target`, with `secrets` in place of
/// the variables that were made of them; not those that are switched off or of a file that is
/// `unasked` for.
pub(in crate::cli) fn run(
    global: &Global,
    gathered: &Gathered,
    target: &Location,
    (secrets, unasked): (&Variables, &HashSet<String>),
) -> Result<Trial, Error> {
    let folder = target.path.parent().unwrap_or(Path::new("/"));
    let secrets = secrets.values().map(|(name, value)| (name.to_owned(), value.to_owned()));
    let environment = WithSecrets(secrets.collect());
    let mut trial = Trial::none(gathered.servers().len());
    let mut servers = Vec::new();
    let mut whole: Option<Config> = None;
    for (index, server) in gathered.servers().iter().enumerate() {
        if server.is_off || unasked.contains(&server.file) {
            continue;
        }
        match configuration(gathered, index, folder, &environment) {
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
    hide(&whole);
    let came =
        with_gateway(global, without_rules(whole), async |gateway| start(gateway, servers).await)?;
    for (index, outcome, tools) in came {
        trial.outcomes[index] = outcome;
        trial.tools[index] = tools;
    }
    Ok(trial)
}

/// A configuration that has this server alone, and where it is in there.
fn configuration(
    gathered: &Gathered,
    index: usize,
    folder: &Path,
    environment: &WithSecrets,
) -> Result<(ServerRef, Config), Outcome> {
    let failed = |reason: &str, hint: &str| Outcome::Failed {
        reason: reason.to_owned(),
        hint: hint.to_owned(),
    };
    let text = gathered.trial(index).unwrap_or_default();
    let loaded = config::parse(&text, Path::new("workbench-config.json"), folder, environment);
    let config = match loaded {
        Ok(loaded) => loaded.config,
        Err(report) => {
            let mut errors = report.findings.iter();
            let error = errors.find(|finding| finding.severity == Severity::Error);
            let error = error.or(report.findings.first());
            let (reason, hint) = error.map_or(("its block cannot be used", None), |finding| {
                (finding.message.as_str(), finding.hint.as_deref())
            });
            return Err(failed(reason, hint.unwrap_or("correct its block")));
        }
    };
    let server = config.toolboxes.first().and_then(|toolbox| {
        let server = toolbox.servers.first()?;
        let server_ref = ServerRef { toolbox: toolbox.name.clone(), server: server.name.clone() };
        Some((server_ref, &server.launch))
    });
    match server {
        None => Err(failed("its block cannot be used", "correct its block")),
        Some((_, Launch::Unsupported { reason, hint } | Launch::Broken { reason, hint })) => {
            Err(failed(reason, hint))
        }
        Some((server_ref, _)) => Ok((server_ref, config)),
    }
}

type Came = (usize, Outcome, Vec<Arc<ToolDefinition>>);

/// Starts all servers of a gateway, each alone in its toolbox, and ends each when its tools are known.
async fn start(gateway: &Gateway, servers: Vec<(usize, ServerRef)>) -> Vec<Came> {
    let toolboxes: Vec<_> = gateway.config().toolboxes.iter().collect();
    let starts = servers::start(gateway, &toolboxes, |_| true).await;
    let snapshot = gateway.snapshot();
    let came = starts.into_iter().filter_map(|Start { toolbox, server, failure, .. }| {
        let server_ref = ServerRef { toolbox, server };
        let (index, _) = servers.iter().find(|(_, other)| *other == server_ref)?;
        let outcome = match failure {
            None => Outcome::Started,
            Some(failure) if failure.wants_sign_in => Outcome::WantsSignIn,
            Some(FailedServer { reason, hint, .. }) => Outcome::Failed { reason, hint },
        };
        Some((*index, outcome, catalog::tools(&snapshot, &server_ref)))
    });
    came.collect()
}

/// The process's environment with what was secret in servers' blocks.
#[derive(Debug)]
struct WithSecrets(BTreeMap<String, String>);

impl EnvSource for WithSecrets {
    fn get(&self, name: &str) -> Option<String> {
        self.0.get(name).cloned().or_else(|| ProcessEnv.get(name))
    }

    fn vars(&self) -> Vec<(OsString, OsString)> {
        ProcessEnv.vars()
    }

    fn home(&self) -> Option<PathBuf> {
        ProcessEnv.home()
    }

    fn cache(&self) -> Option<PathBuf> {
        ProcessEnv.cache()
    }
}
