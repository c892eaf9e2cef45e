//! Forwards requests about tasks, and methods of protocol extensions.
//!
//! A request about a task goes to the server that runs the task. If several agents may use that
//! server, only the agent that started the task gets through. A method of an extension goes to the
//! server whose entry lists it (`extensionMethods`), on the path of tool calls. All other methods
//! are unknown, no matter what clients and servers declare.

use std::sync::Arc;

use crate::exposure::startup;
use crate::frontend::era::sanitize_outcome;
use crate::frontend::forwarding::{ForwardedRequest, forward as pass_on};
use crate::frontend::request::{AgentRequest, method_not_found};
use crate::frontend::session::AgentSession;
use crate::frontend::{name_resolution, primitives};
use mcp_workbench_core::backend::RpcOutcome;
use mcp_workbench_core::gateway::{CallError, RequestTarget};
use mcp_workbench_names::{ServerRef, ToolId, untrusted_text};
use mcp_workbench_wire::code::INVALID_PARAMS;
use mcp_workbench_wire::incoming::{Responder, error_object};
use mcp_workbench_wire::json::{self, Member, RawJson};

/// The only request about tasks without a `taskId`.
const LIST: &str = "tasks/list";
/// Maximum length of a method in an error, in characters.
const MAX_NAME: usize = 200;

pub(crate) async fn forward_extension(
    session: Arc<AgentSession>,
    request: AgentRequest,
    responder: Responder,
) {
    pass_on(session, request, responder, move |passed| async move {
        let request = &passed.request;
        let outcome = match RequestTarget::of_task_method(&request.method) {
            Some(target) => forward_task_request(&passed, &target).await,
            None => call_method(&passed).await,
        };
        // Here the code is about the forwarded method, not the connection, so don't wrap it.
        match outcome {
            Some(outcome) if !is_unknown(&outcome) => {
                sanitize_outcome(outcome, request.meta.is_modern)
            }
            _ => method_not_found(&request.method),
        }
    })
    .await;
}

fn is_unknown(outcome: &RpcOutcome) -> bool {
    let RpcOutcome::Error(error) = outcome else { return false };
    error.member("code").is_some_and(|code| code.as_bytes() == b"-32601")
}

/// Returns `None` if no server of the agent can answer the request.
async fn forward_task_request(
    passed: &ForwardedRequest,
    target: &RequestTarget,
) -> Option<RpcOutcome> {
    let ForwardedRequest { exposure, agent, request, .. } = passed;
    startup::ensure_running(exposure, agent).await;
    let server_ref = find_task_server(passed).await?;
    let context = passed.context();
    let gateway = exposure.gateway();
    let outcome = if request.method == LIST && !gateway.tasks().can_list_all_tasks() {
        gateway.calls().list_own_tasks(&server_ref, &request.params, &context).await
    } else {
        gateway.calls().request(&server_ref, target, &request.params, &context).await
    };
    let mut outcome = outcome.unwrap_or_else(|error| primitives::call_error_outcome(&error));
    // A call would have returned the same result (MCP 2025-11-25, basic/utilities/tasks).
    if request.method == "tasks/result" {
        gateway.results().truncate("a task", &mut outcome, &context).await;
    }
    Some(outcome)
}

async fn find_task_server(passed: &ForwardedRequest) -> Option<ServerRef> {
    let ForwardedRequest { exposure, request, .. } = passed;
    let gateway = exposure.gateway();
    let task = request.string_param("taskId").unwrap_or_default();
    let known = gateway.tasks().task_server(&task, &passed.agent, passed.session.key()).await;
    if known.is_some() {
        return known;
    }
    let speaking = gateway.views().running_servers_with_tasks();
    let [only] = speaking.as_slice() else { return None };
    let may_ask =
        || gateway.tasks().can_query_task(&task, only, &passed.agent, passed.session.key());
    (request.method == LIST || may_ask()).then(|| only.clone())
}

/// Returns `None` if no server of the agent has the method.
async fn call_method(passed: &ForwardedRequest) -> Option<RpcOutcome> {
    let ForwardedRequest { exposure, request, .. } = passed;
    let (gateway, context) = (exposure.gateway(), passed.context());
    let servers = gateway.access().find_extension_method(&request.method);
    if servers.is_empty() {
        let params = json::object(request.params.iter().map(|(key, value)| (&**key, value)));
        gateway.calls().note_unresolved(&request.method, Some(&params), None, &context);
        return None;
    }
    let owner = match owner_of_uri(passed, &servers).await {
        Some(owner) => Some(owner),
        None => only(&servers).map(|method| (method.clone(), None)),
    };
    let Some((method, own_uri)) = owner else {
        return Some(ambiguous(&servers));
    };
    let params = match own_uri {
        None => request.params.clone(),
        Some(own) => with_own_uri(&request.params, &own),
    };
    match gateway.calls().call_extension_method(&method, &params, &context).await {
        Ok(outcome) => Some(outcome),
        Err(CallError::UnknownTool { .. }) => None,
        Err(error) => Some(primitives::call_error_outcome(&error)),
    }
}

fn only(servers: &[ToolId]) -> Option<&ToolId> {
    if let [only] = servers { Some(only) } else { None }
}

/// Returns the server that owns the request's `uri`, and its own spelling of the URI.
async fn owner_of_uri(
    passed: &ForwardedRequest,
    servers: &[ToolId],
) -> Option<(ToolId, Option<String>)> {
    let ForwardedRequest { session, exposure, request, .. } = passed;
    let uri = request.string_param("uri").ok()?;
    if servers.len() > 1 {
        startup::ensure_running(exposure, &passed.agent).await;
    }
    let owners = name_resolution::resource_owners(session, exposure, &request.meta, &uri);
    owners.unwrap_or_default().into_iter().find_map(|(at, own)| {
        let method = servers.iter().find(|method| method.server_ref() == at)?;
        Some((method.clone(), (own != uri).then_some(own)))
    })
}

fn with_own_uri(params: &[Member], own: &str) -> Vec<Member> {
    let own = RawJson::from_text(own);
    let params = params
        .iter()
        .map(|(key, value)| (key.clone(), if key == "uri" { own.clone() } else { value.clone() }));
    params.collect()
}

fn ambiguous(servers: &[ToolId]) -> RpcOutcome {
    let method = servers.first().map(|method| method.tool.as_str()).unwrap_or_default();
    let names: Vec<_> =
        servers.iter().map(|at| format!("`{}/{}`", at.toolbox, at.server)).collect();
    let message = format!(
        "several servers have the method `{}`: {}. List it in the `extensionMethods` of one of them",
        untrusted_text::display_name(method, MAX_NAME),
        names.join(", ")
    );
    RpcOutcome::Error(error_object(INVALID_PARAMS, &message, None))
}
