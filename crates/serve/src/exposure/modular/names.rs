//! The names that the tools of a group have in it.
//!
//! In a category they are called as the user wrote them, which may be with `mcp__<server>__` in
//! front, as Claude Code would call them; else as their server calls them, and where two servers of
//! a group have the same, with the server in front. A call may use any of these names.

use std::collections::HashMap;

use crate::exposure::modular::OFFERED;
use crate::name;
use crate::settings::{ServerConfig, ToolboxConfig};
use crate::toolbox::{View, ViewTool};

/// A tool with the name that its group has for it.
pub(crate) struct Named<'a> {
    pub(crate) name: String,
    pub(crate) tool: &'a ViewTool,
}

impl<'a> Named<'a> {
    /// A tool of a category, which is known as the user wrote it, unless it was given another name.
    fn included(server: &ServerConfig, view: &'a View, written: &str) -> Option<Self> {
        let own =
            |name: &str| view.tools_of(&server.name).iter().find(|tool| tool.own.name == name);
        let tool = own(written).or_else(|| own(bare(server, written)?))?;
        let is_renamed = tool.id.tool != tool.own.name;
        let name = if is_renamed { &tool.id.tool } else { written };
        Some(Self { name: name.to_owned(), tool })
    }
}

/// The tools of a group: those of a category in its order, the others in that of their servers.
pub(crate) fn named<'a>(toolbox: &ToolboxConfig, view: &'a View) -> Vec<Named<'a>> {
    let mut all: Vec<Named<'a>> = Vec::new();
    for server in &toolbox.servers {
        let Some(include) = &server.include else {
            let own = view.tools_of(&server.name).iter();
            all.extend(own.map(|tool| Named { name: tool.id.tool.clone(), tool }));
            continue;
        };
        for written in include {
            let Some(named) = Named::included(server, view, written) else { continue };
            if !all.iter().any(|other| other.tool.id == named.tool.id) {
                all.push(named);
            }
        }
    }
    let mut counts: HashMap<String, usize> = HashMap::new();
    for tool in &all {
        *counts.entry(tool.name.clone()).or_default() += 1;
    }
    for tool in &mut all {
        let server = &tool.tool.id.server;
        let is_written = toolbox.server(server.as_str()).is_some_and(|s| s.include.is_some());
        // A server does not choose names that begin with another one's.
        let is_other = !is_written
            && owner(toolbox, &tool.name).is_some_and(|(whose, _)| whose.name != *server);
        if is_other || counts.get(&tool.name).is_some_and(|count| *count > 1) {
            tool.name = format!("{}__{}", tool.tool.id.server, tool.name);
        }
    }
    all
}

/// The tools of a category that its server does not list, by the names that the user wrote.
/// Those that the user has switched off are not spoken of.
pub(crate) fn missing<'a>(server: &'a ServerConfig, view: &View) -> Vec<&'a str> {
    let is_missing = |written: &str| {
        let own = bare(server, written).unwrap_or(written);
        let over = server.tool_override(own, false);
        let is_off = over.is_some_and(|over| over.enabled == Some(false));
        !is_off && Named::included(server, view, written).is_none()
    };
    let written = server.include.iter().flatten().map(String::as_str);
    written.filter(|written| is_missing(written)).collect()
}

/// A name without the `mcp__<server>__` in front.
fn bare<'a>(server: &ServerConfig, name: &'a str) -> Option<&'a str> {
    name.strip_prefix(&server.client_prefix())
}

/// The server that a name begins with, in any of the ways in which clients write that, and the rest of
/// the name. Of servers whose names begin alike it is the longest.
fn owner<'t, 'n>(toolbox: &'t ToolboxConfig, name: &'n str) -> Option<(&'t ServerConfig, &'n str)> {
    let name = name.strip_prefix("mcp__").unwrap_or(name);
    let owners = toolbox.servers.iter().filter_map(|server| {
        let rest = name.strip_prefix(server.name.as_str())?;
        let own = rest.strip_prefix("__").or_else(|| rest.strip_prefix(':'))?;
        Some((server, own))
    });
    owners.min_by_key(|(_, own)| own.len())
}

/// The tool that a call means, or the names that are nearest to what it says.
pub(crate) fn resolve<'a>(
    toolbox: &ToolboxConfig,
    view: &'a View,
    wanted: &str,
) -> Result<&'a ViewTool, Vec<String>> {
    let all = named(toolbox, view);
    if let Some(found) = all.iter().find(|tool| tool.name == wanted) {
        return Ok(found.tool);
    }
    let owner = owner(toolbox, wanted);
    let may_be = |tool: &ViewTool| owner.is_none_or(|(whose, _)| whose.name == tool.id.server);
    let is_called = |named: &&Named<'_>| named.tool.id.tool == wanted && may_be(named.tool);
    let own: Vec<_> = all.iter().filter(is_called).collect();
    match own.as_slice() {
        [only] => return Ok(only.tool),
        [] => {}
        several => return Err(several.iter().map(|tool| tool.name.clone()).collect()),
    }
    let prefixed = all.iter().find(|Named { tool, .. }| {
        let is_its_own =
            owner.is_some_and(|(whose, own)| whose.name == tool.id.server && own == tool.id.tool);
        is_its_own || tool.name.as_str() == wanted
    });
    if let Some(found) = prefixed {
        return Ok(found.tool);
    }
    // The server's part of a name would make all of them look alike.
    let short = toolbox.servers.iter().find_map(|server| bare(server, wanted)).unwrap_or(wanted);
    let known = all.iter().map(|tool| tool.tool.id.tool.as_str());
    let near = name::nearest(short, known, OFFERED);
    let in_group = |own: &&str| {
        let found = all.iter().find(|tool| tool.tool.id.tool == **own);
        found.map_or_else(|| (*own).to_owned(), |tool| tool.name.clone())
    };
    if near.is_empty() {
        return Err(all.iter().take(OFFERED).map(|tool| tool.name.clone()).collect());
    }
    Err(near.iter().map(in_group).collect())
}

#[cfg(test)]
mod tests;
