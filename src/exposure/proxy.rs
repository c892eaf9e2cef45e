//! `proxy`: opening a toolbox returns its tools' definitions, and `use_tool` calls them.
//!
//! Also what `dynamic` presents where a tool list must not change.

use serde_json::json;

use crate::backend::Outcome;
use crate::config::{ToolMode, ToolboxConfig};
use crate::exposure::listing::Line;
use crate::exposure::meta::{Detail, OpenToolbox};
use crate::exposure::{answer, listing, meta, search};
use crate::gateway::{Gateway, Opened};
use crate::name;
use crate::raw::Raw;
use crate::toolbox::ViewTool;

/// The most names that are offered for one that is not there.
const OFFERED: usize = 5;

/// `open_toolbox` and `use_tool`, always, and `search_tools` where it is offered.
pub(crate) fn tools(gateway: &Gateway) -> Vec<Raw> {
    let config = gateway.config();
    let mut tools = vec![meta::open_toolbox(config, ToolMode::Proxy)];
    tools.extend(search::offered(config, ToolMode::Proxy));
    tools.push(meta::use_tool(meta::OPEN_TOOLBOX));
    tools
}

/// The definitions of the tools that were asked for, whole where they fit.
pub(crate) fn opened(
    toolbox: &ToolboxConfig,
    opened: &Opened,
    wanted: &OpenToolbox,
    max: usize,
) -> Outcome {
    let tools = match chosen(opened, wanted.tools.as_deref()) {
        Ok(tools) => tools,
        Err(problem) => return answer::error(&problem),
    };
    let mut header = listing::header(toolbox, opened);
    let max = listing::room(max, &header);
    let ways: [Line<'_>; 3] = [&ViewTool::located, &signature, &bare_signature];
    let listing = match (wanted.detail, &wanted.tools) {
        (Some(Detail::Signatures), _) => listing::in_one_way(&tools, &ways[1..], max),
        (Some(Detail::Full), _) | (None, Some(_)) => listing::best_first(&tools, &ways[..2], max),
        (None, None) => listing::in_one_way(&tools, &ways, max),
    };
    if listing.left_out > 0 {
        header.insert("tools_left_out".to_owned(), listing.left_out.into());
    }
    if listing.step > 0 || listing.left_out > 0 || wanted.detail == Some(Detail::Signatures) {
        let example = tools.first().map_or("<name>", |tool| tool.id.tool.as_str());
        let more = format!(
            "for whole definitions call open_toolbox with \"tools\": [\"{example}\"] and \
             \"detail\": \"full\""
        );
        header.insert("more".to_owned(), more.into());
    }
    Outcome::Result(Raw::encode(&json!({
        "content": [{"type": "text", "text": listing.text(&header)}],
    })))
}

/// The tools with these names (their own or their registered ones), or all.
fn chosen<'a>(opened: &'a Opened, wanted: Option<&[String]>) -> Result<Vec<&'a ViewTool>, String> {
    let all = &opened.view.tools;
    let Some(wanted) = wanted.filter(|wanted| !wanted.is_empty()) else {
        return Ok(all.iter().collect());
    };
    let is_called =
        |tool: &ViewTool, name: &str| tool.id.tool == name || tool.name.as_str() == name;
    for name in wanted {
        if !all.iter().any(|tool| is_called(tool, name)) {
            let known = all.iter().map(|tool| tool.id.tool.as_str());
            let near: Vec<_> = name::nearest(name, known, OFFERED)
                .into_iter()
                .map(|near| format!("`{near}`"))
                .collect();
            let hint = if near.is_empty() {
                "Call open_toolbox without \"tools\" to see them all.".to_owned()
            } else {
                format!("Did you mean {}?", near.join(", "))
            };
            return Err(format!("the toolbox has no tool `{name}`. {hint}"));
        }
    }
    Ok(all.iter().filter(|tool| wanted.iter().any(|name| is_called(tool, name))).collect())
}

fn signature(tool: &ViewTool) -> Raw {
    Raw::encode(&json!({
        "server": tool.id.server.as_str(),
        "name": tool.id.tool,
        "signature": tool.definition.signature(),
        "description": tool.definition.summary().unwrap_or_default(),
    }))
}

fn bare_signature(tool: &ViewTool) -> Raw {
    Raw::encode(&json!({
        "server": tool.id.server.as_str(),
        "signature": tool.definition.signature(),
    }))
}
