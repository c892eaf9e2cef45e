//! Forwards protocol extensions: tasks, and methods that the gateway doesn't know.
//!
//! A request about a task goes to the server that runs the task. If several agents may use that
//! server, only the agent that started the task gets through. Other requests are forwarded if
//! exactly one running server qualifies: a server that declares extensions, or any server if the
//! agent declares them.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::backend::RpcOutcome;
use crate::frontend::era::sanitize_outcome;
use crate::frontend::forwarding::{ForwardedRequest, forward as pass_on};
use crate::frontend::request::{AgentRequest, method_not_found};
use crate::frontend::session::AgentSession;
use crate::frontend::{name_resolution, primitives};
use crate::name::ServerRef;
use crate::wire::incoming::Responder;

/// The only request about tasks without a `taskId`.
const LIST: &str = "tasks/list";

pub(crate) async fn forward_extension(
    session: Arc<AgentSession>,
    request: AgentRequest,
    responder: Responder,
) {
    pass_on(session, request, responder, move |passed| async move {
        let ForwardedRequest { exposure, agent, request, .. } = &passed;
        exposure.ensure_running(agent).await;
        let Some(server_ref) = find(&passed).await else {
            return method_not_found(&request.method);
        };
        let context = passed.context();
        let gateway = exposure.gateway();
        let outcome = if request.method == LIST && !gateway.can_list_all_tasks() {
            gateway.list_own_tasks(&server_ref, &request.params, &context).await
        } else {
            gateway.request(&server_ref, &request.method, &request.params, &context).await
        };
        let mut outcome = outcome.unwrap_or_else(|error| primitives::call_error_outcome(&error));
        // A call would have returned the same result (MCP 2025-11-25, basic/utilities/tasks).
        if request.method == "tasks/result" {
            gateway.truncate_result("a task", &mut outcome, &context).await;
        }
        // Here the code is about the forwarded method, not the connection, so don't wrap it.
        if is_unknown(&outcome) {
            method_not_found(&request.method)
        } else {
            sanitize_outcome(outcome, request.meta.is_modern)
        }
    })
    .await;
}

fn is_unknown(outcome: &RpcOutcome) -> bool {
    let RpcOutcome::Error(error) = outcome else { return false };
    error.member("code").is_some_and(|code| code.as_bytes() == b"-32601")
}

async fn find(passed: &ForwardedRequest) -> Option<ServerRef> {
    let ForwardedRequest { exposure, request, .. } = passed;
    let gateway = exposure.gateway();
    if let Ok(task) = request.string_param("taskId")
        && let Some(server_ref) =
            gateway.task_server(&task, &passed.agent, passed.session.key()).await
    {
        return Some(server_ref);
    }
    let found = guess_server(passed)?;
    let is_of_task = request.method.starts_with("tasks/") && request.method != LIST;
    let task = request.string_param("taskId").unwrap_or_default();
    let may_ask = || gateway.can_query_task(&task, &found, &passed.agent, passed.session.key());
    (!is_of_task || may_ask()).then_some(found)
}

/// Returns an owner of the request's `uri`, or the only candidate.
fn guess_server(passed: &ForwardedRequest) -> Option<ServerRef> {
    let ForwardedRequest { exposure, request, .. } = passed;
    let speaks = candidates(passed);
    if let Ok(uri) = request.string_param("uri") {
        let owners =
            name_resolution::resource_owners(&passed.session, exposure, &request.meta, &uri);
        let owners = owners.unwrap_or_default();
        if let Some((server_ref, _)) =
            owners.into_iter().find(|(server_ref, _)| speaks.contains(server_ref))
        {
            return Some(server_ref);
        }
    }
    match speaks.as_slice() {
        [only] => Some(only.clone()),
        _ => None,
    }
}

/// Returns the running servers that declare the method's extension, or else those that declare any.
/// If none does but the agent declares extensions, returns all running servers.
fn candidates(passed: &ForwardedRequest) -> Vec<ServerRef> {
    let ForwardedRequest { exposure, request, .. } = passed;
    let gateway = exposure.gateway();
    let snapshot = gateway.snapshot();
    let family = request.method.split('/').next().unwrap_or_default();
    let mut speaking = Vec::new();
    for server_ref in gateway.running_servers() {
        let view = snapshot.view(&server_ref.toolbox);
        let Some(capabilities) = view.abilities_of(&server_ref.server) else { continue };
        let spoken: Map<String, Value> = capabilities
            .extensions
            .as_ref()
            .and_then(|extensions| extensions.parse().ok())
            .unwrap_or_default();
        let is_of_family = spoken.keys().any(|name| name.rsplit('/').next() == Some(family))
            || (family == "tasks" && capabilities.tasks.is_some());
        if is_of_family || !spoken.is_empty() {
            speaking.push((is_of_family, server_ref));
        }
    }
    if speaking.is_empty() && passed.session.speaks_extensions(&request.meta) {
        return gateway.running_servers();
    }
    let has_family = speaking.iter().any(|(is_of_family, _)| *is_of_family);
    let fitting = speaking.into_iter().filter(|(is_of_family, _)| *is_of_family || !has_family);
    fitting.map(|(_, server_ref)| server_ref).collect()
}
