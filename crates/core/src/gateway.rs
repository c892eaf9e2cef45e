//! The gateway: the only path from agents to servers.
//!
//! There is one [`Gateway`] per set of client capabilities ([`GatewayRegistry`]), because servers
//! adapt to them. It is made of components ([`components`]), each of which uses only those built
//! before it. A single task per gateway ([`snapshot`]) receives changed listings and publishes a new
//! immutable [`Snapshot`], the only state that agents share; each request uses one snapshot
//! throughout. [`Startup`] starts servers, and a call ([`CallPath::call`]) starts only its own. An
//! interactive server gets a connection per agent ([`managed_server`]). [`input_required`] lets
//! legacy clients use modern servers that ask for input.

mod access;
mod approvals;
mod argument_hints;
mod call_limits;
mod call_path;
mod caller;
mod clock;
mod components;
mod confirmation;
mod drift;
mod eager_servers;
mod embedding;
mod error;
mod failure_reason;
mod fair_queue;
mod input_required;
mod instrumentation;
mod interner;
mod lens;
mod limits;
mod macros;
mod managed_server;
mod models;
mod open_toolbox;
mod operator;
mod progress;
mod registry;
mod relay;
mod request_context;
mod request_target;
mod response_cache;
mod scope;
mod search;
mod servers;
mod shared_services;
mod sign_in;
mod snapshot;
mod startup;
mod tasks;
mod tool_files;
mod truncation;
mod views;

pub use crate::backend::{
    APPS_NAME, Affinity, AgentEvent, AgentHandle, AgentId, BackendStatus, CallerQuota,
    ClientCapabilities, LogLevel, MemoryPools, Phase, QuotaExceededError, QuotaGuard,
    QuotaRegistry, ServerRequest, StartMethod, StartPriority, SubscriptionLimitError,
    may_require_input,
};
pub use crate::gateway::access::AccessControl;
pub use crate::gateway::approvals::{AnswerError, ApprovalQueue, PendingCall};
pub use crate::gateway::call_path::CallPath;
pub use crate::gateway::caller::Caller;
pub use crate::gateway::components::Gateway;
pub use crate::gateway::drift::ListingDrift;
pub use crate::gateway::eager_servers::UnreadyServer;
pub use crate::gateway::error::{CallError, FailedServer};
pub use crate::gateway::macros::UnavailableMacro;
pub use crate::gateway::models::{ModelReply, Models, SamplingError};
pub use crate::gateway::open_toolbox::OpenedToolbox;
pub use crate::gateway::operator::{SignInPage, SignedInPage};
pub use crate::gateway::progress::heartbeat;
pub use crate::gateway::registry::{GatewayLimitError, GatewayRegistry};
pub use crate::gateway::request_context::{ApprovalTerms, RequestContext};
pub use crate::gateway::request_target::RequestTarget;
pub use crate::gateway::scope::{GatewayScope, is_own_extension};
pub use crate::gateway::search::Search;
pub use crate::gateway::search::index::{ToolMatch, ToolQuery};
pub use crate::gateway::servers::Servers;
pub use crate::gateway::sign_in::{CALLBACK_PATH, PAGE_HEADERS, RequiredSignIn, SignIns};
pub use crate::gateway::snapshot::Snapshot;
pub use crate::gateway::startup::Startup;
pub use crate::gateway::tasks::TaskRegistry;
pub use crate::gateway::tool_files::ToolFile;
pub use crate::gateway::truncation::TruncatedResults;
pub use crate::gateway::truncation::selection::{FieldsOfResult, SelectedBy, select_fields};
pub use crate::gateway::views::{ToolAvailability, Views};
