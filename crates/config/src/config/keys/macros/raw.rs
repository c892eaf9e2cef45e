//! The shape of `macros` in the file.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value};

use crate::config::keys::macros::template::{RawTemplate, json_text};
use crate::config::syntax::document::{Node, Spot};
use crate::config::syntax::entries::{Entries, named, object};
use crate::config::syntax::reader::{Fields, Located, Reader};

/// A tool that is made of steps over other tools.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields, rename = "Macro")]
pub(crate) struct RawMacro {
    /// What it does. The agent reads this to decide whether to call it.
    #[schemars(required, length(min = 1))]
    #[schemars(extend("examples" = ["Writes down what time it is"]))]
    pub(crate) description: Option<Located<String>>,

    /// The toolbox that it stands in; without one it is in a toolbox called `macros`.
    pub(crate) toolbox: Option<Located<String>>,

    /// The JSON Schema of its arguments; without one it takes none.
    #[schemars(with = "Option<Map<String, Value>>")]
    #[schemars(extend("examples" = [{"type": "object", "properties": {"title": {"type": "string"}}}]))]
    pub(crate) input_schema: Option<Located<String>>,

    /// The calls that it makes, by names of their own. They run at the same time where none needs
    /// another.
    #[schemars(required, extend("minProperties" = 1))]
    pub(crate) steps: Option<Entries<RawStep>>,

    /// What its result is made of: any value, in which `{"$from": "/steps/<name>/…"}` stands for
    /// what is found there. Without it the result is that of the last step in the file.
    #[schemars(with = "Option<Value>")]
    pub(crate) result: Option<RawTemplate>,
}

/// One call of a tool.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields, rename = "Step")]
pub(crate) struct RawStep {
    /// The tool, as `server:tool`, or as an object with its toolbox, its server and its name.
    #[schemars(required, extend("examples" = ["notes:note_create"]))]
    pub(crate) tool: Option<RawTool>,

    /// Its arguments. `{"$from": "/inputs/…"}` and `{"$from": "/steps/<name>/…"}` stand for what is
    /// found there, or for what `default` says beside it; `{"$join": [ … ]}` makes one text of
    /// several values.
    #[schemars(with = "Option<Map<String, Value>>")]
    pub(crate) arguments: Option<RawTemplate>,

    /// Steps that have to be done before, besides those whose values it takes.
    pub(crate) after: Option<Vec<Located<String>>>,
}

/// A tool as a step names it. The server is empty where it is still in front of the tool.
pub(crate) struct RawTool {
    pub(crate) toolbox: Option<Located<String>>,
    pub(crate) server: Located<String>,
    pub(crate) tool: Located<String>,
    pub(crate) spot: Spot,
}

/// A tool by its toolbox, its server and its name.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields, rename = "StepTool")]
pub(crate) struct RawToolObject {
    /// The toolbox that it is reached through; without one the macro's own, or the first that has
    /// the server.
    toolbox: Option<Located<String>>,

    /// The server that has it.
    #[schemars(required)]
    server: Option<Located<String>>,

    /// Its name, as the toolbox shows it.
    #[schemars(required)]
    tool: Option<Located<String>>,
}

impl RawMacro {
    pub(crate) fn read(fields: &mut Fields<'_>, reader: &mut Reader<'_>) -> Self {
        let schema = |node: Node<'_>, reader: &mut Reader<'_>| {
            if node.value.as_object().is_none() {
                reader.mismatch(&node, "an object", None);
                return None;
            }
            Some(Located { value: json_text(&node, reader), spot: node.spot })
        };
        Self {
            description: fields.take("description").and_then(|node| reader.string(&node)),
            toolbox: fields.take("toolbox").and_then(|node| reader.string(&node)),
            input_schema: fields
                .either("inputSchema", "input_schema", reader)
                .and_then(|node| schema(node, reader)),
            steps: fields.take("steps").map(|node| named(&node, reader, RawStep::read)),
            result: fields.take("result").map(|node| RawTemplate::read(&node, reader)),
        }
    }
}

impl RawStep {
    pub(crate) fn read(fields: &mut Fields<'_>, reader: &mut Reader<'_>) -> Self {
        Self {
            tool: fields.take("tool").and_then(|node| RawTool::read(&node, reader)),
            arguments: fields
                .take("arguments")
                .and_then(|node| RawTemplate::read_object(&node, reader)),
            after: fields.take("after").and_then(|node| reader.strings(&node)),
        }
    }
}

impl RawTool {
    fn read(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        let spot = node.spot.clone();
        if node.value.as_string_lit().is_some() {
            let tool = reader.string(node)?;
            let server = Located { value: String::new(), spot: spot.clone() };
            return Some(Self { toolbox: None, server, tool, spot });
        }
        if node.value.as_object().is_none() {
            reader.mismatch(node, "`server:tool` or an object", None);
            return None;
        }
        let RawToolObject { toolbox, server, tool } = object(node, reader, RawToolObject::read)?;
        for (key, name) in [("server", &server), ("tool", &tool)] {
            let is_there = name.as_ref().is_some_and(|name| !name.value.trim().is_empty());
            if !is_there && !reader.has_error_under(&spot, key) {
                reader.error(&spot, format!("expected a `{key}`"), None);
            }
        }
        let tool = Self { toolbox, server: server?, tool: tool?, spot };
        (!tool.server.value.trim().is_empty() && !tool.tool.value.trim().is_empty()).then_some(tool)
    }
}

impl RawToolObject {
    pub(crate) fn read(fields: &mut Fields<'_>, reader: &mut Reader<'_>) -> Self {
        let mut text = |key| fields.take(key).and_then(|node| reader.string(&node));
        Self { toolbox: text("toolbox"), server: text("server"), tool: text("tool") }
    }
}

impl JsonSchema for RawTool {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "StepToolSetting".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let object = generator.subschema_for::<RawToolObject>();
        json_schema!({ "anyOf": [{ "type": "string" }, object] })
    }
}
