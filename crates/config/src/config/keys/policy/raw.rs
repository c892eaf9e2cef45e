//! The shape of what is said of agents and tools.
//!
//! Every key is understood in `camelCase` and in `snake_case`, as other programs write it.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Number, Value};

use crate::config::keys::bounds::RawRates;
use crate::config::syntax::document::{Node, Spot};
use crate::config::syntax::entries::{Entries, entries, named, object};
use crate::config::syntax::reader::{Fields, Located, Reader};

/// What one agent may use.
#[derive(JsonSchema)]
#[schemars(
    rename_all = "camelCase",
    deny_unknown_fields,
    rename = "AgentPolicy",
    extend("patternProperties" = {"^(allowed_servers|tool_overrides)$": {"description": "The same in snake_case."}})
)]
pub(crate) struct RawAgentPolicy {
    /// The agents whose permissions it takes over: a name, or a list of names. What it says itself
    /// of servers, or of the tools of one server, replaces what they say of that; the conditions of
    /// all apply.
    #[schemars(with = "Option<OneOrMore>")]
    #[schemars(extend("examples" = ["reader"]))]
    pub(crate) extends: Option<Vec<Located<String>>>,

    /// The servers that it may use: names and globs. All if there is no such list.
    #[schemars(extend("examples" = [["github", "filesystem"]]))]
    pub(crate) allowed_servers: Option<Vec<Located<String>>>,

    /// The tools of single servers that it may use, in place of `exposedTools`: names, globs, and
    /// `server:tool`.
    #[schemars(extend("examples" = [{"github": ["get_*", "create_issue"]}]))]
    pub(crate) tool_overrides: Option<Entries<Vec<Located<String>>>>,

    /// What has to hold before some tools may be used. All that name a tool must hold.
    pub(crate) when: Option<Vec<RawWhen>>,

    /// How much it may ask, in place of the `perAgent` of the top-level `limits`.
    pub(crate) limits: Option<RawRates>,
}

/// What has to hold before some tools may be used.
#[derive(JsonSchema)]
#[schemars(
    rename_all = "camelCase",
    deny_unknown_fields,
    rename = "When",
    extend("patternProperties" = {"^working_directory$": {"description": "The same in snake_case."}})
)]
pub(crate) struct RawWhen {
    /// The tools that it is about: names, globs, and `server:tool`. All if there is no such list.
    #[schemars(extend("examples" = [["github:delete_*"]]))]
    pub(crate) tools: Option<Vec<Located<String>>>,

    /// What arguments must be like, by JSON pointer, in which `*` means every element of a list
    /// (and `~2` a key that is called `*`). One that is not there is not like it.
    #[schemars(extend("examples" = [{"/path": {"matches": "^/workspace/"}}, {"/files/*/path": {"matches": "^/workspace/"}}]))]
    pub(crate) arguments: Option<Entries<RawArgument>>,

    /// Where the workbench must have been started: a glob, or a list of globs. `*` matches within a
    /// folder, `**` any number of folders.
    #[schemars(with = "Option<OneOrMore>")]
    #[schemars(extend("examples" = ["~/work/**"]))]
    pub(crate) working_directory: Option<Vec<Located<String>>>,

    /// When the tools are there.
    pub(crate) time: Option<RawTime>,

    /// Where it stands.
    #[schemars(skip)]
    pub(crate) spot: Spot,
}

/// What one argument must be like. Of a list, all that is in it must be, and something must be in
/// it.
#[derive(JsonSchema)]
#[schemars(
    rename_all = "camelCase",
    deny_unknown_fields,
    rename = "Argument",
    extend("patternProperties" = {"^(not_matches|one_of)$": {"description": "The same in snake_case."}})
)]
pub(crate) struct RawArgument {
    /// A regular expression that must match somewhere in the text.
    pub(crate) matches: Option<Located<String>>,

    /// A regular expression that must match nowhere in it.
    #[schemars(extend("examples" = ["(^|/)\\.\\.(/|$)"]))]
    pub(crate) not_matches: Option<Located<String>>,

    /// The least number.
    pub(crate) min: Option<Located<Number>>,

    /// The greatest number.
    pub(crate) max: Option<Located<Number>>,

    /// The only values it may have.
    pub(crate) one_of: Option<Vec<Value>>,

    /// Where it stands.
    #[schemars(skip)]
    pub(crate) spot: Spot,
}

/// A part of the day, or of some days.
#[derive(JsonSchema)]
#[schemars(
    rename_all = "camelCase",
    deny_unknown_fields,
    rename = "Time",
    extend("patternProperties" = {"^utc_offset$": {"description": "The same in snake_case."}})
)]
pub(crate) struct RawTime {
    /// From when to when, on a clock of 24 hours; past midnight, if the second is not the later.
    #[schemars(extend("minItems" = 2, "maxItems" = 2, "examples" = [["09:00", "17:00"]]))]
    pub(crate) between: Option<Vec<Located<String>>>,

    /// The days it begins on: `mon`, `tue`, `wed`, `thu`, `fri`, `sat`, `sun`. All by default.
    #[schemars(extend("examples" = [["mon", "tue", "wed", "thu", "fri"]]))]
    pub(crate) days: Option<Vec<Located<String>>>,

    /// How far that clock is from UTC, such as `+02:00`. UTC by default.
    #[schemars(extend("examples" = ["+02:00"]))]
    pub(crate) utc_offset: Option<Located<String>>,

    /// Where it stands.
    #[schemars(skip)]
    pub(crate) spot: Spot,
}

/// What holds where no list speaks of a tool.
#[derive(JsonSchema)]
#[schemars(
    rename_all = "camelCase",
    deny_unknown_fields,
    inline,
    extend("patternProperties" = {
        "^(allow_unknown_(tools|servers)|max_tools_per_agent|require_explicit_approval)$":
            {"description": "The same in snake_case."}
    })
)]
pub(crate) struct RawDefaultPolicy {
    /// Whether a tool may be used that no list speaks of. `false` by default where there are
    /// `agentPolicies` or `exposedTools`.
    pub(crate) allow_unknown_tools: Option<Located<bool>>,

    /// Whether a server is there that neither `allowedServers` nor a list of tools speaks of. The
    /// same as `allowUnknownTools` by default.
    pub(crate) allow_unknown_servers: Option<Located<bool>>,

    /// Not supported: which tools would go is not said. Has no effect.
    pub(crate) max_tools_per_agent: Option<Located<u64>>,

    /// Whether the user confirms each call of a tool that no list speaks of.
    #[schemars(extend("default" = false))]
    pub(crate) require_explicit_approval: Option<Located<bool>>,
}

/// Which calls the user confirms.
pub(crate) enum RawConfirmation {
    /// Those of dangerous tools, or none.
    Dangerous(bool),
    /// Those of dangerous tools and of these.
    Besides(Vec<Located<String>>),
}

/// A string, or a list of strings, for the schema.
struct OneOrMore;

impl RawAgentPolicy {
    pub(crate) fn read(fields: &mut Fields<'_>, reader: &mut Reader<'_>) -> Self {
        Self {
            extends: fields.take("extends").and_then(|node| one_or_more(&node, reader)),
            allowed_servers: fields
                .either("allowedServers", "allowed_servers", reader)
                .and_then(|node| reader.strings(&node)),
            tool_overrides: fields
                .either("toolOverrides", "tool_overrides", reader)
                .map(|node| tools(&node, reader)),
            when: fields.take("when").map(|node| whens(&node, reader)),
            limits: fields.take("limits").and_then(|node| object(&node, reader, RawRates::read)),
        }
    }
}

/// Reads lists of tools by the names of servers.
pub(crate) fn tools(node: &Node<'_>, reader: &mut Reader<'_>) -> Entries<Vec<Located<String>>> {
    entries(node, reader, |entry, reader| reader.strings(&entry.node))
}

/// Reads conditions: a list of them, or one alone.
fn whens(node: &Node<'_>, reader: &mut Reader<'_>) -> Vec<RawWhen> {
    let nodes = match node.value.as_array() {
        Some(_) => node.elements(),
        None => vec![node.clone()],
    };
    nodes.iter().filter_map(|node| object(node, reader, RawWhen::read)).collect()
}

impl RawWhen {
    pub(crate) fn read(fields: &mut Fields<'_>, reader: &mut Reader<'_>) -> Self {
        Self {
            tools: fields.take("tools").and_then(|node| reader.strings(&node)),
            arguments: fields.take("arguments").map(|node| named(&node, reader, RawArgument::read)),
            working_directory: fields
                .either("workingDirectory", "working_directory", reader)
                .and_then(|node| one_or_more(&node, reader)),
            time: fields.take("time").and_then(|node| object(&node, reader, RawTime::read)),
            spot: fields.spot().clone(),
        }
    }
}

impl RawArgument {
    pub(crate) fn read(fields: &mut Fields<'_>, reader: &mut Reader<'_>) -> Self {
        Self {
            matches: fields.take("matches").and_then(|node| reader.string(&node)),
            not_matches: fields
                .either("notMatches", "not_matches", reader)
                .and_then(|node| reader.string(&node)),
            min: fields.take("min").and_then(|node| reader.decimal(&node)),
            max: fields.take("max").and_then(|node| reader.decimal(&node)),
            one_of: fields.either("oneOf", "one_of", reader).and_then(|node| reader.values(&node)),
            spot: fields.spot().clone(),
        }
    }
}

impl RawTime {
    pub(crate) fn read(fields: &mut Fields<'_>, reader: &mut Reader<'_>) -> Self {
        Self {
            between: fields.take("between").and_then(|node| reader.strings(&node)),
            days: fields.take("days").and_then(|node| reader.strings(&node)),
            utc_offset: fields
                .either("utcOffset", "utc_offset", reader)
                .and_then(|node| reader.string(&node)),
            spot: fields.spot().clone(),
        }
    }
}

impl RawDefaultPolicy {
    pub(crate) fn read(fields: &mut Fields<'_>, reader: &mut Reader<'_>) -> Self {
        Self {
            allow_unknown_tools: fields
                .either("allowUnknownTools", "allow_unknown_tools", reader)
                .and_then(|node| reader.boolean(&node)),
            allow_unknown_servers: fields
                .either("allowUnknownServers", "allow_unknown_servers", reader)
                .and_then(|node| reader.boolean(&node)),
            max_tools_per_agent: fields
                .either("maxToolsPerAgent", "max_tools_per_agent", reader)
                .and_then(|node| reader.number(&node)),
            require_explicit_approval: fields
                .either("requireExplicitApproval", "require_explicit_approval", reader)
                .and_then(|node| reader.boolean(&node)),
        }
    }
}

impl RawConfirmation {
    pub(crate) fn read(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        if node.value.as_boolean_lit().is_some() {
            return reader.boolean(node).map(|flag| Self::Dangerous(flag.value));
        }
        if node.value.as_array().is_none() {
            reader.mismatch(node, "`true`, `false`, or an array of tools", None);
            return None;
        }
        reader.strings(node).map(Self::Besides)
    }
}

/// Reads a string, or an array of strings.
fn one_or_more(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Vec<Located<String>>> {
    if node.value.as_string_lit().is_some() {
        return reader.string(node).map(|text| vec![text]);
    }
    reader.strings(node)
}

impl JsonSchema for OneOrMore {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "OneOrMore".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "array"], "items": { "type": "string" } })
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
