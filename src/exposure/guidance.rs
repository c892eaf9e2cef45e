//! What a model is told before its first call, within the bytes that clients let through.
//!
//! Clients cut instructions at 2 KiB and more; one shows only the first 250 characters. So the
//! names of all toolboxes come first, and everything after them steps down until it fits.

use crate::catalog::shorten;
use crate::config::{Config, ToolMode, ToolboxConfig};
use crate::exposure::Surface;
use crate::exposure::budget::{first_that_fits, names_that_fit};
use crate::name::ServerName;

/// The most bytes of the instructions.
pub(crate) const MAX_INSTRUCTIONS: usize = 2048;
/// The most bytes of the description of `open_toolbox`, and of what else leads to all tools.
pub(crate) const MAX_DESCRIPTION: usize = 1024;
/// What the one client shows that shows least, in characters.
pub(crate) const FIRST_GLANCE: usize = 250;
/// How long the descriptions of toolboxes may be, step by step.
pub(crate) const STEPS: [usize; 5] = [300, 160, 100, 60, 30];

/// The instructions: every toolbox with its description and its number of servers, and how to
/// open one; at most 2,048 bytes.
pub(crate) fn instructions(config: &Config, mode: ToolMode, surface: Surface) -> String {
    let head = head(config);
    let usage = match mode {
        ToolMode::Search => {
            "Call search_tools with what you want, in English, as service, verb and object, one step \
             a query; then use_tool {\"tool\": {\"toolbox\", \"server\", \"tool\"}, \"arguments\": \
             {…}} to call what it finds."
        }
        ToolMode::Dynamic => {
            "Call open_toolbox to use one: its tools are then in your tool list as \
             <toolbox>__<server>__<tool>."
        }
        ToolMode::Direct => "Their tools are in your tool list.",
        ToolMode::Activate if surface == Surface::Constant => {
            "The description of toolman_activate lists their tools and resources; it gives the \
             definitions of those that it is asked for (tools_on, resources_on), and every tool can \
             be called."
        }
        ToolMode::Activate => {
            "The description of toolman_activate lists their tools and resources; it switches them \
             on (tools_on, resources_on) and off. Active tools are in your tool list."
        }
        _ => {
            "Call open_toolbox to see the tools of one, then use_tool {\"tool\": {\"toolbox\", \
             \"server\", \"tool\"}, \"arguments\": {…}} to call one of them."
        }
    };
    let searches = config.search.is_offered && matches!(mode, ToolMode::Dynamic | ToolMode::Proxy);
    let more = if searches { " search_tools finds tools in all of them." } else { "" };
    let usage = format!("{usage}{more}");
    let with_descriptions = STEPS.iter().map(|max| {
        let lines: String = config.toolboxes.iter().map(|t| line(t, *max)).collect();
        format!("{head}\n{usage}\n{lines}")
    });
    let names_only = std::iter::once(format!("{head}\n{usage}"));
    let pointer =
        std::iter::once_with(|| format!("{}\n{usage}", pointer(config, mode, FIRST_GLANCE)));
    first_that_fits(MAX_INSTRUCTIONS, with_descriptions.chain(names_only).chain(pointer))
}

/// Instructions with those of servers, which share what is left of the 2,048 bytes.
pub(crate) fn with_servers<'a>(
    ours: String,
    servers: impl Iterator<Item = &'a (ServerName, String)>,
) -> String {
    let servers: Vec<_> = servers.collect();
    let room = MAX_INSTRUCTIONS.saturating_sub(ours.len()) / servers.len().max(1);
    servers.into_iter().fold(ours, |mut text, (server, said)| {
        let head = format!("\n\n{server}: ");
        // A character has up to four bytes, and what is cut ends in one that has three.
        let mut max = room.saturating_sub(head.len());
        let mut short = shorten(said.trim(), max);
        while short.len() > room.saturating_sub(head.len()) {
            max /= 2;
            short = shorten(said.trim(), max);
        }
        if !short.is_empty() {
            text.push_str(&head);
            text.push_str(&short);
        }
        text
    })
}

/// The same in short, for the description of `open_toolbox`: clients of the modern revision may
/// never ask for instructions.
pub(crate) fn description(config: &Config, mode: ToolMode) -> String {
    let purpose = match mode {
        ToolMode::Dynamic => {
            "Opens a toolbox: starts its servers and adds their tools to your tool list."
        }
        _ => "Opens a toolbox: starts its servers and shows their tools, which use_tool calls.",
    };
    let with_descriptions = STEPS.iter().map(|max| {
        let lines: Vec<_> = config.toolboxes.iter().map(|toolbox| brief(toolbox, *max)).collect();
        format!("{purpose} Toolboxes:{}", lines.concat())
    });
    let names_only = std::iter::once(format!("{purpose} {}", head(config)));
    let count = std::iter::once_with(|| {
        format!("{purpose} There are {} toolboxes; see `toolbox`.", config.toolboxes.len())
    });
    first_that_fits(MAX_DESCRIPTION, with_descriptions.chain(names_only).chain(count))
}

/// The description of `search_tools`: what it does, how to ask, and what there is to be found.
pub(crate) fn of_search(config: &Config, mode: ToolMode) -> String {
    let call = match mode {
        ToolMode::Dynamic => {
            "What is found is called with use_tool, or by its name where its toolbox is open"
        }
        _ => "use_tool calls what is found",
    };
    let purpose = format!(
        "Finds tools by what is wanted of them. {call}. A query is one step, in English: service, \
         verb, object (\"github create issue\"). Ask for several steps at once, one query each."
    );
    if mode != ToolMode::Search {
        // What there is stands in the description of `open_toolbox`.
        return purpose;
    }
    let described = |max: usize, of: fn(&ToolboxConfig, usize) -> String| {
        let lines: String = config.toolboxes.iter().map(|toolbox| of(toolbox, max)).collect();
        format!("{purpose} Toolboxes:{lines}")
    };
    let with_servers = STEPS[..4].iter().map(|max| described(*max, brief_with_servers));
    let with_descriptions = STEPS.iter().map(|max| described(*max, brief));
    let names_only = std::iter::once_with(|| format!("{purpose} {}", head(config)));
    let count = std::iter::once_with(|| {
        format!("{purpose} There are {} toolboxes; see `toolbox`.", config.toolboxes.len())
    });
    let versions = with_servers.chain(with_descriptions).chain(names_only).chain(count);
    first_that_fits(MAX_DESCRIPTION, versions)
}

fn head(config: &Config) -> String {
    if config.toolboxes.is_empty() {
        return "No toolboxes are configured.".to_owned();
    }
    let names: Vec<_> = config.toolboxes.iter().map(|toolbox| toolbox.name.as_str()).collect();
    format!("Toolboxes: {}.", names.join(", "))
}

/// As many names as fit, and where the others are to be found.
fn pointer(config: &Config, mode: ToolMode, max: usize) -> String {
    let tool = if mode == ToolMode::Search { "search_tools" } else { "open_toolbox" };
    let count = config.toolboxes.len();
    let tail = |more: usize| {
        format!(" and {more} more; the `toolbox` parameter of {tool} lists all {count}.")
    };
    let room = max.saturating_sub("Toolboxes: ".len() + tail(count).len());
    let names = config.toolboxes.iter().map(|toolbox| toolbox.name.as_str());
    match names_that_fit(room, names) {
        (names, more) if names.is_empty() => {
            format!("{more} toolboxes; the `toolbox` parameter of {tool} lists them.")
        }
        (names, more) => format!("Toolboxes: {names}{}", tail(more)),
    }
}

fn line(toolbox: &ToolboxConfig, max: usize) -> String {
    let servers = match toolbox.launched().count() {
        0 => String::new(),
        1 => " (1 server)".to_owned(),
        count => format!(" ({count} servers)"),
    };
    format!("\n{}{servers}: {}", toolbox.name, start_of(&toolbox.description, max))
}

fn brief(toolbox: &ToolboxConfig, max: usize) -> String {
    format!("\n- {}: {}", toolbox.name, start_of(&toolbox.description, max))
}

/// The same with the servers' names, for who asks does well to name a service.
fn brief_with_servers(toolbox: &ToolboxConfig, max: usize) -> String {
    let servers: Vec<_> = toolbox.launched().map(|server| server.name.as_str()).collect();
    if servers.is_empty() || servers == [toolbox.name.as_str()] {
        return brief(toolbox, max);
    }
    let description = start_of(&toolbox.description, max);
    format!("\n- {} ({}): {description}", toolbox.name, servers.join(", "))
}

/// The start of a description, on one line.
fn start_of(text: &str, max: usize) -> String {
    let mut start = String::new();
    // A long one is not read to its end for it.
    for word in text.split_whitespace() {
        if start.len() > 4 * (max + 1) {
            break;
        }
        let separator = if start.is_empty() { "" } else { " " };
        start.extend([separator, word]);
    }
    shorten(&start, max)
}

/// A description on one line.
pub(crate) fn fold(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
