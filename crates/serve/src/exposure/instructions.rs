//! Instructions and tool descriptions for models, within the size limits of clients.
//!
//! Clients truncate instructions at 2 KiB or more; one shows only the first 250 characters. The
//! first line is therefore self-contained: it names the toolboxes and the tool to call. If it has
//! no room for all toolboxes, a list below names them, with as much of their servers and
//! descriptions as fits.

use crate::exposure::mode::ToolDelivery;
use crate::exposure::mode::UsageHints;
use crate::exposure::truncation::{first_that_fits, lengthen, names_that_fit};
use mcp_workbench_core::catalog::shorten;
use mcp_workbench_names::{ServerName, untrusted_text};
use mcp_workbench_settings::{Config, ToolboxConfig};

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

/// The instructions without any toolbox.
pub(crate) const NO_TOOLBOXES: &str = "No toolboxes are configured. To add a server, the user can run \
                            `mcp-workbench setup` or `mcp-workbench add NAME -- COMMAND`.";

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
    let capacity = |without: usize| max.saturating_sub(without);
    let with_list = if first.is_whole {
        None
    } else if first.has_names {
        let list = toolbox_lines(config, "\n", capacity(with_usage.len() + 1));
        list.map(|list| format!("{with_usage}\n{list}"))
    } else {
        let count = config.toolboxes.len();
        let head = format!("There are {count} toolboxes, listed below. {}", guide.call);
        let tail = if guide.usage.is_empty() { "" } else { "\n\n" };
        let tail = format!("{tail}{}", guide.usage);
        let list = toolbox_lines(config, "\n", capacity(head.len() + tail.len()));
        list.map(|list| format!("{head}{list}{tail}"))
    };
    let shortest = [with_usage, first.text];
    first_that_fits(max, with_list.into_iter().chain(shortest))
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
        let text = NO_TOOLBOXES.to_owned();
        return FirstLine { text, is_whole: true, has_names: true };
    }
    let fits = |text: &String| text.chars().count() <= PREVIEW_CHARS;
    let described = GLANCES.iter().find_map(|max| {
        let mut is_whole = true;
        let toolboxes = config.toolboxes.iter().map(|toolbox| {
            let purpose = start_of(&toolbox.description, *max);
            is_whole &= !purpose.ends_with('…');
            let purpose = close_parenthesis(purpose);
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
    let list = with_toolboxes(config, format!("{purpose} Toolboxes:"));
    list.unwrap_or_else(|| not_listed(config, purpose))
}

/// Appends the list of toolboxes to a description, if at least their names fit.
fn with_toolboxes(config: &Config, mut text: String) -> Option<String> {
    if config.toolboxes.is_empty() {
        return None;
    }
    let list = toolbox_lines(config, "\n- ", MAX_DESCRIPTION.saturating_sub(text.len()))?;
    text.push_str(&list);
    Some(text)
}

/// The description if there are too many toolboxes to list.
fn not_listed(config: &Config, purpose: &str) -> String {
    let count = config.toolboxes.len();
    let count = format!("{purpose} There are {count} toolboxes; see `toolbox`.");
    first_that_fits(MAX_DESCRIPTION, [format!("{purpose} {}", names(config)), count])
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
    let list = with_toolboxes(config, format!("{purpose} Toolboxes:"));
    list.unwrap_or_else(|| not_listed(config, &purpose))
}

fn names(config: &Config) -> String {
    if config.toolboxes.is_empty() {
        return NO_TOOLBOXES.to_owned();
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

/// A line for each toolbox, in at most `max` bytes: its name, as far as possible its servers, and as
/// much as possible of its description. `None` if the names don't fit.
fn toolbox_lines(config: &Config, mark: &str, max: usize) -> Option<String> {
    let lines = |step: Option<usize>| {
        let lines = config.toolboxes.iter().map(|toolbox| line(toolbox, mark, step));
        lines.collect::<Vec<_>>()
    };
    let names = config.toolboxes.iter().map(|toolbox| format!("{mark}{}", toolbox.name));
    let names: Vec<_> = names.collect();
    let used = names.iter().map(String::len).sum();
    if used > max {
        return None;
    }
    let described = STEPS.iter().rev().map(|step| lines(Some(*step)));
    let steps = std::iter::once_with(|| lines(None)).chain(described);
    Some(lengthen(names, steps, |line| line, (used, max)).concat())
}

/// The name of a toolbox, its servers unless the description or the name says them, and the
/// description in at most `max` characters.
fn line(toolbox: &ToolboxConfig, mark: &str, max: Option<usize>) -> String {
    let description = max.map(|max| start_of(&toolbox.description, max)).unwrap_or_default();
    let description = close_parenthesis(description);
    let servers: Vec<_> = toolbox.launchable_servers().map(|server| server.name.as_str()).collect();
    let is_named = |server: &&str| {
        let mut words = description.split(|c: char| c.is_whitespace() || ",;:()…".contains(c));
        words.any(|word| word == *server)
    };
    let mut line = format!("{mark}{}", toolbox.name);
    if servers != [toolbox.name.as_str()] && !servers.iter().all(is_named) {
        line.extend([" (", &servers.join(", "), ")"]);
    }
    if !description.is_empty() {
        line.extend([": ", &description]);
    }
    line
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

/// Closes the parenthesis in which a text was shortened.
fn close_parenthesis(mut text: String) -> String {
    let is_open = text.rfind('(').is_some_and(|at| !text[at..].contains(')'));
    if is_open && text.ends_with('…') {
        text.push(')');
    }
    text
}

pub(crate) fn on_one_line(text: &str) -> String {
    untrusted_text::single_line(text)
}

#[cfg(test)]
mod tests;
