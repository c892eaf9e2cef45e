//! The keys at the top of a file, and those of a toolbox.
//!
//! `server` has those of a server's block, `category` those about single tools. The checker destructures
//! what was read, so that a key it forgets does not compile.

use schemars::JsonSchema;

use crate::config::keys::audit::{RawAudit, RawTelemetry};
use crate::config::keys::auth::raw::RawAuth;
use crate::config::keys::clients::RawClient;
use crate::config::keys::http::RawHttp;
use crate::config::keys::limits::{RawCache, RawLimits};
use crate::config::keys::macros::raw::RawMacro;
use crate::config::keys::navigator::RawNavigator;
use crate::config::keys::numbers;
use crate::config::keys::policy::raw::{RawAgentPolicy, RawConfirmation, RawDefaultPolicy};
use crate::config::keys::raw::category::RawCategory;
use crate::config::keys::sandbox::RawSandbox;
use crate::config::keys::search::RawSearch;
use crate::config::keys::shared::RawShared;
use crate::config::keys::task_rules::RawTaskRules;
use crate::config::syntax::document::Node;
use crate::config::syntax::entries::Entries;
use crate::config::syntax::reader::{Located, Reader, did_you_mean, listed};
use crate::config::syntax::section::{FromNode, section};
use crate::settings::{ToolMode, defaults};

pub mod category;
mod server;

pub use server::RawServer;

section! {
    /// The configuration of MCP Workbench: toolboxes of MCP servers that an agent opens when it
    /// wants them.
    ///
    /// Comments and trailing commas are allowed. `${NAME}` and `${NAME:-default}` in any string are
    /// replaced by environment variables. Relative paths start at the folder of this file.
    #[schemars(
        title = "MCP Workbench configuration",
        extend("anyOf" = [{"required": ["toolboxes"]}, {"required": ["mcpServers"]}]),
    )]
    pub struct RawConfig in "the top level" {
        /// Where editors find this schema.
        #[expect(dead_code, reason = "it is for editors alone")]
        everybodys "$schema" as pub(crate) schema: Located<String>,

        /// How toolboxes are presented to agents.
        #[schemars(extend("default" = "auto"))]
        "toolMode" as pub(crate) tool_mode: Located<RawToolMode>,

        /// When a change of this file is taken over by itself: where it differs in how toolboxes are
        /// presented alone (`presentation`), or whatever differs (`everything`). Anything else waits
        /// for `mcp-workbench reload`, SIGHUP or a restart, for an agent may be able to write files.
        #[schemars(extend("enum" = ["presentation", "everything", null], "default" = "presentation"))]
        "watch" as pub(crate) watch: Located<String>,

        /// The fate of definitions of tools, prompts and resource templates that are not as
        /// `workbench.lock` has them: they are served and told of (`warn`, if there is such a file), they
        /// are as if they did not exist (`quarantine`), or their server is not opened (`deny`); `off`:
        /// nobody looks.
        #[schemars(extend("enum" = ["off", "warn", "quarantine", "deny", null]))]
        rule "definitions" as pub(crate) definitions: Located<String>,

        /// The `sandbox` of every server that is started by a command and has none of its own.
        "sandbox" as pub(crate) sandbox: RawSandbox,

        /// The longest name a registered tool may have, in bytes. Clients put their own prefix
        /// before it and refuse names above 64.
        #[schemars(extend("default" = defaults::NAME_LIMIT))]
        "maxToolNameLength" as pub(crate) max_tool_name_length: Located<u64> [numbers::NAME_BYTES],

        /// The search for tools: `true` offers `search_tools` in `dynamic`, `proxy` and `auto` mode
        /// too.
        shared "search" as pub(crate) search: RawSearch,

        /// How `execute_task` finds its way, in `navigate` mode.
        "navigator" as pub(crate) navigator: RawNavigator,

        /// Limits on what passes through.
        "limits" as pub(crate) limits: RawLimits,

        /// Limits on what agents may cost over HTTP.
        "http" as pub(crate) http: RawHttp,

        /// The store that several workbenches over HTTP share.
        "shared" as pub(crate) shared: RawShared,

        /// How long answers of tools hold that only read.
        common "cache" as pub(crate) cache: RawCache,

        /// Assumptions about clients' programs, by the names that they give themselves, or by the
        /// first words of those; `*` means any client.
        common "clients" as pub(crate) clients: Entries<RawClient>,

        /// Records every call of a tool in a file.
        "audit" as pub(crate) audit: RawAudit,

        /// Tells others of every call.
        shared "telemetry" as pub(crate) telemetry: RawTelemetry,

        /// Who may ask over HTTP.
        "auth" as pub(crate) auth: Located<RawAuth>,

        /// Toolboxes by name: each a described set of servers that is opened as one.
        "toolboxes" as pub toolboxes: Entries<RawToolbox>,

        /// Servers as any MCP client writes them; each becomes a toolbox of its own name, but those
        /// that `categories` divide.
        everybodys "mcpServers" as pub mcp_servers: Entries<RawServer>,

        /// Toolboxes by name that have some of the tools of one server in `mcpServers`.
        everybodys "categories" as pub categories: Entries<RawCategory>,

        /// Tools of ours by name: each makes several calls of other tools in one, and stands in a
        /// toolbox like any tool.
        "macros" as pub(crate) macros: Entries<RawMacro>,

        /// Which tools and resources are active from the start in `activate` mode: globs over
        /// `<namespace>_<name>`.
        #[schemars(extend("examples" = [["notes_*", "clock_now"]]))]
        "activeToolsets" as pub active_toolsets: Vec<Located<String>>,

        /// Which tools which task wants, for `mcp-workbench tailor`; nothing is served by it.
        "taskBasedToolSelection" | "task_based_tool_selection"
            as pub(crate) task_based_tool_selection: RawTaskRules,

        /// The permissions of single agents, by the names that the command line or their tokens
        /// give them.
        rule "agentPolicies" | "agent_policies" as pub(crate) agent_policies: Entries<RawAgentPolicy>,

        /// The tools of single servers that an agent may use of which `agentPolicies` says nothing
        /// else: names, globs, and `server:tool`.
        #[schemars(extend("examples" = [{"github": ["get_*", "create_issue"]}]))]
        rule "exposedTools" | "exposed_tools" as pub(crate) exposed_tools: Entries<Vec<Located<String>>>,

        /// The resources and templates of single servers that an agent may use of whose resources
        /// `agentPolicies` says nothing else, written like a server's `resourceFilters`. All if there
        /// is no list.
        #[schemars(extend("examples" = [{"filesystem": ["file:///docs/*", "!*.env"]}]))]
        rule "exposedResources" | "exposed_resources"
            as pub(crate) exposed_resources: Entries<Vec<Located<String>>>,

        /// The prompts of single servers that an agent may use of whose prompts `agentPolicies` says
        /// nothing else, written like a server's `promptFilters`. All if there is no list.
        #[schemars(extend("examples" = [{"github": ["review_*"]}]))]
        rule "exposedPrompts" | "exposed_prompts"
            as pub(crate) exposed_prompts: Entries<Vec<Located<String>>>,

        /// The rules for tools and servers that no list speaks of.
        rule "defaultPolicy" | "default_policy" as pub(crate) default_policy: RawDefaultPolicy,

        /// Tools of which the user confirms each call: names, globs, `server:tool`, and the word
        /// `destructiveHint` for whatever its server says is destructive.
        #[schemars(extend("examples" = [["github:delete_*", "destructiveHint"]]))]
        rule "dangerousTools" | "dangerous_tools" as pub(crate) dangerous_tools: Vec<Located<String>>,

        /// Further tools of which the user confirms each call; or `false`: nobody is asked, and
        /// dangerous tools are only marked in the audit log.
        #[schemars(extend("default" = true))]
        rule "requireConfirmation" | "require_confirmation"
            as pub(crate) require_confirmation: RawConfirmation,
    }
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

section! {
    /// A named, described set of servers that is opened as one.
    #[schemars(rename = "Toolbox")]
    pub struct RawToolbox in "a toolbox" {
        /// The purpose of the toolbox. The agent reads this to decide whether to open it.
        #[schemars(required, length(min = 1))]
        #[schemars(extend("examples" = ["Files and version control of this project"]))]
        "description" as pub(crate) description: Located<String>,

        /// The servers of the toolbox by name, as any MCP client writes them.
        #[schemars(required, extend("minProperties" = 1))]
        "mcpServers" as pub mcp_servers: Entries<RawServer>,

        /// The prefix of the names of its tools, resources and prompts in `activate` mode, with a
        /// `_` between; none if it is empty. The name of the toolbox by default.
        "namespace" as pub(crate) namespace: Located<String>,
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

    /// Returns the mode that it is checked to.
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
    fn from_node(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        let word = reader.string(node)?;
        let names = RawToolMode::ALL.map(|mode| mode.checked().as_str());
        let index = names.iter().position(|name| *name == word.value);
        let Some(mode) = index.and_then(|index| RawToolMode::ALL.get(index)) else {
            let expected = listed(&names, "or");
            reader.error(
                &word.spot,
                format!("expected {expected}, found `{}`", word.value),
                did_you_mean(&word.value, &names),
            );
            return None;
        };
        Some(Self { value: *mode, spot: word.spot })
    }
}
