//! Definitions and arguments of the gateway's own tools, `open_toolbox` and `use_tool`.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::exposure::instructions;
use crate::exposure::mode::ToolDelivery;
use mcp_workbench_names::{ServerName, ServerRef, ToolId, ToolboxName};
use mcp_workbench_settings::{Config, MACROS};
use mcp_workbench_wire::json::select::Selection;
use mcp_workbench_wire::json::{RawJson, decode_string};

pub(crate) const OPEN_TOOLBOX: &str = "open_toolbox";
pub(crate) const USE_TOOL: &str = "use_tool";

/// `is_known`: the model learns elsewhere what the toolboxes are for.
pub(crate) fn open_toolbox(
    config: &Config,
    giving: ToolDelivery,
    is_known: bool,
    offers_detail: bool,
) -> RawJson {
    let names: Vec<_> = config.toolboxes.iter().map(|toolbox| toolbox.name.as_str()).collect();
    let mut properties = json!({
        "toolbox": {"type": "string"},
    });
    // An empty `enum` isn't a valid schema.
    if !names.is_empty() {
        properties["toolbox"]["enum"] = names.into();
    }
    if giving != ToolDelivery::List {
        properties["tools"] = json!({
            "type": "array",
            "items": {"type": "string"},
            "description": "Only these tools, with full definitions",
        });
    }
    if offers_detail {
        properties["detail"] = json!({
            "enum": ["full", "signatures"],
            "description": "Full definitions or a line per tool",
        });
    }
    RawJson::encode(&json!({
        "name": OPEN_TOOLBOX,
        "title": "Open a Toolbox",
        "description": instructions::open_toolbox_description(config, giving, is_known),
        "inputSchema": {
            "type": "object",
            "properties": properties,
            "required": ["toolbox"],
            "additionalProperties": false,
        },
        "annotations": {
            "readOnlyHint": false,
            "destructiveHint": false,
            "idempotentHint": true,
            "openWorldHint": true,
        },
    }))
}

/// Asks clients not to hide this tool behind their own tool search, because it leads to all other
/// tools. Claude Code honors the member; other clients ignore it.
pub(crate) fn keep_loaded(tool: &mut RawJson) {
    let meta = RawJson::encode(&json!({"anthropic/alwaysLoad": true}));
    // Only an advice, which the workbench's own tools can always have.
    if let Ok(kept) = tool.with_member("_meta", &meta) {
        *tool = kept;
    }
}

/// Removes an output schema that isn't of an object, which only MCP 2026-07-28 allows. Older clients
/// reject the whole list for it.
pub(crate) fn remove_modern_output_schema(tool: &mut RawJson) {
    let Some(schema) = tool.member("outputSchema") else { return };
    let is_of_object = schema.member("type").is_some_and(|kind| kind.as_bytes() == b"\"object\"");
    if !is_of_object && let Ok(bare) = tool.without_member("outputSchema") {
        *tool = bare;
    }
}

pub(crate) fn is_kept_loaded(tool: &RawJson) -> bool {
    let meta = tool.member("_meta");
    let asked = meta.and_then(|meta| meta.member("anthropic/alwaysLoad"));
    asked.is_some_and(|asked| asked.as_bytes() == b"true")
}

pub(crate) fn use_tool(shown_by: &str) -> RawJson {
    described_use_tool(&format!("{USES} {shown_by} shows the tools and their arguments."))
}

pub(crate) const USES: &str = "Calls a tool of a toolbox.";

pub(crate) fn described_use_tool(description: &str) -> RawJson {
    let tool = json!({
        "type": "object",
        "properties": {
            "toolbox": {"type": "string"},
            "server": {"type": "string"},
            "tool": {"type": "string"},
        },
        "required": ["toolbox", "server", "tool"],
    });
    calling(description, &tool)
}

pub(crate) fn use_named_tool(shown_by: &str) -> RawJson {
    let description = format!(
        "Calls a tool that is not in your tool list and returns its result. {shown_by} shows the \
         tools and their arguments."
    );
    calling(&description, &json!({"type": "string", "description": "The tool's name"}))
}

fn calling(description: &str, tool: &Value) -> RawJson {
    RawJson::encode(&json!({
        "name": USE_TOOL,
        "title": "Use a Tool of a Toolbox",
        "description": description,
        "inputSchema": {
            "type": "object",
            "properties": {
                "tool": tool,
                "arguments": {"type": "object"},
                "select": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "Only these result fields: /a/*/b",
                },
            },
            "required": ["tool"],
        },
        "annotations": {
            "readOnlyHint": false,
            "destructiveHint": true,
            "idempotentHint": false,
            "openWorldHint": true,
        },
    }))
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Detail {
    Full,
    Signatures,
}

#[derive(Debug, Deserialize, PartialEq, Eq)]
pub(crate) struct OpenToolbox {
    #[serde(alias = "toolbox_name", alias = "name")]
    pub(crate) toolbox: String,
    /// Own or registered names; `None` means all tools.
    #[serde(default)]
    pub(crate) tools: Option<Vec<String>>,
    #[serde(default)]
    pub(crate) detail: Option<Detail>,
}

impl OpenToolbox {
    pub(crate) fn parse(arguments: Option<&RawJson>) -> Result<Self, String> {
        let arguments = unwrap_json_string(arguments);
        arguments.map_or_else(|| serde_json::from_str("{}"), |text| text.parse()).map_err(|error| {
            format!(
                "invalid arguments for open_toolbox: {error}. Expected {{\"toolbox\": \
                 \"<name>\"}}, optionally \"tools\": [\"<name>\", …] and \"detail\": \"full\" or \
                 \"signatures\"."
            )
        })
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct UseTool<'a> {
    pub(crate) target: ToolTarget<'a>,
    pub(crate) arguments: Option<RawJson>,
    /// As the agent sent it; see [`selection`].
    pub(crate) select: Option<RawJson>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ToolTarget<'a> {
    Qualified(ToolId),
    Registered(Cow<'a, str>),
    Scoped(ScopedToolName),
}

/// A tool name with only its toolbox or only its server. It is resolved there and nowhere else,
/// even if other servers have a tool of the same name.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ScopedToolName {
    pub(crate) toolbox: Option<String>,
    pub(crate) server: Option<String>,
    pub(crate) tool: String,
}

impl ScopedToolName {
    pub(crate) fn matches(&self, at: &ServerRef) -> bool {
        let is_it = |wanted: &Option<String>, name: &str| {
            wanted.as_ref().is_none_or(|wanted| wanted == name)
        };
        is_it(&self.toolbox, at.toolbox.as_str()) && is_it(&self.server, at.server.as_str())
    }
}

impl UseTool<'_> {
    /// Parses `{tool: {toolbox, server, tool}, arguments}` and the flat `{toolbox_name, tool_name,
    /// arguments}`. The tool may be spelled `name`, or be a registered name instead of an object.
    /// Arguments may be missing, `null`, or an object encoded as a string.
    pub(crate) fn parse(arguments: Option<&RawJson>, config: &Config) -> Result<Self, String> {
        let given = unwrap_json_string(arguments).ok_or_else(|| expected("they are missing"))?;
        let not_an_object = || expected("not an object");
        let (mut tool, mut arguments, mut select) = (None, None, None);
        let (mut toolbox_name, mut server_name, mut tool_name) = (None, None, None);
        for member in given.entries().ok_or_else(not_an_object)? {
            let (entry, own) = member.ok_or_else(not_an_object)?;
            let (key, value) = (entry.key.unescaped().ok_or_else(not_an_object)?, entry.value);
            let name = match &*key {
                b"arguments" => {
                    arguments = Some(given.part(value, own));
                    continue;
                }
                b"tool" => {
                    tool = Some(given.part(value, own));
                    continue;
                }
                b"select" => {
                    select = Some(given.part(value, own));
                    continue;
                }
                b"toolbox_name" | b"toolbox" => &mut toolbox_name,
                b"server_name" | b"server" => &mut server_name,
                b"tool_name" | b"name" => &mut tool_name,
                _ => continue,
            };
            let value = &given.as_bytes()[value];
            if decode_string(value).is_none() && value != b"null" {
                let key = String::from_utf8_lossy(&key);
                return Err(expected(&format!("`{key}` is not a string")));
            }
            *name = Some(value);
        }
        // The object itself may be encoded as a string; any other string is a tool name.
        let tool = unwrap_json_string(tool);
        let [toolbox, server, tool] = match &tool {
            None => [toolbox_name, server_name, tool_name],
            Some(tool) => match (identity(tool), tool.decode_string()) {
                (Some(identity), _) => identity,
                (None, Some(_)) => [toolbox_name, server_name, Some(tool.as_bytes())],
                (None, None) => return Err(expected(&format!("`tool` is {}", tool.as_str()))),
            },
        };
        let [toolbox, server, tool] = [toolbox, server, tool].map(|name| decode_string(name?));
        let tool = tool.ok_or_else(|| expected("the tool name is missing"))?.into_owned();
        let target = match (toolbox, server) {
            (Some(toolbox), Some(server)) => ToolTarget::Qualified(ToolId {
                toolbox: ToolboxName::new(toolbox),
                server: ServerName::new(server),
                tool,
            }),
            (Some(toolbox), None) => {
                let only = only_server(config, &toolbox, &tool);
                let toolbox = Some(toolbox.into_owned());
                only.map_or(
                    ToolTarget::Scoped(ScopedToolName { toolbox, server: None, tool }),
                    ToolTarget::Qualified,
                )
            }
            (None, Some(server)) => {
                let server = Some(server.into_owned());
                ToolTarget::Scoped(ScopedToolName { toolbox: None, server, tool })
            }
            (None, None) => ToolTarget::Registered(tool.into()),
        };
        let arguments = unwrap_json_string(arguments).map(Cow::into_owned);
        Ok(Self { target, arguments, select })
    }
}

/// Parses `select` of `use_tool`: a list of pointers, which may be encoded as a string, or a single
/// pointer. Returns `None` if the configuration selects.
pub(crate) fn selection(select: Option<&RawJson>) -> Result<Option<Arc<Selection>>, String> {
    let Some(select) = select.filter(|select| select.as_bytes() != b"null") else {
        return Ok(None);
    };
    let pointers = match select.decode_string() {
        Some(text) => serde_json::from_str(&text).unwrap_or_else(|_| vec![text.into_owned()]),
        None => select.parse::<Vec<String>>().map_err(|_| {
            "invalid arguments for use_tool: `select` must be a list of JSON pointers, such as \
             [\"/items/*/title\"]."
        })?,
    };
    let selection = Selection::parse(pointers.iter().map(String::as_str));
    let selection = selection.map_err(|error| {
        format!("invalid `select` of use_tool: {error}. The tool was not called.")
    })?;
    Ok(Some(Arc::new(selection)))
}

/// Returns toolbox, server and tool as raw values. The last of repeated members counts.
fn identity(object: &RawJson) -> Option<[Option<&[u8]>; 3]> {
    let (mut toolbox, mut server, mut tool, mut name) = (None, None, None, None);
    for member in object.entries()? {
        let (entry, _) = member?;
        let value = Some(&object.as_bytes()[entry.value]);
        match &*entry.key.unescaped()? {
            b"toolbox" => toolbox = value,
            b"server" => server = value,
            b"tool" => tool = value,
            b"name" => name = value,
            _ => {}
        }
    }
    Some([toolbox, server, tool.or(name)])
}

impl fmt::Display for ScopedToolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = self.server.as_ref().or(self.toolbox.as_ref());
        write!(f, "{}:{}", place.map_or("", String::as_str), self.tool)
    }
}

/// A name prefixed with its server, a macro, or any tool of a toolbox with a single server.
fn only_server(config: &Config, toolbox: &str, tool: &str) -> Option<ToolId> {
    let toolbox = config.toolbox(toolbox)?;
    let id = |server: &ServerName, tool: &str| ToolId {
        toolbox: toolbox.name.clone(),
        server: server.clone(),
        tool: tool.to_owned(),
    };
    if tool.starts_with(&format!("{}__", toolbox.name)) {
        return None;
    }
    let prefixed = toolbox.servers.iter().filter_map(|server| {
        let rest = tool.strip_prefix(server.name.as_str())?;
        let own = rest.strip_prefix("__").or_else(|| rest.strip_prefix(':'))?;
        Some(id(&server.name, own))
    });
    prefixed.min_by_key(|id| id.tool.len()).or_else(|| {
        if toolbox.macros().any(|config| config.name == tool) {
            return Some(id(&ServerName::new(MACROS), tool));
        }
        let mut servers = toolbox.launchable_servers();
        let only = servers.next().filter(|_| servers.next().is_none());
        only.map(|only| id(&only.name, tool))
    })
}

/// Decodes arguments that a model encoded as a string. Missing, `null` and blank arguments are
/// `None`; a string that holds no object is returned unchanged.
pub(crate) fn unwrap_json_string<'a>(
    arguments: Option<impl Into<Cow<'a, RawJson>>>,
) -> Option<Cow<'a, RawJson>> {
    let arguments = arguments?.into();
    if arguments.as_bytes().first() != Some(&b'"') {
        return (arguments.as_bytes() != b"null").then_some(arguments);
    }
    let text: String = arguments.parse().ok()?;
    if text.trim().is_empty() {
        return None;
    }
    // Also checks the names of members, as for a message.
    let object = serde_json::from_str::<RawJson>(text.trim()).ok();
    let object = object.filter(|raw| raw.as_bytes().starts_with(b"{"));
    Some(object.map_or(arguments, Cow::Owned))
}

/// Unwraps an object that a client encoded as a string, which no server would accept. All other
/// arguments are passed through unchanged.
pub(crate) fn object_of(arguments: Option<&RawJson>) -> Option<RawJson> {
    let arguments = arguments?;
    let is_string = arguments.as_bytes().first() == Some(&b'"');
    let object = is_string.then(|| unwrap_json_string(Some(arguments))).flatten();
    Some(object.map_or_else(|| arguments.clone(), Cow::into_owned))
}

fn expected(problem: &str) -> String {
    format!(
        "invalid arguments for use_tool: {problem}. Expected {{\"tool\": {{\"toolbox\": \
         \"<name>\", \"server\": \"<name>\", \"tool\": \"<name>\"}}, \"arguments\": {{…}}}}."
    )
}
