//! A catalog that is a folder as a tree. What its files say of tools is read when it is wanted.

use std::sync::Arc;

use serde_json::json;

use crate::catalog::rank::{Entry, Index, Method};
use crate::catalog::{Definition, ToolDefinition};
use crate::config::{self, Catalog, CatalogCategory, CatalogService};
use crate::gateway::{Gateway, Origin, Standing};
use crate::name::ToolId;
use crate::navigator::tree::{Category, Service, Tool, Tree, list};
use crate::navigator::{Budget, Failure, Hear, Kind};
use crate::raw::Raw;

/// The catalog of a configuration.
pub(crate) struct Folder<'a> {
    gateway: &'a Gateway,
    catalog: &'a Catalog,
    origin: Origin<'a>,
    heard: &'a Hear<'a>,
}

impl<'a> Folder<'a> {
    pub(crate) fn new(
        gateway: &'a Gateway,
        catalog: &'a Catalog,
        origin: Origin<'a>,
        heard: &'a Hear<'a>,
    ) -> Self {
        Self { gateway, catalog, origin, heard }
    }

    fn standing(&self, service: &CatalogService, tool: &str) -> Standing {
        self.gateway.standing(&own_id(service, tool))
    }

    /// A service with those of its tools that there are for the agent, unless there is none.
    fn service(&self, category: &CatalogCategory, service: &CatalogService) -> Option<Service> {
        let there_is = |tool: &&String| match self.standing(service, tool) {
            Standing::Shown(_) | Standing::Unlisted => Some(true),
            Standing::Unclear => Some(false),
            Standing::Absent => None,
        };
        let known: Vec<_> = service.tools.iter().filter_map(|t| Some((t, there_is(&t)?))).collect();
        let named = known.iter().filter(|(_, may_be_named)| *may_be_named);
        let tools = named.map(|(tool, _)| (*tool).clone()).collect();
        (!known.is_empty()).then(|| Service {
            category: category.name.clone(),
            name: service.name.clone(),
            about: service.description.clone(),
            at: service.at.clone(),
            tools,
        })
    }

    /// The tools of a service that may be named, as their files say, and what is wrong with one of
    /// those files; its server has been listed where that is needed to know.
    fn read(&self, category: &str, service: &CatalogService) -> (Vec<Tool>, Option<String>) {
        let (mut tools, mut unreadable) = (Vec::new(), None);
        for name in &service.tools {
            let id = match self.standing(service, name) {
                Standing::Shown(id) => id,
                Standing::Unlisted => own_id(service, name),
                Standing::Unclear | Standing::Absent => continue,
            };
            let definition = match definition(self.catalog, category, &service.name, name) {
                Ok(definition) => definition,
                Err(why) => {
                    // A file that is broken costs its tool.
                    tracing::warn!("a tool is left out: {why}");
                    unreadable.get_or_insert(why);
                    continue;
                }
            };
            tools.push(Tool {
                id,
                category: category.to_owned(),
                service: service.name.clone(),
                name: name.clone(),
                definition: Arc::new(definition),
            });
        }
        (tools, unreadable)
    }

    fn services(&self) -> impl Iterator<Item = (&'a CatalogCategory, &'a CatalogService)> {
        let categories = self.catalog.categories.iter();
        categories.flat_map(|category| category.services.iter().map(move |s| (category, s)))
    }
}

impl Tree for Folder<'_> {
    fn categories(&self) -> Vec<Category> {
        let categories = self.catalog.categories.iter().map(|category| {
            let services = category.services.iter().filter_map(|s| self.service(category, s));
            Category {
                name: category.name.clone(),
                about: category.description.clone(),
                services: services.collect(),
            }
        });
        categories.filter(|category| !category.services.is_empty()).collect()
    }

    async fn tools(&self, service: &Service, budget: &Budget) -> Result<Vec<Tool>, Failure> {
        let found = self.services().find(|(category, found)| {
            category.name == service.category && found.name == service.name
        });
        let Some((category, found)) = found else { return Ok(Vec::new()) };
        if found.tools.iter().any(|tool| self.standing(found, tool) == Standing::Unclear) {
            list(self.gateway, &found.at, self.origin, budget, self.heard).await?;
        }
        match self.read(&category.name, found) {
            (tools, Some(why)) if tools.is_empty() => Err(unreadable(&why)),
            (tools, _) => Ok(tools),
        }
    }

    async fn ranked(&self, task: &str, limit: usize) -> Result<Vec<(Tool, f32)>, Failure> {
        let mut all = Vec::new();
        for (category, service) in self.services() {
            let about = format!("{} {}", category.description, service.description);
            let (tools, _) = self.read(&category.name, service);
            all.extend(tools.into_iter().map(|tool| (about.clone(), tool)));
        }
        let entries = all.iter().map(|(about, tool)| Entry {
            server: &tool.service,
            about,
            tool: &tool.definition,
        });
        let hits = Index::new(entries, Method::Mixed).search(task, limit, |_| true);
        Ok(hits.iter().map(|hit| (all[hit.place].1.clone(), hit.score)).collect())
    }
}

fn own_id(service: &CatalogService, tool: &str) -> ToolId {
    let (toolbox, server) = (service.at.toolbox.clone(), service.at.server.clone());
    ToolId { toolbox, server, tool: tool.to_owned() }
}

/// What the file of a tool says, as a server would say it.
fn definition(
    catalog: &Catalog,
    category: &str,
    service: &str,
    tool: &str,
) -> Result<ToolDefinition, String> {
    let read = config::read_catalog_tool(catalog, category, service, tool);
    let read = read.map_err(|report| report.body().to_string())?;
    ToolDefinition::parse(Raw::encode(&json!({
        "name": read.name,
        "description": read.description,
        "inputSchema": read.schema,
    })))
}

fn unreadable(why: &str) -> Failure {
    let suggestion =
        "this is for whoever keeps the catalog: `mcp-workbench check` finds what is wrong";
    Failure::new(Kind::CatalogError, why, suggestion)
}
