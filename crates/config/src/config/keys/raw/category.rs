//! The shape of what is said of single tools: categories of a server's tools, and overrides.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde_json::Value;

use crate::config::syntax::entries::{Entries, named, object};
use crate::config::syntax::reader::{Fields, Located, Reader};

/// A toolbox that has some of the tools of one server.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields, rename = "Category")]
pub struct RawCategory {
    /// What its tools are for. The agent reads this to decide whether to use it.
    #[schemars(required, length(min = 1))]
    pub description: Option<Located<String>>,

    /// The server that has the tools: a name in the top-level `mcpServers`.
    #[schemars(required)]
    pub server: Option<Located<String>>,

    /// Which tools these are.
    #[schemars(required)]
    pub tools: Option<RawCategoryTools>,
}

/// Which tools a category has.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields, inline)]
pub struct RawCategoryTools {
    /// Their names, as the server or as a client writes them: `read_file` or
    /// `mcp__<server>__read_file`.
    #[schemars(required)]
    #[schemars(extend("examples" = [["read_file", "list_directory"]]))]
    pub include_names: Option<Vec<Located<String>>>,

    /// What is to be different about single tools, by their names. Goes before what the server
    /// says of them.
    pub overrides: Option<Entries<RawOverride>>,
}

/// What is to be different about one tool.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields, rename = "Override")]
pub struct RawOverride {
    /// Whether the tool is there at all.
    #[schemars(extend("default" = true))]
    pub enabled: Option<Located<bool>>,

    /// What is said of the tool, in place of what its server says.
    pub description: Option<Located<String>>,

    /// What the tool is called, in place of its server's name for it.
    #[schemars(length(min = 1))]
    pub name: Option<Located<String>>,

    /// Arguments that every call has, whatever the agent writes; it does not see them.
    #[schemars(with = "Option<BTreeMap<String, Value>>")]
    #[schemars(extend("examples" = [{"branch": "main"}]))]
    pub arguments: Option<Vec<(String, Value)>>,
}

impl RawCategory {
    pub fn read(fields: &mut Fields<'_>, reader: &mut Reader<'_>) -> Self {
        Self {
            description: fields.take("description").and_then(|node| reader.string(&node)),
            server: fields.take("server").and_then(|node| reader.string(&node)),
            tools: fields
                .take("tools")
                .and_then(|node| object(&node, reader, RawCategoryTools::read)),
        }
    }
}

impl RawCategoryTools {
    pub(crate) fn read(fields: &mut Fields<'_>, reader: &mut Reader<'_>) -> Self {
        Self {
            include_names: fields.take("includeNames").and_then(|node| reader.strings(&node)),
            overrides: fields.take("overrides").map(|node| named(&node, reader, RawOverride::read)),
        }
    }
}

impl RawOverride {
    pub(crate) fn read(fields: &mut Fields<'_>, reader: &mut Reader<'_>) -> Self {
        Self {
            enabled: fields.take("enabled").and_then(|node| reader.boolean(&node)),
            description: fields.take("description").and_then(|node| reader.string(&node)),
            name: fields.take("name").and_then(|node| reader.string(&node)),
            arguments: fields.take("arguments").and_then(|node| reader.members(&node)),
        }
    }
}
