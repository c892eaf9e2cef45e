//! The top level of a native configuration file, and toolboxes.
//!
//! The checks destructure each raw section, so that a forgotten key is a compile error.

use schemars::JsonSchema;

use crate::config::sections::audit::{RawAudit, RawTelemetry};
use crate::config::sections::auth::raw::RawAuth;
use crate::config::sections::clients::RawClient;
use crate::config::sections::http::RawHttp;
use crate::config::sections::limits::{RawCache, RawLimits};
use crate::config::sections::macros::raw::RawMacro;
use crate::config::sections::navigator::RawNavigator;
use crate::config::sections::policy::raw::{RawAgentPolicy, RawConfirmation, RawDefaultPolicy};
use crate::config::sections::ranges;
use crate::config::sections::root::category::RawCategory;
use crate::config::sections::sandbox::RawSandbox;
use crate::config::sections::search::RawSearch;
use crate::config::sections::shared::RawShared;
use crate::config::sections::task_rules::RawTaskRules;
use crate::config::syntax::document::Node;
use crate::config::syntax::objects::LocatedMap;
use crate::config::syntax::reader::{ConfigReader, Located, did_you_mean, quoted_list};
use crate::config::syntax::section::{FromNode, section};
use crate::settings::{ToolMode, defaults};

pub mod category;
mod raw;

pub use raw::RawServer;

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
        #[expect(dead_code, reason = "only editors read it")]
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
        "maxToolNameLength" as pub(crate) max_tool_name_length: Located<u64> [ranges::NAME_BYTES],

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
        common "clients" as pub(crate) clients: LocatedMap<RawClient>,

        /// Records every call of a tool in a file.
        "audit" as pub(crate) audit: RawAudit,

        /// Tells others of every call.
        shared "telemetry" as pub(crate) telemetry: RawTelemetry,

        /// Who may ask over HTTP.
        "auth" as pub(crate) auth: Located<RawAuth>,

        /// Toolboxes by name: each a described set of servers that is opened as one.
        "toolboxes" as pub toolboxes: LocatedMap<RawToolbox>,

        /// Servers as any MCP client writes them; each becomes a toolbox of its own name, but those
        /// that `categories` divide.
        everybodys "mcpServers" as pub mcp_servers: LocatedMap<RawServer>,

        /// Toolboxes by name that have some of the tools of one server in `mcpServers`.
        everybodys "categories" as pub categories: LocatedMap<RawCategory>,

        /// Tools of ours by name: each makes several calls of other tools in one, and stands in a
        /// toolbox like any tool.
        "macros" as pub(crate) macros: LocatedMap<RawMacro>,

        /// Which tools and resources are active from the start in `activate` mode: globs over
        /// `<namespace>_<name>`.
        #[schemars(extend("examples" = [["notes_*", "clock_now"]]))]
        "activeToolsets" as pub active_toolsets: Vec<Located<String>>,

        /// Which tools which task wants, for `mcp-workbench tailor`; nothing is served by it.
        "taskBasedToolSelection" | "task_based_tool_selection"
            as pub(crate) task_based_tool_selection: RawTaskRules,

        /// The permissions of single agents, by the names that the command line or their tokens
        /// give them.
        rule "agentPolicies" | "agent_policies" as pub(crate) agent_policies: LocatedMap<RawAgentPolicy>,

        /// The tools of single servers that an agent may use of which `agentPolicies` says nothing
        /// else: names, globs, and `server:tool`.
        #[schemars(extend("examples" = [{"github": ["get_*", "create_issue"]}]))]
        rule "exposedTools" | "exposed_tools" as pub(crate) exposed_tools: LocatedMap<Vec<Located<String>>>,

        /// The resources and templates of single servers that an agent may use of whose resources
        /// `agentPolicies` says nothing else, written like a server's `resourceFilters`. All if there
        /// is no list.
        #[schemars(extend("examples" = [{"filesystem": ["file:///docs/*", "!*.env"]}]))]
        rule "exposedResources" | "exposed_resources"
            as pub(crate) exposed_resources: LocatedMap<Vec<Located<String>>>,

        /// The prompts of single servers that an agent may use of whose prompts `agentPolicies` says
        /// nothing else, written like a server's `promptFilters`. All if there is no list.
        #[schemars(extend("examples" = [{"github": ["review_*"]}]))]
        rule "exposedPrompts" | "exposed_prompts"
            as pub(crate) exposed_prompts: LocatedMap<Vec<Located<String>>>,

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

// No doc comment: schemars would repeat it next to the description of `toolMode`.
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
        "mcpServers" as pub mcp_servers: LocatedMap<RawServer>,

        /// The prefix of the names of its tools, resources and prompts in `activate` mode, with a
        /// `_` between; none if it is empty. The name of the toolbox by default.
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
