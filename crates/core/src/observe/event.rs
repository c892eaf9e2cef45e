//! Events: what happens here, in one typed stream.
//!
//! Each is told where it happens, and there alone, to whoever listens
//! (`Listener`). An event borrows what it tells of, and nothing is
//! written out for it, so telling costs nothing but the work of those who hear it.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use crate::catalog::{ChangedDefinition, Drifted, Listing};
use crate::name::{AgentName, ServerRef, ToolboxName};
use crate::observe::context::CallContext;
use crate::observe::ending::CallEnd;
use crate::observe::holdings::{Holding, Payer};
use crate::observe::llm_outcome::LlmOutcome;

/// Definitions of a server that are not as the lock has them.
#[derive(Clone, Copy)]
pub struct Drift<'a> {
    /// The server.
    pub server: &'a ServerRef,
    /// In what it differs.
    pub found: &'a [Drifted],
    /// The fate of that, in the word of the configuration.
    pub becomes: &'static str,
    /// The command that takes it over.
    pub accept: &'a str,
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
    ServerAway(&'a ServerContext, Option<&'a str>),
    /// It was stopped.
    ServerStopped(&'a ServerContext, StoppedFor),
    /// A server that runs has another listing than before.
    ListingChanged(&'a ServerContext, &'a Listing),
    /// Some of its definitions are not what they were.
    DefinitionsChanged(&'a ServerContext, &'a [ChangedDefinition]),
    /// A server lists definitions that are not as the lock has them. It is told once for as long as nothing
    /// else differs.
    DefinitionsDrifted(Drift<'a>),
    /// An agent has come that stays for a while.
    SessionOpened(&'a SessionContext),
    /// Its program has said what it is called.
    SessionIntroduced(&'a SessionContext, &'a str),
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
    SessionsHop(&'a str),
    /// Somebody was not let in, who came from this address where one is known.
    AccessDenied(&'a DeniedAccess, Option<IpAddr>),
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
    ReloadHeld {
        /// The toolboxes and sections that differ.
        changes: &'a str,
        /// The gains and losses of agents, in a few lines.
        difference: &'a str,
    },
    /// The configuration was to be read again, and cannot be used for this reason.
    ReloadRefused(&'a dyn fmt::Display),
    /// Whoever connects from now on over TLS is shown these certificates.
    CertificateShown(&'a TlsDates),
    /// Certificates were to be read again, and cannot be used for this reason.
    CertificateRefused(&'a dyn fmt::Display),
    /// The store that several workbenches share can be used from now on; with a reason, it cannot be.
    SharedStore(Option<&'a str>),
    /// That store was asked something, and has answered or not after so long.
    SharedStoreAsked(Duration),
}

/// When the certificates that are used for TLS end to be good, in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TlsDates {
    /// The certificate that clients are shown.
    pub cert: u64,
    /// The CA of clients that ends first, where clients may have certificates.
    pub client_ca: Option<u64>,
}

/// Which kinds of events somebody wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kinds(u16);

impl Kinds {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// Calls that begin.
    pub const CALLS_BEGUN: Self = Self(1);
    /// Calls that have ended.
    pub const CALLS_ENDED: Self = Self(1 << 1);
    /// The texts in the details of calls, which are written for whoever wants them alone.
    pub const CALL_TEXTS: Self = Self(1 << 2);
    /// Requests to language models.
    pub const LLM_REQUESTS: Self = Self(1 << 3);
    /// Servers that start and end.
    pub const SERVERS: Self = Self(1 << 4);
    /// Listings that change.
    pub const LISTINGS: Self = Self(1 << 5);
    /// Agents that come and leave.
    pub const SESSIONS: Self = Self(1 << 6);
    /// Requests of somebody who is not let in, or wants more than its share.
    pub const DENIALS: Self = Self(1 << 7);
    /// The program as a whole: where it serves, and with which configuration.
    pub const PROGRAM: Self = Self(1 << 8);
    /// Resources and prompts that were read.
    pub const READS: Self = Self(1 << 9);
    /// Logins at servers over HTTP.
    pub const SIGN_INS: Self = Self(1 << 10);
    /// The store that several workbenches share.
    pub const SHARED_STORE: Self = Self(1 << 11);
    /// Everything.
    pub const ALL: Self = Self((1 << 12) - 1);

    /// These kinds, and those.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns `true` if one of these kinds is among those.
    pub const fn has(self, any: Self) -> bool {
        self.0 & any.0 != 0
    }
}

impl Event<'_> {
    /// The kind that it is of.
    pub fn kind(&self) -> Kinds {
        match self {
            Self::CallBegan(_) => Kinds::CALLS_BEGUN,
            Self::CallEnded(..) => Kinds::CALLS_ENDED,
            Self::LlmRequestEnded(..) => Kinds::LLM_REQUESTS,
            Self::ServerStarting(_)
            | Self::ServerStarted(..)
            | Self::ServerFailed(..)
            | Self::ServerDied(..)
            | Self::ServerAway(..)
            | Self::ServerStopped(..) => Kinds::SERVERS,
            Self::ListingChanged(..)
            | Self::DefinitionsChanged(..)
            | Self::DefinitionsDrifted(..) => Kinds::LISTINGS,
            Self::SessionOpened(_)
            | Self::SessionIntroduced(..)
            | Self::TokensSaved(..)
            | Self::ToolboxOpened(..)
            | Self::SessionAdopted(..)
            | Self::SessionClosed(_) => Kinds::SESSIONS,
            Self::AccessDenied(..) | Self::LimitReached(_) => Kinds::DENIALS,
            Self::ReadEnded(..) => Kinds::READS,
            Self::SignIn(..) => Kinds::SIGN_INS,
            Self::SharedStore(_) | Self::SharedStoreAsked(_) => Kinds::SHARED_STORE,
            Self::Serving(_)
            | Self::SessionsHop(_)
            | Self::Reloaded { .. }
            | Self::ReloadHeld { .. }
            | Self::ReloadRefused(_)
            | Self::CertificateShown(_)
            | Self::CertificateRefused(_) => Kinds::PROGRAM,
        }
    }
}

/// A request to a language model, and for whom it is made.
#[derive(Clone, Debug)]
pub struct LlmContext<'a> {
    /// The agent, where it has a name.
    pub agent: Option<&'a AgentName>,
    /// Counts the agents of this process.
    pub session: u64,
    /// The model, in a word of the configuration.
    pub model: &'a str,
    /// The name that the model gives itself, where it is the agent's.
    pub named: Option<String>,
    /// The purpose of the request.
    pub purpose: &'static str,
    /// When it began.
    pub at: SystemTime,
    /// How long it has taken.
    pub took: Duration,
    /// The tokens that were read and written so far.
    pub tokens: [u64; 2],
    /// How many requests were made so far.
    pub attempts: u32,
}

/// One run of a server, from its start to its end.
#[derive(Clone, Debug)]
pub struct ServerContext {
    /// Counts the runs of this process.
    pub run: u64,
    /// The toolbox that asked for it first.
    pub toolbox: String,
    /// The server.
    pub server: String,
    /// Names it in logs.
    pub label: String,
    /// Its process, once it is ready; none over HTTP.
    pub pid: Option<u32>,
    /// `true` once it has been ready in this run.
    pub was_ready: bool,
    /// `true` if it has been ready in an earlier one.
    pub has_run_before: bool,
}

/// Why a server was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoppedFor {
    /// Nobody used it for long.
    Idle,
    /// The connection to it over HTTP has ended while nobody used it.
    Lost,
    /// It was to be started anew.
    Renewal,
    /// Its user wanted that.
    Wish,
    /// It is not in the configuration any more, and not in use any more.
    Dismissal,
    /// Nobody can use it any more.
    NoUse,
    /// The workbench ends.
    Shutdown,
}

/// An agent that is there, and what its model was shown of definitions.
#[derive(Clone, Debug, Default)]
pub struct SessionContext {
    /// The agent, where it has a name.
    pub agent: Option<AgentName>,
    /// Counts the agents of this process.
    pub session: u64,
    /// The agent's program, once that is known.
    pub program: ClientProgram,
    /// The bytes of definitions that the program would have shown without us.
    pub without_us: usize,
    /// The bytes that came from us.
    pub given: usize,
}

/// The things of a server that are read, not called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readable {
    /// A resource.
    Resource,
    /// A prompt.
    Prompt,
}

/// The facts about one read of a resource or a prompt.
#[derive(Clone, Debug)]
pub struct ReadContext<'a> {
    /// When it began.
    pub at: SystemTime,
    /// The agent, where it has a name.
    pub agent: Option<&'a AgentName>,
    /// Counts the agents of this process.
    pub session: u64,
    /// The server.
    pub server: &'a ServerRef,
    /// The kind of thing that is read.
    pub what: Readable,
    /// The address of the resource, or the name of the prompt, as its server has it.
    pub name: Cow<'a, str>,
    /// The rule that let it through, or that did not; `None`: no rule speaks of it.
    pub rule: Option<Cow<'a, str>>,
}

/// A login at a server over HTTP; no token is in it.
#[derive(Clone, Debug)]
pub struct SignInContext<'a> {
    /// The server, by the name of its entry.
    pub server: &'a str,
    /// The agent whose login it is; `None`: it is everybody's who uses this machine's.
    pub account: Option<&'a str>,
    /// Why one is wanted; empty where none is.
    pub why: &'a str,
}

/// A change of a login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignInChange {
    /// Somebody has signed in.
    SignedIn,
    /// Its token was renewed.
    Renewed,
    /// The server does not take who asks, until somebody has signed in.
    Wanted,
    /// Somebody has signed out.
    SignedOut,
}

impl SignInChange {
    /// The word for it, in records and figures.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SignedIn => "signed_in",
            Self::Renewed => "renewed",
            Self::Wanted => "wanted",
            Self::SignedOut => "signed_out",
        }
    }
}

/// Somebody who was not let in over HTTP.
#[derive(Clone, Debug)]
pub struct DeniedAccess {
    /// The agent, where it is known who that is.
    pub agent: Option<AgentName>,
    /// Why.
    pub why: DeniedFor,
}

/// Somebody who wanted to hold more than it may.
#[derive(Clone, Debug)]
pub struct LimitReached {
    /// Who that is.
    pub payer: Payer,
    /// The kind of thing of which there would have been too many.
    pub what: Holding,
}

/// Why somebody was not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeniedFor {
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
    UnknownHolder,
    /// The certificate of the client is not good here, or is of another agent than the token.
    Certificate,
    /// The rules do not say what the agent may use.
    NoRules,
    /// The figures name servers that the agent may not know of.
    Figures,
}

impl DeniedFor {
    /// The word for it, in records.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Origin => "origin",
            Self::NoToken => "no_token",
            Self::MalformedToken => "malformed_token",
            Self::InvalidToken => "invalid_token",
            Self::ExpiredToken => "expired_token",
            Self::Scope => "scope",
            Self::UnknownHolder => "unknown_holder",
            Self::Certificate => "certificate",
            Self::NoRules => "no_rules",
            Self::Figures => "figures",
        }
    }
}

/// An agent's program, as far as it decides what its model is shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientProgram {
    /// The name that it gives itself; empty if it gives none.
    pub name: String,
    /// `true` if the program hides tools behind a search of its own.
    pub has_tool_search: bool,
}
