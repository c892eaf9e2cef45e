//! Resource URIs in `activate` mode: their servers, and whether they can be read now.

use crate::exposure::activate::switch_request::problem;
use crate::exposure::tool_call::{ListMutability, ResourceError};
use mcp_workbench_core::gateway::Snapshot;
use mcp_workbench_core::state::ActivePrimitives;
use mcp_workbench_core::toolbox::{NamespacedPrimitive, TOOLMAN_ACTIVATE};
use mcp_workbench_names::ServerRef;
use mcp_workbench_wire::json::{self, RawJson};

/// Returns the servers that can have this resource, each with its own URI for it. A listed resource
/// has to be active.
pub(crate) fn resource_owners(
    at: &Snapshot,
    uri: &str,
    mutability: ListMutability,
    on: &ActivePrimitives,
) -> Result<Vec<(ServerRef, String)>, ResourceError> {
    let targets = at.namespaced().resolve_uri(uri);
    if targets.len() > 1 && at.is_ambiguous_uri(uri) {
        return Ok(Vec::new());
    }
    let may_read = |item: Option<&NamespacedPrimitive>| {
        item.is_none_or(|item| mutability == ListMutability::Fixed || on.has(item))
    };
    let found = targets.iter().filter(|(.., item)| may_read(*item));
    let found: Vec<_> = found.map(|(server, own, _)| (server.clone(), own.clone())).collect();
    let inactive = targets.iter().find_map(|(.., item)| item.filter(|i| !may_read(Some(i))));
    match inactive {
        Some(item) if found.is_empty() => {
            let name = &item.name;
            let message = format!(
                "Resource '{uri}' is inactive. Use {TOOLMAN_ACTIVATE} with \
                 resources_on=[\"{name}\"] to activate it first."
            );
            let error = RawJson::encode(&problem(&message));
            let data = error.with_first(&[("uri", &RawJson::encode(&uri))]);
            Err(ResourceError { message, data: data.unwrap_or_else(|_| json::object([])) })
        }
        _ => Ok(found),
    }
}
