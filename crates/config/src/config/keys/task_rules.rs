//! Which tools which task wants (`taskBasedToolSelection`): the rules of `tailor`, as they are written.

use globset::Glob;
use schemars::JsonSchema;

use crate::config::keys::policy::raw as policy;
use crate::config::syntax::document::Node;
use crate::config::syntax::entries::{Entries, named};
use crate::config::syntax::reader::{Fields, Located, Reader};

/// Which tools which task wants; `mcp-workbench tailor` chooses by it. A part that is not there is
/// that of the rules which the executable carries.
#[derive(Default, JsonSchema)]
#[schemars(
    rename_all = "camelCase",
    deny_unknown_fields,
    rename = "TaskRules",
    extend("patternProperties" = {"^(base_tools|service_types)$": {"description": "The same in snake_case."}})
)]
pub struct RawTaskRules {
    /// Tools that every task gets, by server.
    pub base_tools: Option<Entries<Vec<Located<String>>>>,

    /// What tasks get that are done on a service of some kind, by the kind. The first whose words
    /// are in the name of the service is the one.
    pub service_types: Option<Entries<RawServiceType>>,

    /// What tasks get in whose description there is a word, by a name for the rule.
    pub patterns: Option<Entries<RawPattern>>,
}

/// What tasks get that are done on a service of one kind.
#[derive(JsonSchema)]
#[schemars(
    rename_all = "camelCase",
    deny_unknown_fields,
    rename = "ServiceType",
    extend("patternProperties" = {"^(additional_tools)$": {"description": "The same in snake_case."}})
)]
pub struct RawServiceType {
    /// Parts of the names of such services; the name of the kind by default.
    #[schemars(extend("examples" = [["api", "service"]]))]
    pub words: Option<Vec<Located<String>>>,

    /// The tools, by server.
    #[schemars(required)]
    pub additional_tools: Option<Entries<Vec<Located<String>>>>,
}

/// What tasks get in whose description there is a word.
#[derive(JsonSchema)]
#[schemars(
    rename_all = "camelCase",
    deny_unknown_fields,
    rename = "TaskPattern",
    extend("patternProperties" = {"^(additional_tools)$": {"description": "The same in snake_case."}})
)]
pub struct RawPattern {
    /// The words, in any of their forms: `test` is in "write tests" too.
    #[schemars(required)]
    #[schemars(extend("examples" = [["test", "coverage", "pull request"]]))]
    pub keywords: Option<Vec<Located<String>>>,

    /// The tools, by server.
    #[schemars(required)]
    pub additional_tools: Option<Entries<Vec<Located<String>>>>,
}

impl RawTaskRules {
    pub fn read(fields: &mut Fields<'_>, reader: &mut Reader<'_>) -> Self {
        let base_tools = fields.either("baseTools", "base_tools", reader);
        let service_types = fields.either("serviceTypes", "service_types", reader);
        Self {
            base_tools: base_tools.map(|node| tools(&node, reader)),
            service_types: service_types.map(|node| named(&node, reader, RawServiceType::read)),
            patterns: fields.take("patterns").map(|node| named(&node, reader, RawPattern::read)),
        }
    }
}

impl RawServiceType {
    pub(crate) fn read(fields: &mut Fields<'_>, reader: &mut Reader<'_>) -> Self {
        Self {
            words: fields.take("words").and_then(|node| reader.strings(&node)),
            additional_tools: additional_tools(fields, reader),
        }
    }
}

impl RawPattern {
    pub(crate) fn read(fields: &mut Fields<'_>, reader: &mut Reader<'_>) -> Self {
        let keywords = fields.take("keywords").and_then(|node| reader.strings(&node));
        if keywords.is_none() && !reader.has_error_under(fields.spot(), "keywords") {
            let hint = "write `\"keywords\": [\"test\"]`".to_owned();
            reader.fault(fields.spot(), "expected `keywords`", "it is never used", Some(hint));
        }
        Self { keywords, additional_tools: additional_tools(fields, reader) }
    }
}

fn additional_tools(
    fields: &mut Fields<'_>,
    reader: &mut Reader<'_>,
) -> Option<Entries<Vec<Located<String>>>> {
    let node = fields.either("additionalTools", "additional_tools", reader);
    if node.is_none() {
        let hint = "write `\"additionalTools\": {\"server\": [\"tool\"]}`".to_owned();
        reader.fault(fields.spot(), "expected `additionalTools`", "it adds nothing", Some(hint));
    }
    Some(tools(&node?, reader))
}

/// Reads lists of tools; what comes of them is written into a configuration, which has to take it.
fn tools(node: &Node<'_>, reader: &mut Reader<'_>) -> Entries<Vec<Located<String>>> {
    let mut lists = policy::tools(node, reader);
    for (_, tools) in &mut lists.0 {
        tools.retain(|tool| {
            let text = &tool.value;
            let is_good =
                !text.trim().is_empty() && !text.starts_with('!') && Glob::new(text).is_ok();
            if !is_good {
                let message = "expected a tool's name or a glob";
                reader.fault(&tool.spot, message, "left out", None);
            }
            is_good
        });
    }
    lists
}
