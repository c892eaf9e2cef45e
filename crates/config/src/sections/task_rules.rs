//! The `taskBasedToolSelection` section: rules of `mcp-workbench tailor`, which maps tasks to
//! tools.

use globset::Glob;

use crate::syntax::document::Node;
use crate::syntax::objects::{LocatedMap, read_closed_object};
use crate::syntax::reader::{ConfigReader, Located};
use crate::syntax::section::{ConfigSection, FromNode, SectionSpec, keys, section};

section! {
    /// Rules of `mcp-workbench tailor`: the tools that each kind of task needs. Missing parts come
    /// from the built-in rules.
    #[schemars(rename = "TaskRules")]
    pub struct RawTaskRules {
        /// Tools for every task, by server.
        "baseTools" | "base_tools" as pub base_tools: LocatedMap<Vec<Located<String>>> => tools,

        /// Tools by project type. The first type with a word that occurs in the project's name
        /// applies.
        "serviceTypes" | "service_types" as pub service_types: LocatedMap<RawServiceType>,

        /// Tools for tasks whose description contains a keyword, by the name of the rule.
        "patterns" as pub patterns: LocatedMap<RawTaskPattern>,
    }
}

keys! {
    /// Tools for projects of one type.
    #[schemars(rename = "ServiceType", deny_unknown_fields)]
    pub struct RawServiceType {
        /// Words that occur in the names of such projects. Default: the name of the type.
        #[schemars(extend("examples" = [["api", "service"]]))]
        "words" as pub words: Vec<Located<String>>,

        /// The tools, by server.
        #[schemars(required)]
        "additionalTools" | "additional_tools"
            as pub additional_tools: LocatedMap<Vec<Located<String>>> => tools,
    }
}

keys! {
    /// Tools for tasks whose description contains a keyword.
    #[schemars(rename = "TaskPattern", deny_unknown_fields)]
    pub struct RawTaskPattern {
        /// Keywords, in any grammatical form: `test` also matches "tests".
        #[schemars(required)]
        #[schemars(extend("examples" = [["test", "coverage", "pull request"]]))]
        "keywords" as pub keywords: Vec<Located<String>>,

        /// The tools, by server.
        #[schemars(required)]
        "additionalTools" | "additional_tools"
            as pub additional_tools: LocatedMap<Vec<Located<String>>> => tools,
    }
}

impl FromNode for RawServiceType {
    const SECTION: Option<&'static SectionSpec> = Some(Self::SPEC);

    fn from_node(node: &Node<'_>, reader: &mut ConfigReader<'_>) -> Option<Self> {
        let read = read_closed_object(node, reader, Self::read_keys)?;
        check_tools(read.additional_tools.is_some(), node, reader);
        Some(read)
    }
}

impl FromNode for RawTaskPattern {
    const SECTION: Option<&'static SectionSpec> = Some(Self::SPEC);

    fn from_node(node: &Node<'_>, reader: &mut ConfigReader<'_>) -> Option<Self> {
        let read = read_closed_object(node, reader, Self::read_keys)?;
        if read.keywords.is_none() && !reader.has_error_under(&node.location, "keywords") {
            let hint = "write `\"keywords\": [\"test\"]`".to_owned();
            reader.report_unless_lenient(
                &node.location,
                "expected `keywords`",
                "the rule never applies",
                Some(hint),
            );
        }
        check_tools(read.additional_tools.is_some(), node, reader);
        Some(read)
    }
}

fn check_tools(has_tools: bool, rule: &Node<'_>, reader: &mut ConfigReader<'_>) {
    if !has_tools {
        let hint = "write `\"additionalTools\": {\"server\": [\"tool\"]}`".to_owned();
        reader.report_unless_lenient(
            &rule.location,
            "expected `additionalTools`",
            "the rule adds no tools",
            Some(hint),
        );
    }
}

/// Reads tool lists by server. Invalid patterns are dropped, because the rules end up in a
/// generated configuration.
fn tools(
    node: &Node<'_>,
    reader: &mut ConfigReader<'_>,
) -> Option<LocatedMap<Vec<Located<String>>>> {
    let mut lists: LocatedMap<Vec<Located<String>>> = FromNode::from_node(node, reader)?;
    for (_, tools) in &mut lists.0 {
        tools.retain(|tool| {
            let text = &tool.value;
            let is_good =
                !text.trim().is_empty() && !text.starts_with('!') && Glob::new(text).is_ok();
            if !is_good {
                let message = "expected a tool name or a glob";
                reader.report_unless_lenient(&tool.location, message, "ignored", None);
            }
            is_good
        });
    }
    Some(lists)
}
