//! The raw shape of the policy keys. Keys are accepted in `camelCase` and in `snake_case`.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Number, Value};

use crate::config::sections::limits::RawRateLimits;
use crate::config::syntax::document::Node;
use crate::config::syntax::objects::LocatedMap;
use crate::config::syntax::reader::{ConfigReader, Located};
use crate::config::syntax::section::{FromNode, OneOrMany, SectionSpec, read_one_or_many, section};

section! {
    /// The permissions of one agent.
    #[schemars(rename = "AgentPolicy")]
    pub(crate) struct RawAgentPolicy in "an agent, under `agentPolicies`" {
        /// The agents whose permissions it takes over: a name, or a list of names. What it says
        /// itself of servers, or of the tools of one server, replaces what they say of that; the
        /// conditions of all apply.
        #[schemars(with = "Option<OneOrMany>")]
        #[schemars(extend("examples" = ["reader"]))]
        "extends" as pub(crate) extends: Vec<Located<String>> => read_one_or_many,

        /// The servers that it may use: names and globs. All if there is no such list.
        #[schemars(extend("examples" = [["github", "filesystem"]]))]
        rule "allowedServers" | "allowed_servers" as pub(crate) allowed_servers: Vec<Located<String>>,

        /// The tools of single servers that it may use, in place of `exposedTools`: names, globs,
        /// and `server:tool`.
        #[schemars(extend("examples" = [{"github": ["get_*", "create_issue"]}]))]
        rule "toolOverrides" | "tool_overrides" as pub(crate) tool_overrides: LocatedMap<Vec<Located<String>>>,

        /// The resources and templates of single servers that it may use, in place of
        /// `exposedResources`, written like a server's `resourceFilters`. All if there is no list.
        #[schemars(extend("examples" = [{"filesystem": ["file:///docs/*", "!*.env"]}]))]
        rule "resourceOverrides" | "resource_overrides"
            as pub(crate) resource_overrides: LocatedMap<Vec<Located<String>>>,

        /// The prompts of single servers that it may use, in place of `exposedPrompts`, written like
        /// a server's `promptFilters`. All if there is no list.
        #[schemars(extend("examples" = [{"github": ["review_*"]}]))]
        rule "promptOverrides" | "prompt_overrides"
            as pub(crate) prompt_overrides: LocatedMap<Vec<Located<String>>>,

        /// The conditions for using some tools. All that name a tool must hold.
        "when" as pub(crate) when: Vec<Located<RawPolicyCondition>>,

        /// How much it may ask, in place of the `perAgent` of the top-level `limits`.
        "limits" as pub(crate) limits: RawRateLimits,
    }
}

section! {
    /// A condition that must hold before some tools may be used.
    #[schemars(rename = "When")]
    pub(crate) struct RawPolicyCondition {
        /// The tools that it is about: names, globs, and `server:tool`. All if there is no such
        /// list.
        #[schemars(extend("examples" = [["github:delete_*"]]))]
        "tools" as pub(crate) tools: Vec<Located<String>>,

        /// The conditions on arguments, by JSON pointer, in which `*` means every element of a list
        /// (and `~2` a key that is called `*`). One on an argument that is not there does not hold.
        #[schemars(extend("examples" = [{"/path": {"matches": "^/workspace/"}}, {"/files/*/path": {"matches": "^/workspace/"}}]))]
        "arguments" as pub(crate) arguments: LocatedMap<Located<RawArgument>>,

        /// Where the workbench must have been started: a glob, or a list of globs. `*` matches
        /// within a folder, `**` any number of folders.
        #[schemars(with = "Option<OneOrMany>")]
        #[schemars(extend("examples" = ["~/work/**"]))]
        "workingDirectory" | "working_directory"
            as pub(crate) working_directory: Vec<Located<String>> => read_one_or_many,

        /// When the tools are there.
        "time" as pub(crate) time: Located<RawTimeWindow>,
    }
}

section! {
    /// A condition on one argument. Of a list, all that is in it must meet it, and something must
    /// be in it.
    #[schemars(rename = "Argument")]
    pub(crate) struct RawArgument {
        /// A regular expression that must match somewhere in the text.
        "matches" as pub(crate) matches: Located<String>,

        /// A regular expression that must match nowhere in it.
        #[schemars(extend("examples" = ["(^|/)\\.\\.(/|$)"]))]
        "notMatches" | "not_matches" as pub(crate) not_matches: Located<String>,

        /// The least number.
        "min" as pub(crate) min: Located<Number>,

        /// The greatest number.
        "max" as pub(crate) max: Located<Number>,

        /// The only values it may have.
        "oneOf" | "one_of" as pub(crate) one_of: Vec<Value>,
    }
}

section! {
    /// A part of the day, or of some days.
    #[schemars(rename = "Time")]
    pub(crate) struct RawTimeWindow {
        /// From when to when, on a clock of 24 hours; past midnight, if the second is not the
        /// later.
        #[schemars(extend("minItems" = 2, "maxItems" = 2, "examples" = [["09:00", "17:00"]]))]
        "between" as pub(crate) between: Vec<Located<String>>,

        /// The days it begins on: `mon`, `tue`, `wed`, `thu`, `fri`, `sat`, `sun`. All by default.
        #[schemars(extend("examples" = [["mon", "tue", "wed", "thu", "fri"]]))]
        "days" as pub(crate) days: Vec<Located<String>>,

        /// How far that clock is from UTC, such as `+02:00`. UTC by default.
        #[schemars(extend("examples" = ["+02:00"]))]
        "utcOffset" | "utc_offset" as pub(crate) utc_offset: Located<String>,
    }
}

section! {
    /// The rules for tools and servers that no list speaks of.
    #[schemars(inline)]
    pub(crate) struct RawDefaultPolicy in "`defaultPolicy`" {
        /// Allows tools that no list speaks of. `false` by default where there are `agentPolicies`
        /// or `exposedTools`.
        rule "allowUnknownTools" | "allow_unknown_tools" as pub(crate) allow_unknown_tools: Located<bool>,

        /// Allows servers that neither `allowedServers` nor a list of tools speaks of. The same as
        /// `allowUnknownTools` by default.
        rule "allowUnknownServers" | "allow_unknown_servers" as pub(crate) allow_unknown_servers: Located<bool>,

        /// Not supported: which tools would go is not said. Has no effect.
        "maxToolsPerAgent" | "max_tools_per_agent" as pub(crate) max_tools_per_agent: Located<u64>,

        /// Asks the user to confirm each call of a tool that no list speaks of.
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
