//! The options that every command has, and what they lead to: configuration, caller and cache.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use tracing_subscriber::filter::LevelFilter;

use crate::app;
use crate::backend::Store;
use crate::cli::error::Error;
use crate::cli::hidden::hide;
use crate::cli::keyring::Keyring;
use crate::cli::values::{self, Everything, Kept, Looking, Needed};
use crate::cli::{EMBEDDED_CONFIG, print};
use crate::config::env::{EnvSource, ProcessEnv};
use crate::config::values::{Unasked, ValueSource};
use crate::config::{self, LoadError, Loaded, Location};
use crate::gateway::Caller;
use crate::login::{Chosen, Keep};
use crate::name::{self, AgentName, PROGRAM};
use crate::observe::running::Files;
use crate::os;
use crate::settings::{PolicyConfig, ServerConfig, ToolMode, ToolboxConfig};

/// The options that every command has.
#[derive(Clone, Debug, Args)]
pub(super) struct Global {
    #[arg(
        help = "Configuration file [env: WORKBENCH_CONFIG]",
        long,
        short,
        global = true,
        value_name = "FILE",
        help_heading = "Global options"
    )]
    pub(super) config: Option<PathBuf>,
    #[arg(
        help = "Mode, in place of the file's [env: WORKBENCH_MODE]",
        long,
        global = true,
        hide_short_help = true,
        env = "WORKBENCH_MODE",
        hide_env = true,
        value_name = "MODE",
        value_parser = tool_mode(),
        help_heading = "Global options"
    )]
    pub(super) mode: Option<ToolMode>,
    #[arg(
        help = "Agent to serve [env: MCP_WORKBENCH_AGENT]",
        long,
        global = true,
        env = "MCP_WORKBENCH_AGENT",
        hide_env = true,
        value_name = "NAME",
        help_heading = "Global options"
    )]
    pub(super) agent: Option<String>,
    #[arg(
        help = "Log: off, error, warn, info, debug or trace [env: WORKBENCH_LOG_LEVEL]",
        long,
        global = true,
        hide_short_help = true,
        env = "WORKBENCH_LOG_LEVEL",
        hide_env = true,
        value_name = "LEVEL",
        help_heading = "Global options"
    )]
    pub(super) log_level: Option<LevelFilter>,
    #[arg(
        help = "Where the log goes [env: WORKBENCH_LOG_FILE] [default: standard error]",
        long,
        global = true,
        hide_short_help = true,
        env = "WORKBENCH_LOG_FILE",
        hide_env = true,
        value_name = "FILE",
        help_heading = "Global options"
    )]
    pub(super) log_file: Option<PathBuf>,
    #[arg(
        help = "Kept listings [env: MCP_WORKBENCH_CACHE] [default: the user's cache]",
        long,
        global = true,
        hide_short_help = true,
        value_name = "FOLDER",
        help_heading = "Global options"
    )]
    pub(super) cache_dir: Option<PathBuf>,
    /// Use the configuration that the executable carries
    #[arg(long, global = true, hide = true, conflicts_with = "config")]
    pub(super) embedded_config: bool,
}

impl Global {
    /// Loads the configuration, and prints what is doubtful in it.
    pub(super) fn load(&self) -> Result<Loaded, Error> {
        noted(self.read()?)
    }

    /// Loads the configuration to start all of its servers, and prints what is doubtful in it.
    pub(super) fn load_to_start(&self) -> Result<Loaded, Error> {
        noted(self.read_to_start(|_, _| true)?)
    }

    /// Loads the configuration, with the mode that the command line wants. Nobody is asked for values
    /// that it refers to.
    pub(super) fn read(&self) -> Result<Result<Loaded, LoadError>, Error> {
        self.read_with(&Looking)
    }

    /// Loads the configuration to start the servers for which `starts` holds, with the values that they
    /// need.
    pub(super) fn read_to_start(
        &self,
        starts: impl Fn(&ToolboxConfig, &ServerConfig) -> bool,
    ) -> Result<Result<Loaded, LoadError>, Error> {
        let looked = self.read()?;
        let needed = looked.as_ref().map(|loaded| values::needed(loaded, starts));
        match needed {
            Ok(needed) if !needed.is_empty() => self.read_with(&Needed(needed)),
            Ok(_) | Err(_) => Ok(looked),
        }
    }

    /// Loads the configuration, with the values that it refers to from `source`.
    pub(super) fn read_with(
        &self,
        source: &dyn ValueSource,
    ) -> Result<Result<Loaded, LoadError>, Error> {
        let folder = std::env::current_dir().map_err(Error::internal)?;
        let loaded = if self.embedded_config {
            let file = PathBuf::from("the embedded configuration");
            config::parse(EMBEDDED_CONFIG, &file, &folder, &ProcessEnv).map_err(LoadError::Invalid)
        } else {
            let location = config::find(self.config.clone(), &ProcessEnv, &folder);
            config::load(&location, &ProcessEnv, source)
        };
        let loaded = loaded.map(|loaded| as_run(loaded, self.mode, &folder));
        if let Ok(loaded) = &loaded {
            hide(&loaded.config);
        }
        if let (Some(agent), Ok(loaded)) = (self.caller().agent, &loaded) {
            refuse_stranger(&agent, &loaded.config.policy)?;
        }
        Ok(loaded)
    }

    /// Loads the configuration to start all of its servers, whatever the lock beside it says.
    pub(super) fn read_unlocked(&self) -> Result<Result<Loaded, LoadError>, Error> {
        let folder = std::env::current_dir().map_err(Error::internal)?;
        let location = config::find(self.config.clone(), &ProcessEnv, &folder);
        let loaded = config::load_unlocked(&location, &ProcessEnv, &Everything);
        if let Ok(loaded) = &loaded {
            hide(&loaded.config);
        }
        Ok(loaded)
    }

    /// Loads the configuration with variables from elsewhere; nobody is asked for values.
    pub(super) fn read_in(&self, env: &dyn EnvSource) -> Result<Result<Loaded, LoadError>, Error> {
        let folder = std::env::current_dir().map_err(Error::internal)?;
        let location = config::find(self.config.clone(), &ProcessEnv, &folder);
        Ok(config::load_unlocked(&location, env, &Unasked))
    }

    /// Where the configuration is, unless it is the embedded one.
    pub(super) fn location(&self) -> Result<Option<Location>, Error> {
        let folder = std::env::current_dir().map_err(Error::internal)?;
        let find = || config::find(self.config.clone(), &ProcessEnv, &folder);
        Ok((!self.embedded_config).then(find))
    }

    /// The configuration file.
    pub(super) fn config_file(&self) -> Result<PathBuf, Error> {
        let folder = std::env::current_dir().map_err(Error::internal)?;
        Ok(config::find(self.config.clone(), &ProcessEnv, &folder).path)
    }

    /// Who is served.
    pub(super) fn caller(&self) -> Caller {
        let agent = self.agent.as_deref().map(str::trim).filter(|agent| !agent.is_empty());
        Caller { agent: agent.map(AgentName::new), toolbox: None }
    }

    /// The configuration file, unless it is the embedded one.
    pub(super) fn own_file(&self) -> Result<Option<PathBuf>, Error> {
        (!self.embedded_config).then(|| self.config_file()).transpose()
    }

    /// Where the configuration can be read again, with these values; the embedded one does not change.
    pub(super) fn source(&self, values: Arc<Kept>) -> Result<Option<app::Source>, Error> {
        if self.embedded_config {
            return Ok(None);
        }
        let folder = std::env::current_dir().map_err(Error::internal)?;
        let location = config::find(self.config.clone(), &ProcessEnv, &folder);
        let (file, mode) = (location.path.clone(), self.mode);
        let read = move |renewal| {
            let loaded = config::load(&location, &ProcessEnv, &values.asking(renewal))?;
            let loaded = as_run(loaded, mode, &folder);
            hide(&loaded.config);
            Ok(loaded)
        };
        Ok(Some(app::Source {
            file,
            read: Box::new(read),
            served: Box::new(|_| {}),
            difference: Box::new(|_, _| String::new()),
        }))
    }

    /// Where it is kept what servers list. What the embedded configuration has is nobody's.
    pub(super) fn store(&self) -> Option<Arc<Store>> {
        if self.embedded_config {
            return None;
        }
        Some(Arc::new(Store::new(&self.cache().ok()?)))
    }

    /// Where logins at servers are kept. At those of the embedded configuration nobody signs in.
    pub(super) fn logins(&self) -> Option<Keep> {
        Some(Keep::In(Arc::new(self.chosen()?)))
    }

    /// The store of logins, in files or in the keyring, as its user has chosen.
    pub(super) fn chosen(&self) -> Option<Chosen> {
        Some(Chosen::new(self.credentials()?, Keyring))
    }

    /// The folder of logins.
    pub(super) fn credentials(&self) -> Option<PathBuf> {
        if self.embedded_config {
            return None;
        }
        Some(ProcessEnv.state()?.join(PROGRAM).join("credentials"))
    }

    /// The folder with the homes of confined servers.
    pub(super) fn homes(&self) -> Option<PathBuf> {
        Some(self.cache().ok()?.join("homes"))
    }

    /// The folders where a process may have its socket for others of this user, the best first.
    pub(super) fn socket_folders(&self) -> Vec<PathBuf> {
        let runtime = ProcessEnv.get("XDG_RUNTIME_DIR").map(PathBuf::from);
        let runtime = runtime
            .filter(|folder| folder.is_absolute() && os::check_owner(folder).is_ok())
            .map(|folder| folder.join("mcp-workbench"));
        let own = self.cache().ok().map(|cache| Files::folder(&cache));
        // The path of a socket has room for a hundred bytes.
        let short = os::user().map(|(user, _)| format!("/tmp/mcp-workbench-{user}").into());
        [runtime, own, short].into_iter().flatten().collect()
    }

    /// The folder for what can be made again.
    pub(super) fn cache(&self) -> Result<PathBuf, Error> {
        let folder = std::env::current_dir().map_err(Error::internal)?;
        let cache = config::locate_cache(self.cache_dir.as_deref(), &ProcessEnv, &folder);
        cache.ok_or_else(|| {
            Error::wrong("there is no folder for what is kept")
                .hint("name one with `--cache-dir` or `MCP_WORKBENCH_CACHE`")
        })
    }
}

/// A configuration that can be used, after what is doubtful in it has been printed.
pub(super) fn noted(read: Result<Loaded, LoadError>) -> Result<Loaded, Error> {
    let loaded = read.map_err(Error::config)?;
    if let Some(report) = loaded.report() {
        print::note(&report);
    }
    Ok(loaded)
}

/// The configuration with the mode that the command line wants, if it wants one, and the folder that
/// we are in.
pub(super) fn as_run(mut loaded: Loaded, mode: Option<ToolMode>, folder: &Path) -> Loaded {
    loaded.config.mode = mode.unwrap_or(loaded.config.mode);
    loaded.config.policy.working_directory = Some(folder.to_owned());
    loaded
}

/// Refuses an agent of whom the rules do not say what it may use.
fn refuse_stranger(agent: &AgentName, rules: &PolicyConfig) -> Result<(), Error> {
    if rules.knows(agent) {
        return Ok(());
    }
    let known = rules.agents.keys().map(AgentName::as_str);
    let near = name::nearest(agent.as_str(), known, 1).pop();
    let hint = near.map_or_else(
        || {
            "write it under `agentPolicies`, or a `defaultPolicy`, which says what other agents may \
             use"
            .to_owned()
        },
        |near| format!("did you mean `{near}`? A `defaultPolicy` says what other agents may use"),
    );
    let problem = format!("there is no agent `{agent}` in `agentPolicies`, so it may use nothing");
    Err(Error::wrong(problem).hint(hint))
}

/// Reads the name of a mode.
fn tool_mode() -> impl TypedValueParser<Value = ToolMode> {
    let words = PossibleValuesParser::new(ToolMode::ALL.map(ToolMode::as_str));
    words.map(|word| ToolMode::from_word(&word).unwrap_or_default())
}
