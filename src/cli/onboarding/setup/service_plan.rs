//! Plans the background service: one workbench that all clients of the machine share.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};

use crate::authoring::service::tokens::{add_tokens, has_tls};
use crate::authoring::service::{self as authored, ServiceManager, UserService, VERSION};
use crate::authoring::setup::journal::{ServiceRecord, sha256_hex};
use crate::cli::onboarding::setup::clients;
use crate::cli::output::{CommandError, print};
use crate::cli::servers::background_service::{self, client_variables, run_manager, words};
use crate::cli::tokens::generate_token;
use mcp_workbench_config::env::{EnvSource, ProcessEnv};
use mcp_workbench_os::{Platform, ProcessHandle};

/// The variables that say where the workbench keeps its files, and how it reaches servers.
const OWN_VARIABLES: [&str; 14] = [
    "XDG_CONFIG_HOME",
    "XDG_STATE_HOME",
    "XDG_CACHE_HOME",
    "WORKBENCH_CACHE_DIR",
    "HTTPS_PROXY",
    "https_proxy",
    "HTTP_PROXY",
    "http_proxy",
    "ALL_PROXY",
    "all_proxy",
    "NO_PROXY",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
];

pub(super) struct ServicePlan {
    pub(super) service: UserService,
    /// Its files, apart from the configuration.
    pub(super) files: Vec<PlannedFile>,
    /// The unit, property list or task that the service manager reads.
    pub(super) definition: Option<PathBuf>,
    /// Variables that differ between clients.
    pub(super) variables: Vec<String>,
}

pub(super) struct PlannedFile {
    pub(super) path: PathBuf,
    pub(super) before: Option<String>,
    pub(super) text: String,
}

impl ServicePlan {
    /// Plans the service for these clients and keeps the address and tokens of an earlier one.
    /// `text` is the new text of the configuration.
    pub(super) fn build(
        config: &Path,
        text: &str,
        program: String,
        clients: &[&str],
    ) -> Result<Self, CommandError> {
        let earlier = background_service::read(config)?;
        let mut tokens = earlier.as_ref().map(|own| own.tokens.clone()).unwrap_or_default();
        for client in clients {
            if !tokens.contains_key(*client) {
                tokens.insert((*client).to_owned(), generate_token()?);
            }
        }
        let known = earlier.map(|own| (own.manager, own.address, own.name));
        let (manager, address, name) = if let Some(known) = known {
            known
        } else {
            let manager = manager();
            (manager, free_address()?, name(manager, config))
        };
        let service = UserService {
            version: VERSION,
            address,
            tls: has_tls(text),
            program,
            manager,
            name,
            tokens,
        };
        let mut files = Vec::new();
        let text = print::pretty_json(&service)?;
        files.push(written(authored::service_path(config), format!("{text}\n"))?);
        let home = ProcessEnv.home_dir().unwrap_or_default();
        let own = ProcessEnv.config_dir().unwrap_or_default();
        let definition = service.definition_file(&home, &own);
        let environment = environment(&ProcessEnv);
        if let (Some(file), Some(text)) = (&definition, service.definition(config, &environment)) {
            files.push(written(file.clone(), text)?);
        }
        Ok(Self { service, files, definition, variables: Vec::new() })
    }

    pub(super) fn add_tokens(&mut self, config: &Path, text: &str) -> Result<String, CommandError> {
        self.variables = client_variables(config, text, &ProcessEnv);
        add_tokens(text, self.service.tokens.iter()).map_err(|why| {
            CommandError::usage("cannot add the service's tokens to the configuration")
                .with_cause(&why)
        })
    }

    /// Returns `true` if clients can connect by URL: the service runs before they start, and no
    /// variable differs between clients.
    pub(super) fn can_use_url(&self) -> bool {
        self.service.manager != ServiceManager::Unmanaged && self.variables.is_empty()
    }

    pub(super) fn is_new(&self) -> bool {
        self.files.iter().any(|file| file.before.as_deref() != Some(&file.text))
    }

    pub(super) fn managed(&self) -> ServiceRecord {
        let UserService { manager, name, address, .. } = &self.service;
        ServiceRecord { manager: *manager, name: name.clone(), address: *address }
    }

    /// Enables the service, if a service manager is available, and waits until it accepts
    /// connections.
    pub(super) fn enable(
        &self,
        global: &crate::cli::args::global::GlobalArgs,
        config: &Path,
    ) -> Result<(), String> {
        let Some(file) = &self.definition else { return Ok(()) };
        let runs = background_service::processes(global, self.service.address).unwrap_or_default();
        for words in self.service.enable_commands(file) {
            run_manager(&words)?;
        }
        // A running service must read the new tokens.
        background_service::signal(&runs, ProcessHandle::reload)?;
        let answer = crate::cli::runtime::block_on(background_service::ensure_running(
            &self.service,
            config,
        ));
        answer.map_err(CommandError::into_root_cause)?
    }
}

/// Returns the search path for the servers, and the variables for the workbench itself that are set
/// here: without them, the service would look for logins, and for the network, in other places.
fn environment(env: &dyn EnvSource) -> Vec<(String, String)> {
    let path = ("PATH".to_owned(), env.get("PATH").unwrap_or_default());
    let own = OWN_VARIABLES.into_iter().filter_map(|name| Some((name.to_owned(), env.get(name)?)));
    std::iter::once(path).chain(own.filter(|(_, value)| !value.is_empty())).collect()
}

fn written(path: PathBuf, text: String) -> Result<PlannedFile, CommandError> {
    let before = clients::read(&path).map_err(|why| {
        CommandError::usage(format!("cannot read `{}`", path.display())).with_cause(&why)
    })?;
    Ok(PlannedFile { path, before, text })
}

fn manager() -> ServiceManager {
    let answers = |line: &[&str]| run_manager(&words(line)).is_ok();
    match Platform::THIS {
        Platform::Linux if answers(&["systemctl", "--user", "show-environment"]) => {
            ServiceManager::Systemd
        }
        Platform::MacOs if answers(&["launchctl", "print", &domain()]) => ServiceManager::Launchd,
        Platform::Windows if answers(&["schtasks", "/query", "/fo", "list"]) => {
            ServiceManager::TaskScheduler
        }
        Platform::Linux | Platform::MacOs | Platform::Windows => ServiceManager::Unmanaged,
    }
}

/// The launchd domain of the user's agents.
fn domain() -> String {
    format!("gui/{}", mcp_workbench_os::user().map_or(0, |(user, _)| user))
}

/// The user configuration's service has a plain name, others get a hash of their path.
fn name(manager: ServiceManager, config: &Path) -> String {
    let own = mcp_workbench_config::user_file(&ProcessEnv).is_some_and(|own| own.path == config);
    let mark = sha256_hex(&config.display().to_string());
    let mark = mark.get(..8).unwrap_or_default();
    let mark = if own { String::new() } else { format!("-{mark}") };
    match manager {
        ServiceManager::Systemd => format!("mcp-workbench{mark}.service"),
        ServiceManager::Launchd => format!("{}/mcp-workbench{mark}", domain()),
        ServiceManager::TaskScheduler => format!("MCP Workbench{mark}"),
        ServiceManager::Unmanaged => format!("mcp-workbench{mark}"),
    }
}

/// Picks a free loopback port, which the service then keeps.
fn free_address() -> Result<SocketAddr, CommandError> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(CommandError::internal)?;
    listener.local_addr().map_err(CommandError::internal)
}

pub(super) fn token_of<'a>(tokens: &'a BTreeMap<String, String>, client: &str) -> &'a str {
    tokens.get(client).map_or("", String::as_str)
}
