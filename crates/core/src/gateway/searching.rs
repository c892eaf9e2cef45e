//! Search: which of the tools that an agent may know of fit a few words.
//!
//! *Theory of operation.* The views are what policy has left, so an index of them knows nothing
//! else ([`Indexed::new`]). It is made when somebody searches, and kept until a view has changed;
//! whoever comes meanwhile waits for it, and whoever sees the same has the same. Asking it ([`Indexed::ask`]) takes no time to speak of. A
//! tool that several toolboxes have, from one server and with one definition, is there once, and
//! found in the first of them that is wanted.

use std::borrow::Cow;
use std::collections::hash_map::Entry as MapEntry;
use std::sync::{Arc, Weak};
use std::time::Duration;

use foldhash::HashMap;
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::backend::BackendId;
use crate::catalog::rank::{Entry, Finds, Fit, Index, Method, rounded};
use crate::gateway::embedding::{Pointing, text};
use crate::gateway::{FailedServer, Gateway, RequestContext};
use crate::name::{ServerName, ServerRef, ToolboxName};
use crate::raw::Raw;
use crate::settings::ToolboxConfig;
use crate::toolbox::{Part, View, ViewTool};

/// How long the first search waits for servers that nothing is known of.
const PATIENCE: Duration = Duration::from_secs(5);
/// An index of more tools than this is made on a thread of its own: it takes milliseconds.
const LARGE: usize = 200;

/// A search: the query, and where to look.
#[derive(Clone, Copy, Debug)]
pub struct Sought<'a> {
    /// A few words.
    pub query: &'a str,
    /// In this toolbox alone.
    pub toolbox: Option<&'a ToolboxName>,
    /// Of this server alone.
    pub server: Option<&'a ServerName>,
    /// How well a tool must fit to be found.
    pub finds: Finds,
    /// So many tools at most.
    pub limit: usize,
}

/// A tool that was found.
#[derive(Clone, Debug)]
pub struct Found {
    part: Arc<Part>,
    at: usize,
    /// How well it fits.
    pub fit: Fit,
}

impl Found {
    /// The tool.
    pub fn tool(&self) -> &ViewTool {
        &self.part.tools[self.at]
    }

    /// The score with two digits behind the point: more say nothing.
    pub fn rounded_score(&self) -> f64 {
        rounded(self.fit.score)
    }

    /// Returns `true` if it is likelier than not what was wanted.
    pub fn fits_well(&self) -> bool {
        self.fit.is_good()
    }
}

/// The index of the last search.
#[derive(Default)]
pub(crate) struct LastIndex(Mutex<Option<Arc<Indexed>>>);

/// The indexes of all who search.
#[derive(Default)]
pub(crate) struct Indexes(Mutex<Vec<Weak<Indexed>>>);

impl Gateway {
    /// The tools that fit best, the best first. Servers that nothing is known of are tried first,
    /// once, and again where they are looked in; those that have run before are not started.
    pub async fn search(&self, sought: Sought<'_>, context: &RequestContext<'_>) -> Vec<Found> {
        self.before_search(sought.toolbox, sought.server, context).await;
        self.find_tools(&[sought], context).await.pop().unwrap_or_default()
    }

    /// Tries the servers that nothing is known of; those that have failed only where they are
    /// asked for.
    pub async fn before_search(
        &self,
        toolbox: Option<&ToolboxName>,
        server: Option<&ServerName>,
        context: &RequestContext<'_>,
    ) {
        self.try_unlisted(context, PATIENCE).await;
        if toolbox.is_none() && server.is_none() {
            return;
        }
        let failed = self.unsearched(toolbox, server).into_iter().filter(|(_, why)| why.is_some());
        let servers: Vec<_> = failed.map(|(server_ref, _)| server_ref).collect();
        // What is slower goes on by itself.
        let _ = timeout(PATIENCE, self.start_some(&servers, context)).await;
    }

    /// The tools that fit best among those that are known, without starting anything; for each that
    /// is sought its own, all by the same index and the same scale.
    pub async fn find_tools(
        &self,
        sought: &[Sought<'_>],
        context: &RequestContext<'_>,
    ) -> Vec<Vec<Found>> {
        self.recalled().await;
        let indexed = self.indexed().await;
        let queries: Vec<&str> = sought.iter().map(|sought| sought.query).collect();
        let described = Arc::clone(&indexed);
        let texts = move || described.texts();
        let nearness = self.nearness(&queries, &indexed.pointing, texts, context).await;
        let near = |number: usize| nearness.as_ref().map(|each| each[number].as_slice());
        let sought = sought.iter().enumerate();
        sought.map(|(number, sought)| indexed.ask(sought, near(number))).collect()
    }

    /// Returns the well-known services that a query names and that no server, toolbox or tool here
    /// is called or speaks of, such as `github`; mostly there is none.
    pub async fn absent_services(&self, query: &str) -> Vec<String> {
        let mut absent = self.indexed().await.index.absent_services(query);
        // What the file says of servers that have not been listed is in no index.
        absent.retain(|service| {
            let speaks = |text: &str| text.to_lowercase().contains(service.as_str());
            !self.config.toolboxes.iter().any(|toolbox| {
                let servers = toolbox.servers.iter();
                let mut said = servers
                    .flat_map(|server| [Some(server.name.as_str()), server.description.as_deref()]);
                speaks(toolbox.name.as_str())
                    || speaks(&toolbox.description)
                    || said.any(|said| said.is_some_and(speaks))
            })
        });
        absent
    }

    /// The servers that are searched and of which nothing is known, so that nothing of theirs is
    /// found, in the order of the configuration; and why, where they could not be started.
    pub fn unsearched(
        &self,
        toolbox: Option<&ToolboxName>,
        server: Option<&ServerName>,
    ) -> Vec<(ServerRef, Option<FailedServer>)> {
        let mut failures: HashMap<_, _> = self.failures().into_iter().collect();
        let missing = self.missing().into_iter();
        let snapshot = self.snapshot();
        missing
            .filter(|at| is_in(toolbox, server, (&at.toolbox, &at.server)))
            .filter(|at| !snapshot.has_crashed(at))
            .map(|at| {
                let failure = failures.remove(&at);
                (at, failure)
            })
            .collect()
    }

    /// The index of what everybody sees now.
    async fn indexed(&self) -> Arc<Indexed> {
        let mut last = self.last_index.0.lock().await;
        let snapshot = self.snapshot();
        let toolboxes = self.config.toolboxes.iter();
        let views: Vec<_> = toolboxes.map(|toolbox| snapshot.view(&toolbox.name)).collect();
        if let Some(last) = last.as_ref().filter(|last| last.is_of(&views)) {
            return Arc::clone(last);
        }
        // Held while one is made, so that it is made once.
        let mut known = self.world.indexes.0.lock().await;
        known.retain(|index| index.strong_count() > 0);
        if let Some(same) = known.iter().filter_map(Weak::upgrade).find(|index| index.is_of(&views))
        {
            *last = Some(Arc::clone(&same));
            return same;
        }
        let toolboxes = self.shelved(views);
        let tools: usize = toolboxes.iter().map(|toolbox| toolbox.view.tool_count()).sum();
        let index = if tools > LARGE {
            match spawn_blocking(move || Indexed::new(toolboxes)).await {
                Ok(index) => index,
                // The runtime ends, or it panicked; what it would have found is not to be had.
                Err(error) => {
                    tracing::error!(%error, "an index was lost");
                    Indexed::new(Vec::new())
                }
            }
        } else {
            Indexed::new(toolboxes)
        };
        let index = Arc::new(index);
        known.push(Arc::downgrade(&index));
        *last = Some(Arc::clone(&index));
        index
    }

    fn shelved(&self, views: Vec<Arc<View>>) -> Vec<Shelved> {
        let toolboxes = self.config.toolboxes.iter().zip(views);
        let shelved = |(toolbox, view): (&ToolboxConfig, Arc<View>)| {
            let sources = toolbox.servers.iter().filter_map(|server| {
                let source = self.at(&toolbox.name, &server.name)?.shared.id();
                Some((server.name.clone(), source))
            });
            let about = toolbox.servers.iter().map(|server| {
                // A toolbox that is a server is called so, and says the same.
                let name = Some(toolbox.name.as_str());
                let own = server.description.as_deref();
                let words = [
                    name.filter(|name| *name != server.name.as_str()),
                    toolbox.purpose(),
                    own.filter(|own| *own != toolbox.description),
                ];
                let words: Vec<_> = words.into_iter().flatten().collect();
                (server.name.clone(), words.join("\n"))
            });
            Shelved { about: about.collect(), sources: sources.collect(), view }
        };
        toolboxes.map(shelved).collect()
    }
}

/// A toolbox, as far as it is searched.
#[derive(Clone)]
struct Shelved {
    /// The descriptions of its servers.
    about: HashMap<ServerName, String>,
    /// Which link each server is.
    sources: HashMap<ServerName, BackendId>,
    view: Arc<View>,
}

/// Where a tool stands: in which of the toolboxes, in which part of its view, and where in that.
#[derive(Clone, Copy)]
struct Spot {
    toolbox: usize,
    part: usize,
    at: usize,
}

/// All tools, ready to be found.
struct Indexed {
    toolboxes: Vec<Shelved>,
    /// For each tool of the index the places where it stands.
    tools: Vec<Vec<Spot>>,
    index: Index,
    /// The words of a model for them, where one is asked.
    pointing: Pointing,
}

/// The parts of a tool that make two of them one.
type Identity<'a> = (Option<BackendId>, &'a str, &'a [u8], Option<&'a [u8]>);

impl Indexed {
    fn new(toolboxes: Vec<Shelved>) -> Self {
        let mut tools: Vec<Vec<Spot>> = Vec::new();
        let mut known: HashMap<Identity<'_>, usize> = HashMap::default();
        for (spot, tool) in spots(&toolboxes) {
            match known.entry(toolboxes[spot.toolbox].identity(tool)) {
                MapEntry::Occupied(place) => tools[*place.get()].push(spot),
                MapEntry::Vacant(place) => {
                    place.insert(tools.len());
                    tools.push(vec![spot]);
                }
            }
        }
        drop(known);
        let abouts: Vec<Cow<'_, str>> = tools.iter().map(|at| about(&toolboxes, at)).collect();
        let entries = tools.iter().zip(&abouts).map(|(spots, about)| {
            let tool = tool_at(&toolboxes, spots[0]);
            Entry { server: tool.id.server.as_str(), about, tool: &tool.definition }
        });
        let index = Index::new(entries, Method::Mixed);
        drop(abouts);
        let pointing = Pointing::of(tools.len());
        Self { toolboxes, tools, index, pointing }
    }

    /// Returns the text that a model is told of each tool.
    fn texts(&self) -> Vec<String> {
        let tools = self.tools.iter().map(|spots| tool_at(&self.toolboxes, spots[0]));
        tools.map(|tool| text(tool.id.server.as_str(), &tool.definition)).collect()
    }

    /// Returns `true` if these are the views that it was made of.
    fn is_of(&self, views: &[Arc<View>]) -> bool {
        self.toolboxes.len() == views.len()
            && self.toolboxes.iter().zip(views).all(|(toolbox, view)| {
                let is_nothing = toolbox.view.tool_count() == 0 && view.tool_count() == 0;
                toolbox.view.has_the_parts_of(view) || is_nothing
            })
    }

    /// The tools that fit best, the best first; with how near each is to the query, if a model has
    /// said it.
    fn ask(&self, sought: &Sought<'_>, nearness: Option<&[f32]>) -> Vec<Found> {
        let wanted = |place: usize| {
            let spots = self.tools[place].iter();
            let mut spots = spots.filter(|spot| {
                let id = &tool_at(&self.toolboxes, **spot).id;
                is_in(sought.toolbox, sought.server, (&id.toolbox, &id.server))
            });
            spots.next()
        };
        let is_wanted = |place: usize| wanted(place).is_some();
        let Sought { query, finds, limit, .. } = *sought;
        let hits = self.index.search_by(query, finds, nearness, limit, is_wanted);
        let found = hits.into_iter().filter_map(|hit| {
            let spot = wanted(hit.place)?;
            let part = Arc::clone(part_at(&self.toolboxes, *spot));
            Some(Found { part, at: spot.at, fit: hit.fit() })
        });
        found.collect()
    }
}

impl Shelved {
    fn identity<'a>(&self, tool: &'a ViewTool) -> Identity<'a> {
        let source = self.sources.get(&tool.id.server).copied();
        let pinned = tool.pinned.as_ref().map(Raw::as_bytes);
        (source, &tool.own.name, tool.definition.raw.as_bytes(), pinned)
    }
}

/// Returns `true` if a server of this toolbox is looked through.
fn is_in(
    toolbox: Option<&ToolboxName>,
    server: Option<&ServerName>,
    at: (&ToolboxName, &ServerName),
) -> bool {
    toolbox.is_none_or(|wanted| wanted == at.0) && server.is_none_or(|wanted| wanted == at.1)
}

/// All tools, with where they stand.
fn spots(toolboxes: &[Shelved]) -> impl Iterator<Item = (Spot, &ViewTool)> {
    toolboxes.iter().enumerate().flat_map(|(toolbox, shelved)| {
        shelved.view.parts().iter().enumerate().flat_map(move |(part, of_server)| {
            let tools = of_server.tools.iter().enumerate();
            tools.map(move |(at, tool)| (Spot { toolbox, part, at }, tool))
        })
    })
}

fn part_at(toolboxes: &[Shelved], Spot { toolbox, part, .. }: Spot) -> &Arc<Part> {
    &toolboxes[toolbox].view.parts()[part]
}

fn tool_at(toolboxes: &[Shelved], spot: Spot) -> &ViewTool {
    &part_at(toolboxes, spot).tools[spot.at]
}

/// Returns the descriptions of the servers of a tool, wherever it stands, and their other names.
fn about<'a>(toolboxes: &'a [Shelved], spots: &[Spot]) -> Cow<'a, str> {
    let server = |spot: &Spot| &tool_at(toolboxes, *spot).id.server;
    let first = server(&spots[0]);
    let mut said: Vec<&'a str> = Vec::new();
    for spot in spots {
        let name = server(spot);
        let other = (name != first).then(|| name.as_str());
        let words = toolboxes[spot.toolbox].about.get(name).map(String::as_str);
        for words in other.into_iter().chain(words) {
            if !said.contains(&words) {
                said.push(words);
            }
        }
    }
    match said.as_slice() {
        [only] => Cow::Borrowed(only),
        several => Cow::Owned(several.join("\n")),
    }
}

#[cfg(test)]
mod tests;
