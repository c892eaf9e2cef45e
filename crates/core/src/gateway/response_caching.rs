//! Lookup of cached results for read-only tools.
//!
//! A tool qualifies if its server sets both `readOnlyHint` and `idempotentHint` (MCP,
//! server/tools).

use crate::gateway::managed_server::ManagedServer;
use crate::gateway::relay::RelayedRequest;
use crate::gateway::response_cache::{ResponseCache, ResponseKey};
use crate::gateway::{Gateway, RequestContext};
use crate::toolbox::ExposedTool;

/// Maximum size of cacheable arguments in bytes.
const MAX_ARGUMENTS: usize = 64 * 1024;

impl Gateway {
    /// Returns the cache and the key of a call; `None` if it can't be cached or needs confirmation.
    /// Boxed to keep the futures of all other calls small.
    pub(crate) fn response_cache_key(
        &self,
        server: &ManagedServer,
        shown: &ExposedTool,
        sending: RelayedRequest<'_>,
        context: &RequestContext<'_>,
    ) -> Option<Box<(ResponseCache, ResponseKey)>> {
        let answers = server.answers.as_ref()?;
        let RelayedRequest::Call { permit, arguments, rest } = sending else { return None };
        // The key doesn't cover input that the server may request.
        let is_asked = server.shared.is_interactive() || permit.confirmation().is_some();
        if is_asked || !rest.is_empty() || !shown.server_definition.is_repeatable() {
            return None;
        }
        let arguments = match arguments {
            Some(arguments) => Some(arguments.canonical(MAX_ARGUMENTS)?),
            None => None,
        };
        let backend = server.backend(context.agent, &self.pool).ok()?;
        let key = ResponseKey {
            backend: backend.id(),
            version: backend.connection()?.listed().version,
            ttl: answers.ttl,
            agent: context.caller.agent.clone(),
            tool: permit.tool().clone(),
            arguments,
        };
        Some(Box::new((answers.clone(), key)))
    }
}
