//! Handlers of the list methods. Each list is a single page, because some clients don't follow
//! `nextCursor`.

use std::sync::Arc;

use crate::exposure::{Exposure, ListMutability, SessionChoices, startup};
use crate::frontend::era::adapt_result;
use crate::frontend::forwarding;
use crate::frontend::request::AgentRequest;
use crate::frontend::session::AgentSession;
use crate::frontend::session::lists_in_progress::ListBuildGuard;
use mcp_workbench_core::backend::{RpcOutcome, events};
use mcp_workbench_core::gateway::Snapshot;
use mcp_workbench_core::state::ListDigests;
use mcp_workbench_core::toolbox::{PrimitiveKind, ToolboxView};
use mcp_workbench_names::{PrimitiveNameTable, ServerName, ServerRef};
use mcp_workbench_wire::incoming::Responder;
use mcp_workbench_wire::json::{self, RawJson};

const EVENTS: usize = 16;

pub(crate) async fn tools(session: &AgentSession, request: &AgentRequest, responder: Responder) {
    let exposure = session.exposure(&request.meta);
    let making = session.begin_list();
    if startup::tries_servers(&exposure) {
        try_servers(session, &exposure, request, &responder).await;
    }
    begin(session, &exposure, request, Some(&making)).await;
    if exposure.own_tools_name_tools() || exposure.shows_apps() {
        exposure.gateway().views().wait_for_stored_listings().await;
    }
    let (chosen, version) = session.chosen();
    let tools = exposure.tools(request.meta.list_mutability(), &chosen);
    if !request.meta.is_modern {
        session.record_tools_given(&exposure, &tools);
    }
    drop(making);
    if responder.respond_and_flush(list("tools", &tools, request)).await.is_err() {
        tracing::debug!("the agent disconnected before the response was sent");
    }
    if !request.meta.is_modern {
        session.record_listed(version).await;
    }
}

pub(crate) async fn resources(
    session: &AgentSession,
    request: &AgentRequest,
) -> Result<RpcOutcome, RpcOutcome> {
    let exposure = session.exposure(&request.meta);
    begin(session, &exposure, request, None).await;
    let resources = all_resources(&exposure, request.meta.list_mutability(), &session.chosen().0);
    record_given(session, request, |digests| &mut digests.resources, &resources).await;
    Ok(list("resources", &resources, request))
}

pub(crate) fn all_resources(
    exposure: &Exposure,
    mutability: ListMutability,
    chosen: &SessionChoices,
) -> Vec<RawJson> {
    entries(
        exposure,
        PrimitiveKind::Resource,
        (mutability, chosen),
        |snapshot, view, server_ref| {
            let resources = view.resources();
            let resources = resources.map(|r| (r.server, &r.definition.uri, &r.definition.raw));
            let exposed = |at: &ServerRef, uri: &str| snapshot.exposed_uri(at, uri);
            unique(resources, server_ref, "uri", snapshot.uri_names(), exposed)
        },
    )
}

pub(crate) async fn templates(
    session: &AgentSession,
    request: &AgentRequest,
) -> Result<RpcOutcome, RpcOutcome> {
    let exposure = session.exposure(&request.meta);
    begin(session, &exposure, request, None).await;
    let (chosen, _) = session.chosen();
    let seen = (request.meta.list_mutability(), &*chosen);
    let templates =
        entries(&exposure, PrimitiveKind::ResourceTemplate, seen, |snapshot, view, server_ref| {
            let templates = view.templates();
            let templates = templates.map(|t| (t.server, &t.definition.uri, &t.definition.raw));
            let exposed = |at: &ServerRef, uri: &str| snapshot.exposed_uri(at, uri);
            unique(templates, server_ref, "uriTemplate", snapshot.templates(), exposed)
        });
    Ok(list("resourceTemplates", &templates, request))
}

pub(crate) async fn prompts(
    session: &AgentSession,
    request: &AgentRequest,
) -> Result<RpcOutcome, RpcOutcome> {
    let exposure = session.exposure(&request.meta);
    begin(session, &exposure, request, None).await;
    let prompts = all_prompts(&exposure, request.meta.list_mutability(), &session.chosen().0);
    record_given(session, request, |digests| &mut digests.prompts, &prompts).await;
    Ok(list("prompts", &prompts, request))
}

pub(crate) fn all_prompts(
    exposure: &Exposure,
    mutability: ListMutability,
    chosen: &SessionChoices,
) -> Vec<RawJson> {
    entries(exposure, PrimitiveKind::Prompt, (mutability, chosen), |snapshot, view, server_ref| {
        let prompts = view.prompts();
        let prompts = prompts.map(|p| (p.server, &p.definition.name, &p.definition.raw));
        let exposed = |at: &ServerRef, name: &str| snapshot.exposed_prompt(at, name);
        unique(prompts, server_ref, "name", snapshot.prompts(), exposed)
    })
}

/// Records the list given to a legacy agent, so that changes can be detected later.
async fn record_given(
    session: &AgentSession,
    request: &AgentRequest,
    which: impl FnOnce(&mut ListDigests) -> &mut Option<String>,
    entries: &[RawJson],
) {
    if !request.meta.is_modern && session.record_list_given(which, entries) {
        session.save().await;
    }
}

/// Starts servers as the mode requires before a list. `making` is given for tool lists.
async fn begin(
    session: &AgentSession,
    exposure: &Exposure,
    request: &AgentRequest,
    making: Option<&ListBuildGuard<'_>>,
) {
    startup::ensure_started(exposure, &session.presence(&request.meta)).await;
    if exposure.starts_all_servers() && !request.meta.is_modern {
        session.refresh(exposure, making).await;
    }
}

/// Tries servers without a cached listing, because the list names unavailable ones. Reports
/// progress to the agent.
async fn try_servers(
    session: &AgentSession,
    exposure: &Exposure,
    request: &AgentRequest,
    responder: &Responder,
) {
    let (sender, mut heard) = events::channel(EVENTS);
    let agent = session.presence(&request.meta);
    let context = forwarding::context(session, &agent, &request.meta, &sender);
    let trying = startup::try_servers(exposure, &context);
    tokio::pin!(trying);
    loop {
        tokio::select! {
            biased;
            () = responder.cancelled() => return,
            () = &mut trying => return,
            Some(event) = heard.recv() => {
                if forwarding::forward_event(responder, &request.meta, event).await.is_err() {
                    return;
                }
            }
        }
    }
}

fn entries(
    exposure: &Exposure,
    kind: PrimitiveKind,
    (mutability, chosen): (ListMutability, &SessionChoices),
    of_view: impl Fn(&Snapshot, &Arc<ToolboxView>, &dyn Fn(&ServerName) -> ServerRef) -> Vec<RawJson>,
) -> Vec<RawJson> {
    let snapshot = exposure.gateway().snapshot();
    if let Some(entries) = exposure.primitives(kind, mutability, chosen) {
        return entries;
    }
    let mut all = Vec::new();
    for toolbox in exposure.visible_toolboxes(mutability, &chosen.opened) {
        let server_ref =
            |server: &ServerName| ServerRef { toolbox: toolbox.clone(), server: server.clone() };
        all.extend(of_view(&snapshot, &snapshot.view(&toolbox), &server_ref));
    }
    all
}

/// Renames entries to the names that agents see. A server in two toolboxes contributes its entries
/// once.
fn unique<'a>(
    entries: impl Iterator<Item = (&'a ServerName, &'a String, &'a RawJson)>,
    server_ref: &dyn Fn(&ServerName) -> ServerRef,
    key: &str,
    names: &PrimitiveNameTable,
    exposed: impl Fn(&ServerRef, &str) -> String,
) -> Vec<RawJson> {
    let named = entries.filter_map(|(server, own, raw)| {
        let at = server_ref(server);
        let exposed = exposed(&at, own);
        if exposed != *own {
            return raw.with_member(key, &RawJson::encode(&exposed)).ok();
        }
        names.resolve(own).is_none_or(|first| first.server_ref == at).then(|| raw.clone())
    });
    named.collect()
}

fn list(key: &str, entries: &[RawJson], request: &AgentRequest) -> RpcOutcome {
    let mut members = vec![(key, json::array(entries))];
    if request.meta.is_modern {
        // A `ttlMs` of 0 keeps clients from caching the list (2026-07-28,
        // server/utilities/caching).
        members.push(("ttlMs", RawJson::encode(&0)));
        members.push(("cacheScope", RawJson::encode(&"private")));
    }
    let result = json::object(members.iter().map(|(key, value)| (*key, value)));
    RpcOutcome::from_edit(adapt_result(result, request.meta.is_modern))
}
