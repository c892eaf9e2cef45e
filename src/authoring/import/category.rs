//! The part of a file that is not about one server: its mode, its categories, what is active in it.

use jsonc_parser::cst::CstInputValue;
use serde_json::{Map, Value, json};

use crate::authoring::import::nodes::entries;
use crate::config::Dialect;
use crate::config::keys::raw::category::{RawCategory, RawCategoryTools, RawOverride};
use crate::config::syntax::document::Node;
use crate::config::syntax::entries::Entries;
use crate::config::syntax::reader::{Located, Reader};
use crate::config::syntax::section::FromNode;
use crate::settings;

/// The part of a file beside its servers.
#[derive(Debug, Default)]
pub(super) struct Top {
    /// How the servers are presented, where the file says so or its program does it in one way.
    pub(super) mode: Option<String>,
    /// `activeToolsets`.
    pub(super) active: Vec<String>,
    /// Its categories.
    pub(super) categories: Vec<Category>,
}

/// One category.
#[derive(Debug)]
pub(super) struct Category {
    pub(super) name: String,
    /// The server that it divides, as the file calls it.
    pub(super) server: String,
    /// All of it but the server.
    pub(super) rest: Map<String, Value>,
}

impl Top {
    /// Reads what stands at the top of a file in JSON, if there is anything of that kind.
    pub(super) fn read(root: &Node<'_>, dialect: Dialect, reader: &mut Reader<'_>) -> Option<Self> {
        let active = root.get("activeToolsets").and_then(|node| reader.strings(&node));
        let categories = root.get("categories");
        if dialect.mode().is_none() && active.is_none() && categories.is_none() {
            return None;
        }
        let categories = categories.iter().flat_map(entries).filter_map(|(name, node)| {
            Category::new(name.value, RawCategory::from_node(&node, reader)?)
        });
        let categories = categories.collect();
        let written = root.get("toolMode").and_then(|node| reader.string(&node));
        let mode = dialect.mode().unwrap_or_default().as_str().to_owned();
        Some(Self {
            mode: Some(written.map_or(mode, |word| word.value)),
            active: texts(active.unwrap_or_default()),
            categories,
        })
    }
}

impl Category {
    fn new(name: String, raw: RawCategory) -> Option<Self> {
        let RawCategory { description, server, tools } = raw;
        let RawCategoryTools { include_names, overrides: over } = tools?;
        let server = server?.value;
        let description = description.map(|text| text.value).filter(|text| !text.trim().is_empty());
        let description = description.unwrap_or_else(|| settings::unsaid(&server));
        let names = texts(include_names?).into_iter().filter(|name| !name.trim().is_empty());
        let mut tools = json!({ "includeNames": names.collect::<Vec<_>>() });
        if let Some(over) = over {
            tools["overrides"] = overrides(over);
        }
        let rest = [("description".to_owned(), description.into()), ("tools".to_owned(), tools)];
        Some(Self { name, server, rest: rest.into_iter().collect() })
    }

    /// The category as it is written, of a server that may have another name here.
    pub(super) fn value(&self, server: &str) -> Value {
        let mut rest = self.rest.clone();
        rest.shift_insert(1, "server".to_owned(), server.into());
        Value::Object(rest)
    }
}

fn texts(strings: Vec<Located<String>>) -> Vec<String> {
    strings.into_iter().map(|text| text.value).collect()
}

/// Overrides as they are written.
pub(super) fn overrides(overrides: Entries<RawOverride>) -> Value {
    let one = |raw: RawOverride| {
        let RawOverride { enabled, description, name, arguments } = raw;
        let members = [
            ("enabled", enabled.map(|enabled| enabled.value.into())),
            ("description", description.map(|text| text.value.into())),
            ("name", name.map(|name| name.value.into())),
            ("arguments", arguments.map(|all| Value::Object(all.into_iter().collect()))),
        ];
        let members = members.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
        Value::Object(members.collect())
    };
    overrides.0.into_iter().map(|(tool, raw)| (tool.value, one(raw))).collect()
}

/// A value to be written.
pub(super) fn written(value: Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(value) => CstInputValue::Bool(value),
        Value::Number(value) => CstInputValue::Number(value.to_string()),
        Value::String(value) => CstInputValue::String(value),
        Value::Array(items) => CstInputValue::Array(items.into_iter().map(written).collect()),
        Value::Object(members) => {
            let members = members.into_iter().map(|(key, value)| (key, written(value)));
            CstInputValue::Object(members.collect())
        }
    }
}
