//! Signatures of the tools of all toolboxes, which become part of a description. A model that has
//! read them calls a tool without opening its toolbox.
//!
//! They come from stored tool lists, after policy. Since clients send them with every request, they
//! have only names, and the types of required parameters that aren't strings, which a model couldn't
//! guess. `open_toolbox` shows the rest.

use crate::exposure::{app_table, meta_tools};
use mcp_workbench_core::catalog::ToolDefinition;
use mcp_workbench_core::gateway::Snapshot;
use mcp_workbench_core::toolbox::{ExposedTool, ToolboxView};
use mcp_workbench_names::ToolboxName;
use mcp_workbench_wire::json::RawJson;

/// In bytes, even for clients that show longer descriptions.
pub(crate) const MAX: usize = 4096;
/// In bytes; servers choose the names.
const MAX_NAME: usize = 64;
const MAX_PARAMETERS: usize = 24;
/// Bytes of the choices of a parameter; the type replaces longer ones.
const MAX_CHOICES: usize = 48;
/// The types that a signature names.
const TYPES: [&str; 5] = ["string", "integer", "number", "boolean", "object"];
/// Replaces unnamed parameters.
const MORE: &str = "…";
const HEAD: &str = "Tools, as toolbox/server: tool(text,other:type,optional?)";
const UNNAMED: &str = ", with … for more optional ones";

pub(crate) struct Signatures {
    pub(crate) text: String,
    /// `true` if the tools of all toolboxes are included.
    pub(crate) has_all: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ParameterScope {
    All,
    Required,
}

impl Signatures {
    pub(crate) fn use_tool(&self) -> RawJson {
        meta_tools::described_use_tool(&format!("{} {}", meta_tools::USES, self.text))
    }
}

/// Returns the signatures of as many toolboxes as fit into `max` bytes, and names the others.
/// `None` if no toolbox fits.
/// With `shows_apps`, without tools that only apps call.
pub(crate) fn signatures_within<'a>(
    toolboxes: impl Iterator<Item = &'a ToolboxName>,
    at: &Snapshot,
    shows_apps: bool,
    max: usize,
) -> Option<Signatures> {
    let views: Vec<_> = toolboxes.map(|name| (name, at.view(name))).collect();
    let views: Vec<_> = views.iter().map(|(name, view)| (*name, &**view)).collect();
    of_views(&views, shows_apps, max)
}

fn of_views(
    views: &[(&ToolboxName, &ToolboxView)],
    shows_apps: bool,
    max: usize,
) -> Option<Signatures> {
    let lines = |name, view, naming| lines(name, view, naming, shows_apps, max);
    for naming in [ParameterScope::All, ParameterScope::Required] {
        let lines: Vec<_> = views.iter().map(|(name, view)| lines(name, view, naming)).collect();
        let is_left_out = |((_, view), lines): (&(_, &ToolboxView), &Option<_>)| {
            lines.is_none() && for_model(view, shows_apps).next().is_some()
        };
        if views.iter().zip(&lines).any(is_left_out) {
            continue;
        }
        let text = joined(views, &lines)?;
        if text.len() <= max {
            let has_all = lines.iter().all(Option::is_some);
            return Some(Signatures { text, has_all });
        }
    }
    let whole: Vec<_> =
        views.iter().map(|(name, view)| lines(name, view, ParameterScope::Required)).collect();
    let mut by_length: Vec<_> = (0..views.len()).collect();
    by_length.sort_by_key(|index| whole[*index].as_ref().map_or(usize::MAX, String::len));
    // Shortest first, to fit as many toolboxes as possible.
    let mut kept: Vec<Option<String>> = vec![None; views.len()];
    let mut best = None;
    for index in by_length {
        kept[index].clone_from(&whole[index]);
        match joined(views, &kept) {
            Some(text) if text.len() <= max => best = Some(Signatures { text, has_all: false }),
            _ => break,
        }
    }
    best
}

fn joined(views: &[(&ToolboxName, &ToolboxView)], lines: &[Option<String>]) -> Option<String> {
    let text: String = lines.iter().flatten().map(String::as_str).collect();
    if text.is_empty() {
        return None;
    }
    let others = views.iter().zip(lines).filter(|(_, lines)| lines.is_none());
    let others: Vec<_> = others.map(|((name, _), _)| name.as_str()).collect();
    let more = match others.as_slice() {
        [] => "open_toolbox describes them.".to_owned(),
        others => {
            format!("open_toolbox describes them, and lists tools of: {}.", others.join(", "))
        }
    };
    let unnamed = if text.contains(MORE) { UNNAMED } else { "" };
    Some(format!("{HEAD}{unnamed}; {more}{text}"))
}

/// Returns one line for each server of a toolbox. `None` if the toolbox has no known tools, or more
/// than `max` bytes of them.
fn lines(
    toolbox: &ToolboxName,
    view: &ToolboxView,
    naming: ParameterScope,
    shows_apps: bool,
    max: usize,
) -> Option<String> {
    let mut text = String::new();
    let mut server = None;
    for tool in for_model(view, shows_apps) {
        if text.len() > max {
            return None;
        }
        if !is_plain(&tool.id.tool) {
            continue;
        }
        if server != Some(&tool.id.server) {
            server = Some(&tool.id.server);
            text.extend(["\n", toolbox.as_str(), "/", tool.id.server.as_str(), ":"]);
        }
        text.push(' ');
        push_signature(&mut text, &tool.id.tool, &tool.definition, naming);
    }
    (!text.is_empty()).then_some(text)
}

fn for_model(view: &ToolboxView, shows_apps: bool) -> impl Iterator<Item = &ExposedTool> {
    view.tools().filter(move |tool| !(shows_apps && app_table::is_app_only(tool)))
}

fn push_signature(text: &mut String, name: &str, tool: &ToolDefinition, naming: ParameterScope) {
    text.push_str(name);
    text.push('(');
    let mut is_first = true;
    let mut push = |part: &str, mark: &str| {
        let separator = if is_first { "" } else { "," };
        is_first = false;
        text.extend([separator, part, mark]);
    };
    let (required, optional) = parameters(tool.schema());
    let capacity = MAX_PARAMETERS.saturating_sub(required.len());
    for (name, kind) in required.iter().take(MAX_PARAMETERS) {
        let kind = kind.as_ref().map(|kind| format!(":{kind}"));
        push(name, &kind.unwrap_or_default());
    }
    let named = if naming == ParameterScope::All { optional.len().min(capacity) } else { 0 };
    optional.iter().take(named).for_each(|name| push(name, "?"));
    if named < optional.len() || required.len() > MAX_PARAMETERS {
        push(MORE, "");
    }
    text.push(')');
}

/// Returns the required parameters, with the types of those that aren't strings, and the names of
/// the optional ones.
fn parameters(schema: &RawJson) -> (Vec<(String, Option<String>)>, Vec<String>) {
    let names: Vec<String> =
        schema.member("required").and_then(|names| names.parse().ok()).unwrap_or_default();
    let (mut required, mut optional) = (Vec::new(), Vec::new());
    let properties = schema.member("properties");
    let properties = properties.as_ref().and_then(RawJson::each_member).into_iter().flatten();
    for (name, property) in properties.map_while(|member| member) {
        if !is_plain(&name) {
            continue;
        }
        if names.iter().any(|required| **required == *name) {
            required.push((name.to_string(), parameter_type(&property)));
        } else {
            optional.push(name.to_string());
        }
    }
    (required, optional)
}

/// Returns the choices of a parameter or its type. `None` for a text and for complex types.
fn parameter_type(property: &RawJson) -> Option<String> {
    let member = |schema: &RawJson, name| schema.member(name)?.parse::<String>().ok();
    if let Some(choices) = property.member("enum") {
        let choices = choices.parse::<Vec<String>>().ok();
        let choices = choices.filter(|choices| choices.iter().all(|choice| is_plain(choice)));
        let choices = choices.map(|choices| choices.join("|"));
        if let Some(choices) = choices.filter(|text| !text.is_empty() && text.len() <= MAX_CHOICES)
        {
            return Some(choices);
        }
    }
    match member(property, "type")?.as_str() {
        "array" => {
            let items = property.member("items").and_then(|items| member(&items, "type"));
            let items = items.filter(|items| TYPES.contains(&items.as_str()));
            Some(items.map_or_else(|| "array".to_owned(), |items| format!("{items}[]")))
        }
        other => TYPES.contains(&other).then(|| other.to_owned()).filter(|kind| kind != "string"),
    }
}

/// Returns `true` if a name chosen by a server is a plain word, so that it can't carry instructions
/// for the model.
fn is_plain(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:$@".contains(c);
    !name.is_empty() && name.len() <= MAX_NAME && name.chars().all(is_plain)
}

#[cfg(test)]
mod tests;
