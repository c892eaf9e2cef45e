//! Tools of opened toolboxes in the agent's own tool list.

use std::collections::BTreeSet;

use serde_json::json;
use serde_json::value::RawValue;

use crate::backend::Outcome;
use crate::exposure::mode::Giving;
use crate::exposure::{answer, listing, meta, search, uris};
use crate::gateway::{Opened, Snapshot};
use crate::name::ToolboxName;
use crate::raw::{self, Raw};
use crate::settings::{Config, ToolboxConfig};
use crate::toolbox::ViewTool;

/// The tools of our own: `open_toolbox`, and where it is offered `search_tools`, with `use_tool`
/// for what it finds in toolboxes that are not open.
pub(crate) fn own(config: &Config, reads_instructions: bool) -> Vec<Raw> {
    let mut tools = vec![meta::open_toolbox(config, Giving::List, reads_instructions, false)];
    if let Some(search) = search::offered(config, Giving::List) {
        tools.extend([search, meta::use_tool(search::SEARCH_TOOLS)]);
    }
    tools
}

/// The tools of every opened toolbox in the order of the configuration.
pub(crate) fn registered(
    config: &Config,
    at: &Snapshot,
    opened: &BTreeSet<ToolboxName>,
) -> Vec<Raw> {
    let toolboxes = config.toolboxes.iter();
    let views = toolboxes
        .filter(|toolbox| opened.contains(&toolbox.name))
        .map(|toolbox| at.view(&toolbox.name));
    let mut tools = Vec::new();
    for view in views {
        // A name that does not lead to its tool is not shown.
        let known = view.tools().filter(|tool| at.resolve(tool.name.as_str()) == Some(&tool.id));
        tools.extend(known.map(|tool| uris::in_tool(at, tool, tool.registered())));
    }
    tools
}

/// The registered names, each with the first sentence of its description.
pub(crate) fn opened(toolbox: &ToolboxConfig, opened: &Opened, max: usize) -> Outcome {
    let tools: Vec<_> = opened.view.tools().collect();
    let mut header = listing::header(toolbox, opened);
    header.insert("tools_registered".to_owned(), tools.len().into());
    let listing = listing::in_one_way(&tools, &[&described, &named], listing::room(max, &header));
    if listing.left_out > 0 {
        header.insert("tools_left_out_here".to_owned(), listing.left_out.into());
    }
    let text = Raw::encode(&json!([{"type": "text", "text": listing.text(&header)}]));
    let mut members = vec![("content", text)];
    // What we wrote ourselves is JSON.
    if let Ok(structured) = RawValue::from_string(listing.compact(&header)) {
        members.push((answer::STRUCTURED, Raw::encode(&structured)));
    }
    if opened.is_failure() {
        members.push(("isError", Raw::encode(&true)));
    }
    Outcome::Result(raw::object(members.iter().map(|(key, value)| (*key, value))))
}

fn described(tool: &ViewTool) -> Raw {
    match tool.definition.summary() {
        Some(summary) => Raw::encode(&json!({"name": tool.name.as_str(), "description": summary})),
        None => named(tool),
    }
}

fn named(tool: &ViewTool) -> Raw {
    Raw::encode(&json!({"name": tool.name.as_str()}))
}
