//! Lists of tools in an answer: one tool a line, the header first, never longer than allowed.
//!
//! Clients cut long answers, some by whole lines, some in the middle; so what must not be lost
//! stands in the header, and whole definitions give way to signatures before a client cuts.

use serde_json::{Map, Value, json};

use crate::catalog::shorten;
use crate::exposure::budget::names_that_fit;
use crate::gateway::{FailedServer, Opened};
use crate::name::{ServerName, seen};
use crate::raw::Raw;
use crate::settings::ToolboxConfig;
use crate::toolbox::ViewTool;

/// How long the reason for one failed server may be in an answer, in characters, and what all
/// reasons together may take.
const MAX_REASON: usize = 1000;
const MAX_REASONS: usize = 8000;
/// The most bytes of names of servers that are still starting.
const MAX_STARTING: usize = 1000;
/// How long the servers' own instructions may be in an answer, all together, in characters.
const MAX_INSTRUCTIONS: usize = 4000;

/// A way to write one tool, or whatever is listed, on one line.
pub(crate) type Line<'a, T = ViewTool> = &'a dyn Fn(&T) -> Raw;

/// Tools written for an answer.
pub(crate) struct Listing {
    /// Which of the ways they are written in, the first being the best.
    pub(crate) step: usize,
    /// The lines.
    pub(crate) lines: Vec<Raw>,
    /// How many tools found no room at all.
    pub(crate) left_out: usize,
}

/// Writes all tools in the first of `ways` in which they fit into `max` bytes; where even the
/// last one is too long, as many of them as fit.
pub(crate) fn in_one_way<T>(tools: &[&T], ways: &[Line<'_, T>], max: usize) -> Listing {
    let mut listing = Listing { step: 0, lines: Vec::new(), left_out: 0 };
    for (step, way) in ways.iter().enumerate() {
        let mut used = 0;
        // Of thousands of tools, no more are written than there is room for.
        let fitting = tools.iter().map(|tool| way(tool)).take_while(|line| {
            used += line.len() + SEPARATOR;
            used <= max
        });
        let lines: Vec<_> = fitting.collect();
        listing = Listing { step, left_out: tools.len() - lines.len(), lines };
        if listing.left_out == 0 {
            break;
        }
    }
    listing
}

/// Writes as many tools as possible in the best of `ways`, from the first on, and the others in
/// the last one; where even that is too long, as many of them as fit.
pub(crate) fn best_first<T>(tools: &[&T], ways: &[Line<'_, T>], max: usize) -> Listing {
    let (Some(best), Some(last)) = (ways.first(), ways.last()) else {
        return in_one_way(tools, ways, max);
    };
    let mut listing = in_one_way(tools, &[*last], max);
    if listing.left_out > 0 {
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

/// The bytes for the punctuation and a remark on what was left out.
const REMARK: usize = 250;
/// The bytes between two lines.
const SEPARATOR: usize = ",\n".len();

impl Listing {
    fn len(&self) -> usize {
        self.lines.iter().map(|line| line.len() + SEPARATOR).sum()
    }

    /// An object of the members of `header` and of `tools`, one tool a line.
    pub(crate) fn text(&self, header: &Map<String, Value>) -> String {
        self.text_of("tools", header)
    }

    /// An object of the members of `header` and, in `member`, of what is listed, one a line.
    pub(crate) fn text_of(&self, member: &str, header: &Map<String, Value>) -> String {
        object(header, member, self.lines.iter().map(Raw::as_str), "\n")
    }

    /// An object of the members of `header` and of `tools`, on one line.
    pub(crate) fn compact(&self, header: &Map<String, Value>) -> String {
        object(header, "tools", self.lines.iter().map(Raw::as_str), "")
    }
}

/// An object of the members of `header` and of a list, with this before each of its items.
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

/// The members that every answer to an opening begins with.
pub(crate) fn header(toolbox: &ToolboxConfig, opened: &Opened) -> Map<String, Value> {
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
    if toolbox.launched().next().is_some() {
        header.insert("servers_connected".to_owned(), opened.connected.into());
    }
    header.insert("failed_servers".to_owned(), failed.collect());
    if !opened.starting.is_empty() {
        header.insert("still_starting".to_owned(), still_starting(&opened.starting).into());
    }
    let servers = || opened.view.instructions();
    if let Some(max) = MAX_INSTRUCTIONS.checked_div(servers().count()) {
        let texts = servers().map(|(server, text)| {
            (server.to_string(), Value::from(shorten(&seen::lines(text), max)))
        });
        header.insert("server_instructions".to_owned(), Value::Object(texts.collect()));
    }
    header
}

/// Says which servers are still starting, and that what they have can be used all the same.
fn still_starting(servers: &[ServerName]) -> String {
    let names = servers.iter().map(ServerName::as_str);
    let names = match names_that_fit(MAX_STARTING, names) {
        (names, 0) => names,
        (names, more) => format!("{names}, and {more} more"),
    };
    format!("{names}: tools as they were last listed; a call of one waits for its server")
}

/// The bytes of `max` that an answer with this header leaves for its tools.
pub(crate) fn room(max: usize, header: &Map<String, Value>) -> usize {
    let header: usize = header.iter().map(|(key, value)| key.len() + value.to_string().len()).sum();
    max.saturating_sub(header + REMARK)
}

/// The end of a long text is where the cause stands, so its beginning is cut.
fn cut(text: &str, max: usize) -> String {
    let surplus = text.chars().count().saturating_sub(max);
    match text.char_indices().nth(surplus) {
        Some((start, _)) if surplus > 0 => format!("…{}", &text[start..]),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
