//! Typed events: everything that happens in a process and that listeners can observe.
//!
//! Each event is emitted in one place, to all listeners that want it (`EventListener`). Events
//! borrow their data and format nothing, so an event costs only the work of its listeners.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use crate::catalog::{DefinitionChange, DefinitionDrift, Listing, PrimitiveKind};
use crate::telemetry::context::CallContext;
use crate::telemetry::llm_outcome::LlmOutcome;
use crate::telemetry::outcome::CallEnd;
use crate::telemetry::quota::{QuotaKind, QuotaOwner};
use mcp_workbench_names::{AgentName, ServerRef, ToolId, ToolboxName};

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

/// An event in this process.
#[derive(Clone, Copy)]
pub enum Event<'a> {
    /// A tool call began.
    CallBegan(&'a CallContext<'a>),
    /// A tool call ended, with any outcome.
    CallEnded(&'a CallContext<'a>),
    /// A request to a language model ended, with any outcome.
    LlmRequestEnded(&'a LlmContext<'a>, LlmOutcome),
    /// A server is starting.
    ServerStarting(&'a ServerContext),
    /// A server is ready, with this listing.
    ServerStarted(&'a ServerContext, &'a Listing),
    /// A server failed to start, for this reason.
    ServerFailed(&'a ServerContext, &'a str),
    /// A server exited unexpectedly, for this reason.
    ServerDied(&'a ServerContext, &'a str),
    /// A server can't be reached over HTTP, for this reason; `None` once it can be reached again.
    ServerUnreachable(&'a ServerContext, Option<&'a str>),
    /// A server was stopped.
    ServerStopped(&'a ServerContext, ServerStopReason),
    /// A running server has a new listing.
    ListingChanged(&'a ServerContext, &'a Listing),
    /// A server changed some of its definitions.
    DefinitionsChanged(&'a ServerContext, &'a [DefinitionChange]),
    /// Definitions of a server differ from `workbench.lock`. Emitted once for each set of
    /// differences.
    DefinitionsDrifted(DriftEvent<'a>),
    /// An agent opened a session.
    SessionOpened(&'a SessionContext),
    /// The client of a session sent its name and its version.
    ClientIdentified(&'a SessionContext, &'a str, &'a str),
    /// The tokens saved in a session grew by this number; it is negative if they shrank.
    TokensSaved(&'a SessionContext, i64),
    /// A session opened this toolbox for the first time.
    ToolboxOpened(&'a SessionContext, &'a ToolboxName),
    /// A session of another replica continues here. The number counts all its adoptions so far.
    SessionAdopted(&'a SessionContext, u64),
    /// A session ended.
    SessionClosed(&'a SessionContext),
    /// The load balancer sends one session to several replicas, as the text shows. Emitted at most
    /// once a minute.
    SessionAffinityLost(&'a str),
    /// An HTTP request was denied, from this IP address if it is known.
    AccessDenied(&'a AccessDenial, Option<IpAddr>),
    /// A caller reached a quota.
    LimitReached(&'a LimitReached),
    /// A read of a resource or prompt ended, with any outcome.
    ReadEnded(&'a ReadContext<'a>, &'a CallEnd),
    /// A login at an HTTP server changed.
    SignIn(&'a SignInContext<'a>, SignInChange),
    /// A call waits for an approval outside the client.
    ApprovalRequested(&'a ApprovalContext<'a>),
    /// The wait for a confirmation or an approval of a call ended.
    ApprovalEnded(&'a ApprovalContext<'a>, ApprovalOutcome, Option<&'a Approver>),
    /// The workbench serves agents at this address.
    Serving(&'a str),
    /// A changed configuration was applied.
    Reloaded {
        /// The toolboxes and sections that differ.
        changes: &'a str,
        /// What agents gained and lost; empty if no listener records it.
        difference: &'a str,
    },
    /// A changed configuration waits for an explicit reload.
    ReloadPending {
        /// The toolboxes and sections that differ.
        changes: &'a str,
        /// What agents would gain and lose, in a few lines.
        difference: &'a str,
    },
    /// The file has the configuration that is in use.
    ConfigUnchanged,
    /// A changed configuration is invalid, for this reason.
    ReloadRefused(&'a dyn fmt::Display),
    /// New TLS connections get these certificates from now on.
    CertificateLoaded(&'a CertificateExpiry),
    /// Changed certificates are invalid, for this reason.
    CertificateRefused(&'a dyn fmt::Display),
    /// The shared store became available or, with a reason, unavailable.
    SharedStore(Option<&'a str>),
    /// A request to the shared store was answered, or failed, after this time.
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
    /// The shared store.
    pub const SHARED_STORE: Self = Self(1 << 11);
    /// Confirmations and approvals of calls.
    pub const APPROVALS: Self = Self(1 << 12);
    pub const ALL: Self = Self((1 << 13) - 1);

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
            Self::ApprovalRequested(_) | Self::ApprovalEnded(..) => EventKinds::APPROVALS,
            Self::SharedStore(_) | Self::SharedStoreQueried(_) => EventKinds::SHARED_STORE,
            Self::Serving(_)
            | Self::SessionAffinityLost(_)
            | Self::Reloaded { .. }
            | Self::ReloadPending { .. }
            | Self::ConfigUnchanged
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

/// One read of a resource or a prompt.
#[derive(Clone, Debug)]
pub struct ReadContext<'a> {
    pub at: SystemTime,
    /// `None` for an anonymous agent.
    pub agent: Option<&'a AgentName>,
    pub session: u64,
    pub server: &'a ServerRef,
    /// A resource or a prompt.
    pub what: PrimitiveKind,
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
    /// Returns the change's name in records and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SignedIn => "signed_in",
            Self::Renewed => "renewed",
            Self::Required => "required",
            Self::SignedOut => "signed_out",
        }
    }
}

/// A call that needs a confirmation or an approval.
#[derive(Clone, Debug)]
pub struct ApprovalContext<'a> {
    /// The id in the approval queue; empty if the client was asked.
    pub id: &'a str,
    /// `None` for an anonymous agent.
    pub agent: Option<&'a AgentName>,
    /// Numbers the sessions of this process.
    pub session: u64,
    pub tool: &'a ToolId,
    /// How long the call has waited.
    pub waited: Duration,
}

/// How the wait for a confirmation or an approval ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApprovalOutcome {
    Approved,
    Denied,
    /// No answer arrived in time.
    Expired,
    /// The agent cancelled the call or disconnected.
    Withdrawn,
}

impl ApprovalOutcome {
    /// Returns the outcome's name in records.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Approved => "approved",
            Self::Denied => "denied",
            Self::Expired => "expired",
            Self::Withdrawn => "withdrawn",
        }
    }
}

/// Who answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Approver {
    /// The user of the client that made the call.
    Client,
    /// The holder of the approval key.
    Key,
    /// A program of the user of this machine, which can only deny.
    Local,
    /// An operator with a token.
    Operator(AgentName),
}

impl Approver {
    /// Returns the approver's kind in records.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Key => "key",
            Self::Local => "local",
            Self::Operator(_) => "operator",
        }
    }

    /// Returns the operator's name.
    pub fn operator(&self) -> Option<&AgentName> {
        match self {
            Self::Operator(name) => Some(name),
            Self::Client | Self::Key | Self::Local => None,
        }
    }
}

/// A request that was denied.
#[derive(Clone, Debug)]
pub struct AccessDenial {
    /// `None` if the agent is unknown.
    pub agent: Option<AgentName>,
    pub reason: AccessDenialReason,
}

/// A caller or server that has reached a quota.
#[derive(Clone, Debug)]
pub struct LimitReached {
    pub owner: QuotaOwner,
    pub quota: QuotaKind,
}

/// Why an HTTP request was denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AccessDenialReason {
    /// The `Host` or `Origin` header isn't allowed.
    Origin,
    /// The request has no token.
    NoToken,
    /// The `Authorization` header isn't a bearer token, or is repeated.
    MalformedToken,
    /// The token isn't in the configuration, or its signature or claims are invalid.
    InvalidToken,
    /// The token has expired.
    ExpiredToken,
    /// The token lacks a required scope.
    Scope,
    /// The token doesn't identify a known agent.
    UnknownAgent,
    /// The client certificate is invalid, names no agent, or belongs to another agent than the token.
    Certificate,
    /// No access rules apply to the agent.
    NoPolicy,
    /// The agent can't read the metrics: they name servers that are hidden from it.
    MetricsDenied,
    /// The request on the dashboard needs an operator token.
    NotOperator,
    /// No sign-in in progress has the `state` of this redirect.
    UnknownSignIn,
    /// An approval of a call wasn't signed with the approval key.
    ApprovalSignature,
    /// An operator tried to approve a call of the agent with its own name.
    OwnCall,
}

impl AccessDenialReason {
    /// Returns the reason's name in records.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Origin => "origin",
            Self::NoToken => "no_token",
            Self::MalformedToken => "malformed_token",
            Self::InvalidToken => "invalid_token",
            Self::ExpiredToken => "expired_token",
            Self::Scope => "scope",
            Self::UnknownAgent => "unknown_agent",
            Self::Certificate => "certificate",
            Self::NoPolicy => "no_policy",
            Self::MetricsDenied => "metrics_denied",
            Self::NotOperator => "not_operator",
            Self::UnknownSignIn => "unknown_sign_in",
            Self::ApprovalSignature => "approval_signature",
            Self::OwnCall => "own_call",
        }
    }

    /// Returns the reason for the log.
    pub(crate) fn describe(self) -> &'static str {
        match self {
            Self::Origin => {
                "its `Host` or `Origin` header is not allowed (`http.allowedHosts`, \
                             `http.allowedOrigins`)"
            }
            Self::NoToken => "no token",
            Self::MalformedToken => "malformed `Authorization` header",
            Self::InvalidToken => "invalid token",
            Self::ExpiredToken => "expired token",
            Self::Scope => "the token lacks a required scope",
            Self::UnknownAgent => "the token does not identify a known agent",
            Self::Certificate => "invalid client certificate, or one of another agent",
            Self::NoPolicy => "no entry for this agent in `agentPolicies`, and no `defaultPolicy`",
            Self::MetricsDenied => "the metrics name servers that are hidden from this agent",
            Self::NotOperator => "this request on the dashboard needs an operator token",
            Self::UnknownSignIn => "no sign-in in progress has the `state` of this redirect",
            Self::ApprovalSignature => "the approval of a call has an invalid signature",
            Self::OwnCall => "an operator can't approve calls of the agent with the same name",
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
