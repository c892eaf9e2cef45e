//! Methods of protocol extensions. A server's entry lists them (`extensionMethods`), and rules,
//! limits, confirmation and records treat a method like a tool of that name.

use crate::backend::{APPS_NAME, RpcOutcome};
use crate::catalog::ServerCapabilities;
use crate::gateway::call_path::{PermittedCall, check_conditions, session_state_lost};
use crate::gateway::instrumentation::rule;
use crate::gateway::managed_server::ManagedServer;
use crate::gateway::relay::RelayedRequest;
use crate::gateway::{CallError, Gateway, RequestContext};
use crate::json::{self, RawJson};
use crate::name::{ServerRef, ToolId};
use crate::telemetry::CallContext;

/// Extensions that the workbench implements itself: tasks, and the pages of MCP Apps.
const OWN_EXTENSIONS: [&str; 2] = ["io.modelcontextprotocol/tasks", APPS_NAME];

/// Returns `true` if the workbench implements the extension for all servers together.
pub fn is_own_extension(name: &str) -> bool {
    OWN_EXTENSIONS.contains(&name)
}

impl Gateway {
    /// Returns the method at each server whose entry lists it and whose rules allow it. If rules
    /// deny it everywhere, returns it at the first server that lists it, so that the denial can be
    /// recorded.
    pub fn find_extension_method(&self, method: &str) -> Vec<ToolId> {
        let everywhere = self.config.servers().map(|(toolbox, server)| ToolId {
            toolbox: toolbox.name.clone(),
            server: server.name.clone(),
            tool: method.to_owned(),
        });
        let mut listed: Vec<_> =
            everywhere.filter(|method| self.policy.lists_extension_method(method)).collect();
        let is_allowed = |method: &ToolId| {
            self.policy.decide_extension_method(method, || self.clock.now()).is_ok()
        };
        if listed.iter().any(is_allowed) {
            listed.retain(is_allowed);
        } else {
            listed.truncate(1);
        }
        listed
    }

    /// Returns the extensions to declare for a server: those that the workbench implements, and all
    /// of the server's if its entry lists methods.
    pub fn usable_extensions(
        &self,
        at: &ServerRef,
        capabilities: &ServerCapabilities,
    ) -> Vec<json::Member> {
        let declared = capabilities.extensions.as_ref().and_then(RawJson::members);
        let mut declared = declared.unwrap_or_default();
        let toolbox = self.config.toolbox(at.toolbox.as_str());
        let server = toolbox.and_then(|toolbox| toolbox.server(at.server.as_str()));
        let is_open = server.is_some_and(|server| !server.extension_methods.is_empty());
        declared.retain(|(name, _)| is_open || is_own_extension(name));
        declared
    }

    /// Calls a method of a protocol extension, checked, limited, confirmed and recorded like the
    /// call of a tool with that name. `method.tool` is the method, and `params` its parameters
    /// except `_meta`.
    pub async fn call_extension_method(
        &self,
        method: &ToolId,
        params: &[json::Member],
        context: &RequestContext<'_>,
    ) -> Result<RpcOutcome, CallError> {
        let at = method.server_ref();
        let server = self.require_server(&at);
        let meters = server.as_ref().map(|server| &*server.meters);
        let shown = json::object(params.iter().map(|(key, value)| (&**key, value)));
        let mut call = self.instrumentation.begin_call(method, meters, Some(&shown), context);
        let call_context = &mut call.context;
        let meta = call_context.take_meta();
        let context = &RequestContext { meta: meta.as_deref().unwrap_or(context.meta), ..*context };
        let called = match server {
            Err(error) => Err(error),
            Ok(server) => {
                let given = (&shown, params);
                self.execute_extension_method(method, server, given, context, call_context).await
            }
        };
        self.end_call(call, &called, context);
        called
    }

    async fn execute_extension_method(
        &self,
        method: &ToolId,
        server: &ManagedServer,
        (shown, params): (&RawJson, &[json::Member]),
        context: &RequestContext<'_>,
        call: &mut CallContext<'_>,
    ) -> Result<RpcOutcome, CallError> {
        let at = &method.server_ref();
        let grant = self.policy.decide_extension_method(method, || self.clock.now());
        call.set_rule(|| rule(grant.as_ref()));
        let unknown =
            |_| CallError::UnknownTool { wanted: method.tool.clone(), nearest: Vec::new() };
        let grant = grant.map_err(unknown)?;
        if server.is_isolated() && context.agent.take_loss(at) {
            return Err(session_state_lost(method));
        }
        let mut may_sign_in = self.ensure_current_listing(at, server, context).await?;
        self.snapshot().check_open(at)?;
        if self.enforces_lock(at) {
            // Fails if the definitions of the agent's own process have changed and block it.
            Box::pin(self.drift_of_dedicated_backend(at, server, context)).await?;
        }
        let permit = check_conditions(grant, method, Some(shown), call)?;
        let sending = RelayedRequest::Extension { permit: &permit, params };
        let permitted = PermittedCall { tool: method, at, server, permit: &permit, sending };
        self.send_permitted(permitted, Some(shown), &mut may_sign_in, context, call).await
    }
}
