//! `proxy`: opening a toolbox returns the definitions of its tools, and `use_tool` calls them.
//!
//! Also used for clients that don't follow list changes in time or whose lists are fixed, and in
//! addition to the tool list for clients whose behavior is unknown.

use serde_json::{Value, json};

use crate::exposure::meta_tools::{Detail, OpenToolbox};
use crate::exposure::mode::ToolDelivery;
use crate::exposure::rendering::RenderFn;
use crate::exposure::signatures::{self, Signatures};
use crate::exposure::{app_table, meta_tools, rendering, search, tool_results};
use mcp_workbench_core::backend::RpcOutcome;
use mcp_workbench_core::gateway::{OpenedToolbox, Snapshot};
use mcp_workbench_core::toolbox::ExposedTool;
use mcp_workbench_names::ToolboxName;
use mcp_workbench_settings::{Config, ToolboxConfig};
use mcp_workbench_wire::json::{EditError, RawJson};

const MAX_SUGGESTIONS: usize = 5;
const IN_YOUR_LIST: &str = "in_your_list";
const CALL_UNLISTED: &str = "by `in_your_list` if your tool list has it, else with use_tool {tool: \
                             {toolbox, server, tool: <name>}, arguments: {…}}";
/// The `call` hint if `dynamic` is configured but the client never lists again.
const CALL_FROZEN: &str = "with use_tool {tool: {toolbox, server, tool: <name>}, arguments: {…}}; \
                           your tool list never changes";

/// For the model of a client of unknown behavior that hasn't listed its tools again.
const UNREAD: &str = "your client has not refreshed its tool list; if it calls neither these tools \
                      nor use_tool, ";
pub(crate) const WAY_OUT: &str = "ask your user to set \"refreshesToolList\": false for it under \
                                  `clients` in the workbench configuration";

#[derive(Clone, Copy)]
pub(crate) struct ToolPresentation {
    /// `true` if the client is known to show its model the instructions.
    pub(crate) reads_instructions: bool,
    /// The maximum length of the description of `use_tool`, in bytes, if it contains signatures.
    pub(crate) signatures: Option<usize>,
    /// `true` if the client shows apps, which call some tools themselves.
    pub(crate) shows_apps: bool,
}

impl ToolPresentation {
    /// Returns the signatures of the toolboxes that `is_told` selects, if the client is shown any.
    pub(crate) fn signatures_within(
        self,
        config: &Config,
        at: &Snapshot,
        is_told: impl Fn(&ToolboxName) -> bool,
    ) -> Option<Signatures> {
        let max = self.signatures?.saturating_sub(meta_tools::USES.len() + 1);
        let toolboxes = config.toolboxes.iter().map(|toolbox| &toolbox.name);
        let toolboxes = toolboxes.filter(|name| is_told(name));
        signatures::signatures_within(toolboxes, at, self.shows_apps, max)
    }
}

pub(crate) fn meta_tools(
    config: &Config,
    at: &Snapshot,
    giving: ToolDelivery,
    showing: ToolPresentation,
) -> Vec<RawJson> {
    let offers_detail = showing.signatures.is_none();
    let signatures = showing.signatures_within(config, at, |_| true);
    // Signatures of all tools also show what the toolboxes are for.
    let is_known = showing.reads_instructions || signatures.as_ref().is_some_and(|all| all.has_all);
    let mut tools = vec![meta_tools::open_toolbox(config, giving, is_known, offers_detail)];
    tools.extend(search::search_tools_if_offered(config, giving));
    tools.push(match signatures {
        Some(signatures) => signatures.use_tool(),
        None => meta_tools::use_tool(meta_tools::OPEN_TOOLBOX),
    });
    tools
}

#[derive(Clone, Copy)]
pub(crate) struct OpenReplyOptions {
    /// The detail unless the call asks for another.
    pub(crate) detail: Detail,
    pub(crate) calls: CallHint,
    /// `true` if the client shows the user interfaces of tools, so that it lists these tools.
    pub(crate) shows_apps: bool,
    /// In bytes.
    pub(crate) max: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallHint {
    WithUseTool,
    /// With `use_tool`, although the configured mode adds tools to the list.
    WithUseToolAlone,
    /// By registered name if the model finds it in its list, else with `use_tool`.
    ByNameOrUseTool,
    /// Like `ByNameOrUseTool`, after the client hasn't listed again. `is_told`: the model knows.
    NotRelisted {
        is_told: bool,
    },
}

pub(crate) fn open_result(
    toolbox: &ToolboxConfig,
    opened: &OpenedToolbox,
    wanted: &OpenToolbox,
    telling: OpenReplyOptions,
) -> RpcOutcome {
    let OpenReplyOptions { detail, calls, shows_apps, max } = telling;
    let tools = match chosen(opened, wanted.tools.as_deref(), shows_apps) {
        Ok(tools) => tools,
        Err(problem) => return tool_results::error_result(&problem),
    };
    let mut header = rendering::header(toolbox, opened);
    let is_app = |tool: &ExposedTool| shows_apps && app_table::is_app_tool(tool);
    match calls {
        CallHint::WithUseTool | CallHint::WithUseToolAlone if tools.iter().any(|t| is_app(t)) => {
            header.insert("call".to_owned(), CALL_UNLISTED.into());
        }
        CallHint::WithUseTool => {}
        CallHint::WithUseToolAlone => _ = header.insert("call".to_owned(), CALL_FROZEN.into()),
        CallHint::ByNameOrUseTool | CallHint::NotRelisted { .. } => {
            header.insert("tools_registered".to_owned(), opened.view.tool_count().into());
            header.insert("call".to_owned(), CALL_UNLISTED.into());
        }
    }
    if calls == (CallHint::NotRelisted { is_told: false }) {
        header.insert("note".to_owned(), format!("{UNREAD}{WAY_OUT}").into());
    }
    let max = rendering::remaining_bytes(max, &header);
    let is_registered = matches!(calls, CallHint::ByNameOrUseTool | CallHint::NotRelisted { .. });
    let is_registered = |tool: &ExposedTool| is_registered || is_app(tool);
    let signature = |tool: &ExposedTool| signature(tool, is_registered(tool));
    let whole = |tool: &ExposedTool| {
        located(tool, is_registered(tool)).unwrap_or_else(|_: EditError| signature(tool))
    };
    let short = |tool: &ExposedTool| short_signature(tool, is_registered(tool));
    let ways: [RenderFn<'_>; 4] = [&whole, &signature, &short, &bare_signature];
    let definitions = [ways[0], ways[1], ways[3]];
    let listing = match (wanted.detail, &wanted.tools, detail) {
        (Some(Detail::Signatures), ..) => {
            rendering::render_uniform(&tools, &[ways[1], ways[3]], max)
        }
        (Some(Detail::Full), ..) | (None, Some(_), _) => {
            rendering::render_best_first(&tools, &definitions[..2], max)
        }
        (None, None, Detail::Full) => rendering::render_uniform(&tools, &definitions, max),
        (None, None, Detail::Signatures) => rendering::render_uniform(&tools, &ways[2..], max),
    };
    if listing.omitted > 0 {
        header.insert("tools_left_out".to_owned(), listing.omitted.into());
    }
    let has_signatures = wanted.detail.unwrap_or(detail) == Detail::Signatures
        && (wanted.detail.is_some() || wanted.tools.is_none());
    if listing.step > 0 || listing.omitted > 0 || has_signatures {
        let example = tools.first().map_or("<name>", |tool| tool.id.tool.as_str());
        // Not every client's schema has `detail`, and `tools` implies full definitions.
        let more =
            format!("for full definitions call open_toolbox with \"tools\": [\"{example}\"]");
        header.insert("more".to_owned(), more.into());
    }
    let mut result = json!({"content": [{"type": "text", "text": listing.text(&header)}]});
    if opened.is_failure() {
        result["isError"] = true.into();
    }
    RpcOutcome::Result(RawJson::encode(&result))
}

/// Returns the tools with these own or registered names. An empty list selects all.
fn chosen<'a>(
    opened: &'a OpenedToolbox,
    wanted: Option<&[String]>,
    shows_apps: bool,
) -> Result<Vec<&'a ExposedTool>, String> {
    let all = || opened.view.tools().filter(|tool| !(shows_apps && app_table::is_app_only(tool)));
    let Some(wanted) = wanted.filter(|wanted| !wanted.is_empty()) else {
        return Ok(all().collect());
    };
    let is_registered = |name: &str| all().any(|tool| tool.name.as_str() == name);
    let is_called = |tool: &ExposedTool, name: &str| {
        tool.name.as_str() == name || tool.id.tool == name && !is_registered(name)
    };
    for name in wanted {
        if !all().any(|tool| is_called(tool, name)) {
            let known = all().map(|tool| tool.id.tool.as_str());
            let near: Vec<_> = mcp_workbench_names::nearest(name, known, MAX_SUGGESTIONS)
                .into_iter()
                .map(|near| format!("`{near}`"))
                .collect();
            let hint = if near.is_empty() {
                "Call open_toolbox without \"tools\" to see all.".to_owned()
            } else {
                format!("Did you mean {}?", near.join(", "))
            };
            return Err(format!("the toolbox has no tool `{name}`. {hint}"));
        }
    }
    Ok(all().filter(|tool| wanted.iter().any(|name| is_called(tool, name))).collect())
}

fn located(tool: &ExposedTool, is_registered: bool) -> Result<RawJson, EditError> {
    let located = tool.definition_with_location()?;
    if !is_registered {
        return Ok(located);
    }
    located.with_member(IN_YOUR_LIST, &RawJson::encode(&tool.name.as_str()))
}

fn signature(tool: &ExposedTool, is_registered: bool) -> RawJson {
    let mut line = json!({
        "server": tool.id.server.as_str(),
        "name": tool.id.tool,
        "signature": tool.definition.signature(),
        "description": tool.definition.summary().unwrap_or_default(),
    });
    if is_registered {
        line[IN_YOUR_LIST] = tool.name.as_str().into();
    }
    RawJson::encode(&line)
}

/// Leaves out the name, which is part of the signature.
fn short_signature(tool: &ExposedTool, is_registered: bool) -> RawJson {
    let mut line = json!({
        "server": tool.id.server.as_str(),
        "signature": tool.definition.signature(),
    });
    if let Some(summary) = tool.definition.summary() {
        line["description"] = summary.into();
    }
    if is_registered {
        line[IN_YOUR_LIST] = Value::from(tool.name.as_str());
    }
    RawJson::encode(&line)
}

fn bare_signature(tool: &ExposedTool) -> RawJson {
    RawJson::encode(&json!({
        "server": tool.id.server.as_str(),
        "signature": tool.definition.signature(),
    }))
}
