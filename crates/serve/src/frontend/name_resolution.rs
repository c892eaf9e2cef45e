//! Resolves the names of resources and prompts that agents see to servers and their own names.

use std::cmp::Reverse;

use serde::Deserialize;

use crate::exposure::{Exposure, ListMutability, ResourceError, SessionChoices, apps, startup};
use crate::frontend::era::RequestMeta;
use crate::frontend::forwarding::ForwardedRequest;
use crate::frontend::session::AgentSession;
use mcp_workbench_core::backend::RpcOutcome;
use mcp_workbench_core::gateway::Snapshot;
use mcp_workbench_core::toolbox::PrimitiveKind;
use mcp_workbench_names::{ServerRef, has_our_scheme};
use mcp_workbench_wire::code::{INVALID_PARAMS, RESOURCE_NOT_FOUND};
use mcp_workbench_wire::incoming::error_object;
use mcp_workbench_wire::json::{self, RawJson};

/// Returns the servers that may have a resource, most likely first, each with its own URI. Starts
/// servers first if the mode requires it.
pub(crate) async fn resolve_resource(
    passed: &ForwardedRequest,
    uri: &str,
) -> Result<Vec<(ServerRef, String)>, RpcOutcome> {
    start_everything(passed).await;
    apps::wait_for_apps(&passed.exposure).await;
    run_everything_unless(passed, |snapshot| snapshot.uri_names().resolve(uri).is_some()).await;
    resource_owners(&passed.session, &passed.exposure, &passed.request.meta, uri)
}

/// Reads the remainder of a truncated result. `None` if `uri` isn't such a remainder, and an error
/// if the agent can't access it.
pub(crate) async fn read_result_remainder(
    passed: &ForwardedRequest,
    uri: &str,
) -> Option<Result<RawJson, RpcOutcome>> {
    let ForwardedRequest { session, exposure, request, .. } = passed;
    if exposure.is_transparent() {
        // Passthrough never truncates, so the URI belongs to the server, which may be a workbench
        // itself.
        return None;
    }
    let found = exposure.gateway().results().read_remainder(uri, &passed.context()).await?;
    Some(found.ok_or_else(|| {
        let refusal = resource_owners(session, exposure, &request.meta, uri).err();
        refusal.unwrap_or_else(|| resource_not_found(uri, request.meta.is_modern))
    }))
}

/// Returns the servers that a URI may lead to, or an error if the agent can't read it.
pub(crate) fn resource_owners(
    session: &AgentSession,
    exposure: &Exposure,
    meta: &RequestMeta,
    uri: &str,
) -> Result<Vec<(ServerRef, String)>, RpcOutcome> {
    let (chosen, _) = session.chosen();
    match exposure.resource_owners(uri, meta.list_mutability(), &chosen) {
        // Several servers list it, each under its full name.
        None if exposure.gateway().snapshot().is_ambiguous_uri(uri) => Ok(Vec::new()),
        None => Ok(in_views(exposure, uri)),
        Some(Ok(found)) => Ok(found),
        Some(Err(ResourceError { message, data })) => {
            let code = if meta.is_modern { INVALID_PARAMS } else { RESOURCE_NOT_FOUND };
            Err(RpcOutcome::Error(error_object(code, &message, Some(&data))))
        }
    }
}

/// Like `resource_owners`, including servers deactivated for the agent.
pub(crate) fn all_resource_owners(exposure: &Exposure, uri: &str) -> Vec<(ServerRef, String)> {
    let all = exposure.resource_owners(uri, ListMutability::Fixed, &SessionChoices::default());
    all.map_or_else(|| in_views(exposure, uri), Result::unwrap_or_default)
}

fn in_views(exposure: &Exposure, uri: &str) -> Vec<(ServerRef, String)> {
    let gateway = exposure.gateway();
    let snapshot = gateway.snapshot();
    if let Some(primitive) = snapshot.uri_names().resolve(uri) {
        return vec![(primitive.server_ref.clone(), primitive.name.clone())];
    }
    // A URI in the workbench's scheme contains the server name, so only that server is a candidate.
    if has_our_scheme(uri) {
        return gateway.scope().resolve_own_uri(uri).into_iter().collect();
    }
    let running = gateway.servers().running_servers();
    // A template may match the URI, or only a tool result may have contained it.
    let mut likely = Vec::new();
    let mut others = Vec::new();
    for server_ref in running {
        let view = snapshot.view(&server_ref.toolbox);
        let Some(part) = view.part(server_ref.server.as_str()) else { continue };
        let matches = part.templates().iter().filter_map(|template| template.literal_match(uri));
        if let Some(literal) = matches.max() {
            likely.push((literal, (server_ref, uri.to_owned())));
        } else if part.abilities().is_some_and(|capabilities| capabilities.resources.is_some()) {
            others.push((server_ref, uri.to_owned()));
        }
    }
    // The most literal template wins.
    likely.sort_by_key(|(literal, _)| Reverse(*literal));
    likely.into_iter().map(|(_, target)| target).chain(others).collect()
}

pub(crate) async fn resolve_prompt(
    passed: &ForwardedRequest,
    name: &str,
) -> Option<(ServerRef, String)> {
    start_everything(passed).await;
    passed.exposure.resolve_primitive(PrimitiveKind::Prompt, name)
}

pub(crate) async fn resolve_template(
    passed: &ForwardedRequest,
    uri: &str,
) -> Option<(ServerRef, String)> {
    start_everything(passed).await;
    run_everything_unless(passed, |snapshot| snapshot.templates().resolve(uri).is_some()).await;
    let found = passed.exposure.resolve_primitive(PrimitiveKind::ResourceTemplate, uri);
    let by_address = || {
        let ForwardedRequest { session, exposure, request, .. } = passed;
        resource_owners(session, exposure, &request.meta, uri).ok()?.into_iter().next()
    };
    found.or_else(by_address)
}

async fn start_everything(passed: &ForwardedRequest) {
    startup::ensure_started(&passed.exposure, &passed.agent).await;
}

/// Starts all servers of modes that show everything, unless the cached listings resolve the name
/// already.
async fn run_everything_unless(passed: &ForwardedRequest, is_known: impl Fn(&Snapshot) -> bool) {
    if !is_known(&passed.exposure.gateway().snapshot()) {
        startup::ensure_running(&passed.exposure, &passed.agent).await;
    }
}

pub(crate) fn resource_not_found(uri: &str, is_modern: bool) -> RpcOutcome {
    let code = if is_modern { INVALID_PARAMS } else { RESOURCE_NOT_FOUND };
    let data = json::object([("uri", &RawJson::encode(&uri))]);
    let message = format!("resource `{uri}` not found");
    RpcOutcome::Error(error_object(code, &message, Some(&data)))
}

/// `true` if the server reports an unknown resource, with the code of either era.
pub(crate) fn is_missing(outcome: &RpcOutcome) -> bool {
    #[derive(Deserialize)]
    struct Code {
        code: i64,
    }

    let RpcOutcome::Error(error) = outcome else { return false };
    let code = error.parse::<Code>().map(|error| error.code);
    matches!(code, Ok(RESOURCE_NOT_FOUND | INVALID_PARAMS))
}

pub(crate) fn with_uri(outcome: RpcOutcome, own: &str, asked: &str) -> RpcOutcome {
    if own == asked {
        return outcome;
    }
    let RpcOutcome::Result(result) = &outcome else { return outcome };
    let Some(contents) = result.member("contents").and_then(|contents| contents.items()) else {
        return outcome;
    };
    let renamed = contents.into_iter().map(|content| {
        let uri: Option<String> = content.member("uri").and_then(|uri| uri.parse().ok());
        if uri.is_none_or(|uri| uri != own) {
            return Ok(content);
        }
        content.with_member("uri", &RawJson::encode(&asked))
    });
    let renamed: Result<Vec<_>, _> = renamed.collect();
    let changed =
        renamed.and_then(|contents| result.with_member("contents", &json::array(&contents)));
    RpcOutcome::from_edit(changed)
}
