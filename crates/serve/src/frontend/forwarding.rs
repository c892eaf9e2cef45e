//! Forwards requests: everything between an agent's request and the response.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;

use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument;

use crate::exposure::{self, Exposure};
use crate::frontend::attribution::{attribute_event, attribute_result};
use crate::frontend::era::{RequestMeta, adapt_outcome, sanitize_outcome};
use crate::frontend::request::{AgentRequest, ResponseFuture, send};
use crate::frontend::session::{AgentSession, push};
use mcp_workbench_core::backend::{RpcOutcome, events};
use mcp_workbench_core::gateway::{
    AgentEvent, AgentHandle, ApprovalTerms, RequestContext, ServerRequest,
};
use mcp_workbench_wire::ConnectionClosed;
use mcp_workbench_wire::code::METHOD_NOT_FOUND;
use mcp_workbench_wire::incoming::Responder;
use mcp_workbench_wire::json::{self, RawJson};

/// How many events of servers one request buffers for its agent.
const EVENTS: usize = 64;

pub(crate) type Work = Pin<Box<dyn Future<Output = RpcOutcome> + Send>>;

pub(crate) fn call(
    session: Arc<AgentSession>,
    asked: AgentRequest,
    responder: Responder,
) -> ResponseFuture {
    forward(session, asked, responder, |passed| async move {
        // Not destructured: the future would store the fields twice while the call waits.
        let asked = &*passed.request;
        let name = match asked.borrowed_text("name") {
            Ok(name) => name,
            Err(refusal) => return refusal,
        };
        let (mut arguments, mut rest) = (None, Vec::new());
        for (key, value) in &asked.params {
            match &**key {
                "name" => {}
                "arguments" => arguments = Some(value),
                _ => rest.push((key.clone(), value.clone())),
            }
        }
        let (chosen, _) = passed.session.chosen();
        let request = exposure::ToolCallRequest {
            name: &name,
            arguments,
            other_params: &rest,
            context: &passed.context(),
            lists: asked.meta.list_mutability(),
            chosen: &chosen,
        };
        let exposure::ToolCallReply {
            mut outcome,
            opened,
            switched,
            awaits_relisting,
            if_not_relisted: unread,
        } = exposure::call(&passed.exposure, &request).await;
        let mut has_followed = true;
        if !asked.meta.is_modern {
            if let Some(toolbox) = opened {
                let now = passed.session.exposure(&asked.meta);
                if !Arc::ptr_eq(now.gateway(), passed.exposure.gateway()) {
                    // The configuration was reloaded during the call and may have other servers.
                    passed.session.start_unlisted_servers(
                        &now,
                        &BTreeSet::from([toolbox.clone()]),
                        &passed.agent,
                    );
                }
                has_followed &= passed.session.open_toolbox(&now, toolbox, awaits_relisting).await;
            }
            if !switched.is_empty() {
                let now = passed.session.exposure(&asked.meta);
                has_followed &= passed.session.switch(&now, switched, awaits_relisting).await;
            }
        }
        if let Some(unread) = unread.filter(|_| !has_followed) {
            outcome = *unread;
            passed.session.record_relist_hint().await;
        }
        passed.session.save_if_isolated().await;
        if exposure::returns_tool_definitions(&name) {
            passed.session.record_definitions_sent(&outcome, &asked.meta);
        }
        sanitize_outcome(outcome, asked.meta.is_modern)
    })
}

pub(crate) struct ForwardedRequest {
    pub(crate) session: Arc<AgentSession>,
    pub(crate) exposure: Exposure,
    pub(crate) agent: AgentHandle,
    pub(crate) request: Arc<AgentRequest>,
    pub(crate) events: events::Sender,
}

impl ForwardedRequest {
    pub(crate) fn context(&self) -> RequestContext<'_> {
        let meta = &self.request.meta;
        let call_timeout = self.exposure.profile().call_timeout;
        let approval = ApprovalTerms {
            client: self.session.client_name(meta),
            deadline: call_timeout.and_then(|timeout| Instant::now().checked_add(timeout)),
        };
        RequestContext {
            approval: Some(approval),
            ..context(&self.session, &self.agent, meta, &self.events)
        }
    }
}

pub(crate) fn context<'a>(
    session: &'a AgentSession,
    presence: &'a AgentHandle,
    meta: &'a RequestMeta,
    events: &'a events::Sender,
) -> RequestContext<'a> {
    RequestContext {
        agent: presence,
        caller: session.caller(),
        client: meta.client.as_ref().map_or("", |client| &client.name),
        session: session.key(),
        is_modern: meta.is_modern,
        supports_resource_links: session.reads_links(meta),
        meta: &meta.forwarded,
        log: session.log(meta),
        events: Some(events),
        wants_progress: meta.progress_token.is_some(),
        sent_flag: None,
        operator: None,
        approval: None,
    }
}

/// Runs `work` and answers the request with its outcome. If the request answers a suspended call,
/// resumes that instead.
pub(crate) fn forward<F>(
    session: Arc<AgentSession>,
    request: AgentRequest,
    responder: Responder,
    work: impl FnOnce(ForwardedRequest) -> F + Send + 'static,
) -> ResponseFuture
where
    F: Future<Output = RpcOutcome> + Send + 'static,
{
    let request = Arc::new(request);
    if request.param("requestState").is_none() {
        let running = InFlightCall::new(&session, &request, work);
        return Box::pin(running.run(session, request, responder));
    }
    Box::pin(async move {
        let running = match session.app().suspended.resume(&session, &request).await {
            Some(Ok(running)) => running,
            Some(Err(refusal)) => return send(responder, refusal).await,
            None => InFlightCall::new(&session, &request, work),
        };
        running.run(session, request, responder).await;
    })
}

pub(crate) struct InFlightCall {
    pub(crate) work: Work,
    pub(crate) events: events::Receiver,
}

impl InFlightCall {
    fn new<F>(
        session: &Arc<AgentSession>,
        request: &Arc<AgentRequest>,
        work: impl FnOnce(ForwardedRequest) -> F,
    ) -> Self
    where
        F: Future<Output = RpcOutcome> + Send + 'static,
    {
        let (sender, events) = events::channel(EVENTS);
        let passed = ForwardedRequest {
            session: Arc::clone(session),
            exposure: session.exposure(&request.meta),
            agent: session.presence(&request.meta),
            request: Arc::clone(request),
            events: sender,
        };
        Self { work: Box::pin(work(passed)), events }
    }

    async fn run(
        self,
        session: Arc<AgentSession>,
        request: Arc<AgentRequest>,
        responder: Responder,
    ) {
        if self.until_answered(&session, &request, responder).await.is_err() {
            tracing::debug!(
                method = request.method,
                "the agent disconnected before the response \
                                                      was sent"
            );
        }
    }

    async fn until_answered(
        mut self,
        session: &Arc<AgentSession>,
        request: &Arc<AgentRequest>,
        responder: Responder,
    ) -> Result<(), ConnectionClosed> {
        let is_modern = request.meta.is_modern;
        self.events.bind_to_request(responder.cancellation());
        // Server requests sent to the agent; dropped, and so cancelled, when the work is done.
        let mut asking = Vec::new();
        let outcome = loop {
            tokio::select! {
                biased;
                () = responder.cancelled() => return Ok(()),
                Some(event) = self.events.recv() => match attribute_event(|| session.app().gateways.config(), event) {
                    AgentEvent::Request(server_request) if !session.can_answer(&server_request.method, &request.meta) => {
                        let reason = "the client does not support this request";
                        server_request.decline(METHOD_NOT_FOUND, reason);
                    }
                    AgentEvent::Request(server_request) if is_modern => {
                        let suspended = &session.app().suspended;
                        let required = Box::pin(suspended.suspend(session, request, self, *server_request));
                        return Box::pin(responder.respond(RpcOutcome::Result(required.await))).await;
                    }
                    AgentEvent::Request(server_request) => asking.push(ask(session, &responder, *server_request)),
                    event => Box::pin(forward_event(&responder, &request.meta, event)).await?,
                },
                outcome = &mut self.work => break outcome,
            }
        };
        while let Some(event) = self.events.try_recv() {
            Box::pin(forward_event(&responder, &request.meta, event)).await?;
        }
        // Legacy agents have received each server request separately.
        let outcome = if is_modern {
            let config = || session.app().gateways.config().policy.has_confirmations();
            attribute_result(config, outcome)
        } else {
            outcome
        };
        responder.respond(adapt_outcome(outcome, is_modern)).await
    }
}

fn ask(
    session: &Arc<AgentSession>,
    responder: &Responder,
    mut request: ServerRequest,
) -> AbortOnDropHandle<()> {
    let (asking, asker) = (Arc::clone(session), responder.request_sender());
    let ask = async move {
        let (method, params) = (request.method.clone(), request.params.take());
        push::ask_agent(&asking, request, asker.send_request(&method, params)).await;
    };
    AbortOnDropHandle::new(session.app().tasks.spawn(ask.in_current_span()))
}

pub(crate) async fn forward_event(
    responder: &Responder,
    meta: &RequestMeta,
    event: AgentEvent,
) -> Result<(), ConnectionClosed> {
    match event {
        AgentEvent::Progress(params) => {
            let Some(token) = &meta.progress_token else { return Ok(()) };
            match params.with_member("progressToken", token) {
                Ok(params) => responder.notify("notifications/progress", Some(params)).await,
                Err(error) => {
                    tracing::debug!(%error, "dropped progress");
                    Ok(())
                }
            }
        }
        AgentEvent::Notification { method, params } => responder.notify(&method, params).await,
        // The work is done, so nothing waits for the answer.
        AgentEvent::Request(_) => Ok(()),
    }
}

pub(crate) fn input_required(question: &ServerRequest, state: &str) -> RawJson {
    let method = RawJson::encode(&question.method);
    let params = question.params.clone().unwrap_or_else(|| json::object([]));
    let request = json::object([("method", &method), ("params", &params)]);
    let requests = json::object([(QUESTION, &request)]);
    json::object([
        ("resultType", &RawJson::encode(&"input_required")),
        ("inputRequests", &requests),
        ("requestState", &RawJson::encode(&state)),
    ])
}

/// The key in `inputRequests`. Only one server request is sent at a time.
pub(crate) const QUESTION: &str = "question";
