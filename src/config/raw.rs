//! The shape of the file: one `Raw…` type for each object, which makes the JSON Schema and says
//! which keys there are.
//!
//! `category` has what is said of single tools. `read` takes the keys, the checker destructures the result; a key that is missing in either
//! does not compile or fails the schema test. Doc comments here are the schema's descriptions.

use std::borrow::Cow;
use std::collections::BTreeMap;

use jsonc_parser::ast::Value;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::config::ToolMode;
use crate::config::audit::{RawAudit, RawTelemetry};
use crate::config::auth::RawAuth;
use crate::config::bounds::{RawCache, RawLimits, RawRates};
use crate::config::clients::RawClient;
use crate::config::document::Node;
use crate::config::foreign::Foreign;
use crate::config::http::RawHttp;
use crate::config::limits;
use crate::config::policy::raw::{
    self as policy, RawAgentPolicy, RawConfirmation, RawDefaultPolicy,
};
use crate::config::raw::category::{RawCategory, RawOverride};
use crate::config::reader::{Entry, Fields, Located, Reader, did_you_mean, listed};
use crate::config::tailor::rules::RawTaskRules;
use crate::name::MIN_NAME_LIMIT;

pub(super) mod category;
mod misplaced;

/// The configuration of MCP Workbench: toolboxes of MCP servers that an agent opens when it wants
/// them.
///
/// Comments and trailing commas are allowed. `${NAME}` and `${NAME:-default}` in any string are
/// replaced by environment variables. Relative paths start at the folder of this file.
#[derive(Default, JsonSchema)]
#[schemars(
    rename_all = "camelCase",
    deny_unknown_fields,
    title = "MCP Workbench configuration",
    extend("anyOf" = [{"required": ["toolboxes"]}, {"required": ["mcpServers"]}]),
    extend("patternProperties" = {
        "^(agent_policies|exposed_tools|default_policy|dangerous_tools|require_confirmation|task_based_tool_selection)$":
            {"description": "The same in snake_case."}
    })
)]
pub(super) struct RawConfig {
    /// Where editors find this schema.
    #[schemars(rename = "$schema")]
    #[expect(dead_code, reason = "it is for editors alone")]
    pub(super) schema: Option<Located<String>>,

    /// How toolboxes are presented to agents.
    #[schemars(extend("default" = "dynamic"))]
    pub(super) tool_mode: Option<Located<RawToolMode>>,

    /// The longest name a registered tool may have, in bytes. Clients put their own prefix before
    /// it and refuse names above 64.
    #[schemars(range(min = MIN_NAME_LIMIT, max = limits::MAX_NAME_LIMIT))]
    #[schemars(extend("default" = limits::DEFAULT_NAME_LIMIT))]
    pub(super) max_tool_name_length: Option<Located<u64>>,

    /// Bounds on what passes through.
    pub(super) limits: Option<RawLimits>,

    /// Bounds on what agents may cost over HTTP.
    pub(super) http: Option<RawHttp>,

    /// How long answers of tools hold that only read.
    pub(super) cache: Option<RawCache>,

    /// What is to be assumed of clients' programs, by the names that they give themselves, or by
    /// the first words of those; `*` means any client.
    pub(super) clients: Option<Entries<RawClient>>,

    /// Records every call of a tool in a file.
    pub(super) audit: Option<RawAudit>,

    /// Tells others of every call.
    pub(super) telemetry: Option<RawTelemetry>,
    /// Who may ask over HTTP.
    pub(super) auth: Option<Located<RawAuth>>,

    /// Toolboxes by name: each a described set of servers that is opened as one.
    pub(super) toolboxes: Option<Entries<RawToolbox>>,

    /// Servers as any MCP client writes them; each becomes a toolbox of its own name, but those
    /// that `categories` divide.
    pub(super) mcp_servers: Option<Entries<RawServer>>,

    /// Toolboxes by name that have some of the tools of one server in `mcpServers`.
    pub(super) categories: Option<Entries<RawCategory>>,

    /// Which tools and resources are active from the start in `activate` mode: globs over
    /// `<namespace>_<name>`.
    #[schemars(extend("examples" = [["notes_*", "clock_now"]]))]
    pub(super) active_toolsets: Option<Vec<Located<String>>>,

    /// Which tools which task wants, for `mcp-workbench tailor`; nothing is served by it.
    pub(super) task_based_tool_selection: Option<RawTaskRules>,
    /// What single agents may use, by the names that the command line or their tokens give them.
    pub(super) agent_policies: Option<Entries<RawAgentPolicy>>,

    /// The tools of single servers that an agent may use of which `agentPolicies` says nothing
    /// else: names, globs, and `server:tool`.
    #[schemars(extend("examples" = [{"github": ["get_*", "create_issue"]}]))]
    pub(super) exposed_tools: Option<Entries<Vec<Located<String>>>>,

    /// What holds where no list speaks of a tool.
    pub(super) default_policy: Option<RawDefaultPolicy>,

    /// Tools of which the user confirms each call: names, globs, `server:tool`, and the word
    /// `destructiveHint` for whatever its server says is destructive.
    #[schemars(extend("examples" = [["github:delete_*", "destructiveHint"]]))]
    pub(super) dangerous_tools: Option<Vec<Located<String>>>,

    /// Further tools of which the user confirms each call; or `false`: nobody is asked, and
    /// dangerous tools are only marked in the audit log.
    #[schemars(extend("default" = true))]
    pub(super) require_confirmation: Option<RawConfirmation>,
}

// No doc comment: the schema would say the same twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(rename_all = "camelCase", inline)]
pub(super) enum RawToolMode {
    /// Opening a toolbox registers its tools in the agent's own tool list.
    Dynamic,
    /// Opening a toolbox returns its tools' definitions, and `use_tool` calls them. For clients
    /// that do not follow changes of their tool list.
    Proxy,
    /// The tools of all toolboxes are in the agent's tool list from the start, under their own
    /// names where those are unambiguous.
    Direct,
    /// `dynamic` for clients that are known to list again in time, `proxy` for the others.
    Auto,
    /// One tool, `toolman_activate`, switches tools and resources on and off; its description is
    /// the catalog of all there are.
    Activate,
    /// `get-modular-tools` gives the definitions of a group, `call-modular-tool` calls one of
    /// them. Groups are toolboxes.
    Modular,
}

/// A named, described set of servers that is opened as one.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields, rename = "Toolbox")]
pub(super) struct RawToolbox {
    /// What the toolbox is for. The agent reads this to decide whether to open it.
    #[schemars(required, length(min = 1))]
    #[schemars(extend("examples" = ["Files and version control of this project"]))]
    pub(super) description: Option<Located<String>>,

    /// The servers of the toolbox by name, as any MCP client writes them.
    #[schemars(required, extend("minProperties" = 1))]
    pub(super) mcp_servers: Option<Entries<RawServer>>,

    /// What goes before the names of its tools, resources and prompts in `activate` mode, with a
    /// `_` between; nothing if it is empty. The name of the toolbox by default.
    pub(super) namespace: Option<Located<String>>,
}

/// One MCP server: a child process that speaks on its standard input and output, or one that is
/// reached over HTTP.
///
/// Keys of other clients are understood where they mean something here, and else ignored with a
/// warning.
#[derive(Default, JsonSchema)]
#[schemars(rename_all = "camelCase", rename = "Server")]
pub(super) struct RawServer {
    /// The program: a name to find on `PATH`, or a path. A list is the program and its first
    /// arguments.
    #[schemars(with = "Option<CommandShape>")]
    #[schemars(extend("examples" = ["npx", "uvx", "./server.sh"]))]
    pub(super) command: Option<Located<Vec<String>>>,

    /// The arguments of the program.
    #[schemars(extend("examples" = [["-y", "@modelcontextprotocol/server-filesystem", "."]]))]
    pub(super) args: Option<Vec<Located<String>>>,

    /// Environment variables set for the server.
    #[schemars(extend("examples" = [{"GITHUB_TOKEN": "${GITHUB_TOKEN}"}]))]
    pub(super) env: Option<Entries<String>>,

    /// The folder the server starts in; the folder of this file by default.
    pub(super) cwd: Option<Located<String>>,

    /// The address of a server that is reached over HTTP, instead of a `command`.
    #[schemars(extend("examples" = ["https://example.com/mcp"]))]
    pub(super) url: Option<Located<String>>,

    /// What a server at a `url` is told with every request.
    #[schemars(extend("examples" = [{"Authorization": "Bearer ${TOKEN}"}]))]
    pub(super) headers: Option<Entries<Located<String>>>,

    /// Which tools the toolbox shows: exact names, globs such as `read_*`, and `!` before a glob
    /// to leave tools out. Only `!` globs mean all but those; an empty list means all.
    #[schemars(extend("examples" = [["read_*", "!write_*"]]))]
    pub(super) tool_filters: Option<Vec<Located<String>>>,

    /// What is to be different about single tools, by the server's names for them.
    pub(super) overrides: Option<Entries<RawOverride>>,

    /// How the server is reached: `stdio` with a `command`, `http` or `streamable-http` with a
    /// `url`. Need not be said.
    #[schemars(extend("enum" = ["stdio", "http", "streamable-http", null]))]
    pub(super) transport: Option<Located<String>>,

    /// What the server is for. Describes the toolbox of a server in the top-level `mcpServers`.
    pub(super) description: Option<Located<String>>,

    /// What goes before the names of a server in the top-level `mcpServers` in `activate` mode,
    /// with a `_` between; nothing if it is empty. Its name by default.
    pub(super) namespace: Option<Located<String>>,

    /// Whether a server in the top-level `mcpServers` that `categories` divide is shown as a whole
    /// too.
    #[schemars(extend("default" = false))]
    pub(super) show_server: Option<Located<bool>>,

    /// Leaves the server out.
    #[schemars(extend("default" = false))]
    pub(super) disabled: Option<Located<bool>>,

    /// How long the server may take from its start to its tool list, in milliseconds.
    #[schemars(range(min = 1, max = limits::MAX_TIMEOUT_MS))]
    #[schemars(extend("default" = limits::DEFAULT_STARTUP_TIMEOUT_MS))]
    pub(super) startup_timeout_ms: Option<Located<u64>>,

    /// How long a call may go without an answer or progress, in milliseconds.
    #[schemars(range(min = 1, max = limits::MAX_TIMEOUT_MS))]
    #[schemars(extend("default" = limits::DEFAULT_CALL_TIMEOUT_MS))]
    pub(super) call_timeout_ms: Option<Located<u64>>,

    /// How long the server may be unused before it is stopped, in milliseconds; 0 means never.
    #[schemars(range(min = 0, max = limits::MAX_TIMEOUT_MS))]
    #[schemars(extend("default" = 0))]
    pub(super) idle_timeout_ms: Option<Located<u64>>,

    /// Whether the server gets every environment variable of the workbench, not only the few that
    /// programs need to run.
    #[schemars(extend("default" = false))]
    pub(super) inherit_env: Option<Located<bool>>,

    /// Whether entries that start the same program in the same way share one process.
    #[schemars(extend("default" = true))]
    pub(super) shared: Option<Located<bool>>,

    /// Whether the server is started before anybody asks for it. It is not stopped when idle, and
    /// started again when it has died.
    #[schemars(extend("default" = false))]
    pub(super) eager: Option<Located<bool>>,

    /// Who shares a connection to the server: `shared`, all agents, until it asks one of them
    /// something; `session`, nobody, so that each session has a process of its own.
    #[schemars(extend("enum" = ["shared", "session", null], "default" = "shared"))]
    pub(super) isolation: Option<Located<String>>,

    /// Which revisions of MCP the server is spoken to in: `legacy` (2024-11-05 to 2025-11-25),
    /// `modern` (2026-07-28), or `auto` to find out.
    #[schemars(extend("enum" = ["auto", "legacy", "modern", null], "default" = "auto"))]
    pub(super) protocol: Option<Located<String>>,

    /// Whether the server is told the agent's roots when it asks. Some servers let an agent touch
    /// what its roots name, whatever their arguments say.
    #[schemars(extend("default" = false))]
    pub(super) roots: Option<Located<bool>>,

    /// How much may be asked of this server, by all agents together, in place of `perServer` in the
    /// top-level `limits`.
    pub(super) limits: Option<RawRates>,

    /// How long answers of this server's tools hold that only read, in place of the top-level
    /// `cache`; with `maxBytes`, it has a cache of its own.
    pub(super) cache: Option<RawCache>,

    /// What other clients write beside.
    #[schemars(skip)]
    pub(super) foreign: Foreign,
}

/// How `command` may be written, for the schema.
struct CommandShape;

/// An object with the user's own names as keys, in the order of the file.
pub(super) struct Entries<T>(pub(super) Vec<(Located<String>, T)>);

impl<T> Default for Entries<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

// === reading ===

impl RawConfig {
    pub(super) fn read(fields: &mut Fields<'_>, reader: &mut Reader<'_>) -> Self {
        Self {
            schema: fields.take("$schema").and_then(|node| reader.string(&node)),
            tool_mode: fields.take("toolMode").and_then(|node| RawToolMode::read(&node, reader)),
            max_tool_name_length: fields
                .take("maxToolNameLength")
                .and_then(|node| reader.number(&node)),
            limits: fields.take("limits").and_then(|node| object(&node, reader, RawLimits::read)),
            http: fields.take("http").and_then(|node| object(&node, reader, RawHttp::read)),
            cache: fields.take("cache").and_then(|node| object(&node, reader, RawCache::read)),
            clients: fields.take("clients").map(|node| named(&node, reader, RawClient::read)),
            audit: fields.take("audit").and_then(|node| object(&node, reader, RawAudit::read)),
            telemetry: fields
                .take("telemetry")
                .and_then(|node| object(&node, reader, RawTelemetry::read)),
            auth: fields.take("auth").and_then(|node| located(&node, reader, RawAuth::read)),
            toolboxes: fields.take("toolboxes").map(|node| named(&node, reader, RawToolbox::read)),
            mcp_servers: fields.take("mcpServers").map(|node| servers(&node, reader)),
            categories: fields
                .take("categories")
                .map(|node| named(&node, reader, RawCategory::read)),
            active_toolsets: fields.take("activeToolsets").and_then(|node| reader.strings(&node)),
            task_based_tool_selection: fields
                .either("taskBasedToolSelection", "task_based_tool_selection", reader)
                .and_then(|node| object(&node, reader, RawTaskRules::read)),
            agent_policies: fields
                .either("agentPolicies", "agent_policies", reader)
                .map(|node| named(&node, reader, RawAgentPolicy::read)),
            exposed_tools: fields
                .either("exposedTools", "exposed_tools", reader)
                .map(|node| policy::tools(&node, reader)),
            default_policy: fields
                .either("defaultPolicy", "default_policy", reader)
                .and_then(|node| object(&node, reader, RawDefaultPolicy::read)),
            dangerous_tools: fields
                .either("dangerousTools", "dangerous_tools", reader)
                .and_then(|node| reader.strings(&node)),
            require_confirmation: fields
                .either("requireConfirmation", "require_confirmation", reader)
                .and_then(|node| RawConfirmation::read(&node, reader)),
        }
    }
}

impl RawToolMode {
    /// Every mode.
    pub(super) const ALL: [Self; 6] =
        [Self::Dynamic, Self::Proxy, Self::Direct, Self::Auto, Self::Activate, Self::Modular];

    /// What it is checked to.
    pub(super) fn checked(self) -> ToolMode {
        match self {
            Self::Dynamic => ToolMode::Dynamic,
            Self::Proxy => ToolMode::Proxy,
            Self::Direct => ToolMode::Direct,
            Self::Auto => ToolMode::Auto,
            Self::Activate => ToolMode::Activate,
            Self::Modular => ToolMode::Modular,
        }
    }

    fn read(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Located<Self>> {
        let word = reader.string(node)?;
        let names = Self::ALL.map(|mode| mode.checked().as_str());
        let index = names.iter().position(|name| *name == word.value);
        let Some(mode) = index.and_then(|index| Self::ALL.get(index)) else {
            let expected = listed(&names, "or");
            reader.error(
                &word.spot,
                format!("expected {expected}, found `{}`", word.value),
                did_you_mean(&word.value, &names),
            );
            return None;
        };
        Some(Located { value: *mode, spot: word.spot })
    }
}

impl RawToolbox {
    pub(super) fn read(fields: &mut Fields<'_>, reader: &mut Reader<'_>) -> Self {
        Self {
            description: fields.take("description").and_then(|node| reader.string(&node)),
            mcp_servers: fields.take("mcpServers").map(|node| servers(&node, reader)),
            namespace: fields.take("namespace").and_then(|node| reader.string(&node)),
        }
    }
}

impl RawServer {
    /// Whether it is switched off.
    pub(super) fn is_off(&self) -> bool {
        let (disabled, enabled) = (&self.disabled, &self.foreign.enabled);
        disabled.as_ref().is_some_and(|disabled| disabled.value)
            || enabled.as_ref().is_some_and(|enabled| !enabled.value)
    }

    /// Reads one server block; in one that is switched off, variables need not be set.
    pub(super) fn read(fields: &mut Fields<'_>, reader: &mut Reader<'_>) -> Self {
        let disabled = fields.take("disabled").and_then(|node| reader.boolean(&node));
        let enabled = fields
            .take_all(|key| key == "enabled")
            .pop()
            .and_then(|entry| reader.boolean(&entry.node));
        let off = disabled.as_ref().is_some_and(|disabled| disabled.value)
            || enabled.as_ref().is_some_and(|enabled| !enabled.value);
        let call_timeout_ms = fields.take("callTimeoutMs").and_then(|node| reader.number(&node));
        reader.switched(off, |reader| Self {
            command: fields.take("command").and_then(|node| command(&node, reader)),
            args: fields.take("args").and_then(|node| reader.strings(&node)),
            env: fields.take("env").map(|node| environment(&node, reader)),
            cwd: fields.take("cwd").and_then(|node| reader.string(&node)),
            url: fields.take("url").and_then(|node| reader.string(&node)),
            headers: fields.take("headers").map(|node| named_texts(&node, reader)),
            tool_filters: fields.take("toolFilters").and_then(|node| reader.strings(&node)),
            overrides: fields.take("overrides").map(|node| named(&node, reader, RawOverride::read)),
            transport: fields.take("transport").and_then(|node| reader.string(&node)),
            description: fields.take("description").and_then(|node| reader.string(&node)),
            namespace: fields.take("namespace").and_then(|node| reader.string(&node)),
            show_server: fields.take("showServer").and_then(|node| reader.boolean(&node)),
            disabled,
            startup_timeout_ms: fields
                .take("startupTimeoutMs")
                .and_then(|node| reader.number(&node)),
            idle_timeout_ms: fields.take("idleTimeoutMs").and_then(|node| reader.number(&node)),
            inherit_env: fields.take("inheritEnv").and_then(|node| reader.boolean(&node)),
            shared: fields.take("shared").and_then(|node| reader.boolean(&node)),
            eager: fields.take("eager").and_then(|node| reader.boolean(&node)),
            isolation: fields.take("isolation").and_then(|node| reader.string(&node)),
            protocol: fields.take("protocol").and_then(|node| reader.string(&node)),
            roots: fields.take("roots").and_then(|node| reader.boolean(&node)),
            limits: fields.take("limits").and_then(|node| object(&node, reader, RawRates::read)),
            cache: fields.take("cache").and_then(|node| object(&node, reader, RawCache::read)),
            foreign: Foreign::read(fields, reader, enabled, call_timeout_ms.as_ref()),
            call_timeout_ms,
        })
    }
}

/// Reads the object of servers under `mcpServers`; what it does not know is not its business.
pub(super) fn servers(node: &Node<'_>, reader: &mut Reader<'_>) -> Entries<RawServer> {
    entries(node, reader, |entry, reader| {
        let mut fields = reader.fields(&entry.node)?;
        Some(RawServer::read(&mut fields, reader))
    })
}

pub(super) fn named<T>(
    node: &Node<'_>,
    reader: &mut Reader<'_>,
    read: impl Fn(&mut Fields<'_>, &mut Reader<'_>) -> T,
) -> Entries<T> {
    entries(node, reader, |entry, reader| object(&entry.node, reader, &read))
}

pub(super) fn entries<T>(
    node: &Node<'_>,
    reader: &mut Reader<'_>,
    read: impl Fn(&Entry<'_>, &mut Reader<'_>) -> Option<T>,
) -> Entries<T> {
    let found = reader.named_entries(node);
    let present = found.into_iter().filter(|entry| !entry.node.is_null());
    let read = present.filter_map(|entry| Some((entry.key.clone(), read(&entry, reader)?)));
    Entries(read.collect())
}

/// Reads an object of ours: a key that nobody asked for is an error.
pub(super) fn object<T>(
    node: &Node<'_>,
    reader: &mut Reader<'_>,
    read: impl Fn(&mut Fields<'_>, &mut Reader<'_>) -> T,
) -> Option<T> {
    let mut fields = reader.fields(node)?;
    let value = read(&mut fields, reader);
    fields.refuse_unknown(reader, misplaced::belongs_elsewhere);
    Some(value)
}

/// The same, with where it stands.
fn located<T>(
    node: &Node<'_>,
    reader: &mut Reader<'_>,
    read: impl Fn(&mut Fields<'_>, &mut Reader<'_>) -> T,
) -> Option<Located<T>> {
    let value = object(node, reader, read)?;
    Some(Located { value, spot: node.spot.clone() })
}

fn command(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Located<Vec<String>>> {
    let value = if let Value::Array(_) = node.value {
        let words = reader.strings(node)?;
        words.into_iter().map(|word| word.value).collect()
    } else {
        vec![reader.string(node)?.value]
    };
    Some(Located { value, spot: node.spot.clone() })
}

/// Reads environment variables; a number or boolean is taken as it is written.
pub(super) fn environment(node: &Node<'_>, reader: &mut Reader<'_>) -> Entries<String> {
    entries(node, reader, |entry, reader| {
        let Entry { key, node } = entry;
        if key.value.is_empty() || key.value.contains(['=', '\0']) {
            let message = "the name of a variable may not be empty or contain `=` or NUL";
            reader.error(&key.spot, message, None);
            return None;
        }
        let written = match node.value {
            Value::NumberLit(literal) => literal.value.to_owned(),
            Value::BooleanLit(literal) => literal.value.to_string(),
            Value::StringLit(_) | Value::Object(_) | Value::Array(_) | Value::NullKeyword(_) => {
                return reader.string(node).map(|text| text.value);
            }
        };
        reader.warn(
            &node.spot,
            "taken as a string",
            Some("put the value in double quotes".to_owned()),
        );
        Some(written)
    })
}

/// Reads an object of texts by names of the user's own.
pub(super) fn named_texts(node: &Node<'_>, reader: &mut Reader<'_>) -> Entries<Located<String>> {
    entries(node, reader, |entry, reader| reader.string(&entry.node))
}

// === schema ===

impl<T: JsonSchema> JsonSchema for Located<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        T::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}

impl JsonSchema for CommandShape {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Command".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "array"], "items": { "type": "string" } })
    }
}

impl<T: JsonSchema> JsonSchema for Entries<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        BTreeMap::<String, T>::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let entry = generator.subschema_for::<T>();
        json_schema!({ "type": "object", "additionalProperties": entry })
    }
}
