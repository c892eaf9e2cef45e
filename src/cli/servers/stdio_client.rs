//! A minimal MCP client for one server on stdio.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

use mcp_workbench_core::backend::handshake::{self, HandshakeResult};
use mcp_workbench_core::backend::launch::{self, Process};
use mcp_workbench_core::backend::listing_reader::{self, ListKinds};
use mcp_workbench_core::backend::server_quota::ServerQuota;
use mcp_workbench_core::backend::{Era, PoolOptions, StderrTail};
use mcp_workbench_core::catalog::{Listing, ToolDefinition};
use mcp_workbench_names::{BUILTIN_TOOL_NAMES, ServerName, ServerRef, ToolboxName};
use mcp_workbench_settings::{Limits, Protocol, ServerLimits, StdioLaunch};
use mcp_workbench_wire::incoming::IncomingMessage;
use mcp_workbench_wire::json::{self as raw_json, RawJson};
use mcp_workbench_wire::server::{self, ServerConnection};

const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) struct StdioClient {
    process: Process,
    connection: ServerConnection,
    handshake: HandshakeResult,
    quota: ServerQuota,
    tools_changed: Arc<Notify>,
    stderr: StderrTail,
    drain: JoinHandle<()>,
}

/// The definitions and instructions that a workbench shows a client at startup.
pub(crate) struct StartupSize {
    /// Of the instructions and all tools.
    pub(crate) bytes: usize,
    /// `true` if tools of the workbench itself are listed, such as `open_toolbox`.
    pub(crate) has_own_tools: bool,
}

impl StdioClient {
    pub(crate) async fn start(
        launch: &StdioLaunch,
        options: &PoolOptions,
        tasks: &TaskTracker,
    ) -> Result<Self, String> {
        let SpawnedServer { process, connection, tools_changed, stderr, drain } =
            SpawnedServer::spawn(launch, options, tasks).await?;
        let nothing = raw_json::object([]);
        let handshake = handshake::negotiate(
            &connection,
            Protocol::Legacy,
            Era::Legacy,
            &nothing,
            HANDSHAKE_TIMEOUT,
        )
        .await;
        let handshake =
            handshake.map_err(|unwelcome| format!("{unwelcome:?}\n{}", stderr.text()))?;
        let quota = ServerQuota::new(
            ServerRef { toolbox: ToolboxName::new("demo"), server: ServerName::new("demo") },
            ServerLimits::default(),
            Arc::clone(&options.observer),
        );
        Ok(Self { process, connection, handshake, quota, tools_changed, stderr, drain })
    }

    /// Returns the size of the instructions and tools that a workbench shows a client of this name
    /// and version at startup.
    pub(crate) async fn startup_size(
        launch: &StdioLaunch,
        options: &PoolOptions,
        tasks: &TaskTracker,
        (name, version): (&str, &str),
    ) -> Result<StartupSize, String> {
        let running = SpawnedServer::spawn(launch, options, tasks).await?;
        let params = [
            ("protocolVersion", &RawJson::encode(&"2025-06-18")),
            ("capabilities", &raw_json::object([])),
            ("clientInfo", &RawJson::encode(&json!({ "name": name, "version": version }))),
        ];
        let ask = async |method: &str, params: &[(&str, &RawJson)]| {
            let answer = listing_reader::ask(&running.connection, method, params, &[]).await;
            let answer =
                answer.map_err(|unread| format!("{}\n{}", unread.why, running.stderr.text()))?;
            serde_json::from_str::<Value>(&answer.as_str()).map_err(|error| error.to_string())
        };
        let hello = ask("initialize", &params).await?;
        running.connection.notify("notifications/initialized", None);
        let tools = ask("tools/list", &[]).await?;
        let tools: Vec<&Value> = tools["tools"].as_array().into_iter().flatten().collect();
        let has_own_tools = tools
            .iter()
            .filter_map(|tool| tool["name"].as_str())
            .any(|name| BUILTIN_TOOL_NAMES.contains(&name));
        let tools: usize = tools.iter().map(|tool| tool.to_string().len()).sum();
        let instructions = hello["instructions"].as_str().map_or(0, str::len);
        running.connection.close_input();
        running.process.end().await;
        running.drain.abort();
        Ok(StartupSize { bytes: tools + instructions, has_own_tools })
    }

    pub(crate) fn instructions(&self) -> String {
        self.handshake.instructions.clone().unwrap_or_default()
    }

    pub(crate) async fn tools(&self) -> Result<Vec<Arc<ToolDefinition>>, String> {
        let kinds = ListKinds { tools: true, ..ListKinds::default() };
        let before = Listing::default();
        let listing =
            listing_reader::read(&self.connection, &self.handshake, &before, kinds, &self.quota);
        listing.await.map(|listing| listing.tools).map_err(|unread| self.explain(&unread.why))
    }

    pub(crate) async fn call(&self, tool: &str, arguments: &Value) -> Result<RawJson, String> {
        let (name, arguments) = (RawJson::encode(&tool), RawJson::encode(arguments));
        let params = [("name", &name), ("arguments", &arguments)];
        listing_reader::ask(&self.connection, "tools/call", &params, &self.handshake.meta)
            .await
            .map_err(|unread| self.explain(&unread.why))
    }

    /// Resolves on the next `notifications/tools/list_changed`.
    pub(crate) async fn changed(&self) {
        self.tools_changed.notified().await;
    }

    fn explain(&self, error: &str) -> String {
        format!("{error}\n{}", self.stderr.text())
    }

    pub(crate) async fn end(self) {
        self.connection.close_input();
        self.process.end().await;
        self.drain.abort();
    }
}

/// A server process and the connection to it.
struct SpawnedServer {
    process: Process,
    connection: ServerConnection,
    tools_changed: Arc<Notify>,
    stderr: StderrTail,
    drain: JoinHandle<()>,
}

impl SpawnedServer {
    async fn spawn(
        launch: &StdioLaunch,
        options: &PoolOptions,
        tasks: &TaskTracker,
    ) -> Result<Self, String> {
        let program = options.program.as_deref();
        let (process, streams) = launch::spawn(launch, &options.environment, program)
            .await
            .map_err(|failure| failure.reason)?;
        let stderr = StderrTail::new(Arc::default());
        let drain = tasks.spawn(stderr.clone().drain(streams.stderr, "demo".to_owned()));
        let max = Limits::default().max_message_bytes;
        let tools_changed = Arc::new(Notify::new());
        let changed = Arc::clone(&tools_changed);
        let hear = move |incoming| {
            if let IncomingMessage::Notification { method, .. } = incoming
                && method == "notifications/tools/list_changed"
            {
                changed.notify_one();
            }
        };
        let connection = server::connect(streams.stdout, streams.stdin, max, "demo", hear, tasks);
        Ok(Self { process, connection, tools_changed, stderr, drain })
    }
}
