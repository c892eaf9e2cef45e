//! Delivers the tools of opened toolboxes in the agent's own tool list.

use serde_json::json;
use serde_json::value::RawValue;

use crate::exposure::answer_delivery::ToolPresentation;
use crate::exposure::mode::{ListContext, ToolDelivery};
use crate::exposure::{app_table, meta_tools, rendering, search, tool_results};
use mcp_workbench_core::backend::RpcOutcome;
use mcp_workbench_core::gateway::OpenedToolbox;
use mcp_workbench_core::toolbox::ExposedTool;
use mcp_workbench_names::ToolboxName;
use mcp_workbench_settings::ToolboxConfig;
use mcp_workbench_wire::json::{self, RawJson};

/// Returns `open_toolbox` and, if configured, `search_tools`. Both signatures and search come with
/// `use_tool`, which calls tools of toolboxes that aren't open. `has_shape`: [`open_result`] is the
/// only result of `open_toolbox`.
pub(crate) fn meta_tools(
    ctx: ListContext<'_>,
    showing: ToolPresentation,
    has_shape: bool,
) -> Vec<RawJson> {
    let config = ctx.config();
    let is_closed = |toolbox: &ToolboxName| !ctx.chosen.opened.contains(toolbox);
    let signatures = showing.signatures_within(config, ctx.at, is_closed);
    let is_known = showing.reads_instructions || signatures.as_ref().is_some_and(|all| all.has_all);
    let mut open = meta_tools::open_toolbox(config, ToolDelivery::List, is_known, false);
    if has_shape && let Ok(with_schema) = open.with_member("outputSchema", &output_schema()) {
        open = with_schema;
    }
    let mut tools = vec![open];
    let search = search::search_tools_if_offered(config, ToolDelivery::List);
    let use_tool = match &signatures {
        Some(signatures) => Some(signatures.use_tool()),
        None => search.as_ref().map(|_| meta_tools::use_tool(search::SEARCH_TOOLS)),
    };
    tools.extend(search.into_iter().chain(use_tool));
    tools
}

/// Returns the shape of [`open_result`], without members for the user.
fn output_schema() -> RawJson {
    let text = json!({"type": "string"});
    RawJson::encode(&json!({
        "type": "object",
        "properties": {
            "toolbox": text,
            "tools_registered": {"type": "integer"},
            "tools": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"name": text, "description": text},
                    "required": ["name"],
                },
            },
        },
        "required": ["toolbox", "tools_registered", "tools"],
    }))
}

/// Returns the registered names, with the first sentence of each description if there is room.
pub(crate) fn open_result(
    toolbox: &ToolboxConfig,
    opened: &OpenedToolbox,
    shows_apps: bool,
    max: usize,
) -> RpcOutcome {
    let is_for_model = |tool: &&ExposedTool| !(shows_apps && app_table::is_app_only(tool));
    let tools: Vec<_> = opened.view.tools().filter(is_for_model).collect();
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
