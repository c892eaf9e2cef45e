//! Telemetry of calls and reads: who makes them, which rule decides, how they end.

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};
use std::time::SystemTime;

use memchr::memmem::Finder;
use tracing::Span;

use crate::backend::{self, RpcOutcome};
use crate::catalog::PrimitiveKind;
use crate::gateway::error::CallError;
use crate::gateway::request_context::RequestContext;
use crate::gateway::request_target::RequestTarget;
use crate::policy::{Denial, Grant};
use crate::telemetry::{
    CallGuard, CallOutcome, CallRequest, EventBus, EventKinds, PrimitiveReadGuard, ReadContext,
    ServerMetrics, record_server,
};
use mcp_workbench_names::{ServerRef, ToolId};
use mcp_workbench_wire::json::RawJson;

const IS_ERROR: &str = "isError";

/// Reports the calls and reads of a gateway's agents.
pub(crate) struct Instrumentation {
    pub(crate) listeners: EventBus,
    /// For calls that reach no known server.
    unknown_server_meters: Arc<ServerMetrics>,
}

impl Instrumentation {
    pub(crate) fn new(listeners: EventBus, unknown_server_meters: Arc<ServerMetrics>) -> Self {
        Self { listeners, unknown_server_meters }
    }

    pub(crate) fn begin_call<'a>(
        &'a self,
        tool: &'a ToolId,
        found: Result<&'a ServerMetrics, &CallError>,
        arguments: Option<&'a RawJson>,
        context: &RequestContext<'a>,
    ) -> CallGuard<'a> {
        let (toolbox, server) = (&tool.toolbox, &tool.server);
        let (meters, is_known): (&ServerMetrics, _) = match found {
            Ok(meters) => (meters, true),
            // The server exists but can't be started.
            Err(CallError::Server { .. }) => (&self.unknown_server_meters, true),
            Err(_) => (&self.unknown_server_meters, false),
        };
        let subject = CallRequest {
            agent: context.caller.agent.as_ref(),
            client: context.client,
            session: context.agent.id.number(),
            toolbox: is_known.then_some(toolbox),
            server: is_known.then_some(server),
            tool: &tool.tool,
            arguments,
            meta: context.meta,
        };
        CallGuard::begin(&self.listeners, meters, subject)
    }

    /// Begins a read of a resource or prompt. Returns `None` for other requests, or if no listener
    /// wants reads.
    pub(crate) fn begin_read<'a>(
        &'a self,
        at: &'a ServerRef,
        target: &'a RequestTarget,
        context: &RequestContext<'a>,
    ) -> Option<PrimitiveReadGuard<'a>> {
        record_server(&Span::current(), &at.toolbox, &at.server);
        if !self.listeners.is_enabled(EventKinds::READS) {
            return None;
        }
        let (what, name) = target.read_primitive()?;
        Some(self.observed_read(at, what, name.into(), context))
    }

    pub(crate) fn note_denied(
        &self,
        at: &ServerRef,
        what: PrimitiveKind,
        name: &str,
        denial: &Denial,
        context: &RequestContext<'_>,
    ) {
        if self.listeners.is_enabled(EventKinds::READS) {
            let mut read = self.observed_read(at, what, name.into(), context);
            read.set_rule(denial.rule().map(ToString::to_string));
            read.end(CallOutcome::UnknownTool, None);
        }
    }

    fn observed_read<'a>(
        &'a self,
        at: &'a ServerRef,
        what: PrimitiveKind,
        name: Cow<'a, str>,
        context: &RequestContext<'a>,
    ) -> PrimitiveReadGuard<'a> {
        let read = ReadContext {
            at: SystemTime::now(),
            agent: context.caller.agent.as_ref(),
            session: context.agent.id.number(),
            server: at,
            what,
            name,
            rule: None,
        };
        PrimitiveReadGuard::begin(&self.listeners, read)
    }

    /// Begins a call whose tool name didn't resolve.
    pub(crate) fn begin_unresolved<'a>(
        &'a self,
        name: &'a str,
        arguments: Option<&'a RawJson>,
        context: &RequestContext<'a>,
    ) -> CallGuard<'a> {
        let subject = CallRequest {
            agent: context.caller.agent.as_ref(),
            client: context.client,
            session: context.agent.id.number(),
            toolbox: None,
            server: None,
            tool: name,
            arguments,
            meta: context.meta,
        };
        CallGuard::begin(&self.listeners, &self.unknown_server_meters, subject)
    }
}

pub(crate) fn rule(decision: Result<&Grant, &Denial>) -> Option<Cow<'static, str>> {
    let rule = match decision {
        Ok(grant) => Some(grant.rule()),
        Err(denial) => denial.rule(),
    };
    rule.map(|rule| rule.to_string().into())
}

/// Returns how a call ended, and the size of the server's response in bytes, if any.
pub(crate) fn call_outcome(
    called: &Result<RpcOutcome, CallError>,
    context: &RequestContext<'_>,
) -> (CallOutcome, Option<usize>) {
    match called {
        Ok(RpcOutcome::Result(result)) => (outcome_of_result(result, context), Some(result.len())),
        Ok(RpcOutcome::Error(error)) => (CallOutcome::ProtocolError, Some(error.len())),
        Err(error) => (outcome_of_error(error), None),
    }
}

pub(crate) fn outcome_of_error(error: &CallError) -> CallOutcome {
    match error {
        CallError::UnknownToolbox { .. }
        | CallError::UnknownServer { .. }
        | CallError::UnknownTool { .. }
        | CallError::UnknownPrimitive { .. } => CallOutcome::UnknownTool,
        CallError::InvalidArguments { .. } | CallError::NotAnObject { .. } => {
            CallOutcome::InvalidArguments
        }
        CallError::Refused { .. } | CallError::TooManySubscriptions(_) => CallOutcome::Denied,
        CallError::Server { error, .. } => match error {
            backend::BackendError::StartFailed(_) => CallOutcome::ServerUnavailable,
            backend::BackendError::Crashed(_) | backend::BackendError::Remote(_) => {
                CallOutcome::ServerExited
            }
            backend::BackendError::IdleTimeout(_) | backend::BackendError::TotalTimeout(_) => {
                CallOutcome::TimedOut
            }
            backend::BackendError::Oversized(_) => CallOutcome::ResultTooLarge,
            backend::BackendError::InvalidResponse(_) => CallOutcome::ProtocolError,
            backend::BackendError::ShuttingDown => CallOutcome::ShuttingDown,
        },
    }
}

/// Returns `true` if a tool result reports an error. A substring search avoids parsing most
/// results.
pub(crate) fn is_error(result: &RawJson) -> bool {
    static FINDER: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(IS_ERROR));
    FINDER.find(result.as_bytes()).is_some() && says(result, IS_ERROR, "true")
}

fn says(object: &RawJson, key: &str, value: &str) -> bool {
    object.member(key).is_some_and(|said| said.as_bytes() == value.as_bytes())
}

fn outcome_of_result(result: &RawJson, context: &RequestContext<'_>) -> CallOutcome {
    if is_error(result) {
        CallOutcome::ToolError
    } else if context.is_modern
        && backend::may_require_input(result)
        && says(result, "resultType", r#""input_required""#)
    {
        CallOutcome::InputRequired
    } else {
        CallOutcome::Ok
    }
}

#[cfg(test)]
mod tests;
