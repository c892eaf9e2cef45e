//! The data as a tree of the navigator, and what the navigator's ranker picks there.

use std::collections::BTreeMap;
use std::sync::Arc;

use mcp_workbench::catalog::ToolDefinition;
use mcp_workbench::catalog::rank::{Fit, Index};
use mcp_workbench::name::{ServerName, ServerRef, ToolId, ToolboxName};
use mcp_workbench::navigator::{Budget, Category, Failure, Service, Tool, Tree, pick};
use mcp_workbench::settings::Strategy;
use tokio::runtime::{Builder, Runtime};

/// A tool with what stands above it.
pub(crate) struct Leaf<'a> {
    pub(crate) category: &'a str,
    /// The description of the category.
    pub(crate) theme: &'a str,
    pub(crate) service: &'a str,
    /// The description of the service.
    pub(crate) about: &'a str,
    pub(crate) tool: &'a Arc<ToolDefinition>,
}

impl Leaf<'_> {
    /// The navigator's name for it.
    pub(crate) fn word(&self) -> String {
        format!("{}.{}", self.service, self.tool.name)
    }
}

/// Categories, services and tools. The id of a tool says where it stands in the data.
pub(crate) struct Shelves<'a> {
    categories: Vec<Category>,
    tools: Vec<Tool>,
    index: &'a Index,
    runtime: Runtime,
}

impl<'a> Shelves<'a> {
    /// Tools in the order in which an index has them.
    pub(crate) fn new(leaves: &[Leaf<'_>], index: &'a Index) -> Self {
        let mut categories: BTreeMap<&str, BTreeMap<&str, Vec<&Leaf<'_>>>> = BTreeMap::new();
        for leaf in leaves {
            let services = categories.entry(leaf.category).or_default();
            services.entry(leaf.service).or_default().push(leaf);
        }
        let categories = categories.into_iter().map(|(name, services)| {
            let about = services.values().flatten().next().map(|leaf| leaf.theme.to_owned());
            let services = services.into_values().map(|leaves| service(&leaves));
            Category {
                name: name.to_owned(),
                about: about.unwrap_or_default(),
                services: services.collect(),
            }
        });
        let tools = leaves.iter().enumerate().map(|(at, leaf)| tool(leaf, at));
        // There is nothing to wait for but time that does not run out.
        let runtime = Builder::new_current_thread().enable_time().build().expect("a runtime");
        Self { categories: categories.collect(), tools: tools.collect(), index, runtime }
    }

    /// Where the tool stands that is picked for a task, or which tools are proposed.
    pub(crate) fn pick(&self, task: &str, strategy: Strategy) -> Result<usize, Vec<String>> {
        match self.runtime.block_on(pick(self, task, strategy)) {
            Ok(picked) => Ok(picked.id.tool.parse().expect("a place")),
            Err(failure) => Err(failure.candidates.into_iter().map(|one| one.tool).collect()),
        }
    }
}

impl Tree for Shelves<'_> {
    fn categories(&self) -> Vec<Category> {
        self.categories.clone()
    }

    async fn tools(&self, service: &Service, _: &Budget) -> Result<Vec<Tool>, Failure> {
        let its = |tool: &&Tool| tool.category == service.category && tool.service == service.name;
        Ok(self.tools.iter().filter(its).cloned().collect())
    }

    async fn ranked(&self, task: &str, limit: usize) -> Result<Vec<(Tool, Fit)>, Failure> {
        let hits = self.index.nearest(task, limit, |_| true);
        Ok(hits.iter().map(|hit| (self.tools[hit.place].clone(), hit.fit())).collect())
    }

    async fn absent(&self, task: &str) -> Vec<String> {
        self.index.absent_services(task)
    }
}

fn service(leaves: &[&Leaf<'_>]) -> Service {
    let any = leaves[0];
    Service {
        category: any.category.to_owned(),
        name: any.service.to_owned(),
        about: any.about.to_owned(),
        at: server_ref(any),
        tools: leaves.iter().map(|leaf| leaf.tool.name.clone()).collect(),
    }
}

fn tool(leaf: &Leaf<'_>, at: usize) -> Tool {
    let ServerRef { toolbox, server } = server_ref(leaf);
    Tool {
        id: ToolId { toolbox, server, tool: at.to_string() },
        category: leaf.category.to_owned(),
        service: leaf.service.to_owned(),
        name: leaf.tool.name.clone(),
        definition: Arc::clone(leaf.tool),
    }
}

fn server_ref(leaf: &Leaf<'_>) -> ServerRef {
    ServerRef { toolbox: ToolboxName::new(leaf.category), server: ServerName::new(leaf.service) }
}
