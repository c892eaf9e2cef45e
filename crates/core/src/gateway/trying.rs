//! Which toolboxes can be had: what is known of one, and a short try of all that nothing is known
//! of.

use std::time::Duration;

use tokio::time::timeout;

use crate::gateway::{FailedServer, Gateway, RequestContext};
use crate::settings::ToolboxConfig;

impl Gateway {
    /// Starts the servers that nothing is known of, if that has not been tried, and waits for as
    /// long as `patience` at most to see which of them fail; what is slower goes on by itself.
    pub async fn try_unlisted(&self, context: &RequestContext<'_>, patience: Duration) {
        let tried = async {
            if timeout(patience, self.ensure_listed(context)).await.is_err() {
                tracing::info!("some servers are still starting after {} s", patience.as_secs());
            }
        };
        self.once.tried.get_or_init(|| tried).await;
    }

    /// The servers of a toolbox that cannot be started, or could not the last time that it was
    /// tried, in the order of the configuration.
    pub fn failures_of(&self, toolbox: &ToolboxConfig) -> Vec<FailedServer> {
        let failures = self.failures().into_iter();
        let of_it = failures.filter(|(server, _)| server.toolbox == toolbox.name);
        of_it.map(|(_, failed)| failed).collect()
    }

    /// Returns `true` if all servers of a toolbox have been listed, now or when they last ran, and none
    /// has failed since. See [`Self::recalled`].
    pub fn is_known(&self, toolbox: &ToolboxConfig) -> bool {
        self.unlisted().iter().all(|server| server.toolbox != toolbox.name)
            && self.failures_of(toolbox).is_empty()
    }

    /// Returns `true` if that is what they list now.
    pub fn is_current(&self, toolbox: &ToolboxConfig) -> bool {
        self.remembered().iter().all(|(server, _)| server.toolbox != toolbox.name)
            && self.is_known(toolbox)
    }
}
