//! Delivers the tools of opened toolboxes in the agent's own tool list.

use std::collections::BTreeSet;

use serde_json::json;
use serde_json::value::RawValue;

use crate::backend::RpcOutcome;
use crate::exposure::mode::ToolDelivery;
use crate::exposure::{meta_tools, rendering, search, tool_results, uri_rewrite};
use crate::gateway::{OpenedToolbox, Snapshot};
use crate::json::{self, RawJson};
use crate::name::ToolboxName;
use crate::settings::{Config, ToolboxConfig};
use crate::toolbox::ExposedTool;

/// Returns `open_toolbox` and, if configured, `search_tools` together with `use_tool`, which calls
/// tools of toolboxes that aren't open.
pub(crate) fn meta_tools(config: &Config, reads_instructions: bool) -> Vec<RawJson> {
    let mut tools =
        vec![meta_tools::open_toolbox(config, ToolDelivery::List, reads_instructions, false)];
    if let Some(search) = search::search_tools_if_offered(config, ToolDelivery::List) {
        tools.extend([search, meta_tools::use_tool(search::SEARCH_TOOLS)]);
    }
    tools
}

pub(crate) fn registered_tools(
    config: &Config,
    at: &Snapshot,
    opened: &BTreeSet<ToolboxName>,
) -> Vec<RawJson> {
    let toolboxes = config.toolboxes.iter();
    let views = toolboxes
        .filter(|toolbox| opened.contains(&toolbox.name))
        .map(|toolbox| at.view(&toolbox.name));
    let mut tools = Vec::new();
    for view in views {
        // Hide names that resolve to another tool.
        let known =
            view.tools().filter(|tool| at.resolve_registered(tool.name.as_str()) == Some(&tool.id));
        tools.extend(known.filter_map(|tool| {
            let definition = tool.registered_definition();
            definition.and_then(|raw| uri_rewrite::rewrite_tool(at, tool, raw)).ok()
        }));
    }
    tools
}

/// Returns the registered names, with the first sentence of each description if there is room.
pub(crate) fn open_result(
    toolbox: &ToolboxConfig,
    opened: &OpenedToolbox,
    max: usize,
) -> RpcOutcome {
    let tools: Vec<_> = opened.view.tools().collect();
    let mut header = rendering::header(toolbox, opened);
    header.insert("tools_registered".to_owned(), tools.len().into());
    let listing = rendering::render_uniform(
        &tools,
        &[&described, &named],
        rendering::remaining_bytes(max, &header),
    );
    if listing.omitted > 0 {
        header.insert("tools_left_out_here".to_owned(), listing.omitted.into());
    }
    let text = RawJson::encode(&json!([{"type": "text", "text": listing.text(&header)}]));
    let mut members = vec![("content", text)];
    // Never fails: `compact` returns valid JSON.
    if let Ok(structured) = RawValue::from_string(listing.compact(&header)) {
        members.push((tool_results::STRUCTURED, RawJson::encode(&structured)));
    }
    if opened.is_failure() {
        members.push(("isError", RawJson::encode(&true)));
    }
    RpcOutcome::Result(json::object(members.iter().map(|(key, value)| (*key, value))))
}

fn described(tool: &ExposedTool) -> RawJson {
    match tool.definition.summary() {
        Some(summary) => {
            RawJson::encode(&json!({"name": tool.name.as_str(), "description": summary}))
        }
        None => named(tool),
    }
}

fn named(tool: &ExposedTool) -> RawJson {
    RawJson::encode(&json!({"name": tool.name.as_str()}))
}
