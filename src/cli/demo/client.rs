//! The demo's MCP client: one server on stdio, spoken to as an agent's program would.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

use crate::backend::handshake::{self, Ears, Era, Session};
use crate::backend::launch::{self, Process};
use crate::backend::{PoolOptions, StderrTail};
use crate::catalog::ToolDefinition;
use crate::config::{Limits, StdioLaunch};
use crate::raw::Raw;
use crate::wire::server::{self, Link};

/// A session with one server.
pub(super) struct Client {
    process: Process,
    link: Link,
    session: Session,
    tools_changed: Arc<Notify>,
    stderr: StderrTail,
    drain: JoinHandle<()>,
}

impl Client {
    /// Starts a server and shakes hands with it.
    pub(super) async fn start(
        launch: &StdioLaunch,
        options: &PoolOptions,
        tasks: &TaskTracker,
    ) -> Result<Self, String> {
        let program = options.program.as_deref();
        let (process, streams) = launch::spawn(launch, &options.environment, program)
            .map_err(|failure| failure.reason)?;
        let stderr = StderrTail::new([]);
        let drain = tasks.spawn(stderr.clone().drain(streams.stderr, "demo".to_owned()));
        let max = Limits::default().max_message_bytes;
        let (link, transport) = server::connect(streams.stdout, streams.stdin, max, "demo", tasks);
        let tools_changed = Arc::new(Notify::new());
        let ears = Ears { tools_changed: Arc::clone(&tools_changed) };
        let session = handshake::begin(transport, ears, Era::Legacy)
            .await
            .map_err(|error| format!("{error}\n{}", stderr.text()))?;
        Ok(Self { process, link, session, tools_changed, stderr, drain })
    }

    /// What the server says of itself to every client.
    pub(super) fn instructions(&self) -> String {
        let server = self.session.service.peer().peer_info();
        server.and_then(|server| server.instructions.clone()).unwrap_or_default()
    }

    /// The server's tools.
    pub(super) async fn tools(&self) -> Result<Vec<Arc<ToolDefinition>>, String> {
        let listing = handshake::list_tools(&self.link, &self.session.meta, "demo").await;
        listing.map(|listing| listing.tools).map_err(|e| self.explain(&e))
    }

    /// The result of a call.
    pub(super) async fn call(&self, tool: &str, arguments: &Value) -> Result<Raw, String> {
        let (name, arguments) = (Raw::encode(&tool), Raw::encode(arguments));
        let params = [("name", &name), ("arguments", &arguments)];
        handshake::ask(&self.link, "tools/call", &params, &self.session.meta)
            .await
            .map_err(|error| self.explain(&error))
    }

    /// Resolves when the server says that its tools have changed.
    pub(super) async fn changed(&self) {
        self.tools_changed.notified().await;
    }

    fn explain(&self, error: &str) -> String {
        format!("{error}\n{}", self.stderr.text())
    }

    /// Ends the session and the server.
    pub(super) async fn end(self) {
        self.link.close_input();
        drop(self.session);
        self.process.end().await;
        self.drain.abort();
    }
}
