//! The two tools of our own: how they are defined, and what a call of one of them asks for.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::exposure::guidance;
use crate::exposure::mode::Giving;
use crate::name::{ServerName, ServerRef, ToolId, ToolboxName};
use crate::raw::{Raw, text_of};
use crate::settings::{Config, MACROS};

/// The tool that opens a toolbox.
pub(crate) const OPEN_TOOLBOX: &str = "open_toolbox";
/// The tool that calls any tool of a toolbox.
pub(crate) const USE_TOOL: &str = "use_tool";

/// The definition of `open_toolbox`; in short, if the model knows from elsewhere what toolboxes
/// are for, and with `detail` if that is offered.
pub(crate) fn open_toolbox(
    config: &Config,
    giving: Giving,
    is_known: bool,
    offers_detail: bool,
) -> Raw {
    let names: Vec<_> = config.toolboxes.iter().map(|toolbox| toolbox.name.as_str()).collect();
    let mut properties = json!({
        "toolbox": {"type": "string"},
    });
    // An enumeration of nothing is no valid schema.
    if !names.is_empty() {
        properties["toolbox"]["enum"] = names.into();
    }
    if giving != Giving::List {
        properties["tools"] = json!({
            "type": "array",
            "items": {"type": "string"},
            "description": "Only these of its tools, with whole definitions",
        });
    }
    if offers_detail {
        properties["detail"] = json!({
            "enum": ["full", "signatures"],
            "description": "Whole definitions or one line a tool",
        });
    }
    Raw::encode(&json!({
        "name": OPEN_TOOLBOX,
        "title": "Open a Toolbox",
        "description": guidance::description(config, giving, is_known),
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

/// Asks a client that hides tools behind a search to keep this one in sight: what leads to all
/// others must not have to be looked for. Claude Code reads it, others do not mind.
pub(crate) fn keep_loaded(tool: &mut Raw) {
    let meta = Raw::encode(&json!({"anthropic/alwaysLoad": true}));
    if let Some(kept) = tool.with_member("_meta", &meta) {
        *tool = kept;
    }
}

/// Returns whether a tool asks to be kept in sight.
pub(crate) fn is_kept_loaded(tool: &Raw) -> bool {
    let meta = tool.member("_meta");
    let asked = meta.and_then(|meta| meta.member("anthropic/alwaysLoad"));
    asked.is_some_and(|asked| asked.as_bytes() == b"true")
}

/// The definition of `use_tool`, whose tools are shown by another one.
pub(crate) fn use_tool(shown_by: &str) -> Raw {
    described_use_tool(&format!("{USES} {shown_by} shows the tools and their arguments."))
}

/// The purpose of `use_tool`.
pub(crate) const USES: &str = "Calls a tool of a toolbox.";

/// The definition of `use_tool` with this description.
pub(crate) fn described_use_tool(description: &str) -> Raw {
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

/// The definition of `use_tool` where tools have one name each, which another tool shows.
pub(crate) fn use_named_tool(shown_by: &str) -> Raw {
    let description = format!(
        "Calls a tool that is not in your tool list and returns its result. {shown_by} shows the \
         tools and their arguments."
    );
    calling(&description, &json!({"type": "string", "description": "The tool's name"}))
}

fn calling(description: &str, tool: &Value) -> Raw {
    Raw::encode(&json!({
        "name": USE_TOOL,
        "title": "Use a Tool of a Toolbox",
        "description": description,
        "inputSchema": {
            "type": "object",
            "properties": {
                "tool": tool,
                "arguments": {"type": "object"},
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

/// How much an answer says of each tool.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Detail {
    Full,
    Signatures,
}

/// The arguments of a call of `open_toolbox`.
#[derive(Debug, Deserialize, PartialEq, Eq)]
pub(crate) struct OpenToolbox {
    #[serde(alias = "toolbox_name", alias = "name")]
    pub(crate) toolbox: String,
    /// Only these tools, by their own or their registered names; `None`: all.
    #[serde(default)]
    pub(crate) tools: Option<Vec<String>>,
    #[serde(default)]
    pub(crate) detail: Option<Detail>,
}

impl OpenToolbox {
    pub(crate) fn parse(arguments: Option<&Raw>) -> Result<Self, String> {
        let arguments = unquoted(arguments);
        arguments.map_or_else(|| serde_json::from_str("{}"), |text| text.parse()).map_err(|error| {
            format!(
                "open_toolbox cannot read its arguments: {error}. Expected {{\"toolbox\": \
                 \"<name>\"}}, and where wanted \"tools\": [\"<name>\", …] and \"detail\": \
                 \"full\" or \"signatures\"."
            )
        })
    }
}

/// The arguments of a call of `use_tool`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct UseTool<'a> {
    pub(crate) target: Target<'a>,
    /// The arguments for the tool, as raw text where the agent wrote them as such.
    pub(crate) arguments: Option<Raw>,
}

/// Which tool is meant.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Target<'a> {
    /// By toolbox, server and name.
    Tool(ToolId),
    /// By its registered name.
    Registered(Cow<'a, str>),
    /// By a name, and a part of where it is to be found.
    Within(Within),
}

/// A tool that is named with its toolbox, or its server, alone. It is looked for there, and nowhere
/// else, whoever has a tool of that name.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Within {
    pub(crate) toolbox: Option<String>,
    pub(crate) server: Option<String>,
    pub(crate) tool: String,
}

impl Within {
    /// Returns `true` if a server is one of those that are meant.
    pub(crate) fn has(&self, at: &ServerRef) -> bool {
        let is_it = |wanted: &Option<String>, name: &str| {
            wanted.as_ref().is_none_or(|wanted| wanted == name)
        };
        is_it(&self.toolbox, at.toolbox.as_str()) && is_it(&self.server, at.server.as_str())
    }
}

impl UseTool<'_> {
    /// Understands `{tool: {toolbox, server, tool}, arguments}` (also `name` for `tool`, and a
    /// registered name in place of the object) and the flat `{toolbox_name, tool_name,
    /// arguments}`; arguments may be missing, `null`, or an object written as a string.
    pub(crate) fn parse(arguments: Option<&Raw>, config: &Config) -> Result<Self, String> {
        let given = unquoted(arguments).ok_or_else(|| expected("no arguments were given"))?;
        let not_an_object = || expected("they are not an object");
        let (mut tool, mut arguments) = (None, None);
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
                b"toolbox_name" | b"toolbox" => &mut toolbox_name,
                b"server_name" | b"server" => &mut server_name,
                b"tool_name" | b"name" => &mut tool_name,
                _ => continue,
            };
            let value = &given.as_bytes()[value];
            if text_of(value).is_none() && value != b"null" {
                let key = String::from_utf8_lossy(&key);
                return Err(expected(&format!("`{key}` is no text")));
            }
            *name = Some(value);
        }
        // The object itself may be written as a string; one that is no object is a name.
        let tool = unquoted(tool);
        let [toolbox, server, tool] = match &tool {
            None => [toolbox_name, server_name, tool_name],
            Some(tool) => match (identity(tool), tool.text()) {
                (Some(identity), _) => identity,
                (None, Some(_)) => [toolbox_name, server_name, Some(tool.as_bytes())],
                (None, None) => return Err(expected(&format!("`tool` is {}", tool.as_str()))),
            },
        };
        let [toolbox, server, tool] = [toolbox, server, tool].map(|name| text_of(name?));
        let tool = tool.ok_or_else(|| expected("the name of the tool is missing"))?.into_owned();
        let target = match (toolbox, server) {
            (Some(toolbox), Some(server)) => Target::Tool(ToolId {
                toolbox: ToolboxName::new(toolbox),
                server: ServerName::new(server),
                tool,
            }),
            (Some(toolbox), None) => {
                let only = only_server(config, &toolbox, &tool);
                let toolbox = Some(toolbox.into_owned());
                only.map_or(Target::Within(Within { toolbox, server: None, tool }), Target::Tool)
            }
            (None, Some(server)) => {
                let server = Some(server.into_owned());
                Target::Within(Within { toolbox: None, server, tool })
            }
            (None, None) => Target::Registered(tool.into()),
        };
        Ok(Self { target, arguments: unquoted(arguments).map(Cow::into_owned) })
    }
}

/// The toolbox, the server and the tool that an object names, if it is one, as they are written. Of
/// repeated members the last counts.
fn identity(object: &Raw) -> Option<[Option<&[u8]>; 3]> {
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

impl fmt::Display for Within {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = self.server.as_ref().or(self.toolbox.as_ref());
        write!(f, "{}:{}", place.map_or("", String::as_str), self.tool)
    }
}

/// A tool named without its server, which is a macro or in a toolbox where there is only one server
/// to ask, or by its server's name in front.
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
        let mut servers = toolbox.launched();
        let only = servers.next().filter(|_| servers.next().is_none());
        only.map(|only| id(&only.name, tool))
    })
}

/// Arguments as an object: what is missing or `null` is none, and a string that holds an object
/// is that object.
pub(crate) fn unquoted<'a>(arguments: Option<impl Into<Cow<'a, Raw>>>) -> Option<Cow<'a, Raw>> {
    let arguments = arguments?.into();
    if arguments.as_bytes().first() != Some(&b'"') {
        return (arguments.as_bytes() != b"null").then_some(arguments);
    }
    let text: String = arguments.parse().ok()?;
    if text.trim().is_empty() {
        return None;
    }
    let object = serde_json::from_str::<Box<RawValue>>(text.trim()).ok();
    let object = object.filter(|raw| raw.get().starts_with('{'));
    Some(object.map_or(arguments, |raw| Cow::Owned(Raw::encode(&raw))))
}

/// Arguments of a call by a tool's own name: as they were sent, but that a string which holds an
/// object is that object. Some clients write them so, and no server takes a string.
pub(crate) fn object_of(arguments: Option<&Raw>) -> Option<Raw> {
    let arguments = arguments?;
    let is_string = arguments.as_bytes().first() == Some(&b'"');
    let object = is_string.then(|| unquoted(Some(arguments))).flatten();
    Some(object.map_or_else(|| arguments.clone(), Cow::into_owned))
}

fn expected(problem: &str) -> String {
    format!(
        "use_tool cannot read its arguments: {problem}. Expected {{\"tool\": {{\"toolbox\": \
         \"<name>\", \"server\": \"<name>\", \"tool\": \"<name>\"}}, \"arguments\": {{…}}}}."
    )
}
