//! How the two tools are described: the groups, and which of them cannot be had.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::catalog::shorten;
use crate::exposure::budget::{first_that_fits, names_that_fit};
use crate::exposure::modular::{CALL, GET, have_all_failed};
use crate::gateway::{FailedServer, Gateway};
use crate::name::ToolboxName;
use crate::raw::Raw;
use crate::settings::{Config, ToolboxConfig};

/// The most bytes of a description: some clients cut what is longer.
const MAX_DESCRIPTION: usize = 2048;
/// The most bytes of the instructions.
const MAX_INSTRUCTIONS: usize = 2048;
/// How long the descriptions of groups may be, step by step; whole where that fits.
const STEPS: [usize; 6] = [usize::MAX, 300, 160, 100, 60, 30];
/// How long the reason for a group that cannot be had may be, in characters.
const MAX_REASON: usize = 200;

const PURPOSE: &str = "modular-mcp manages multiple MCP servers as organized groups, providing \
                       only the necessary group's tool descriptions to the LLM on demand instead \
                       of overwhelming it with all tool descriptions at once.\n\nUse this tool to \
                       retrieve available tools in a specific group, then use call-modular-tool to \
                       execute them.";

/// The two tools.
pub(crate) fn tools(gateway: &Gateway) -> Vec<Raw> {
    let toolboxes = &gateway.config().toolboxes;
    let mut failures: HashMap<ToolboxName, Vec<FailedServer>> = HashMap::new();
    for (server_ref, failed) in gateway.failures() {
        failures.entry(server_ref.toolbox).or_default().push(failed);
    }
    let (mut available, mut unavailable) = (Vec::new(), Vec::new());
    for toolbox in toolboxes {
        match failures.get(&toolbox.name) {
            Some(failed) if have_all_failed(toolbox, failed) => {
                unavailable.push((toolbox, reason(failed)));
            }
            Some(_) | None => available.push(toolbox),
        }
    }
    let names: Vec<_> = toolboxes.iter().map(|toolbox| toolbox.name.as_str()).collect();
    vec![get(&names, &description(&available, &unavailable)), call(&names)]
}

/// The instructions before the first call: the names of the groups, and how to use them. Their
/// purposes stand with the tool.
pub(crate) fn instructions(config: &Config) -> String {
    let usage = format!(
        "Call {GET} with the name of a group to see its tools, then {CALL} with the group, the \
         name of the tool and its arguments."
    );
    let room = MAX_INSTRUCTIONS - usage.len() - 100;
    let names = config.toolboxes.iter().map(|toolbox| toolbox.name.as_str());
    match names_that_fit(room, names) {
        (_, _) if config.toolboxes.is_empty() => "No groups are configured.".to_owned(),
        (names, 0) => format!("Groups of tools: {names}.\n{usage}"),
        (names, more) => format!("Groups of tools: {names}, and {more} more.\n{usage}"),
    }
}

fn get(groups: &[&str], description: &str) -> Raw {
    let names = json!({
        "type": "array",
        "items": {"type": "string"},
        "description": "Only these tools of it",
    });
    let group = group(groups, "The name of the group to get tools from");
    Raw::encode(&json!({
        "name": GET,
        "title": "Get the Tools of a Group",
        "description": description,
        "inputSchema": {
            "type": "object",
            "properties": {"group": group, "names": names},
            "required": ["group"],
        },
        "annotations": {"readOnlyHint": true, "idempotentHint": true, "openWorldHint": false},
    }))
}

fn call(groups: &[&str]) -> Raw {
    Raw::encode(&json!({
        "name": CALL,
        "title": "Call a Tool of a Group",
        "description": "Calls a tool of a group and returns its result. get-modular-tools shows \
                        the tools and their arguments.\n\nExample:\n  \
                        call-modular-tool(group=\"playwright\", name=\"browser_navigate\", \
                        args={\"url\": \"https://example.com\"})",
        "inputSchema": {
            "type": "object",
            "properties": {
                "group": group(groups, "The name of the group that has the tool"),
                "name": {"type": "string", "description": "The name of the tool"},
                "args": {
                    "type": "object",
                    "description": "The tool's arguments, as its inputSchema says",
                    "additionalProperties": true,
                },
            },
            "required": ["group", "name"],
        },
        "annotations": {
            "readOnlyHint": false,
            "destructiveHint": true,
            "idempotentHint": false,
            "openWorldHint": true,
        },
    }))
}

/// One of the groups. A group that cannot be had now may be asked for, which tries it again.
fn group(groups: &[&str], description: &str) -> Value {
    let mut group = json!({"type": "string", "description": description});
    // An enumeration of nothing is no valid schema.
    if !groups.is_empty() {
        group["enum"] = groups.into();
    }
    group
}

/// The description of `get-modular-tools`: every group with what it is for.
fn description(available: &[&ToolboxConfig], unavailable: &[(&ToolboxConfig, String)]) -> String {
    let with_descriptions = STEPS.iter().map(|max| {
        let groups: String = available.iter().map(|group| line(group, *max)).collect();
        let failed = unavailable.iter().map(|(group, reason)| {
            format!("{} (Error: {})", line(group, *max), shorten(reason, MAX_REASON.min(*max)))
        });
        let failed: String = failed.collect();
        format!("{PURPOSE}\n\nAvailable groups:{groups}{}", section(&failed))
    });
    let names_only = std::iter::once_with(|| {
        let heads = PURPOSE.len() + 2 * MORE.len() + UNAVAILABLE.len() + AGAIN.len() + 100;
        let room = MAX_DESCRIPTION - heads;
        // Those that can be had have the first claim.
        let names = available.iter().map(|group| group.name.as_str());
        let (groups, more) = names_that_fit(room, names);
        let names = unavailable.iter().map(|(group, _)| group.name.as_str());
        let (failed, more_failed) = names_that_fit(room - groups.len(), names);
        let failed = match (failed.as_str(), more_failed) {
            ("", 0) => String::new(),
            (names, more) => format!("\n{names}{}", rest(more)),
        };
        format!("{PURPOSE}\n\nAvailable groups:\n{groups}{}{}", rest(more), section(&failed))
    });
    first_that_fits(MAX_DESCRIPTION, with_descriptions.chain(names_only))
}

const UNAVAILABLE: &str = "\n\nUnavailable groups (connection failed):";
const AGAIN: &str = "\nAsking for the tools of one of these tries it again.";
const MORE: &str = ", and 12345 more, see `group`";

fn section(failed: &str) -> String {
    if failed.is_empty() { String::new() } else { format!("{UNAVAILABLE}{failed}{AGAIN}") }
}

fn rest(more: usize) -> String {
    if more == 0 { String::new() } else { format!(", and {more} more, see `group`") }
}

/// One line on a group; the description is cut where it is longer than `max` characters.
fn line(group: &ToolboxConfig, max: usize) -> String {
    let text = group.description.split_whitespace().collect::<Vec<_>>().join(" ");
    match shorten(&text, max) {
        text if text.is_empty() => format!("\n- {}", group.name),
        text => format!("\n- {}: {text}", group.name),
    }
}

/// Why a group cannot be had, on one line: the first of each server's reason. The rest is told when
/// the group is asked for.
fn reason(failures: &[FailedServer]) -> String {
    let reasons = failures.iter().filter_map(|failure| {
        let reason = failure.reason.lines().next()?.trim_end_matches([':', ';', '.']);
        Some(reason.strip_suffix("; the last lines of its standard error").unwrap_or(reason))
    });
    reasons.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests;
