//! The top level of a native configuration file, and toolboxes.
//!
//! The checks destructure each raw section, so that a forgotten key is a compile error.

use schemars::JsonSchema;

use crate::sections::approvals::RawApprovals;
use crate::sections::audit::{RawAudit, RawTelemetry};
use crate::sections::auth::raw::RawAuth;
use crate::sections::clients::RawClient;
use crate::sections::http::RawHttp;
use crate::sections::limits::{RawLimits, RawResultCache};
use crate::sections::macros::raw::RawMacro;
use crate::sections::navigator::RawNavigator;
use crate::sections::policy::raw::{RawAgentPolicy, RawConfirmation, RawDefaultPolicy};
use crate::sections::ranges;
use crate::sections::root::category::RawCategory;
use crate::sections::sandbox::RawSandbox;
use crate::sections::search::RawSearch;
use crate::sections::shared_store::RawSharedStore;
use crate::sections::task_rules::RawTaskRules;
use crate::syntax::document::Node;
use crate::syntax::objects::LocatedMap;
use crate::syntax::reader::{ConfigReader, Located, did_you_mean, quoted_list};
use crate::syntax::section::{FromNode, section};
use mcp_workbench_settings::{ToolMode, defaults};

pub mod category;
mod raw;

pub use raw::RawServer;

section! {
    /// The configuration of MCP Workbench: toolboxes of MCP servers that agents open when they need
    /// them.
    ///
    /// Comments and trailing commas are allowed. `${NAME}` and `${NAME:-default}` in any string are
    /// replaced by environment variables. Relative paths start at the folder of this file.
    #[schemars(
        title = "MCP Workbench configuration",
        extend("anyOf" = [{"required": ["toolboxes"]}, {"required": ["mcpServers"]}]),
    )]
    pub struct RawConfig in "the top level" {
        /// URL or path of the JSON Schema, for completion and checks in editors.
        #[expect(dead_code, reason = "only editors read it")]
        everybodys "$schema" as pub(crate) schema: Located<String>,

        /// How agents see the toolboxes. Chosen for each client by default.
        #[schemars(extend("default" = "auto"))]
        "toolMode" as pub(crate) tool_mode: Located<RawToolMode>,

        /// Which changes to this file apply automatically: `safe` for presentation only
        /// (descriptions, timeouts, `toolMode`, `clients`, `resultCache`), `all` for every change.
        /// Other changes wait for `mcp-workbench reload`, SIGHUP or a restart, because an agent may
        /// be able to write the file.
        #[schemars(extend("enum" = ["safe", "all", null], "default" = "safe"))]
        "autoReload" as pub(crate) auto_reload: Located<String>,

        /// What to do with tool, prompt and resource template definitions that differ from
        /// `workbench.lock`: `off` (don't compare), `warn` (log the difference), `quarantine` (hide
        /// them from agents) or `deny` (block the server). Default: `warn` if there is a lockfile,
        /// otherwise `off`.
        #[schemars(extend("enum" = ["off", "warn", "quarantine", "deny", null]))]
        rule "onDefinitionChange" as pub(crate) on_definition_change: Located<String>,

        /// Default `sandbox` of all servers with a `command`. A server's own `sandbox` or
        /// `container` overrides it.
        "sandbox" as pub(crate) sandbox: RawSandbox,

        /// Maximum length of tool names, in bytes; longer names are shortened with a hash. Clients
        /// add a prefix and reject names over 64 bytes.
        #[schemars(extend("default" = defaults::NAME_LIMIT))]
        "maxToolNameLength" as pub(crate) max_tool_name_length: Located<u64> [ranges::NAME_BYTES],

        /// Tool search. `true` adds the tool `search_tools` in the modes `dynamic`, `proxy` and
        /// `auto`; an object can also configure embeddings.
        shared "search" as pub(crate) search: RawSearch,

        /// How `execute_task` and `mcp-workbench task` select a tool.
        "navigator" as pub(crate) navigator: RawNavigator,

        /// Limits on message sizes, call rates and concurrency.
        "limits" as pub(crate) limits: RawLimits,

        /// HTTP server: allowed hosts, sessions, connections, timeouts and TLS.
        "http" as pub(crate) http: RawHttp,

        /// Redis or Valkey store that several workbenches share, so that each can continue the
        /// sessions of the others.
        "sharedStore" as pub(crate) shared_store: RawSharedStore,

        /// Caches results of read-only tools. Off by default.
        "resultCache" as pub(crate) result_cache: RawResultCache,

        /// Overrides the built-in facts about clients, by the name that a client reports or its
        /// first words. `*` applies to every client.
        common "clients" as pub(crate) clients: LocatedMap<RawClient>,

        /// Records every tool call in a file, one JSON object per line.
        "audit" as pub(crate) audit: RawAudit,

        /// Exports a trace span for every tool call.
        shared "telemetry" as pub(crate) telemetry: RawTelemetry,

        /// Authentication over HTTP. Without it, the workbench accepts only clients on this
        /// machine, which need no token.
        "auth" as pub(crate) auth: Located<RawAuth>,

        /// Toolboxes by name. Agents open all servers of a toolbox together.
        "toolboxes" as pub toolboxes: LocatedMap<RawToolbox>,

        /// Servers outside of toolboxes, in the format of any MCP client. Each becomes a toolbox of
        /// the same name, unless `categories` divide it.
        everybodys "mcpServers" as pub mcp_servers: LocatedMap<RawServer>,

        /// Toolboxes by name that contain selected tools of one server in `mcpServers`.
        everybodys "categories" as pub categories: LocatedMap<RawCategory>,

        /// Tools by name that combine several tool calls into one. Each belongs to a toolbox.
        "macros" as pub(crate) macros: LocatedMap<RawMacro>,

        /// Tools and resources that are active from the start in `activate` mode: globs over
        /// `<namespace>_<name>`. None by default.
        #[schemars(extend("examples" = [["notes_*", "clock_now"]]))]
        "activeToolsets" as pub active_toolsets: Vec<Located<String>>,

        /// Rules for `mcp-workbench tailor`: the tools that each kind of task needs. `serve`
        /// ignores them.
        "taskBasedToolSelection" | "task_based_tool_selection"
            as pub(crate) task_based_tool_selection: RawTaskRules,

        /// Permissions of single agents, by the agent's name (from `--agent` or its token).
        rule "agentPolicies" | "agent_policies" as pub(crate) agent_policies: LocatedMap<RawAgentPolicy>,

        /// Tools that agents may use, by server: names, globs and `server:tool`. An agent's
        /// `toolOverrides` override it for the same server.
        #[schemars(extend("examples" = [{"github": ["get_*", "create_issue"]}]))]
        rule "exposedTools" | "exposed_tools" as pub(crate) exposed_tools: LocatedMap<Vec<Located<String>>>,

        /// Resources and resource templates that agents may use, by server, in the syntax of
        /// `resourceFilters`. All by default. An agent's `resourceOverrides` override it for the
        /// same server.
        #[schemars(extend("examples" = [{"filesystem": ["file:///docs/*", "!*.env"]}]))]
        rule "exposedResources" | "exposed_resources"
            as pub(crate) exposed_resources: LocatedMap<Vec<Located<String>>>,

        /// Prompts that agents may use, by server, in the syntax of `promptFilters`. All by
        /// default. An agent's `promptOverrides` override it for the same server.
        #[schemars(extend("examples" = [{"github": ["review_*"]}]))]
        rule "exposedPrompts" | "exposed_prompts"
            as pub(crate) exposed_prompts: LocatedMap<Vec<Located<String>>>,

        /// Access to tools and servers that no list mentions.
        rule "defaultPolicy" | "default_policy" as pub(crate) default_policy: RawDefaultPolicy,

        /// Tools whose calls need the user's confirmation: names, globs and `server:tool`.
        /// `destructiveHint` adds every tool that its server marks as destructive.
        #[schemars(extend("examples" = [["github:delete_*", "destructiveHint"]]))]
        rule "dangerousTools" | "dangerous_tools" as pub(crate) dangerous_tools: Vec<Located<String>>,

        /// Additional tools whose calls need confirmation. `false` turns confirmation off; calls of
        /// dangerous tools are then only marked in the audit log.
        #[schemars(extend("default" = true))]
        rule "requireConfirmation" | "require_confirmation"
            as pub(crate) require_confirmation: RawConfirmation,

        /// Lets calls that need confirmation wait in a queue until an operator approves them outside
        /// the client.
        rule "approvals" as pub(crate) approvals: RawApprovals,
    }
}

// No doc comment: schemars would repeat it next to the description of `toolMode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(rename_all = "camelCase", inline)]
pub(crate) enum RawToolMode {
    /// Opening a toolbox adds its tools to the agent's tool list.
    Dynamic,
    /// Opening a toolbox returns the definitions of its tools, and `use_tool` calls them. For
    /// clients that ignore tool list changes.
    Proxy,
    /// `dynamic` or `proxy`, whichever works with the client and costs fewer tokens. Unknown
    /// clients get both.
    Auto,
    /// `search_tools` finds tools by what they do, and `use_tool` calls them.
    Search,
    /// `execute_task` takes a task in words, and calls the best-matching tool.
    Navigate,
    /// The tools of all toolboxes are in the agent's tool list from the start, under their own
    /// names if these are unambiguous.
    Direct,
    /// One tool, `toolman_activate`, turns tools and resources on and off. Its description contains
    /// the tool index.
    Activate,
    /// `get-modular-tools` returns the tool definitions of a toolbox, and `call-modular-tool` calls
    /// one of them.
    Modular,
}

section! {
    /// A named group of servers that agents open together.
    #[schemars(rename = "Toolbox")]
    pub struct RawToolbox in "a toolbox" {
        /// What the toolbox is for. Agents read this to decide whether to open it.
        #[schemars(required, length(min = 1))]
        #[schemars(extend("examples" = ["Files and version control of this project"]))]
        "description" as pub(crate) description: Located<String>,

        /// Servers of the toolbox by name, in the format of any MCP client.
        #[schemars(required, extend("minProperties" = 1))]
        "mcpServers" as pub mcp_servers: LocatedMap<RawServer>,

        /// Prefix of its tools, resources and prompts in `activate` mode, joined with `_`; empty
        /// for no prefix. Default: the name of the toolbox.
        "namespace" as pub(crate) namespace: Located<String>,
    }
}

impl RawToolMode {
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
}

impl FromNode for Located<RawToolMode> {
    fn from_node(node: &Node<'_>, reader: &mut ConfigReader<'_>) -> Option<Self> {
        let word = reader.read_string(node)?;
        let names = RawToolMode::ALL.map(|mode| mode.checked().as_str());
        let index = names.iter().position(|name| *name == word.value);
        let Some(mode) = index.and_then(|index| RawToolMode::ALL.get(index)) else {
            let expected = quoted_list(&names, "or");
            reader.report_error(
                &word.location,
                format!("expected {expected}, found `{}`", word.value),
                did_you_mean(&word.value, &names),
            );
            return None;
        };
        Some(Self { value: *mode, location: word.location })
    }
}
