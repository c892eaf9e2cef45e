//! How a server is reached.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;

use ::http::header::{HeaderName, HeaderValue};
use serde_json::{Value, json};
use url::Url;

use crate::settings::{AccountOf, Confinement, Container, MacroConfig, OAuth, Reference, Sandbox};

/// How a server is reached.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::large_enum_variant, reason = "there is one for each server")]
pub enum Launch {
    /// A child process that speaks MCP on its standard input and output.
    Stdio(StdioLaunch),
    /// A server that is there already and is reached over HTTP.
    Http(HttpLaunch),
    /// A kind of server that a pasted block may name but that cannot be reached here. It never
    /// starts; opening its toolbox reports it like any server that failed.
    Unsupported {
        /// The part of the entry that cannot be honored.
        reason: String,
        /// The advice to the user.
        hint: String,
    },
    /// Something is wrong with its entry in the file. It never starts; opening its toolbox reports it
    /// like any server that failed.
    Broken {
        /// The problem.
        reason: String,
        /// The advice to the user.
        hint: String,
    },
    /// No server at all: macros, under the name [`MACROS`](crate::settings::MACROS). It is never started, and all that it
    /// has is known from the start.
    Macros(Vec<MacroConfig>),
}

/// Everything that decides what a child process is; equal launches may share a process.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct StdioLaunch {
    /// The program: a name to find on `PATH`, or a path.
    pub command: String,
    /// Its arguments, untouched but for variables.
    pub args: Vec<String>,
    /// Variables set for it beside the small environment every child gets.
    pub env: BTreeMap<String, String>,
    /// The variables in `env` whose values do not stand in the file, and where they do; such values
    /// are secret, whatever the variables are called.
    pub referred: BTreeMap<String, Reference>,
    /// The folder it starts in; absolute.
    pub cwd: PathBuf,
    /// `true` if it gets the whole environment of the workbench.
    pub inherit_env: bool,
    /// The variables that it does not get in any case, because they hold tokens of agents.
    pub withheld: BTreeSet<String>,
    /// `true` if the file names the folder, so that it is the program's own to write into.
    pub has_own_folder: bool,
    /// Its sandbox; `None`: that which the file has for all.
    pub sandbox: Option<Sandbox>,
}

impl Launch {
    /// The places of values that it needs and that do not stand in the file.
    pub fn references(&self) -> Vec<&Reference> {
        match self {
            Self::Stdio(launch) => launch.referred.values().collect(),
            Self::Http(launch) => launch.referred.iter().map(|(_, place)| place).collect(),
            Self::Unsupported { .. } | Self::Broken { .. } | Self::Macros(_) => Vec::new(),
        }
    }

    /// Returns an encoding that tells servers of one name apart, for keys in the state store. It may
    /// contain secrets in `args` and `url`, so store only a hash of it. The values of variables and headers
    /// are left out.
    pub fn encoded(&self) -> Value {
        match self {
            Self::Stdio(launch) => launch.encoded(),
            Self::Http(launch) => launch.encoded(),
            Self::Unsupported { .. } => json!(["unsupported"]),
            Self::Broken { .. } => json!(["broken"]),
            Self::Macros(macros) => {
                json!(["macros", macros.iter().map(|tool| &tool.name).collect::<Vec<_>>()])
            }
        }
    }
}

impl StdioLaunch {
    fn encoded(&self) -> Value {
        let sandbox = match &self.sandbox {
            None | Some(Sandbox::Off) => Value::Null,
            Some(Sandbox::On(_)) => json!(["process"]),
            Some(Sandbox::In(container)) => {
                json!(["container", container.image, container.engine])
            }
        };
        json!([
            "stdio",
            self.command,
            self.args,
            self.env.keys().collect::<Vec<_>>(),
            self.cwd.to_string_lossy(),
            self.inherit_env,
            sandbox,
        ])
    }

    /// Returns what it may reach, if it is confined.
    pub fn confinement(&self) -> Option<&Confinement> {
        self.sandbox.as_ref()?.confinement()
    }

    /// Returns the container that it is run in, if it is.
    pub fn container(&self) -> Option<&Container> {
        self.sandbox.as_ref()?.container()
    }
}

/// Values of variables may be secret.
impl fmt::Debug for StdioLaunch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            command,
            args,
            env,
            referred,
            cwd,
            inherit_env,
            withheld,
            has_own_folder,
            sandbox,
        } = self;
        let names: Vec<&String> = env.keys().collect();
        f.debug_struct("StdioLaunch")
            .field("command", command)
            .field("args", args)
            .field("env", &names)
            .field("referred", referred)
            .field("cwd", cwd)
            .field("inherit_env", inherit_env)
            .field("withheld", withheld)
            .field("has_own_folder", has_own_folder)
            .field("sandbox", sandbox)
            .finish()
    }
}

/// How messages are carried to a server over HTTP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum HttpTransport {
    /// By streamable HTTP, or by HTTP with SSE where the server knows nothing of that.
    #[default]
    Auto,
    /// By HTTP with SSE (2024-11-05), whose stream is at the address.
    Sse,
}

/// Everything that decides which server is spoken to over HTTP; equal ones may share a session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HttpLaunch {
    /// Its one address, `http` or `https`.
    pub url: Url,
    /// How messages are carried there.
    pub transport: HttpTransport,
    /// Headers of every request to it; marked as secret.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Where the values of headers stand that do not stand in the file.
    pub referred: Vec<(HeaderName, Reference)>,
    /// How one signs in there, where no header of the entry says who asks.
    pub oauth: OAuth,
}

impl HttpLaunch {
    fn encoded(&self) -> Value {
        let transport = match self.transport {
            HttpTransport::Auto => "auto",
            HttpTransport::Sse => "sse",
        };
        let account = match self.oauth.account {
            AccountOf::Auto => "auto",
            AccountOf::Shared => "shared",
            AccountOf::Agent => "agent",
        };
        let headers: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        json!(["http", self.url.as_str(), transport, headers, self.oauth.client_id, account])
    }
}
