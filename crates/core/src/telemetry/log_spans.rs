//! The `tracing` spans of sessions, requests and servers. Each log line of their work has their
//! fields.
//!
//! They are as severe as errors: a span that the log level filters out would be missing from lines
//! of every level.

use tracing::field::Empty;
use tracing::{Span, error_span};

use crate::telemetry::record::{cut, cut_to};
use crate::telemetry::start::CallRequest;
use mcp_workbench_names::{ServerName, ToolboxName};
use mcp_workbench_wire::json::RawJson;

/// Longer request IDs are truncated. In bytes.
const MAX_REQUEST_ID: usize = 64;

/// Returns the span of a session, whose ID is the one in the audit log.
pub(crate) fn session_span(run: &str, session: u64) -> Span {
    error_span!(parent: None, "session", session_id = %format_args!("{run}-{session}"))
}

/// Returns the span of a request of an agent. A tool call adds its server and its tool.
pub fn request_span(session: &Span, id: &RawJson) -> Span {
    error_span!(
        parent: session,
        "request",
        request_id = %cut_to(MAX_REQUEST_ID, &id.as_str()),
        server = Empty,
        tool = Empty
    )
}

/// Returns the span of a step of a macro. Steps run at the same time, so each has its own.
pub(crate) fn step_span() -> Span {
    error_span!("step", server = Empty, tool = Empty)
}

/// Returns the span of a server. It outlives the request that first used the server.
pub(crate) fn server_span(label: &str) -> Span {
    error_span!(parent: None, "server", server = label)
}

/// Adds the server and the tool of a call to the span of its request.
pub(crate) fn record_call(call: &CallRequest<'_>) {
    if let (Some(toolbox), Some(server)) = (call.toolbox, call.server) {
        let span = Span::current();
        record_server(&span, toolbox, server);
        span.record("tool", &*cut(call.tool));
    }
}

/// Adds the server to the span of a request.
pub(crate) fn record_server(span: &Span, toolbox: &ToolboxName, server: &ServerName) {
    if !span.is_disabled() {
        span.record("server", format!("{toolbox}/{server}"));
    }
}
