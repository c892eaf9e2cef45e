//! The tree of a catalog folder. Tool files are read on demand.

use tokio::task::spawn_blocking;

use crate::navigator::budget::NavigationBudget;
use crate::navigator::error::{TaskError, TaskErrorKind};
use crate::navigator::tree::{CategoryNode, ServiceNode, ToolNode, ToolTree};
use mcp_workbench_core::catalog::rank::{RankingMethod, Relevance, SearchIndex, ToolDocument};
use mcp_workbench_core::gateway::{Gateway, ToolAvailability, ToolFile};
use mcp_workbench_names::ToolId;
use mcp_workbench_settings::{CatalogCategory, CatalogFolder, CatalogService};

pub(crate) struct CatalogTree<'a> {
    gateway: &'a Gateway,
    catalog: &'a CatalogFolder,
}

impl<'a> CatalogTree<'a> {
    pub(crate) fn new(gateway: &'a Gateway, catalog: &'a CatalogFolder) -> Self {
        Self { gateway, catalog }
    }

    fn standing(&self, service: &CatalogService, tool: &str) -> ToolAvailability {
        self.gateway.views().tool_availability(&own_id(service, tool))
    }

    /// Returns a service with the tools available to the agent, or `None` without any.
    fn service(&self, category: &CatalogCategory, service: &CatalogService) -> Option<ServiceNode> {
        let is_there = |tool: &&String| self.standing(service, tool) != ToolAvailability::Absent;
        let tools: Vec<_> = service.tools.iter().filter(is_there).cloned().collect();
        (!tools.is_empty()).then(|| ServiceNode {
            category: category.name.clone(),
            name: service.name.clone(),
            about: service.description.clone(),
            server_ref: service.at.clone(),
            tools,
        })
    }

    /// Returns the available tools from their files, each with the descriptions of its category and
    /// service, and the first error of an unreadable file.
    async fn read(
        &self,
        services: impl Iterator<Item = (&CatalogCategory, &CatalogService)>,
    ) -> (Vec<(String, ToolNode)>, Option<String>) {
        let mut named = Vec::new();
        for (category, service) in services {
            for tool in &service.tools {
                let id = match self.standing(service, tool) {
                    ToolAvailability::Shown(id) => id,
                    ToolAvailability::Unlisted => own_id(service, tool),
                    ToolAvailability::Absent => continue,
                };
                named.push((id, category, service, tool));
            }
        }
        let file = |(_, _, service, tool): &(_, _, &CatalogService, &String)| ToolFile {
            file: service.file(tool),
            tool: (*tool).clone(),
        };
        let files = named.iter().map(file).collect();
        let definitions = self.gateway.views().read_tool_files(files).await;
        let (mut tools, mut unreadable) = (Vec::new(), None);
        for ((id, category, service, name), definition) in named.into_iter().zip(definitions) {
            let definition = match definition {
                Ok(definition) => definition,
                Err(why) => {
                    // An unreadable file only affects its own tool.
                    tracing::warn!("skipped a tool: {why}");
                    unreadable.get_or_insert(why);
                    continue;
                }
            };
            let about = format!("{} {}", category.description, service.description);
            let (category, service) = (category.name.clone(), service.name.clone());
            let tool = ToolNode { id, category, service, name: name.clone(), definition };
            tools.push((about, tool));
        }
        (tools, unreadable)
    }

    fn services(&self) -> impl Iterator<Item = (&'a CatalogCategory, &'a CatalogService)> {
        let categories = self.catalog.categories.iter();
        categories.flat_map(|category| category.services.iter().map(move |s| (category, s)))
    }
}

impl ToolTree for CatalogTree<'_> {
    fn categories(&self) -> Vec<CategoryNode> {
        let categories = self.catalog.categories.iter().map(|category| {
            let services = category.services.iter().filter_map(|s| self.service(category, s));
            CategoryNode {
                name: category.name.clone(),
                about: category.description.clone(),
                services: services.collect(),
            }
        });
        categories.filter(|category| !category.services.is_empty()).collect()
    }

    async fn tools(
        &self,
        service: &ServiceNode,
        _: &NavigationBudget,
    ) -> Result<Vec<ToolNode>, TaskError> {
        let found = self.services().find(|(category, found)| {
            category.name == service.category && found.name == service.name
        });
        let Some((category, found)) = found else { return Ok(Vec::new()) };
        match self.read(std::iter::once((category, found))).await {
            (tools, Some(why)) if tools.is_empty() => Err(unreadable(&why)),
            (tools, _) => Ok(tools.into_iter().map(|(_, tool)| tool).collect()),
        }
    }

    async fn rank_tools(
        &self,
        task: &str,
        limit: usize,
    ) -> Result<Vec<(ToolNode, Relevance)>, TaskError> {
        let (tools, _) = self.read(self.services()).await;
        let task = task.to_owned();
        let ranking = spawn_blocking(move || {
            let hits = index(&tools, RankingMethod::Hybrid).search_nearest(&task, limit, |_| true);
            hits.iter().map(|hit| (tools[hit.index].1.clone(), hit.relevance())).collect()
        });
        // Fails only on a panic or at shutdown; return no tools.
        Ok(ranking.await.unwrap_or_default())
    }

    async fn absent_services(&self, task: &str) -> Vec<String> {
        let (tools, _) = self.read(self.services()).await;
        let task = task.to_owned();
        let finding =
            spawn_blocking(move || index(&tools, RankingMethod::Lexical).absent_services(&task));
        finding.await.unwrap_or_default()
    }
}

fn index(tools: &[(String, ToolNode)], method: RankingMethod) -> SearchIndex {
    let entries = tools.iter().map(|(about, tool)| ToolDocument {
        server: &tool.service,
        about,
        tool: &tool.definition,
    });
    SearchIndex::new(entries, method)
}

fn own_id(service: &CatalogService, tool: &str) -> ToolId {
    let (toolbox, server) = (service.at.toolbox.clone(), service.at.server.clone());
    ToolId { toolbox, server, tool: tool.to_owned() }
}

fn unreadable(why: &str) -> TaskError {
    let suggestion = "the catalog folder has to be fixed: run `mcp-workbench check`";
    TaskError::new(TaskErrorKind::CatalogError, why, suggestion)
}
