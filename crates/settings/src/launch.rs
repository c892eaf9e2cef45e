//! How servers are started or reached.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;

use ::http::header::{HeaderName, HeaderValue};
use serde_json::{Value, json};
use url::Url;

use crate::{
    AccountScope, Confinement, Container, MacroConfig, OAuthConfig, ResourceIndicator, Sandbox,
    SecretRef,
};

/// How a server is started or reached.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::large_enum_variant, reason = "one per server")]
pub enum Launch {
    /// A child process that speaks MCP on stdin and stdout.
    Stdio(StdioLaunch),
    /// A running server, reached over HTTP.
    Http(HttpLaunch),
    /// A kind of server that a pasted entry can name but the program doesn't support. It never
    /// starts; opening its toolbox reports it like a server that failed.
    Unsupported {
        /// The part of the entry that isn't supported.
        reason: String,
        hint: String,
    },
    /// An invalid entry. It never starts; opening its toolbox reports it like a server that failed.
    Broken { reason: String, hint: String },
    /// The macros of a toolbox, under the server name [`MACROS`](crate::MACROS). No
    /// process is started, and the definitions are known in advance.
    Macros(Vec<MacroConfig>),
}

impl Launch {
    /// Returns `true` if the server gets tokens exchanged for those of callers.
    pub fn has_exchange(&self) -> bool {
        matches!(self, Self::Http(launch) if launch.oauth.exchange().is_some())
    }
}

/// The identity of a child process: servers with equal launches may share one.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct StdioLaunch {
    /// A name to look up in `PATH`, or a path.
    pub command: String,
    /// With variables expanded.
    pub args: Vec<String>,
    /// Variables in addition to the minimal environment of every child.
    pub env: BTreeMap<String, String>,
    /// The secret references behind variables in `env`. Their values are secret, even if the names
    /// don't suggest it.
    pub secret_refs: BTreeMap<String, SecretRef>,
    /// Absolute path of the working directory.
    pub cwd: PathBuf,
    /// `true` if the child inherits the workbench's environment.
    pub inherit_env: bool,
    /// Variables that are never inherited because they hold tokens of agents.
    pub withheld: BTreeSet<String>,
    /// `true` if the file sets the working directory, so that the program may write to it.
    pub has_own_folder: bool,
    /// The server's own sandbox; `None`: the default of the configuration.
    pub sandbox: Option<Sandbox>,
    /// `true` if a server of `npx` or `uvx` may start from the package manager's cache, without
    /// them.
    pub starts_directly: bool,
}

impl Launch {
    /// Returns the secret references that the server needs.
    pub fn references(&self) -> Vec<&SecretRef> {
        match self {
            Self::Stdio(launch) => launch.secret_refs.values().collect(),
            Self::Http(launch) => launch.referred.iter().map(|(_, reference)| reference).collect(),
            Self::Unsupported { .. } | Self::Broken { .. } | Self::Macros(_) => Vec::new(),
        }
    }

    /// Returns an encoding that distinguishes servers of the same name, for keys in the state
    /// store. It may contain secrets in `args` and `url`, so store only a hash of it. The values of
    /// variables and headers are left out.
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
    /// Returns a launch with the minimal environment and the default sandbox.
    pub fn new(command: String, args: Vec<String>, cwd: PathBuf) -> Self {
        Self {
            command,
            args,
            cwd,
            env: BTreeMap::new(),
            secret_refs: BTreeMap::new(),
            inherit_env: false,
            withheld: BTreeSet::new(),
            has_own_folder: false,
            sandbox: None,
            starts_directly: true,
        }
    }

    fn encoded(&self) -> Value {
        let sandbox = match &self.sandbox {
            None | Some(Sandbox::Off) => Value::Null,
            Some(Sandbox::Process(_)) => json!(["process"]),
            Some(Sandbox::Container(container)) => {
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

    /// Returns the permissions of a sandboxed process.
    pub fn confinement(&self) -> Option<&Confinement> {
        self.sandbox.as_ref()?.confinement()
    }

    pub fn container(&self) -> Option<&Container> {
        self.sandbox.as_ref()?.container()
    }
}

/// Prints only the names of variables: their values may be secret.
impl fmt::Debug for StdioLaunch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            command,
            args,
            env,
            secret_refs: referred,
            cwd,
            inherit_env,
            withheld,
            has_own_folder,
            sandbox,
            starts_directly,
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
            .field("starts_directly", starts_directly)
            .finish()
    }
}

/// Which transport to use for a server over HTTP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum HttpTransport {
    /// Streamable HTTP, with a fallback to HTTP with SSE if the server doesn't support it.
    #[default]
    Auto,
    /// HTTP with SSE (2024-11-05). The URL names the event stream.
    Sse,
}

/// The identity of a server over HTTP: equal launches may share a session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HttpLaunch {
    /// `http` or `https`.
    pub url: Url,
    pub transport: HttpTransport,
    /// Headers of every request, marked as sensitive.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// The secret references behind header values.
    pub referred: Vec<(HeaderName, SecretRef)>,
    /// Used if no configured header authenticates.
    pub oauth: OAuthConfig,
}

impl HttpLaunch {
    fn encoded(&self) -> Value {
        let transport = match self.transport {
            HttpTransport::Auto => "auto",
            HttpTransport::Sse => "sse",
        };
        let account = match self.oauth.account {
            AccountScope::Auto => "auto",
            AccountScope::Shared => "shared",
            AccountScope::Agent => "agent",
        };
        let headers: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        let mut encoded = vec![json!("http"), json!(self.url.as_str()), json!(transport)];
        encoded.extend([json!(headers), json!(self.oauth.client_id), json!(account)]);
        if let Some(exchange) = self.oauth.exchange() {
            let resource = match &self.oauth.resource {
                ResourceIndicator::Auto => "auto",
                ResourceIndicator::Off => "off",
                ResourceIndicator::Named(resource) => resource,
            };
            let (issuer, scopes) = (exchange.issuer.as_str(), &self.oauth.scopes);
            encoded.push(json!([issuer, exchange.audience, resource, scopes]));
        }
        Value::Array(encoded)
    }
}
