//! The raw shape of the `macros` section.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value};

use crate::sections::macros::template::{RawTemplate, json_text};
use crate::syntax::document::{Node, SourceLocation};
use crate::syntax::objects::LocatedMap;
use crate::syntax::reader::{ConfigReader, Located};
use crate::syntax::section::{FromNode, SectionSpec, section};

section! {
    /// A tool that consists of calls to other tools.
    #[schemars(rename = "Macro")]
    pub(crate) struct RawMacro {
        /// What the macro does. Agents read this to decide whether to call it.
        #[schemars(required, length(min = 1))]
        #[schemars(extend("examples" = ["Writes down what time it is"]))]
        "description" as pub(crate) description: Located<String>,

        /// Toolbox that the macro belongs to. Default: a toolbox named `macros`.
        "toolbox" as pub(crate) toolbox: Located<String>,

        /// JSON Schema of the arguments, an object. Without it, the macro takes no arguments.
        #[schemars(with = "Option<Map<String, Value>>")]
        #[schemars(extend("examples" = [{"type": "object", "properties": {"title": {"type": "string"}}}]))]
        "inputSchema" | "input_schema" as pub(crate) input_schema: Located<String> => schema,

        /// The calls, by step name. Steps that do not depend on each other run concurrently.
        #[schemars(required, extend("minProperties" = 1))]
        "steps" as pub(crate) steps: LocatedMap<RawStep>,

        /// Template of the result: any value, in which `{"$from": "/steps/<name>/…"}` inserts a
        /// step's result. Default: the result of the last step in the file.
        #[schemars(with = "Option<Value>")]
        "result" as pub(crate) result: RawTemplate,
    }
}

section! {
    /// One tool call.
    #[schemars(rename = "Step")]
    pub(crate) struct RawStep {
        /// Tool to call, as `server:tool`, or as an object with `toolbox`, `server` and `tool`.
        #[schemars(required, extend("examples" = ["notes:note_create"]))]
        "tool" as pub(crate) tool: RawStepTool,

        /// Template of the arguments. `{"$from": "/inputs/…"}` and `{"$from": "/steps/<name>/…"}`
        /// insert a value, with an optional `default`; `{"$join": [ … ]}` joins values to a string.
        #[schemars(with = "Option<Map<String, Value>>")]
        "arguments" as pub(crate) arguments: RawTemplate => RawTemplate::read_object,

        /// Steps that must finish first, in addition to those whose results are used.
        "after" as pub(crate) after: Vec<Located<String>>,
    }
}

/// The tool that a step names. `server` is empty until `server:tool` is split.
pub(crate) struct RawStepTool {
    pub(crate) toolbox: Option<Located<String>>,
    pub(crate) server: Located<String>,
    pub(crate) tool: Located<String>,
    pub(crate) location: SourceLocation,
}

section! {
    /// A tool by toolbox, server and name.
    #[schemars(rename = "StepTool")]
    pub(crate) struct RawStepToolObject {
        /// Toolbox of the server. Default: the macro's own, otherwise the first one with that
        /// server.
        "toolbox" as pub(crate) toolbox: Located<String>,

        /// Server of the tool.
        #[schemars(required)]
        "server" as pub(crate) server: Located<String>,

        /// Name of the tool, as the toolbox shows it.
        #[schemars(required)]
        "tool" as pub(crate) tool: Located<String>,
    }
}

fn schema(node: &Node<'_>, reader: &mut ConfigReader<'_>) -> Option<Located<String>> {
    if node.value.as_object().is_none() {
        reader.report_type_mismatch(node, "an object", None);
        return None;
    }
    Some(Located { value: json_text(node, reader), location: node.location.clone() })
}

impl FromNode for RawTemplate {
    fn from_node(node: &Node<'_>, reader: &mut ConfigReader<'_>) -> Option<Self> {
        Some(Self::read(node, reader))
    }
}

impl FromNode for RawStepTool {
    const SECTION: Option<&'static SectionSpec> = RawStepToolObject::SECTION;

    fn from_node(node: &Node<'_>, reader: &mut ConfigReader<'_>) -> Option<Self> {
        let spot = node.location.clone();
        if node.value.as_string_lit().is_some() {
            let tool = reader.read_string(node)?;
            let server = Located { value: String::new(), location: spot.clone() };
            return Some(Self { toolbox: None, server, tool, location: spot });
        }
        if node.value.as_object().is_none() {
            reader.report_type_mismatch(node, "`server:tool` or an object", None);
            return None;
        }
        let RawStepToolObject { toolbox, server, tool } = FromNode::from_node(node, reader)?;
        for (key, name) in [("server", &server), ("tool", &tool)] {
            let is_there = name.as_ref().is_some_and(|name| !name.value.trim().is_empty());
            if !is_there && !reader.has_error_under(&spot, key) {
                reader.report_error(&spot, format!("expected a `{key}`"), None);
            }
        }
        let tool = Self { toolbox, server: server?, tool: tool?, location: spot };
        (!tool.server.value.trim().is_empty() && !tool.tool.value.trim().is_empty()).then_some(tool)
    }
}

impl JsonSchema for RawStepTool {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "StepToolSetting".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let object = generator.subschema_for::<RawStepToolObject>();
        json_schema!({ "anyOf": [{ "type": "string" }, object] })
    }
}
