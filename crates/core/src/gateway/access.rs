//! Access control: whether an agent can call a tool, or use a resource, prompt or completion.
//!
//! If rules or the lock hide some resources of a server, the server's own error for a missing
//! resource would let an agent tell hidden ones from missing ones. Such errors are replaced by the
//! gateway's own.
//!
//! The lock withholds definitions that differ from `workbench.lock`. A listing is compared with the
//! lock before views are built from it ([`drift`](crate::gateway::drift)), and policy decides what
//! to do about drift. Withheld definitions are removed from the listing, so that nothing shows them;
//! a blocked server lists nothing. The comparison uses the raw listing, before the configuration's
//! changes, whether it is live or stored. If the lock is enforced, a server is started and listed
//! before a call.

use std::sync::Arc;

use crate::backend::{AgentHandle, AgentId, BackendError, RpcOutcome, StartPriority};
use crate::catalog::{Listing, PrimitiveKind, may_expand_to};
use crate::gateway::drift::ListingDrift;
use crate::gateway::error::{CallError, server_error};
use crate::gateway::instrumentation::{Instrumentation, rule};
use crate::gateway::managed_server::ManagedServer;
use crate::gateway::progress::while_starting;
use crate::gateway::request_context::RequestContext;
use crate::gateway::request_target::RequestTarget;
use crate::gateway::scope::GatewayScope;
use crate::gateway::servers::Servers;
use crate::gateway::snapshot::Snapshot;
use crate::gateway::startup::Startup;
use crate::gateway::views::Views;
use crate::policy::{
    Admission, Denial, DriftAction, Grant, Permit, Refusal, ToolTraits, may_be_same_resource,
};
use crate::telemetry::{CallContext, PrimitiveReadGuard};
use crate::toolbox::{ExposedTool, NotAnObjectError, ToolboxView};
use mcp_workbench_names::{ServerRef, ToolId, namespaced_name};
use mcp_workbench_wire::json::RawJson;

/// Error code of a URL elicitation (MCP 2025-11-25, client/elicitation).
const URL_ELICITATION_REQUIRED: &[u8] = b"-32042";

/// Decides on the calls and requests of a gateway's agents.
pub struct AccessControl {
    scope: Arc<GatewayScope>,
    servers: Arc<Servers>,
    views: Arc<Views>,
    startup: Arc<Startup>,
    instrumentation: Arc<Instrumentation>,
}

impl AccessControl {
    pub(crate) fn new(
        scope: &Arc<GatewayScope>,
        servers: &Arc<Servers>,
        views: &Arc<Views>,
        startup: &Arc<Startup>,
        instrumentation: &Arc<Instrumentation>,
    ) -> Self {
        Self {
            scope: Arc::clone(scope),
            servers: Arc::clone(servers),
            views: Arc::clone(views),
            startup: Arc::clone(startup),
            instrumentation: Arc::clone(instrumentation),
        }
    }

    /// Returns the visible tool. If there is none, records which rule hides it.
    pub(crate) fn visible_tool<'v>(
        &self,
        view: &'v ToolboxView,
        tool: &ToolId,
        call: &mut CallContext<'_>,
    ) -> Result<&'v ExposedTool, CallError> {
        let shown = view.tool(tool.server.as_str(), &tool.tool);
        shown.ok_or_else(|| self.hidden_tool_error(tool, call))
    }

    /// Checks a visible tool against the lock, by the definitions of the agent's own backend.
    pub(crate) async fn check_tool_drift(
        &self,
        tool: &ToolId,
        shown: &ExposedTool,
        server: &ManagedServer,
        context: &RequestContext<'_>,
        call: &mut CallContext<'_>,
    ) -> Result<(), CallError> {
        let own = shown.own_id().tool;
        let apart = self.drift_of_dedicated_backend(&tool.server_ref(), server, context).await?;
        if apart.is_some_and(|judged| judged.withholds("tool", |kept| kept == own)) {
            return Err(self.hidden_tool_error(tool, call));
        }
        Ok(())
    }

    /// Records which rule hides a tool, and returns the error for the agent.
    pub(crate) fn hidden_tool_error(&self, tool: &ToolId, call: &mut CallContext<'_>) -> CallError {
        call.mark_not_found(|| {
            let server = self.servers.managed_server(&tool.server_ref())?;
            Some(server.shared.connection()?.listed().listing)
        });
        let decision =
            self.scope.policy.decide(tool, ToolTraits::default(), || self.scope.clock.now());
        call.set_rule(|| rule(decision.as_ref()));
        self.views.unknown_tool_error(tool)
    }

    /// Returns the permit for a call and the arguments to send. Only the server validates them.
    pub(crate) fn authorize_call(
        &self,
        tool: &ToolId,
        shown: &ExposedTool,
        given: Option<&RawJson>,
        call: &mut CallContext<'_>,
    ) -> Result<(Permit, Option<RawJson>), CallError> {
        // The view has no denied tools, so a denied tool looks like a missing one.
        let grant =
            self.scope.policy.decide(&shown.own_id(), shown.traits, || self.scope.clock.now());
        call.set_rule(|| rule(grant.as_ref()));
        let grant = grant.map_err(|_| self.views.unknown_tool_error(tool))?;
        let arguments = shown.apply_pinned(given).map_err(|NotAnObjectError(found)| {
            CallError::NotAnObject { tool: tool.clone(), found }
        })?;
        Ok((check_conditions(grant, tool, arguments.as_ref(), call)?, arguments))
    }

    /// Returns `true` if the configuration or the server marks the tool as dangerous.
    pub fn is_dangerous(&self, tool: &ExposedTool) -> bool {
        let grant =
            self.scope.policy.decide(&tool.own_id(), tool.traits, || self.scope.clock.now());
        grant.is_ok_and(|grant| grant.is_dangerous())
    }

    /// Returns the method at each server whose entry lists it and whose rules allow it. If rules
    /// deny it everywhere, returns it at the first server that lists it, so that the denial can be
    /// recorded.
    pub fn find_extension_method(&self, method: &str) -> Vec<ToolId> {
        let everywhere = self.scope.config.servers().map(|(toolbox, server)| ToolId {
            toolbox: toolbox.name.clone(),
            server: server.name.clone(),
            tool: method.to_owned(),
        });
        let mut listed: Vec<_> =
            everywhere.filter(|method| self.scope.policy.lists_extension_method(method)).collect();
        let is_allowed = |method: &ToolId| {
            self.scope.policy.decide_extension_method(method, || self.scope.clock.now()).is_ok()
        };
        if listed.iter().any(is_allowed) {
            listed.retain(is_allowed);
        } else {
            listed.truncate(1);
        }
        listed
    }

    /// Decides on a request. Starts the server if its listing is needed and unknown.
    pub(crate) async fn admit(
        &self,
        at: &ServerRef,
        target: &RequestTarget,
        context: &RequestContext<'_>,
        mut read: Option<&mut PrimitiveReadGuard<'_>>,
    ) -> Result<Admission, CallError> {
        let is_of_resource =
            matches!(target, RequestTarget::Resource(_) | RequestTarget::ResourceCompletion(_));
        if is_of_resource && self.scope.policy.restricts_resources(at) {
            let server = self.servers.require_server(at)?;
            if self.views.snapshot().version(server.shared.id()) == 0 {
                self.startup.ensure_server_listed(at, server, context).await?;
            }
            // A server that isn't opened has no listing to decide by.
            check_open(&self.views.snapshot(), at)?;
            if let RequestTarget::ResourceCompletion(uri) = target {
                self.check_completed(at, uri)?;
            }
        }
        let decided = self.decide_on(at, target);
        let denial = match decided {
            Ok(admission) => return Ok(admission),
            Err(denial) => denial,
        };
        if let Some(read) = &mut read {
            read.set_rule(denial.rule().map(ToString::to_string));
        }
        let (what, name, error) = match target {
            RequestTarget::Task(_) => return Err(unknown_server(at)),
            _ if denial.rule().is_none() => return Err(unknown_server(at)),
            RequestTarget::Resource(uri) => {
                (PrimitiveKind::Resource, uri, unknown("resource", uri))
            }
            RequestTarget::ResourceCompletion(uri) => {
                (PrimitiveKind::Resource, uri, unknown("resource template", uri))
            }
            RequestTarget::Prompt(name) | RequestTarget::PromptCompletion(name) => {
                (PrimitiveKind::Prompt, name, unknown("prompt", name))
            }
        };
        if read.is_none() {
            self.instrumentation.note_denied(at, what, name, &denial, context);
        }
        Err(error)
    }

    /// Rejects the completion of unlisted templates. A server completes any URI, so its values
    /// would disclose hidden resources.
    fn check_completed(&self, at: &ServerRef, uri: &str) -> Result<(), CallError> {
        let is_shown = lists_uri(&self.views.shown_listing(at), uri);
        if is_shown { Ok(()) } else { Err(unknown("resource template", uri)) }
    }

    fn decide_on(&self, at: &ServerRef, target: &RequestTarget) -> Result<Admission, Denial> {
        match target {
            RequestTarget::Resource(uri) | RequestTarget::ResourceCompletion(uri) => {
                self.scope.policy.admit_resource(at, uri, &self.views.shown_listing(at))
            }
            RequestTarget::Prompt(name) | RequestTarget::PromptCompletion(name) => {
                self.scope.policy.admit_prompt(at, name)
            }
            RequestTarget::Task(_) => self.scope.policy.admit(&at.toolbox, &at.server),
        }
    }

    /// Replaces a server's error about an unlisted resource if some of its resources are hidden.
    pub(crate) async fn mask_missing_resource(
        &self,
        at: &ServerRef,
        target: &RequestTarget,
        passed: Result<RpcOutcome, CallError>,
        context: &RequestContext<'_>,
    ) -> Result<RpcOutcome, CallError> {
        let Ok(RpcOutcome::Error(error)) = &passed else { return passed };
        let (what, uri) = match target {
            RequestTarget::Resource(uri) => ("resource", uri),
            RequestTarget::ResourceCompletion(uri) => ("resource template", uri),
            RequestTarget::Prompt(_)
            | RequestTarget::PromptCompletion(_)
            | RequestTarget::Task(_) => return passed,
        };
        let asks =
            error.member("code").is_some_and(|code| code.as_bytes() == URL_ELICITATION_REQUIRED);
        if asks || lists_uri(&self.views.shown_listing(at), uri) {
            return passed;
        }
        let is_kept_back = self.scope.policy.restricts_resources(at)
            || Box::pin(self.has_withheld_resources(at, context)).await;
        if !is_kept_back {
            return passed;
        }
        tracing::debug!(server = %at.server, uri, "replaced an error about a hidden resource: {}", error.as_str());
        Err(unknown(what, uri))
    }

    /// Returns `true` if the server has to be listed before a request: it never was, or the lock is
    /// enforced and the shown listing may be outdated.
    pub(crate) fn needs_listing(
        &self,
        at: &ServerRef,
        server: &ManagedServer,
        agent: &AgentHandle,
        snapshot: &Snapshot,
    ) -> bool {
        let shown = snapshot.version(server.shared.id());
        let may_differ = || match server.shared.connection() {
            Some(live) => live.listed().version > shown,
            None => server.current_backend(agent).id() == server.shared.id(),
        };
        shown == 0 || (self.scope.enforces_lock(at) && may_differ())
    }

    /// Returns the drift of an agent's dedicated backend; `None` if it has none. Starts that
    /// backend if it isn't running. Fails if it is blocked.
    pub(crate) async fn drift_of_dedicated_backend(
        &self,
        at: &ServerRef,
        server: &ManagedServer,
        context: &RequestContext<'_>,
    ) -> Result<Option<Arc<ListingDrift>>, CallError> {
        let Some(of_file) = self.scope.server(at) else { return Ok(None) };
        let failed = |error| server_error(at, error);
        let backend = server.backend(context.agent, &self.servers.pool).map_err(failed)?;
        if backend.id() == server.shared.id() {
            return Ok(None);
        }
        let live = if let Some(live) = backend.connection() {
            live
        } else {
            backend.attach(context.agent);
            let ready = backend.ensure_running(Some(context.agent), StartPriority::Call);
            Box::pin(while_starting(&at.server, context, ready)).await.map_err(failed)?
        };
        let listing = live.listed().listing;
        let name = || self.scope.config.lock_key(at.toolbox.as_str(), of_file);
        let tell = |judged: &ListingDrift| {
            self.instrumentation.listeners.emit(judged.event(at, &judged.accepting()));
        };
        let locks = &self.scope.interner.locks;
        let judged = locks.judged((at, of_file), &listing, &self.scope.policy, name, tell);
        match judged {
            Some(judged) if judged.action == DriftAction::Deny => {
                Err(failed(BackendError::StartFailed(Arc::new(judged.closed()))))
            }
            judged => Ok(judged),
        }
    }

    /// Checks a request against the lock; starts and lists the server if needed. Fails if the
    /// server is blocked or the primitive is withheld.
    pub(crate) async fn check_definitions(
        &self,
        at: &ServerRef,
        target: &RequestTarget,
        context: &RequestContext<'_>,
    ) -> Result<(), CallError> {
        let all = self.current_drift(at, context).await?;
        match target {
            RequestTarget::Prompt(name) | RequestTarget::PromptCompletion(name) => {
                let is_withheld =
                    all.iter().any(|judged| judged.withholds("prompt", |kept| kept == name));
                let unknown =
                    || CallError::UnknownPrimitive { what: "prompt", wanted: name.clone() };
                if is_withheld { Err(unknown()) } else { Ok(()) }
            }
            RequestTarget::Resource(uri) => self.check_address(at, uri, &all),
            RequestTarget::ResourceCompletion(uri) => {
                self.check_address(at, uri, &all)?;
                if has_withheld_resource(&all) { self.check_completed(at, uri) } else { Ok(()) }
            }
            RequestTarget::Task(_) => Ok(()),
        }
    }

    /// Returns `true` if resources or templates of the server are withheld, or if that can't be
    /// determined.
    async fn has_withheld_resources(&self, at: &ServerRef, context: &RequestContext<'_>) -> bool {
        let Ok(all) = self.current_drift(at, context).await else { return true };
        has_withheld_resource(&all)
    }

    /// Returns the drift of the shared listing and of the agent's dedicated backend; empty unless
    /// the lock is enforced. Starts the server if its listing is unknown. Fails if the server is
    /// blocked.
    async fn current_drift(
        &self,
        at: &ServerRef,
        context: &RequestContext<'_>,
    ) -> Result<Vec<Arc<ListingDrift>>, CallError> {
        if !self.scope.enforces_lock(at) {
            return Ok(Vec::new());
        }
        let server = self.servers.require_server(at)?;
        if self.needs_listing(at, server, context.agent, &self.views.snapshot()) {
            self.startup.ensure_server_listed(at, server, context).await?;
        }
        check_open(&self.views.snapshot(), at)?;
        let apart = self.drift_of_dedicated_backend(at, server, context).await?;
        Ok(self.views.snapshot().drift(at).cloned().into_iter().chain(apart).collect())
    }

    /// Refuses the URI of a withheld resource, and one that only matches withheld templates.
    fn check_address(
        &self,
        at: &ServerRef,
        uri: &str,
        judged: &[Arc<ListingDrift>],
    ) -> Result<(), CallError> {
        let unknown =
            || Err(CallError::UnknownPrimitive { what: "resource", wanted: uri.to_owned() });
        let withholds = |kind: &str, is_meant: &dyn Fn(&str) -> bool| {
            judged.iter().any(|one| one.withholds(kind, is_meant))
        };
        if withholds("resource", &|kept| kept == uri) {
            return unknown();
        }
        let is_of = |template: &str| template == uri || may_expand_to(template, uri);
        let is_kept = |template: &str| withholds("resource template", &|kept| kept == template);
        let is_of_withheld = withholds("resource template", &is_of);
        let may_be_withheld = withholds("resource", &|kept| may_be_same_resource(uri, kept));
        if !is_of_withheld && !may_be_withheld {
            return Ok(());
        }
        let view = self.views.snapshot().view(&at.toolbox);
        let part = view.part(at.server.as_str());
        let is_shown = part.is_some_and(|part| {
            part.resources().iter().any(|one| one.uri == uri)
                || !may_be_withheld
                    && part.templates().iter().any(|one| is_of(&one.uri) && !is_kept(&one.uri))
        });
        if is_shown { Ok(()) } else { unknown() }
    }

    /// Records a denial if the prompt with this name exists and a rule hides it.
    pub fn record_denied_prompt(&self, wanted: &str, context: &RequestContext<'_>) {
        let snapshot = self.views.snapshot();
        for part in snapshot.parts() {
            let at = &part.server_ref;
            let toolbox = self.scope.config.toolbox(at.toolbox.as_str());
            let namespace = toolbox.map(|toolbox| &*toolbox.namespace).unwrap_or_default();
            let is_meant = |own: &str| {
                own == wanted
                    || namespaced_name(namespace, own) == wanted
                    || snapshot.full_prompt(at, own) == wanted
            };
            for prompt in part.listing().prompts.iter().filter(|prompt| is_meant(&prompt.name)) {
                if let Err(denial) = self.scope.policy.admit_prompt(at, &prompt.name) {
                    self.instrumentation.note_denied(
                        at,
                        PrimitiveKind::Prompt,
                        &prompt.name,
                        &denial,
                        context,
                    );
                    return;
                }
            }
        }
    }

    /// Moves an agent to the gateway of `next`: unsubscribes it from servers and resources that it
    /// lost.
    pub fn move_agent(&self, agent: AgentId, next: &Self) {
        let kept = next.servers.shared_backend_ids();
        let servers = self.servers.managed_servers();
        for server in servers.filter(|server| !kept.contains(&server.shared.id())) {
            server.shared.detach(agent);
        }
        for (at, server) in next.servers.servers_in_order() {
            server.shared.recheck_subscriptions(agent, |uri| {
                next.decide_on(&at, &RequestTarget::Resource(uri.to_owned())).ok()
            });
        }
    }
}

/// Checks the conditions on arguments. Returns the permit for the call.
pub(crate) fn check_conditions(
    grant: Grant,
    tool: &ToolId,
    arguments: Option<&RawJson>,
    call: &mut CallContext<'_>,
) -> Result<Permit, CallError> {
    let permit = grant.permit(arguments.map(RawJson::as_bytes));
    let permit = permit.map_err(|Refusal { rule, reason, hint }| {
        call.set_rule(|| Some(rule.to_string().into()));
        CallError::Refused { tool: tool.clone(), reason, hint }
    })?;
    call.end.is_dangerous = permit.danger().is_some();
    Ok(permit)
}

/// Fails if the lock blocks the server.
pub(crate) fn check_open(snapshot: &Snapshot, at: &ServerRef) -> Result<(), CallError> {
    snapshot.blocked_error(at).map_or(Ok(()), |error| Err(server_error(at, error)))
}

fn unknown(what: &'static str, wanted: &str) -> CallError {
    CallError::UnknownPrimitive { what, wanted: wanted.to_owned() }
}

fn has_withheld_resource(judged: &[Arc<ListingDrift>]) -> bool {
    let kinds = ["resource", "resource template"];
    judged.iter().any(|judged| kinds.iter().any(|kind| judged.withholds(kind, |_| true)))
}

fn unknown_server(at: &ServerRef) -> CallError {
    CallError::UnknownServer {
        toolbox: at.toolbox.clone(),
        wanted: at.server.to_string(),
        known: Vec::new(),
    }
}

fn lists_uri(listing: &Listing, uri: &str) -> bool {
    listing.resources.iter().any(|resource| resource.uri == uri)
        || listing.templates.iter().any(|template| template.uri == uri)
}
