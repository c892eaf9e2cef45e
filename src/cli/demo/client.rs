//! The demo's MCP client: one server on stdio, spoken to as an agent's program would.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

use crate::backend::handshake::{self, Greeting};
use crate::backend::launch::{self, Process};
use crate::backend::lists::{self, Kinds};
use crate::backend::{Era, PoolOptions, StderrTail};
use crate::catalog::{Listing, ToolDefinition};
use crate::raw::{self, Raw};
use crate::settings::{Limits, Protocol, StdioLaunch};
use crate::wire::incoming::Incoming;
use crate::wire::server::{self, Link};

/// How long the workbench, or a server, may take to greet.
const PATIENCE: Duration = Duration::from_secs(30);

/// A session with one server.
pub(in crate::cli) struct Client {
    process: Process,
    link: Link,
    greeting: Greeting,
    tools_changed: Arc<Notify>,
    stderr: StderrTail,
    drain: JoinHandle<()>,
}

impl Client {
    /// Starts a server and shakes hands with it.
    pub(in crate::cli) async fn start(
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
            if let Incoming::Notification { method, .. } = incoming
                && method == "notifications/tools/list_changed"
            {
                changed.notify_one();
            }
        };
        let link = server::connect(streams.stdout, streams.stdin, max, "demo", hear, tasks);
        let nothing = raw::object([]);
        let greeting =
            handshake::begin(&link, Protocol::Legacy, Era::Legacy, &nothing, PATIENCE).await;
        let greeting = greeting.map_err(|unwelcome| format!("{unwelcome:?}\n{}", stderr.text()))?;
        Ok(Self { process, link, greeting, tools_changed, stderr, drain })
    }

    /// The server's instructions to every client.
    pub(in crate::cli) fn instructions(&self) -> String {
        self.greeting.instructions.clone().unwrap_or_default()
    }

    /// The server's tools.
    pub(in crate::cli) async fn tools(&self) -> Result<Vec<Arc<ToolDefinition>>, String> {
        let kinds = Kinds { tools: true, ..Kinds::default() };
        let before = Listing::default();
        let listing = lists::read(&self.link, &self.greeting, &before, kinds, "demo");
        listing.await.map(|listing| listing.tools).map_err(|unread| self.explain(&unread.why))
    }

    /// The result of a call.
    pub(super) async fn call(&self, tool: &str, arguments: &Value) -> Result<Raw, String> {
        let (name, arguments) = (Raw::encode(&tool), Raw::encode(arguments));
        let params = [("name", &name), ("arguments", &arguments)];
        lists::ask(&self.link, "tools/call", &params, &self.greeting.meta)
            .await
            .map_err(|unread| self.explain(&unread.why))
    }

    /// Resolves when the server says that its tools have changed.
    pub(super) async fn changed(&self) {
        self.tools_changed.notified().await;
    }

    fn explain(&self, error: &str) -> String {
        format!("{error}\n{}", self.stderr.text())
    }

    /// Ends the session and the server.
    pub(in crate::cli) async fn end(self) {
        self.link.close_input();
        self.process.end().await;
        self.drain.abort();
    }
}
