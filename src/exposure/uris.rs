//! Addresses of resources that two servers have alike, wherever they occur in what a server says.
//!
//! An address that is one server's alone is never touched, and neither is what holds it.

use crate::backend::Outcome;
use crate::gateway::Snapshot;
use crate::name::Place;
use crate::raw::{self, Raw};
use crate::toolbox::ViewTool;

/// A tool's definition with the address of its user interface as agents know it (the extension
/// `io.modelcontextprotocol/ui`, `_meta.ui.resourceUri`).
pub(crate) fn in_tool(snapshot: &Snapshot, tool: &ViewTool, definition: &Raw) -> Raw {
    let changed = || {
        let place = tool.id.place();
        let meta = definition.member("_meta")?;
        let ui = meta.member("ui")?;
        let uri = renamed(snapshot, &place, &ui.member("resourceUri")?)?;
        let ui = ui.with_member("resourceUri", &uri)?;
        definition.with_member("_meta", &meta.with_member("ui", &ui)?)
    };
    let is_plain = snapshot.uris().is_plain() && snapshot.templates().is_plain();
    (!is_plain).then(changed).flatten().unwrap_or_else(|| definition.clone())
}

/// A tool's or a prompt's result with the addresses in its content as agents know them.
pub(crate) fn in_result(snapshot: &Snapshot, place: &Place, outcome: Outcome) -> Outcome {
    if snapshot.uris().is_plain() && snapshot.templates().is_plain() {
        return outcome;
    }
    let Outcome::Result(result) = &outcome else { return outcome };
    let changed = ["content", "messages"].into_iter().find_map(|key| {
        let items = result.member(key)?.items()?;
        let changed: Vec<_> = items
            .iter()
            .map(|item| {
                let content = item.member("content").and_then(|content| {
                    item.with_member("content", &in_content(snapshot, place, &content)?)
                });
                content.or_else(|| in_content(snapshot, place, item))
            })
            .collect();
        if changed.iter().all(Option::is_none) {
            return None;
        }
        let items =
            items.iter().zip(&changed).map(|(item, changed)| changed.as_ref().unwrap_or(item));
        result.with_member(key, &raw::array(items))
    });
    changed.map_or(outcome, Outcome::Result)
}

/// One block of content, if there is an address in it that is to be changed.
fn in_content(snapshot: &Snapshot, place: &Place, content: &Raw) -> Option<Raw> {
    if let Some(resource) = content.member("resource") {
        let uri = renamed(snapshot, place, &resource.member("uri")?)?;
        return content.with_member("resource", &resource.with_member("uri", &uri)?);
    }
    content.with_member("uri", &renamed(snapshot, place, &content.member("uri")?)?)
}

fn renamed(snapshot: &Snapshot, place: &Place, uri: &Raw) -> Option<Raw> {
    let uri: String = uri.parse().ok()?;
    let exposed = snapshot.exposed_uri(place, &uri);
    (exposed != uri).then(|| Raw::encode(&exposed))
}
