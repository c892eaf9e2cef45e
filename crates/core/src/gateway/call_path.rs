//! The path of a call, from a tool ID to the server's response. Other requests to servers share its
//! last part.

use std::sync::atomic::Ordering;

use crate::backend::{self, RpcOutcome, StartPriority};
use crate::gateway::access::RequestTarget;
use crate::gateway::error::server_error;
use crate::gateway::input_required::{self, InputRequired};
use crate::gateway::instrumentation::{call_outcome, rule};
use crate::gateway::managed_server::{ManagedServer, ServerEntry};
use crate::gateway::open_toolbox::while_starting;
use crate::gateway::relay::RelayedRequest;
use crate::gateway::tasks::task_id;
use crate::gateway::{CallError, Gateway, RequestContext, wait_until_listed};
use crate::json::{self, RawJson};
use crate::name::{ServerRef, ToolId};
use crate::policy::{Grant, Permit, Refusal, ToolTraits};
use crate::telemetry::{CallContext, PrimitiveReadGuard, ServerMetrics};
use crate::toolbox::{ExposedTool, NotAnObjectError};

struct ToolCall<'a> {
    tool: &'a ToolId,
    at: &'a ServerRef,
    arguments: Option<&'a RawJson>,
    rest: &'a [json::Member],
}

/// A call that policy allows, and the request that it becomes.
pub(crate) struct PermittedCall<'a> {
    pub(crate) tool: &'a ToolId,
    pub(crate) at: &'a ServerRef,
    pub(crate) server: &'a ManagedServer,
    pub(crate) permit: &'a Permit,
    pub(crate) sending: RelayedRequest<'a>,
}

enum CallTarget<'a> {
    Server(&'a ManagedServer),
    /// The gateway runs the macro itself.
    Macros(&'a ServerMetrics),
}

impl<'a> CallTarget<'a> {
    fn meters(&self) -> &'a ServerMetrics {
        match self {
            Self::Server(server) => &server.meters,
            Self::Macros(meters) => meters,
        }
    }
}

impl Gateway {
    fn target(&self, at: &ServerRef) -> Result<CallTarget<'_>, CallError> {
        match self.servers.get(at) {
            Some(ServerEntry::Managed(server)) => Ok(CallTarget::Server(server)),
            Some(ServerEntry::Macros(meters)) => Ok(CallTarget::Macros(meters)),
            _ => self.require_server(at).map(CallTarget::Server),
        }
    }

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
        let target = self.target(&at);
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

    /// Fills in the details of `call`, even if it fails.
    async fn execute_call(
        &self,
        wanted: &ToolCall<'_>,
        server: &ManagedServer,
        context: &RequestContext<'_>,
        call: &mut CallContext<'_>,
    ) -> Result<RpcOutcome, CallError> {
        let ToolCall { tool, at, arguments: given, rest } = *wanted;
        if server.is_isolated() && context.agent.take_loss(at) {
            return Err(session_state_lost(tool));
        }
        // The stored listing may be out of date, including the tool's schema.
        let mut may_sign_in = self.ensure_current_listing(at, server, context).await?;
        let snapshot = self.snapshot();
        snapshot.check_open(at)?;
        let view = snapshot.view(&tool.toolbox);
        let Some(shown) = view.tool(tool.server.as_str(), &tool.tool) else {
            self.record_hidden_tool(tool, call);
            return Err(self.unknown_tool_error(tool));
        };
        if self.enforces_lock(at) {
            let own = shown.own_id().tool;
            let apart = Box::pin(self.drift_of_dedicated_backend(at, server, context)).await?;
            if apart.is_some_and(|judged| judged.withholds("tool", |kept| kept == own)) {
                self.record_hidden_tool(tool, call);
                return Err(self.unknown_tool_error(tool));
            }
        }
        let (permit, arguments) = self.authorize_call(tool, shown, given, call)?;
        let sending = RelayedRequest::Call { permit: &permit, arguments: arguments.as_ref(), rest };
        let key = self.response_cache_key(server, shown, sending, context);
        if let Some(answer) = key.as_deref().and_then(|(answers, key)| answers.get(key)) {
            call.details.is_cached = true;
            return Ok(RpcOutcome::Result(answer));
        }
        let permitted = PermittedCall { tool, at, server, permit: &permit, sending };
        let outcome =
            self.send_permitted(permitted, given, &mut may_sign_in, context, call).await?;
        if let Some(kept) = key
            && !call.has_asked
            && !server.shared.is_interactive()
            && !self.results.is_over_limit(&outcome)
        {
            let (answers, key) = *kept;
            answers.insert_if_cacheable(key, &outcome);
        }
        Ok(outcome)
    }

    /// Lists the server if that is necessary before a call. Returns `true` if the call may still
    /// prompt for a sign-in.
    pub(crate) async fn ensure_current_listing(
        &self,
        at: &ServerRef,
        server: &ManagedServer,
        context: &RequestContext<'_>,
    ) -> Result<bool, CallError> {
        if !self.needs_listing(at, server, context.agent, &self.snapshot()) {
            return Ok(true);
        }
        Ok(!Box::pin(self.ensure_listed_with_sign_in(at, server, context)).await?)
    }

    /// Enforces rate limits, the confirmation and concurrency limits, then sends the request.
    /// `given` is shown to the user who confirms it.
    pub(crate) async fn send_permitted(
        &self,
        permitted: PermittedCall<'_>,
        given: Option<&RawJson>,
        may_sign_in: &mut bool,
        context: &RequestContext<'_>,
        call: &mut CallContext<'_>,
    ) -> Result<RpcOutcome, CallError> {
        let PermittedCall { tool, at, server, permit, sending } = permitted;
        if self.limiters.is_rate_limited(server) {
            Box::pin(self.limiters.check_rate_limits(tool, server, call)).await?;
        }
        if let Some(concern) = permit.confirmation() {
            Box::pin(self.confirm_call(tool, concern, given, context, call)).await?;
            // Nothing was sent yet, and the user took some time.
            if self.is_replaced.load(Ordering::Relaxed) || !permit.is_in_time(|| self.clock.now()) {
                return Err(CallError::Refused {
                    tool: tool.clone(),
                    reason: "the rules have changed while it waited for the confirmation"
                        .to_owned(),
                    hint: "call it again, so that the current rules apply".to_owned(),
                });
            }
        }
        loop {
            let places = if self.limiters.is_concurrency_limited(server) {
                Some(Box::pin(self.limiters.acquire_slots(tool, server, context, call)).await?)
            } else {
                None
            };
            let passed =
                Box::pin(self.relay(at, server, context, sending, &mut call.has_asked)).await;
            let error = match passed {
                Err(error) if *may_sign_in => error,
                passed => return passed,
            };
            *may_sign_in = false;
            // Release the slots while the user signs in.
            drop(places);
            Box::pin(self.recover_by_sign_in(error, at, "The call", context)).await?;
        }
    }

    pub(crate) async fn ensure_server_listed(
        &self,
        at: &ServerRef,
        server: &ManagedServer,
        context: &RequestContext<'_>,
    ) -> Result<(), CallError> {
        let failed = |error| server_error(at, error);
        server.backend(context.agent, &self.pool).map_err(failed)?.attach(context.agent);
        let agent = context.agent.clone();
        let started =
            wait_until_listed(&server.shared, self.snapshots(), agent, StartPriority::Call);
        Box::pin(while_starting(&at.server, context, started)).await.map_err(failed)
    }

    /// Like [`Self::ensure_server_listed`], after a sign-in if required. Returns `true` if so.
    async fn ensure_listed_with_sign_in(
        &self,
        at: &ServerRef,
        server: &ManagedServer,
        context: &RequestContext<'_>,
    ) -> Result<bool, CallError> {
        let Err(error) = self.ensure_server_listed(at, server, context).await else {
            return Ok(false);
        };
        self.recover_by_sign_in(error, at, "The call", context).await?;
        self.ensure_server_listed(at, server, context).await?;
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
        if error.wants_sign_in() && self.prompt_sign_in(at, what, context).await {
            return Ok(());
        }
        Err(error)
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
        let grant = self.policy.decide(&shown.own_id(), shown.traits, || self.clock.now());
        call.set_rule(|| rule(grant.as_ref()));
        let grant = grant.map_err(|_| self.unknown_tool_error(tool))?;
        let arguments = shown.apply_pinned(given).map_err(|NotAnObjectError(found)| {
            CallError::NotAnObject { tool: tool.clone(), found }
        })?;
        Ok((check_conditions(grant, tool, arguments.as_ref(), call)?, arguments))
    }

    /// Returns `true` if the configuration or the server marks the tool as dangerous.
    pub fn is_dangerous(&self, tool: &ExposedTool) -> bool {
        let grant = self.policy.decide(&tool.own_id(), tool.traits, || self.clock.now());
        grant.is_ok_and(|grant| grant.is_dangerous())
    }

    /// Relays a request other than `tools/call`, with the same semantics as [`Gateway::call`].
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
        self.mask_missing_resource(at, target, passed, context).await
    }

    async fn admit_and_relay(
        &self,
        at: &ServerRef,
        target: &RequestTarget,
        params: &[json::Member],
        context: &RequestContext<'_>,
        mut read: Option<&mut PrimitiveReadGuard<'_>>,
    ) -> Result<RpcOutcome, CallError> {
        let server = self.require_server(at)?;
        let mut may_sign_in = self.can_prompt_during(at, target.method(), context);
        let params = target.with_identity(params);
        loop {
            let passed = async {
                let admission = self.admit(at, target, context, read.as_deref_mut()).await?;
                self.check_definitions(at, target, context).await?;
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
        let backend = server.backend(context.agent, &self.pool).map_err(failed)?;
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

    pub(crate) fn record_hidden_tool(&self, tool: &ToolId, call: &mut CallContext<'_>) {
        call.mark_not_found(|| {
            let server = self.managed_server(&tool.toolbox, &tool.server)?;
            Some(server.shared.connection()?.listed().listing)
        });
        let decision = self.policy.decide(tool, ToolTraits::default(), || self.clock.now());
        call.set_rule(|| rule(decision.as_ref()));
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
    call.details.is_dangerous = permit.danger().is_some();
    Ok(permit)
}

/// The error for the first call after a takeover that lost the server's session state.
pub(crate) fn session_state_lost(tool: &ToolId) -> CallError {
    CallError::Refused {
        tool: tool.clone(),
        reason: format!(
            "this session moved to another replica of the workbench, and server `{}` lost its state",
            tool.server
        ),
        hint: "repeat the calls that created the state; the next one restarts the server"
            .to_owned(),
    }
}
