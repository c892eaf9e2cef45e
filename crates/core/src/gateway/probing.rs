//! Availability of toolboxes, and a short startup of unlisted servers.

use std::time::Duration;

use tokio::time::timeout;

use crate::gateway::{FailedServer, Gateway, RequestContext};
use crate::settings::ToolboxConfig;

impl Gateway {
    /// Starts the unlisted servers once and waits at most for `patience` to see which fail. Slower
    /// ones continue to start.
    pub async fn probe_unlisted(&self, context: &RequestContext<'_>, patience: Duration) {
        let tried = async {
            if timeout(patience, self.ensure_listed(context)).await.is_err() {
                tracing::info!("some servers are still starting after {} s", patience.as_secs());
            }
        };
        self.once.tried.get_or_init(|| tried).await;
    }

    /// Returns the servers of a toolbox that can't be started or whose last start failed, in
    /// configuration order.
    pub fn failed_servers_in(&self, toolbox: &ToolboxConfig) -> Vec<FailedServer> {
        let failures = self.failed_servers().into_iter();
        let of_it = failures.filter(|(server, _)| server.toolbox == toolbox.name);
        of_it.map(|(_, failed)| failed).collect()
    }

    /// Returns `true` if all servers of a toolbox have a current or stored listing and none has
    /// failed since. Call [`Self::wait_for_stored_listings`] first.
    pub fn is_fully_listed(&self, toolbox: &ToolboxConfig) -> bool {
        self.unlisted().iter().all(|server| server.toolbox != toolbox.name)
            && self.failed_servers_in(toolbox).is_empty()
    }

    /// Returns `true` if all servers of a toolbox have a current listing and none has failed.
    pub fn is_current(&self, toolbox: &ToolboxConfig) -> bool {
        self.stored_listings().iter().all(|(server, _)| server.toolbox != toolbox.name)
            && self.is_fully_listed(toolbox)
    }
}
