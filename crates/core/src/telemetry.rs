//! Telemetry: events, and the listeners that log, count, record and export them.
//!
//! *Theory of operation.* Code emits each [`Event`] at the place where it happens. The listeners
//! are the log, the metrics ([`metrics`]), the audit log ([`audit`]), the span exporter
//! ([`spans`]), the process registry ([`process_registry`]) and the live view ([`live_view`]). They
//! are fixed when a configuration starts to be served ([`EventBus`]), so emitting takes no lock,
//! and an event that no listener wants costs a branch. A call has one context ([`CallContext`]),
//! which all listeners read. Work that can end in many ways has a guard ([`CallGuard`],
//! [`LlmRequestGuard`], [`ServerRunGuard`], [`SessionGuard`]), which also reports the end when it
//! is dropped. Emitting never blocks: counting is an addition, and audit records go into a queue
//! that a writer thread drains.

mod audit;
mod call_span;
mod context;
mod event;
mod event_bus;
mod guard;
mod http_client;
mod lease_file;
mod live_view;
mod llm_outcome;
mod llm_request;
mod log;
mod log_spans;
mod metrics;
mod observer;
mod outcome;
pub mod process_registry;
mod queue;
mod quota;
mod read_guard;
mod record;
mod redaction;
mod rejections;
mod rotating_file;
mod server_metrics;
mod server_run;
mod session_guard;
mod spans;
mod start;
pub mod stats;

pub use crate::telemetry::audit::AuditLog;
pub use crate::telemetry::context::{CallContext, CallStart};
pub use crate::telemetry::event::{
    AccessDenial, AccessDenialReason, ApprovalContext, ApprovalOutcome, Approver,
    CertificateExpiry, ClientSummary, DriftEvent, Event, EventKinds, LimitReached, LlmContext,
    ReadContext, ServerContext, ServerStopReason, SessionContext, SignInChange, SignInContext,
};
pub use crate::telemetry::event_bus::{EventBus, EventListener};
pub use crate::telemetry::guard::CallGuard;
pub use crate::telemetry::live_view::{CallStats, FinishedCall, LiveAgent, LiveSnapshot, LiveView};
pub use crate::telemetry::llm_outcome::LlmOutcome;
pub use crate::telemetry::llm_request::{LlmRequestGuard, LlmRequestInfo};
pub use crate::telemetry::log::TARGET as LOG_TARGET;
pub use crate::telemetry::log_spans::request_span;
pub(crate) use crate::telemetry::log_spans::{record_server, server_span, step_span};
pub use crate::telemetry::metrics::{METRICS, MetricDescriptor, MetricKind};
pub use crate::telemetry::observer::Telemetry;
pub use crate::telemetry::outcome::{CallEnd, CallOutcome, CallStopReason};
pub use crate::telemetry::quota::{QuotaKind, QuotaOwner, QuotaUsage};
pub use crate::telemetry::read_guard::PrimitiveReadGuard;
pub use crate::telemetry::redaction::Redactor;
pub use crate::telemetry::redaction::{
    SecretName, SecretReplacer, contains_secret, drop_secrets, has_literal_secret, is_secret_name,
    is_secret_variable, learn_secrets, normalize_secret_name, redact_argument, url_password,
};
pub use crate::telemetry::server_metrics::ServerMetrics;
pub use crate::telemetry::server_run::ServerRunGuard;
pub use crate::telemetry::session_guard::{SessionGuard, estimate_tokens};
pub use crate::telemetry::spans::is_trace_parent;
pub use crate::telemetry::start::CallRequest;
