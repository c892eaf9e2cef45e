//! The `search` section: tool search, and the endpoint for embeddings.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::sections::llm::RawLlm;
use crate::syntax::document::Node;
use crate::syntax::reader::{ConfigReader, Located};
use crate::syntax::section::{FromNode, SectionSpec, section};
use mcp_workbench_settings::{SearchConfig, ToolMode};

/// The value of `search`. A boolean is short for an object with only `tool`.
pub(crate) struct RawSearch(RawSearchObject);

section! {
    /// Tool search.
    #[schemars(rename = "Search")]
    pub(crate) struct RawSearchObject {
        /// Adds the tool `search_tools` in the modes `dynamic`, `proxy` and `auto`.
        #[schemars(extend("default" = false))]
        "tool" as pub(crate) tool: Located<bool>,

        /// Endpoint for text embeddings. Replaces the built-in vectors.
        "embeddings" as pub(crate) embeddings: Located<RawLlm>,
    }
}

impl RawSearch {
    pub(crate) fn checked(self, mode: ToolMode, reader: &mut ConfigReader<'_>) -> SearchConfig {
        let RawSearchObject { tool, embeddings } = self.0;
        let tool = tool.filter(|flag| flag.value);
        if let Some(flag) = &tool {
            match mode {
                ToolMode::Dynamic | ToolMode::Proxy | ToolMode::Auto | ToolMode::Search => {}
                ToolMode::Direct
                | ToolMode::Activate
                | ToolMode::Modular
                | ToolMode::Navigate
                | ToolMode::Passthrough => {
                    let message = format!("no effect in `{}` mode", mode.as_str());
                    let hint = "`search_tools` is available in `dynamic`, `proxy`, `auto` and `search` mode";
                    reader.report_warning(&flag.location, message, Some(hint.to_owned()));
                }
            }
        }
        SearchConfig {
            offers_tool: tool.is_some(),
            embeddings: embeddings.and_then(|raw| raw.value.checked(&raw.location, reader)),
        }
    }
}

impl FromNode for RawSearch {
    const SECTION: Option<&'static SectionSpec> = RawSearchObject::SECTION;

    fn from_node(node: &Node<'_>, reader: &mut ConfigReader<'_>) -> Option<Self> {
        if node.value.as_boolean_lit().is_some() {
            let tool = reader.read_bool(node);
            return Some(Self(RawSearchObject { tool, ..RawSearchObject::default() }));
        }
        RawSearchObject::from_node(node, reader).map(Self)
    }
}

impl JsonSchema for RawSearch {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "SearchSetting".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let object = generator.subschema_for::<RawSearchObject>();
        json_schema!({ "anyOf": [{ "type": "boolean" }, object] })
    }
}
