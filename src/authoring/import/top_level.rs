//! Imports the settings that aren't about one server: tool mode, categories and active toolsets.

use jsonc_parser::cst::CstInputValue;
use serde_json::{Map, Value, json};

use crate::authoring::import::nodes::object_entries;
use mcp_workbench_config::Dialect;
use mcp_workbench_config::sections::root::category::{RawCategory, RawCategoryTools, RawOverride};
use mcp_workbench_config::syntax::document::Node;
use mcp_workbench_config::syntax::objects::LocatedMap;
use mcp_workbench_config::syntax::reader::{ConfigReader, Located};
use mcp_workbench_config::syntax::section::FromNode;

#[derive(Debug, Default)]
pub(super) struct TopLevelSettings {
    /// The tool mode of the file, or the one its program always uses.
    pub(super) mode: Option<String>,
    pub(super) active: Vec<String>,
    pub(super) categories: Vec<ImportedCategory>,
}

/// A category of a Modular MCP file.
#[derive(Debug)]
pub(super) struct ImportedCategory {
    pub(super) name: String,
    /// The server that the category selects tools from, by its name in the file.
    pub(super) server: String,
    /// All members except `server`.
    pub(super) rest: Map<String, Value>,
}

impl TopLevelSettings {
    /// Reads these settings. Returns `None` if the file has none and its dialect implies no tool
    /// mode.
    pub(super) fn read(
        root: &Node<'_>,
        dialect: Dialect,
        reader: &mut ConfigReader<'_>,
    ) -> Option<Self> {
        let active = root.get("activeToolsets").and_then(|node| reader.read_strings(&node));
        let categories = root.get("categories");
        if dialect.mode().is_none() && active.is_none() && categories.is_none() {
            return None;
        }
        let categories = categories.iter().flat_map(object_entries).filter_map(|(name, node)| {
            ImportedCategory::new(name.value, RawCategory::from_node(&node, reader)?)
        });
        let categories = categories.collect();
        let written = root.get("toolMode").and_then(|node| reader.read_string(&node));
        let mode = dialect.mode().unwrap_or_default().as_str().to_owned();
        Some(Self {
            mode: Some(written.map_or(mode, |word| word.value)),
            active: texts(active.unwrap_or_default()),
            categories,
        })
    }
}

impl ImportedCategory {
    fn new(name: String, raw: RawCategory) -> Option<Self> {
        let RawCategory { description, server, tools } = raw;
        let RawCategoryTools { include_names, overrides: over } = tools?;
        let server = server?.value;
        let description = description.map(|text| text.value).filter(|text| !text.trim().is_empty());
        let description =
            description.unwrap_or_else(|| mcp_workbench_settings::default_description(&server));
        let names = texts(include_names?).into_iter().filter(|name| !name.trim().is_empty());
        let mut tools = json!({ "includeNames": names.collect::<Vec<_>>() });
        if let Some(over) = over {
            tools["overrides"] = overrides(over);
        }
        let rest = [("description".to_owned(), description.into()), ("tools".to_owned(), tools)];
        Some(Self { name, server, rest: rest.into_iter().collect() })
    }

    /// Returns the category with `server` as the name of its server.
    pub(super) fn value(&self, server: &str) -> Value {
        let mut rest = self.rest.clone();
        rest.shift_insert(1, "server".to_owned(), server.into());
        Value::Object(rest)
    }
}

fn texts(strings: Vec<Located<String>>) -> Vec<String> {
    strings.into_iter().map(|text| text.value).collect()
}

pub(super) fn overrides(overrides: LocatedMap<RawOverride>) -> Value {
    let one = |raw: RawOverride| {
        let RawOverride { enabled, description, name, arguments, select } = raw;
        let members = [
            ("enabled", enabled.map(|enabled| enabled.value.into())),
            ("description", description.map(|text| text.value.into())),
            ("name", name.map(|name| name.value.into())),
            ("arguments", arguments.map(|all| Value::Object(all.into_iter().collect()))),
            ("select", select.map(|pointers| texts(pointers).into())),
        ];
        let members = members.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
        Value::Object(members.collect())
    };
    overrides.0.into_iter().map(|(tool, raw)| (tool.value, one(raw))).collect()
}

pub(super) fn json_to_cst(value: Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(value) => CstInputValue::Bool(value),
        Value::Number(value) => CstInputValue::Number(value.to_string()),
        Value::String(value) => CstInputValue::String(value),
        Value::Array(items) => CstInputValue::Array(items.into_iter().map(json_to_cst).collect()),
        Value::Object(members) => {
            let members = members.into_iter().map(|(key, value)| (key, json_to_cst(value)));
            CstInputValue::Object(members.collect())
        }
    }
}

pub(super) fn cst_to_json(written: CstInputValue) -> Value {
    match written {
        CstInputValue::Null => Value::Null,
        CstInputValue::Bool(flag) => flag.into(),
        CstInputValue::Number(text) => serde_json::from_str(&text).unwrap_or_default(),
        CstInputValue::String(text) => text.into(),
        CstInputValue::Array(values) => values.into_iter().map(cst_to_json).collect(),
        CstInputValue::Object(members) => {
            members.into_iter().map(|(key, written)| (key, cst_to_json(written))).collect()
        }
    }
}
