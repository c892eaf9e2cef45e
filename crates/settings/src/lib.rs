//! The validated configuration: names are unique, limits are in range, variables are expanded.
//!
//! The `config` crate builds these types from files. The rest of the program relies on their
//! invariants.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use mcp_workbench_names::{ServerName, ToolId, ToolboxName};

pub use annotations::{ToolAnnotation, ToolAnnotations};
pub use approvals::{ApprovalConfig, ApprovalKey, FirstAsked};
pub use audit::{ArgumentCapture, AuditConfig, TelemetryConfig};
pub use auth::{
    AnonymousPolicy, AuthConfig, JwtConfig, TokenConfig, is_bearer, is_loopback, token_digest,
};
pub use auto_reload::{AutoReload, can_auto_reload};
pub use catalog::file_names::FileNameAllocator;
pub use catalog::{CatalogCategory, CatalogFolder, CatalogService, CatalogTool, ToolReader};
pub use clients::ClientConfig;
pub use digest::digest_for_commands;
pub use extension_methods::is_core_method;
pub use fingerprint::fingerprint;
pub use http::{HttpConfig, TlsConfig};
pub use launch::{HttpLaunch, HttpTransport, Launch, StdioLaunch};
pub use limits::{CallerLimits, Limits, RateLimits, ResultCacheConfig, ServerLimits};
pub use llm::LlmConfig;
pub use lockfile::{
    DefinitionDigest, DefinitionVariant, DriftPolicy, IgnoreRule, LockedDefinition,
    LockedDefinitions, LockedPackage, LockedServer, Lockfile,
};
pub use macros::{MACROS, MacroConfig, Pointer, StepConfig, Template};
pub use navigator::{BudgetConfig, ChooserKind, NavigatorConfig, Strategy};
pub use oauth::{
    AccountScope, ClientKey, GrantType, IdentityProvider, OAuthConfig, ResourceIndicator,
    TokenExchange,
};
pub use package::{Ecosystem, Package, RunnerCommand, UnusualCommand, VersionRequest};
pub use policy::{
    AgentPolicy, ArgumentTest, ConfirmationPolicy, DefaultPolicy, PolicyCondition, PolicyConfig,
    ProjectRules, TimeWindow, UnknownAgentPolicy,
};
pub use sandbox::{Confinement, Container, Sandbox};
pub use search::SearchConfig;
pub use secret_ref::SecretRef;
pub use shared_store::{DEFAULT_PREFIX, SharedStoreConfig, StoreUrl};

mod annotations;
mod approvals;
mod audit;
mod auth;
mod auto_reload;
pub mod catalog;
mod clients;
pub mod defaults;
mod digest;
mod extension_methods;
mod fingerprint;
mod http;
mod launch;
mod limits;
mod llm;
mod lockfile;
mod macros;
mod navigator;
mod oauth;
mod package;
mod policy;
mod sandbox;
mod search;
mod secret_ref;
mod shared_store;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    pub mode: ToolMode,
    /// Which changes of the file are applied automatically (`autoReload`).
    pub auto_reload: AutoReload,
    /// The sandbox of servers that don't configure one.
    pub sandbox: Sandbox,
    /// Maximum length of a registered tool name in bytes.
    pub max_tool_name_length: usize,
    pub search: SearchConfig,
    /// Settings of `execute_task`.
    pub navigator: NavigatorConfig,
    pub limits: Limits,
    /// Limits of the HTTP listener (`http`).
    pub http: HttpConfig,
    /// Default caching of results of read-only tools (`resultCache`).
    pub result_cache: ResultCacheConfig,
    /// Globs over `<namespace>_<name>` of the tools and resources that are initially active in
    /// `activate` mode (`activeToolsets`).
    pub active_toolsets: Vec<String>,
    /// Assumptions about MCP clients, by client name; `*` matches any (`clients`).
    pub clients: BTreeMap<String, ClientConfig>,
    pub policy: PolicyConfig,
    /// Approval of calls outside the client (`approvals`).
    pub approvals: ApprovalConfig,
    /// The audit log; `None` if calls aren't recorded (`audit`).
    pub audit: Option<AuditConfig>,
    /// The export of traces (`telemetry`).
    pub telemetry: TelemetryConfig,
    /// Authentication over HTTP; `None` serves only clients on this machine, unauthenticated
    /// (`auth`).
    pub auth: Option<AuthConfig>,
    /// The store shared by several workbenches (`sharedStore`).
    pub shared_store: SharedStoreConfig,
    /// The default policy for definitions that differ from the lockfile (`onDefinitionChange`).
    pub drift_policy: Option<DriftPolicy>,
    /// In file order.
    pub toolboxes: Vec<ToolboxConfig>,
}

impl Config {
    /// Returns all servers with their toolboxes, in file order.
    pub fn servers(&self) -> impl Iterator<Item = (&ToolboxConfig, &ServerConfig)> {
        let toolboxes = self.toolboxes.iter();
        toolboxes.flat_map(|toolbox| toolbox.servers.iter().map(move |server| (toolbox, server)))
    }

    pub fn toolbox(&self, name: &str) -> Option<&ToolboxConfig> {
        self.toolboxes.iter().find(|toolbox| toolbox.name.as_str() == name)
    }

    /// Returns the id of a tool under the server's own name, undoing a rename by the configuration.
    pub fn original_tool_id(&self, tool: &ToolId) -> ToolId {
        let toolbox = self.toolbox(tool.toolbox.as_str());
        let server = toolbox.and_then(|toolbox| toolbox.server(tool.server.as_str()));
        let own = server.and_then(|server| {
            let is_it = |over: &ToolOverride| over.name.as_deref() == Some(&tool.tool);
            let (own, _) = server.overrides.iter().find(|(_, over)| is_it(over))?;
            Some(own.strip_prefix(&server.client_prefix()).unwrap_or(own).to_owned())
        });
        ToolId { tool: own.unwrap_or_else(|| tool.tool.clone()), ..tool.clone() }
    }

    /// Returns the macro that `tool` names, if it is one.
    pub fn macro_at(&self, tool: &ToolId) -> Option<&MacroConfig> {
        let toolbox = self.toolbox(tool.toolbox.as_str())?;
        let mut macros = toolbox.macros().filter(|_| tool.server.as_str() == MACROS);
        macros.find(|config| config.name == tool.tool)
    }

    /// Removes macros that call a tool rejected by `is_kept`, and toolboxes that become empty.
    pub fn keep_macros(&mut self, is_kept: impl Fn(&ToolId) -> bool) {
        for toolbox in &mut self.toolboxes {
            toolbox.servers.retain_mut(|server| {
                let Launch::Macros(macros) = &mut server.launch else { return true };
                macros.retain(|config| config.steps.iter().all(|step| is_kept(&step.tool)));
                !macros.is_empty()
            });
        }
        self.toolboxes.retain(|toolbox| !toolbox.servers.is_empty());
    }
}

/// The configuration of an empty file, which serves nothing.
impl Default for Config {
    fn default() -> Self {
        Self {
            mode: ToolMode::default(),
            auto_reload: AutoReload::default(),
            sandbox: Sandbox::default(),
            max_tool_name_length: defaults::NAME_LIMIT,
            search: SearchConfig::default(),
            navigator: NavigatorConfig::default(),
            limits: Limits::default(),
            http: HttpConfig::default(),
            result_cache: ResultCacheConfig::default(),
            policy: PolicyConfig::default(),
            approvals: ApprovalConfig::default(),
            auth: None,
            shared_store: SharedStoreConfig::default(),
            drift_policy: None,
            audit: None,
            telemetry: TelemetryConfig::default(),
            active_toolsets: Vec::new(),
            clients: BTreeMap::new(),
            toolboxes: Vec::new(),
        }
    }
}

/// How toolboxes are presented to agents (`toolMode`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ToolMode {
    /// Opening a toolbox adds its tools to the agent's tool list.
    Dynamic,
    /// Opening a toolbox returns its tool definitions; `use_tool` calls them.
    Proxy,
    /// `Dynamic` or `Proxy`, depending on the client. Unknown clients get both.
    #[default]
    Auto,
    /// All tools are listed from the start, under their own names if those are unambiguous.
    Direct,
    /// One tool activates and deactivates tools and resources; its description is the catalog.
    Activate,
    /// Two tools: one returns the definitions of a group, the other calls a tool of it.
    Modular,
    /// One tool searches for tools by description; `use_tool` calls them.
    Search,
    /// One tool takes a task in natural language, finds a suitable tool and calls it.
    Navigate,
    /// A single server, as if the agent had started it directly. Used by `expose`; no file can
    /// select it.
    Passthrough,
}

impl ToolMode {
    /// The modes that a file can select.
    pub const ALL: [Self; 8] = [
        Self::Dynamic,
        Self::Proxy,
        Self::Auto,
        Self::Search,
        Self::Navigate,
        Self::Direct,
        Self::Activate,
        Self::Modular,
    ];

    /// Returns `true` if tools, resources and prompts are named by their server's namespace.
    pub fn has_namespaces(self) -> bool {
        self == Self::Activate
    }

    /// Returns `true` if a single server is passed through.
    pub fn is_passthrough(self) -> bool {
        self == Self::Passthrough
    }

    /// Returns the mode that serves a single toolbox of this configuration.
    pub fn of_one_toolbox(self) -> Self {
        if self.is_passthrough() { self } else { Self::Direct }
    }

    /// Parses a mode. Also accepts the internal `alone`.
    pub fn from_word(word: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter().chain([Self::Passthrough]);
        all.find(|mode| mode.as_str() == word)
    }

    /// Returns the mode as it is written in the file.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Dynamic => "dynamic",
            Self::Proxy => "proxy",
            Self::Auto => "auto",
            Self::Direct => "direct",
            Self::Activate => "activate",
            Self::Modular => "modular",
            Self::Search => "search",
            Self::Navigate => "navigate",
            Self::Passthrough => "alone",
        }
    }
}

/// A named set of servers (`toolboxes.<name>`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ToolboxConfig {
    pub name: ToolboxName,
    /// Written by the user, or a default.
    pub description: String,
    /// Prefix of names in `activate` mode, followed by `_`. Empty for no prefix; the toolbox's name
    /// by default.
    pub namespace: String,
    /// The enabled servers in file order; never empty.
    pub servers: Vec<ServerConfig>,
}

impl ToolboxConfig {
    /// Returns all servers except [`MACROS`], which has no process.
    pub fn launchable_servers(&self) -> impl Iterator<Item = &ServerConfig> {
        self.servers.iter().filter(|server| !matches!(server.launch, Launch::Macros(_)))
    }

    pub fn macros(&self) -> impl Iterator<Item = &MacroConfig> {
        let macros = self.servers.iter().filter_map(|server| match &server.launch {
            Launch::Macros(macros) => Some(macros),
            _ => None,
        });
        macros.flatten()
    }

    pub fn server(&self, name: &str) -> Option<&ServerConfig> {
        self.servers.iter().find(|server| server.name.as_str() == name)
    }

    /// Returns the description, unless it is the default.
    pub fn purpose(&self) -> Option<&str> {
        let says_nothing =
            |server: &ServerConfig| self.description == default_description(server.name.as_str());
        (!self.servers.iter().any(says_nothing)).then_some(&self.description)
    }
}

/// Returns the description of a toolbox without one in the file, made of a server or some of its
/// tools.
pub fn default_description(server: &str) -> String {
    format!("Tools of the server `{server}`")
}

/// An entry of `mcpServers`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ServerConfig {
    pub name: ServerName,
    pub description: Option<String>,
    pub launch: Launch,
    /// Names, globs and `!` globs, as written (`toolFilters`). Empty means all.
    pub tool_filters: Vec<String>,
    /// URIs, names, globs and `!` globs, as written (`resourceFilters`). Empty means all.
    pub resource_filters: Vec<String>,
    /// Like the tool filters (`promptFilters`). Empty means all.
    pub prompt_filters: Vec<String>,
    /// Methods, globs and `!` globs, as written (`extensionMethods`). Empty means none.
    pub extension_methods: Vec<String>,
    /// The tools of a category, as written (`includeNames`); `None` means all.
    pub include: Option<Vec<String>>,
    /// Changes to single tools, by the server's names as written (`overrides`). Look them up with
    /// [`ServerConfig::tool_override`].
    pub overrides: BTreeMap<String, ToolOverride>,
    /// Timeout from the start to the tool list (`startupTimeoutMs`).
    pub startup_timeout: Duration,
    /// Timeout of a call without a response or progress (`callTimeoutMs`).
    pub call_timeout: Duration,
    /// Timeout of a call regardless of progress (`totalCallTimeoutMs`).
    pub total_call_timeout: Duration,
    /// Idle time after which the server is stopped; `None` for never (`idleTimeoutMs`).
    pub idle_timeout: Option<Duration>,
    /// `true` if entries with an equal launch share one process (`shareProcess`).
    pub shares_process: bool,
    /// `true` if the server starts before it is needed.
    pub eager: bool,
    pub isolation: Isolation,
    /// The MCP versions to use with the server.
    pub protocol: Protocol,
    /// `true` if the server gets the agent's roots.
    pub roots: bool,
    /// Rate limits of this entry. Unset values use the global ones.
    pub limits: RateLimits,
    /// Cache settings of this entry (`resultCache`). An unset TTL uses the global one.
    pub result_cache: ResultCacheConfig,
    /// The policy for definitions that differ from the lockfile, if set. Use
    /// [`ServerConfig::effective_drift_policy`] for the effective one.
    pub drift_policy: Option<DriftPolicy>,
    /// The server's entry of the lockfile.
    pub lock_entry: Option<Arc<LockedServer>>,
}

impl ServerConfig {
    /// Creates a server with the defaults of an entry that sets nothing else.
    pub fn new(name: ServerName, launch: Launch) -> Self {
        Self {
            name,
            description: None,
            launch,
            tool_filters: Vec::new(),
            resource_filters: Vec::new(),
            prompt_filters: Vec::new(),
            extension_methods: Vec::new(),
            include: None,
            overrides: BTreeMap::new(),
            startup_timeout: Duration::from_millis(defaults::STARTUP_TIMEOUT_MS),
            call_timeout: Duration::from_millis(defaults::CALL_TIMEOUT_MS),
            total_call_timeout: Duration::from_millis(defaults::TOTAL_CALL_TIMEOUT_MS),
            idle_timeout: None,
            shares_process: true,
            eager: false,
            isolation: Isolation::default(),
            protocol: Protocol::default(),
            roots: false,
            limits: RateLimits::default(),
            result_cache: ResultCacheConfig::default(),
            drift_policy: None,
            lock_entry: None,
        }
    }

    /// Returns the override of the tool that the server calls `tool`.
    ///
    /// A key `mcp__<server>__<tool>` refers to the same tool, unless the server has a tool of
    /// exactly that name (`has_namesake`).
    pub fn tool_override(&self, tool: &str, has_namesake: bool) -> Option<&ToolOverride> {
        let prefixed = || self.overrides.get(&format!("{}{tool}", self.client_prefix()));
        let prefixed = if has_namesake { None } else { prefixed() };
        prefixed.or_else(|| self.overrides.get(tool))
    }

    /// Returns the prefix that clients add to the names of this server's tools.
    pub fn client_prefix(&self) -> String {
        mcp_workbench_names::client_prefix(self.name.as_str())
    }

    /// Returns the drift policy of this server. Always `DriftPolicy::Off` for macros.
    pub fn effective_drift_policy(&self) -> DriftPolicy {
        match self.launch {
            Launch::Macros(_) => DriftPolicy::Off,
            _ => self.drift_policy.unwrap_or_default(),
        }
    }
}

/// Which agents share a connection to a server (`isolation`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Isolation {
    /// All agents share one, until the server sends one of them a request.
    #[default]
    Shared,
    /// Each session has its own.
    Session,
}

impl Isolation {
    /// The values as written in the file.
    pub const WORDS: [(&str, Self); 2] = [("shared", Self::Shared), ("session", Self::Session)];
}

/// Changes to one tool (an entry of `overrides`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ToolOverride {
    /// `false` hides the tool.
    pub enabled: Option<bool>,
    /// Replaces the server's name.
    pub name: Option<String>,
    /// Replaces the server's description.
    pub description: Option<String>,
    /// Fixed arguments by name, which are hidden from the model.
    pub arguments: BTreeMap<String, serde_json::Value>,
    /// JSON pointers to the fields that results are reduced to; none for whole results.
    pub select: Option<Vec<String>>,
}

/// Which MCP versions to use with a server (`protocol`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// The version that the server supports.
    #[default]
    Auto,
    /// 2024-11-05 to 2025-11-25: sessions that begin with `initialize`.
    Legacy,
    /// Like [`Protocol::Legacy`], but `initialize` requests this version.
    Pinned(&'static str),
    /// 2026-07-28: stateless requests.
    Modern,
}

/// The versions whose sessions begin with `initialize`, newest first.
pub const LEGACY_VERSIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

impl Protocol {
    /// Parses a value as written in the file.
    pub fn from_word(word: &str) -> Option<Self> {
        match word {
            "auto" => Some(Self::Auto),
            "legacy" => Some(Self::Legacy),
            "modern" | "2026-07-28" => Some(Self::Modern),
            _ => LEGACY_VERSIONS.into_iter().find(|version| *version == word).map(Self::Pinned),
        }
    }

    /// Returns the value as written in the file.
    pub fn word(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Legacy => "legacy",
            Self::Pinned(version) => version,
            Self::Modern => "modern",
        }
    }
}
