//! The checked configuration: every name is unique, every limit in range, every variable expanded.
//!
//! These types are all that the program knows of configurations once they have been read, so
//! everything behind them trusts them. `config` makes them of files.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::name::{self, ServerName, ToolId, ToolboxName};

pub use audit::{AuditConfig, KeptArguments, TelemetryConfig};
pub use auth::{
    Anonymous, AuthConfig, JwtConfig, TokenConfig, is_bearer, is_loopback, token_digest,
};
pub use catalog::spelling::FileNames;
pub use catalog::{Catalog, CatalogCategory, CatalogService, CatalogTool, ToolReader};
pub use clients::ClientConfig;
pub use following::Watch;
pub use http::{HttpConfig, TlsConfig};
pub use launch::{HttpLaunch, HttpTransport, Launch, StdioLaunch};
pub use limits::{CacheConfig, Limits, PerCaller, Rates};
pub use llm::LlmConfig;
pub use lock::{
    Definitions, Hole, Lock, Locked, LockedKind, LockedPackage, LockedServer, Spelling, Sum,
};
pub use macros::{MACROS, MacroConfig, Pointer, StepConfig, Template};
pub use navigator::{BudgetConfig, ChooserKind, NavigatorConfig, Strategy};
pub use oauth::{AccountOf, Grant, IdentityProvider, OAuth, Resource};
pub use package::{Ecosystem, Package, Wanted};
pub use policy::{
    AgentPolicy, ArgumentTest, Confirmation, DefaultPolicy, PolicyConfig, Strangers, TimeWindow,
    When,
};
pub use reference::Reference;
pub use sandbox::{Confinement, Container, Sandbox};
pub use search::SearchConfig;
pub use shared::{DEFAULT_PREFIX, SharedConfig, StoreUrl};

mod audit;
mod auth;
pub mod catalog;
mod clients;
pub mod defaults;
mod fingerprint;
mod following;
mod http;
mod launch;
mod limits;
mod llm;
mod lock;
mod macros;
mod navigator;
mod oauth;
mod package;
mod policy;
mod reference;
mod sandbox;
mod search;
mod shared;

/// A whole configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// How toolboxes are presented to agents.
    pub mode: ToolMode,
    /// When a file that has changed is taken over (`watch`).
    pub watch: Watch,
    /// The sandbox of servers that have none of their own.
    pub sandbox: Sandbox,
    /// The longest name a registered tool may have, in bytes.
    pub max_tool_name_length: usize,
    /// How tools are searched for.
    pub search: SearchConfig,
    /// How `execute_task` finds its way.
    pub navigator: NavigatorConfig,
    /// Limits on what passes through.
    pub limits: Limits,
    /// Limits on what agents may cost over HTTP (`http`).
    pub http: HttpConfig,
    /// How long answers of read-only tools hold.
    pub cache: CacheConfig,
    /// `activeToolsets`: globs over `<namespace>_<name>` of the tools and resources that are active
    /// from the start in `activate` mode.
    pub active_toolsets: Vec<String>,
    /// `clients`: assumptions about agents' clients, by the clients' names; `*` means any.
    pub clients: BTreeMap<String, ClientConfig>,
    /// The rules on who may use what.
    pub policy: PolicyConfig,
    /// `audit`: where calls are recorded; `None`: nowhere.
    pub audit: Option<AuditConfig>,
    /// `telemetry`: where calls are reported.
    pub telemetry: TelemetryConfig,
    /// `auth`: who may ask over HTTP; `None`: anybody on this machine.
    pub auth: Option<AuthConfig>,
    /// `shared`: the store that several workbenches share.
    pub shared: SharedConfig,
    /// `definitions`: what becomes of definitions that are not as the lock has them, where a server
    /// has no mode of its own.
    pub definitions: Option<Definitions>,
    /// The toolboxes, in the order of the file.
    pub toolboxes: Vec<ToolboxConfig>,
}

impl Config {
    /// Every server with the toolbox that it stands in, in the order of the configuration.
    pub fn servers(&self) -> impl Iterator<Item = (&ToolboxConfig, &ServerConfig)> {
        let toolboxes = self.toolboxes.iter();
        toolboxes.flat_map(|toolbox| toolbox.servers.iter().map(move |server| (toolbox, server)))
    }

    /// Returns the toolbox called `name`.
    pub fn toolbox(&self, name: &str) -> Option<&ToolboxConfig> {
        self.toolboxes.iter().find(|toolbox| toolbox.name.as_str() == name)
    }

    /// Returns a tool by its server's own name for it, where the configuration renames it.
    pub fn own_id(&self, tool: &ToolId) -> ToolId {
        let toolbox = self.toolbox(tool.toolbox.as_str());
        let server = toolbox.and_then(|toolbox| toolbox.server(tool.server.as_str()));
        let own = server.and_then(|server| {
            let is_it = |over: &ToolOverride| over.name.as_deref() == Some(&tool.tool);
            let (own, _) = server.overrides.iter().find(|(_, over)| is_it(over))?;
            Some(own.strip_prefix(&server.client_prefix()).unwrap_or(own).to_owned())
        });
        ToolId { tool: own.unwrap_or_else(|| tool.tool.clone()), ..tool.clone() }
    }

    /// Returns the macro that a tool is, if it is one.
    pub fn macro_at(&self, tool: &ToolId) -> Option<&MacroConfig> {
        let toolbox = self.toolbox(tool.toolbox.as_str())?;
        let mut macros = toolbox.macros().filter(|_| tool.server.as_str() == MACROS);
        macros.find(|config| config.name == tool.tool)
    }

    /// Removes macros that call a tool for which `is_kept` is false, and toolboxes that are then
    /// empty.
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

/// The meaning of a file without any key; there is nothing to serve.
impl Default for Config {
    fn default() -> Self {
        Self {
            mode: ToolMode::default(),
            watch: Watch::default(),
            sandbox: Sandbox::default(),
            max_tool_name_length: defaults::NAME_LIMIT,
            search: SearchConfig::default(),
            navigator: NavigatorConfig::default(),
            limits: Limits::default(),
            http: HttpConfig::default(),
            cache: CacheConfig::default(),
            policy: PolicyConfig::default(),
            auth: None,
            shared: SharedConfig::default(),
            definitions: None,
            audit: None,
            telemetry: TelemetryConfig::default(),
            active_toolsets: Vec::new(),
            clients: BTreeMap::new(),
            toolboxes: Vec::new(),
        }
    }
}

/// How toolboxes are presented to agents (`toolMode`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ToolMode {
    /// Opening a toolbox registers its tools in the agent's own tool list.
    Dynamic,
    /// Opening a toolbox returns its tools' definitions; `use_tool` calls them.
    Proxy,
    /// Whichever of these two works in the agent's client, and both for a client that is not
    /// known.
    #[default]
    Auto,
    /// Everything is there from the start, under its own name where that is unambiguous.
    Direct,
    /// One tool switches tools and resources on and off; its description is the catalog.
    Activate,
    /// A pair of tools: one gives the definitions of a group, the other calls one of them.
    Modular,
    /// One tool finds tools by a description of the wanted ones, `use_tool` calls them.
    Search,
    /// One tool takes a task in words, finds the tool for it and calls it.
    Navigate,
    /// One server alone, as if the agent had started it itself. `expose` serves so; no file asks for it.
    Alone,
}

impl ToolMode {
    /// Every mode that a file may ask for.
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

    /// Returns `true` if primitives are called by the namespaces of their servers.
    pub fn has_namespaces(self) -> bool {
        self == Self::Activate
    }

    /// Returns `true` if one server is served as if there were nothing in between.
    pub fn is_alone(self) -> bool {
        self == Self::Alone
    }

    /// Returns the mode in which one toolbox is served alone, where this one is for all.
    pub fn of_one_toolbox(self) -> Self {
        if self.is_alone() { self } else { Self::Direct }
    }

    /// Returns the mode that we call `word`.
    pub fn from_word(word: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter().chain([Self::Alone]);
        all.find(|mode| mode.as_str() == word)
    }

    /// Returns the word for it in the file.
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
            Self::Alone => "alone",
        }
    }
}

/// A named, described set of servers (`toolboxes.<name>`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolboxConfig {
    /// The key in the file.
    pub name: ToolboxName,
    /// Its purpose, in the user's words.
    pub description: String,
    /// The prefix of the names of its primitives in `activate` mode, with a `_` between; none if
    /// empty. The toolbox's name where the file says nothing.
    pub namespace: String,
    /// Its servers that are not disabled, in the order of the file; never empty.
    pub servers: Vec<ServerConfig>,
}

impl ToolboxConfig {
    /// Returns its servers without [`MACROS`], which is none.
    pub fn launched(&self) -> impl Iterator<Item = &ServerConfig> {
        self.servers.iter().filter(|server| !matches!(server.launch, Launch::Macros(_)))
    }

    /// Returns its macros.
    pub fn macros(&self) -> impl Iterator<Item = &MacroConfig> {
        let macros = self.servers.iter().filter_map(|server| match &server.launch {
            Launch::Macros(macros) => Some(macros),
            _ => None,
        });
        macros.flatten()
    }

    /// Returns the server called `name`.
    pub fn server(&self, name: &str) -> Option<&ServerConfig> {
        self.servers.iter().find(|server| server.name.as_str() == name)
    }

    /// Returns the description, if a person has written it.
    pub fn purpose(&self) -> Option<&str> {
        let says_nothing = |server: &ServerConfig| self.description == unsaid(server.name.as_str());
        (!self.servers.iter().any(says_nothing)).then_some(&self.description)
    }
}

/// Returns the description of a toolbox that is a server, or some tools of it, where the file has
/// none.
pub fn unsaid(server: &str) -> String {
    format!("Tools of the server `{server}`")
}

/// One entry under `mcpServers`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerConfig {
    /// The key in the file.
    pub name: ServerName,
    /// Its purpose, if the file says it.
    pub description: Option<String>,
    /// How the server is reached.
    pub launch: Launch,
    /// `toolFilters` as written: names, globs and `!` globs. Empty means all.
    pub tool_filters: Vec<String>,
    /// `resourceFilters` as written: addresses, names, globs and `!` globs. Empty means all.
    pub resource_filters: Vec<String>,
    /// `promptFilters` as written. Empty means all.
    pub prompt_filters: Vec<String>,
    /// The tools that a category has (`includeNames`), as written; `None`: all.
    pub include: Option<Vec<String>>,
    /// Changes to single tools (`overrides`), by the server's names for them as written; [`ServerConfig::tool_override`] finds the one of a tool.
    pub overrides: BTreeMap<String, ToolOverride>,
    /// How long the server may take from its start to its tool list (`startupTimeoutMs`).
    pub startup_timeout: Duration,
    /// How long a call may go without an answer or progress (`callTimeoutMs`).
    pub call_timeout: Duration,
    /// How long a call may take in all, with all its progress (`totalCallTimeoutMs`).
    pub total_call_timeout: Duration,
    /// How long the server may be unused before it is stopped (`idleTimeoutMs`); `None`: it stays.
    pub idle_timeout: Option<Duration>,
    /// `true` if entries with the same launch share one process.
    pub shared: bool,
    /// `true` if it is started before anybody asks for it.
    pub eager: bool,
    /// Who shares a connection to it.
    pub isolation: Isolation,
    /// The revisions of MCP that we speak to it.
    pub protocol: Protocol,
    /// `true` if it is told the agent's roots.
    pub roots: bool,
    /// How much may be asked of it, where its entry says so.
    pub limits: Rates,
    /// How long answers of its read-only tools hold, where its entry says so.
    pub cache: CacheConfig,
    /// The fate of its definitions that are not as the lock has them, where anybody says so;
    /// [`ServerConfig::definitions`] is what holds.
    pub definitions: Option<Definitions>,
    /// The part of the lock that is about it.
    pub locked: Option<Arc<LockedServer>>,
}

impl ServerConfig {
    /// Creates a server whose other settings are those of an entry that does not mention them.
    pub fn new(name: ServerName, launch: Launch) -> Self {
        Self {
            name,
            description: None,
            launch,
            tool_filters: Vec::new(),
            resource_filters: Vec::new(),
            prompt_filters: Vec::new(),
            include: None,
            overrides: BTreeMap::new(),
            startup_timeout: Duration::from_millis(defaults::STARTUP_TIMEOUT_MS),
            call_timeout: Duration::from_millis(defaults::CALL_TIMEOUT_MS),
            total_call_timeout: Duration::from_millis(defaults::TOTAL_CALL_TIMEOUT_MS),
            idle_timeout: None,
            shared: true,
            eager: false,
            isolation: Isolation::default(),
            protocol: Protocol::default(),
            roots: false,
            limits: Rates::default(),
            cache: CacheConfig::default(),
            definitions: None,
            locked: None,
        }
    }

    /// Returns the changes to the tool that the server calls `tool`.
    ///
    /// `mcp__<server>__<tool>` means that tool too, unless the server has another that is called
    /// just so, as `has_namesake` says.
    pub fn tool_override(&self, tool: &str, has_namesake: bool) -> Option<&ToolOverride> {
        let prefixed = || self.overrides.get(&format!("{}{tool}", self.client_prefix()));
        let prefixed = if has_namesake { None } else { prefixed() };
        prefixed.or_else(|| self.overrides.get(tool))
    }

    /// Returns the prefix that clients put before the names of this server's tools.
    pub fn client_prefix(&self) -> String {
        name::client_prefix(self.name.as_str())
    }
}

/// Who shares a connection to a server (`isolation`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// All agents, until the server asks one of them something.
    #[default]
    Shared,
    /// Nobody: each session has one of its own.
    Session,
}

impl Isolation {
    /// All of them, by the words for them in the file.
    pub const WORDS: [(&str, Self); 2] = [("shared", Self::Shared), ("session", Self::Session)];
}

/// Changes to one tool (an entry of `overrides`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolOverride {
    /// `false` if the tool is hidden.
    pub enabled: Option<bool>,
    /// Its name, in place of the server's.
    pub name: Option<String>,
    /// Its description, in place of the server's.
    pub description: Option<String>,
    /// Arguments that the model neither sees nor gives; each a name and its JSON.
    pub arguments: BTreeMap<String, serde_json::Value>,
}

/// The revisions of MCP that we speak to a server (`protocol`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// Whichever the server speaks.
    #[default]
    Auto,
    /// 2024-11-05 to 2025-11-25, which begin with `initialize`.
    Legacy,
    /// 2026-07-28, where every request says itself what it needs.
    Modern,
}

impl Protocol {
    /// Returns the setting that the file calls `word`.
    pub fn from_word(word: &str) -> Option<Self> {
        match word {
            "auto" => Some(Self::Auto),
            "legacy" => Some(Self::Legacy),
            "modern" => Some(Self::Modern),
            _ => None,
        }
    }
}
