//! The tree of the toolboxes: each toolbox is a category, each of its servers a service.

use std::sync::Arc;

use crate::navigator::budget::NavigationBudget;
use crate::navigator::error::TaskError;
use crate::navigator::step::StepListener;
use crate::navigator::tree::{CategoryNode, ServiceNode, ToolNode, ToolTree, list};
use mcp_workbench_core::catalog::first_sentence;
use mcp_workbench_core::catalog::rank::{Relevance, ScoreCutoff};
use mcp_workbench_core::gateway::{Gateway, RequestContext, ToolQuery};
use mcp_workbench_core::toolbox::{ExposedTool, ToolboxView};
use mcp_workbench_names::{ServerName, ServerRef};
use mcp_workbench_settings::{ServerConfig, ToolboxConfig};

pub(crate) struct ToolboxTree<'a> {
    gateway: &'a Gateway,
    context: RequestContext<'a>,
    heard: &'a StepListener<'a>,
}

impl<'a> ToolboxTree<'a> {
    pub(crate) fn new(
        gateway: &'a Gateway,
        context: &'a RequestContext<'a>,
        heard: &'a StepListener<'a>,
    ) -> Self {
        // A start to list tools isn't progress of the call that follows.
        let context = RequestContext { wants_progress: false, ..*context };
        Self { gateway, context, heard }
    }

    /// Returns `None` if the server has been listed and has no tools for the agent.
    fn service(
        &self,
        toolbox: &ToolboxConfig,
        server: &ServerConfig,
        view: &ToolboxView,
        unlisted: &[ServerRef],
    ) -> Option<ServiceNode> {
        let at = ServerRef { toolbox: toolbox.name.clone(), server: server.name.clone() };
        let tools = self.tools_of(view, &server.name);
        let tools: Vec<_> = tools.map(|tool| tool.id.tool.clone()).collect();
        let is_unknown = unlisted.contains(&at) || self.has_failed(&at);
        if tools.is_empty() && !is_unknown {
            return None;
        }
        let said = || view.instructions_of(&server.name).map(first_sentence).unwrap_or_default();
        Some(ServiceNode {
            category: toolbox.name.to_string(),
            name: server.name.to_string(),
            about: server.description.clone().unwrap_or_else(said),
            server_ref: at,
            tools,
        })
    }

    /// Returns the tools of a server that the model may use: not those that only apps call.
    fn tools_of<'b>(
        &self,
        view: &'b ToolboxView,
        server: &ServerName,
    ) -> impl Iterator<Item = &'b ExposedTool> {
        let shows_apps = self.gateway.scope().shows_apps();
        view.tools_of(server).iter().filter(move |tool| !(shows_apps && is_app_only(tool)))
    }

    fn has_failed(&self, at: &ServerRef) -> bool {
        self.gateway.servers().failed_servers().iter().any(|(server, _)| server == at)
    }
}

impl ToolTree for ToolboxTree<'_> {
    fn categories(&self) -> Vec<CategoryNode> {
        let snapshot = self.gateway.snapshot();
        let unlisted = self.gateway.views().unlisted();
        let toolboxes = self.gateway.config().toolboxes.iter();
        let categories = toolboxes.map(|toolbox| {
            let view = snapshot.view(&toolbox.name);
            let servers = toolbox.servers.iter();
            let services =
                servers.filter_map(|server| self.service(toolbox, server, &view, &unlisted));
            CategoryNode {
                name: toolbox.name.to_string(),
                about: toolbox.description.clone(),
                services: services.collect(),
            }
        });
        categories.filter(|category| !category.services.is_empty()).collect()
    }

    async fn tools(
        &self,
        service: &ServiceNode,
        budget: &NavigationBudget,
    ) -> Result<Vec<ToolNode>, TaskError> {
        if service.tools.is_empty() {
            list(self.gateway, &service.server_ref, self.context.agent, budget, self.heard).await?;
        }
        let view = self.gateway.snapshot().view(&service.server_ref.toolbox);
        Ok(self.tools_of(&view, &service.server_ref.server).map(tool).collect())
    }

    async fn ensure_listed(&self) {
        self.gateway.startup().ensure_listed(&self.context).await;
    }

    async fn rank_tools(
        &self,
        task: &str,
        limit: usize,
    ) -> Result<Vec<(ToolNode, Relevance)>, TaskError> {
        let finds = ScoreCutoff::None;
        let sought = ToolQuery { query: task, toolbox: None, server: None, finds, limit };
        let found = self.gateway.search().search_listed(&[sought], &self.context).await;
        let shows_apps = self.gateway.scope().shows_apps();
        let found = found.iter().flatten();
        let for_model = found.filter(|found| !(shows_apps && is_app_only(found.tool())));
        Ok(for_model.map(|found| (tool(found.tool()), found.fit)).collect())
    }

    async fn absent_services(&self, task: &str) -> Vec<String> {
        self.gateway.search().absent_services(task).await
    }
}

fn is_app_only(tool: &ExposedTool) -> bool {
    tool.definition.ui().is_some_and(|ui| ui.is_app_only)
}

fn tool(tool: &ExposedTool) -> ToolNode {
    ToolNode {
        id: tool.id.clone(),
        category: tool.id.toolbox.to_string(),
        service: tool.id.server.to_string(),
        name: tool.id.tool.clone(),
        definition: Arc::clone(&tool.definition),
    }
}
