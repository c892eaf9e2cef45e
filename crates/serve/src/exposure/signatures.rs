//! The tools of all toolboxes in a few bytes each, for a description that is there before any call.
//!
//! A model that reads them calls a tool at once, without opening its toolbox. They are those that
//! servers listed when they last ran, after policy, and they are sent with every request; so there
//! is no more of them than names, and what does not fit is left to `open_toolbox`.

use crate::catalog::ToolDefinition;
use crate::gateway::Snapshot;
use crate::name::ToolboxName;
use crate::raw::Raw;
use crate::settings::Config;
use crate::toolbox::View;

/// The most bytes, whatever a client shows of a description.
pub(crate) const MAX: usize = 4096;
/// How long a name may be; servers choose it.
const MAX_NAME: usize = 64;
/// The most parameters of one tool that are named.
const MAX_PARAMETERS: usize = 24;
/// The sign for parameters that are not named.
const MORE: &str = "…";
/// The line before the signatures.
const HEAD: &str = "Tools, as toolbox/server: tool(parameter,optional?)";
/// The addition to that line where some parameters are not named.
const UNNAMED: &str = ", with … for more optional ones";

/// The signatures of tools.
pub(crate) struct Signatures {
    pub(crate) text: String,
    /// `true` if the tools of every toolbox are among them.
    pub(crate) has_all: bool,
}

/// Which parameters a signature names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Naming {
    All,
    Required,
}

/// Returns the signatures of the tools of as many toolboxes as fit into `max` bytes, with where the
/// others are shown; nothing if none fits.
pub(crate) fn written(config: &Config, at: &Snapshot, max: usize) -> Option<Signatures> {
    let views = config.toolboxes.iter().map(|toolbox| (&toolbox.name, at.view(&toolbox.name)));
    let views: Vec<_> = views.collect();
    let views: Vec<_> = views.iter().map(|(name, view)| (*name, &**view)).collect();
    of_views(&views, max)
}

fn of_views(views: &[(&ToolboxName, &View)], max: usize) -> Option<Signatures> {
    for naming in [Naming::All, Naming::Required] {
        let lines: Vec<_> =
            views.iter().map(|(name, view)| lines(name, view, naming, max)).collect();
        let is_left_out = |((_, view), lines): (&(_, &View), &Option<_>)| {
            lines.is_none() && view.tool_count() > 0
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
        views.iter().map(|(name, view)| lines(name, view, Naming::Required, max)).collect();
    let mut by_length: Vec<_> = (0..views.len()).collect();
    by_length.sort_by_key(|index| whole[*index].as_ref().map_or(usize::MAX, String::len));
    // Those that take least come first, so that there are as many of them as possible.
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

/// Returns the lines under their head, with the toolboxes that have none named at the end; nothing
/// if there are no lines.
fn joined(views: &[(&ToolboxName, &View)], lines: &[Option<String>]) -> Option<String> {
    let text: String = lines.iter().flatten().map(String::as_str).collect();
    if text.is_empty() {
        return None;
    }
    let others = views.iter().zip(lines).filter(|(_, lines)| lines.is_none());
    let others: Vec<_> = others.map(|((name, _), _)| name.as_str()).collect();
    let more = match others.as_slice() {
        [] => "open_toolbox describes them.".to_owned(),
        others => {
            format!("open_toolbox describes them, and shows those of: {}.", others.join(", "))
        }
    };
    let unnamed = if text.contains(MORE) { UNNAMED } else { "" };
    Some(format!("{HEAD}{unnamed}; {more}{text}"))
}

/// Returns a line for each server of a toolbox; nothing if it has no tools as far as is known, or
/// more than `max` bytes of them.
fn lines(toolbox: &ToolboxName, view: &View, naming: Naming, max: usize) -> Option<String> {
    let mut text = String::new();
    let mut server = None;
    for tool in view.tools() {
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

fn push_signature(text: &mut String, name: &str, tool: &ToolDefinition, naming: Naming) {
    text.push_str(name);
    text.push('(');
    let mut is_first = true;
    let mut push = |part: &str, mark: &str| {
        let separator = if is_first { "" } else { "," };
        is_first = false;
        text.extend([separator, part, mark]);
    };
    let (required, optional) = parameters(tool.schema());
    let room = MAX_PARAMETERS.saturating_sub(required.len());
    required.iter().take(MAX_PARAMETERS).for_each(|name| push(name, ""));
    let named = if naming == Naming::All { optional.len().min(room) } else { 0 };
    optional.iter().take(named).for_each(|name| push(name, "?"));
    if named < optional.len() || required.len() > MAX_PARAMETERS {
        push(MORE, "");
    }
    text.push(')');
}

/// Returns the names of the parameters that a schema requires, and of the others.
fn parameters(schema: &Raw) -> (Vec<String>, Vec<String>) {
    let required: Vec<String> =
        schema.member("required").and_then(|names| names.parse().ok()).unwrap_or_default();
    let properties = schema.member("properties").and_then(|properties| {
        let names = properties.each_member()?.map_while(|member| Some(member?.0.to_string()));
        Some(names.filter(|name| is_plain(name)).collect::<Vec<_>>())
    });
    properties.unwrap_or_default().into_iter().partition(|name| required.contains(name))
}

/// Returns `true` if a name that a server chose can stand in a description that is always read: it
/// is a word.
fn is_plain(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:$@".contains(c);
    !name.is_empty() && name.len() <= MAX_NAME && name.chars().all(is_plain)
}

#[cfg(test)]
mod tests;
