//! Routes requests of agents to their handlers.

use std::sync::Arc;

use tracing::Instrument;
use tracing::instrument::Instrumented;

use crate::exposure;
use crate::frontend::era::adapt_outcome;
use crate::frontend::request::{AgentRequest, ResponseFuture, method_not_found, send};
use crate::frontend::session::AgentSession;
use crate::frontend::{extensions, forwarding, handshake, lists, primitives, subscriptions};
use mcp_workbench_core::backend::RpcOutcome;
use mcp_workbench_core::gateway::QuotaExceededError;
use mcp_workbench_core::telemetry::{QuotaKind, request_span};
use mcp_workbench_wire::code::UNAVAILABLE;
use mcp_workbench_wire::incoming::{IncomingRequest, Responder, error_object};
use mcp_workbench_wire::json;

/// Handles one request. Completes when the response is queued or the agent cancels.
pub fn handle_request(
    session: Arc<AgentSession>,
    request: IncomingRequest,
) -> Instrumented<ResponseFuture> {
    let span = request_span(session.span(), request.responder.id());
    let answer = span.in_scope(|| route(session, request));
    answer.instrument(span)
}

fn route(session: Arc<AgentSession>, request: IncomingRequest) -> ResponseFuture {
    let IncomingRequest { method, params, responder } = request;
    let mut asked = match AgentRequest::read(method, params.as_ref()) {
        Ok(asked) => asked,
        Err(error) => return Box::pin(send(responder, RpcOutcome::Error(error))),
    };
    if let Err(error) = session.admit(&asked.meta) {
        return Box::pin(send(responder, handshake::over_capacity(error)));
    }
    if !is_exempt_from_quota(&asked.method) {
        let most = session.app().gateways.config().limits.per_caller.max_concurrent_calls;
        match session.quota().try_acquire(QuotaKind::Calls, most) {
            Ok(place) => asked.permit = Some(place),
            Err(QuotaExceededError) => {
                return Box::pin(send(responder, quota_exceeded(&session, &asked, most)));
            }
        }
    }
    // A future type for each: calls are many, and the futures of some other requests are large.
    match asked.method.as_str() {
        "tools/call" => forwarding::call(session, asked, responder),
        "resources/read" => primitives::read(session, asked, responder),
        "prompts/get" => primitives::get_prompt(session, asked, responder),
        "completion/complete" => primitives::complete(session, asked, responder),
        _ => Box::pin(answer_other(session, asked, responder)),
    }
}

/// Returns `true` for methods that need no server. They take no permit, so that an agent at its
/// limit can still connect and send pings.
fn is_exempt_from_quota(method: &str) -> bool {
    matches!(method, "initialize" | "ping" | "server/discover" | "logging/setLevel")
}

fn quota_exceeded(session: &AgentSession, request: &AgentRequest, most: usize) -> RpcOutcome {
    let whose = session.quota().payer();
    let reason = format!(
        "{whose} has reached its limit of {most} concurrent calls \
         (`limits.perCaller.maxConcurrentCalls`)"
    );
    let hint = "wait for running calls to finish, then retry";
    if request.method == "tools/call" {
        let name = request.string_param("name").unwrap_or_default();
        let text = format!("`{name}` was not called: {reason}.\nWhat to do: {hint}.");
        return adapt_outcome(exposure::tool_error(&text), request.meta.is_modern);
    }
    RpcOutcome::Error(error_object(UNAVAILABLE, &format!("{reason}: {hint}"), None))
}

async fn answer_other(session: Arc<AgentSession>, request: AgentRequest, responder: Responder) {
    let outcome = match (request.method.as_str(), request.meta.is_modern) {
        ("initialize", false) => handshake::initialize(&session, &request).await,
        ("ping", false) => Ok(RpcOutcome::Result(json::object([]))),
        ("server/discover", true) => handshake::discover(&session, &request).await,
        ("tools/list", _) => return lists::tools(&session, &request, responder).await,
        ("resources/list", _) => lists::resources(&session, &request).await,
        ("resources/templates/list", _) => lists::templates(&session, &request).await,
        ("prompts/list", _) => lists::prompts(&session, &request).await,
        ("logging/setLevel", false) => primitives::set_log_level(&session, &request).await,
        ("resources/subscribe", false) => primitives::subscribe(&session, &request).await,
        ("resources/unsubscribe", false) => primitives::unsubscribe(&session, &request).await,
        ("subscriptions/listen", true) => {
            return subscriptions::listen(session, request, responder).await;
        }
        ("server/discover" | "subscriptions/listen", false)
        | (
            "initialize"
            | "ping"
            | "logging/setLevel"
            | "resources/subscribe"
            | "resources/unsubscribe",
            true,
        ) => Ok(method_not_found(&request.method)),
        _ => return extensions::forward_extension(session, request, responder).await,
    };
    send(responder, outcome.unwrap_or_else(|refusal| refusal)).await;
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use mcp_workbench_wire::json::RawJson;

    #[test]
    fn parameters_are_an_object() {
        let read = |params| AgentRequest::read("x".to_owned(), Some(&RawJson::encode(&params)));
        assert!(read(json!({"name": "x"})).is_ok());
        assert!(read(json!(["x"])).is_err());
        assert!(read(json!("x")).is_err());
        assert!(AgentRequest::read("x".to_owned(), None).is_ok());
    }
}
