//! Instructions and tool descriptions for models, within the size limits of clients.
//!
//! Clients truncate instructions at 2 KiB or more; one shows only the first 250 characters. The
//! first line is therefore self-contained: it names the toolboxes and the tool to call. The rest
//! shrinks in steps until it fits.

use crate::catalog::shorten;
use crate::exposure::mode::ToolDelivery;
use crate::exposure::mode::UsageHints;
use crate::exposure::truncation::{first_that_fits, names_that_fit};
use crate::name::{ServerName, untrusted_text};
use crate::settings::{Config, ToolboxConfig};

/// Maximum size of the instructions in bytes, for clients without a known limit.
pub(crate) const DEFAULT_MAX_INSTRUCTIONS: usize = 2048;
/// Maximum size of the instructions in bytes, for any client.
pub(crate) const MAX_INSTRUCTIONS: usize = 4096;
/// Maximum size of the descriptions of `open_toolbox` and `search_tools`, in bytes.
pub(crate) const MAX_DESCRIPTION: usize = 1024;
/// Number of characters shown by the client with the shortest preview.
pub(crate) const PREVIEW_CHARS: usize = 250;
/// Maximum lengths of toolbox descriptions, step by step.
pub(crate) const STEPS: [usize; 5] = [300, 160, 100, 60, 30];
/// Maximum lengths of a toolbox in the first line; anything shorter says too little.
const GLANCES: [usize; 10] = [250, 150, 100, 80, 60, 45, 35, 25, 20, 15];

pub(crate) const USE_TOOL: &str =
    "use_tool {\"tool\": {\"toolbox\", \"server\", \"tool\"}, \"arguments\": {…}}";

/// Renders the instructions in at most `max` bytes: the first line, how to call tools, and the
/// descriptions that don't fit into the first line.
pub(crate) fn render(config: &Config, guide: &UsageHints, max: usize) -> String {
    let first = first_line(config, guide);
    let with_usage = if guide.usage.is_empty() {
        first.text.clone()
    } else {
        format!("{}\n{}", first.text, guide.usage)
    };
    let with_descriptions = STEPS.iter().filter(|_| !first.is_whole).map(|max| {
        let lines: String = config.toolboxes.iter().map(|t| line(t, *max)).collect();
        format!("{with_usage}\n{lines}")
    });
    let with_names = std::iter::once(())
        .filter(|()| !first.has_names)
        .map(|()| format!("{with_usage}\n\n{}", names(config)));
    let shortest = [&with_usage, &first.text].map(Clone::clone);
    first_that_fits(max, with_descriptions.chain(with_names).chain(shortest))
}

struct FirstLine {
    text: String,
    /// `true` if no description is truncated.
    is_whole: bool,
    /// `true` if all toolboxes are named.
    has_names: bool,
}

/// Renders a self-contained line of at most `PREVIEW_CHARS` characters.
fn first_line(config: &Config, guide: &UsageHints) -> FirstLine {
    let call = guide.call;
    if config.toolboxes.is_empty() {
        let text = "No toolboxes are configured.".to_owned();
        return FirstLine { text, is_whole: true, has_names: true };
    }
    let fits = |text: &String| text.chars().count() <= PREVIEW_CHARS;
    let described = GLANCES.iter().find_map(|max| {
        let mut is_whole = true;
        let toolboxes = config.toolboxes.iter().map(|toolbox| {
            let purpose = start_of(&toolbox.description, *max);
            is_whole &= !purpose.ends_with('…');
            match purpose.trim_end_matches('.') {
                "" => toolbox.name.to_string(),
                purpose => format!("{} ({purpose})", toolbox.name),
            }
        });
        let toolboxes: Vec<_> = toolboxes.collect();
        let text = format!("Toolboxes: {}. {call}", toolboxes.join(", "));
        fits(&text).then_some(FirstLine { text, is_whole, has_names: true })
    });
    let named = || {
        let text = format!("{} {call}", names(config));
        fits(&text).then_some(FirstLine { text, is_whole: false, has_names: true })
    };
    described.or_else(named).unwrap_or_else(|| {
        let text = match guide.lists_toolboxes {
            Some(tool) => pointer(config, tool, PREVIEW_CHARS),
            None => format!("There are {} toolboxes. {call}", config.toolboxes.len()),
        };
        FirstLine { text, is_whole: false, has_names: false }
    })
}

/// Appends the servers' own instructions, with an equal share of the remaining bytes for each.
/// Their lines are marked, so that they can't pass as the gateway's.
pub(crate) fn with_servers<'a>(
    ours: String,
    servers: impl Iterator<Item = (&'a ServerName, &'a str)>,
    max: usize,
) -> String {
    let servers: Vec<_> = servers.collect();
    let capacity = max.saturating_sub(ours.len()) / servers.len().max(1);
    servers.into_iter().fold(ours, |mut text, (server, said)| {
        let head = format!("\n\nInstructions of {server}:\n");
        let capacity = capacity.saturating_sub(head.len());
        let said = untrusted_text::quote_lines(said);
        // A character has up to four bytes, and the ellipsis has three.
        let mut max = capacity;
        let mut short = shorten(&said, max);
        while short.len() > capacity {
            max /= 2;
            short = shorten(&said, max);
        }
        if !short.is_empty() {
            text.push_str(&head);
            text.push_str(&short);
        }
        text
    })
}

/// Returns the description of `open_toolbox`. Unless the model has seen the instructions
/// (`is_known`), it lists the toolboxes too: clients of the modern revision possibly never request
/// instructions.
pub(crate) fn open_toolbox_description(
    config: &Config,
    giving: ToolDelivery,
    is_known: bool,
) -> String {
    let purpose = match giving {
        ToolDelivery::List => {
            "Opens a toolbox: starts its servers and adds their tools to your tool list."
        }
        ToolDelivery::Both => {
            "Opens a toolbox: starts its servers, adds their tools to your tool list and returns \
             them. Call those missing from your list with use_tool."
        }
        ToolDelivery::Answer => {
            "Opens a toolbox: starts its servers and lists their tools; use_tool calls them."
        }
    };
    if is_known {
        return purpose.to_owned();
    }
    let with_descriptions = STEPS.iter().map(|max| {
        let lines: Vec<_> =
            config.toolboxes.iter().map(|toolbox| short_description(toolbox, *max)).collect();
        format!("{purpose} Toolboxes:{}", lines.concat())
    });
    let names_only = std::iter::once_with(|| format!("{purpose} {}", names(config)));
    let count = std::iter::once_with(|| {
        format!("{purpose} There are {} toolboxes; see `toolbox`.", config.toolboxes.len())
    });
    first_that_fits(MAX_DESCRIPTION, with_descriptions.chain(names_only).chain(count))
}

/// Returns the description of `search_tools`: how to phrase a query and which toolboxes exist. If
/// `open_toolbox` is listed too (`delivery`), it already lists the toolboxes.
pub(crate) fn search_tools_description(config: &Config, delivery: Option<ToolDelivery>) -> String {
    let call = if delivery.is_some_and(ToolDelivery::adds_to_list) {
        "Call results with use_tool, or by name if their toolbox is open"
    } else {
        "Call results with use_tool"
    };
    let purpose = format!(
        "Searches for tools by task. {call}. A query is one step, in English: service, verb, \
         object (\"github create issue\"). For several steps, send one query each in one call."
    );
    if delivery.is_some() {
        return purpose;
    }
    let described = |max: usize, of: fn(&ToolboxConfig, usize) -> String| {
        let lines: String = config.toolboxes.iter().map(|toolbox| of(toolbox, max)).collect();
        format!("{purpose} Toolboxes:{lines}")
    };
    let with_servers = STEPS[..4].iter().map(|max| described(*max, brief_with_servers));
    let with_descriptions = STEPS.iter().map(|max| described(*max, short_description));
    let names_only = std::iter::once_with(|| format!("{purpose} {}", names(config)));
    let count = std::iter::once_with(|| {
        format!("{purpose} There are {} toolboxes; see `toolbox`.", config.toolboxes.len())
    });
    let versions = with_servers.chain(with_descriptions).chain(names_only).chain(count);
    first_that_fits(MAX_DESCRIPTION, versions)
}

fn names(config: &Config) -> String {
    if config.toolboxes.is_empty() {
        return "No toolboxes are configured.".to_owned();
    }
    let names: Vec<_> = config.toolboxes.iter().map(|toolbox| toolbox.name.as_str()).collect();
    format!("Toolboxes: {}.", names.join(", "))
}

/// As many names as fit, and which tool lists the others.
fn pointer(config: &Config, tool: &str, max: usize) -> String {
    let count = config.toolboxes.len();
    let tail = |more: usize| {
        format!(" and {more} more; the `toolbox` parameter of {tool} lists all {count}.")
    };
    let capacity = max.saturating_sub("Toolboxes: ".len() + tail(count).len());
    let names = config.toolboxes.iter().map(|toolbox| toolbox.name.as_str());
    match names_that_fit(capacity, names) {
        (names, more) if names.is_empty() => {
            format!("{more} toolboxes; the `toolbox` parameter of {tool} lists them.")
        }
        (names, more) => format!("Toolboxes: {names}{}", tail(more)),
    }
}

fn line(toolbox: &ToolboxConfig, max: usize) -> String {
    let servers = match toolbox.launchable_servers().count() {
        0 => String::new(),
        1 => " (1 server)".to_owned(),
        count => format!(" ({count} servers)"),
    };
    format!("\n{}{servers}: {}", toolbox.name, start_of(&toolbox.description, max))
}

fn short_description(toolbox: &ToolboxConfig, max: usize) -> String {
    format!("\n- {}: {}", toolbox.name, start_of(&toolbox.description, max))
}

/// Adds the servers' names, because good queries name a service.
fn brief_with_servers(toolbox: &ToolboxConfig, max: usize) -> String {
    let servers: Vec<_> = toolbox.launchable_servers().map(|server| server.name.as_str()).collect();
    if servers.is_empty() || servers == [toolbox.name.as_str()] {
        return short_description(toolbox, max);
    }
    let description = start_of(&toolbox.description, max);
    format!("\n- {} ({}): {description}", toolbox.name, servers.join(", "))
}

/// The beginning of a description on one line, in at most `max` characters.
fn start_of(text: &str, max: usize) -> String {
    let mut start = String::new();
    // Stop reading a long description early.
    for word in text.split_whitespace() {
        if start.len() > 4 * (max + 1) {
            break;
        }
        let separator = if start.is_empty() { "" } else { " " };
        start.extend([separator, word]);
    }
    shorten(&start, max)
}

pub(crate) fn on_one_line(text: &str) -> String {
    untrusted_text::single_line(text)
}

#[cfg(test)]
mod tests;
