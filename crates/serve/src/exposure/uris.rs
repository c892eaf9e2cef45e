//! Addresses of resources as agents know them, wherever they occur in what a server says.
//!
//! Those are told apart that two servers have alike: an address that is one server's alone is never
//! touched, and neither is what holds it. In `activate` mode lists have a namespace before each; what
//! servers say besides is left as it is there too.

use crate::backend::Outcome;
use crate::gateway::Snapshot;
use crate::name::ServerRef;
use crate::raw::{self, Raw};
use crate::toolbox::ViewTool;

/// How agents know addresses that two servers have alike.
#[derive(Clone, Copy)]
pub(crate) enum Addresses<'a> {
    /// With the toolbox and the server before them.
    Unique(&'a Snapshot),
    /// With their namespaces before them.
    Namespaced(&'a Snapshot),
}

impl Addresses<'_> {
    /// Returns `true` if all of them are as servers write them.
    fn are_plain(self) -> bool {
        let (Self::Unique(snapshot) | Self::Namespaced(snapshot)) = self;
        snapshot.uris().is_plain() && snapshot.templates().is_plain()
    }

    /// How agents know a server's address.
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

/// A tool's definition with the address of its user interface as agents know it.
pub(crate) fn in_tool(snapshot: &Snapshot, tool: &ViewTool, definition: &Raw) -> Raw {
    in_definition(Addresses::Unique(snapshot), &tool.id.server_ref(), definition)
}

/// Puts known addresses into a tool's definition (the extension `io.modelcontextprotocol/ui`,
/// `_meta.ui.resourceUri`).
pub(crate) fn in_definition(addresses: Addresses<'_>, server: &ServerRef, definition: &Raw) -> Raw {
    let changed = || {
        let meta = definition.member("_meta")?;
        let ui = meta.member("ui")?;
        let uri = renamed(addresses, server, &ui.member("resourceUri")?)?;
        let ui = ui.with_member("resourceUri", &uri)?;
        definition.with_member("_meta", &meta.with_member("ui", &ui)?)
    };
    (!addresses.are_plain()).then(changed).flatten().unwrap_or_else(|| definition.clone())
}

/// The result of a call, of a prompt or of reading with the addresses in it as agents know them.
pub(crate) fn in_result(addresses: Addresses<'_>, server: &ServerRef, outcome: Outcome) -> Outcome {
    if addresses.are_plain() {
        return outcome;
    }
    let Outcome::Result(result) = &outcome else { return outcome };
    let changed = ["content", "messages", "contents"].into_iter().find_map(|key| {
        let items = result.member(key)?.items()?;
        let changed: Vec<_> = items
            .iter()
            .map(|item| {
                let content = item.member("content").and_then(|content| {
                    item.with_member("content", &in_content(addresses, server, &content)?)
                });
                content.or_else(|| in_content(addresses, server, item))
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
fn in_content(addresses: Addresses<'_>, server: &ServerRef, content: &Raw) -> Option<Raw> {
    if let Some(resource) = content.member("resource") {
        let uri = renamed(addresses, server, &resource.member("uri")?)?;
        return content.with_member("resource", &resource.with_member("uri", &uri)?);
    }
    content.with_member("uri", &renamed(addresses, server, &content.member("uri")?)?)
}

fn renamed(addresses: Addresses<'_>, server: &ServerRef, uri: &Raw) -> Option<Raw> {
    let uri: String = uri.parse().ok()?;
    let exposed = addresses.exposed(server, &uri);
    (exposed != uri).then(|| Raw::encode(&exposed))
}
