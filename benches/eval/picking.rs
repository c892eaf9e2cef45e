//! The evaluation data as a navigator tree, and the picks of the navigator's ranker on it.

use std::collections::BTreeMap;
use std::sync::Arc;

use mcp_workbench_core::catalog::ToolDefinition;
use mcp_workbench_core::catalog::rank::{Relevance, SearchIndex};
use mcp_workbench_names::{ServerName, ServerRef, ToolId, ToolboxName};
use mcp_workbench_serve::navigator::{
    CategoryNode, NavigationBudget, ServiceNode, TaskError, ToolNode, ToolTree, pick_with_ranker,
};
use mcp_workbench_settings::Strategy;
use tokio::runtime::{Builder, Runtime};

pub(crate) struct Leaf<'a> {
    pub(crate) category: &'a str,
    pub(crate) theme: &'a str,
    pub(crate) service: &'a str,
    pub(crate) about: &'a str,
    pub(crate) tool: &'a Arc<ToolDefinition>,
}

impl Leaf<'_> {
    pub(crate) fn word(&self) -> String {
        format!("{}.{}", self.service, self.tool.name)
    }
}

/// Implements the navigator's tree. The tool part of each ID is the tool's position in the data.
pub(crate) struct EvalTree<'a> {
    categories: Vec<CategoryNode>,
    tools: Vec<ToolNode>,
    index: &'a SearchIndex,
    runtime: Runtime,
}

impl<'a> EvalTree<'a> {
    /// `leaves` have the same order as the documents of `index`.
    pub(crate) fn new(leaves: &[Leaf<'_>], index: &'a SearchIndex) -> Self {
        let mut categories: BTreeMap<&str, BTreeMap<&str, Vec<&Leaf<'_>>>> = BTreeMap::new();
        for leaf in leaves {
            let services = categories.entry(leaf.category).or_default();
            services.entry(leaf.service).or_default().push(leaf);
        }
        let categories = categories.into_iter().map(|(name, services)| {
            let about = services.values().flatten().next().map(|leaf| leaf.theme.to_owned());
            let services = services.into_values().map(|leaves| service(&leaves));
            CategoryNode {
                name: name.to_owned(),
                about: about.unwrap_or_default(),
                services: services.collect(),
            }
        });
        let tools = leaves.iter().enumerate().map(|(at, leaf)| tool(leaf, at));
        // The ranker does no I/O; its budget needs the timer.
        let runtime = Builder::new_current_thread().enable_time().build().expect("a runtime");
        Self { categories: categories.collect(), tools: tools.collect(), index, runtime }
    }

    /// Returns the position of the picked tool, or the tools that are proposed instead.
    pub(crate) fn pick(&self, task: &str, strategy: Strategy) -> Result<usize, Vec<String>> {
        match self.runtime.block_on(pick_with_ranker(self, task, strategy)) {
            Ok(picked) => Ok(picked.id.tool.parse().expect("a place")),
            Err(failure) => Err(failure.candidates.into_iter().map(|one| one.tool).collect()),
        }
    }
}

impl ToolTree for EvalTree<'_> {
    fn categories(&self) -> Vec<CategoryNode> {
        self.categories.clone()
    }

    async fn tools(
        &self,
        service: &ServiceNode,
        _: &NavigationBudget,
    ) -> Result<Vec<ToolNode>, TaskError> {
        let its =
            |tool: &&ToolNode| tool.category == service.category && tool.service == service.name;
        Ok(self.tools.iter().filter(its).cloned().collect())
    }

    async fn rank_tools(
        &self,
        task: &str,
        limit: usize,
    ) -> Result<Vec<(ToolNode, Relevance)>, TaskError> {
        let hits = self.index.search_nearest(task, limit, |_| true);
        Ok(hits.iter().map(|hit| (self.tools[hit.index].clone(), hit.relevance())).collect())
    }

    async fn absent_services(&self, task: &str) -> Vec<String> {
        self.index.absent_services(task)
    }
}

fn service(leaves: &[&Leaf<'_>]) -> ServiceNode {
    let any = leaves[0];
    ServiceNode {
        category: any.category.to_owned(),
        name: any.service.to_owned(),
        about: any.about.to_owned(),
        server_ref: server_ref(any),
        tools: leaves.iter().map(|leaf| leaf.tool.name.clone()).collect(),
    }
}

fn tool(leaf: &Leaf<'_>, at: usize) -> ToolNode {
    let ServerRef { toolbox, server } = server_ref(leaf);
    ToolNode {
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
