//! The toolboxes as a tree: a category is a toolbox, a service one of its servers.

use std::sync::Arc;

use crate::catalog::first_sentence;
use crate::catalog::rank::{Finds, Fit};
use crate::gateway::{Gateway, RequestContext, Sought};
use crate::name::ServerRef;
use crate::navigator::tree::{Category, Service, Tool, Tree, list};
use crate::navigator::{Budget, Failure, Hear};
use crate::settings::{ServerConfig, ToolboxConfig};
use crate::toolbox::{View, ViewTool};

/// The toolboxes of a gateway.
pub(crate) struct Toolboxes<'a> {
    gateway: &'a Gateway,
    context: RequestContext<'a>,
    heard: &'a Hear<'a>,
}

impl<'a> Toolboxes<'a> {
    pub(crate) fn new(
        gateway: &'a Gateway,
        context: &'a RequestContext<'a>,
        heard: &'a Hear<'a>,
    ) -> Self {
        // What is started to see what it has is no progress of the tool that is called in the end.
        let context = RequestContext { wants_progress: false, ..*context };
        Self { gateway, context, heard }
    }

    /// A server, unless it has been listed and has nothing for the agent.
    fn service(
        &self,
        toolbox: &ToolboxConfig,
        server: &ServerConfig,
        view: &View,
        unlisted: &[ServerRef],
    ) -> Option<Service> {
        let at = ServerRef { toolbox: toolbox.name.clone(), server: server.name.clone() };
        let tools = view.tools_of(&server.name).iter();
        let tools: Vec<_> = tools.map(|tool| tool.id.tool.clone()).collect();
        let is_unknown = unlisted.contains(&at) || self.has_failed(&at);
        if tools.is_empty() && !is_unknown {
            return None;
        }
        let said = || view.instructions_of(&server.name).map(first_sentence).unwrap_or_default();
        Some(Service {
            category: toolbox.name.to_string(),
            name: server.name.to_string(),
            about: server.description.clone().unwrap_or_else(said),
            at,
            tools,
        })
    }

    fn has_failed(&self, at: &ServerRef) -> bool {
        self.gateway.failures().iter().any(|(server, _)| server == at)
    }
}

impl Tree for Toolboxes<'_> {
    fn categories(&self) -> Vec<Category> {
        let snapshot = self.gateway.snapshot();
        let unlisted = self.gateway.unlisted();
        let toolboxes = self.gateway.config().toolboxes.iter();
        let categories = toolboxes.map(|toolbox| {
            let view = snapshot.view(&toolbox.name);
            let servers = toolbox.servers.iter();
            let services =
                servers.filter_map(|server| self.service(toolbox, server, &view, &unlisted));
            Category {
                name: toolbox.name.to_string(),
                about: toolbox.description.clone(),
                services: services.collect(),
            }
        });
        categories.filter(|category| !category.services.is_empty()).collect()
    }

    async fn tools(&self, service: &Service, budget: &Budget) -> Result<Vec<Tool>, Failure> {
        if service.tools.is_empty() {
            list(self.gateway, &service.at, self.context.agent, budget, self.heard).await?;
        }
        let view = self.gateway.snapshot().view(&service.at.toolbox);
        Ok(view.tools_of(&service.at.server).iter().map(tool).collect())
    }

    async fn survey(&self) {
        self.gateway.ensure_listed(&self.context).await;
    }

    async fn ranked(&self, task: &str, limit: usize) -> Result<Vec<(Tool, Fit)>, Failure> {
        let finds = Finds::WhatIsNearest;
        let sought = Sought { query: task, toolbox: None, server: None, finds, limit };
        let found = self.gateway.find_tools(&[sought], &self.context).await;
        Ok(found.iter().flatten().map(|found| (tool(found.tool()), found.fit)).collect())
    }

    async fn absent(&self, task: &str) -> Vec<String> {
        self.gateway.absent_services(task).await
    }
}

fn tool(shown: &ViewTool) -> Tool {
    Tool {
        id: shown.id.clone(),
        category: shown.id.toolbox.to_string(),
        service: shown.id.server.to_string(),
        name: shown.id.tool.clone(),
        definition: Arc::clone(&shown.definition),
    }
}
