//! The shape of the file: one `Raw…` type for each object, which makes the JSON Schema and says
//! which keys there are.
//!
//! `server` is one server's block, `category` what is said of single tools. `read` takes the keys, the
//! checker destructures the result; a key that is missing in either does not compile or fails the
//! schema test. Doc comments here are the schema's descriptions.

use schemars::JsonSchema;

use crate::config::ToolMode;
use crate::config::keys::audit::{RawAudit, RawTelemetry};
use crate::config::keys::auth::raw::RawAuth;
use crate::config::keys::bounds::{RawCache, RawLimits};
use crate::config::keys::clients::RawClient;
use crate::config::keys::http::RawHttp;
use crate::config::keys::limits;
use crate::config::keys::macros::raw::RawMacro;
use crate::config::keys::navigator::RawNavigator;
use crate::config::keys::policy::raw::{
    self as policy, RawAgentPolicy, RawConfirmation, RawDefaultPolicy,
};
use crate::config::keys::raw::category::RawCategory;
use crate::config::keys::search::RawSearch;
use crate::config::keys::task_rules::RawTaskRules;
use crate::config::syntax::document::Node;
use crate::config::syntax::entries::{Entries, located, named, object};
use crate::config::syntax::reader::{Fields, Located, Reader, did_you_mean, listed};
use crate::name::MIN_NAME_LIMIT;

pub mod category;
mod server;

pub use server::RawServer;
pub(crate) use server::servers;

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
pub struct RawConfig {
    /// Where editors find this schema.
    #[schemars(rename = "$schema")]
    #[expect(dead_code, reason = "it is for editors alone")]
    pub(crate) schema: Option<Located<String>>,

    /// How toolboxes are presented to agents.
    #[schemars(extend("default" = "auto"))]
    pub(crate) tool_mode: Option<Located<RawToolMode>>,

    /// The longest name a registered tool may have, in bytes. Clients put their own prefix before
    /// it and refuse names above 64.
    #[schemars(range(min = MIN_NAME_LIMIT, max = limits::MAX_NAME_LIMIT))]
    #[schemars(extend("default" = limits::DEFAULT_NAME_LIMIT))]
    pub(crate) max_tool_name_length: Option<Located<u64>>,

    /// Whether tools can be searched for: `true` offers `search_tools` in `dynamic`, `proxy` and
    /// `auto` mode too.
    pub(crate) search: Option<RawSearch>,

    /// How `execute_task` finds its way, in `navigate` mode.
    pub(crate) navigator: Option<RawNavigator>,

    /// Bounds on what passes through.
    pub(crate) limits: Option<RawLimits>,

    /// Bounds on what agents may cost over HTTP.
    pub(crate) http: Option<RawHttp>,

    /// How long answers of tools hold that only read.
    pub(crate) cache: Option<RawCache>,

    /// What is to be assumed of clients' programs, by the names that they give themselves, or by
    /// the first words of those; `*` means any client.
    pub(crate) clients: Option<Entries<RawClient>>,

    /// Records every call of a tool in a file.
    pub(crate) audit: Option<RawAudit>,

    /// Tells others of every call.
    pub(crate) telemetry: Option<RawTelemetry>,
    /// Who may ask over HTTP.
    pub(crate) auth: Option<Located<RawAuth>>,

    /// Toolboxes by name: each a described set of servers that is opened as one.
    pub toolboxes: Option<Entries<RawToolbox>>,

    /// Servers as any MCP client writes them; each becomes a toolbox of its own name, but those
    /// that `categories` divide.
    pub mcp_servers: Option<Entries<RawServer>>,

    /// Toolboxes by name that have some of the tools of one server in `mcpServers`.
    pub categories: Option<Entries<RawCategory>>,

    /// Tools of ours by name: each makes several calls of other tools in one, and stands in a
    /// toolbox like any tool.
    pub(crate) macros: Option<Entries<RawMacro>>,

    /// Which tools and resources are active from the start in `activate` mode: globs over
    /// `<namespace>_<name>`.
    #[schemars(extend("examples" = [["notes_*", "clock_now"]]))]
    pub active_toolsets: Option<Vec<Located<String>>>,

    /// Which tools which task wants, for `mcp-workbench tailor`; nothing is served by it.
    pub(crate) task_based_tool_selection: Option<RawTaskRules>,
    /// What single agents may use, by the names that the command line or their tokens give them.
    pub(crate) agent_policies: Option<Entries<RawAgentPolicy>>,

    /// The tools of single servers that an agent may use of which `agentPolicies` says nothing
    /// else: names, globs, and `server:tool`.
    #[schemars(extend("examples" = [{"github": ["get_*", "create_issue"]}]))]
    pub(crate) exposed_tools: Option<Entries<Vec<Located<String>>>>,

    /// What holds where no list speaks of a tool.
    pub(crate) default_policy: Option<RawDefaultPolicy>,

    /// Tools of which the user confirms each call: names, globs, `server:tool`, and the word
    /// `destructiveHint` for whatever its server says is destructive.
    #[schemars(extend("examples" = [["github:delete_*", "destructiveHint"]]))]
    pub(crate) dangerous_tools: Option<Vec<Located<String>>>,

    /// Further tools of which the user confirms each call; or `false`: nobody is asked, and
    /// dangerous tools are only marked in the audit log.
    #[schemars(extend("default" = true))]
    pub(crate) require_confirmation: Option<RawConfirmation>,
}

// No doc comment: the schema would say the same twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(rename_all = "camelCase", inline)]
pub(crate) enum RawToolMode {
    /// Opening a toolbox registers its tools in the agent's own tool list.
    Dynamic,
    /// Opening a toolbox returns its tools' definitions, and `use_tool` calls them. For clients
    /// that do not follow changes of their tool list.
    Proxy,
    /// Of `dynamic` and `proxy` the one that works in the agent's client and costs less there, and
    /// both at once for a client that nobody knows.
    Auto,
    /// `search_tools` finds the tools that fit what is wanted, `use_tool` calls them.
    Search,
    /// `execute_task` takes a task in words, finds the tool for it and calls it.
    Navigate,
    /// The tools of all toolboxes are in the agent's tool list from the start, under their own
    /// names where those are unambiguous.
    Direct,
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
pub struct RawToolbox {
    /// What the toolbox is for. The agent reads this to decide whether to open it.
    #[schemars(required, length(min = 1))]
    #[schemars(extend("examples" = ["Files and version control of this project"]))]
    pub(crate) description: Option<Located<String>>,

    /// The servers of the toolbox by name, as any MCP client writes them.
    #[schemars(required, extend("minProperties" = 1))]
    pub mcp_servers: Option<Entries<RawServer>>,

    /// What goes before the names of its tools, resources and prompts in `activate` mode, with a
    /// `_` between; nothing if it is empty. The name of the toolbox by default.
    pub(crate) namespace: Option<Located<String>>,
}

// === reading ===

impl RawConfig {
    pub(crate) fn read(fields: &mut Fields<'_>, reader: &mut Reader<'_>) -> Self {
        Self {
            schema: fields.take("$schema").and_then(|node| reader.string(&node)),
            tool_mode: fields.take("toolMode").and_then(|node| RawToolMode::read(&node, reader)),
            max_tool_name_length: fields
                .take("maxToolNameLength")
                .and_then(|node| reader.number(&node)),
            search: fields.take("search").and_then(|node| RawSearch::read(&node, reader)),
            navigator: fields
                .take("navigator")
                .and_then(|node| object(&node, reader, RawNavigator::read)),
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
            macros: fields.take("macros").map(|node| named(&node, reader, RawMacro::read)),
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
    pub(crate) const ALL: [Self; 8] = [
        Self::Dynamic,
        Self::Proxy,
        Self::Auto,
        Self::Search,
        Self::Navigate,
        Self::Direct,
        Self::Activate,
        Self::Modular,
    ];

    /// What it is checked to.
    pub(crate) fn checked(self) -> ToolMode {
        match self {
            Self::Dynamic => ToolMode::Dynamic,
            Self::Proxy => ToolMode::Proxy,
            Self::Auto => ToolMode::Auto,
            Self::Search => ToolMode::Search,
            Self::Navigate => ToolMode::Navigate,
            Self::Direct => ToolMode::Direct,
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
    pub(crate) fn read(fields: &mut Fields<'_>, reader: &mut Reader<'_>) -> Self {
        Self {
            description: fields.take("description").and_then(|node| reader.string(&node)),
            mcp_servers: fields.take("mcpServers").map(|node| servers(&node, reader)),
            namespace: fields.take("namespace").and_then(|node| reader.string(&node)),
        }
    }
}

// === schema ===
