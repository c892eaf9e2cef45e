//! The instructions for a model before its first call, within the bytes that clients let through.
//!
//! Clients cut instructions at 2 KiB and more; one shows only the first 250 characters. So the first
//! line alone says what the toolboxes are for and what to call, and everything after it steps down
//! until it fits.

use crate::catalog::shorten;
use crate::exposure::budget::{first_that_fits, names_that_fit};
use crate::exposure::mode::Giving;
use crate::exposure::mode::Guide;
use crate::name::{ServerName, seen};
use crate::settings::{Config, ToolboxConfig};

/// The most bytes of the instructions, for a client that is not known to show more.
pub(crate) const MAX_INSTRUCTIONS: usize = 2048;
/// The most bytes of the instructions for any client.
pub(crate) const MOST_INSTRUCTIONS: usize = 4096;
/// The most bytes of the description of `open_toolbox`, and of what else leads to all tools.
pub(crate) const MAX_DESCRIPTION: usize = 1024;
/// The number of characters that are shown by the one client that shows least.
pub(crate) const FIRST_GLANCE: usize = 250;
/// How long the descriptions of toolboxes may be, step by step.
pub(crate) const STEPS: [usize; 5] = [300, 160, 100, 60, 30];
/// The lengths to try for a toolbox in the first line; shorter texts say too little.
const GLANCES: [usize; 10] = [250, 150, 100, 80, 60, 45, 35, 25, 20, 15];

/// How `use_tool` is called.
pub(crate) const USE_TOOL: &str =
    "use_tool {\"tool\": {\"toolbox\", \"server\", \"tool\"}, \"arguments\": {…}}";

/// Returns the instructions in at most `max` bytes: a line that says what the toolboxes are for and
/// what to call, how to call it, and the descriptions that have no room in the first line.
pub(crate) fn instructions(config: &Config, guide: &Guide, max: usize) -> String {
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

/// The first line of the instructions.
struct FirstLine {
    text: String,
    /// `true` if it has all descriptions to their ends.
    is_whole: bool,
    /// `true` if it has all names.
    has_names: bool,
}

/// Returns the line that is read even where nothing else is.
fn first_line(config: &Config, guide: &Guide) -> FirstLine {
    let call = guide.call;
    if config.toolboxes.is_empty() {
        let text = "No toolboxes are configured.".to_owned();
        return FirstLine { text, is_whole: true, has_names: true };
    }
    let fits = |text: &String| text.chars().count() <= FIRST_GLANCE;
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
            Some(tool) => pointer(config, tool, FIRST_GLANCE),
            None => format!("There are {} toolboxes. {call}", config.toolboxes.len()),
        };
        FirstLine { text, is_whole: false, has_names: false }
    })
}

/// Returns instructions with those of servers, which share what is left of `max` bytes. Each line of
/// theirs has a mark before it, so that it cannot be taken for one of ours.
pub(crate) fn with_servers<'a>(
    ours: String,
    servers: impl Iterator<Item = (&'a ServerName, &'a str)>,
    max: usize,
) -> String {
    let servers: Vec<_> = servers.collect();
    let room = max.saturating_sub(ours.len()) / servers.len().max(1);
    servers.into_iter().fold(ours, |mut text, (server, said)| {
        let head = format!("\n\nServer {server} says of itself:\n");
        let room = room.saturating_sub(head.len());
        let said = seen::fenced(said);
        // A character has up to four bytes, and what is cut ends in one that has three.
        let mut max = room;
        let mut short = shorten(&said, max);
        while short.len() > room {
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

/// Returns the description of `open_toolbox`, with what the instructions say of the toolboxes unless
/// the model is known to be shown those: clients of the modern revision may never ask for them.
pub(crate) fn description(config: &Config, giving: Giving, is_known: bool) -> String {
    let purpose = match giving {
        Giving::List => {
            "Opens a toolbox: starts its servers and adds their tools to your tool list."
        }
        Giving::Both => {
            "Opens a toolbox: starts its servers, adds their tools to your tool list and shows \
             them, for use_tool to call those that you do not find there."
        }
        Giving::Answer => {
            "Opens a toolbox: starts its servers and shows their tools, which use_tool calls."
        }
    };
    if is_known {
        return purpose.to_owned();
    }
    let with_descriptions = STEPS.iter().map(|max| {
        let lines: Vec<_> = config.toolboxes.iter().map(|toolbox| brief(toolbox, *max)).collect();
        format!("{purpose} Toolboxes:{}", lines.concat())
    });
    let names_only = std::iter::once_with(|| format!("{purpose} {}", names(config)));
    let count = std::iter::once_with(|| {
        format!("{purpose} There are {} toolboxes; see `toolbox`.", config.toolboxes.len())
    });
    first_that_fits(MAX_DESCRIPTION, with_descriptions.chain(names_only).chain(count))
}

/// Returns the description of `search_tools`: what it does, how to ask, and what there is to be
/// found, unless it stands beside an `open_toolbox` that gives tools in this way and says so.
pub(crate) fn of_search(config: &Config, beside: Option<Giving>) -> String {
    let call = if beside.is_some_and(Giving::registers) {
        "What is found is called with use_tool, or by its name where its toolbox is open"
    } else {
        "use_tool calls what is found"
    };
    let purpose = format!(
        "Finds tools by what is wanted of them. {call}. A query is one step, in English: service, \
         verb, object (\"github create issue\"). Ask for several steps at once, one query each."
    );
    if beside.is_some() {
        return purpose;
    }
    let described = |max: usize, of: fn(&ToolboxConfig, usize) -> String| {
        let lines: String = config.toolboxes.iter().map(|toolbox| of(toolbox, max)).collect();
        format!("{purpose} Toolboxes:{lines}")
    };
    let with_servers = STEPS[..4].iter().map(|max| described(*max, brief_with_servers));
    let with_descriptions = STEPS.iter().map(|max| described(*max, brief));
    let names_only = std::iter::once_with(|| format!("{purpose} {}", names(config)));
    let count = std::iter::once_with(|| {
        format!("{purpose} There are {} toolboxes; see `toolbox`.", config.toolboxes.len())
    });
    let versions = with_servers.chain(with_descriptions).chain(names_only).chain(count);
    first_that_fits(MAX_DESCRIPTION, versions)
}

/// Returns the names of all toolboxes.
fn names(config: &Config) -> String {
    if config.toolboxes.is_empty() {
        return "No toolboxes are configured.".to_owned();
    }
    let names: Vec<_> = config.toolboxes.iter().map(|toolbox| toolbox.name.as_str()).collect();
    format!("Toolboxes: {}.", names.join(", "))
}

/// As many names as fit, and where the others are to be found.
fn pointer(config: &Config, tool: &str, max: usize) -> String {
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

/// A toolbox in brief with its servers' names, for who asks does well to name a service.
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
pub(crate) fn on_one_line(text: &str) -> String {
    seen::line(text)
}

#[cfg(test)]
mod tests;
