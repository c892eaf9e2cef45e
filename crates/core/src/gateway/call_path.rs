//! The path of a call, from a tool ID to the server's response. Other requests to servers share its
//! last part.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tracing::Instrument;

use crate::backend::{self, AgentHandle, RpcOutcome, StartPriority};
use crate::gateway::access::{AccessControl, check_conditions, check_open};
use crate::gateway::approvals::ApprovalQueue;
use crate::gateway::call_limits::GatewayLimiters;
use crate::gateway::caller::Caller;
use crate::gateway::confirmation::Confirmation;
use crate::gateway::error::{CallError, server_error};
use crate::gateway::failure_reason::{failure_reason, text_of_error, text_of_outcome};
use crate::gateway::input_required::{self, InputRequired};
use crate::gateway::instrumentation::{Instrumentation, call_outcome, outcome_of_error, rule};
use crate::gateway::macros::check_arguments;
use crate::gateway::macros::execution::{MacroRun, StepCall, step_events};
use crate::gateway::managed_server::ManagedServer;
use crate::gateway::models::Models;
use crate::gateway::progress::while_starting;
use crate::gateway::relay::RelayedRequest;
use crate::gateway::request_context::RequestContext;
use crate::gateway::request_target::RequestTarget;
use crate::gateway::response_cache::{ResponseCache, ResponseKey};
use crate::gateway::scope::GatewayScope;
use crate::gateway::servers::{CallTarget, Servers};
use crate::gateway::sign_in::SignIns;
use crate::gateway::startup::Startup;
use crate::gateway::tasks::{MAX_TASK_PAGES, TaskRegistry, task_id, too_many_tasks};
use crate::gateway::views::Views;
use crate::policy::{Permit, RiskReason};
use crate::telemetry::{
    CallContext, CallGuard, CallOutcome, CallStopReason, PrimitiveReadGuard, step_span,
};
use crate::toolbox::ExposedTool;
use mcp_workbench_names::{ServerRef, ToolId};
use mcp_workbench_settings::MacroConfig;
use mcp_workbench_wire::json::{self, RawJson};

/// Maximum size of cacheable arguments in bytes.
const MAX_ARGUMENTS: usize = 64 * 1024;

struct ToolCall<'a> {
    tool: &'a ToolId,
    at: &'a ServerRef,
    arguments: Option<&'a RawJson>,
    rest: &'a [json::Member],
}

/// A call that policy allows, and the request that it becomes.
struct PermittedCall<'a> {
    tool: &'a ToolId,
    at: &'a ServerRef,
    server: &'a ManagedServer,
    sending: RelayedRequest<'a>,
    /// `true` if the call may still prompt for a sign-in.
    may_sign_in: bool,
}

/// Relays calls and other requests from agents to servers. Uses all other components; none uses it.
pub struct CallPath {
    pub(crate) scope: Arc<GatewayScope>,
    pub(crate) servers: Arc<Servers>,
    pub(crate) views: Arc<Views>,
    pub(crate) startup: Arc<Startup>,
    pub(crate) access: AccessControl,
    pub(crate) limits: GatewayLimiters,
    pub(crate) sign_ins: Arc<SignIns>,
    pub(crate) models: Arc<Models>,
    pub(crate) tasks: Arc<TaskRegistry>,
    pub(crate) approvals: Arc<ApprovalQueue>,
    pub(crate) instrumentation: Arc<Instrumentation>,
}

impl CallPath {
    /// Calls a tool, starting its server if necessary. Returns the server's result or protocol
    /// error unchanged. Dropping the future cancels the call.
    ///
    /// `rest` has the request parameters other than the name, the arguments and `_meta`.
    pub async fn call(
        &self,
        tool: &ToolId,
        arguments: Option<&RawJson>,
        rest: &[json::Member],
        context: &RequestContext<'_>,
    ) -> Result<RpcOutcome, CallError> {
        let at = tool.server_ref();
        let target = self.servers.call_target(&at);
        let meters = target.as_ref().map(CallTarget::meters);
        let mut call = self.instrumentation.begin_call(tool, meters, arguments, context);
        let call_context = &mut call.context;
        let meta = call_context.take_meta();
        let context = &RequestContext { meta: meta.as_deref().unwrap_or(context.meta), ..*context };
        let called = match target {
            Err(error) => Err(error),
            Ok(CallTarget::Macros(_)) => {
                self.call_macro(tool, arguments, context, call_context).await
            }
            Ok(CallTarget::Server(server)) => {
                let wanted = ToolCall { tool, at: &at, arguments, rest };
                self.execute_call(&wanted, server, context, call_context).await
            }
        };
        self.end_call(call, &called, context);
        called
    }

    /// Runs the steps of a call, in the order of "Where a call is refused" in `ARCHITECTURE.md`.
    /// Fills in the details of `call`, even if it fails.
    async fn execute_call(
        &self,
        wanted: &ToolCall<'_>,
        server: &ManagedServer,
        context: &RequestContext<'_>,
        call: &mut CallContext<'_>,
    ) -> Result<RpcOutcome, CallError> {
        let ToolCall { tool, at, arguments: given, rest } = *wanted;
        check_session_state(tool, at, server, context)?;
        // The stored listing may be out of date, including the tool's schema.
        let may_sign_in = self.ensure_current_listing(at, server, context).await?;
        let snapshot = self.views.snapshot();
        check_open(&snapshot, at)?;
        let view = snapshot.view(&tool.toolbox);
        let shown = self.access.visible_tool(&view, tool, call)?;
        if self.scope.enforces_lock(at) {
            Box::pin(self.access.check_tool_drift(tool, shown, server, context, call)).await?;
        }
        let (permit, arguments) = self.access.authorize_call(tool, shown, given, call)?;
        let sending = RelayedRequest::Call { permit: &permit, arguments: arguments.as_ref(), rest };
        let key = self.response_cache_key(server, shown, sending, context);
        if let Some(answer) = key.as_deref().and_then(|(answers, key)| answers.get(key)) {
            call.end.is_cached = true;
            return Ok(RpcOutcome::Result(answer));
        }
        self.limits.check_rate_limits(tool, server, call).await?;
        self.confirm_permitted(tool, &permit, given, context, call).await?;
        let permitted = PermittedCall { tool, at, server, sending, may_sign_in };
        let outcome = self.relay_in_slots(permitted, context, call).await?;
        if let Some(kept) = key
            && !call.has_asked
            && !server.shared.is_interactive()
            && !self.scope.is_over_result_limit(&outcome)
        {
            let (answers, key) = *kept;
            answers.insert_if_cacheable(key, &outcome);
        }
        Ok(outcome)
    }

    /// Lists the server if that is necessary before a call. Returns `true` if the call may still
    /// prompt for a sign-in.
    async fn ensure_current_listing(
        &self,
        at: &ServerRef,
        server: &ManagedServer,
        context: &RequestContext<'_>,
    ) -> Result<bool, CallError> {
        if !self.access.needs_listing(at, server, context.agent, &self.views.snapshot()) {
            return Ok(true);
        }
        Ok(!Box::pin(self.ensure_listed_with_sign_in(at, server, context)).await?)
    }

    /// Asks the user if the permit requires it. Fails if the rules have changed meanwhile. `given`
    /// is shown to the user.
    async fn confirm_permitted(
        &self,
        tool: &ToolId,
        permit: &Permit,
        given: Option<&RawJson>,
        context: &RequestContext<'_>,
        call: &mut CallContext<'_>,
    ) -> Result<(), CallError> {
        let Some(concern) = permit.confirmation() else { return Ok(()) };
        Box::pin(self.confirm_call(tool, concern, given, context, call)).await?;
        // Nothing was sent yet, and the user took some time.
        if self.servers.is_replaced() || !permit.is_in_time(|| self.scope.clock.now()) {
            return Err(CallError::Refused {
                tool: tool.clone(),
                reason: "the rules have changed while it waited for the confirmation".to_owned(),
                hint: "call it again, so that the current rules apply".to_owned(),
            });
        }
        Ok(())
    }

    /// Waits for the slots of the concurrency limits and sends the request, again after a sign-in.
    async fn relay_in_slots(
        &self,
        permitted: PermittedCall<'_>,
        context: &RequestContext<'_>,
        call: &mut CallContext<'_>,
    ) -> Result<RpcOutcome, CallError> {
        let PermittedCall { tool, at, server, sending, mut may_sign_in } = permitted;
        loop {
            let places = self.limits.acquire_slots(tool, server, context, call).await?;
            let passed =
                Box::pin(self.relay(at, server, context, sending, &mut call.has_asked)).await;
            let error = match passed {
                Err(error) if may_sign_in => error,
                passed => return passed,
            };
            may_sign_in = false;
            // Release the slots while the user signs in.
            drop(places);
            Box::pin(self.recover_by_sign_in(error, at, "The call", context)).await?;
        }
    }

    /// Lists the server, after a sign-in if required. Returns `true` if so.
    async fn ensure_listed_with_sign_in(
        &self,
        at: &ServerRef,
        server: &ManagedServer,
        context: &RequestContext<'_>,
    ) -> Result<bool, CallError> {
        let Err(error) = self.startup.ensure_server_listed(at, server, context).await else {
            return Ok(false);
        };
        self.recover_by_sign_in(error, at, "The call", context).await?;
        self.startup.ensure_server_listed(at, server, context).await?;
        Ok(true)
    }

    /// Returns `Ok` if the error was a required sign-in and the user has completed it. `what` names
    /// the request in the prompt.
    async fn recover_by_sign_in(
        &self,
        error: CallError,
        at: &ServerRef,
        what: &str,
        context: &RequestContext<'_>,
    ) -> Result<(), CallError> {
        if error.wants_sign_in() && self.sign_ins.prompt_sign_in(at, what, context).await {
            return Ok(());
        }
        Err(error)
    }

    /// Relays a request to the agent's backend. If the server answers `input_required` to a legacy
    /// agent, asks the agent and repeats the request, at most `MAX_ROUNDS` times. Sets `has_asked`.
    async fn relay(
        &self,
        at: &ServerRef,
        server: &ManagedServer,
        context: &RequestContext<'_>,
        sending: RelayedRequest<'_>,
        has_asked: &mut bool,
    ) -> Result<RpcOutcome, CallError> {
        let failed = |error| server_error(at, error);
        let backend = server.backend(context.agent, &self.servers.pool).map_err(failed)?;
        let guard = backend.register_request(context.agent, context.log, context.events);
        if backend.connection().is_none() {
            let ready = backend.ensure_running(Some(context.agent), StartPriority::Call);
            Box::pin(while_starting(&at.server, context, ready)).await.map_err(failed)?;
        }
        let mut added = Vec::new();
        for _ in 0..input_required::MAX_ROUNDS {
            let sent = sending.send(&backend, &added, context, server.patience, &guard);
            let outcome = sent.await.map_err(failed)?;
            if !matches!(sending, RelayedRequest::Other { .. })
                && let Some(task) = task_id(&outcome)
            {
                let holder = self.tasks.holder(context.agent, context.session);
                backend.claim_task(context.agent, &task, &holder);
                Box::pin(self.tasks.learn(&task, &holder, at)).await;
            }
            let RpcOutcome::Result(result) = &outcome else { return Ok(outcome) };
            if !backend::may_require_input(result) {
                return Ok(outcome);
            }
            if !server.has_roots() && backend::requests_roots(result) {
                return Ok(input_required::roots_withheld_error());
            }
            if context.is_modern {
                return Ok(outcome);
            }
            let Some(wanted) = InputRequired::parse(result) else { return Ok(outcome) };
            *has_asked = true;
            added = match Box::pin(wanted.resolve(context.events)).await {
                Ok(added) => added,
                Err(outcome) => return Ok(outcome),
            };
        }
        Ok(input_required::too_many_rounds())
    }

    /// Returns the cache and the key of a call; `None` if it can't be cached or needs confirmation.
    /// A tool qualifies if its server sets both `readOnlyHint` and `idempotentHint` (MCP,
    /// server/tools). Boxed to keep the futures of all other calls small.
    fn response_cache_key(
        &self,
        server: &ManagedServer,
        shown: &ExposedTool,
        sending: RelayedRequest<'_>,
        context: &RequestContext<'_>,
    ) -> Option<Box<(ResponseCache, ResponseKey)>> {
        let answers = server.settings.answers.as_ref()?;
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
        let backend = server.backend(context.agent, &self.servers.pool).ok()?;
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

    /// Asks the user to confirm a call. `arguments` are as the agent gave them.
    async fn confirm_call(
        &self,
        tool: &ToolId,
        concern: RiskReason,
        arguments: Option<&RawJson>,
        context: &RequestContext<'_>,
        call: &mut CallContext<'_>,
    ) -> Result<(), CallError> {
        let config = &self.scope.config;
        let asking = Confirmation {
            tool,
            concern,
            arguments,
            secrets: self.models.secrets(),
            timeout: config.limits.confirm_timeout,
            observer: self.servers.pool.observer(),
        };
        let queue = self.has_open_queue().then_some(&*self.approvals);
        let confirmed = asking.obtain(queue, &config.approvals, context).await;
        call.end.is_confirmed = confirmed.is_ok();
        confirmed.map_err(|why| {
            call.end.stop_reason = Some(CallStopReason::Confirmation);
            let (reason, hint) = why.explain(concern);
            CallError::Refused { tool: tool.clone(), reason, hint: hint.to_owned() }
        })
    }

    /// Returns `true` if calls can wait for an approval outside the client.
    pub fn has_open_queue(&self) -> bool {
        self.approvals.is_open(&self.scope.config)
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
        let server = self.servers.require_server(&at);
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
        let grant = self.scope.policy.decide_extension_method(method, || self.scope.clock.now());
        call.set_rule(|| rule(grant.as_ref()));
        let unknown =
            |_| CallError::UnknownTool { wanted: method.tool.clone(), nearest: Vec::new() };
        let grant = grant.map_err(unknown)?;
        check_session_state(method, at, server, context)?;
        let may_sign_in = self.ensure_current_listing(at, server, context).await?;
        check_open(&self.views.snapshot(), at)?;
        if self.scope.enforces_lock(at) {
            // Fails if the definitions of the agent's own process have changed and block it.
            Box::pin(self.access.drift_of_dedicated_backend(at, server, context)).await?;
        }
        let permit = check_conditions(grant, method, Some(shown), call)?;
        let sending = RelayedRequest::Extension { permit: &permit, params };
        self.limits.check_rate_limits(method, server, call).await?;
        self.confirm_permitted(method, &permit, Some(shown), context, call).await?;
        let permitted = PermittedCall { tool: method, at, server, sending, may_sign_in };
        self.relay_in_slots(permitted, context, call).await
    }

    /// Calls a macro.
    ///
    /// The macro itself takes no slot and isn't rate-limited: its steps are, and with a slot it
    /// could wait for itself. Boxed because steps are calls, which makes the future's type
    /// recursive.
    fn call_macro<'a>(
        &'a self,
        tool: &'a ToolId,
        given: Option<&'a RawJson>,
        context: &'a RequestContext<'a>,
        call: &'a mut CallContext<'_>,
    ) -> Pin<Box<dyn Future<Output = Result<RpcOutcome, CallError>> + Send + 'a>> {
        Box::pin(async move {
            self.views.wait_for_stored_listings().await;
            let view = self.views.snapshot().view(&tool.toolbox);
            let shown = self.access.visible_tool(&view, tool, call)?;
            let config = self.scope.config.macro_at(tool);
            let config = config.ok_or_else(|| self.access.hidden_tool_error(tool, call))?;
            let given = given.filter(|given| given.as_bytes() != b"null");
            let (permit, arguments) = self.access.authorize_call(tool, shown, given, call)?;
            check_arguments(tool, shown, given)?;
            if let Some(concern) = permit.confirmation() {
                Box::pin(self.confirm_call(tool, concern, given, context, call)).await?;
            }
            Ok(self.run_macro(config, arguments, context).await)
        })
    }

    /// Runs the steps of a macro. After a failure, waits only for the steps already sent. Dropping
    /// the future cancels the running calls.
    async fn run_macro(
        &self,
        config: &MacroConfig,
        inputs: Option<RawJson>,
        context: &RequestContext<'_>,
    ) -> RpcOutcome {
        let (sender, heard) = step_events();
        let sent: Vec<_> = config.steps.iter().map(|_| AtomicBool::new(false)).collect();
        // Progress of parallel steps can't be merged. Server requests have to be answered during
        // the run, because the agent can't repeat the request of a single step.
        let of_steps = RequestContext {
            is_modern: false,
            wants_progress: false,
            events: context.events.map(|_| &sender),
            ..*context
        };
        let call = |at: usize, given: Option<RawJson>| -> StepCall<'_> {
            let context = RequestContext { sent_flag: Some(&sent[at]), ..of_steps };
            let tool = &config.steps[at].tool;
            let call = async move { self.call(tool, given.as_ref(), &[], &context).await };
            Box::pin(call.instrument(step_span()))
        };
        let run = MacroRun::new(config, inputs, self.limits.max_concurrency(), &sent, call);
        run.run(heard, context, || self.servers.is_replaced()).await
    }

    /// Relays a request other than `tools/call`, with the same semantics as [`Self::call`].
    pub async fn request(
        &self,
        at: &ServerRef,
        target: &RequestTarget,
        params: &[json::Member],
        context: &RequestContext<'_>,
    ) -> Result<RpcOutcome, CallError> {
        let mut read = self.instrumentation.begin_read(at, target, context);
        let passed = self.admit_and_relay(at, target, params, context, read.as_mut()).await;
        if let Some(read) = read {
            let (ending, bytes) = call_outcome(&passed, context);
            read.end(ending, bytes);
        }
        self.access.mask_missing_resource(at, target, passed, context).await
    }

    async fn admit_and_relay(
        &self,
        at: &ServerRef,
        target: &RequestTarget,
        params: &[json::Member],
        context: &RequestContext<'_>,
        mut read: Option<&mut PrimitiveReadGuard<'_>>,
    ) -> Result<RpcOutcome, CallError> {
        let server = self.servers.require_server(at)?;
        let mut may_sign_in = self.sign_ins.can_prompt_during(at, target.method(), context);
        let params = target.with_identity(params);
        loop {
            let passed = async {
                let admission = self.access.admit(at, target, context, read.as_deref_mut()).await?;
                self.access.check_definitions(at, target, context).await?;
                let (method, params) = (target.method(), &params[..]);
                let sending = RelayedRequest::Other { admission: &admission, method, params };
                self.relay(at, server, context, sending, &mut false).await
            };
            match passed.await {
                Err(error) if may_sign_in => {
                    may_sign_in = false;
                    Box::pin(self.recover_by_sign_in(error, at, "The request", context)).await?;
                }
                passed => return passed,
            }
        }
    }

    /// Subscribes an agent to a resource, which it knows as `as_known`.
    pub async fn subscribe(
        &self,
        at: &ServerRef,
        uri: &str,
        as_known: &str,
        (agent, caller): (&AgentHandle, &Caller),
    ) -> Result<RpcOutcome, CallError> {
        let (server, target) =
            (self.servers.require_server(at)?, RequestTarget::Resource(uri.to_owned()));
        let context = RequestContext { caller, ..RequestContext::detached(agent) };
        let admission = self.access.admit(at, &target, &context, None).await?;
        self.access.check_definitions(at, &target, &context).await?;
        let backend =
            server.backend(agent, &self.servers.pool).map_err(|error| server_error(at, error))?;
        let limits = &self.scope.config.limits.per_caller;
        let subscribed = backend.subscribe(&admission, agent, (uri, as_known), limits).await?;
        let subscribed = subscribed.map_err(|error| server_error(at, error));
        self.access.mask_missing_resource(at, &target, subscribed, &context).await
    }

    /// Cancels an agent's subscription to a resource.
    pub async fn unsubscribe(
        &self,
        at: &ServerRef,
        uri: &str,
        agent: &AgentHandle,
    ) -> Result<(), CallError> {
        self.servers.require_server(at)?.current_backend(agent).unsubscribe(agent, uri).await;
        Ok(())
    }

    /// Returns a server's tasks that this agent owns, on one page: a cursor could reveal another
    /// agent's task.
    pub async fn list_own_tasks(
        &self,
        at: &ServerRef,
        params: &[json::Member],
        context: &RequestContext<'_>,
    ) -> Result<RpcOutcome, CallError> {
        let rest: Vec<_> = params.iter().filter(|(key, _)| &**key != "cursor").cloned().collect();
        let (mut own, mut cursor): (Vec<RawJson>, Option<RawJson>) = (Vec::new(), None);
        let mut room = self.scope.config.limits.max_message_bytes;
        for _ in 0..MAX_TASK_PAGES {
            let cursors = cursor.take().map(|cursor| ("cursor".into(), cursor));
            let params: Vec<_> = rest.iter().cloned().chain(cursors).collect();
            let outcome =
                self.request(at, &RequestTarget::Task("tasks/list"), &params, context).await?;
            let RpcOutcome::Result(page) = &outcome else { return Ok(outcome) };
            match self.tasks.own_tasks_on(page, at, &mut room, context).await {
                Ok(tasks) => own.extend(tasks),
                Err(error) => return Ok(error),
            }
            cursor = page.member("nextCursor").filter(|next| next.as_bytes() != b"null");
            if cursor.is_none() {
                let list = page.without_member("nextCursor");
                let list = list.and_then(|list| list.with_member("tasks", &RawJson::encode(&own)));
                return Ok(RpcOutcome::from_edit(list));
            }
        }
        Ok(too_many_tasks())
    }

    /// Reports the end of a call.
    pub(crate) fn end_call(
        &self,
        mut call: CallGuard<'_>,
        called: &Result<RpcOutcome, CallError>,
        context: &RequestContext<'_>,
    ) {
        if let Err(CallError::Refused { reason, .. }) = called {
            call.context.set_denial_reason(reason);
        }
        let (outcome, bytes) = call_outcome(called, context);
        if call.context.is_watched && !outcome.is_ok() {
            call.context.end.failure = self.failure_reason(&text_of_outcome(called), &call.context);
        }
        call.end(outcome, bytes);
    }

    /// Reports a call whose tool name didn't resolve. `error` is `None` for an unknown name.
    pub fn note_unresolved(
        &self,
        name: &str,
        arguments: Option<&RawJson>,
        error: Option<&CallError>,
        context: &RequestContext<'_>,
    ) {
        let mut call = self.instrumentation.begin_unresolved(name, arguments, context);
        if let (true, Some(error)) = (call.context.is_watched, error) {
            call.context.end.failure = self.failure_reason(&text_of_error(error), &call.context);
        }
        call.end(error.map_or(CallOutcome::UnknownTool, outcome_of_error), None);
    }

    fn failure_reason(&self, text: &str, call: &CallContext<'_>) -> Option<String> {
        failure_reason(text, call, &self.servers, &self.models)
    }
}

/// Fails for the first call after a takeover that lost the server's session state.
fn check_session_state(
    tool: &ToolId,
    at: &ServerRef,
    server: &ManagedServer,
    context: &RequestContext<'_>,
) -> Result<(), CallError> {
    if !server.is_isolated() || !context.agent.take_loss(at) {
        return Ok(());
    }
    Err(CallError::Refused {
        tool: tool.clone(),
        reason: format!(
            "this session moved to another replica of the workbench, and server `{}` lost its state",
            tool.server
        ),
        hint: "repeat the calls that created the state; the next one restarts the server"
            .to_owned(),
    })
}
