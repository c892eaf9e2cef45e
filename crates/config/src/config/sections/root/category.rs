//! The raw shape of categories and tool overrides.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::config::syntax::objects::LocatedMap;
use crate::config::syntax::reader::Located;
use crate::config::syntax::section::section;

section! {
    /// A toolbox that has some of the tools of one server.
    #[schemars(rename = "Category")]
    pub struct RawCategory {
        /// The purpose of its tools. The agent reads this to decide whether to use it.
        #[schemars(required, length(min = 1))]
        "description" as pub description: Located<String>,

        /// The server that has the tools: a name in the top-level `mcpServers`.
        #[schemars(required)]
        "server" as pub server: Located<String>,

        /// Which tools these are.
        #[schemars(required)]
        "tools" as pub tools: RawCategoryTools,
    }
}

section! {
    /// Which tools a category has.
    #[schemars(inline)]
    pub struct RawCategoryTools in "`tools` in a category" {
        /// Their names, as the server or as a client writes them: `read_file` or
        /// `mcp__<server>__read_file`.
        #[schemars(required)]
        #[schemars(extend("examples" = [["read_file", "list_directory"]]))]
        rule "includeNames" as pub include_names: Vec<Located<String>>,

        /// Changes to single tools, by their names. They go before what the server
        /// says of these tools.
        "overrides" as pub overrides: LocatedMap<RawOverride>,
    }
}

section! {
    /// Changes to one tool.
    #[schemars(rename = "Override")]
    pub struct RawOverride {
        /// Keeps the tool; `false` leaves it out.
        #[schemars(extend("default" = true))]
        "enabled" as pub enabled: Located<bool>,

        /// The description of the tool, in place of its server's.
        "description" as pub description: Located<String>,

        /// The name of the tool, in place of its server's name for it.
        #[schemars(length(min = 1))]
        "name" as pub name: Located<String>,

        /// Arguments that every call has, whatever the agent writes; it does not see them.
        #[schemars(with = "Option<BTreeMap<String, Value>>")]
        #[schemars(extend("examples" = [{"branch": "main"}]))]
        "arguments" as pub arguments: Vec<(String, Value)>,
    }
}
