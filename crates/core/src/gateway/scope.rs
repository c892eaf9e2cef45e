//! The scope of a gateway: the caller, and the configuration and policy that apply to it.

use std::sync::Arc;

use crate::backend::{APPS_NAME, ClientCapabilities, RpcOutcome};
use crate::catalog::ServerCapabilities;
use crate::gateway::caller::Caller;
use crate::gateway::clock::Clock;
use crate::gateway::error::CallError;
use crate::gateway::interner::Interner;
use crate::policy::Policy;
use mcp_workbench_names::{ServerName, ServerRef, ToolId, ToolboxName};
use mcp_workbench_settings::{Config, ServerConfig, ToolboxConfig};
use mcp_workbench_wire::json::{self, RawJson};

/// Extensions that the workbench implements itself: tasks, and the pages of MCP Apps.
const OWN_EXTENSIONS: [&str; 2] = ["io.modelcontextprotocol/tasks", APPS_NAME];

/// What all components of a gateway know: its caller, with the configuration and policy for it.
pub struct GatewayScope {
    pub(crate) caller: Caller,
    pub(crate) config: Arc<Config>,
    pub(crate) policy: Arc<Policy>,
    pub(crate) interner: Arc<Interner>,
    pub(crate) clock: Clock,
    pub(crate) capabilities: ClientCapabilities,
    /// `true` if sessions may use the names of `activate` mode.
    pub(crate) is_namespaced: bool,
}

impl GatewayScope {
    /// Returns `true` if the client shows the pages of MCP Apps.
    pub fn shows_apps(&self) -> bool {
        self.capabilities.has_apps()
    }

    /// Returns the toolbox named `name`, or an error that lists the known ones.
    pub fn toolbox(&self, name: &str) -> Result<&ToolboxConfig, CallError> {
        self.config.toolbox(name).ok_or_else(|| CallError::UnknownToolbox {
            wanted: name.to_owned(),
            known: self.config.toolboxes.iter().map(|t| t.name.to_string()).collect(),
        })
    }

    /// Splits a workbench URI into the server and the server's own resource URI.
    pub fn resolve_own_uri(&self, uri: &str) -> Option<(ServerRef, String)> {
        self.server_refs().find_map(|at| {
            let own = uri.strip_prefix(&mcp_workbench_names::uri_prefix(&at))?.to_owned();
            Some((at, own))
        })
    }

    /// Returns the server whose URIs are in the result of a call. If a macro returns its last
    /// step's result, it is that step's server.
    pub fn result_server(&self, tool: &ToolId) -> ServerRef {
        let passed_on = self.config.macro_at(tool).filter(|config| config.result.is_none());
        let last = passed_on.and_then(|config| config.steps.last());
        last.map_or_else(|| tool.server_ref(), |step| step.tool.server_ref())
    }

    /// Returns the extensions to declare for a server: those that the workbench implements, and all
    /// of the server's if its entry lists methods.
    pub fn usable_extensions(
        &self,
        at: &ServerRef,
        capabilities: &ServerCapabilities,
    ) -> Vec<json::Member> {
        let declared = capabilities.extensions.as_ref().and_then(RawJson::members);
        let mut declared = declared.unwrap_or_default();
        let is_open = self.server(at).is_some_and(|server| !server.extension_methods.is_empty());
        declared.retain(|(name, _)| is_open || is_own_extension(name));
        declared
    }

    /// Returns all servers, in configuration order.
    pub(crate) fn server_refs(&self) -> impl Iterator<Item = ServerRef> {
        self.config.servers().map(|(toolbox, server)| server_ref(&toolbox.name, &server.name))
    }

    pub(crate) fn server(&self, at: &ServerRef) -> Option<&ServerConfig> {
        self.config.toolbox(at.toolbox.as_str())?.server(at.server.as_str())
    }

    pub(crate) fn enforces_lock(&self, at: &ServerRef) -> bool {
        self.server(at).is_some_and(|server| server.effective_drift_policy().is_enforced())
    }

    /// Returns `true` if the outcome will be truncated for the agent.
    pub(crate) fn is_over_result_limit(&self, outcome: &RpcOutcome) -> bool {
        let most = self.config.limits.max_result_bytes;
        most.is_some_and(
            |most| matches!(outcome, RpcOutcome::Result(result) if result.len() > most),
        )
    }
}

/// Returns `true` if the workbench implements the extension for all servers together.
pub fn is_own_extension(name: &str) -> bool {
    OWN_EXTENSIONS.contains(&name)
}

pub(crate) fn server_ref(toolbox: &ToolboxName, server: &ServerName) -> ServerRef {
    ServerRef { toolbox: toolbox.clone(), server: server.clone() }
}
