//! The raw shape of categories and tool overrides.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::syntax::objects::LocatedMap;
use crate::syntax::reader::Located;
use crate::syntax::section::section;
use mcp_workbench_wire::json::select::MAX_POINTERS;

section! {
    /// A toolbox with selected tools of one server.
    #[schemars(rename = "Category")]
    pub struct RawCategory {
        /// What these tools are for. Agents read this to decide whether to open the toolbox.
        #[schemars(required, length(min = 1))]
        "description" as pub description: Located<String>,

        /// Name of a server in the top-level `mcpServers`.
        #[schemars(required)]
        "server" as pub server: Located<String>,

        /// The tools of the category.
        #[schemars(required)]
        "tools" as pub tools: RawCategoryTools,
    }
}

section! {
    /// The tools of a category.
    #[schemars(inline)]
    pub struct RawCategoryTools in "`tools` in a category" {
        /// Tool names as the server writes them (`read_file`), or as clients do
        /// (`mcp__<server>__read_file`).
        #[schemars(required)]
        #[schemars(extend("examples" = [["read_file", "list_directory"]]))]
        rule "includeNames" as pub include_names: Vec<Located<String>>,

        /// Changes to single tools, by tool name. Override the server's own `overrides`.
        "overrides" as pub overrides: LocatedMap<RawOverride>,
    }
}

section! {
    /// Changes to one tool.
    #[schemars(rename = "Override")]
    pub struct RawOverride {
        /// `false` hides the tool.
        #[schemars(extend("default" = true))]
        "enabled" as pub enabled: Located<bool>,

        /// New description of the tool.
        "description" as pub description: Located<String>,

        /// New name of the tool.
        #[schemars(length(min = 1))]
        "name" as pub name: Located<String>,

        /// Fixed arguments for every call. Agents cannot see or change them.
        #[schemars(with = "Option<BTreeMap<String, Value>>")]
        #[schemars(extend("examples" = [{"branch": "main"}]))]
        "arguments" as pub arguments: Vec<(String, Value)>,

        /// Fields that results are reduced to, as JSON pointers; `*` stands for every element.
        /// `select` of `use_tool` replaces it, and an empty list turns it off.
        #[schemars(extend("examples" = [["/total", "/items/*/title"]]))]
        #[schemars(length(max = MAX_POINTERS))]
        "select" as pub select: Vec<Located<String>>,
    }
}
