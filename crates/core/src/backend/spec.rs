//! The facts that a backend is made of: how its server is reached, and what it is told.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use url::Url;

use crate::backend::whose::Shown;
use crate::backend::{Account, ChildEnvironment, ClientAbilities, StartFailure, Whose};
use crate::login::SignIn;
use crate::observe::Secrets;
use crate::settings::{HttpLaunch, HttpTransport, Launch, Protocol, ServerConfig, StdioLaunch};
use crate::wire::remote::{Credentials, StaticHeaders};

/// The facts that one backend is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// Names it in logs and messages: `server` in the toolbox that asked first.
    pub label: String,
    /// Its name in messages to agents.
    pub server: String,
    /// How it is reached.
    pub reach: Reach,
    /// The environment of whom it is started for, of which a child process gets a part.
    pub environment: Arc<ChildEnvironment>,
    /// Which revisions it is spoken to in.
    pub protocol: Protocol,
    /// The abilities that it is told its client has, without roots where it may not know them.
    pub abilities: ClientAbilities,
    /// How long it may take from its start to its tool list.
    pub startup_timeout: Duration,
    /// How long it may be unused before it is stopped.
    pub idle_timeout: Option<Duration>,
    /// The longest message it may send, in bytes.
    pub max_message_bytes: usize,
}

impl Spec {
    /// The secrets that its process is given.
    pub(crate) fn secrets(&self) -> Secrets {
        let Reach::Stdio(launch) = &self.reach else { return Secrets::default() };
        let environment = self.environment.for_launch(launch);
        let inherited = environment.filter_map(|(key, value)| key.to_str().zip(value.to_str()));
        Secrets::of_environment(inherited).and_of_launch(launch)
    }

    /// Returns which revisions it is spoken to in; those with HTTP and SSE are all of one era.
    pub(crate) fn spoken(&self) -> Protocol {
        match &self.reach {
            Reach::Http(remote) if remote.transport == HttpTransport::Sse => Protocol::Legacy,
            Reach::Http(_) | Reach::Stdio(_) => self.protocol,
        }
    }

    /// The toolbox that asked first.
    pub(crate) fn toolbox(&self) -> &str {
        let toolbox = self.label.strip_suffix(self.server.as_str());
        toolbox.and_then(|toolbox| toolbox.strip_suffix('/')).unwrap_or_default()
    }

    /// Returns `true` if a server of the one is as good as one of the other. Names and time limits
    /// make no difference, nor do variables that the server does not get.
    pub fn is_same_server(&self, other: &Self) -> bool {
        let made_of = |spec: &Self| (spec.protocol, spec.abilities);
        made_of(self) == made_of(other) && self.reach == other.reach && self.inherits_as(other)
    }

    /// Returns `true` if this server gets the same of its environment as one that is reached in the
    /// same way.
    fn inherits_as(&self, other: &Self) -> bool {
        match &self.reach {
            Reach::Http(_) => true,
            Reach::Stdio(launch) => {
                let (one, other) = (&self.environment, &other.environment);
                Arc::ptr_eq(one, other) || one.for_launch(launch).eq(other.for_launch(launch))
            }
        }
    }
}

/// How a server is reached.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Reach {
    /// As a child process of ours.
    Stdio(StdioLaunch),
    /// Over HTTP.
    Http(Remote),
}

/// A server over HTTP: where it is, and as whom it is used. Those of one address and account are the
/// same, whatever proves the account at the time.
#[derive(Clone)]
pub struct Remote {
    /// Its one address, `http` or `https`.
    pub url: Url,
    /// How messages are carried there.
    pub transport: HttpTransport,
    /// The account it is used with.
    pub account: Account,
    /// The proof of that.
    pub credentials: Arc<dyn Credentials>,
    /// The login there, where one signs in.
    pub login: Option<Arc<SignIn>>,
}

impl Remote {
    /// The server of an entry of this name, with what is shown to it.
    fn of(server: &str, launch: &HttpLaunch, whose: &Whose) -> Self {
        let (url, transport) = (launch.url.clone(), launch.transport);
        let headers = StaticHeaders::new(launch.headers.iter().cloned().collect());
        let mut account = Account::of_headers(server, &launch.headers);
        let place = whose.place(server, launch);
        if let Some(place) = &place {
            account = account.signed_in_at(place.clone());
        }
        let login = place.and_then(|place| whose.login(place));
        let credentials: Arc<dyn Credentials> = match &login {
            Some(login) => Arc::new(Shown { headers, login: Arc::clone(login) }),
            None => Arc::new(headers),
        };
        Self { url, transport, account, credentials, login }
    }
}

impl PartialEq for Remote {
    fn eq(&self, other: &Self) -> bool {
        (&self.url, self.transport, &self.account) == (&other.url, other.transport, &other.account)
    }
}

impl Eq for Remote {}

impl Hash for Remote {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.url, self.transport, &self.account).hash(state);
    }
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The address may hold a password.
        let host = self.url.host_str();
        f.debug_struct("Remote")
            .field("host", &host)
            .field("account", &self.account)
            .finish_non_exhaustive()
    }
}

impl Reach {
    /// How the server of this entry is reached, with this login where it wants one; or why it cannot
    /// be.
    pub fn of(server: &ServerConfig, whose: &Whose) -> Result<Self, StartFailure> {
        match &server.launch {
            Launch::Stdio(launch) => Ok(Self::Stdio(launch.clone())),
            Launch::Http(launch) => Ok(Self::Http(Remote::of(server.name.as_str(), launch, whose))),
            Launch::Unsupported { reason, hint } | Launch::Broken { reason, hint } => {
                Err(StartFailure::new(reason.clone(), hint.clone()))
            }
            Launch::Macros(_) => Err(StartFailure::new("it is no server", "call its tools")),
        }
    }

    /// The login there, where one signs in.
    pub(crate) fn login(&self) -> Option<&Arc<SignIn>> {
        match self {
            Self::Stdio(_) => None,
            Self::Http(remote) => remote.login.as_ref(),
        }
    }
}
