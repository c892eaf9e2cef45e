//! Results of `get-modular-tools`: the text of Modular MCP, then a second one with remarks.

use std::collections::HashMap;

use serde_json::json;

use crate::exposure::modular::names::{self, GroupTool};
use crate::exposure::modular::{GET_TOOLS, no_tool};
use crate::exposure::rendering::{self, RenderFn};
use crate::exposure::truncation::names_that_fit;
use crate::exposure::{app_table, tool_results};
use mcp_workbench_core::backend::RpcOutcome;
use mcp_workbench_core::catalog::shorten;
use mcp_workbench_core::gateway::FailedServer;
use mcp_workbench_core::toolbox::{ExposedTool, ToolboxView};
use mcp_workbench_names::{ToolId, untrusted_text};
use mcp_workbench_settings::{ServerConfig, ToolboxConfig};
use mcp_workbench_wire::json::{self, RawJson};

/// The combined length of all servers' instructions, in characters.
const MAX_INSTRUCTIONS: usize = 4000;
/// In characters, for each failed server.
const MAX_REASON: usize = 500;
/// Bytes of names of unavailable tools.
const MAX_MISSING: usize = 2000;
/// Bytes reserved for the remark on shortened definitions.
const REMARK: usize = 400;

#[derive(Clone, Copy)]
pub(crate) struct ResultOptions {
    /// In bytes.
    pub(crate) max: usize,
    pub(crate) is_modern: bool,
    /// `true` if the client shows the user interfaces of tools.
    pub(crate) shows_apps: bool,
}

pub(crate) fn tools(
    toolbox: &ToolboxConfig,
    view: &ToolboxView,
    failed: &[FailedServer],
    wanted: Option<&[String]>,
    telling: ResultOptions,
) -> Result<RpcOutcome, String> {
    let ResultOptions { max, is_modern, shows_apps } = telling;
    let mut all = chosen(toolbox, view, wanted)?;
    all.retain(|tool| !(shows_apps && app_table::is_app_only(tool.tool)));
    let called: HashMap<&ToolId, &str> =
        all.iter().map(|tool| (&tool.tool.id, tool.name.as_str())).collect();
    let name = |tool: &ExposedTool| called.get(&tool.id).copied().unwrap_or_default();
    let ways: [RenderFn<'_>; 4] = [
        &|tool| definition(tool, name(tool)),
        &|tool| signature(tool, name(tool), true),
        &|tool| signature(tool, name(tool), false),
        &|tool| RawJson::encode(&json!({"name": name(tool)})),
    ];
    let form = ResultShape::of(toolbox, view);
    let mut remarks = remarks(view, failed);
    let keys: usize = match form {
        ResultShape::List => 0,
        ResultShape::Category { .. } => {
            all.iter().map(|tool| tool.name.len() + "\"\":".len()).sum()
        }
    };
    let taken = form.head().len() + keys + remarks.iter().map(String::len).sum::<usize>() + REMARK;
    let capacity = max.saturating_sub(taken);
    let shown: Vec<_> = all.iter().map(|tool| tool.tool).collect();
    let listing = match wanted {
        Some(_) => rendering::render_best_first(&shown, &ways[..2], capacity),
        None => rendering::render_uniform(&shown, &ways, capacity),
    };
    if listing.omitted > 0 {
        remarks.push(format!("{} of {} tools did not fit.", listing.omitted, shown.len()));
    }
    if (listing.step > 0 || listing.omitted > 0)
        && let Some(first) = all.first()
    {
        remarks.push(format!(
            "Some definitions are shortened. For full definitions of single tools call {GET_TOOLS} \
             with {}.",
            json!({"group": toolbox.name.as_str(), "names": [first.name]})
        ));
    }
    let text = form.text(all.iter().map(|tool| tool.name.as_str()).zip(&listing.lines));
    let remarks = (!remarks.is_empty()).then(|| remarks.join("\n\n"));
    let texts = std::iter::once(text.as_str()).chain(remarks.as_deref());
    let content: Vec<_> = texts.map(|text| json!({"type": "text", "text": text})).collect();
    let content = RawJson::encode(&content);
    let structured = match form {
        ResultShape::List if !is_modern => Some(structured(&listing.lines, remarks.as_deref())),
        ResultShape::List | ResultShape::Category { .. } => None,
    };
    let structured = structured.as_ref().map(|structured| (tool_results::STRUCTURED, structured));
    Ok(RpcOutcome::Result(json::object([("content", &content)].into_iter().chain(structured))))
}

/// Returns the result as an object, for agents of older revisions. If a result has no
/// `structuredContent`, Gemini CLI uses a text that is JSON instead, and rejects the result if that
/// is an array. Other clients show their model this object instead of the texts, so it holds all of
/// them.
fn structured(tools: &[RawJson], remarks: Option<&str>) -> RawJson {
    let tools = json::array(tools);
    let remarks = remarks.map(RawJson::from_text);
    let remarks = remarks.as_ref().map(|remarks| ("remarks", remarks));
    json::object([("tools", &tools)].into_iter().chain(remarks))
}

fn chosen<'a>(
    toolbox: &ToolboxConfig,
    view: &'a ToolboxView,
    wanted: Option<&[String]>,
) -> Result<Vec<GroupTool<'a>>, String> {
    let mut all = names::named(toolbox, view);
    if let Some(wanted) = wanted.filter(|wanted| !wanted.is_empty()) {
        let mut ids = Vec::new();
        for name in wanted {
            let tool = names::resolve(toolbox, view, name);
            ids.push(&tool.map_err(|near| no_tool(toolbox, name, &near))?.id);
        }
        all.retain(|tool| ids.contains(&&tool.tool.id));
    }
    Ok(all)
}

/// Returns the members of a definition that a model needs, byte for byte. The rest is for clients.
fn definition(tool: &ExposedTool, name: &str) -> RawJson {
    let definition = &tool.definition;
    let member = |key: &str| definition.raw.member(key);
    let description = member("description").filter(|text| text.as_bytes().starts_with(b"\""));
    // Without a usable description, the parsed one may be the tool's title.
    let description = description.or_else(|| definition.description.as_ref().map(RawJson::encode));
    let schema = member("inputSchema").and_then(|schema| schema.without_member("$schema").ok());
    let members = [
        ("name", Some(RawJson::encode(&name))),
        ("description", description),
        ("inputSchema", schema),
        ("annotations", member("annotations")),
    ];
    json::object(members.iter().filter_map(|(key, value)| Some((*key, value.as_ref()?))))
}

fn signature(tool: &ExposedTool, name: &str, is_described: bool) -> RawJson {
    let mut line = json!({"name": name, "signature": tool.definition.signature()});
    if let Some(summary) = tool.definition.summary().filter(|_| is_described) {
        line["description"] = summary.into();
    }
    RawJson::encode(&line)
}

enum ResultShape {
    List,
    Category { meta: String },
}

impl ResultShape {
    fn of(toolbox: &ToolboxConfig, view: &ToolboxView) -> Self {
        let mut servers = toolbox.launchable_servers();
        match (servers.next(), servers.next()) {
            (Some(server), None) if server.include.is_some() => {
                Self::Category { meta: meta(toolbox, server, view) }
            }
            _ => Self::List,
        }
    }

    fn head(&self) -> String {
        match self {
            Self::List => "[".to_owned(),
            // `meta` goes first: clients that truncate results must not cut it off.
            Self::Category { meta } => format!("{{\"meta\":{meta},\"tools\":{{"),
        }
    }

    fn text<'a>(&self, tools: impl Iterator<Item = (&'a str, &'a RawJson)>) -> String {
        let mut text = self.head();
        for (index, (name, tool)) in tools.enumerate() {
            text.push_str(if index == 0 { "\n" } else { ",\n" });
            if let Self::Category { .. } = self {
                text.push_str(&RawJson::encode(&name).as_str());
                text.push(':');
            }
            text.push_str(&tool.as_str());
        }
        text.push_str(match self {
            Self::List => "\n]",
            Self::Category { .. } => "\n}}",
        });
        text
    }
}

fn meta(toolbox: &ToolboxConfig, server: &ServerConfig, view: &ToolboxView) -> String {
    let mut meta = json!({
        "category": toolbox.name.as_str(),
        "sourceServer": server.name.as_str(),
    });
    let missing = names::missing(server, view);
    if !missing.is_empty() {
        let (_, more) = names_that_fit(MAX_MISSING, missing.iter().copied());
        let shown = missing[..missing.len() - more].iter().map(|name| (*name).to_owned());
        let rest = (more > 0).then(|| format!("and {more} more"));
        meta["unavailableTools"] = shown.chain(rest).collect();
    }
    meta.to_string()
}

fn remarks(view: &ToolboxView, failed: &[FailedServer]) -> Vec<String> {
    let failed = failed.iter().map(|FailedServer { server, reason, hint, .. }| {
        let reason = shorten(reason, MAX_REASON);
        format!("Server `{server}` of this group is not available: {reason}\nWhat to do: {hint}.")
    });
    let max = MAX_INSTRUCTIONS / view.instructions().count().max(1);
    let instructions = view.instructions().map(|(server, text)| {
        let said = shorten(&untrusted_text::quote_lines(text), max);
        format!("Instructions of server `{server}`:\n{said}")
    });
    failed.chain(instructions).collect()
}
