//! Lists of tools in results: a header, then one tool per line, within a size limit.
//!
//! Clients truncate long results, some by lines, some in the middle. Essential members are
//! therefore in the header, and definitions are reduced to signatures before a client would
//! truncate them.

use serde_json::{Map, Value, json};

use crate::exposure::truncation::names_that_fit;
use mcp_workbench_core::catalog::shorten;
use mcp_workbench_core::gateway::{FailedServer, OpenedToolbox};
use mcp_workbench_core::toolbox::ExposedTool;
use mcp_workbench_names::{ServerName, untrusted_text};
use mcp_workbench_settings::ToolboxConfig;
use mcp_workbench_wire::json::RawJson;

/// Maximum length of the reason for one failed server, and of all reasons, in characters.
const MAX_REASON: usize = 1000;
const MAX_REASONS: usize = 8000;
/// Maximum size of the names of starting servers, in bytes.
const MAX_STARTING: usize = 1000;
/// Maximum length of all servers' instructions together, in characters.
const MAX_INSTRUCTIONS: usize = 4000;

/// Renders a tool, or another list item, on one line.
pub(crate) type RenderFn<'a, T = ExposedTool> = &'a dyn Fn(&T) -> RawJson;

pub(crate) struct RenderedList {
    /// The form used: an index into `ways`, 0 is the best.
    pub(crate) step: usize,
    pub(crate) lines: Vec<RawJson>,
    pub(crate) omitted: usize,
}

/// Renders all tools in the best of `ways` that fits into `max` bytes. If even the last one doesn't
/// fit, omits the rest.
pub(crate) fn render_uniform<T>(
    tools: &[&T],
    ways: &[RenderFn<'_, T>],
    max: usize,
) -> RenderedList {
    let mut listing = RenderedList { step: 0, lines: Vec::new(), omitted: 0 };
    for (step, way) in ways.iter().enumerate() {
        let mut used = 0;
        // Lazy, so thousands of tools aren't rendered beyond the limit.
        let fitting = tools.iter().map(|tool| way(tool)).take_while(|line| {
            used += line.len() + SEPARATOR;
            used <= max
        });
        let lines: Vec<_> = fitting.collect();
        listing = RenderedList { step, omitted: tools.len() - lines.len(), lines };
        if listing.omitted == 0 {
            break;
        }
    }
    listing
}

/// Renders as many tools as possible in the best of `ways`, from the first on, and the others in
/// the last one. If even the last one doesn't fit, omits the rest.
pub(crate) fn render_best_first<T>(
    tools: &[&T],
    ways: &[RenderFn<'_, T>],
    max: usize,
) -> RenderedList {
    let (Some(best), Some(last)) = (ways.first(), ways.last()) else {
        return render_uniform(tools, ways, max);
    };
    let mut listing = render_uniform(tools, &[*last], max);
    if listing.omitted > 0 {
        return listing;
    }
    listing.step = 0;
    let mut used = listing.len();
    for (line, tool) in listing.lines.iter_mut().zip(tools) {
        let better = best(tool);
        if used - line.len() + better.len() > max {
            listing.step = 1;
            continue;
        }
        used = used - line.len() + better.len();
        *line = better;
    }
    listing
}

/// Bytes reserved for punctuation and a note on omissions.
const REMARK: usize = 250;
const SEPARATOR: usize = ",\n".len();

impl RenderedList {
    fn len(&self) -> usize {
        self.lines.iter().map(|line| line.len() + SEPARATOR).sum()
    }

    /// Renders a JSON object of `header` and `tools`, one tool per line.
    pub(crate) fn text(&self, header: &Map<String, Value>) -> String {
        self.text_of("tools", header)
    }

    /// Like `text`, with another name for the list.
    pub(crate) fn text_of(&self, member: &str, header: &Map<String, Value>) -> String {
        object(header, member, self.lines.iter().map(RawJson::as_str), "\n")
    }

    /// Like `text`, on a single line.
    pub(crate) fn compact(&self, header: &Map<String, Value>) -> String {
        object(header, "tools", self.lines.iter().map(RawJson::as_str), "")
    }
}

/// Renders a JSON object of `header` and a list, with `line_end` before each item.
pub(crate) fn object(
    header: &Map<String, Value>,
    list: &str,
    items: impl IntoIterator<Item = impl AsRef<str>>,
    line_end: &str,
) -> String {
    let mut text = String::from("{");
    for (key, value) in header {
        let member = format!("{}:{value},", Value::from(key.as_str()));
        text.push_str(&member);
    }
    text.extend(["\"", list, "\":["]);
    for (index, item) in items.into_iter().enumerate() {
        text.push_str(if index == 0 { "" } else { "," });
        text.push_str(line_end);
        text.push_str(item.as_ref());
    }
    text.push_str(line_end);
    text.push_str("]}");
    text
}

pub(crate) fn header(toolbox: &ToolboxConfig, opened: &OpenedToolbox) -> Map<String, Value> {
    let max = MAX_REASON.min(MAX_REASONS / 2 / opened.failed.len().max(1));
    let failed = opened.failed.iter().map(|FailedServer { server, reason, hint, .. }| {
        json!({
            "server": server.as_str(),
            "reason": cut(reason, max),
            "hint": cut(hint, max),
        })
    });
    let mut header = Map::new();
    header.insert("toolbox".to_owned(), toolbox.name.as_str().into());
    header.insert("description".to_owned(), cut(&toolbox.description, MAX_REASON).into());
    if toolbox.launchable_servers().next().is_some() {
        header.insert("servers_connected".to_owned(), opened.connected.into());
    }
    header.insert("failed_servers".to_owned(), failed.collect());
    let starting = [
        (&opened.starting, "these tools were cached; a call waits until the server is ready"),
        (&opened.unlisted, "tools not known yet; open the toolbox again in a moment"),
    ];
    let starting = starting.into_iter().filter(|(servers, _)| !servers.is_empty());
    let starting: Vec<_> = starting.map(|(servers, hint)| still_starting(servers, hint)).collect();
    if !starting.is_empty() {
        header.insert("still_starting".to_owned(), starting.join(". ").into());
    }
    let servers = || opened.view.instructions();
    if let Some(max) = MAX_INSTRUCTIONS.checked_div(servers().count()) {
        let texts = servers().map(|(server, text)| {
            (server.to_string(), Value::from(shorten(&untrusted_text::clean_lines(text), max)))
        });
        header.insert("server_instructions".to_owned(), Value::Object(texts.collect()));
    }
    header
}

fn still_starting(servers: &[ServerName], hint: &str) -> String {
    let names = servers.iter().map(ServerName::as_str);
    let names = match names_that_fit(MAX_STARTING, names) {
        (names, 0) => names,
        (names, more) => format!("{names}, and {more} more"),
    };
    format!("{names}: {hint}")
}

/// Returns the bytes of `max` that remain after the header.
pub(crate) fn remaining_bytes(max: usize, header: &Map<String, Value>) -> usize {
    let header: usize = header.iter().map(|(key, value)| key.len() + value.to_string().len()).sum();
    max.saturating_sub(header + REMARK)
}

/// Removes the middle: the beginning says what happened, and the cause of an error is usually at the
/// end, but Node.js prints it before the rest of a stack trace.
fn cut(text: &str, max: usize) -> String {
    let length = text.chars().count();
    if length <= max {
        return text.to_owned();
    }
    let offset = |chars: usize| text.char_indices().nth(chars).map_or(text.len(), |(at, _)| at);
    let head = max * 2 / 5;
    format!("{}…{}", &text[..offset(head)], &text[offset(length - (max - head))..])
}

#[cfg(test)]
mod tests;
