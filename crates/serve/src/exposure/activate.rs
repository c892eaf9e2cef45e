//! `activate`: one tool, `toolman_activate`, switches tools and resources on and off. Its
//! description is the catalog of all of them.
//!
//! The active set belongs to a session. If the lists are fixed, they keep their initial contents,
//! and every tool of the catalog can be called; activation then only returns the definitions.

mod catalog_text;
mod resource_owners;
mod switch_request;
mod tool_names;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::exposure::activate::catalog_text::{
    CatalogText, MAX_DESCRIPTION, RenderedCatalog, line, short_description,
};
use crate::exposure::activate::resource_owners::resource_owners;
use crate::exposure::activate::switch_request::{AvailableItems, SwitchRequest};
use crate::exposure::activate::tool_names::{catalog_name_for, name_of_target};
use crate::exposure::app_table::AppTable;
use crate::exposure::call::prepare_result;
use crate::exposure::client_profile::{ClientProfile, RelistBehavior};
use crate::exposure::mode::{
    BoxFuture, ExposedTools, Exposure, Instructions, ListChanges, ListContext, Mode, ModeTraits,
    Startup, UsageHints,
};
use crate::exposure::rendering::{self, RenderFn};
use crate::exposure::tool_call::{ListMutability, ResourceError, ToolCallReply, ToolCallRequest};
use crate::exposure::uri_rewrite::UriNaming;
use crate::exposure::{answer_delivery, app_table, apps, meta_tools, tool_results, uri_rewrite};
use mcp_workbench_core::backend::{self, RpcOutcome};
use mcp_workbench_core::gateway::{CallError, FailedServer, RequestContext, Snapshot};
use mcp_workbench_core::state::{Activation, ActivePrimitives};
use mcp_workbench_core::toolbox::{NamespacedPrimitive, PrimitiveKind, TOOLMAN_ACTIVATE};
use mcp_workbench_names::{ServerRef, ToolId};
use mcp_workbench_settings::Config;
use mcp_workbench_wire::json::select::Selection;
use mcp_workbench_wire::json::{EditError, RawJson};

/// How long a list waits for servers without a cached listing. Clients give up on the first list
/// after 10 s or more. Slower servers cause a list change later.
const UNLISTED_TIMEOUT: Duration = Duration::from_secs(5);
const CHANGING: &str = "Activates and deactivates tools and resources. The catalog below lists all \
                        of them; * marks active ones. Active tools are in your tool list and can \
                        be called, active resources can be read. Pass names from the catalog; the \
                        answer contains the definitions of activated tools.";
const CONSTANT: &str = "Returns the definitions of tools and resources. The catalog below lists \
                        all of them; * marks those already in your lists. Pass names from the \
                        catalog in tools_on and resources_on to get their definitions. Every tool \
                        can be called, with use_tool if it is not in your tool list.";

const UNREADABLE: &str = "invalid arguments for use_tool. Expected {\"tool\": \"<name>\", \
                          \"arguments\": {…}}, with a name from the catalog in the description of \
                          toolman_activate.";

/// Returns a predicate for items whose server has not crashed.
fn is_there(snapshot: &Snapshot) -> impl Fn(&NamespacedPrimitive) -> bool {
    move |item| !snapshot.has_crashed(&item.at)
}

/// Returns `true` for a tool that only apps call.
fn is_app_only(at: &Snapshot, item: &NamespacedPrimitive) -> bool {
    let view = at.view(&item.at.toolbox);
    let tool = view.tool(item.at.server.as_str(), &item.own);
    item.kind == PrimitiveKind::Tool && tool.is_some_and(app_table::is_app_only)
}

pub(crate) struct Activate(ModeTraits);

/// For clients that list again.
pub(crate) static FOLLOWED: Activate = Activate::new(ListChanges::Followed);
/// For clients that ignore list changes.
pub(crate) static UNSUPPORTED: Activate = Activate::new(ListChanges::Unsupported);

pub(crate) fn for_client(_: ListMutability, client: &ClientProfile) -> &'static dyn Mode {
    match client.relisting {
        RelistBehavior::Never => &UNSUPPORTED,
        RelistBehavior::InTime | RelistBehavior::Unknown => &FOLLOWED,
    }
}

impl Activate {
    const fn new(list_changes: ListChanges) -> Self {
        Self(ModeTraits {
            startup: Startup::TryUnlisted,
            unlisted_timeout: Some(UNLISTED_TIMEOUT),
            list_changes,
            lists_server_tools: true,
            ..ModeTraits::new("The description of toolman_activate shows all tools.")
        })
    }
}

impl Mode for Activate {
    fn traits(&self) -> &ModeTraits {
        &self.0
    }

    fn tools(&self, ctx: ListContext<'_>) -> ExposedTools {
        let own = own(ctx.exposure, ctx.at, ctx.mutability, &ctx.active());
        ExposedTools { own, servers: active_tools(ctx) }
    }

    fn instructions(&self, _: &Config, mutability: ListMutability) -> Instructions {
        let usage = match mutability {
            ListMutability::Fixed => {
                "The description of toolman_activate lists their tools and resources; pass names \
                 in tools_on and resources_on to get definitions. Every tool can be called, with \
                 use_tool if it is not in your tool list."
            }
            ListMutability::Mutable => {
                "The description of toolman_activate lists their tools and resources; tools_on and \
                 resources_on activate them. Active tools are in your tool list."
            }
        };
        let call = "Call toolman_activate to use their tools.";
        Instructions::Hints(UsageHints { call, lists_toolboxes: None, usage: usage.to_owned() })
    }

    fn primitives(&self, ctx: ListContext<'_>, kind: PrimitiveKind) -> Option<Vec<RawJson>> {
        Some(primitives(ctx.at, kind, &ctx.active()))
    }

    fn call<'a>(
        &'a self,
        exposure: &'a Exposure,
        request: ToolCallRequest<'a>,
    ) -> Option<BoxFuture<'a, ToolCallReply>> {
        Some(Box::pin(call(exposure, request)))
    }

    fn listed_tool(&self, _: &Exposure, at: &Snapshot, name: &str) -> Option<ToolId> {
        at.namespaced().get(PrimitiveKind::Tool, name).map(NamespacedPrimitive::tool)
    }

    fn resolve_primitive(
        &self,
        at: &Snapshot,
        kind: PrimitiveKind,
        name: &str,
    ) -> Option<(ServerRef, String)> {
        let item = at.namespaced().get(kind, name)?;
        Some((item.at.clone(), item.own.clone()))
    }

    fn resource_owners(
        &self,
        ctx: ListContext<'_>,
        uri: &str,
    ) -> Option<Result<Vec<(ServerRef, String)>, ResourceError>> {
        Some(resource_owners(ctx.at, uri, ctx.mutability, &ctx.active()))
    }

    fn rewrite_uris(&self, at: &Snapshot, server: &ServerRef, outcome: RpcOutcome) -> RpcOutcome {
        uri_rewrite::rewrite_result(UriNaming::Namespaced(at), server, outcome)
    }
}

/// Returns `toolman_activate`. With fixed lists also `use_tool`, because some clients only call
/// listed tools.
fn own(
    exposure: &Exposure,
    at: &Snapshot,
    mutability: ListMutability,
    on: &ActivePrimitives,
) -> Vec<RawJson> {
    let mut tools = vec![own_tool(exposure, at, mutability, on)];
    if mutability == ListMutability::Fixed {
        tools.push(meta_tools::use_named_tool(TOOLMAN_ACTIVATE));
    }
    tools
}

fn active_tools(ctx: ListContext<'_>) -> Vec<RawJson> {
    let (at, on, apps) = (ctx.at, ctx.active(), ctx.apps());
    let items = at.namespaced().items.iter();
    let active =
        items.filter(|item| item.kind == PrimitiveKind::Tool && on.has(item) && is_there(at)(item));
    active.filter_map(|item| defined(at, apps.as_ref(), item).ok()).collect()
}

/// Returns the active primitives of `kind`; prompts are always active.
fn primitives(at: &Snapshot, kind: PrimitiveKind, on: &ActivePrimitives) -> Vec<RawJson> {
    let items = at.namespaced().items.iter();
    items
        .filter(|item| item.kind == kind && on.has(item) && is_there(at)(item))
        .filter_map(|item| item.definition().ok().cloned())
        .collect()
}

fn defined(
    at: &Snapshot,
    apps: Option<&AppTable<'_>>,
    item: &NamespacedPrimitive,
) -> Result<RawJson, EditError> {
    uri_rewrite::rewrite_definition(UriNaming::Namespaced(at), apps, &item.at, item.definition()?)
}

fn own_tool(
    exposure: &Exposure,
    at: &Snapshot,
    mutability: ListMutability,
    on: &ActivePrimitives,
) -> RawJson {
    let is_shown = |item: &&NamespacedPrimitive| {
        is_there(at)(item) && !(exposure.shows_apps() && is_app_only(at, item))
    };
    let items: Vec<_> = at.namespaced().items.iter().filter(is_shown).collect();
    let gateway = exposure.gateway();
    let head = if mutability == ListMutability::Mutable { CHANGING } else { CONSTANT };
    let missing: Vec<_> =
        gateway.views().unavailable_servers().iter().map(|at| called(exposure, at)).collect();
    let catalog = CatalogText { head, items: &items, active: on, missing: &missing };
    let max = exposure.listing_bytes();
    let max = exposure.profile().description_limit.map_or(max, |limit| limit.min(max));
    let RenderedCatalog { text, is_whole } = catalog.write(max);
    let list = |what: &str| {
        json!({
            "type": "array",
            "items": {"type": "string"},
            "description": what,
        })
    };
    let mut properties = json!({
        "tools_on": list("Names of tools to activate"),
        "tools_off": list("Names of tools to deactivate"),
        "resources_on": list("URIs of resources to activate"),
        "resources_off": list("URIs of resources to deactivate"),
    });
    if !is_whole {
        properties["list"] = json!({
            "type": "string",
            "description": "Glob of names, such as \"*\", to get full catalog entries",
        });
    }
    RawJson::encode(&json!({
        "name": TOOLMAN_ACTIVATE,
        "title": "Activate Tools and Resources",
        "description": text,
        "inputSchema": {
            "type": "object",
            "properties": properties,
            "additionalProperties": false,
        },
        "annotations": {
            "readOnlyHint": false,
            "destructiveHint": false,
            "idempotentHint": true,
            "openWorldHint": false,
        },
    }))
}

/// The server's name in the catalog: its namespace, or its own name without one.
fn called(exposure: &Exposure, at: &ServerRef) -> String {
    let toolbox = exposure.gateway().config().toolbox(at.toolbox.as_str());
    let namespace = toolbox.map(|toolbox| toolbox.namespace.clone()).filter(|n| !n.is_empty());
    namespace.unwrap_or_else(|| at.server.to_string())
}

async fn call(exposure: &Exposure, request: ToolCallRequest<'_>) -> ToolCallReply {
    if request.name == TOOLMAN_ACTIVATE {
        return activate(exposure, &request).await;
    }
    if request.name == meta_tools::USE_TOOL {
        let Ok(used) = meta_tools::UseTool::parse(request.arguments, exposure.gateway().config())
        else {
            return ToolCallReply::from_outcome(error(UNREADABLE));
        };
        let name = name_of_target(exposure, used.target);
        let select = match meta_tools::selection(used.select.as_ref()) {
            Ok(select) => select,
            Err(problem) => return ToolCallReply::from_outcome(error(&problem)),
        };
        let arguments = used.arguments.as_ref();
        let request = ToolCallRequest { name: &name, arguments, ..request };
        return call_tool(exposure, select.as_ref(), request).await;
    }
    call_tool(exposure, None, request).await
}

async fn call_tool(
    exposure: &Exposure,
    select: Option<&Arc<Selection>>,
    request: ToolCallRequest<'_>,
) -> ToolCallReply {
    let gateway = exposure.gateway();
    let mut snapshot = gateway.snapshot();
    let found = catalog_name_for(exposure, &snapshot, request.name);
    let name = found.as_deref().unwrap_or(request.name);
    let mut failed = Vec::new();
    if snapshot.namespaced().get(PrimitiveKind::Tool, name).is_none() {
        failed = revive(exposure, &[name], request.context).await;
        snapshot = gateway.snapshot();
    }
    let Some(item) = snapshot.namespaced().get(PrimitiveKind::Tool, name) else {
        gateway.calls().note_unresolved(name, request.arguments, None, request.context);
        let is_there = is_there(&snapshot);
        let known = AvailableItems { all: snapshot.namespaced(), is_there: &is_there };
        let problem = apps::ambiguity(exposure, &snapshot, request.name);
        let problem = problem.unwrap_or_else(|| unknown(&known, name, &failed));
        return ToolCallReply::from_outcome(error(&problem));
    };
    let is_active = || {
        request.lists == ListMutability::Fixed
            || request.chosen.active.has(item)
            || apps::may_be_call_of_app(exposure, &snapshot, &item.tool(), request.name)
    };
    if !is_active() {
        return ToolCallReply::from_outcome(error(&format!(
            "Tool '{name}' is inactive. Use {TOOLMAN_ACTIVATE} with tools_on=[\"{name}\"] to \
             activate it first."
        )));
    }
    let arguments = meta_tools::object_of(request.arguments);
    let tool = item.tool();
    let called = gateway
        .calls()
        .call(&tool, arguments.as_ref(), request.other_params, request.context)
        .await;
    ToolCallReply::from_outcome(match called {
        Ok(outcome) => prepare_result(exposure, &tool, select, outcome, request.context).await,
        Err(CallError::Server { error: died @ backend::BackendError::Crashed(_), .. }) => {
            error(&format!(
                "Upstream server for '{name}' crashed and has been removed from the catalog. \
                 Error: {died}. The call may or may not have had effects. Calling '{name}' again \
                 restarts the server."
            ))
        }
        // The tool was in the server's previous listing.
        Err(CallError::UnknownTool { .. }) => {
            let snapshot = gateway.snapshot();
            let is_there = is_there(&snapshot);
            let known = AvailableItems { all: snapshot.namespaced(), is_there: &is_there };
            error(&unknown(&known, name, &[]))
        }
        Err(failure) => error(&tool_results::error_text(&failure)),
    })
}

fn unknown(known: &AvailableItems<'_>, name: &str, failed: &[FailedServer]) -> String {
    if let [FailedServer { server, reason, hint, .. }, ..] = failed {
        return format!(
            "Unknown tool '{name}', and server `{server}`, which may have it, could not be \
             started: {reason}\nWhat to do: {hint}."
        );
    }
    let similar = match known.similar(PrimitiveKind::Tool, name).as_slice() {
        [] => String::new(),
        names => format!(" Similar: {}.", names.join(", ")),
    };
    format!("Unknown tool '{name}'.{similar} Use {TOOLMAN_ACTIVATE} to see available tools.")
}

/// Starts the missing servers whose namespace matches one of the names. A stored listing may lack a
/// tool that is new since then, so its server is started, too.
async fn revive(
    exposure: &Exposure,
    names: &[&str],
    context: &RequestContext<'_>,
) -> Vec<FailedServer> {
    let gateway = exposure.gateway();
    let may_have = |at: &ServerRef| {
        let toolbox = gateway.config().toolbox(at.toolbox.as_str());
        toolbox.is_some_and(|toolbox| {
            let namespace = &toolbox.namespace;
            let prefixes = [
                mcp_workbench_names::namespaced_name(namespace, ""),
                mcp_workbench_names::scheme_of_namespace(namespace),
            ];
            prefixes.iter().any(|prefix| names.iter().any(|name| name.starts_with(prefix)))
        })
    };
    let mut missing = gateway.views().unavailable_servers();
    missing.extend(gateway.views().stored_listings().into_iter().map(|(at, _)| at));
    missing.retain(may_have);
    gateway.startup().start_servers(&missing, context).await
}

/// Applies all requested switches, or none.
async fn activate(exposure: &Exposure, request: &ToolCallRequest<'_>) -> ToolCallReply {
    let change = match SwitchRequest::parse(request.arguments) {
        Ok(change) => change,
        Err(problem) => return ToolCallReply::from_outcome(error(&problem)),
    };
    let gateway = exposure.gateway();
    let mut snapshot = gateway.snapshot();
    let names: Vec<_> = change.named().map(|(.., name)| name).collect();
    let mut failed = Vec::new();
    let is_missing = |snapshot: &Snapshot| {
        let is_there = is_there(snapshot);
        let known = AvailableItems { all: snapshot.namespaced(), is_there: &is_there };
        change.named().any(|(kind, _, name)| known.get(kind, name).is_none())
    };
    if is_missing(&snapshot) {
        failed = revive(exposure, &names, request.context).await;
        snapshot = gateway.snapshot();
    }
    let max = exposure.listing_bytes();
    let is_there = is_there(&snapshot);
    let known = AvailableItems { all: snapshot.namespaced(), is_there: &is_there };
    let active = exposure.audience(request.lists, request.chosen, &snapshot).active();
    if let Some(pattern) = &change.list
        && names.is_empty()
    {
        return ToolCallReply::from_outcome(entries(&known, &active, pattern, max));
    }
    let switches = match change.switches(&known) {
        Ok(switches) => switches,
        Err(problem) => {
            let failed = failed.iter().map(|FailedServer { server, reason, .. }| {
                format!("\nServer `{server}` could not be started: {reason}")
            });
            return ToolCallReply::from_outcome(error(&format!(
                "{problem}{}",
                failed.collect::<String>()
            )));
        }
    };
    let is_kept = request.lists == ListMutability::Mutable;
    let shown = exposure.audience(request.lists, request.chosen, &snapshot);
    let outcome = |note: Option<&str>| switched(shown, &known, &switches, note, max);
    let has_tools =
        switches.iter().any(|switch| switch.is_on && switch.kind == PrimitiveKind::Tool);
    let unread = (is_kept && has_tools && exposure.profile.is_relisting_unknown()).then(|| {
        let way_out = format!("{UNREAD} If it calls neither, {}.", answer_delivery::WAY_OUT);
        Box::new(outcome(Some(if request.chosen.is_told { UNREAD } else { &way_out })))
    });
    ToolCallReply {
        outcome: outcome((!is_kept).then_some(UNCHANGING)),
        opened: None,
        awaits_relisting: is_kept,
        if_not_relisted: unread,
        switched: if is_kept { switches } else { Vec::new() },
    }
}

const UNCHANGING: &str = "Your lists never change: call these tools with use_tool {tool: <name>, \
                          arguments: {…}}, or by name if they are in your list, and read these \
                          resources by URI. Nothing needs to be deactivated.";
/// Note for a client with unknown list support that turned out not to list again.
const UNREAD: &str = "Your client has not refreshed its tool list: call these tools with use_tool \
                      {tool: <name>, arguments: {…}} if they are not in your list.";

fn switched(
    ctx: ListContext<'_>,
    known: &AvailableItems<'_>,
    switches: &[Activation],
    note: Option<&str>,
    max: usize,
) -> RpcOutcome {
    let on = |kind: PrimitiveKind| {
        let switches = switches.iter().filter(move |s| s.is_on && s.kind == kind);
        let items: Vec<_> = switches.filter_map(|s| known.get(kind, &s.name)).collect();
        items
    };
    let (tools, resources) = (on(PrimitiveKind::Tool), on(PrimitiveKind::Resource));
    let mut header = Map::new();
    if let Some(note) = note {
        header.insert("note".to_owned(), note.into());
    } else if tools.is_empty() && resources.is_empty() {
        return result(&json!({"success": true, "result": "OK", "error": ""}).to_string());
    }
    if !resources.is_empty() {
        // Tool definitions matter more, so resources get a quarter of the space.
        let ways: [RenderFn<'_, NamespacedPrimitive>; 2] =
            [&|item| item.definition().map_or_else(|_| named(item), Clone::clone), &named];
        let listing = rendering::render_uniform(&resources, &ways, max / 4);
        header.insert("resources".to_owned(), listing.lines.iter().map(parsed).collect());
        if listing.omitted > 0 {
            header.insert("resources_left_out".to_owned(), listing.omitted.into());
        }
    }
    let (at, apps) = (ctx.at, ctx.apps());
    let signature = |item: &NamespacedPrimitive| {
        let id = item.tool();
        let view = at.view(&id.toolbox);
        let tool = view.tool(id.server.as_str(), &id.tool);
        let signature = tool.map(|tool| tool.definition.signature()).unwrap_or_default();
        let text = short_description(item, MAX_DESCRIPTION).unwrap_or_default();
        RawJson::encode(&json!({"name": item.name, "signature": signature, "description": text}))
    };
    let full = |item: &NamespacedPrimitive| {
        defined(at, apps.as_ref(), item).unwrap_or_else(|_: EditError| signature(item))
    };
    let ways: [RenderFn<'_, NamespacedPrimitive>; 3] = [&full, &signature, &named];
    let mut listing =
        rendering::render_best_first(&tools, &ways[..2], rendering::remaining_bytes(max, &header));
    if listing.omitted > 0 {
        listing =
            rendering::render_uniform(&tools, &ways[2..], rendering::remaining_bytes(max, &header));
    }
    if listing.step > 0 || listing.omitted > 0 {
        let more = "some definitions did not fit; name fewer tools in tools_on to see them";
        header.insert("more".to_owned(), more.into());
    }
    if listing.omitted > 0 {
        header.insert("left_out".to_owned(), listing.omitted.into());
    }
    let result = listing.text_of("activated", &header);
    self::result(&format!("{{\"success\":true,\"result\":{result},\"error\":\"\"}}"))
}

fn named(item: &NamespacedPrimitive) -> RawJson {
    RawJson::encode(&json!({"name": item.name}))
}

fn parsed(raw: &RawJson) -> Value {
    raw.parse().unwrap_or_default()
}

/// Full catalog entries that match a glob, for models that saw a truncated catalog.
fn entries(
    known: &AvailableItems<'_>,
    active: &ActivePrimitives,
    pattern: &str,
    max: usize,
) -> RpcOutcome {
    let items = known.all.matching(pattern);
    let items: Vec<_> =
        items.filter(|item| item.kind != PrimitiveKind::Prompt && (known.is_there)(item)).collect();
    let whole = |item: &NamespacedPrimitive| {
        RawJson::encode(&line(item, active.has(item), MAX_DESCRIPTION))
    };
    let bare = |item: &NamespacedPrimitive| RawJson::encode(&line(item, active.has(item), 0));
    let listing = rendering::render_uniform(
        &items,
        &[&whole, &bare],
        rendering::remaining_bytes(max, &Map::new()),
    );
    let mut header = Map::new();
    if listing.omitted > 0 {
        header.insert("left_out".to_owned(), listing.omitted.into());
        header.insert("more".to_owned(), "use a narrower glob".into());
    }
    let result = listing.text_of("catalog", &header);
    self::result(&format!("{{\"success\":true,\"result\":{result},\"error\":\"\"}}"))
}

fn result(text: &str) -> RpcOutcome {
    RpcOutcome::Result(RawJson::encode(&json!({"content": [{"type": "text", "text": text}]})))
}

fn error(problem: &str) -> RpcOutcome {
    tool_results::error_result(&switch_request::problem(problem).to_string())
}

#[cfg(test)]
mod tests;
