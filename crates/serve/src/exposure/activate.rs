//! `activate`: one tool switches tools and resources on and off; its description is the catalog.
//!
//! What is active belongs to a session. Where lists must not change, those of the start stay, and
//! everything in the catalog can be called: activation answers with the definitions.

mod addresses;
mod catalog;
mod change;
mod naming;

use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::backend::{self, Outcome};
use crate::exposure::activate::addresses::addressed;
use crate::exposure::activate::catalog::{Catalog, MAX_DESCRIPTION, Written, brief, line};
use crate::exposure::activate::change::{Change, Known};
use crate::exposure::activate::naming::{known_as, name_of_target};
use crate::exposure::listing::{self, Line};
use crate::exposure::mode::{Audience, Doing, Exposure, Guide, Mode};
use crate::exposure::profile::{Profile, Relisting};
use crate::exposure::request::{Refusal, Reply, Request, Surface};
use crate::exposure::uris::Addresses;
use crate::exposure::{answer, meta, proxy, uris};
use crate::gateway::{CallError, FailedServer, Presence, RequestContext, Snapshot};
use crate::name::{self, ServerRef, ToolId};
use crate::raw::Raw;
use crate::settings::Config;
use crate::state::{Active, Switch};
use crate::toolbox::{Item, Kind, TOOLMAN_ACTIVATE};

/// How long servers that nothing is known of are waited for; clients give up on a first list after
/// 10 s and more. What comes later is told as a change.
const PATIENCE: Duration = Duration::from_secs(5);
/// The first words of the tool's description, where lists change.
const CHANGING: &str = "Switches tools and resources on and off. The catalog below lists all of \
                        them; those marked with * are active. An active tool is in your tool list \
                        and can be called, an active resource can be read. Pass names from the \
                        catalog; the answer has the definitions of the tools that were switched on.";
/// The first words of the tool's description, where lists are constant.
const CONSTANT: &str = "Gives the definitions of tools and resources. The catalog below lists all of \
                        them; those marked with * are in your lists already. Pass names from the \
                        catalog in tools_on and resources_on; the answer has the definitions, and \
                        every tool of the catalog can be called, with use_tool where it is \
                        not in your tool list.";

/// The error where the arguments of `use_tool` say nothing.
const UNREADABLE: &str = "use_tool cannot read its arguments. Expected {\"tool\": \"<name>\", \
                          \"arguments\": {…}}, with a name from the catalog in the description of \
                          toolman_activate.";

/// Makes a test that tells if the server of a primitive is there, as far as is known.
fn is_there(snapshot: &Snapshot) -> impl Fn(&Item) -> bool {
    move |item| !snapshot.has_crashed(&item.at)
}

/// The mode.
pub(crate) struct Activate;

impl Mode for Activate {
    fn guide(&self, _: &Config, surface: Surface) -> Guide {
        let usage = match surface {
            Surface::Constant => {
                "The description of toolman_activate lists their tools and resources; it gives the \
                 definitions of those that it is asked for (tools_on, resources_on), and every tool \
                 can be called, with use_tool where it is not in your tool list."
            }
            Surface::Changing => {
                "The description of toolman_activate lists their tools and resources; it switches \
                 them on (tools_on, resources_on) and off. Active tools are in your tool list."
            }
        };
        let call = "Call toolman_activate to use their tools.";
        Guide { call, lists_toolboxes: None, usage: usage.to_owned() }
    }

    fn where_tools_are(&self) -> &'static str {
        "The description of toolman_activate shows all tools."
    }

    fn own_tools(&self, audience: Audience<'_>) -> Vec<Raw> {
        own(audience.exposure, audience.at, audience.surface, &audience.active())
    }

    fn server_tools(&self, audience: Audience<'_>) -> Vec<Raw> {
        active_tools(audience.at, &audience.active())
    }

    fn primitives(&self, audience: Audience<'_>, kind: Kind) -> Option<Vec<Raw>> {
        Some(primitives(audience.at, kind, &audience.active()))
    }

    fn call<'a>(
        &'a self,
        exposure: &'a Exposure,
        request: Request<'a>,
    ) -> Option<Doing<'a, Reply>> {
        Some(Box::pin(call(exposure, request)))
    }

    fn listed(&self, _: &Exposure, at: &Snapshot, name: &str) -> Option<ToolId> {
        at.namespaced().get(Kind::Tool, name).map(Item::tool)
    }

    fn find(&self, at: &Snapshot, kind: Kind, name: &str) -> Option<(ServerRef, String)> {
        let item = at.namespaced().get(kind, name)?;
        Some((item.at.clone(), item.own.clone()))
    }

    fn addressed(
        &self,
        audience: Audience<'_>,
        uri: &str,
    ) -> Option<Result<Vec<(ServerRef, String)>, Refusal>> {
        Some(addressed(audience.at, uri, audience.surface, &audience.active()))
    }

    fn with_addresses(&self, at: &Snapshot, server: &ServerRef, outcome: Outcome) -> Outcome {
        uris::in_result(Addresses::Namespaced(at), server, outcome)
    }

    fn changes_lists(&self, client: &Profile) -> bool {
        client.relisting != Relisting::Never
    }

    fn falls_back(&self, client: &Profile) -> bool {
        client.relisting == Relisting::Never
    }

    fn starts_everything(&self) -> bool {
        true
    }

    fn lists_tools(&self) -> bool {
        true
    }

    fn patience(&self) -> Option<Duration> {
        Some(PATIENCE)
    }

    fn start<'a>(&'a self, exposure: &'a Exposure, agent: &'a Presence) -> Option<Doing<'a, ()>> {
        Some(Box::pin(async move {
            exposure.gateway().try_unlisted(&RequestContext::nobody(agent), PATIENCE).await;
        }))
    }
}

/// The definition of `toolman_activate`, and where lists do not change that of `use_tool`: there
/// are clients that call nothing but what they have listed.
fn own(exposure: &Exposure, at: &Snapshot, surface: Surface, on: &Active) -> Vec<Raw> {
    let mut tools = vec![own_tool(exposure, at, surface, on)];
    if surface == Surface::Constant {
        tools.push(meta::use_named_tool(TOOLMAN_ACTIVATE));
    }
    tools
}

/// The definitions of the active tools.
fn active_tools(at: &Snapshot, on: &Active) -> Vec<Raw> {
    let items = at.namespaced().items.iter();
    let active = items.filter(|item| item.kind == Kind::Tool && on.has(item) && is_there(at)(item));
    active.map(|item| defined(at, item)).collect()
}

/// The definitions of what else is active; prompts always are.
fn primitives(at: &Snapshot, kind: Kind, on: &Active) -> Vec<Raw> {
    let items = at.namespaced().items.iter();
    items
        .filter(|item| item.kind == kind && on.has(item) && is_there(at)(item))
        .map(|item| item.definition().clone())
        .collect()
}

fn defined(at: &Snapshot, item: &Item) -> Raw {
    uris::in_definition(Addresses::Namespaced(at), &item.at, item.definition())
}

fn own_tool(exposure: &Exposure, at: &Snapshot, surface: Surface, on: &Active) -> Raw {
    let items: Vec<_> = at.namespaced().items.iter().filter(|item| is_there(at)(item)).collect();
    let gateway = exposure.gateway();
    let head = if surface == Surface::Changing { CHANGING } else { CONSTANT };
    let missing: Vec<_> = gateway.missing().iter().map(|at| called(exposure, at)).collect();
    let catalog = Catalog { head, items: &items, active: on, missing: &missing };
    let max = exposure.listing_bytes();
    let max = exposure.profile().description_limit.map_or(max, |limit| limit.min(max));
    let Written { text, is_whole } = catalog.write(max);
    let list = |what: &str| {
        json!({
            "type": "array",
            "items": {"type": "string"},
            "description": what,
        })
    };
    let mut properties = json!({
        "tools_on": list("Names of tools to switch on"),
        "tools_off": list("Names of tools to switch off"),
        "resources_on": list("Addresses of resources to switch on"),
        "resources_off": list("Addresses of resources to switch off"),
    });
    if !is_whole {
        properties["list"] = json!({
            "type": "string",
            "description": "A glob over names, such as \"*\", to see whole entries of the catalog",
        });
    }
    Raw::encode(&json!({
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

/// A server's name in the catalog: its namespace, or its own name where it has none.
fn called(exposure: &Exposure, at: &ServerRef) -> String {
    let toolbox = exposure.gateway().config().toolbox(at.toolbox.as_str());
    let namespace = toolbox.map(|toolbox| toolbox.namespace.clone()).filter(|n| !n.is_empty());
    namespace.unwrap_or_else(|| at.server.to_string())
}

/// Does what a call means.
async fn call(exposure: &Exposure, request: Request<'_>) -> Reply {
    if request.name == TOOLMAN_ACTIVATE {
        return activate(exposure, &request).await;
    }
    if request.name == meta::USE_TOOL {
        let Ok(used) = meta::UseTool::parse(request.arguments, exposure.gateway().config()) else {
            return Reply::plain(error(UNREADABLE));
        };
        let name = name_of_target(exposure, used.target);
        let arguments = used.arguments.as_ref();
        return call_tool(exposure, Request { name: &name, arguments, ..request }).await;
    }
    call_tool(exposure, request).await
}

/// Calls a tool of the catalog.
async fn call_tool(exposure: &Exposure, request: Request<'_>) -> Reply {
    let gateway = exposure.gateway();
    let mut snapshot = gateway.snapshot();
    let found = known_as(exposure, &snapshot, request.name);
    let name = found.as_deref().unwrap_or(request.name);
    let mut failed = Vec::new();
    if snapshot.namespaced().get(Kind::Tool, name).is_none() {
        failed = revive(exposure, &[name], request.context).await;
        snapshot = gateway.snapshot();
    }
    let Some(item) = snapshot.namespaced().get(Kind::Tool, name) else {
        gateway.note_unresolved(name, request.arguments, None, request.context);
        let is_there = is_there(&snapshot);
        let known = Known { all: snapshot.namespaced(), is_there: &is_there };
        return Reply::plain(error(&unknown(&known, name, &failed)));
    };
    if request.surface == Surface::Changing && !request.chosen.active.has(item) {
        return Reply::plain(error(&format!(
            "Tool '{name}' is inactive. Use {TOOLMAN_ACTIVATE} with tools_on=[\"{name}\"] to \
             activate it first."
        )));
    }
    let arguments = meta::object_of(request.arguments);
    let tool = item.tool();
    let called = gateway.call(&tool, arguments.as_ref(), request.rest, request.context).await;
    Reply::plain(match called {
        Ok(outcome) => exposure.hand_out(&tool, outcome, request.context).await,
        Err(CallError::Server { error: died @ backend::Error::Died(_), .. }) => error(&format!(
            "Upstream server for '{name}' crashed and has been removed from the catalog. Error: \
             {died}. The call may or may not have had effects. Calling '{name}' again starts the \
             server again."
        )),
        // It was there when its server last ran.
        Err(CallError::UnknownTool { .. }) => {
            let snapshot = gateway.snapshot();
            let is_there = is_there(&snapshot);
            let known = Known { all: snapshot.namespaced(), is_there: &is_there };
            error(&unknown(&known, name, &[]))
        }
        Err(failure) => error(&answer::explain(&failure)),
    })
}

fn unknown(known: &Known<'_>, name: &str, failed: &[FailedServer]) -> String {
    if let [FailedServer { server, reason, hint, .. }, ..] = failed {
        return format!(
            "Unknown tool '{name}', and server `{server}`, which may have it, could not be \
             started: {reason}\nWhat to do: {hint}."
        );
    }
    let similar = match known.similar(Kind::Tool, name).as_slice() {
        [] => String::new(),
        names => format!(" Similar: {}.", names.join(", ")),
    };
    format!("Unknown tool '{name}'.{similar} Use {TOOLMAN_ACTIVATE} to see available tools.")
}

/// Starts the servers that are missing and may have what is called so.
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
            let prefixes =
                [name::in_namespace(namespace, ""), name::scheme_of_namespace(namespace)];
            prefixes.iter().any(|prefix| names.iter().any(|name| name.starts_with(prefix)))
        })
    };
    let mut missing = gateway.missing();
    missing.retain(may_have);
    gateway.start_some(&missing, context).await
}

/// Switches what was asked for: all of it, or nothing.
async fn activate(exposure: &Exposure, request: &Request<'_>) -> Reply {
    let change = match Change::parse(request.arguments) {
        Ok(change) => change,
        Err(problem) => return Reply::plain(error(&problem)),
    };
    let gateway = exposure.gateway();
    let mut snapshot = gateway.snapshot();
    let names: Vec<_> = change.named().map(|(.., name)| name).collect();
    let mut failed = Vec::new();
    let is_missing = |snapshot: &Snapshot| {
        let is_there = is_there(snapshot);
        let known = Known { all: snapshot.namespaced(), is_there: &is_there };
        change.named().any(|(kind, _, name)| known.get(kind, name).is_none())
    };
    if is_missing(&snapshot) {
        failed = revive(exposure, &names, request.context).await;
        snapshot = gateway.snapshot();
    }
    let max = exposure.listing_bytes();
    let is_there = is_there(&snapshot);
    let known = Known { all: snapshot.namespaced(), is_there: &is_there };
    let constant = Active::default();
    let active =
        if request.surface == Surface::Changing { &request.chosen.active } else { &constant };
    if let Some(pattern) = &change.list
        && names.is_empty()
    {
        return Reply::plain(entries(&known, active, pattern, max));
    }
    let switches = match change.switches(&known) {
        Ok(switches) => switches,
        Err(problem) => {
            let failed = failed.iter().map(|FailedServer { server, reason, .. }| {
                format!("\nServer `{server}` could not be started: {reason}")
            });
            return Reply::plain(error(&format!("{problem}{}", failed.collect::<String>())));
        }
    };
    let is_kept = request.surface == Surface::Changing;
    let outcome = |note: Option<&str>| switched(&snapshot, &known, &switches, note, max);
    let has_tools = switches.iter().any(|switch| switch.is_on && switch.kind == Kind::Tool);
    let unread = (is_kept && has_tools && exposure.may_not_list_again()).then(|| {
        let way_out = format!("{UNREAD} If it calls neither, {}.", proxy::WAY_OUT);
        Box::new(outcome(Some(if request.chosen.is_told { UNREAD } else { &way_out })))
    });
    Reply {
        outcome: outcome((!is_kept).then_some(UNCHANGING)),
        opened: None,
        awaits_relisting: is_kept,
        unread,
        switched: if is_kept { switches } else { Vec::new() },
    }
}

/// The remark where lists do not change.
const UNCHANGING: &str = "Lists do not change here: call these tools with use_tool {tool: <name>, \
                          arguments: {…}}, or by their names where those are in your list, and \
                          read these resources by their addresses. Nothing has to be switched off.";
/// The remark for a model whose client, of which nothing was known, does not list tools again.
const UNREAD: &str = "Your client has not read its tool list again: call these tools with use_tool \
                      {tool: <name>, arguments: {…}} where they are not in your list.";

/// The answer to a change: the definitions of what it has switched on.
fn switched(
    at: &Snapshot,
    known: &Known<'_>,
    switches: &[Switch],
    note: Option<&str>,
    max: usize,
) -> Outcome {
    let on = |kind: Kind| {
        let switches = switches.iter().filter(move |s| s.is_on && s.kind == kind);
        let items: Vec<_> = switches.filter_map(|s| known.get(kind, &s.name)).collect();
        items
    };
    let (tools, resources) = (on(Kind::Tool), on(Kind::Resource));
    let mut header = Map::new();
    if let Some(note) = note {
        header.insert("note".to_owned(), note.into());
    } else if tools.is_empty() && resources.is_empty() {
        return result(&json!({"success": true, "result": "OK", "error": ""}).to_string());
    }
    if !resources.is_empty() {
        // Definitions of tools are what is asked for, so resources get a part of the room alone.
        let ways: [Line<'_, Item>; 2] = [&|item| item.definition().clone(), &named];
        let listing = listing::in_one_way(&resources, &ways, max / 4);
        header.insert("resources".to_owned(), listing.lines.iter().map(parsed).collect());
        if listing.left_out > 0 {
            header.insert("resources_left_out".to_owned(), listing.left_out.into());
        }
    }
    let full = |item: &Item| defined(at, item);
    let signature = |item: &Item| {
        let id = item.tool();
        let view = at.view(&id.toolbox);
        let tool = view.tool(id.server.as_str(), &id.tool);
        let signature = tool.map(|tool| tool.definition.signature()).unwrap_or_default();
        let text = brief(item, MAX_DESCRIPTION).unwrap_or_default();
        Raw::encode(&json!({"name": item.name, "signature": signature, "description": text}))
    };
    let ways: [Line<'_, Item>; 3] = [&full, &signature, &named];
    let mut listing = listing::best_first(&tools, &ways[..2], listing::room(max, &header));
    if listing.left_out > 0 {
        listing = listing::in_one_way(&tools, &ways[2..], listing::room(max, &header));
    }
    if listing.step > 0 || listing.left_out > 0 {
        let more = "not all definitions have room here; name fewer tools in tools_on to see them";
        header.insert("more".to_owned(), more.into());
    }
    if listing.left_out > 0 {
        header.insert("left_out".to_owned(), listing.left_out.into());
    }
    let result = listing.text_of("activated", &header);
    self::result(&format!("{{\"success\":true,\"result\":{result},\"error\":\"\"}}"))
}

fn named(item: &Item) -> Raw {
    Raw::encode(&json!({"name": item.name}))
}

fn parsed(raw: &Raw) -> Value {
    raw.parse().unwrap_or_default()
}

/// Whole entries of the catalog, for those who were shown a shorter one.
fn entries(known: &Known<'_>, active: &Active, pattern: &str, max: usize) -> Outcome {
    let items = known.all.matching(pattern);
    let items: Vec<_> =
        items.filter(|item| item.kind != Kind::Prompt && (known.is_there)(item)).collect();
    let whole = |item: &Item| Raw::encode(&line(item, active.has(item), MAX_DESCRIPTION));
    let bare = |item: &Item| Raw::encode(&line(item, active.has(item), 0));
    let listing = listing::in_one_way(&items, &[&whole, &bare], listing::room(max, &Map::new()));
    let mut header = Map::new();
    if listing.left_out > 0 {
        header.insert("left_out".to_owned(), listing.left_out.into());
        header.insert("more".to_owned(), "ask with a narrower glob".into());
    }
    let result = listing.text_of("catalog", &header);
    self::result(&format!("{{\"success\":true,\"result\":{result},\"error\":\"\"}}"))
}

fn result(text: &str) -> Outcome {
    Outcome::Result(Raw::encode(&json!({"content": [{"type": "text", "text": text}]})))
}

fn error(problem: &str) -> Outcome {
    answer::error(&change::problem(problem).to_string())
}

#[cfg(test)]
mod tests;
