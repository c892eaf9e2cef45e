//! The specification of a backend: transport, environment, capabilities and limits.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use url::Url;

use crate::backend::login_scope::LoginCredentials;
use crate::backend::{Account, ChildEnvironment, ClientCapabilities, LoginScope, StartError};
use crate::telemetry::Redactor;
use mcp_workbench_login::OAuthLogin;
use mcp_workbench_settings::{
    HttpLaunch, HttpTransport, Launch, LockedPackage, Protocol, ServerConfig, ServerLimits,
    StdioLaunch,
};
use mcp_workbench_wire::http_client::{Credentials, StaticHeaders};

const NO_CALLER_TOKEN: &str = "this caller has no token to exchange for one of the server (`auth`)";
const NEEDS_CALLER_TOKEN: &str = "use the workbench over HTTP (`serve --http`), with a JWT that `auth.jwt` accepts and \
                                  that has a `sub` claim";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendSpec {
    /// Name in logs and messages: `toolbox/server`, with the toolbox that used it first.
    pub label: String,
    pub server: String,
    pub reach: ServerTransport,
    /// The client's environment. A child process gets a part of it.
    pub environment: Arc<ChildEnvironment>,
    pub protocol: Protocol,
    /// Capabilities sent to the server, without roots if it may not know them.
    pub capabilities: ClientCapabilities,
    /// Maximum time from start to tool list.
    pub startup_timeout: Duration,
    /// Time after which an unused server is stopped; `None` keeps it running.
    pub idle_timeout: Option<Duration>,
    pub max_message_bytes: usize,
    pub quotas: ServerLimits,
    /// The package in the lockfile, if it is compared.
    pub reviewed: Option<ReviewedPackage>,
}

/// The package that a server ran from when its definitions were reviewed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReviewedPackage {
    pub package: LockedPackage,
    /// `true` if other files of the same version must not run.
    pub is_enforced: bool,
    /// The command that records the package of today.
    pub accept_command: String,
}

impl BackendSpec {
    /// Secrets that the process gets, for redaction.
    pub(crate) fn secrets(&self) -> Redactor {
        let ServerTransport::Stdio(launch) = &self.reach else { return Redactor::default() };
        let environment = self.environment.for_launch(launch);
        let inherited = environment.filter_map(|(key, value)| key.to_str().zip(value.to_str()));
        Redactor::from_environment(inherited).with_launch(launch)
    }

    /// Returns the protocol to use. HTTP with SSE is always legacy.
    pub(crate) fn spoken(&self) -> Protocol {
        match &self.reach {
            ServerTransport::Http(remote)
                if remote.transport == HttpTransport::Sse
                    && !matches!(self.protocol, Protocol::Pinned(_)) =>
            {
                Protocol::Legacy
            }
            ServerTransport::Http(_) | ServerTransport::Stdio(_) => self.protocol,
        }
    }

    /// Returns the toolbox that used the server first, from its label.
    pub(crate) fn toolbox(&self) -> &str {
        let toolbox = self.label.strip_suffix(self.server.as_str());
        toolbox.and_then(|toolbox| toolbox.strip_suffix('/')).unwrap_or_default()
    }

    /// Returns `true` if both specs can share a process. Names, timeouts and variables that the
    /// server doesn't get are ignored.
    pub fn is_same_server(&self, other: &Self) -> bool {
        let made_of = |spec: &Self| (spec.protocol, spec.capabilities);
        // Another policy must not use a process that this one would not start.
        let is_reviewed_alike = self.reviewed == other.reviewed;
        made_of(self) == made_of(other)
            && is_reviewed_alike
            && self.reach == other.reach
            && self.inherits_as(other)
    }

    fn inherits_as(&self, other: &Self) -> bool {
        match &self.reach {
            ServerTransport::Http(_) => true,
            ServerTransport::Stdio(launch) => {
                let (one, other) = (&self.environment, &other.environment);
                Arc::ptr_eq(one, other) || one.for_launch(launch).eq(other.for_launch(launch))
            }
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ServerTransport {
    Stdio(StdioLaunch),
    Http(HttpEndpoint),
}

/// URL and account of an HTTP server. Equality ignores the credentials.
#[derive(Clone)]
pub struct HttpEndpoint {
    pub url: Url,
    pub transport: HttpTransport,
    pub account: Account,
    pub credentials: Arc<dyn Credentials>,
    /// `None` if the server needs no sign-in.
    pub login: Option<Arc<OAuthLogin>>,
}

impl HttpEndpoint {
    fn of(server: &str, launch: &HttpLaunch, scope: &LoginScope) -> Self {
        let (url, transport) = (launch.url.clone(), launch.transport);
        let headers = StaticHeaders::new(launch.headers.iter().cloned().collect());
        let mut account = Account::from_headers(server, &launch.headers);
        let target = scope.place(server, launch);
        if let Some(target) = &target {
            account = account.with_login(target.clone());
        }
        let login = target.and_then(|target| scope.login(target));
        let credentials: Arc<dyn Credentials> = match &login {
            Some(login) => Arc::new(LoginCredentials { headers, login: Arc::clone(login) }),
            None => Arc::new(headers),
        };
        Self { url, transport, account, credentials, login }
    }
}

impl PartialEq for HttpEndpoint {
    fn eq(&self, other: &Self) -> bool {
        (&self.url, self.transport, &self.account) == (&other.url, other.transport, &other.account)
    }
}

impl Eq for HttpEndpoint {}

impl Hash for HttpEndpoint {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.url, self.transport, &self.account).hash(state);
    }
}

impl fmt::Debug for HttpEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The URL may contain a password.
        let host = self.url.host_str();
        f.debug_struct("HttpEndpoint")
            .field("host", &host)
            .field("account", &self.account)
            .finish_non_exhaustive()
    }
}

impl ServerTransport {
    /// Returns the transport of a configured server, with a login in this scope if it needs one.
    /// Fails if the entry is broken or unsupported.
    pub fn from_config(server: &ServerConfig, scope: &LoginScope) -> Result<Self, StartError> {
        match &server.launch {
            Launch::Stdio(launch) => Ok(Self::Stdio(launch.clone())),
            Launch::Http(launch) => {
                let endpoint = HttpEndpoint::of(server.name.as_str(), launch, scope);
                // Without a token, the server would mistake the caller for another one.
                if launch.oauth.exchange().is_some() && endpoint.login.is_none() {
                    return Err(StartError::new(NO_CALLER_TOKEN, NEEDS_CALLER_TOKEN));
                }
                Ok(Self::Http(endpoint))
            }
            Launch::Unsupported { reason, hint } | Launch::Broken { reason, hint } => {
                Err(StartError::new(reason.clone(), hint.clone()))
            }
            Launch::Macros(_) => {
                Err(StartError::new("macros have no server to start", "call them as tools"))
            }
        }
    }

    pub(crate) fn login(&self) -> Option<&Arc<OAuthLogin>> {
        match self {
            Self::Stdio(_) => None,
            Self::Http(remote) => remote.login.as_ref(),
        }
    }
}
