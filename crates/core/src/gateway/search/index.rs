//! The index of a search: the tools of all views, each listed once.

use std::borrow::Cow;
use std::collections::hash_map::Entry as MapEntry;
use std::sync::{Arc, Weak};

use foldhash::HashMap;
use tokio::sync::Mutex;

use crate::backend::BackendId;
use crate::catalog::rank::{
    RankingMethod, Relevance, ScoreCutoff, SearchIndex, ToolDocument, round_score,
};
use crate::gateway::embedding::{IndexVectors, text};
use crate::toolbox::{ExposedTool, ServerView, ToolboxView};
use mcp_workbench_names::{ServerName, ToolboxName};
use mcp_workbench_wire::json::RawJson;

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
pub(crate) struct LastIndex(pub(crate) Mutex<Option<Arc<ToolIndex>>>);

/// Indexes of all gateways with the same configuration.
#[derive(Default)]
pub(crate) struct Indexes(pub(crate) Mutex<Vec<Weak<ToolIndex>>>);

#[derive(Clone)]
pub(crate) struct SearchableToolbox {
    pub(crate) about: HashMap<ServerName, String>,
    pub(crate) sources: HashMap<ServerName, BackendId>,
    pub(crate) view: Arc<ToolboxView>,
}

#[derive(Clone, Copy)]
struct ToolLocation {
    toolbox: usize,
    part: usize,
    at: usize,
}

pub(crate) struct ToolIndex {
    toolboxes: Vec<SearchableToolbox>,
    /// All positions of each tool.
    tools: Vec<Vec<ToolLocation>>,
    pub(crate) index: SearchIndex,
    pub(crate) pointing: IndexVectors,
}

/// Tools with equal identity are indexed once.
type Identity<'a> = (Option<BackendId>, &'a str, &'a [u8], Option<&'a [u8]>);

impl ToolIndex {
    pub(crate) fn new(toolboxes: Vec<SearchableToolbox>) -> Self {
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

    pub(crate) fn texts(&self) -> Vec<String> {
        let tools = self.tools.iter().map(|spots| tool_at(&self.toolboxes, spots[0]));
        tools.map(|tool| text(tool.id.server.as_str(), &tool.definition)).collect()
    }

    pub(crate) fn is_of(&self, views: &[Arc<ToolboxView>]) -> bool {
        self.toolboxes.len() == views.len()
            && self.toolboxes.iter().zip(views).all(|(toolbox, view)| {
                let is_nothing = toolbox.view.tool_count() == 0 && view.tool_count() == 0;
                toolbox.view.has_the_parts_of(view) || is_nothing
            })
    }

    /// Returns the best matches, best first. `nearness` holds a similarity for each tool, if a
    /// model computed it.
    pub(crate) fn ask(&self, sought: &ToolQuery<'_>, nearness: Option<&[f32]>) -> Vec<ToolMatch> {
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

pub(crate) fn is_in(
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
