//! Tool calls of the admin API. A call that needs the user's confirmation waits, and continues only
//! if the user confirms the question that this very call asked.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use serde_json::json;
use serde_json::value::RawValue;
use tokio_util::task::AbortOnDropHandle;

use crate::admin::admin_origin::AdminOrigin;
use crate::admin::protocol::{AdminError, AdminErrorKind, AdminResponse};
use mcp_workbench_core::backend::{self, RpcOutcome, events};
use mcp_workbench_core::gateway::{
    AgentEvent, AgentHandle, AgentId, ApprovalTerms, CallError, Caller, Gateway, GatewayRegistry,
    RequestContext, ServerRequest,
};
use mcp_workbench_core::telemetry::QuotaOwner;
use mcp_workbench_names::{ToolId, untrusted_text};
use mcp_workbench_wire::json::RawJson;

const EVENTS: usize = 16;
/// The client of these calls in the approval queue.
const CLIENT: &str = "dashboard";
/// Maximum number of calls that wait for a confirmation. Beyond it, the oldest is cancelled.
const MAX_WAITING: usize = 32;

/// Calls that wait for a confirmation.
#[derive(Default)]
pub(super) struct WaitingCalls(Mutex<WaitingState>);

#[derive(Default)]
struct WaitingState {
    /// By age.
    calls: BTreeMap<u64, WaitingCall>,
    next: u64,
}

struct WaitingCall {
    /// Unguessable name of the question.
    id: String,
    call: AdminCall,
    question: ServerRequest,
}

/// A running call.
pub(super) struct AdminCall {
    gateways: Arc<GatewayRegistry>,
    agent: AgentId,
    tool: ToolId,
    arguments: Option<RawJson>,
    /// `true` if the questions of this call can be answered here.
    can_confirm: bool,
    work: AbortOnDropHandle<Result<RpcOutcome, CallError>>,
    events: events::Receiver,
    began: Instant,
}

impl Drop for AdminCall {
    fn drop(&mut self) {
        // The agent exists only for this call.
        self.gateways.remove_agent(self.agent);
    }
}

impl AdminCall {
    pub(super) fn start(
        gateways: Arc<GatewayRegistry>,
        gateway: Arc<Gateway>,
        caller: Caller,
        tool: ToolId,
        arguments: Option<RawJson>,
        origin: &AdminOrigin,
    ) -> Self {
        let quota = gateways.quotas().quota_for(&QuotaOwner::new(caller.agent.as_ref(), None));
        let (sender, events) = events::channel(EVENTS);
        let (of_call, given) = (tool.clone(), arguments.clone());
        let agent = AgentHandle::new(None).with_name(caller.agent.clone()).with_quota(quota);
        let agent_id = agent.id;
        let operator = origin.operator().cloned();
        let can_confirm = operator.is_some();
        let work = gateways.tasks().spawn(async move {
            // A program of an agent can open the socket, too, so calls through it wait for an
            // approval like calls of agents.
            let terms = ApprovalTerms { client: CLIENT, deadline: None };
            let queued = operator.is_none().then_some(terms);
            let context = RequestContext {
                caller: &caller,
                events: Some(&sender),
                approval: queued,
                operator: operator.as_ref(),
                ..RequestContext::detached(&agent)
            };
            gateway.calls().call(&of_call, given.as_ref(), &[], &context).await
        });
        let work = AbortOnDropHandle::new(work);
        let began = Instant::now();
        Self { gateways, agent: agent_id, tool, arguments, can_confirm, work, events, began }
    }
}

impl WaitingCalls {
    fn state<T>(&self, f: impl FnOnce(&mut WaitingState) -> T) -> T {
        f(&mut self.0.lock())
    }

    fn add(&self, waiting: WaitingCall) {
        let _cancelled = self.state(|state| {
            state.calls.retain(|_, other| !other.call.work.is_finished());
            state.calls.insert(state.next, waiting);
            state.next += 1;
            if state.calls.len() > MAX_WAITING { state.calls.pop_first() } else { None }
        });
    }

    /// Removes the call that asked the question `id`, if it has this tool and these arguments.
    fn take(&self, id: &str, tool: &ToolId, arguments: Option<&RawJson>) -> Option<WaitingCall> {
        self.state(|state| {
            let mut all = state.calls.iter();
            let (at, _) = all.find(|(_, waiting)| {
                let call = &waiting.call;
                waiting.id == id && call.tool == *tool && call.arguments.as_ref() == arguments
            })?;
            let at = *at;
            state.calls.remove(&at)
        })
    }

    /// Continues the call that asked the question `id`, if it has this tool and these arguments.
    pub(super) async fn resume(
        &self,
        id: &str,
        tool: &ToolId,
        arguments: Option<&RawJson>,
    ) -> Result<AdminResponse, AdminError> {
        let Some(WaitingCall { call, question, .. }) = self.take(id, tool, arguments) else {
            let message = "this question was answered or has expired; call the tool again";
            return Err(AdminError {
                kind: AdminErrorKind::NotAllowed,
                message: message.to_owned(),
            });
        };
        let yes = json!({"action": "accept", "content": {}});
        question.answer(RpcOutcome::Result(RawJson::encode(&yes))).await;
        self.run(call).await
    }

    /// Runs a call to its end or to its next question.
    pub(super) async fn run(&self, mut call: AdminCall) -> Result<AdminResponse, AdminError> {
        let called = loop {
            tokio::select! {
                biased;
                Some(event) = call.events.recv() => {
                    if let AgentEvent::Request(asked) = event
                        && call.can_confirm
                        && is_confirmation(&asked)
                    {
                        return self.wait_for_answer(call, *asked);
                    }
                }
                called = &mut call.work => break called,
            }
        };
        let called =
            called.map_err(|_| AdminError::failed("internal error; see the log".to_owned()))?;
        let ms = (call.began.elapsed().as_secs_f64() * 100_000.0).round() / 100.0;
        match called {
            Ok(RpcOutcome::Result(result)) => {
                Ok(AdminResponse::Called { result: Some(verbatim(&result)), error: None, ms })
            }
            Ok(RpcOutcome::Error(error)) => {
                Ok(AdminResponse::Called { result: None, error: Some(verbatim(&error)), ms })
            }
            Err(error) => Err(error_from_call(&error)),
        }
    }

    fn wait_for_answer(
        &self,
        call: AdminCall,
        question: ServerRequest,
    ) -> Result<AdminResponse, AdminError> {
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(|error| AdminError::failed(error.to_string()))?;
        let id = format!("{:032x}", u128::from_ne_bytes(random));
        let message = question.params.as_ref().and_then(|params| params.member("message"));
        let message = message.as_ref().and_then(RawJson::decode_string_lossy).unwrap_or_default();
        let response = AdminResponse::Confirm { question: message.into_owned(), id: id.clone() };
        self.add(WaitingCall { id, call, question });
        Ok(response)
    }
}

/// Returns `true` for a confirmation of the workbench. Requests of servers and to models are for
/// agents, and the page has its own button to sign in.
fn is_confirmation(asked: &ServerRequest) -> bool {
    let mode = asked.params.as_ref().and_then(|params| params.member("mode"));
    let is_page = mode.as_ref().and_then(RawJson::decode_string).as_deref() == Some("url");
    asked.method == "elicitation/create" && !asked.is_of_server && !is_page
}

fn error_from_call(error: &CallError) -> AdminError {
    let why = match error {
        CallError::UnknownToolbox { .. }
        | CallError::UnknownServer { .. }
        | CallError::UnknownTool { .. }
        | CallError::UnknownPrimitive { .. } => AdminErrorKind::Unknown,
        CallError::NotAnObject { .. } | CallError::InvalidArguments { .. } => {
            AdminErrorKind::Malformed
        }
        CallError::Refused { .. } | CallError::TooManySubscriptions(_) => {
            AdminErrorKind::NotAllowed
        }
        CallError::Server { .. } => AdminErrorKind::Failed,
    };
    let hint = match error {
        CallError::Refused { hint, .. } => Some(hint),
        CallError::Server { error: backend::BackendError::StartFailed(failure), .. } => {
            Some(&failure.hint)
        }
        _ => None,
    };
    let hint = hint.map(|hint| format!("; {hint}")).unwrap_or_default();
    AdminError { kind: why, message: untrusted_text::clean_lines(&format!("{error}{hint}")) }
}

pub(super) fn verbatim(raw: &RawJson) -> Box<RawValue> {
    raw.parse().unwrap_or_else(|_| RawValue::NULL.to_owned())
}
