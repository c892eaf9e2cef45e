//! Snapshots of what everybody sees: the views of all toolboxes, written by one task, read by all.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::SystemTime;

use foldhash::{HashMap, HashMapExt};
use tokio::sync::{mpsc, watch};

use crate::backend::{BackendId, Change, Changed, Listed, Remembered};
use crate::catalog::Listing;
use crate::gateway::clock::Clock;
use crate::gateway::gateways::Terms;
use crate::gateway::judged::Judged;
use crate::gateway::lens::{Lens, Said};
use crate::gateway::macros::{Lacking, Written};
use crate::gateway::world::World;
use crate::name::{
    self, ExposedName, Primitive, ServerName, ServerRef, ToolId, ToolboxName, UniqueNames,
};
use crate::observe::Listeners;
use crate::policy::{Moment, Policy, Traits};
use crate::settings::{Config, ServerConfig, ToolboxConfig};
use crate::toolbox::{Namespaced, Part, View, ViewTool};

/// The views of all toolboxes at one moment; immutable.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    lens: Arc<Lens>,
    /// The macros that are not shown.
    lacking: Vec<Lacking>,
    /// The servers that have died and were not started again.
    crashed: HashSet<ServerRef>,
    /// The servers that have definitions which are not as the lock has them.
    drift: HashMap<ServerRef, Arc<Judged>>,
    versions: HashMap<BackendId, u64>,
    /// When what is shown of a backend that has not been listed yet was last found to be true.
    remembered: HashMap<BackendId, SystemTime>,
    /// `true` if what the store of listings knows is shown.
    has_recalled: bool,
}

impl Snapshot {
    /// Nothing is known, and nothing is still to be recalled if `has_recalled`.
    pub(crate) fn nothing(has_recalled: bool) -> Self {
        Self { has_recalled, ..Self::default() }
    }

    /// Returns the view of a toolbox; empty while none of its servers has been listed.
    pub fn view(&self, toolbox: &ToolboxName) -> Arc<View> {
        self.lens.views().get(toolbox).cloned().unwrap_or_default()
    }

    /// Every server that is shown, in the order of the configuration.
    pub fn parts(&self) -> impl Iterator<Item = &Part> {
        self.lens.parts()
    }

    /// The tool that a registered name means.
    pub fn resolve(&self, name: &str) -> Option<&ToolId> {
        self.lens.registered().resolve(name)
    }

    /// The tool that is called so: by its registered name, by its own where that can mean nothing else,
    /// or as `server:tool`.
    pub fn find(&self, name: &str) -> Option<ToolId> {
        self.lens.find(name)
    }

    /// The name that agents know a tool by where everything is listed from the start: its own where
    /// that can mean nothing else. None for a tool that is listed already, or by a name that does not
    /// lead to it.
    pub fn direct_name<'a>(&self, tool: &'a ViewTool) -> Option<&'a str> {
        self.lens.direct_name(tool)
    }

    /// Tools by their own names, where those can mean nothing else, and by their registered ones.
    pub fn tools(&self) -> &UniqueNames {
        self.lens.tools()
    }

    /// Prompts by the names that agents know them by.
    pub fn prompts(&self) -> &UniqueNames {
        self.lens.prompts()
    }

    /// Resources by the addresses that agents know them by.
    pub fn uris(&self) -> &UniqueNames {
        self.lens.uris()
    }

    /// Resource templates, likewise.
    pub fn templates(&self) -> &UniqueNames {
        self.lens.templates()
    }

    /// The address that agents know a server's resource by.
    pub fn exposed_uri(&self, server: &ServerRef, uri: &str) -> String {
        if self.is_changed_uri(uri) { name::full_address(server, uri) } else { uri.to_owned() }
    }

    /// Returns true if agents know a listed resource, or a template, of this address by another: several
    /// servers list it, or it could be taken for one of ours.
    pub fn is_changed_uri(&self, uri: &str) -> bool {
        self.uris().is_changed(uri) || self.templates().is_changed(uri)
    }

    /// The name that agents know a server's prompt by.
    pub fn exposed_prompt(&self, server: &ServerRef, prompt: &str) -> String {
        if self.prompts().is_changed(prompt) {
            self.full_prompt(server, prompt)
        } else {
            prompt.to_owned()
        }
    }

    /// The full name of a server's prompt.
    pub(crate) fn full_prompt(&self, server: &ServerRef, prompt: &str) -> String {
        self.lens.full_name(&Primitive { server_ref: server.clone(), name: prompt.to_owned() })
    }

    /// Everything under the names of `activate` mode, where that is the mode.
    pub fn namespaced(&self) -> &Namespaced {
        self.lens.namespaced()
    }

    /// The macros that are not shown, and why.
    pub fn lacking(&self) -> &[Lacking] {
        &self.lacking
    }

    /// Returns `true` if a server has died and was not started again.
    pub fn has_crashed(&self, server: &ServerRef) -> bool {
        self.crashed.contains(server)
    }

    /// In what the definitions of a server are not as the lock has them, and what becomes of that.
    pub fn drift(&self, server: &ServerRef) -> Option<&Arc<Judged>> {
        self.drift.get(server)
    }

    /// Every registered name, in no order.
    pub fn names(&self) -> impl Iterator<Item = &ExposedName> {
        self.lens.registered().names()
    }

    /// Which of a backend's listings is shown; 0 while none is, or one from before it ran.
    pub(crate) fn version(&self, backend: BackendId) -> u64 {
        self.versions.get(&backend).copied().unwrap_or_default()
    }

    /// Returns `true` if any of a backend's listings is shown, be it an old one.
    pub(crate) fn has_listed(&self, backend: BackendId) -> bool {
        self.versions.contains_key(&backend)
    }

    /// When what is shown of a backend was last found to be true, if that was before it ran.
    pub(crate) fn remembered(&self, backend: BackendId) -> Option<SystemTime> {
        self.remembered.get(&backend).copied()
    }

    /// Returns `true` if what the store of listings knows is shown.
    pub(crate) fn has_recalled(&self) -> bool {
        self.has_recalled
    }
}

/// The one writer of a gateway's snapshots. It works incrementally: a listing that comes changes what
/// is shown of its server, and nothing else.
pub(crate) struct Writer {
    config: Arc<Config>,
    policy: Arc<Policy>,
    world: Arc<World>,
    /// Who hears of definitions that are not as the lock has them.
    listeners: Option<Listeners>,
    clock: Clock,
    /// Which backend a toolbox's server is.
    sources: HashMap<ToolboxName, HashMap<ServerName, BackendId>>,
    macros: Vec<Written>,
    /// There where anybody may look by the names of `activate` mode.
    said: Option<Said>,
    listings: HashMap<BackendId, Listed>,
}

/// The views of a snapshot that is being made.
type Views = HashMap<ToolboxName, Arc<View>>;

impl Writer {
    pub(crate) fn new(
        terms: &Terms,
        clock: Clock,
        sources: HashMap<ServerRef, BackendId>,
        is_namespaced: bool,
    ) -> Self {
        let Terms { caller: _, config, policy, world } = terms;
        let mut of_toolboxes = HashMap::<_, HashMap<_, _>>::new();
        for (ServerRef { toolbox, server }, source) in sources {
            of_toolboxes.entry(toolbox).or_default().insert(server, source);
        }
        Self {
            macros: Written::all(config),
            config: Arc::clone(config),
            policy: Arc::clone(policy),
            world: Arc::clone(world),
            listeners: None,
            clock,
            sources: of_toolboxes,
            said: is_namespaced.then(Said::default),
            listings: HashMap::new(),
        }
    }

    /// Tells these of definitions that are not as the lock has them.
    pub(crate) fn tells(mut self, listeners: Listeners) -> Self {
        self.listeners = Some(listeners);
        self
    }

    /// Takes note of what a backend has listed already.
    pub(crate) fn knows(&mut self, backend: BackendId, listed: Listed) {
        self.listings.insert(backend, listed);
    }

    /// Publishes what is known and remembered, then a new snapshot for every change, until nobody
    /// can change anything any more, or nobody looks.
    pub(crate) async fn run(
        mut self,
        remembered: impl Future<Output = HashMap<BackendId, Remembered>>,
        mut changes: mpsc::Receiver<Changed>,
        publish: watch::Sender<Arc<Snapshot>>,
    ) {
        let remembered = remembered.await;
        let since = remembered.iter().map(|(id, remembered)| (*id, remembered.since)).collect();
        for (id, Remembered { listing, .. }) in remembered {
            self.listings.insert(id, Listed { version: 0, listing });
        }
        let changed: HashSet<_> = self.listings.keys().copied().collect();
        let first = self.next(&Snapshot { remembered: since, ..Snapshot::nothing(true) }, &changed);
        publish.send_replace(Arc::new(first));
        let mut shown_at = self.clock.now();
        loop {
            let next_change = self.policy.next_change(shown_at);
            let changed = tokio::select! {
                changed = changes.recv() => changed,
                () = publish.closed() => None,
                () = self.clock.wait_for(next_change) => {
                    shown_at = self.clock.now();
                    let now = self.shown_anew(&publish.borrow());
                    publish.send_replace(Arc::new(now));
                    continue;
                }
            };
            let Some(changed) = changed else { return };
            // What has come meanwhile is shown with it.
            let more = std::iter::from_fn(|| changes.try_recv().ok());
            let next = self.take(&publish.borrow(), std::iter::once(changed).chain(more));
            match next {
                Some(next) => _ = publish.send_replace(Arc::new(next)),
                // Whoever shows what failed has to look again.
                None => publish.send_modify(|_| {}),
            }
        }
    }

    /// The snapshot after `last` and these changes; none where it is the same.
    fn take(
        &mut self,
        last: &Snapshot,
        changes: impl Iterator<Item = Changed>,
    ) -> Option<Snapshot> {
        let (mut listed, mut crashed) = (HashSet::new(), HashSet::new());
        for Changed { backend, change } in changes {
            match change {
                Change::Listed(now) => {
                    self.listings.insert(backend, now);
                    listed.insert(backend);
                    crashed.remove(&backend);
                }
                Change::Failed => {}
                Change::Crashed => _ = crashed.insert(backend),
            }
        }
        if listed.is_empty() && crashed.is_empty() {
            return None;
        }
        let mut next = self.next(last, &listed);
        next.remembered.retain(|backend, _| !listed.contains(backend));
        let crashed = crashed.into_iter().flat_map(|backend| self.servers_of(backend));
        next.crashed.extend(crashed);
        Some(next)
    }

    /// The snapshot after `last` in which these backends have changed.
    fn next(&self, last: &Snapshot, changed: &HashSet<BackendId>) -> Snapshot {
        let mut next = last.clone();
        for server in changed.iter().flat_map(|backend| self.servers_of(*backend)) {
            next.crashed.remove(&server);
        }
        next.versions.extend(changed.iter().map(|id| (*id, self.listings[id].version)));
        if changed.is_empty() && !last.lens.views().is_empty() {
            return next;
        }
        self.show(next, last, |id| changed.contains(&id))
    }

    /// The snapshot after `last` at another time, though no backend has changed.
    fn shown_anew(&self, last: &Snapshot) -> Snapshot {
        self.show(last.clone(), last, |id| self.listings.contains_key(&id))
    }

    /// The snapshot with the parts of these backends made anew.
    fn show(
        &self,
        mut next: Snapshot,
        last: &Snapshot,
        has_changed: impl Fn(BackendId) -> bool,
    ) -> Snapshot {
        let now = self.clock.now();
        let mut views = last.lens.views().clone();
        let drift = &mut next.drift;
        for toolbox in &self.config.toolboxes {
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
            let view = View::new(parts.collect());
            views.insert(toolbox.name.clone(), Arc::new(view));
        }
        next.lacking = self.show_macros(&mut views, last, now);
        let lens = Lens::new(Arc::clone(&self.config), views, self.said.clone());
        next.lens = self.world.lens(lens);
        next
    }

    /// Compares a listing with the lock.
    fn judged(
        &self,
        at: &ServerRef,
        toolbox: &ToolboxConfig,
        server: &ServerConfig,
        listing: &Arc<Listing>,
    ) -> Option<Arc<Judged>> {
        let tell = |judged: &Judged| {
            let Some(listeners) = &self.listeners else { return };
            listeners.tell(judged.event(at, &judged.accepting()));
        };
        let name = || self.config.name_in_lock(toolbox.name.as_str(), server);
        self.world.locks.judged((at, server), listing, &self.policy, name, tell)
    }

    fn part(
        &self,
        toolbox: &ToolboxConfig,
        server: &ServerConfig,
        listing: &Arc<Listing>,
        now: Moment,
    ) -> Arc<Part> {
        let limit = self.config.max_tool_name_length;
        self.world.part(Part::new(toolbox, server, listing, &self.policy, limit, now))
    }

    /// Adds the macros whose tools are all there; of servers that have not been listed, those that
    /// policy would let the agent see. Returns those that are not.
    fn show_macros(&self, views: &mut Views, last: &Snapshot, now: Moment) -> Vec<Lacking> {
        let mut all_lacking = Vec::new();
        for written in &self.macros {
            let Some(toolbox) = self.config.toolbox(written.toolbox.as_str()) else { continue };
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
            // Who has made something of that view can go on with it.
            if !(is_same && is_shown) {
                let macros = Arc::new(written.listing(&lacking));
                let parts = toolbox.servers.iter().filter_map(|server| {
                    if is_macros(server) {
                        return Some(self.part(toolbox, server, &macros, now));
                    }
                    view.part(server.name.as_str()).cloned()
                });
                views.insert(toolbox.name.clone(), Arc::new(View::new(parts.collect())));
            }
            all_lacking.extend(lacking);
        }
        all_lacking
    }

    /// Returns `true` if a tool that a macro calls is there, as far as is known.
    fn is_there(&self, views: &Views, tool: &ToolId, now: Moment) -> bool {
        let source = self.source(&tool.toolbox, &tool.server);
        let Some(source) = source.filter(|source| *source != BackendId::NONE) else {
            return false;
        };
        if self.listings.contains_key(&source) {
            let view = views.get(&tool.toolbox);
            return view.is_some_and(|v| v.tool(tool.server.as_str(), &tool.tool).is_some());
        }
        let own = self.config.own_id(tool);
        self.policy.decide(&own, Traits::default(), || now).is_ok()
    }

    fn source(&self, toolbox: &ToolboxName, server: &ServerName) -> Option<BackendId> {
        self.sources.get(toolbox)?.get(server).copied()
    }

    /// Where a backend stands.
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
