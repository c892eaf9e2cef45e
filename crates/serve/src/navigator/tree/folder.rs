//! A catalog that is a folder as a tree. What its files say of tools is read when it is wanted.

use tokio::task::spawn_blocking;

use crate::catalog::rank::{Entry, Fit, Index, Method};
use crate::gateway::{Filed, Gateway, Standing};
use crate::name::ToolId;
use crate::navigator::tree::{Category, Service, Tool, Tree};
use crate::navigator::{Budget, Failure, Kind};
use crate::settings::{Catalog, CatalogCategory, CatalogService};

/// The catalog of a configuration.
pub(crate) struct Folder<'a> {
    gateway: &'a Gateway,
    catalog: &'a Catalog,
}

impl<'a> Folder<'a> {
    pub(crate) fn new(gateway: &'a Gateway, catalog: &'a Catalog) -> Self {
        Self { gateway, catalog }
    }

    fn standing(&self, service: &CatalogService, tool: &str) -> Standing {
        self.gateway.standing(&own_id(service, tool))
    }

    /// A service with those of its tools that there are for the agent, unless there is none.
    fn service(&self, category: &CatalogCategory, service: &CatalogService) -> Option<Service> {
        let is_there = |tool: &&String| self.standing(service, tool) != Standing::Absent;
        let tools: Vec<_> = service.tools.iter().filter(is_there).cloned().collect();
        (!tools.is_empty()).then(|| Service {
            category: category.name.clone(),
            name: service.name.clone(),
            about: service.description.clone(),
            at: service.at.clone(),
            tools,
        })
    }

    /// The tools of services that there are for the agent, as their files say, each with what is said
    /// of its service, and what is wrong with one of those files.
    async fn read(
        &self,
        services: impl Iterator<Item = (&CatalogCategory, &CatalogService)>,
    ) -> (Vec<(String, Tool)>, Option<String>) {
        let mut named = Vec::new();
        for (category, service) in services {
            for tool in &service.tools {
                let id = match self.standing(service, tool) {
                    Standing::Shown(id) => id,
                    Standing::Unlisted => own_id(service, tool),
                    Standing::Absent => continue,
                };
                named.push((id, category, service, tool));
            }
        }
        let file = |(_, _, service, tool): &(_, _, &CatalogService, &String)| Filed {
            file: service.file(tool),
            tool: (*tool).clone(),
        };
        let files = named.iter().map(file).collect();
        let definitions = self.gateway.filed(files).await;
        let (mut tools, mut unreadable) = (Vec::new(), None);
        for ((id, category, service, name), definition) in named.into_iter().zip(definitions) {
            let definition = match definition {
                Ok(definition) => definition,
                Err(why) => {
                    // A file that is broken costs its tool.
                    tracing::warn!("a tool is left out: {why}");
                    unreadable.get_or_insert(why);
                    continue;
                }
            };
            let about = format!("{} {}", category.description, service.description);
            let (category, service) = (category.name.clone(), service.name.clone());
            let tool = Tool { id, category, service, name: name.clone(), definition };
            tools.push((about, tool));
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

    async fn tools(&self, service: &Service, _: &Budget) -> Result<Vec<Tool>, Failure> {
        let found = self.services().find(|(category, found)| {
            category.name == service.category && found.name == service.name
        });
        let Some((category, found)) = found else { return Ok(Vec::new()) };
        match self.read(std::iter::once((category, found))).await {
            (tools, Some(why)) if tools.is_empty() => Err(unreadable(&why)),
            (tools, _) => Ok(tools.into_iter().map(|(_, tool)| tool).collect()),
        }
    }

    async fn ranked(&self, task: &str, limit: usize) -> Result<Vec<(Tool, Fit)>, Failure> {
        let (tools, _) = self.read(self.services()).await;
        let task = task.to_owned();
        let ranking = spawn_blocking(move || {
            let hits = index(&tools, Method::Mixed).nearest(&task, limit, |_| true);
            hits.iter().map(|hit| (tools[hit.place].1.clone(), hit.fit())).collect()
        });
        // Where it is lost, the runtime ends or it panicked; nothing is found then.
        Ok(ranking.await.unwrap_or_default())
    }

    async fn absent(&self, task: &str) -> Vec<String> {
        let (tools, _) = self.read(self.services()).await;
        let task = task.to_owned();
        let finding = spawn_blocking(move || index(&tools, Method::Words).absent_services(&task));
        finding.await.unwrap_or_default()
    }
}

/// Makes an index of tools, each with what is said of its service.
fn index(tools: &[(String, Tool)], method: Method) -> Index {
    let entries = tools.iter().map(|(about, tool)| Entry {
        server: &tool.service,
        about,
        tool: &tool.definition,
    });
    Index::new(entries, method)
}

fn own_id(service: &CatalogService, tool: &str) -> ToolId {
    let (toolbox, server) = (service.at.toolbox.clone(), service.at.server.clone());
    ToolId { toolbox, server, tool: tool.to_owned() }
}

fn unreadable(why: &str) -> Failure {
    let suggestion =
        "this is for whoever keeps the catalog: `mcp-workbench check` finds what is wrong";
    Failure::new(Kind::CatalogError, why, suggestion)
}
