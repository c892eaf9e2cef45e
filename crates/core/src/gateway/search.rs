//! Search over the tools that an agent may see.
//!
//! The index is built from policy-filtered views, so it contains no hidden tool
//! ([`ToolIndex::new`]). It is built by the first search, shared by agents with equal views, and
//! replaced when a view changes. A tool that several toolboxes get from one server with one
//! definition is indexed once and reported from the first matching toolbox.

use std::borrow::Cow;
use std::collections::hash_map::Entry as MapEntry;
use std::sync::{Arc, Weak};
use std::time::Duration;

use foldhash::HashMap;
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::backend::BackendId;
use crate::catalog::rank::{
    RankingMethod, Relevance, ScoreCutoff, SearchIndex, ToolDocument, round_score,
};
use crate::gateway::embedding::{IndexVectors, text};
use crate::gateway::{FailedServer, Gateway, RequestContext};
use crate::json::RawJson;
use crate::name::{ServerName, ServerRef, ToolboxName};
use crate::settings::ToolboxConfig;
use crate::toolbox::{ExposedTool, ServerView, ToolboxView};

/// How long the first search waits for unlisted servers.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Number of tools above which the index is built on a blocking thread, because that takes
/// milliseconds.
const LARGE: usize = 200;

#[derive(Clone, Copy, Debug)]
pub struct ToolQuery<'a> {
    pub query: &'a str,
    pub toolbox: Option<&'a ToolboxName>,
    pub server: Option<&'a ServerName>,
    pub finds: ScoreCutoff,
    pub limit: usize,
}

/// A search result.
#[derive(Clone, Debug)]
pub struct ToolMatch {
    part: Arc<ServerView>,
    at: usize,
    pub fit: Relevance,
}

impl ToolMatch {
    pub fn tool(&self) -> &ExposedTool {
        &self.part.tools[self.at]
    }

    /// Returns the score, rounded to two decimals.
    pub fn rounded_score(&self) -> f64 {
        round_score(self.fit.score)
    }

    pub fn fits_well(&self) -> bool {
        self.fit.is_strong()
    }
}

#[derive(Default)]
pub(crate) struct LastIndex(Mutex<Option<Arc<ToolIndex>>>);

/// Indexes of all gateways with the same configuration.
#[derive(Default)]
pub(crate) struct Indexes(Mutex<Vec<Weak<ToolIndex>>>);

impl Gateway {
    /// Returns the best matches, best first. Starts unlisted servers once, and failed ones again if
    /// the query is limited to them.
    pub async fn search(
        &self,
        sought: ToolQuery<'_>,
        context: &RequestContext<'_>,
    ) -> Vec<ToolMatch> {
        self.before_search(sought.toolbox, sought.server, context).await;
        self.search_listed(&[sought], context).await.pop().unwrap_or_default()
    }

    /// Starts unlisted servers once, and retries failed ones in the given toolbox or on the given
    /// server. Waits up to 5 s for each of the two.
    pub async fn before_search(
        &self,
        toolbox: Option<&ToolboxName>,
        server: Option<&ServerName>,
        context: &RequestContext<'_>,
    ) {
        self.probe_unlisted(context, TIMEOUT).await;
        if toolbox.is_none() && server.is_none() {
            return;
        }
        let failed =
            self.unsearchable_servers(toolbox, server).into_iter().filter(|(_, why)| why.is_some());
        let servers: Vec<_> = failed.map(|(server_ref, _)| server_ref).collect();
        let _ = timeout(TIMEOUT, self.start_servers(&servers, context)).await;
    }

    /// Searches the listed tools without starting servers. Returns the results of each query, all
    /// with comparable scores.
    pub async fn search_listed(
        &self,
        sought: &[ToolQuery<'_>],
        context: &RequestContext<'_>,
    ) -> Vec<Vec<ToolMatch>> {
        self.wait_for_stored_listings().await;
        let indexed = self.tool_index().await;
        let queries: Vec<&str> = sought.iter().map(|sought| sought.query).collect();
        let described = Arc::clone(&indexed);
        let texts = move || described.texts();
        let nearness = self.similarities(&queries, &indexed.pointing, texts, context).await;
        let near = |number: usize| nearness.as_ref().map(|each| each[number].as_slice());
        let sought = sought.iter().enumerate();
        sought.map(|(number, sought)| indexed.ask(sought, near(number))).collect()
    }

    /// Returns well-known services, such as `github`, that the query names and that no server,
    /// toolbox or tool mentions. Usually empty.
    pub async fn absent_services(&self, query: &str) -> Vec<String> {
        let mut absent = self.tool_index().await.index.absent_services(query);
        // Descriptions of unlisted servers aren't in the index.
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

    /// Returns the servers in scope whose tools are unknown, in configuration order, each with its
    /// start failure if any.
    pub fn unsearchable_servers(
        &self,
        toolbox: Option<&ToolboxName>,
        server: Option<&ServerName>,
    ) -> Vec<(ServerRef, Option<FailedServer>)> {
        let mut failures: HashMap<_, _> = self.failed_servers().into_iter().collect();
        let missing = self.unavailable_servers().into_iter();
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

    async fn tool_index(&self) -> Arc<ToolIndex> {
        let mut last = self.last_index.0.lock().await;
        let snapshot = self.snapshot();
        let toolboxes = self.config.toolboxes.iter();
        let views: Vec<_> = toolboxes.map(|toolbox| snapshot.view(&toolbox.name)).collect();
        if let Some(last) = last.as_ref().filter(|last| last.is_of(&views)) {
            return Arc::clone(last);
        }
        // Held while building, so that concurrent searches build the index once.
        let mut known = self.interner.indexes.0.lock().await;
        known.retain(|index| index.strong_count() > 0);
        if let Some(same) = known.iter().filter_map(Weak::upgrade).find(|index| index.is_of(&views))
        {
            *last = Some(Arc::clone(&same));
            return same;
        }
        let toolboxes = self.shelved(views);
        let tools: usize = toolboxes.iter().map(|toolbox| toolbox.view.tool_count()).sum();
        let index = if tools > LARGE {
            match spawn_blocking(move || ToolIndex::new(toolboxes)).await {
                Ok(index) => index,
                Err(error) => {
                    tracing::error!(%error, "internal error while building the search index");
                    ToolIndex::new(Vec::new())
                }
            }
        } else {
            ToolIndex::new(toolboxes)
        };
        let index = Arc::new(index);
        known.push(Arc::downgrade(&index));
        *last = Some(Arc::clone(&index));
        index
    }

    fn shelved(&self, views: Vec<Arc<ToolboxView>>) -> Vec<SearchableToolbox> {
        let toolboxes = self.config.toolboxes.iter().zip(views);
        let shelved = |(toolbox, view): (&ToolboxConfig, Arc<ToolboxView>)| {
            let sources = toolbox.servers.iter().filter_map(|server| {
                let source = self.managed_server(&toolbox.name, &server.name)?.shared.id();
                Some((server.name.clone(), source))
            });
            let about = toolbox.servers.iter().map(|server| {
                // A toolbox made of one server has its name and description.
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
            SearchableToolbox { about: about.collect(), sources: sources.collect(), view }
        };
        toolboxes.map(shelved).collect()
    }
}

#[derive(Clone)]
struct SearchableToolbox {
    about: HashMap<ServerName, String>,
    sources: HashMap<ServerName, BackendId>,
    view: Arc<ToolboxView>,
}

#[derive(Clone, Copy)]
struct ToolLocation {
    toolbox: usize,
    part: usize,
    at: usize,
}

struct ToolIndex {
    toolboxes: Vec<SearchableToolbox>,
    /// All positions of each tool.
    tools: Vec<Vec<ToolLocation>>,
    index: SearchIndex,
    pointing: IndexVectors,
}

/// Tools with equal identity are indexed once.
type Identity<'a> = (Option<BackendId>, &'a str, &'a [u8], Option<&'a [u8]>);

impl ToolIndex {
    fn new(toolboxes: Vec<SearchableToolbox>) -> Self {
        let mut tools: Vec<Vec<ToolLocation>> = Vec::new();
        let mut known: HashMap<Identity<'_>, usize> = HashMap::default();
        for (location, tool) in spots(&toolboxes) {
            match known.entry(toolboxes[location.toolbox].identity(tool)) {
                MapEntry::Occupied(place) => tools[*place.get()].push(location),
                MapEntry::Vacant(place) => {
                    place.insert(tools.len());
                    tools.push(vec![location]);
                }
            }
        }
        drop(known);
        let abouts: Vec<Cow<'_, str>> = tools.iter().map(|at| about(&toolboxes, at)).collect();
        let entries = tools.iter().zip(&abouts).map(|(spots, about)| {
            let tool = tool_at(&toolboxes, spots[0]);
            ToolDocument { server: tool.id.server.as_str(), about, tool: &tool.definition }
        });
        let index = SearchIndex::new(entries, RankingMethod::Hybrid);
        drop(abouts);
        let pointing = IndexVectors::of(tools.len());
        Self { toolboxes, tools, index, pointing }
    }

    fn texts(&self) -> Vec<String> {
        let tools = self.tools.iter().map(|spots| tool_at(&self.toolboxes, spots[0]));
        tools.map(|tool| text(tool.id.server.as_str(), &tool.definition)).collect()
    }

    fn is_of(&self, views: &[Arc<ToolboxView>]) -> bool {
        self.toolboxes.len() == views.len()
            && self.toolboxes.iter().zip(views).all(|(toolbox, view)| {
                let is_nothing = toolbox.view.tool_count() == 0 && view.tool_count() == 0;
                toolbox.view.has_the_parts_of(view) || is_nothing
            })
    }

    /// Returns the best matches, best first. `nearness` holds a similarity for each tool, if a
    /// model computed it.
    fn ask(&self, sought: &ToolQuery<'_>, nearness: Option<&[f32]>) -> Vec<ToolMatch> {
        let wanted = |index: usize| {
            let spots = self.tools[index].iter();
            let mut spots = spots.filter(|location| {
                let id = &tool_at(&self.toolboxes, **location).id;
                is_in(sought.toolbox, sought.server, (&id.toolbox, &id.server))
            });
            spots.next()
        };
        let is_wanted = |index: usize| wanted(index).is_some();
        let ToolQuery { query, finds, limit, .. } = *sought;
        let hits = self.index.search_by(query, finds, nearness, limit, is_wanted);
        let found = hits.into_iter().filter_map(|hit| {
            let location = wanted(hit.index)?;
            let part = Arc::clone(part_at(&self.toolboxes, *location));
            Some(ToolMatch { part, at: location.at, fit: hit.relevance() })
        });
        found.collect()
    }
}

impl SearchableToolbox {
    fn identity<'a>(&self, tool: &'a ExposedTool) -> Identity<'a> {
        let source = self.sources.get(&tool.id.server).copied();
        let pinned = tool.pinned.as_ref().map(RawJson::as_bytes);
        (source, &tool.server_definition.name, tool.definition.raw.as_bytes(), pinned)
    }
}

fn is_in(
    toolbox: Option<&ToolboxName>,
    server: Option<&ServerName>,
    at: (&ToolboxName, &ServerName),
) -> bool {
    toolbox.is_none_or(|wanted| wanted == at.0) && server.is_none_or(|wanted| wanted == at.1)
}

fn spots(toolboxes: &[SearchableToolbox]) -> impl Iterator<Item = (ToolLocation, &ExposedTool)> {
    toolboxes.iter().enumerate().flat_map(|(toolbox, shelved)| {
        shelved.view.parts().iter().enumerate().flat_map(move |(part, of_server)| {
            let tools = of_server.tools.iter().enumerate();
            tools.map(move |(at, tool)| (ToolLocation { toolbox, part, at }, tool))
        })
    })
}

fn part_at(
    toolboxes: &[SearchableToolbox],
    ToolLocation { toolbox, part, .. }: ToolLocation,
) -> &Arc<ServerView> {
    &toolboxes[toolbox].view.parts()[part]
}

fn tool_at(toolboxes: &[SearchableToolbox], location: ToolLocation) -> &ExposedTool {
    &part_at(toolboxes, location).tools[location.at]
}

fn about<'a>(toolboxes: &'a [SearchableToolbox], spots: &[ToolLocation]) -> Cow<'a, str> {
    let server = |location: &ToolLocation| &tool_at(toolboxes, *location).id.server;
    let first = server(&spots[0]);
    let mut said: Vec<&'a str> = Vec::new();
    for location in spots {
        let name = server(location);
        let other = (name != first).then(|| name.as_str());
        let words = toolboxes[location.toolbox].about.get(name).map(String::as_str);
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
