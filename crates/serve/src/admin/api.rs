//! The admin API and the handlers of its requests.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::value::RawValue;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::sleep;

use crate::admin::admin_origin::AdminOrigin;
use crate::admin::approval_statement::is_signed;
use crate::admin::audit_usage::AuditUsage;
use crate::admin::config_source::{ConfigSource, UnusedServerTools};
use crate::admin::protocol::{
    AdminError, AdminErrorKind, AdminRequest, AdminResponse, AdminSearchHit, ServerAction,
    ToolDetails,
};
use crate::admin::status::{UnusedTools, WorkbenchStatus};
use crate::admin::status_collector::{StatusCollector, millis};
use crate::admin::tool_calls::{AdminCall, WaitingCalls, verbatim};
use mcp_workbench_core::catalog::rank::{ScoreCutoff, shared_words};
use mcp_workbench_core::gateway::{
    AgentHandle, AnswerError, Caller, FailedServer, Gateway, GatewayRegistry, RequestContext,
    SignInPage, ToolMatch, ToolQuery,
};
use mcp_workbench_core::telemetry::{
    AccessDenial, AccessDenialReason, Approver, Event, estimate_tokens,
};
use mcp_workbench_names::{AgentName, ServerName, ServerRef, ToolId, ToolboxName, untrusted_text};
use mcp_workbench_settings::{Launch, ServerConfig};
use mcp_workbench_wire::json::RawJson;

const MAX_HITS: usize = 20;
/// Maximum length of a query, in bytes.
const MAX_QUERY: usize = 4096;
const MAX_UNUSED: usize = 1000;
/// Maximum number of unused tools in the patch.
const MAX_PATCHED: usize = 10_000;
/// Maximum number of a server's tools, and of bytes of their definitions.
const MAX_TOOLS: usize = 2000;
const MAX_TOOLS_BYTES: usize = 16 * 1024 * 1024;
/// Maximum length of a name in an error and of a description, in characters.
const MAX_NAME: usize = 200;
const MAX_LINE: usize = 300;
const WRONG_SIGNATURE_DELAY: Duration = Duration::from_secs(1);
const NO_KEY: &str = "this workbench has no approval key, so no call can be approved here; run \
                      `mcp-workbench approvals key`, then restart the workbench";
const NEEDS_APPROVAL: &str =
    "a call through the socket is confirmed in the approval queue: run `mcp-workbench approvals`";

/// Admin API of one workbench. Clones share their state.
#[derive(Clone)]
pub struct AdminApi(Arc<AdminInner>);

struct AdminInner {
    gateways: Arc<GatewayRegistry>,
    /// The identity used for searches and calls.
    caller: Caller,
    config_source: ConfigSource,
    audit_usage: AuditUsage,
    status: StatusCollector,
    waiting: WaitingCalls,
}

impl AdminApi {
    /// Creates an API with the permissions of `caller`.
    pub fn new(
        gateways: Arc<GatewayRegistry>,
        caller: Caller,
        config_source: ConfigSource,
    ) -> Self {
        Self(Arc::new(AdminInner {
            gateways,
            caller,
            config_source,
            audit_usage: AuditUsage::default(),
            status: StatusCollector::new(),
            waiting: WaitingCalls::default(),
        }))
    }

    pub(super) fn gateways(&self) -> &Arc<GatewayRegistry> {
        &self.0.gateways
    }

    /// Returns the current status. The first call turns on the recording of calls.
    pub fn status(&self) -> WorkbenchStatus {
        let AdminInner { gateways, caller, config_source, status, .. } = &*self.0;
        status.status(gateways, caller, &config_source.config)
    }

    /// Returns the gateway of the admin caller after it has loaded the cached listings.
    async fn gateway(&self) -> Arc<Gateway> {
        let gateway = self.0.gateways.any_gateway_for(&self.0.caller);
        gateway.views().wait_for_stored_listings().await;
        gateway
    }

    /// Handles a request whose access level has been checked.
    pub async fn handle(&self, ask: AdminRequest, origin: &AdminOrigin) -> AdminResponse {
        let answered = match ask {
            AdminRequest::View => Ok(AdminResponse::View(Box::new(self.status()))),
            AdminRequest::Act { act, toolbox, server } => {
                self.act(act, &toolbox, server.as_deref()).await
            }
            AdminRequest::Search { query } => self.search(&query).await,
            AdminRequest::Tools { toolbox, server } => self.tools(&toolbox, &server).await,
            AdminRequest::Call { toolbox, server, tool, arguments, confirmed } => {
                let tool = ToolId {
                    toolbox: ToolboxName::new(&toolbox),
                    server: ServerName::new(&server),
                    tool,
                };
                self.call(tool, arguments.as_deref(), confirmed.as_deref(), origin).await
            }
            AdminRequest::SignIn { toolbox, server } => self.sign_in(&toolbox, &server).await,
            AdminRequest::Unused => self.unused().await,
            AdminRequest::Approvals => Ok(self.approvals()),
            AdminRequest::Answer { id, approve, signature } => {
                self.answer(&id, approve, signature.as_deref(), origin).await
            }
            AdminRequest::Findings => self.findings().await,
        };
        answered.unwrap_or_else(AdminResponse::Error)
    }

    async fn act(
        &self,
        act: ServerAction,
        toolbox: &str,
        server: Option<&str>,
    ) -> Result<AdminResponse, AdminError> {
        let gateways = &self.0.gateways;
        let config = gateways.config();
        let toolbox = config.toolbox(toolbox).ok_or_else(|| no_toolbox(toolbox))?;
        let meant: Vec<&ServerConfig> = match server {
            Some(name) => vec![toolbox.server(name).ok_or_else(|| no_server(name))?],
            None => toolbox.launchable_servers().collect(),
        };
        let (mut acting, mut problems) = (JoinSet::new(), Vec::new());
        for server in meant {
            match &server.launch {
                Launch::Macros(_) => {
                    let message = "consists of macros, so it has no process";
                    problems.push(format!("`{}` {message}", server.name));
                    continue;
                }
                Launch::Unsupported { reason, hint } | Launch::Broken { reason, hint } => {
                    problems.push(format!("`{}`: {reason}; {hint}", server.name));
                    continue;
                }
                Launch::Stdio(_) | Launch::Http(_) => {}
            }
            let at = ServerRef { toolbox: toolbox.name.clone(), server: server.name.clone() };
            let (gateways, caller) = (gateways.clone(), self.0.caller.clone());
            acting.spawn(async move {
                match act {
                    ServerAction::Start => gateways.start_server(&at, &caller).await?,
                    ServerAction::Restart => gateways.restart(&at, &caller).await?,
                    ServerAction::Stop => gateways.stop_server(&at).await,
                    ServerAction::Pause => gateways.set_paused(&at, true).await,
                    ServerAction::Resume => gateways.set_paused(&at, false).await,
                }
                Ok::<(), FailedServer>(())
            });
        }
        while let Some(acted) = acting.join_next().await {
            match acted {
                Ok(Ok(())) => {}
                Ok(Err(FailedServer { server, reason, hint, .. })) => {
                    problems.push(format!("`{server}`: {reason}; {hint}"));
                }
                Err(_) => problems.push("internal error; see the log".to_owned()),
            }
        }
        problems.sort();
        if problems.is_empty() {
            Ok(AdminResponse::Done)
        } else {
            Err(AdminError::failed(problems.join("\n")))
        }
    }

    /// Calls a tool, or continues the call that asked the question `confirmed`.
    async fn call(
        &self,
        tool: ToolId,
        arguments: Option<&RawValue>,
        confirmed: Option<&str>,
        origin: &AdminOrigin,
    ) -> Result<AdminResponse, AdminError> {
        let AdminInner { gateways, caller, waiting, .. } = &*self.0;
        let arguments = arguments.map(|arguments| RawJson::encode(&arguments));
        if let Some(id) = confirmed {
            if origin.operator().is_none() {
                return Err(AdminError::not_allowed(NEEDS_APPROVAL.to_owned()));
            }
            return waiting.resume(id, &tool, arguments.as_ref()).await;
        }
        let (gateway, gateways) = (self.gateway().await, Arc::clone(gateways));
        let call = AdminCall::start(gateways, gateway, caller.clone(), tool, arguments, origin);
        waiting.run(call).await
    }

    fn approvals(&self) -> AdminResponse {
        let queue = self.0.gateways.approvals();
        AdminResponse::Approvals {
            key: queue.key().map(ToString::to_string),
            calls: queue.pending(),
        }
    }

    /// Approves or denies a waiting call. Through the socket, only the holder of the approval key
    /// can approve.
    async fn answer(
        &self,
        id: &str,
        is_approved: bool,
        signature: Option<&str>,
        origin: &AdminOrigin,
    ) -> Result<AdminResponse, AdminError> {
        let queue = self.0.gateways.approvals();
        let by = match origin {
            AdminOrigin::Operator(name) => Approver::Operator(name.clone()),
            AdminOrigin::Viewer => {
                return Err(AdminError::not_allowed("operator token required".to_owned()));
            }
            AdminOrigin::Socket if !is_approved => Approver::Local,
            AdminOrigin::Socket => {
                let Some(key) = queue.key() else {
                    return Err(AdminError::not_allowed(NO_KEY.to_owned()));
                };
                let call = queue.find(id).ok_or_else(|| unanswered(AnswerError::Unknown))?;
                if !signature.is_some_and(|signature| is_signed(&call, key, signature)) {
                    self.deny(None, AccessDenialReason::ApprovalSignature);
                    // Bounds how many attempts are verified and recorded.
                    sleep(WRONG_SIGNATURE_DELAY).await;
                    let message = "the approval isn't signed with the approval key";
                    return Err(AdminError::not_allowed(message.to_owned()));
                }
                Approver::Key
            }
        };
        let answered = queue.answer(id, is_approved, by);
        if answered == Err(AnswerError::OwnCall)
            && let AdminOrigin::Operator(name) = origin
        {
            self.deny(Some(name.clone()), AccessDenialReason::OwnCall);
        }
        answered.map(|()| AdminResponse::Done).map_err(unanswered)
    }

    fn deny(&self, agent: Option<AgentName>, reason: AccessDenialReason) {
        let denial = AccessDenial { agent, reason };
        self.0.gateways.observer().bus().emit(Event::AccessDenied(&denial, None));
    }

    async fn sign_in(&self, toolbox: &str, server: &str) -> Result<AdminResponse, AdminError> {
        let gateways = &self.0.gateways;
        let config = gateways.config();
        let toolbox = config.toolbox(toolbox).ok_or_else(|| no_toolbox(toolbox))?;
        let server = toolbox.server(server).ok_or_else(|| no_server(server))?;
        let at = ServerRef { toolbox: toolbox.name.clone(), server: server.name.clone() };
        let begun = gateways.begin_sign_in(&at, &self.0.caller).await;
        let SignInPage { address, code } = begun.map_err(|it| {
            AdminError::failed(format!("`{}`: {}; {}", it.server, it.reason, it.hint))
        })?;
        Ok(AdminResponse::SignInPage { address, code })
    }

    async fn search(&self, query: &str) -> Result<AdminResponse, AdminError> {
        if query.len() > MAX_QUERY {
            let why = AdminErrorKind::Malformed;
            let message =
                format!("the query is {} bytes long; the limit is {MAX_QUERY}", query.len());
            return Err(AdminError { kind: why, message });
        }
        let gateway = self.gateway().await;
        let no_agent = AgentHandle::new(None);
        let sought = ToolQuery {
            query,
            toolbox: None,
            server: None,
            finds: ScoreCutoff::Relevant,
            limit: MAX_HITS,
        };
        let found = gateway.search().find(sought, &RequestContext::detached(&no_agent)).await;
        let hits = found.iter().map(|found| hit(query, found)).collect();
        Ok(AdminResponse::Hits { hits })
    }

    async fn tools(&self, toolbox: &str, server: &str) -> Result<AdminResponse, AdminError> {
        let gateway = self.gateway().await;
        let config = gateway.config().toolbox(toolbox).ok_or_else(|| no_toolbox(toolbox))?;
        let server = config.server(server).ok_or_else(|| no_server(server))?;
        let view = gateway.snapshot().view(&config.name);
        let listed = view.tools_of(&server.name);
        let mut left = MAX_TOOLS_BYTES;
        let mut tools: Vec<_> = listed
            .iter()
            .take(MAX_TOOLS)
            .take_while(|tool| {
                left = left.saturating_sub(tool.definition.raw.len());
                left > 0
            })
            .map(|tool| ToolDetails {
                name: tool.id.tool.clone(),
                description: untrusted_text::clean_lines(
                    tool.definition.description.as_deref().unwrap_or_default(),
                ),
                input_schema: verbatim(tool.definition.schema()),
                is_dangerous: gateway.access().is_dangerous(tool),
                tokens: estimate_tokens(tool.definition.raw.len()) as u64,
            })
            .collect();
        tools.sort_by(|one, other| one.name.cmp(&other.name));
        let omitted = listed.len() - tools.len();
        Ok(AdminResponse::Tools { tools, omitted })
    }

    async fn unused(&self) -> Result<AdminResponse, AdminError> {
        let gateway = self.gateway().await;
        let audit = self.0.gateways.config().audit.as_ref().map(|audit| audit.file.clone());
        let audited = match audit {
            Some(file) => Some(self.0.audit_usage.used(file).await?),
            None => None,
        };
        let (noted, used) = self.0.gateways.observer().live().used_tools();
        let is_used = |tool: &ToolId| match &audited {
            Some(audited) => audited.contains(tool),
            None => used.contains(&(tool.toolbox.clone(), tool.server.clone(), tool.tool.clone())),
        };
        let idle = unused_server_tools(&gateway, is_used);
        let tools = idle.iter().flat_map(|server| {
            let (toolbox, server_name) = (server.toolbox.clone(), server.server.clone());
            let tools = server.tools.iter();
            tools.map(move |(tool, _)| (toolbox.clone(), server_name.clone(), tool.clone()))
        });
        let tools = tools.take(MAX_UNUSED).collect();
        let since = match &audited {
            Some(audited) => audited.since,
            None if noted > 0 => noted,
            None => millis(SystemTime::now()),
        };
        let mut idle = idle;
        let mut room = MAX_PATCHED;
        for server in &mut idle {
            server.tools.truncate(room);
            room -= server.tools.len();
        }
        let patch =
            self.with_config_source(move |config_source| (config_source.patch)(&idle)).await?;
        Ok(AdminResponse::Unused(UnusedTools { since, tools, patch }))
    }

    async fn findings(&self) -> Result<AdminResponse, AdminError> {
        let file = self.0.config_source.config.clone();
        let (text, findings) =
            self.with_config_source(|config_source| (config_source.findings)()).await?;
        Ok(AdminResponse::Findings { file, text, findings })
    }

    async fn with_config_source<T: Send + 'static>(
        &self,
        work: impl FnOnce(&ConfigSource) -> Result<T, String> + Send + 'static,
    ) -> Result<T, AdminError> {
        let admin = self.clone();
        let done = spawn_blocking(move || work(&admin.0.config_source)).await;
        done.map_err(|error| AdminError::failed(error.to_string()))?.map_err(AdminError::failed)
    }
}

fn unanswered(error: AnswerError) -> AdminError {
    let kind = match error {
        AnswerError::Unknown => AdminErrorKind::Unknown,
        AnswerError::OwnCall => AdminErrorKind::NotAllowed,
    };
    AdminError { kind, message: error.to_string() }
}

fn hit(query: &str, found: &ToolMatch) -> AdminSearchHit {
    let tool = found.tool();
    let description = tool.definition.summary().unwrap_or_default();
    let whole = tool.definition.description.as_deref().unwrap_or_default();
    let text = format!("{} {} {whole}", tool.id.server, tool.id.tool);
    AdminSearchHit {
        toolbox: tool.id.toolbox.to_string(),
        server: tool.id.server.to_string(),
        tool: tool.id.tool.clone(),
        description: untrusted_text::single_line(&description).chars().take(MAX_LINE).collect(),
        score: found.rounded_score(),
        is_likely: found.fits_well(),
        words: shared_words(query, &text),
    }
}

fn unused_server_tools(
    gateway: &Gateway,
    is_used: impl Fn(&ToolId) -> bool,
) -> Vec<UnusedServerTools> {
    let snapshot = gateway.snapshot();
    let mut all = Vec::new();
    for toolbox in &gateway.config().toolboxes {
        let view = snapshot.view(&toolbox.name);
        for server in toolbox.launchable_servers() {
            let shown = view.tools_of(&server.name);
            let unused = shown.iter().filter(|tool| !is_used(&tool.id));
            all.push(UnusedServerTools {
                toolbox: toolbox.name.to_string(),
                server: server.name.to_string(),
                tools: unused
                    .map(|tool| (tool.id.tool.clone(), tool.server_definition.name.clone()))
                    .collect(),
                shown: shown.len(),
            });
        }
    }
    all
}

fn no_toolbox(name: &str) -> AdminError {
    let message = format!("unknown toolbox `{}`", untrusted_text::display_name(name, MAX_NAME));
    AdminError { kind: AdminErrorKind::Unknown, message }
}

fn no_server(name: &str) -> AdminError {
    let message =
        format!("the toolbox has no server `{}`", untrusted_text::display_name(name, MAX_NAME));
    AdminError { kind: AdminErrorKind::Unknown, message }
}
