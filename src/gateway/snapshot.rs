//! What everybody sees: the views of all toolboxes, written by one task, read by all.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::SystemTime;

use foldhash::{HashMap, HashMapExt};
use tokio::sync::{mpsc, watch};

use crate::backend::{BackendId, Change, Changed, Listed, Remembered};
use crate::catalog::Listing;
use crate::config::Config;
use crate::gateway::clock::Clock;
use crate::gateway::macros::{Lacking, Written};
use crate::name::{
    self, ExposedName, NameTable, Place, ServerName, Thing, ToolId, ToolboxName, UniqueNames,
};
use crate::policy::{Moment, Policy, Traits};
use crate::raw::Raw;
use crate::toolbox::{Namespaced, View};

/// The views of all toolboxes at one moment; immutable.
#[derive(Debug, Default)]
pub struct Snapshot {
    views: HashMap<ToolboxName, Arc<View>>,
    names: NameTable,
    /// Tools by their own names.
    tools: UniqueNames,
    prompts: UniqueNames,
    uris: UniqueNames,
    templates: UniqueNames,
    /// The same under the names of `activate` mode; nothing in the others.
    namespaced: Arc<Namespaced>,
    /// The macros that are not shown.
    lacking: Vec<Lacking>,
    /// The servers that have died and were not started again.
    crashed: HashSet<Place>,
    versions: HashMap<BackendId, u64>,
    /// When what is shown of a backend that has not been listed yet was last found to be true.
    remembered: HashMap<BackendId, SystemTime>,
    /// Whether what the store of listings knows is shown.
    has_recalled: bool,
}

impl Snapshot {
    /// Nothing is known, and nothing is still to be recalled if `has_recalled`.
    pub(crate) fn nothing(has_recalled: bool) -> Self {
        Self { has_recalled, ..Self::default() }
    }

    /// The same, with the names of nothing.
    fn without_names(&self) -> Self {
        Self {
            views: self.views.clone(),
            versions: self.versions.clone(),
            remembered: self.remembered.clone(),
            crashed: self.crashed.clone(),
            has_recalled: self.has_recalled,
            ..Self::default()
        }
    }

    /// What a toolbox shows; empty while none of its servers has been listed.
    pub fn view(&self, toolbox: &ToolboxName) -> Arc<View> {
        self.views.get(toolbox).cloned().unwrap_or_default()
    }

    /// The tool that a registered name means.
    pub fn resolve(&self, name: &str) -> Option<&ToolId> {
        self.names.resolve(name)
    }

    /// Tools by their own names, where those are unambiguous.
    pub fn tools(&self) -> &UniqueNames {
        &self.tools
    }

    /// Prompts by the names that agents know them by.
    pub fn prompts(&self) -> &UniqueNames {
        &self.prompts
    }

    /// Resources by the addresses that agents know them by.
    pub fn uris(&self) -> &UniqueNames {
        &self.uris
    }

    /// Resource templates, likewise.
    pub fn templates(&self) -> &UniqueNames {
        &self.templates
    }

    /// The address that agents know a server's resource by.
    pub fn exposed_uri(&self, place: &Place, uri: &str) -> String {
        if self.is_shared_uri(uri) {
            format!("{}{uri}", name::uri_prefix(place))
        } else {
            uri.to_owned()
        }
    }

    /// Returns true if several servers list a resource, or a template, at this address.
    pub fn is_shared_uri(&self, uri: &str) -> bool {
        self.uris.is_ambiguous(uri) || self.templates.is_ambiguous(uri)
    }

    /// The name that agents know a server's prompt by.
    pub fn exposed_prompt(&self, place: &Place, prompt: &str, limit: usize) -> String {
        if self.prompts.is_ambiguous(prompt) {
            full_name(&Thing { place: place.clone(), name: prompt.to_owned() }, limit)
        } else {
            prompt.to_owned()
        }
    }

    /// Everything under the names of `activate` mode, where that is the mode.
    pub fn namespaced(&self) -> &Namespaced {
        &self.namespaced
    }

    /// The macros that are not shown, and why.
    pub fn lacking(&self) -> &[Lacking] {
        &self.lacking
    }

    /// Whether a server has died and was not started again.
    pub fn has_crashed(&self, place: &Place) -> bool {
        self.crashed.contains(place)
    }

    /// Every registered name, in no order.
    pub fn names(&self) -> impl Iterator<Item = &ExposedName> {
        self.names.names()
    }

    /// Which of a backend's listings is shown; 0 while none is, or one from before it ran.
    pub(crate) fn version(&self, backend: BackendId) -> u64 {
        self.versions.get(&backend).copied().unwrap_or_default()
    }

    /// Whether any of a backend's listings is shown, be it an old one.
    pub(crate) fn has_listed(&self, backend: BackendId) -> bool {
        self.versions.contains_key(&backend)
    }

    /// When what is shown of a backend was last found to be true, if that was before it ran.
    pub(crate) fn remembered(&self, backend: BackendId) -> Option<SystemTime> {
        self.remembered.get(&backend).copied()
    }

    /// Whether what the store of listings knows is shown.
    pub(crate) fn has_recalled(&self) -> bool {
        self.has_recalled
    }
}

/// The one writer of snapshots.
pub(crate) struct Writer {
    config: Arc<Config>,
    policy: Arc<Policy>,
    clock: Clock,
    /// Which backend a toolbox's server is.
    sources: HashMap<Place, BackendId>,
    macros: Vec<Written>,
    /// Whether anybody may look by the names of `activate` mode.
    is_namespaced: bool,
    listings: HashMap<BackendId, Listed>,
}

impl Writer {
    pub(crate) fn new(
        config: Arc<Config>,
        policy: Arc<Policy>,
        clock: Clock,
        sources: HashMap<Place, BackendId>,
        is_namespaced: bool,
    ) -> Self {
        Self {
            macros: Written::all(&config),
            config,
            policy,
            clock,
            sources,
            is_namespaced,
            listings: HashMap::new(),
        }
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
            let Some(Changed { backend, change }) = changed else { return };
            match change {
                Change::Listed(listed) => {
                    self.listings.insert(backend, listed);
                    let mut next = self.next(&publish.borrow(), &HashSet::from([backend]));
                    next.remembered.remove(&backend);
                    publish.send_replace(Arc::new(next));
                }
                // Whoever shows what failed has to look again.
                Change::Failed => publish.send_modify(|_| {}),
                Change::Crashed => {
                    let mut next = self.next(&publish.borrow(), &HashSet::new());
                    next.crashed.extend(self.places_of(backend));
                    publish.send_replace(Arc::new(next));
                }
            }
        }
    }

    /// The snapshot after `last` in which these backends have changed.
    fn next(&self, last: &Snapshot, changed: &HashSet<BackendId>) -> Snapshot {
        let mut next = last.without_names();
        for place in changed.iter().flat_map(|backend| self.places_of(*backend)) {
            next.crashed.remove(&place);
        }
        next.versions.extend(changed.iter().map(|id| (*id, self.listings[id].version)));
        self.show(next, last, |id| changed.contains(&id))
    }

    /// The snapshot after `last` at another time, though no backend has changed.
    fn shown_anew(&self, last: &Snapshot) -> Snapshot {
        let is_shown = |id| id == BackendId::NONE || self.listings.contains_key(&id);
        self.show(last.without_names(), last, is_shown)
    }

    /// The snapshot with the views of these backends made anew, and everything by its names.
    fn show(
        &self,
        mut next: Snapshot,
        last: &Snapshot,
        has_changed: impl Fn(BackendId) -> bool,
    ) -> Snapshot {
        let now = self.clock.now();
        let limit = self.config.max_tool_name_length;
        for toolbox in &self.config.toolboxes {
            let source = |server: &ServerName| self.source(&toolbox.name, server);
            let mut sources = toolbox.servers.iter().filter_map(|server| source(&server.name));
            if !sources.any(&has_changed) {
                continue;
            }
            let listing = |server: &ServerName| -> Option<&Listing> {
                Some(&*self.listings.get(&source(server)?)?.listing)
            };
            let view = View::new(toolbox, listing, &self.policy, limit, now);
            next.views.insert(toolbox.name.clone(), Arc::new(view));
        }
        self.show_macros(&mut next, last, now);
        let toolboxes = self.config.toolboxes.iter();
        let views = toolboxes.filter_map(|toolbox| next.views.get(&toolbox.name));
        for tool in views.flat_map(|view| &view.tools) {
            next.names.insert(tool.name.clone(), tool.id.clone());
        }
        self.make_unique(&mut next);
        if self.is_namespaced {
            let named = Namespaced::new(&self.config, |toolbox| next.view(toolbox));
            let known = &last.namespaced.discarded;
            for discarded in named.discarded.iter().filter(|discarded| !known.contains(discarded)) {
                tracing::info!("{discarded}");
            }
            next.namespaced = Arc::new(named);
        }
        next
    }

    /// Gives everything that is shown a name that nothing else of its kind has.
    fn make_unique(&self, next: &mut Snapshot) {
        let limit = self.config.max_tool_name_length;
        let views = || {
            let toolboxes = self.config.toolboxes.iter();
            toolboxes.filter_map(|t| next.views.get(&t.name).map(|view| (&t.name, view)))
        };
        let tools = views().flat_map(|(toolbox, view)| {
            view.tools.iter().map(|tool| {
                let (source, thing) = self.thing(toolbox, &tool.id.server, &tool.id.tool)?;
                // What the configuration makes of a tool may differ from toolbox to toolbox.
                let pinned = tool.pinned.as_ref().map(Raw::as_bytes);
                Some(((source, &tool.own.name, tool.definition.raw.as_bytes(), pinned), thing))
            })
        });
        let tools = UniqueNames::new(tools.flatten(), |thing| full_name(thing, limit));
        let prompts = views().flat_map(|(toolbox, view)| {
            view.prompts.iter().map(|p| self.thing(toolbox, &p.server, &p.definition.name))
        });
        let prompts = UniqueNames::new(prompts.flatten(), |thing| full_name(thing, limit));
        let uris = views().flat_map(|(toolbox, view)| {
            view.resources.iter().map(|r| self.thing(toolbox, &r.server, &r.definition.uri))
        });
        let uris = UniqueNames::new(uris.flatten(), full_uri);
        let templates = views().flat_map(|(toolbox, view)| {
            view.templates.iter().map(|t| self.thing(toolbox, &t.server, &t.definition.uri))
        });
        let templates = UniqueNames::new(templates.flatten(), full_uri);
        (next.tools, next.prompts, next.uris, next.templates) = (tools, prompts, uris, templates);
    }

    /// Adds the macros whose tools are all there; of servers that have not been listed, those that
    /// policy would let the agent see.
    fn show_macros(&self, next: &mut Snapshot, last: &Snapshot, now: Moment) {
        let limit = self.config.max_tool_name_length;
        for written in &self.macros {
            let is_there = |tool: &ToolId| {
                let source = self.source(&tool.toolbox, &tool.server);
                let Some(source) = source.filter(|source| *source != BackendId::NONE) else {
                    return false;
                };
                if self.listings.contains_key(&source) {
                    let view = next.views.get(&tool.toolbox);
                    return view
                        .is_some_and(|v| v.tool(tool.server.as_str(), &tool.tool).is_some());
                }
                let own = self.config.own_id(tool);
                self.policy.decide(&own, Traits::default(), || now).is_ok()
            };
            let lacking = written.lacking(is_there);
            for one in lacking.iter().filter(|one| !last.lacking.contains(one)) {
                tracing::info!("{one}");
            }
            let before = last.lacking.iter().filter(|one| one.toolbox == written.toolbox);
            let is_same = before.eq(&lacking);
            let macros = written.listing(&lacking);
            next.lacking.extend(lacking);
            let views = [&last.views, &next.views].map(|views| views.get(&written.toolbox));
            if let ([Some(old), Some(new)], true) = (views, is_same)
                && Arc::ptr_eq(old, new)
            {
                // Who has made something of that view can go on with it.
                continue;
            }
            let Some(toolbox) = self.config.toolbox(written.toolbox.as_str()) else { continue };
            let listing = |server: &ServerName| -> Option<&Listing> {
                match self.source(&toolbox.name, server)? {
                    BackendId::NONE => Some(&macros),
                    source => Some(&*self.listings.get(&source)?.listing),
                }
            };
            let view = View::new(toolbox, listing, &self.policy, limit, now);
            next.views.insert(toolbox.name.clone(), Arc::new(view));
        }
    }

    fn source(&self, toolbox: &ToolboxName, server: &ServerName) -> Option<BackendId> {
        let place = Place { toolbox: toolbox.clone(), server: server.clone() };
        self.sources.get(&place).copied()
    }

    /// Where a backend stands.
    fn places_of(&self, backend: BackendId) -> impl Iterator<Item = Place> {
        let places = self.sources.iter().filter(move |(_, source)| **source == backend);
        places.map(|(place, _)| place.clone())
    }

    fn thing(
        &self,
        toolbox: &ToolboxName,
        server: &ServerName,
        name: &str,
    ) -> Option<(BackendId, Thing)> {
        let source = self.source(toolbox, server)?;
        let place = Place { toolbox: toolbox.clone(), server: server.clone() };
        Some((source, Thing { place, name: name.to_owned() }))
    }
}

fn full_name(thing: &Thing, limit: usize) -> String {
    let Thing { place: Place { toolbox, server }, name } = thing;
    let id = ToolId { toolbox: toolbox.clone(), server: server.clone(), tool: name.clone() };
    ExposedName::registered(&id, limit).to_string()
}

fn full_uri(thing: &Thing) -> String {
    format!("{}{}", name::uri_prefix(&thing.place), thing.name)
}

#[cfg(test)]
mod tests;
