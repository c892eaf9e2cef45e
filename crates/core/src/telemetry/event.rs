//! Typed events: everything that happens in a process and that listeners can observe.
//!
//! Each event is emitted in one place, to all listeners that want it (`EventListener`). Events
//! borrow their data and format nothing, so an event costs only the work of its listeners.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use crate::catalog::{DefinitionChange, DefinitionDrift, Listing};
use crate::name::{AgentName, ServerRef, ToolboxName};
use crate::telemetry::context::CallContext;
use crate::telemetry::llm_outcome::LlmOutcome;
use crate::telemetry::outcome::CallEnd;
use crate::telemetry::quota::{QuotaKind, QuotaOwner};

/// Definitions of a server that differ from `workbench.lock`.
#[derive(Clone, Copy)]
pub struct DriftEvent<'a> {
    pub server: &'a ServerRef,
    pub drift: &'a [DefinitionDrift],
    /// The configured action, such as `quarantine`.
    pub action: &'static str,
    /// The command that accepts the new definitions.
    pub accept_command: &'a str,
}

/// Something that happened here.
#[derive(Clone, Copy)]
pub enum Event<'a> {
    /// A call of a tool begins.
    CallBegan(&'a CallContext<'a>),
    /// It has ended, in whichever way.
    CallEnded(&'a CallContext<'a>, CallEnd),
    /// A request to a language model has ended, in whichever way.
    LlmRequestEnded(&'a LlmContext<'a>, LlmOutcome),
    /// A server begins to start.
    ServerStarting(&'a ServerContext),
    /// It is ready, with this listing.
    ServerStarted(&'a ServerContext, &'a Listing),
    /// It could not be started, for this reason.
    ServerFailed(&'a ServerContext, &'a str),
    /// It has ended by itself, of this.
    ServerDied(&'a ServerContext, &'a str),
    /// It runs as far as is known and cannot be reached over HTTP, for this reason; `None`: it can be
    /// again.
    ServerUnreachable(&'a ServerContext, Option<&'a str>),
    /// It was stopped.
    ServerStopped(&'a ServerContext, ServerStopReason),
    /// A server that runs has another listing than before.
    ListingChanged(&'a ServerContext, &'a Listing),
    /// Some of its definitions are not what they were.
    DefinitionsChanged(&'a ServerContext, &'a [DefinitionChange]),
    /// A server lists definitions that are not as the lock has them. It is told once for as long as nothing
    /// else differs.
    DefinitionsDrifted(DriftEvent<'a>),
    /// An agent has come that stays for a while.
    SessionOpened(&'a SessionContext),
    /// Its program has said what it is called.
    ClientIdentified(&'a SessionContext, &'a str),
    /// Its model has been spared so many tokens of definitions more than before; fewer where that is
    /// negative.
    TokensSaved(&'a SessionContext, i64),
    /// It has this toolbox open for the first time.
    ToolboxOpened(&'a SessionContext, &'a ToolboxName),
    /// Its session was begun by another replica and goes on here, where it was taken over so often in all.
    SessionAdopted(&'a SessionContext, u64),
    /// It has left.
    SessionClosed(&'a SessionContext),
    /// Sessions do not stay with one replica: the text says how that shows. It is told once a minute at
    /// most.
    SessionAffinityLost(&'a str),
    /// Somebody was not let in, who came from this address where one is known.
    AccessDenied(&'a AccessDenial, Option<IpAddr>),
    /// A caller wanted to hold more than it may.
    LimitReached(&'a LimitReached),
    /// A resource or a prompt was read, in whichever way that ended.
    ReadEnded(&'a ReadContext<'a>, CallEnd),
    /// A login at a server over HTTP has changed.
    SignIn(&'a SignInContext<'a>, SignInChange),
    /// Agents are served at this address.
    Serving(&'a str),
    /// Another configuration is served from now on.
    Reloaded {
        /// The toolboxes and sections that differ.
        changes: &'a str,
        /// The gains and losses of agents, if somebody records them.
        difference: &'a str,
    },
    /// The configuration that was read differs in this, and is not served until somebody asks for it.
    ReloadPending {
        /// The toolboxes and sections that differ.
        changes: &'a str,
        /// The gains and losses of agents, in a few lines.
        difference: &'a str,
    },
    /// The configuration was to be read again, and cannot be used for this reason.
    ReloadRefused(&'a dyn fmt::Display),
    /// Whoever connects from now on over TLS is shown these certificates.
    CertificateLoaded(&'a CertificateExpiry),
    /// Certificates were to be read again, and cannot be used for this reason.
    CertificateRefused(&'a dyn fmt::Display),
    /// The store that several workbenches share can be used from now on; with a reason, it cannot be.
    SharedStore(Option<&'a str>),
    /// That store was asked something, and has answered or not after so long.
    SharedStoreQueried(Duration),
}

/// When the TLS certificates expire, in seconds since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CertificateExpiry {
    /// The server certificate.
    pub cert: u64,
    /// The client CA that expires first; `None` without client certificates.
    pub client_ca: Option<u64>,
}

/// A set of event kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventKinds(u16);

impl EventKinds {
    pub const NONE: Self = Self(0);
    pub const CALLS_BEGUN: Self = Self(1);
    pub const CALLS_ENDED: Self = Self(1 << 1);
    /// The texts in call details, which are formatted only if a listener wants them.
    pub const CALL_TEXTS: Self = Self(1 << 2);
    pub const LLM_REQUESTS: Self = Self(1 << 3);
    /// Starts and ends of servers.
    pub const SERVERS: Self = Self(1 << 4);
    pub const LISTINGS: Self = Self(1 << 5);
    pub const SESSIONS: Self = Self(1 << 6);
    /// Denied requests and exceeded quotas.
    pub const DENIALS: Self = Self(1 << 7);
    /// The process as a whole: its addresses, configuration and certificates.
    pub const PROGRAM: Self = Self(1 << 8);
    /// Reads of resources and prompts.
    pub const READS: Self = Self(1 << 9);
    /// Logins at HTTP servers.
    pub const SIGN_INS: Self = Self(1 << 10);
    /// The store that several workbenches share.
    pub const SHARED_STORE: Self = Self(1 << 11);
    pub const ALL: Self = Self((1 << 12) - 1);

    /// Returns the kinds in either set.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns `true` if the sets have a kind in common.
    pub const fn intersects(self, any: Self) -> bool {
        self.0 & any.0 != 0
    }
}

impl Event<'_> {
    pub fn kind(&self) -> EventKinds {
        match self {
            Self::CallBegan(_) => EventKinds::CALLS_BEGUN,
            Self::CallEnded(..) => EventKinds::CALLS_ENDED,
            Self::LlmRequestEnded(..) => EventKinds::LLM_REQUESTS,
            Self::ServerStarting(_)
            | Self::ServerStarted(..)
            | Self::ServerFailed(..)
            | Self::ServerDied(..)
            | Self::ServerUnreachable(..)
            | Self::ServerStopped(..) => EventKinds::SERVERS,
            Self::ListingChanged(..)
            | Self::DefinitionsChanged(..)
            | Self::DefinitionsDrifted(..) => EventKinds::LISTINGS,
            Self::SessionOpened(_)
            | Self::ClientIdentified(..)
            | Self::TokensSaved(..)
            | Self::ToolboxOpened(..)
            | Self::SessionAdopted(..)
            | Self::SessionClosed(_) => EventKinds::SESSIONS,
            Self::AccessDenied(..) | Self::LimitReached(_) => EventKinds::DENIALS,
            Self::ReadEnded(..) => EventKinds::READS,
            Self::SignIn(..) => EventKinds::SIGN_INS,
            Self::SharedStore(_) | Self::SharedStoreQueried(_) => EventKinds::SHARED_STORE,
            Self::Serving(_)
            | Self::SessionAffinityLost(_)
            | Self::Reloaded { .. }
            | Self::ReloadPending { .. }
            | Self::ReloadRefused(_)
            | Self::CertificateLoaded(_)
            | Self::CertificateRefused(_) => EventKinds::PROGRAM,
        }
    }
}

/// A request to a language model, and the agent that it serves.
#[derive(Clone, Debug)]
pub struct LlmContext<'a> {
    /// `None` for an anonymous agent.
    pub agent: Option<&'a AgentName>,
    /// Numbers the sessions of this process.
    pub session: u64,
    /// The name of the model in the configuration.
    pub model: &'a str,
    /// The name that the model reports, if it is the model of the agent's client (sampling).
    pub reported_model: Option<String>,
    pub purpose: &'static str,
    pub at: SystemTime,
    pub took: Duration,
    /// Input and output tokens so far.
    pub tokens: [u64; 2],
    /// Number of requests so far, including retries.
    pub attempts: u32,
}

/// One run of a server, from its start to its end.
#[derive(Clone, Debug)]
pub struct ServerContext {
    /// Numbers the server runs of this process.
    pub run: u64,
    /// The toolbox that needed the server first.
    pub toolbox: String,
    pub server: String,
    /// The name in logs.
    pub label: String,
    /// The process id, once the server is ready; `None` over HTTP.
    pub pid: Option<u32>,
    /// `true` once the server has been ready in this run.
    pub was_ready: bool,
    /// `true` if the server was ready in an earlier run.
    pub has_run_before: bool,
}

/// Why a server was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerStopReason {
    /// It was unused for the idle timeout.
    Idle,
    /// Its HTTP connection ended while it was unused. The next use reconnects.
    ConnectionLost,
    /// It is being restarted.
    Renewal,
    /// The user requested it.
    UserRequest,
    /// It was removed from the configuration, and its last use has ended.
    RemovedFromConfig,
    /// No agent can use it any longer.
    NoUsersLeft,
    /// The workbench is shutting down.
    Shutdown,
}

/// A session of an agent, and the definitions that its model was shown.
#[derive(Clone, Debug, Default)]
pub struct SessionContext {
    /// `None` for an anonymous agent.
    pub agent: Option<AgentName>,
    /// Numbers the sessions of this process.
    pub session: u64,
    /// The client program, once it is known.
    pub program: ClientSummary,
    /// Bytes of definitions that the client would show without the workbench.
    pub baseline_bytes: usize,
    /// Bytes of definitions that the workbench has served.
    pub served_bytes: usize,
}

/// A kind of primitive that is read instead of called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadableKind {
    Resource,
    Prompt,
}

/// One read of a resource or a prompt.
#[derive(Clone, Debug)]
pub struct ReadContext<'a> {
    pub at: SystemTime,
    /// `None` for an anonymous agent.
    pub agent: Option<&'a AgentName>,
    pub session: u64,
    pub server: &'a ServerRef,
    pub what: ReadableKind,
    /// The resource URI, or the server's own name for the prompt.
    pub name: Cow<'a, str>,
    /// The rule that allowed or denied the read; `None` if no rule applies.
    pub rule: Option<Cow<'a, str>>,
}

/// A login at an HTTP server. It contains no token.
#[derive(Clone, Debug)]
pub struct SignInContext<'a> {
    /// The name of the server's entry.
    pub server: &'a str,
    /// The agent that the login belongs to; `None` for the login of this machine.
    pub account: Option<&'a str>,
    /// Why a login is required; otherwise empty.
    pub why: &'a str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignInChange {
    SignedIn,
    /// The access token was renewed.
    Renewed,
    /// The server rejects requests until the user signs in.
    Required,
    SignedOut,
}

impl SignInChange {
    /// Returns the word for it in records and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SignedIn => "signed_in",
            Self::Renewed => "renewed",
            Self::Required => "wanted",
            Self::SignedOut => "signed_out",
        }
    }
}

/// A request that was denied over HTTP.
#[derive(Clone, Debug)]
pub struct AccessDenial {
    /// `None` if the agent is unknown.
    pub agent: Option<AgentName>,
    pub why: AccessDenialReason,
}

/// A caller that has reached a quota.
#[derive(Clone, Debug)]
pub struct LimitReached {
    pub owner: QuotaOwner,
    pub what: QuotaKind,
}

/// Why somebody was not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AccessDenialReason {
    /// The request is not meant for us, or comes from a page that may not ask us.
    Origin,
    /// There is no token.
    NoToken,
    /// There is something in the place of a token that can be none.
    MalformedToken,
    /// The token is not good here.
    InvalidToken,
    /// The token was good.
    ExpiredToken,
    /// The token does not allow enough.
    Scope,
    /// The token is of nobody who is known here.
    UnknownSubject,
    /// The certificate of the client is not good here, or is of another agent than the token.
    Certificate,
    /// The rules do not say what the agent may use.
    NoRules,
    /// The figures name servers that the agent may not know of.
    MetricsHidden,
}

impl AccessDenialReason {
    /// Returns the word for it in records.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Origin => "origin",
            Self::NoToken => "no_token",
            Self::MalformedToken => "malformed_token",
            Self::InvalidToken => "invalid_token",
            Self::ExpiredToken => "expired_token",
            Self::Scope => "scope",
            Self::UnknownSubject => "unknown_holder",
            Self::Certificate => "certificate",
            Self::NoRules => "no_rules",
            Self::MetricsHidden => "figures",
        }
    }
}

/// The facts about a client program that determine what its model sees.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientSummary {
    /// The name that the client reports; empty if it reports none.
    pub name: String,
    /// `true` if the client hides tools behind a search of its own.
    pub has_tool_search: bool,
}
