//! Tool names within a group.
//!
//! A category uses the names that the user wrote, possibly with the prefix `mcp__<server>__` of
//! Claude Code. Other groups use the names of their servers, prefixed with the server if two of
//! them clash. A call may use any of these forms.

use std::collections::HashMap;

use crate::exposure::modular::MAX_SUGGESTIONS;
use mcp_workbench_core::toolbox::{ExposedTool, ToolboxView};
use mcp_workbench_settings::{ServerConfig, ToolboxConfig};

pub(crate) struct GroupTool<'a> {
    pub(crate) name: String,
    pub(crate) tool: &'a ExposedTool,
}

impl<'a> GroupTool<'a> {
    /// Finds the tool that a category lists as `written`. A renamed tool goes by its new name.
    fn included(server: &ServerConfig, view: &'a ToolboxView, written: &str) -> Option<Self> {
        let own = |name: &str| {
            view.tools_of(&server.name).iter().find(|tool| tool.server_definition.name == name)
        };
        let tool = own(written).or_else(|| own(bare(server, written)?))?;
        let is_renamed = tool.id.tool != tool.server_definition.name;
        let name = if is_renamed { &tool.id.tool } else { written };
        Some(Self { name: name.to_owned(), tool })
    }
}

/// Returns the tools of a group: a category in its own order, others in server order.
pub(crate) fn named<'a>(toolbox: &ToolboxConfig, view: &'a ToolboxView) -> Vec<GroupTool<'a>> {
    let mut all: Vec<GroupTool<'a>> = Vec::new();
    for server in &toolbox.servers {
        let Some(include) = &server.include else {
            let own = view.tools_of(&server.name).iter();
            all.extend(own.map(|tool| GroupTool { name: tool.id.tool.clone(), tool }));
            continue;
        };
        for written in include {
            let Some(named) = GroupTool::included(server, view, written) else { continue };
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
        // A server must not claim names with another server's prefix.
        let is_other = !is_written
            && owner(toolbox, &tool.name).is_some_and(|(whose, _)| whose.name != *server);
        if is_other || counts.get(&tool.name).is_some_and(|count| *count > 1) {
            tool.name = format!("{}__{}", tool.tool.id.server, tool.name);
        }
    }
    all
}

/// Returns the enabled tools of a category that its server doesn't list.
pub(crate) fn missing<'a>(server: &'a ServerConfig, view: &ToolboxView) -> Vec<&'a str> {
    let is_missing = |written: &str| {
        let own = bare(server, written).unwrap_or(written);
        let over = server.tool_override(own, false);
        let is_off = over.is_some_and(|over| over.enabled == Some(false));
        !is_off && GroupTool::included(server, view, written).is_none()
    };
    let written = server.include.iter().flatten().map(String::as_str);
    written.filter(|written| is_missing(written)).collect()
}

fn bare<'a>(server: &ServerConfig, name: &'a str) -> Option<&'a str> {
    name.strip_prefix(&server.client_prefix())
}

/// Splits a name into the server it starts with, in any spelling that clients use, and the rest.
/// The longest matching server name wins.
fn owner<'t, 'n>(toolbox: &'t ToolboxConfig, name: &'n str) -> Option<(&'t ServerConfig, &'n str)> {
    let name = name.strip_prefix("mcp__").unwrap_or(name);
    let owners = toolbox.servers.iter().filter_map(|server| {
        let rest = name.strip_prefix(server.name.as_str())?;
        let own = rest.strip_prefix("__").or_else(|| rest.strip_prefix(':'))?;
        Some((server, own))
    });
    owners.min_by_key(|(_, own)| own.len())
}

/// Resolves the tool that a call names, or returns the most similar names.
pub(crate) fn resolve<'a>(
    toolbox: &ToolboxConfig,
    view: &'a ToolboxView,
    wanted: &str,
) -> Result<&'a ExposedTool, Vec<String>> {
    let all = named(toolbox, view);
    if let Some(found) = all.iter().find(|tool| tool.name == wanted) {
        return Ok(found.tool);
    }
    let owner = owner(toolbox, wanted);
    let may_be = |tool: &ExposedTool| owner.is_none_or(|(whose, _)| whose.name == tool.id.server);
    let is_called = |named: &&GroupTool<'_>| named.tool.id.tool == wanted && may_be(named.tool);
    let own: Vec<_> = all.iter().filter(is_called).collect();
    match own.as_slice() {
        [only] => return Ok(only.tool),
        [] => {}
        several => return Err(several.iter().map(|tool| tool.name.clone()).collect()),
    }
    let prefixed = all.iter().find(|GroupTool { tool, .. }| {
        let is_its_own =
            owner.is_some_and(|(whose, own)| whose.name == tool.id.server && own == tool.id.tool);
        is_its_own || tool.name.as_str() == wanted
    });
    if let Some(found) = prefixed {
        return Ok(found.tool);
    }
    // With the common prefix, all names would look similar.
    let short = toolbox.servers.iter().find_map(|server| bare(server, wanted)).unwrap_or(wanted);
    let known = all.iter().map(|tool| tool.tool.id.tool.as_str());
    let near = mcp_workbench_names::nearest(short, known, MAX_SUGGESTIONS);
    let in_group = |own: &&str| {
        let found = all.iter().find(|tool| tool.tool.id.tool == **own);
        found.map_or_else(|| (*own).to_owned(), |tool| tool.name.clone())
    };
    if near.is_empty() {
        return Err(all.iter().take(MAX_SUGGESTIONS).map(|tool| tool.name.clone()).collect());
    }
    Err(near.iter().map(in_group).collect())
}

#[cfg(test)]
mod tests;
