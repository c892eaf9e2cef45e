//! Rewrites resource URIs in results and definitions of servers to the form that agents know.
//!
//! Only URIs that two servers share are made unique. A URI of a single server stays unchanged, and
//! so does the JSON around it. In `activate` mode, lists put a namespace before every URI, but in
//! results shared URIs are still the only ones that change.

use crate::backend::RpcOutcome;
use crate::gateway::Snapshot;
use crate::json::{self, EditError, RawJson};
use crate::name::ServerRef;
use crate::toolbox::ExposedTool;

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
    tool: &ExposedTool,
    definition: &RawJson,
) -> Result<RawJson, EditError> {
    rewrite_definition(UriNaming::Unique(snapshot), &tool.id.server_ref(), definition)
}

/// Rewrites `_meta.ui.resourceUri` of a tool's definition (extension `io.modelcontextprotocol/ui`).
pub(crate) fn rewrite_definition(
    addresses: UriNaming<'_>,
    server: &ServerRef,
    definition: &RawJson,
) -> Result<RawJson, EditError> {
    let changed = || {
        let meta = definition.member("_meta")?;
        let ui = meta.member("ui")?;
        let uri = renamed(addresses, server, &ui.member("resourceUri")?)?;
        Some((meta, ui, uri))
    };
    match (!addresses.are_plain()).then(changed).flatten() {
        Some((meta, ui, uri)) => {
            let ui = ui.with_member("resourceUri", &uri)?;
            definition.with_member("_meta", &meta.with_member("ui", &ui)?)
        }
        None => Ok(definition.clone()),
    }
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
    let uri: String = uri.parse().ok()?;
    let exposed = addresses.exposed(server, &uri);
    (exposed != uri).then(|| RawJson::encode(&exposed))
}
