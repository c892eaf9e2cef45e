//! What `rmcp` asks of a server: handshakes of both eras, and subscriptions.

use std::sync::Arc;

use rmcp::model::{
    DiscoverRequestMethod, DiscoverResult, Implementation, InitializeRequestParams,
    InitializeResult, ServerCapabilities, ServerConfig, SubscriptionFilter,
};
use rmcp::service::{RequestContext, SubscriptionContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use tokio_util::sync::CancellationToken;

use crate::exposure::Surface;
use crate::frontend::session::Session;

/// The protocol side of one session.
pub(crate) struct Handler {
    session: Arc<Session>,
    ended: CancellationToken,
}

impl Handler {
    pub(crate) fn new(session: Arc<Session>, ended: CancellationToken) -> Self {
        Self { session, ended }
    }

    fn config(&self, surface: Surface) -> ServerConfig {
        let capabilities =
            ServerCapabilities::builder().enable_tools().enable_tool_list_changed().build();
        ServerConfig::new(capabilities)
            .with_server_info(
                Implementation::new("mcp-workbench", env!("CARGO_PKG_VERSION"))
                    .with_title("MCP Workbench"),
            )
            .with_instructions(self.session.exposure().instructions(surface))
    }
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        self.config(Surface::Changing)
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        tracing::info!(
            client = request.client_info.name,
            version = request.client_info.version,
            protocol = %request.protocol_version,
            "an agent has connected"
        );
        context.peer.set_peer_info(request.clone());
        self.negotiate_initialize(&request)
    }

    /// Where lists change as toolboxes are opened, the modern revision would not allow it; so it
    /// is not offered, and clients of both eras go on to `initialize`.
    async fn discover(&self, _: RequestContext<RoleServer>) -> Result<DiscoverResult, ErrorData> {
        if self.session.exposure().changes_lists() {
            return Err(ErrorData::method_not_found::<DiscoverRequestMethod>());
        }
        Ok(DiscoverResult::from_server_info(
            self.supported_protocol_versions().into_owned(),
            self.config(Surface::Constant),
        ))
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    /// Keeps the subscription open. Its lists are constant while the configuration is.
    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        tokio::select! {
            () = context.cancelled() => {}
            () = self.ended.cancelled() => {}
        }
        Ok(())
    }
}
