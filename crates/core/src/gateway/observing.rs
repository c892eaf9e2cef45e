//! The context of a call as gateways fill it: who makes it, which rule decided on it, how it ended.

use std::borrow::Cow;
use std::sync::LazyLock;
use std::time::SystemTime;

use memchr::memmem::Finder;

use crate::backend::{self, Outcome};
use crate::gateway::{CallError, Gateway, RequestContext};
use crate::name::{ServerRef, ToolId};
use crate::observe::{
    CallContext, Ending, Meters, ObservedCall, ObservedRead, ReadContext, Readable, Subject,
};
use crate::policy::{Denial, Grant, Traits};
use crate::raw::{self, Raw};

/// The member of a result that says whether the tool failed.
const IS_ERROR: &str = "isError";

impl Gateway {
    /// Begins a call of a tool, with the context that is its own from here to its end.
    pub(crate) fn begin_call<'a>(
        &'a self,
        tool: &'a ToolId,
        found: Result<&'a Meters, &CallError>,
        arguments: Option<&'a Raw>,
        context: &RequestContext<'a>,
    ) -> ObservedCall<'a> {
        let (toolbox, server) = (&tool.toolbox, &tool.server);
        let (meters, is_known): (&Meters, _) = match found {
            Ok(meters) => (meters, true),
            // It is there, and cannot be started.
            Err(CallError::Server { .. }) => (&self.nowhere, true),
            Err(_) => (&self.nowhere, false),
        };
        let subject = Subject {
            agent: context.caller.agent.as_ref(),
            session: context.agent.id.number(),
            toolbox: is_known.then_some(toolbox),
            server: is_known.then_some(server),
            tool: &tool.tool,
            arguments,
            meta: context.meta,
        };
        self.listeners.begin_call(meters, subject)
    }

    /// Begins a read of a resource or a prompt, if the request is one and somebody wants to hear of it.
    pub(crate) fn begin_read<'a>(
        &'a self,
        at: &'a ServerRef,
        method: &str,
        params: &'a [raw::Member],
        context: &RequestContext<'a>,
    ) -> Option<ObservedRead<'a>> {
        if !self.listeners.want_reads() {
            return None;
        }
        let (what, key) = Readable::of(method)?;
        let named = params.iter().find(|(name, _)| name == key);
        let name = named.and_then(|(_, value)| value.text()).unwrap_or_default();
        Some(self.observed_read(at, what, name, context))
    }

    /// Tells of a resource or a prompt that a rule keeps from the agent, where nothing was read.
    pub(crate) fn note_denied(
        &self,
        at: &ServerRef,
        what: Readable,
        name: &str,
        denial: &Denial,
        context: &RequestContext<'_>,
    ) {
        if self.listeners.want_reads() {
            let mut read = self.observed_read(at, what, name.into(), context);
            read.decided_by(denial.rule().map(ToString::to_string));
            read.end(Ending::Unknown, None);
        }
    }

    fn observed_read<'a>(
        &'a self,
        at: &'a ServerRef,
        what: Readable,
        name: Cow<'a, str>,
        context: &RequestContext<'a>,
    ) -> ObservedRead<'a> {
        self.listeners.begin_read(ReadContext {
            at: SystemTime::now(),
            agent: context.caller.agent.as_ref(),
            session: context.agent.id.number(),
            server: at,
            what,
            name,
            rule: None,
        })
    }

    /// Tells of a call of a name that has led to no tool, and why if that is not that it means
    /// nothing to this agent.
    pub fn note_unresolved(
        &self,
        name: &str,
        arguments: Option<&Raw>,
        error: Option<&CallError>,
        context: &RequestContext<'_>,
    ) {
        let subject = Subject {
            agent: context.caller.agent.as_ref(),
            session: context.agent.id.number(),
            toolbox: None,
            server: None,
            tool: name,
            arguments,
            meta: context.meta,
        };
        let call = self.listeners.begin_call(&self.nowhere, subject);
        call.end(error.map_or(Ending::Unknown, of_error), None);
    }

    /// Takes note of a tool that the agent may not know of, or that is not there.
    pub(crate) fn not_found(&self, tool: &ToolId, call: &mut CallContext<'_>) {
        call.not_found(|| {
            let server = self.at(&tool.toolbox, &tool.server)?;
            Some(server.shared.running()?.listed().listing)
        });
        let decision = self.policy.decide(tool, Traits::default(), || self.clock.now());
        call.decided_by(|| rule(decision.as_ref()));
    }
}

/// The rule that decided on a tool.
pub(crate) fn rule(decision: Result<&Grant, &Denial>) -> Option<Cow<'static, str>> {
    let rule = match decision {
        Ok(grant) => Some(grant.rule()),
        Err(denial) => denial.rule(),
    };
    rule.map(|rule| rule.to_string().into())
}

/// Returns how a call ended, and the bytes of the server's answer if there was one.
pub(crate) fn ended(
    called: &Result<Outcome, CallError>,
    context: &RequestContext<'_>,
) -> (Ending, Option<usize>) {
    match called {
        Ok(Outcome::Result(result)) => (of_result(result, context), Some(result.len())),
        Ok(Outcome::Error(error)) => (Ending::ProtocolError, Some(error.len())),
        Err(error) => (of_error(error), None),
    }
}

fn of_error(error: &CallError) -> Ending {
    match error {
        CallError::UnknownToolbox { .. }
        | CallError::UnknownServer { .. }
        | CallError::UnknownTool { .. }
        | CallError::UnknownPrimitive { .. } => Ending::Unknown,
        CallError::BadArguments { .. } | CallError::NotAnObject { .. } => Ending::BadArguments,
        CallError::Refused { .. } => Ending::Refused,
        CallError::Server { error, .. } => match error {
            backend::Error::StartFailed(_) => Ending::StartFailed,
            backend::Error::Died(_) | backend::Error::Unanswered(_) => Ending::ServerDied,
            backend::Error::TimedOut(_) | backend::Error::TookTooLong(_) => Ending::TimedOut,
            backend::Error::Oversized(_) => Ending::Oversized,
            backend::Error::ShuttingDown => Ending::ShuttingDown,
        },
    }
}

/// Returns `true` if a tool says in its result that it failed. Most can be told at a glance not to.
pub(crate) fn is_error(result: &Raw) -> bool {
    static FINDER: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(IS_ERROR));
    FINDER.find(result.as_bytes()).is_some() && says(result, IS_ERROR, "true")
}

/// Returns `true` if a member of an object is this JSON.
fn says(object: &Raw, key: &str, value: &str) -> bool {
    object.member(key).is_some_and(|said| said.as_bytes() == value.as_bytes())
}

fn of_result(result: &Raw, context: &RequestContext<'_>) -> Ending {
    if is_error(result) {
        Ending::ToolError
    } else if context.is_modern
        && backend::may_ask(result)
        && says(result, "resultType", r#""input_required""#)
    {
        Ending::InputRequired
    } else {
        Ending::Ok
    }
}

#[cfg(test)]
mod tests;
