//! Messages to an agent outside of its requests: notifications and requests from servers.

use std::sync::Arc;

use crate::frontend::attribution::attribute_server_request;
use crate::frontend::era::RequestMeta;
use crate::frontend::session::{AgentSession, CurrentSession};
use mcp_workbench_core::backend::events;
use mcp_workbench_core::gateway::{AgentEvent, ServerRequest};
use mcp_workbench_wire::agent::Notifier;
use mcp_workbench_wire::code::{INTERNAL_ERROR, METHOD_NOT_FOUND};
use mcp_workbench_wire::mailbox::RequestError;
use mcp_workbench_wire::outgoing::PendingRequest;

pub(super) async fn forward_events(
    notifier: Notifier,
    current: CurrentSession,
    mut events: events::Receiver,
) {
    while let Some(event) = events.recv().await {
        match event {
            // Progress is sent with the request that it belongs to.
            AgentEvent::Progress(_) => {}
            AgentEvent::Notification { method, params } => {
                if notifier.notify(&method, params).await.is_err() {
                    tracing::debug!(method, "the agent has disconnected");
                }
            }
            AgentEvent::Request(request) => {
                let session = current.lock().upgrade();
                let (Some(session), notifier) = (session, notifier.clone()) else { return };
                let mut request =
                    attribute_server_request(&session.app().gateways.config(), *request);
                let asking = Arc::clone(&session);
                asking.spawn(async move {
                    let (method, params) = (request.method.clone(), request.params.take());
                    let asked = notifier.send_request(&method, params);
                    ask_agent(&session, request, asked).await;
                });
            }
        }
    }
}

pub(crate) async fn ask_agent(
    session: &AgentSession,
    mut request: ServerRequest,
    asked: impl Future<Output = Result<PendingRequest, RequestError>>,
) {
    if !session.can_answer(&request.method, &RequestMeta::legacy()) {
        request.decline(METHOD_NOT_FOUND, "the client does not support this request");
        return;
    }
    let answer = match asked.await {
        Ok(mut pending) => tokio::select! {
            answer = pending.response() => answer,
            () = request.cancelled() => return,
        },
        Err(error) => Err(error),
    };
    match answer {
        Ok(outcome) => request.answer(outcome).await,
        Err(_) => request.decline(INTERNAL_ERROR, "the client did not respond"),
    }
}
