//! The global options, and the configuration, caller, cache and logins that they select.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use tracing_subscriber::filter::LevelFilter;

use crate::app;
use crate::cli::files::project_files::ProjectFiles;
use crate::cli::output::{CommandError, print, register_secrets};
use crate::cli::runtime::{EMBEDDED_CONFIG, current_folder};
use crate::cli::servers::system_keyring::SystemKeyring;
use crate::cli::servers::value_sources::{self, CheckOnly, FetchAll, FetchNeeded, ValueCache};
use mcp_workbench_config::env::{EnvSource, ProcessEnv};
use mcp_workbench_config::secret_values::{NoSecrets, SecretResolver};
use mcp_workbench_config::{ConfigLocation, ConfigOrigin, LoadError, LoadedConfig};
use mcp_workbench_core::backend::ListingStore;
use mcp_workbench_core::gateway::Caller;
use mcp_workbench_core::telemetry::process_registry::ProcessFiles;
use mcp_workbench_login::{LoginStorage, SwitchableStore};
use mcp_workbench_names::{AgentName, PROGRAM};
use mcp_workbench_settings::{PolicyConfig, ServerConfig, ToolMode, ToolboxConfig};

/// The options that every command has.
#[derive(Clone, Debug, Args)]
pub(crate) struct GlobalArgs {
    #[arg(
        help = "Configuration file [env: WORKBENCH_CONFIG]",
        long,
        short,
        global = true,
        value_name = "FILE",
        help_heading = "Global options"
    )]
    pub(crate) config: Option<PathBuf>,
    #[arg(
        help = "Override the configured mode [env: WORKBENCH_TOOL_MODE]",
        long = "tool-mode",
        global = true,
        hide_short_help = true,
        env = "WORKBENCH_TOOL_MODE",
        hide_env = true,
        value_name = "MODE",
        value_parser = tool_mode(),
        help_heading = "Global options"
    )]
    pub(crate) mode: Option<ToolMode>,
    #[arg(
        help = "Act as this agent [env: WORKBENCH_AGENT]",
        long,
        global = true,
        env = "WORKBENCH_AGENT",
        hide_env = true,
        value_name = "NAME",
        help_heading = "Global options"
    )]
    pub(crate) agent: Option<String>,
    /// `true` if `agent` comes from the command line and not from the environment.
    #[arg(skip)]
    pub(crate) has_agent_flag: bool,
    #[arg(
        help = "Log level: off, error, warn, info, debug or trace\n[env: WORKBENCH_LOG_LEVEL]",
        long,
        global = true,
        hide_short_help = true,
        env = "WORKBENCH_LOG_LEVEL",
        hide_env = true,
        value_name = "LEVEL",
        help_heading = "Global options"
    )]
    pub(crate) log_level: Option<LevelFilter>,
    #[arg(
        help = "Write the log to this file [env: WORKBENCH_LOG_FILE] [default: stderr]",
        long,
        global = true,
        hide_short_help = true,
        env = "WORKBENCH_LOG_FILE",
        hide_env = true,
        value_name = "FILE",
        help_heading = "Global options"
    )]
    pub(crate) log_file: Option<PathBuf>,
    #[arg(
        help = "Cache directory for tool lists [env: WORKBENCH_CACHE_DIR]",
        long,
        global = true,
        hide_short_help = true,
        value_name = "DIR",
        help_heading = "Global options"
    )]
    pub(crate) cache_dir: Option<PathBuf>,
    #[arg(
        help = "Folder of the project, e.g. for clients that start the workbench elsewhere\n\
                [default: the current folder]",
        long,
        global = true,
        hide_short_help = true,
        value_name = "DIR",
        conflicts_with = "no_project",
        help_heading = "Global options"
    )]
    pub(crate) project: Option<PathBuf>,
    #[arg(
        help = "Ignore the project file `.mcp-workbench.json`",
        long,
        global = true,
        hide_short_help = true,
        help_heading = "Global options"
    )]
    pub(crate) no_project: bool,
    /// Use the embedded configuration
    #[arg(long, global = true, hide = true, conflicts_with = "config")]
    pub(crate) embedded_config: bool,
}

impl GlobalArgs {
    /// Loads the configuration and prints its warnings.
    pub(crate) fn load(&self) -> Result<LoadedConfig, CommandError> {
        print_warnings(self.try_read()?)
    }

    pub(crate) fn load_for_start(&self) -> Result<LoadedConfig, CommandError> {
        print_warnings(self.try_read_for_start(|_, _| true)?)
    }

    /// Loads the configuration with the mode of the command line. Runs no commands for values.
    pub(crate) fn read(&self) -> Result<LoadedConfig, CommandError> {
        self.try_read()?.map_err(CommandError::config)
    }

    /// Like [`Self::read`], with the values needed by the servers that `starts` selects.
    pub(crate) fn read_for_start(
        &self,
        starts: impl Fn(&ToolboxConfig, &ServerConfig) -> bool,
    ) -> Result<LoadedConfig, CommandError> {
        self.try_read_for_start(starts)?.map_err(CommandError::config)
    }

    /// Like [`Self::read`], for commands that go on without a usable configuration.
    pub(crate) fn try_read(&self) -> Result<Result<LoadedConfig, LoadError>, CommandError> {
        self.read_with_values(&CheckOnly)
    }

    pub(crate) fn try_read_for_start(
        &self,
        starts: impl Fn(&ToolboxConfig, &ServerConfig) -> bool,
    ) -> Result<Result<LoadedConfig, LoadError>, CommandError> {
        let looked = self.try_read()?;
        let needed = looked.as_ref().map(|loaded| value_sources::needed_values(loaded, starts));
        match needed {
            Ok(needed) if !needed.is_empty() => self.read_with_values(&FetchNeeded(needed)),
            Ok(_) | Err(_) => Ok(looked),
        }
    }

    pub(crate) fn read_with_values(
        &self,
        source: &dyn SecretResolver,
    ) -> Result<Result<LoadedConfig, LoadError>, CommandError> {
        let folder = current_folder()?;
        let loaded = if self.embedded_config {
            let file = PathBuf::from("the embedded configuration");
            mcp_workbench_config::parse(EMBEDDED_CONFIG, &file, &folder, &ProcessEnv)
                .map_err(LoadError::Invalid)
        } else {
            let location =
                mcp_workbench_config::discover(self.config.clone(), &ProcessEnv, &folder);
            let projects = self.project_files()?;
            load_with_projects(&location, projects.as_ref(), source)
        };
        let loaded = loaded.map(|loaded| with_run_context(loaded, self.mode, &folder));
        if let Ok(loaded) = &loaded {
            register_secrets(&loaded.config);
        }
        let Some(agent) = self.caller().agent else { return Ok(loaded) };
        loaded
            .map(|loaded| {
                reject_unknown_agent(&agent, &loaded.config.policy)?;
                warn_of_misspelled_agent(&agent, &loaded.config.policy);
                Ok(loaded)
            })
            .map_or_else(|error| Ok(Err(error)), |loaded| loaded.map(Ok))
    }

    /// Loads the configuration to start all servers, without comparing it with the lock file.
    pub(crate) fn read_unlocked(&self) -> Result<Result<LoadedConfig, LoadError>, CommandError> {
        let folder = current_folder()?;
        let location = mcp_workbench_config::discover(self.config.clone(), &ProcessEnv, &folder);
        let loaded = mcp_workbench_config::load_without_lockfile(&location, &ProcessEnv, &FetchAll);
        if let Ok(loaded) = &loaded {
            register_secrets(&loaded.config);
        }
        Ok(loaded)
    }

    /// Loads the configuration with `env` as its environment, without a lock file or secret values.
    pub(crate) fn read_with_env(
        &self,
        env: &dyn EnvSource,
    ) -> Result<Result<LoadedConfig, LoadError>, CommandError> {
        let folder = current_folder()?;
        let location = mcp_workbench_config::discover(self.config.clone(), &ProcessEnv, &folder);
        Ok(mcp_workbench_config::load_without_lockfile(&location, env, &NoSecrets))
    }

    /// Location of the configuration; `None` for the embedded one.
    pub(crate) fn location(&self) -> Result<Option<ConfigLocation>, CommandError> {
        let folder = current_folder()?;
        let find = || mcp_workbench_config::discover(self.config.clone(), &ProcessEnv, &folder);
        Ok((!self.embedded_config).then(find))
    }

    /// Returns the project files of `--project` or the current folder; `None` with `--no-project`
    /// and for the embedded configuration.
    pub(crate) fn project_files(&self) -> Result<Option<ProjectFiles>, CommandError> {
        if self.no_project || self.embedded_config {
            return Ok(None);
        }
        let folder = match &self.project {
            None => current_folder()?,
            Some(folder) if folder.is_dir() => folder.clone(),
            Some(folder) => {
                let message = format!("`--project`: no folder `{}`", folder.display());
                let hint = "if the client should have replaced a variable such as \
                            `${workspaceFolder}`, remove the option";
                return Err(CommandError::usage(message).with_hint(hint));
            }
        };
        Ok(Some(ProjectFiles::around(&folder, &ProcessEnv)))
    }

    /// Returns these options for `serve --http`: the working folder of a shared server isn't a
    /// project, unless `--project` names it.
    pub(crate) fn for_serving(&self, is_http: bool) -> Self {
        Self { no_project: self.no_project || (is_http && self.project.is_none()), ..self.clone() }
    }

    pub(crate) fn config_file(&self) -> Result<PathBuf, CommandError> {
        let folder = current_folder()?;
        Ok(mcp_workbench_config::discover(self.config.clone(), &ProcessEnv, &folder).path)
    }

    pub(crate) fn caller(&self) -> Caller {
        let agent = self.agent.as_deref().map(str::trim).filter(|agent| !agent.is_empty());
        Caller { agent: agent.map(AgentName::new), ..Caller::default() }
    }

    /// The configuration file or catalog folder; `None` for the embedded configuration.
    pub(crate) fn source_file(&self) -> Result<Option<PathBuf>, CommandError> {
        (!self.embedded_config).then(|| self.config_file()).transpose()
    }

    /// Returns the reload source; `None` for the embedded configuration, which never changes.
    pub(crate) fn config_source(
        &self,
        values: Arc<ValueCache>,
    ) -> Result<Option<app::ReloadSource>, CommandError> {
        if self.embedded_config {
            return Ok(None);
        }
        let folder = current_folder()?;
        let location = mcp_workbench_config::discover(self.config.clone(), &ProcessEnv, &folder);
        let (file, mode) = (location.path.clone(), self.mode);
        let projects = self.project_files()?;
        let project_files = projects.iter().flat_map(ProjectFiles::candidates).collect();
        let read = move |renewal| {
            let loaded = load_with_projects(&location, projects.as_ref(), &values.source(renewal))?;
            let loaded = with_run_context(loaded, mode, &folder);
            register_secrets(&loaded.config);
            Ok(loaded)
        };
        Ok(Some(app::ReloadSource {
            file,
            project_files,
            load: Box::new(read),
            on_applied: Box::new(|_| {}),
            describe_diff: Box::new(|_, _| String::new()),
        }))
    }

    /// The listing cache; `None` for the embedded configuration, whose listings aren't cached.
    pub(crate) fn store(&self) -> Option<Arc<ListingStore>> {
        if self.embedded_config {
            return None;
        }
        Some(Arc::new(ListingStore::new(&self.resolve_cache_dir().ok()?)))
    }

    pub(crate) fn login_keep(&self) -> Option<LoginStorage> {
        Some(LoginStorage::Custom(Arc::new(self.login_store()?)))
    }

    /// The login store, in files or in the keyring, as the user chose.
    pub(crate) fn login_store(&self) -> Option<SwitchableStore> {
        Some(SwitchableStore::new(self.credentials()?, SystemKeyring))
    }

    /// Folder of login files; `None` for the embedded configuration.
    pub(crate) fn credentials(&self) -> Option<PathBuf> {
        if self.embedded_config {
            return None;
        }
        Some(ProcessEnv.state_dir()?.join(PROGRAM).join("credentials"))
    }

    /// Parent folder of the home folders of sandboxed servers.
    pub(crate) fn homes(&self) -> Option<PathBuf> {
        Some(self.resolve_cache_dir().ok()?.join("homes"))
    }

    /// The folder for records of cached packages.
    pub(crate) fn direct_records(&self) -> Option<PathBuf> {
        Some(self.resolve_cache_dir().ok()?.join("direct"))
    }

    /// Candidate folders for the admin socket, best first.
    pub(crate) fn socket_folders(&self) -> Vec<PathBuf> {
        let runtime = ProcessEnv.get("XDG_RUNTIME_DIR").map(PathBuf::from);
        let runtime = runtime
            .filter(|folder| {
                folder.is_absolute() && mcp_workbench_os::check_private_dir(folder).is_ok()
            })
            .map(|folder| folder.join("mcp-workbench"));
        let own = self.resolve_cache_dir().ok().map(|cache| ProcessFiles::folder(&cache));
        // Socket paths are limited to about 100 bytes, and the folders above may be too long.
        let short =
            mcp_workbench_os::user().map(|(user, _)| format!("/tmp/mcp-workbench-{user}").into());
        [runtime, own, short].into_iter().flatten().collect()
    }

    /// The cache folder. Its content can be recreated.
    pub(crate) fn resolve_cache_dir(&self) -> Result<PathBuf, CommandError> {
        let folder = current_folder()?;
        let cache =
            mcp_workbench_config::locate_cache(self.cache_dir.as_deref(), &ProcessEnv, &folder);
        cache.ok_or_else(|| {
            CommandError::usage("cannot locate the cache directory")
                .with_hint("set `--cache-dir` or `WORKBENCH_CACHE_DIR`")
        })
    }
}

/// Loads a configuration and lays project files over it. A project file also works without a
/// configuration, unless that was named.
fn load_with_projects(
    location: &ConfigLocation,
    projects: Option<&ProjectFiles>,
    source: &dyn SecretResolver,
) -> Result<LoadedConfig, LoadError> {
    let loaded = mcp_workbench_config::load(location, &ProcessEnv, source);
    let Some(projects) = projects else { return loaded };
    let loaded = match loaded {
        Err(LoadError::Missing(missing)) if missing.chosen_by == ConfigOrigin::Default => {
            let Some((path, _)) = projects.current()? else {
                return Err(LoadError::Missing(missing));
            };
            let folder = location.path.parent().unwrap_or(Path::new("/"));
            let empty = r#"{"toolboxes": {}}"#;
            let loaded = mcp_workbench_config::parse(empty, &path, folder, &ProcessEnv);
            LoadedConfig { findings: Vec::new(), ..loaded.map_err(LoadError::Invalid)? }
        }
        loaded => loaded?,
    };
    projects.lay_over(loaded)
}

pub(crate) fn print_warnings(
    read: Result<LoadedConfig, LoadError>,
) -> Result<LoadedConfig, CommandError> {
    let loaded = read.map_err(CommandError::config)?;
    if let Some(report) = loaded.report() {
        print::note(&report);
    }
    Ok(loaded)
}

/// Sets the mode from the command line, if given, and the working folder.
pub(crate) fn with_run_context(
    mut loaded: LoadedConfig,
    mode: Option<ToolMode>,
    folder: &Path,
) -> LoadedConfig {
    loaded.config.mode = mode.unwrap_or(loaded.config.mode);
    loaded.config.policy.working_directory = Some(folder.to_owned());
    loaded
}

fn reject_unknown_agent(agent: &AgentName, rules: &PolicyConfig) -> Result<(), CommandError> {
    if rules.knows(agent) {
        return Ok(());
    }
    let known = rules.agents.keys().map(AgentName::as_str);
    let near = mcp_workbench_names::nearest(agent.as_str(), known, 1).pop();
    let hint = near.map_or_else(
        || "add it to `agentPolicies`, or set a `defaultPolicy` for other agents".to_owned(),
        |near| format!("did you mean `{near}`? To allow other agents, set a `defaultPolicy`"),
    );
    let problem = format!("agent `{agent}` is not in `agentPolicies`, so it has no access");
    Err(CommandError::usage(problem).with_hint(hint))
}

/// Warns once about a name without a policy that resembles one with a policy: the agent gets the
/// default access instead.
pub(crate) fn warn_of_misspelled_agent(agent: &AgentName, rules: &PolicyConfig) {
    static WARNED: AtomicBool = AtomicBool::new(false);
    if rules.agents.contains_key(agent) {
        return;
    }
    let known = rules.agents.keys().map(AgentName::as_str);
    let Some(near) = mcp_workbench_names::nearest(agent.as_str(), known, 1).pop() else { return };
    // Commands read the configuration several times.
    if !WARNED.swap(true, Ordering::Relaxed) {
        print::note(&format!(
            "warning: agent `{agent}` has no policy, so the default rules apply; did you mean \
             `{near}`?"
        ));
    }
}

fn tool_mode() -> impl TypedValueParser<Value = ToolMode> {
    let words = PossibleValuesParser::new(ToolMode::ALL.map(ToolMode::as_str));
    words.map(|word| ToolMode::from_word(&word).unwrap_or_default())
}
