//! The tree of choices: categories of services of tools, limited to those the agent can use.

pub(crate) mod catalog;
pub(crate) mod toolboxes;

use std::sync::Arc;

use crate::navigator::budget::NavigationBudget;
use crate::navigator::chooser::ChoiceOption;
use crate::navigator::error::TaskError;
use crate::navigator::server_start::{TRIES, start};
use crate::navigator::step::StepListener;
use mcp_workbench_core::catalog::rank::Relevance;
use mcp_workbench_core::catalog::{ToolDefinition, shorten};
use mcp_workbench_core::gateway::{AgentHandle, Gateway};
use mcp_workbench_names::{ServerRef, ToolId};
use mcp_workbench_wire::json::RawJson;

/// Maximum length of an option's description, in characters.
const MAX_ABOUT: usize = 300;
/// Maximum length of the list of names that is appended to it, in characters.
const MAX_NAMES: usize = 160;

/// A tool that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectedTool {
    pub id: ToolId,
    /// The name shown to the agent: `<service>.<tool>`.
    pub word: String,
}

pub trait ToolTree: Sync {
    /// Returns the categories; none is empty.
    fn categories(&self) -> Vec<CategoryNode>;

    /// Returns the tools of a service. Can start its server, with retries until the deadline of the
    /// budget.
    fn tools(
        &self,
        service: &ServiceNode,
        budget: &NavigationBudget,
    ) -> impl Future<Output = Result<Vec<ToolNode>, TaskError>> + Send;

    /// Lists the tools of all services; can start servers.
    fn ensure_listed(&self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// Returns the tools that fit a task best, best first. Only considers listed tools and starts
    /// no server.
    fn rank_tools(
        &self,
        task: &str,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<(ToolNode, Relevance)>, TaskError>> + Send;

    /// Returns the well-known services that a task names and no server here provides.
    fn absent_services(&self, task: &str) -> impl Future<Output = Vec<String>> + Send;
}

#[derive(Clone, Debug)]
pub struct CategoryNode {
    pub name: String,
    pub about: String,
    pub services: Vec<ServiceNode>,
}

#[derive(Clone, Debug)]
pub struct ServiceNode {
    pub category: String,
    pub name: String,
    pub about: String,
    pub server_ref: ServerRef,
    /// The known tools; empty if the server has not been listed.
    pub tools: Vec<String>,
}

#[derive(Clone, Debug)]
pub struct ToolNode {
    pub id: ToolId,
    pub category: String,
    pub service: String,
    /// The name within its service.
    pub name: String,
    pub definition: Arc<ToolDefinition>,
}

impl CategoryNode {
    pub(crate) fn choice(&self) -> ChoiceOption {
        let services = self.services.iter().map(|service| service.name.as_str());
        choice(&self.name, &self.about, services)
    }
}

impl ServiceNode {
    pub(crate) fn choice(&self) -> ChoiceOption {
        choice(&self.name, &self.about, self.tools.iter().map(String::as_str))
    }
}

impl ToolNode {
    /// `<service>.<tool>`.
    pub(crate) fn qualified_name(&self) -> String {
        format!("{}.{}", self.service, self.name)
    }

    pub(crate) fn used(&self) -> SelectedTool {
        SelectedTool { id: self.id.clone(), word: self.qualified_name() }
    }

    pub(crate) fn choice(&self, name: String, fit: Option<Relevance>) -> ChoiceOption {
        let signature = shorten(&self.definition.signature(), MAX_ABOUT);
        let about = match self.definition.summary() {
            Some(summary) => format!("{summary} {signature}"),
            None => signature,
        };
        ChoiceOption { name, about, fit }
    }

    pub(crate) fn schema(&self) -> &RawJson {
        self.definition.schema()
    }
}

/// Creates an option; adds the names of its children, because descriptions are often vague.
fn choice<'a>(name: &str, about: &str, inside: impl Iterator<Item = &'a str>) -> ChoiceOption {
    let about = about.split_whitespace().collect::<Vec<_>>().join(" ");
    let names = shorten(&inside.collect::<Vec<_>>().join(", "), MAX_NAMES);
    let about = match (shorten(&about, MAX_ABOUT), names.as_str()) {
        (about, "") => about,
        (about, names) if about.is_empty() => names.to_owned(),
        (about, names) => format!("{about} ({names})"),
    };
    ChoiceOption { name: name.to_owned(), about, fit: None }
}

/// Starts a server if it has not been listed or has failed, with retries until the deadline.
async fn list(
    gateway: &Gateway,
    at: &ServerRef,
    agent: &AgentHandle,
    budget: &NavigationBudget,
    heard: &StepListener<'_>,
) -> Result<(), TaskError> {
    if !gateway.views().unlisted().contains(at)
        && gateway.servers().failed_servers().iter().all(|(server, _)| server != at)
    {
        return Ok(());
    }
    let started = start(gateway, at, agent, TRIES, budget.deadline(), heard).await;
    started.map_err(|why| TaskError::unavailable(at.server.as_str(), &why.reason, &why.hint))
}
