//! The service in a setup: one workbench that all clients of the machine share.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};

use crate::authoring::service::tokens::{has_tls, with_tokens};
use crate::authoring::service::{self as authored, Manager, Service, VERSION};
use crate::authoring::setup::journal::{Managed, digest};
use crate::cli::connect::own_variables;
use crate::cli::error::Error;
use crate::cli::service::{self, manage};
use crate::cli::setup::clients;
use crate::cli::token;
use crate::config;
use crate::config::env::{EnvSource, ProcessEnv};
use crate::os::{self, Platform};

/// The service as it is going to be.
pub(super) struct Shared {
    pub(super) service: Service,
    /// The files that it has beside the configuration.
    pub(super) files: Vec<Written>,
    /// The file that its manager reads.
    pub(super) definition: Option<PathBuf>,
    /// Variables that each client has for itself.
    pub(super) variables: Vec<String>,
}

/// A file of ours.
pub(super) struct Written {
    pub(super) path: PathBuf,
    pub(super) before: Option<String>,
    pub(super) text: String,
}

impl Shared {
    /// Plans the service of a configuration for these clients, with what is known of an earlier one.
    /// `text` is what the configuration will say.
    pub(super) fn make(
        config: &Path,
        text: &str,
        program: String,
        clients: &[&str],
    ) -> Result<Self, Error> {
        let earlier = service::read(config)?;
        let mut tokens = earlier.as_ref().map(|own| own.tokens.clone()).unwrap_or_default();
        for client in clients {
            if !tokens.contains_key(*client) {
                tokens.insert((*client).to_owned(), token::make()?);
            }
        }
        let known = earlier.map(|own| (own.manager, own.address, own.name));
        let (manager, address, name) = if let Some(known) = known {
            known
        } else {
            let manager = manager();
            (manager, free_address()?, name(manager, config))
        };
        let service = Service {
            version: VERSION,
            address,
            tls: has_tls(text),
            program,
            manager,
            name,
            tokens,
        };
        let mut files = Vec::new();
        let text = serde_json::to_string_pretty(&service).map_err(Error::internal)?;
        files.push(written(authored::file(config), format!("{text}\n"))?);
        let home = ProcessEnv.home().unwrap_or_default();
        let own = ProcessEnv.configuration().unwrap_or_default();
        let definition = service.definition_file(&home, &own);
        let path = ProcessEnv.get("PATH").unwrap_or_default();
        if let (Some(file), Some(text)) = (&definition, service.definition(config, &path)) {
            files.push(written(file.clone(), text)?);
        }
        Ok(Self { service, files, definition, variables: Vec::new() })
    }

    /// The text of the configuration with the tokens of the service.
    pub(super) fn in_config(&mut self, config: &Path, text: &str) -> Result<String, Error> {
        self.variables = own_variables(config, text, &ProcessEnv);
        with_tokens(text, self.service.tokens.iter()).map_err(|why| {
            Error::wrong("the configuration cannot have tokens for a service").because(&why)
        })
    }

    /// Returns `true` if clients may be given its address: it runs before they come, and what their
    /// servers get of the environment is the same for all.
    pub(super) fn has_address(&self) -> bool {
        self.service.manager != Manager::Nobody && self.variables.is_empty()
    }

    /// Returns `true` if any of its files is to be written.
    pub(super) fn is_new(&self) -> bool {
        self.files.iter().any(|file| file.before.as_deref() != Some(&file.text))
    }

    pub(super) fn managed(&self) -> Managed {
        let Service { manager, name, address, .. } = &self.service;
        Managed { manager: *manager, name: name.clone(), address: *address }
    }

    /// Has it run, if somebody starts it, and returns once it answers.
    pub(super) fn enable(&self, global: &crate::cli::Global, config: &Path) -> Result<(), String> {
        let Some(file) = &self.definition else { return Ok(()) };
        let runs = service::processes(global, self.service.address).unwrap_or_default();
        for words in self.service.enabling(file) {
            manage(&words)?;
        }
        // One that runs already learns of new tokens.
        runs.into_iter().try_for_each(|process| {
            os::ask_to_reload(process).map_err(|error| error.to_string())
        })?;
        let answer = crate::cli::block_on(service::revive(&self.service, config));
        answer.map_err(Error::cause)?
    }
}

fn written(path: PathBuf, text: String) -> Result<Written, Error> {
    let before = clients::read(&path)
        .map_err(|why| Error::wrong(format!("cannot read `{}`", path.display())).because(&why))?;
    Ok(Written { path, before, text })
}

/// The manager of services that answers here.
fn manager() -> Manager {
    let answers = |words: &[&str]| {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        manage(&words).is_ok()
    };
    match Platform::THIS {
        Platform::Linux if answers(&["systemctl", "--user", "show-environment"]) => {
            Manager::Systemd
        }
        Platform::MacOs if answers(&["launchctl", "print", &domain()]) => Manager::Launchd,
        Platform::Windows if answers(&["schtasks", "/query", "/fo", "list"]) => Manager::Tasks,
        Platform::Linux | Platform::MacOs | Platform::Windows => Manager::Nobody,
    }
}

/// The domain of launchd that a user's agents run in.
fn domain() -> String {
    format!("gui/{}", os::user().map_or(0, |(user, _)| user))
}

/// The name of the service of a configuration; that of the user's own is the plain one.
fn name(manager: Manager, config: &Path) -> String {
    let own = config::user_file(&ProcessEnv).is_some_and(|own| own.path == config);
    let mark = digest(&config.display().to_string());
    let mark = mark.get(..8).unwrap_or_default();
    let mark = if own { String::new() } else { format!("-{mark}") };
    match manager {
        Manager::Systemd => format!("mcp-workbench{mark}.service"),
        Manager::Launchd => format!("{}/mcp-workbench{mark}", domain()),
        Manager::Tasks => format!("MCP Workbench{mark}"),
        Manager::Nobody => format!("mcp-workbench{mark}"),
    }
}

/// An address of this machine that nobody listens at now, which the service keeps.
fn free_address() -> Result<SocketAddr, Error> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(Error::internal)?;
    listener.local_addr().map_err(Error::internal)
}

/// The tokens of a service, for the entries of clients.
pub(super) fn token_of<'a>(tokens: &'a BTreeMap<String, String>, client: &str) -> &'a str {
    tokens.get(client).map_or("", String::as_str)
}
