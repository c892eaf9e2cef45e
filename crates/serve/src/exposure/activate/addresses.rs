//! Addresses of resources in `activate` mode: whose they are, and whether they may be read now.

use crate::exposure::activate::change::problem;
use crate::exposure::request::{Refusal, Surface};
use crate::gateway::Snapshot;
use crate::name::ServerRef;
use crate::raw::{self, Raw};
use crate::state::Active;
use crate::toolbox::{Item, TOOLMAN_ACTIVATE};

/// The servers that an address may lead to, each with its own address; of primitives that are listed
/// only what is active may be read.
pub(crate) fn addressed(
    at: &Snapshot,
    uri: &str,
    surface: Surface,
    on: &Active,
) -> Result<Vec<(ServerRef, String)>, Refusal> {
    let targets = at.namespaced().address(uri);
    let may_read =
        |item: Option<&Item>| item.is_none_or(|item| surface == Surface::Constant || on.has(item));
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
            let error = Raw::encode(&problem(&message));
            let data = error.with_first(&[("uri", &Raw::encode(&uri))]);
            Err(Refusal { message, data: data.unwrap_or_else(|| raw::object([])) })
        }
        _ => Ok(found),
    }
}
