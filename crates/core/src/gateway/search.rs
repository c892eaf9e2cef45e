//! Search over the tools that an agent may see.
//!
//! The index is built from policy-filtered views, so it contains no hidden tool
//! ([`ToolIndex::new`]). It is built by the first search, shared by agents with equal views, and
//! replaced when a view changes. A tool that several toolboxes get from one server with one
//! definition is indexed once and reported from the first matching toolbox.

pub(crate) mod index;

use std::sync::{Arc, Weak};
use std::time::Duration;

use foldhash::HashMap;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::backend::text_key;
use crate::catalog::rank::{BACKGROUND, MAX_QUERY};
use crate::gateway::embedding::{EmbeddingModel, IndexVectors};
use crate::gateway::error::FailedServer;
use crate::gateway::models::Models;
use crate::gateway::progress::with_heartbeat;
use crate::gateway::request_context::RequestContext;
use crate::gateway::scope::{GatewayScope, server_ref};
use crate::gateway::search::index::{
    LastIndex, SearchableToolbox, ToolIndex, ToolMatch, ToolQuery, is_in,
};
use crate::gateway::servers::Servers;
use crate::gateway::startup::Startup;
use crate::gateway::views::Views;
use crate::toolbox::ToolboxView;
use mcp_workbench_names::{ServerName, ServerRef, ToolboxName};
use mcp_workbench_settings::ToolboxConfig;

/// How long the first search waits for unlisted servers.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Number of tools above which the index is built on a blocking thread, because that takes
/// milliseconds.
const LARGE: usize = 200;

/// Finds the tools that a task needs.
pub struct Search {
    scope: Arc<GatewayScope>,
    servers: Arc<Servers>,
    views: Arc<Views>,
    startup: Arc<Startup>,
    models: Arc<Models>,
    pub(crate) embedding: Option<Arc<EmbeddingModel>>,
    last_index: LastIndex,
}

impl Search {
    pub(crate) fn new(
        scope: &Arc<GatewayScope>,
        servers: &Arc<Servers>,
        views: &Arc<Views>,
        startup: &Arc<Startup>,
        models: &Arc<Models>,
        embedding: Option<Arc<EmbeddingModel>>,
    ) -> Self {
        Self {
            scope: Arc::clone(scope),
            servers: Arc::clone(servers),
            views: Arc::clone(views),
            startup: Arc::clone(startup),
            models: Arc::clone(models),
            embedding,
            last_index: LastIndex::default(),
        }
    }

    /// Returns the best matches, best first. Starts unlisted servers once, and failed ones again if
    /// the query is limited to them.
    pub async fn find(
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
        self.startup.probe_unlisted(context, TIMEOUT).await;
        if toolbox.is_none() && server.is_none() {
            return;
        }
        let failed =
            self.unsearchable_servers(toolbox, server).into_iter().filter(|(_, why)| why.is_some());
        let servers: Vec<_> = failed.map(|(server_ref, _)| server_ref).collect();
        let _ = timeout(TIMEOUT, self.startup.start_servers(&servers, context)).await;
    }

    /// Searches the listed tools without starting servers. Returns the results of each query, all
    /// with comparable scores.
    pub async fn search_listed(
        &self,
        sought: &[ToolQuery<'_>],
        context: &RequestContext<'_>,
    ) -> Vec<Vec<ToolMatch>> {
        self.views.wait_for_stored_listings().await;
        let indexed = self.tool_index().await;
        let queries: Vec<&str> = sought.iter().map(|sought| sought.query).collect();
        let described = Arc::clone(&indexed);
        let texts = move || described.texts();
        let nearness = self.similarities(&queries, &indexed.pointing, texts, context).await;
        let near = |number: usize| nearness.as_ref().map(|each| each[number].as_slice());
        let sought = sought.iter().enumerate();
        sought.map(|(number, sought)| indexed.ask(sought, near(number))).collect()
    }

    /// Returns the similarity of each tool to each query. `texts` returns the texts of the index's
    /// tools, in index order. Returns `None` if no model is configured, or if it didn't return all
    /// vectors in time.
    pub(crate) async fn similarities(
        &self,
        queries: &[&str],
        pointing: &IndexVectors,
        texts: impl FnOnce() -> Vec<String> + Send + 'static,
        context: &RequestContext<'_>,
    ) -> Option<Vec<Vec<f32>>> {
        let embedding = self.embedding.as_ref()?;
        if embedding.is_backing_off() {
            return None;
        }
        let queries = queries.iter().map(|query| {
            let start = &query[..query.floor_char_boundary(MAX_QUERY)];
            self.models.redact(start.trim())
        });
        let queries: Vec<_> = queries.collect();
        let secrets = self.models.secrets().clone();
        let texts = move || {
            let texts = BACKGROUND.map(str::to_owned).into_iter().chain(texts());
            let clean = |text: String| secrets.redact_json_text(&text).into_owned();
            texts.map(clean).map(|text| (text_key(&text), text)).collect()
        };
        let waiting = || format!("waiting for the model `{}`", embedding.model());
        let asking = embedding.nearness(&self.servers.pool, &queries, pointing, texts);
        let nearness = Box::pin(with_heartbeat(waiting, context, asking)).await;
        match &nearness {
            Ok(None) => {}
            Ok(Some(_)) => embedding.note(None),
            Err(failure) => embedding.note(Some(failure)),
        }
        nearness.unwrap_or_default()
    }

    /// Returns well-known services, such as `github`, that the query names and that no server,
    /// toolbox or tool mentions. Usually empty.
    pub async fn absent_services(&self, query: &str) -> Vec<String> {
        let mut absent = self.tool_index().await.index.absent_services(query);
        // Descriptions of unlisted servers aren't in the index.
        absent.retain(|service| {
            let speaks = |text: &str| text.to_lowercase().contains(service.as_str());
            !self.scope.config.toolboxes.iter().any(|toolbox| {
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
        let mut failures: HashMap<_, _> = self.servers.failed_servers().into_iter().collect();
        let missing = self.views.unavailable_servers().into_iter();
        let snapshot = self.views.snapshot();
        missing
            .filter(|at| is_in(toolbox, server, (&at.toolbox, &at.server)))
            .filter(|at| !snapshot.has_crashed(at))
            .map(|at| {
                let failure = failures.remove(&at);
                (at, failure)
            })
            .collect()
    }

    pub(crate) async fn tool_index(&self) -> Arc<ToolIndex> {
        let mut last = self.last_index.0.lock().await;
        let snapshot = self.views.snapshot();
        let toolboxes = self.scope.config.toolboxes.iter();
        let views: Vec<_> = toolboxes.map(|toolbox| snapshot.view(&toolbox.name)).collect();
        if let Some(last) = last.as_ref().filter(|last| last.is_of(&views)) {
            return Arc::clone(last);
        }
        // Held while building, so that concurrent searches build the index once.
        let mut known = self.scope.interner.indexes.0.lock().await;
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
        let toolboxes = self.scope.config.toolboxes.iter().zip(views);
        let shelved = |(toolbox, view): (&ToolboxConfig, Arc<ToolboxView>)| {
            let sources = toolbox.servers.iter().filter_map(|server| {
                let source = self
                    .servers
                    .managed_server(&server_ref(&toolbox.name, &server.name))?
                    .shared
                    .id();
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

#[cfg(test)]
mod tests;
