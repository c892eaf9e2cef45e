//! Definitions of the two tools, with the available and the unavailable groups.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::exposure::modular::{CALL_TOOL, GET_TOOLS, have_all_failed};
use crate::exposure::truncation::{first_that_fits, names_that_fit};
use mcp_workbench_core::catalog::shorten;
use mcp_workbench_core::gateway::{FailedServer, Gateway};
use mcp_workbench_names::ToolboxName;
use mcp_workbench_settings::{Config, ToolboxConfig};
use mcp_workbench_wire::json::RawJson;

/// In bytes; some clients truncate longer ones.
const MAX_DESCRIPTION: usize = 2048;
const MAX_INSTRUCTIONS: usize = 2048;
/// Limits for each group's description, in characters. The first step that fits is used.
const STEPS: [usize; 6] = [usize::MAX, 300, 160, 100, 60, 30];
/// In characters, for each unavailable group.
const MAX_REASON: usize = 200;

const PURPOSE: &str = "modular-mcp manages multiple MCP servers as organized groups, providing \
                       only the necessary group's tool descriptions to the LLM on demand instead \
                       of overwhelming it with all tool descriptions at once.\n\nUse this tool to \
                       retrieve available tools in a specific group, then use call-modular-tool to \
                       execute them.";

pub(crate) fn tools(gateway: &Gateway) -> Vec<RawJson> {
    let toolboxes = &gateway.config().toolboxes;
    let mut failures: HashMap<ToolboxName, Vec<FailedServer>> = HashMap::new();
    for (server_ref, failed) in gateway.servers().failed_servers() {
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

/// The purpose of each group is in the description of the tool.
pub(crate) fn instructions(config: &Config) -> String {
    let usage = format!(
        "Call {GET_TOOLS} with the name of a group to see its tools, then {CALL_TOOL} with the group, the \
         name of the tool and its arguments."
    );
    let capacity = MAX_INSTRUCTIONS - usage.len() - 100;
    let names = config.toolboxes.iter().map(|toolbox| toolbox.name.as_str());
    match names_that_fit(capacity, names) {
        (_, _) if config.toolboxes.is_empty() => "No groups are configured.".to_owned(),
        (names, 0) => format!("Tool groups: {names}.\n{usage}"),
        (names, more) => format!("Tool groups: {names}, and {more} more.\n{usage}"),
    }
}

fn get(groups: &[&str], description: &str) -> RawJson {
    let names = json!({
        "type": "array",
        "items": {"type": "string"},
        "description": "Only these tools",
    });
    let group = group(groups, "The name of the group to get tools from");
    RawJson::encode(&json!({
        "name": GET_TOOLS,
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

fn call(groups: &[&str]) -> RawJson {
    RawJson::encode(&json!({
        "name": CALL_TOOL,
        "title": "Call a Tool of a Group",
        "description": "Calls a tool of a group and returns its result. get-modular-tools shows \
                        the tools and their arguments.\n\nExample:\n  \
                        call-modular-tool(group=\"playwright\", name=\"browser_navigate\", \
                        args={\"url\": \"https://example.com\"})",
        "inputSchema": {
            "type": "object",
            "properties": {
                "group": group(groups, "The name of the tool's group"),
                "name": {"type": "string", "description": "The name of the tool"},
                "args": {
                    "type": "object",
                    "description": "The tool's arguments, per its inputSchema",
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

/// Returns the schema of a group name. Unavailable groups are included: asking for one retries it.
fn group(groups: &[&str], description: &str) -> Value {
    let mut group = json!({"type": "string", "description": description});
    // An empty `enum` isn't a valid schema.
    if !groups.is_empty() {
        group["enum"] = groups.into();
    }
    group
}

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
        let capacity = MAX_DESCRIPTION - heads;
        // Names of available groups get the space first.
        let names = available.iter().map(|group| group.name.as_str());
        let (groups, more) = names_that_fit(capacity, names);
        let names = unavailable.iter().map(|(group, _)| group.name.as_str());
        let (failed, more_failed) = names_that_fit(capacity - groups.len(), names);
        let failed = match (failed.as_str(), more_failed) {
            ("", 0) => String::new(),
            (names, more) => format!("\n{names}{}", rest(more)),
        };
        format!("{PURPOSE}\n\nAvailable groups:\n{groups}{}{}", rest(more), section(&failed))
    });
    first_that_fits(MAX_DESCRIPTION, with_descriptions.chain(names_only))
}

const UNAVAILABLE: &str = "\n\nUnavailable groups (connection failed):";
const AGAIN: &str = "\nRequesting the tools of one of these retries it.";
const MORE: &str = ", and 12345 more, see `group`";

fn section(failed: &str) -> String {
    if failed.is_empty() { String::new() } else { format!("{UNAVAILABLE}{failed}{AGAIN}") }
}

fn rest(more: usize) -> String {
    if more == 0 { String::new() } else { format!(", and {more} more, see `group`") }
}

/// Returns a line for a group, with its description shortened to `max` characters.
fn line(group: &ToolboxConfig, max: usize) -> String {
    let text = group.description.split_whitespace().collect::<Vec<_>>().join(" ");
    match shorten(&text, max) {
        text if text.is_empty() => format!("\n- {}", group.name),
        text => format!("\n- {}: {text}", group.name),
    }
}

/// Returns the first line of each server's error. A call for the group reports the rest.
fn reason(failures: &[FailedServer]) -> String {
    let reasons = failures.iter().filter_map(|failure| {
        let reason = failure.reason.lines().next()?.trim_end_matches([':', ';', '.']);
        Some(reason.strip_suffix("; last lines of stderr").unwrap_or(reason))
    });
    reasons.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests;
