//! The raw shape of the policy keys. Keys are accepted in `camelCase` and in `snake_case`.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Number, Value};

use crate::sections::limits::RawRateLimits;
use crate::syntax::document::Node;
use crate::syntax::objects::LocatedMap;
use crate::syntax::reader::{ConfigReader, Located};
use crate::syntax::section::{FromNode, OneOrMany, SectionSpec, read_one_or_many, section};

section! {
    /// The permissions of one agent.
    #[schemars(rename = "AgentPolicy")]
    pub(crate) struct RawAgentPolicy in "an agent, under `agentPolicies`" {
        /// Agents to inherit permissions from: a name, or a list of names. Own `allowedServers`,
        /// and own lists for a server, replace the inherited ones; inherited conditions (`when`)
        /// still apply.
        #[schemars(with = "Option<OneOrMany>")]
        #[schemars(extend("examples" = ["reader"]))]
        "extends" as pub(crate) extends: Vec<Located<String>> => read_one_or_many,

        /// Servers that the agent may use: names and globs. All by default.
        #[schemars(extend("examples" = [["github", "filesystem"]]))]
        rule "allowedServers" | "allowed_servers" as pub(crate) allowed_servers: Vec<Located<String>>,

        /// Tools that the agent may use, by server: names, globs and `server:tool`. Override
        /// `exposedTools`.
        #[schemars(extend("examples" = [{"github": ["get_*", "create_issue"]}]))]
        rule "toolOverrides" | "tool_overrides" as pub(crate) tool_overrides: LocatedMap<Vec<Located<String>>>,

        /// Resources and resource templates that the agent may use, by server, in the syntax of
        /// `resourceFilters`. Override `exposedResources`.
        #[schemars(extend("examples" = [{"filesystem": ["file:///docs/*", "!*.env"]}]))]
        rule "resourceOverrides" | "resource_overrides"
            as pub(crate) resource_overrides: LocatedMap<Vec<Located<String>>>,

        /// Prompts that the agent may use, by server, in the syntax of `promptFilters`. Override
        /// `exposedPrompts`.
        #[schemars(extend("examples" = [{"github": ["review_*"]}]))]
        rule "promptOverrides" | "prompt_overrides"
            as pub(crate) prompt_overrides: LocatedMap<Vec<Located<String>>>,

        /// Conditions for using tools. All conditions that mention a tool must hold.
        "when" as pub(crate) when: Vec<Located<RawPolicyCondition>>,

        /// Limits on calls of this agent. Override `limits.perAgent`.
        "limits" as pub(crate) limits: RawRateLimits,
    }
}

section! {
    /// A condition for using some tools.
    #[schemars(rename = "When")]
    pub(crate) struct RawPolicyCondition {
        /// Tools that the condition applies to: names, globs and `server:tool`. All by default.
        #[schemars(extend("examples" = [["github:delete_*"]]))]
        "tools" as pub(crate) tools: Vec<Located<String>>,

        /// Conditions on arguments, by JSON pointer. `*` matches every element of a list (`~2` is a
        /// literal `*`). A condition on a missing argument does not hold.
        #[schemars(extend("examples" = [{"/path": {"matches": "^/workspace/"}}, {"/files/*/path": {"matches": "^/workspace/"}}]))]
        "arguments" as pub(crate) arguments: LocatedMap<Located<RawArgument>>,

        /// Folders in which the workbench must have been started: a glob, or a list of globs. `*`
        /// matches within a folder, `**` any number of folders.
        #[schemars(with = "Option<OneOrMany>")]
        #[schemars(extend("examples" = ["~/work/**"]))]
        "workingDirectory" | "working_directory"
            as pub(crate) working_directory: Vec<Located<String>> => read_one_or_many,

        /// When the tools may be used.
        "time" as pub(crate) time: Located<RawTimeWindow>,
    }
}

section! {
    /// A condition on one argument. For a list, every element must meet it, and the list must not
    /// be empty.
    #[schemars(rename = "Argument")]
    pub(crate) struct RawArgument {
        /// Regular expression that must match part of the string.
        "matches" as pub(crate) matches: Located<String>,

        /// Regular expression that must not match any part of the string.
        #[schemars(extend("examples" = ["(^|/)\\.\\.(/|$)"]))]
        "notMatches" | "not_matches" as pub(crate) not_matches: Located<String>,

        /// Smallest allowed number.
        "min" as pub(crate) min: Located<Number>,

        /// Largest allowed number.
        "max" as pub(crate) max: Located<Number>,

        /// Allowed values.
        "oneOf" | "one_of" as pub(crate) one_of: Vec<Value>,
    }
}

section! {
    /// A time of day, on some days or every day.
    #[schemars(rename = "Time")]
    pub(crate) struct RawTimeWindow {
        /// Start and end in 24-hour time. If the end is before the start, the window passes
        /// midnight.
        #[schemars(extend("minItems" = 2, "maxItems" = 2, "examples" = [["09:00", "17:00"]]))]
        "between" as pub(crate) between: Vec<Located<String>>,

        /// Days on which the window starts: `mon`, `tue`, `wed`, `thu`, `fri`, `sat`, `sun`. All by
        /// default.
        #[schemars(extend("examples" = [["mon", "tue", "wed", "thu", "fri"]]))]
        "days" as pub(crate) days: Vec<Located<String>>,

        /// UTC offset of these times, such as `+02:00`. UTC by default.
        #[schemars(extend("examples" = ["+02:00"]))]
        "utcOffset" | "utc_offset" as pub(crate) utc_offset: Located<String>,
    }
}

section! {
    /// Access to tools and servers that no list mentions.
    #[schemars(inline)]
    pub(crate) struct RawDefaultPolicy in "`defaultPolicy`" {
        /// Allows tools that no list mentions. Default: `false` if there are `agentPolicies` or
        /// `exposedTools`, otherwise `true`.
        rule "allowUnknownTools" | "allow_unknown_tools" as pub(crate) allow_unknown_tools: Located<bool>,

        /// Allows servers that neither `allowedServers` nor a tool list mentions. Default: the
        /// value of `allowUnknownTools`.
        rule "allowUnknownServers" | "allow_unknown_servers" as pub(crate) allow_unknown_servers: Located<bool>,

        /// Not supported: it does not define which tools an agent loses. Ignored with a warning.
        "maxToolsPerAgent" | "max_tools_per_agent" as pub(crate) max_tools_per_agent: Located<u64>,

        /// Requires the user's confirmation for each call of a tool that no list mentions.
        #[schemars(extend("default" = false))]
        "requireExplicitApproval" | "require_explicit_approval"
            as pub(crate) require_explicit_approval: Located<bool>,
    }
}

pub(crate) enum RawConfirmation {
    Dangerous(bool),
    /// Calls of dangerous tools and of these tools need confirmation.
    AlsoFor(Vec<Located<String>>),
}

/// Reads a list of conditions, or a single one.
impl FromNode for Vec<Located<RawPolicyCondition>> {
    const SECTION: Option<&'static SectionSpec> = RawPolicyCondition::SECTION;

    fn from_node(node: &Node<'_>, reader: &mut ConfigReader<'_>) -> Option<Self> {
        let nodes = match node.value.as_array() {
            Some(_) => node.elements(),
            None => vec![node.clone()],
        };
        Some(nodes.iter().filter_map(|node| FromNode::from_node(node, reader)).collect())
    }
}

impl FromNode for RawConfirmation {
    fn from_node(node: &Node<'_>, reader: &mut ConfigReader<'_>) -> Option<Self> {
        if node.value.as_boolean_lit().is_some() {
            return reader.read_bool(node).map(|flag| Self::Dangerous(flag.value));
        }
        if node.value.as_array().is_none() {
            reader.report_type_mismatch(node, "`true`, `false`, or an array of tools", None);
            return None;
        }
        reader.read_strings(node).map(Self::AlsoFor)
    }
}

impl JsonSchema for RawConfirmation {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Confirmation".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["boolean", "array"], "items": { "type": "string" } })
    }
}
