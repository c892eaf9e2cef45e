//! Answers of tools that only read, given again while they hold.
//!
//! A tool is one of those when its server says both that it changes nothing and that it may be
//! called twice (MCP, server/tools, `readOnlyHint` and `idempotentHint`).

use crate::gateway::answers::{Answers, Key};
use crate::gateway::members::Server;
use crate::gateway::sending::Sending;
use crate::gateway::{Gateway, RequestContext};
use crate::toolbox::ViewTool;

/// Calls with longer arguments are not looked for.
const MAX_ARGUMENTS: usize = 64 * 1024;

impl Gateway {
    /// Returns the key of a call, where the answer to it may be kept, or may have been kept before.
    /// A call that the user confirms has none: it is made each time. It is boxed because few calls
    /// have one, and each keeps room for it while it waits.
    pub(crate) fn asked_before(
        &self,
        server: &Server,
        shown: &ViewTool,
        sending: Sending<'_>,
        context: &RequestContext<'_>,
    ) -> Option<Box<(Answers, Key)>> {
        let answers = server.answers.as_ref()?;
        let Sending::Call { permit, arguments, rest } = sending else { return None };
        // What a server asks its user is part of no key.
        let is_asked = server.shared.asks() || permit.confirmation().is_some();
        if is_asked || !rest.is_empty() || !shown.own.is_repeatable() {
            return None;
        }
        let arguments = match arguments {
            Some(arguments) => Some(arguments.canonical(MAX_ARGUMENTS)?),
            None => None,
        };
        let backend = server.backend(context.agent, &self.pool).ok()?;
        let key = Key {
            backend: backend.id(),
            version: backend.running()?.listed().version,
            ttl: answers.ttl,
            agent: context.caller.agent.clone(),
            tool: permit.tool().clone(),
            arguments,
        };
        Some(Box::new((answers.clone(), key)))
    }
}
