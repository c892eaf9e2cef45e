//! Rewrites resource URIs in results and definitions of servers to the form that agents know.
//!
//! Only URIs that two servers share are made unique. A URI of a single server stays unchanged, and
//! so does the JSON around it. In `activate` mode, lists put a namespace before every URI, but in
//! results shared URIs are still the only ones that change.

use crate::exposure::app_table::AppTable;
use mcp_workbench_core::backend::RpcOutcome;
use mcp_workbench_core::gateway::Snapshot;
use mcp_workbench_core::toolbox::ExposedTool;
use mcp_workbench_names::{ServerRef, UI_SCHEME};
use mcp_workbench_wire::json::{self, EditError, RawJson};

/// The deprecated spelling of `ui.resourceUri` in `_meta`.
const OLDER_KEY: &str = "ui/resourceUri";

#[derive(Clone, Copy)]
pub(crate) enum UriNaming<'a> {
    /// Prefixed with the toolbox and the server.
    Unique(&'a Snapshot),
    /// Prefixed with their namespaces.
    Namespaced(&'a Snapshot),
}

impl UriNaming<'_> {
    fn are_plain(self) -> bool {
        let (Self::Unique(snapshot) | Self::Namespaced(snapshot)) = self;
        snapshot.uri_names().is_plain() && snapshot.templates().is_plain()
    }

    pub(crate) fn exposed(self, server: &ServerRef, uri: &str) -> String {
        match self {
            Self::Unique(snapshot) => snapshot.exposed_uri(server, uri),
            Self::Namespaced(snapshot) if snapshot.is_changed_uri(uri) => {
                snapshot.namespaced().exposed_uri(server, uri)
            }
            Self::Namespaced(_) => uri.to_owned(),
        }
    }
}

pub(crate) fn rewrite_tool(
    snapshot: &Snapshot,
    apps: Option<&AppTable<'_>>,
    tool: &ExposedTool,
    definition: &RawJson,
) -> Result<RawJson, EditError> {
    rewrite_definition(UriNaming::Unique(snapshot), apps, &tool.id.server_ref(), definition)
}

/// Rewrites the page of a tool's user interface (extension `io.modelcontextprotocol/ui`). `apps`
/// names the pages for clients that show them.
pub(crate) fn rewrite_definition(
    addresses: UriNaming<'_>,
    apps: Option<&AppTable<'_>>,
    server: &ServerRef,
    definition: &RawJson,
) -> Result<RawJson, EditError> {
    let meta = (apps.is_some() || !addresses.are_plain()).then(|| definition.member("_meta"));
    let Some(meta) = meta.flatten() else { return Ok(definition.clone()) };
    let renamed = |uri: RawJson| match apps {
        Some(apps) if is_page(&uri) => changed(&uri, |own| apps.exposed_uri(server, own)),
        _ => renamed(addresses, server, &uri),
    };
    let mut rewritten = meta.clone();
    if let Some(ui) = meta.member("ui")
        && let Some(uri) = ui.member("resourceUri").and_then(renamed)
    {
        rewritten = rewritten.with_member("ui", &ui.with_member("resourceUri", &uri)?)?;
    }
    let older = meta.member(OLDER_KEY).filter(|_| apps.is_some());
    if let Some(uri) = older.and_then(renamed) {
        rewritten = rewritten.with_member(OLDER_KEY, &uri)?;
    }
    if rewritten == meta {
        return Ok(definition.clone());
    }
    definition.with_member("_meta", &rewritten)
}

fn is_page(uri: &RawJson) -> bool {
    uri.decode_string().is_some_and(|uri| uri.starts_with(UI_SCHEME))
}

pub(crate) fn rewrite_result(
    addresses: UriNaming<'_>,
    server: &ServerRef,
    outcome: RpcOutcome,
) -> RpcOutcome {
    if addresses.are_plain() {
        return outcome;
    }
    let RpcOutcome::Result(result) = &outcome else { return outcome };
    let changed = ["content", "messages", "contents"].into_iter().find_map(|key| {
        let items = result.member(key)?.items()?;
        let changed: Vec<_> = items.iter().map(|item| in_item(addresses, server, item)).collect();
        if changed.iter().all(Option::is_none) {
            return None;
        }
        let items = items.into_iter().zip(changed);
        let items: Result<Vec<_>, _> =
            items.map(|(item, changed)| changed.unwrap_or(Ok(item))).collect();
        Some(items.and_then(|items| result.with_member(key, &json::array(&items))))
    });
    changed.map_or(outcome, RpcOutcome::from_edit)
}

/// Rewrites an item of a list, or returns `None` if it has no URI to rewrite.
fn in_item(
    addresses: UriNaming<'_>,
    server: &ServerRef,
    item: &RawJson,
) -> Option<Result<RawJson, EditError>> {
    let content = item.member("content");
    match content.and_then(|content| in_content(addresses, server, &content)) {
        Some(content) => Some(content.and_then(|content| item.with_member("content", &content))),
        None => in_content(addresses, server, item),
    }
}

fn in_content(
    addresses: UriNaming<'_>,
    server: &ServerRef,
    content: &RawJson,
) -> Option<Result<RawJson, EditError>> {
    if let Some(resource) = content.member("resource") {
        let uri = renamed(addresses, server, &resource.member("uri")?)?;
        let resource = resource.with_member("uri", &uri);
        return Some(resource.and_then(|resource| content.with_member("resource", &resource)));
    }
    let uri = renamed(addresses, server, &content.member("uri")?)?;
    Some(content.with_member("uri", &uri))
}

fn renamed(addresses: UriNaming<'_>, server: &ServerRef, uri: &RawJson) -> Option<RawJson> {
    changed(uri, |own| addresses.exposed(server, own))
}

fn changed(uri: &RawJson, exposed: impl Fn(&str) -> String) -> Option<RawJson> {
    let uri: String = uri.parse().ok()?;
    let exposed = exposed(&uri);
    (exposed != uri).then(|| RawJson::encode(&exposed))
}
