//! Immutable snapshots of all toolbox views, written by one task per gateway.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::SystemTime;

use foldhash::{HashMap, HashMapExt};
use tokio::sync::{mpsc, watch};

use crate::backend::{
    BackendChange, BackendError, BackendId, ChangeKind, LastKnownListing, VersionedListing,
};
use crate::catalog::Listing;
use crate::gateway::drift::ListingDrift;
use crate::gateway::lens::{Lens, ReportedConflicts};
use crate::gateway::macros::{ToolboxMacros, UnavailableMacro};
use crate::gateway::scope::GatewayScope;
use crate::policy::{DriftAction, UnixTime};
use crate::telemetry::EventBus;
use crate::toolbox::{ExposedTool, NamespaceTable, ServerView, ToolboxView};
use mcp_workbench_names::{
    ExposedName, PrimitiveId, PrimitiveNameTable, ServerName, ServerRef, ToolId, ToolboxName,
};
use mcp_workbench_settings::{ServerConfig, ToolboxConfig};

/// The views of all toolboxes at one moment; immutable.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    lens: Arc<Lens>,
    lacking: Vec<UnavailableMacro>,
    /// Servers that crashed and weren't restarted.
    crashed: HashSet<ServerRef>,
    drift: HashMap<ServerRef, Arc<ListingDrift>>,
    versions: HashMap<BackendId, u64>,
    /// When a stored listing was last confirmed, for backends not listed since.
    remembered: HashMap<BackendId, SystemTime>,
    has_recalled: bool,
}

impl Snapshot {
    pub(crate) fn nothing(has_recalled: bool) -> Self {
        Self { has_recalled, ..Self::default() }
    }

    /// Returns the view of a toolbox; empty if none of its servers was listed.
    pub fn view(&self, toolbox: &ToolboxName) -> Arc<ToolboxView> {
        self.lens.views().get(toolbox).cloned().unwrap_or_default()
    }

    /// Returns the views of all servers, in configuration order.
    pub fn parts(&self) -> impl Iterator<Item = &ServerView> {
        self.lens.parts()
    }

    /// Resolves a registered name.
    pub fn resolve_registered(&self, name: &str) -> Option<&ToolId> {
        self.lens.registered().resolve(name)
    }

    /// Resolves a tool's registered name, unambiguous own name or `server:tool`.
    pub fn resolve(&self, name: &str) -> Option<ToolId> {
        self.lens.resolve(name)
    }

    /// Returns the name of a tool in a flat list: its own name if unambiguous, else the registered
    /// one. `None` if that resolves to another tool, such as the same one in an earlier toolbox.
    pub fn direct_name<'a>(&self, tool: &'a ExposedTool) -> Option<&'a str> {
        self.lens.direct_name(tool)
    }

    /// Tools by their own names where unambiguous, and by registered names.
    pub fn tools(&self) -> &PrimitiveNameTable {
        self.lens.tools()
    }

    /// Prompts by exposed name.
    pub fn prompts(&self) -> &PrimitiveNameTable {
        self.lens.prompts()
    }

    /// Resources by exposed URI.
    pub fn uri_names(&self) -> &PrimitiveNameTable {
        self.lens.uri_names()
    }

    /// Resource templates by exposed URI.
    pub fn templates(&self) -> &PrimitiveNameTable {
        self.lens.templates()
    }

    /// Returns the exposed URI of a server's resource.
    pub fn exposed_uri(&self, server: &ServerRef, uri: &str) -> String {
        if self.is_changed_uri(uri) {
            mcp_workbench_names::qualified_uri(server, uri)
        } else {
            uri.to_owned()
        }
    }

    /// Returns `true` if a listed resource or template has another exposed URI, because several
    /// servers list this one or it could be mistaken for a workbench URI.
    pub fn is_changed_uri(&self, uri: &str) -> bool {
        self.uri_names().is_qualified(uri) || self.templates().is_qualified(uri)
    }

    /// Returns `true` for a URI that several servers list, so that it leads to none of them.
    pub fn is_ambiguous_uri(&self, uri: &str) -> bool {
        !mcp_workbench_names::has_our_scheme(uri)
            && self.is_changed_uri(uri)
            && self.uri_names().resolve(uri).is_none()
    }

    /// Returns the exposed name of a server's prompt.
    pub fn exposed_prompt(&self, server: &ServerRef, prompt: &str) -> String {
        if self.prompts().is_qualified(prompt) {
            self.full_prompt(server, prompt)
        } else {
            prompt.to_owned()
        }
    }

    pub(crate) fn full_prompt(&self, server: &ServerRef, prompt: &str) -> String {
        self.lens.full_name(&PrimitiveId { server_ref: server.clone(), name: prompt.to_owned() })
    }

    /// The name table of `activate` mode; empty in other modes.
    pub fn namespaced(&self) -> &NamespaceTable {
        self.lens.namespaced()
    }

    /// The macros that are hidden because a tool is missing.
    pub fn unavailable_macros(&self) -> &[UnavailableMacro] {
        &self.lacking
    }

    pub fn has_crashed(&self, server: &ServerRef) -> bool {
        self.crashed.contains(server)
    }

    /// Returns how the definitions of a server differ from the lock, and the resulting action.
    pub fn drift(&self, server: &ServerRef) -> Option<&Arc<ListingDrift>> {
        self.drift.get(server)
    }

    /// Returns the error for requests to a server that the lock blocks; `None` if it is open.
    pub(crate) fn blocked_error(&self, at: &ServerRef) -> Option<BackendError> {
        let judged = self.drift(at).filter(|judged| judged.action == DriftAction::Deny)?;
        Some(BackendError::StartFailed(Arc::new(judged.closed())))
    }

    /// Returns every registered name, unordered.
    pub fn names(&self) -> impl Iterator<Item = &ExposedName> {
        self.lens.registered().names()
    }

    /// Returns the version of the shown listing; 0 if none or a stored one is shown.
    pub(crate) fn version(&self, backend: BackendId) -> u64 {
        self.versions.get(&backend).copied().unwrap_or_default()
    }

    /// Returns `true` if any listing of a backend is shown, including a stored one.
    pub(crate) fn has_listed(&self, backend: BackendId) -> bool {
        self.versions.contains_key(&backend)
    }

    /// Returns when the shown listing was last confirmed, if it is a stored one.
    pub(crate) fn stored_at(&self, backend: BackendId) -> Option<SystemTime> {
        self.remembered.get(&backend).copied()
    }

    pub(crate) fn has_loaded_store(&self) -> bool {
        self.has_recalled
    }
}

/// The single writer of a gateway's snapshots. A changed listing rebuilds only the view of its
/// server.
pub(crate) struct SnapshotWriter {
    scope: Arc<GatewayScope>,
    listeners: Option<EventBus>,
    sources: HashMap<ToolboxName, HashMap<ServerName, BackendId>>,
    macros: Vec<ToolboxMacros>,
    /// `Some` if sessions may use the names of `activate` mode.
    said: Option<ReportedConflicts>,
    listings: HashMap<BackendId, VersionedListing>,
}

type Views = HashMap<ToolboxName, Arc<ToolboxView>>;

impl SnapshotWriter {
    pub(crate) fn new(scope: &Arc<GatewayScope>, sources: HashMap<ServerRef, BackendId>) -> Self {
        let mut of_toolboxes = HashMap::<_, HashMap<_, _>>::new();
        for (ServerRef { toolbox, server }, source) in sources {
            of_toolboxes.entry(toolbox).or_default().insert(server, source);
        }
        Self {
            macros: ToolboxMacros::all(&scope.config),
            scope: Arc::clone(scope),
            listeners: None,
            sources: of_toolboxes,
            said: scope.is_namespaced.then(ReportedConflicts::default),
            listings: HashMap::new(),
        }
    }

    pub(crate) fn with_listeners(mut self, listeners: EventBus) -> Self {
        self.listeners = Some(listeners);
        self
    }

    pub(crate) fn seed(&mut self, backend: BackendId, listed: VersionedListing) {
        self.listings.insert(backend, listed);
    }

    /// Publishes the known and stored listings, then a new snapshot for each batch of changes.
    /// Returns when all senders or all receivers are gone.
    pub(crate) async fn run(
        mut self,
        remembered: impl Future<Output = HashMap<BackendId, LastKnownListing>>,
        mut changes: mpsc::Receiver<BackendChange>,
        publish: watch::Sender<Arc<Snapshot>>,
    ) {
        let remembered = remembered.await;
        let since = remembered.iter().map(|(id, remembered)| (*id, remembered.since)).collect();
        for (id, LastKnownListing { listing, .. }) in remembered {
            self.listings.insert(id, VersionedListing { version: 0, listing });
        }
        let changed: HashSet<_> = self.listings.keys().copied().collect();
        let first = self
            .rebuild_changed(&Snapshot { remembered: since, ..Snapshot::nothing(true) }, &changed);
        publish.send_replace(Arc::new(first));
        let mut shown_at = self.scope.clock.now();
        loop {
            let next_change = self.scope.policy.next_transition(shown_at);
            let changed = tokio::select! {
                changed = changes.recv() => changed,
                () = publish.closed() => None,
                () = self.scope.clock.wait_for(next_change) => {
                    shown_at = self.scope.clock.now();
                    let now = self.rebuild_all(&publish.borrow());
                    publish.send_replace(Arc::new(now));
                    continue;
                }
            };
            let Some(changed) = changed else { return };
            let more = std::iter::from_fn(|| changes.try_recv().ok());
            let next = self.apply(&publish.borrow(), std::iter::once(changed).chain(more));
            match next {
                Some(next) => _ = publish.send_replace(Arc::new(next)),
                // Wake receivers that show failed servers.
                None => publish.send_modify(|_| {}),
            }
        }
    }

    /// Returns the snapshot after some changes, or `None` if nothing changed.
    fn apply(
        &mut self,
        last: &Snapshot,
        changes: impl Iterator<Item = BackendChange>,
    ) -> Option<Snapshot> {
        let (mut listed, mut crashed) = (HashSet::new(), HashSet::new());
        for BackendChange { backend, change } in changes {
            match change {
                ChangeKind::Listed(now) => {
                    self.listings.insert(backend, now);
                    listed.insert(backend);
                    crashed.remove(&backend);
                }
                ChangeKind::Failed => {}
                ChangeKind::Crashed => _ = crashed.insert(backend),
            }
        }
        if listed.is_empty() && crashed.is_empty() {
            return None;
        }
        let mut next = self.rebuild_changed(last, &listed);
        next.remembered.retain(|backend, _| !listed.contains(backend));
        let crashed = crashed.into_iter().flat_map(|backend| self.servers_of(backend));
        next.crashed.extend(crashed);
        Some(next)
    }

    fn rebuild_changed(&self, last: &Snapshot, changed: &HashSet<BackendId>) -> Snapshot {
        let mut next = last.clone();
        for server in changed.iter().flat_map(|backend| self.servers_of(*backend)) {
            next.crashed.remove(&server);
        }
        next.versions.extend(changed.iter().map(|id| (*id, self.listings[id].version)));
        if changed.is_empty() && !last.lens.views().is_empty() {
            return next;
        }
        self.rebuild(next, last, |id| changed.contains(&id))
    }

    /// Rebuilds all views, because policy depends on the time.
    fn rebuild_all(&self, last: &Snapshot) -> Snapshot {
        self.rebuild(last.clone(), last, |id| self.listings.contains_key(&id))
    }

    fn rebuild(
        &self,
        mut next: Snapshot,
        last: &Snapshot,
        has_changed: impl Fn(BackendId) -> bool,
    ) -> Snapshot {
        let now = self.scope.clock.now();
        let mut views = last.lens.views().clone();
        let drift = &mut next.drift;
        for toolbox in &self.scope.config.toolboxes {
            let Some(sources) = self.sources.get(&toolbox.name) else { continue };
            if !sources.values().any(|source| has_changed(*source)) {
                continue;
            }
            let before = views.get(&toolbox.name);
            let parts = toolbox.servers.iter().filter_map(|server| {
                let source = *sources.get(&server.name)?;
                if !has_changed(source)
                    && let Some(part) = before.and_then(|view| view.part(server.name.as_str()))
                {
                    return Some(Arc::clone(part));
                }
                let listing = &self.listings.get(&source)?.listing;
                let at = ServerRef { toolbox: toolbox.name.clone(), server: server.name.clone() };
                let judged = self.judged(&at, toolbox, server, listing);
                let listing = judged.as_ref().map_or(listing, |judged| judged.shown(listing));
                let part = self.part(toolbox, server, listing, now);
                match judged {
                    Some(judged) => _ = drift.insert(at, judged),
                    None => _ = drift.remove(&at),
                }
                Some(part)
            });
            let view = ToolboxView::new(parts.collect());
            views.insert(toolbox.name.clone(), Arc::new(view));
        }
        next.lacking = self.show_macros(&mut views, last, now);
        let lens = Lens::new(Arc::clone(&self.scope.config), views, self.said.clone());
        next.lens = self.scope.interner.lens(lens);
        next
    }

    fn judged(
        &self,
        at: &ServerRef,
        toolbox: &ToolboxConfig,
        server: &ServerConfig,
        listing: &Arc<Listing>,
    ) -> Option<Arc<ListingDrift>> {
        let tell = |judged: &ListingDrift| {
            let Some(listeners) = &self.listeners else { return };
            listeners.emit(judged.event(at, &judged.accepting()));
        };
        let name = || self.scope.config.lock_key(toolbox.name.as_str(), server);
        self.scope.interner.locks.judged((at, server), listing, &self.scope.policy, name, tell)
    }

    fn part(
        &self,
        toolbox: &ToolboxConfig,
        server: &ServerConfig,
        listing: &Arc<Listing>,
        now: UnixTime,
    ) -> Arc<ServerView> {
        let limit = self.scope.config.max_tool_name_length;
        self.scope.interner.intern_part(ServerView::new(
            toolbox,
            server,
            listing,
            &self.scope.policy,
            limit,
            now,
        ))
    }

    /// Adds the macros whose tools all exist, and returns the others. A tool of an unlisted server
    /// counts if policy allows it.
    fn show_macros(
        &self,
        views: &mut Views,
        last: &Snapshot,
        now: UnixTime,
    ) -> Vec<UnavailableMacro> {
        let mut all_lacking = Vec::new();
        for written in &self.macros {
            let Some(toolbox) = self.scope.config.toolbox(written.toolbox.as_str()) else {
                continue;
            };
            let is_there = |tool: &ToolId| self.is_there(views, tool, now);
            let lacking = written.lacking(is_there);
            for one in lacking.iter().filter(|one| !last.lacking.contains(one)) {
                tracing::info!("{one}");
            }
            let before = last.lacking.iter().filter(|one| one.toolbox == written.toolbox);
            let is_same = before.eq(&lacking);
            let is_macros = |server: &ServerConfig| {
                self.source(&toolbox.name, &server.name) == Some(BackendId::NONE)
            };
            let view = views.get(&toolbox.name).cloned().unwrap_or_default();
            let mut servers = toolbox.servers.iter().filter(|server| is_macros(server));
            let is_shown = servers.any(|server| view.part(server.name.as_str()).is_some());
            // Keep an unchanged view, so that tables derived from it remain valid.
            if !(is_same && is_shown) {
                let macros = Arc::new(written.listing(&lacking));
                let parts = toolbox.servers.iter().filter_map(|server| {
                    if is_macros(server) {
                        return Some(self.part(toolbox, server, &macros, now));
                    }
                    view.part(server.name.as_str()).cloned()
                });
                views.insert(toolbox.name.clone(), Arc::new(ToolboxView::new(parts.collect())));
            }
            all_lacking.extend(lacking);
        }
        all_lacking
    }

    fn is_there(&self, views: &Views, tool: &ToolId, now: UnixTime) -> bool {
        let source = self.source(&tool.toolbox, &tool.server);
        let Some(source) = source.filter(|source| *source != BackendId::NONE) else {
            return false;
        };
        if self.listings.contains_key(&source) {
            let view = views.get(&tool.toolbox);
            return view.is_some_and(|v| v.tool(tool.server.as_str(), &tool.tool).is_some());
        }
        let own = self.scope.config.original_tool_id(tool);
        self.scope.policy.can_grant_unlisted(&own, || now)
    }

    fn source(&self, toolbox: &ToolboxName, server: &ServerName) -> Option<BackendId> {
        self.sources.get(toolbox)?.get(server).copied()
    }

    fn servers_of(&self, backend: BackendId) -> impl Iterator<Item = ServerRef> {
        self.sources.iter().flat_map(move |(toolbox, sources)| {
            let sources = sources.iter().filter(move |(_, source)| **source == backend);
            sources
                .map(|(server, _)| ServerRef { toolbox: toolbox.clone(), server: server.clone() })
        })
    }
}

#[cfg(test)]
mod tests;
