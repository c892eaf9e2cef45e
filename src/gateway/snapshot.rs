//! What everybody sees: the views of all toolboxes, written by one task, read by all.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::{mpsc, watch};

use crate::backend::{BackendId, Listed, ListingChanged};
use crate::catalog::Listing;
use crate::config::Config;
use crate::name::{ExposedName, NameTable, ServerName, ToolId, ToolboxName};
use crate::policy::Policy;
use crate::toolbox::View;

/// The views of all toolboxes at one moment; immutable.
#[derive(Debug, Default)]
pub struct Snapshot {
    views: HashMap<ToolboxName, Arc<View>>,
    names: NameTable,
    versions: HashMap<BackendId, u64>,
}

impl Snapshot {
    /// What a toolbox shows; empty while none of its servers has been listed.
    pub fn view(&self, toolbox: &ToolboxName) -> Arc<View> {
        self.views.get(toolbox).cloned().unwrap_or_default()
    }

    /// The tool that a registered name means.
    pub fn resolve(&self, name: &str) -> Option<&ToolId> {
        self.names.resolve(name)
    }

    /// Every registered name, in no order.
    pub fn names(&self) -> impl Iterator<Item = &ExposedName> {
        self.names.names()
    }

    /// Which of a backend's listings is shown; 0 while none is.
    pub(crate) fn version(&self, backend: BackendId) -> u64 {
        self.versions.get(&backend).copied().unwrap_or_default()
    }
}

/// The one writer of snapshots.
pub(crate) struct Writer {
    config: Arc<Config>,
    policy: Arc<Policy>,
    /// Which backend a toolbox's server is.
    sources: HashMap<(ToolboxName, ServerName), BackendId>,
    listings: HashMap<BackendId, Listed>,
}

impl Writer {
    pub(crate) fn new(
        config: Arc<Config>,
        policy: Arc<Policy>,
        sources: HashMap<(ToolboxName, ServerName), BackendId>,
    ) -> Self {
        Self { config, policy, sources, listings: HashMap::new() }
    }

    /// Publishes a new snapshot for every change, until nobody can change anything any more.
    pub(crate) async fn run(
        mut self,
        mut changes: mpsc::Receiver<ListingChanged>,
        publish: watch::Sender<Arc<Snapshot>>,
    ) {
        while let Some(ListingChanged { backend, listed }) = changes.recv().await {
            self.listings.insert(backend, listed);
            let next = self.next(&publish.borrow(), backend);
            publish.send_replace(Arc::new(next));
        }
    }

    /// The snapshot after `last` in which one backend has changed.
    fn next(&self, last: &Snapshot, changed: BackendId) -> Snapshot {
        let mut next = Snapshot {
            views: last.views.clone(),
            names: NameTable::default(),
            versions: last.versions.clone(),
        };
        let listed = &self.listings[&changed];
        next.versions.insert(changed, listed.version);
        let limit = self.config.max_tool_name_length;
        for toolbox in &self.config.toolboxes {
            let source = |server: &ServerName| {
                self.sources.get(&(toolbox.name.clone(), server.clone())).copied()
            };
            if toolbox.servers.iter().all(|server| source(&server.name) != Some(changed)) {
                continue;
            }
            let listing = |server: &ServerName| -> Option<&Listing> {
                Some(&*self.listings.get(&source(server)?)?.listing)
            };
            let view = View::new(toolbox, listing, &self.policy, limit);
            next.views.insert(toolbox.name.clone(), Arc::new(view));
        }
        let toolboxes = self.config.toolboxes.iter();
        let views = toolboxes.filter_map(|toolbox| next.views.get(&toolbox.name));
        for tool in views.flat_map(|view| &view.tools) {
            next.names.insert(tool.name.clone(), tool.id.clone());
        }
        next
    }
}
