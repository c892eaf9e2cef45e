//! The tree of choices: categories of services of tools, and nothing that the agent may not know
//! of.

mod folder;
mod toolboxes;

use std::sync::Arc;

use crate::catalog::rank::Fit;
use crate::catalog::{ToolDefinition, shorten};
use crate::gateway::{Gateway, Presence};
use crate::name::{ServerRef, ToolId};
use crate::navigator::starting::{TRIES, start};
use crate::navigator::{Budget, Choice, Failure, Hear, Used};
use crate::raw::Raw;

pub(crate) use crate::navigator::tree::folder::Folder;
pub(crate) use crate::navigator::tree::toolboxes::Toolboxes;

/// The most characters of what an option says of itself.
const MAX_ABOUT: usize = 300;
/// The most characters of the names that are said beside it.
const MAX_NAMES: usize = 160;

/// Categories, services and tools.
pub trait Tree: Sync {
    /// The categories that have services; each has one at least.
    fn categories(&self) -> Vec<Category>;

    /// The tools of a service, which may have to be started for that, within what is left of the
    /// budget where it fails.
    fn tools(
        &self,
        service: &Service,
        budget: &Budget,
    ) -> impl Future<Output = Result<Vec<Tool>, Failure>> + Send;

    /// Makes the tools of all services known, as far as they are not; servers may be started for it.
    fn survey(&self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// Finds the tools of all services that fit a task best, the best first, each with how well it
    /// fits; as far as they are known, for nothing is started.
    fn ranked(
        &self,
        task: &str,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<(Tool, Fit)>, Failure>> + Send;

    /// Finds the well-known services that a task names and nothing here has to do with.
    fn absent(&self, task: &str) -> impl Future<Output = Vec<String>> + Send;
}

/// Some services.
#[derive(Clone, Debug)]
pub struct Category {
    /// Its name.
    pub name: String,
    /// A description of it.
    pub about: String,
    /// The services that are in it.
    pub services: Vec<Service>,
}

/// The tools of one server.
#[derive(Clone, Debug)]
pub struct Service {
    /// The category that it is in.
    pub category: String,
    /// Its name.
    pub name: String,
    /// A description of it.
    pub about: String,
    /// Which server it is.
    pub at: ServerRef,
    /// The names of its tools, as far as they are known.
    pub tools: Vec<String>,
}

/// A tool.
#[derive(Clone, Debug)]
pub struct Tool {
    /// Which one.
    pub id: ToolId,
    /// The category of its service.
    pub category: String,
    /// Its service.
    pub service: String,
    /// Its name in its service.
    pub name: String,
    /// Its definition, as it is shown.
    pub definition: Arc<ToolDefinition>,
}

impl Category {
    pub(crate) fn choice(&self) -> Choice {
        let services = self.services.iter().map(|service| service.name.as_str());
        choice(&self.name, &self.about, services)
    }
}

impl Service {
    pub(crate) fn choice(&self) -> Choice {
        choice(&self.name, &self.about, self.tools.iter().map(String::as_str))
    }
}

impl Tool {
    /// Its service and its name.
    pub(crate) fn word(&self) -> String {
        format!("{}.{}", self.service, self.name)
    }

    pub(crate) fn used(&self) -> Used {
        Used { id: self.id.clone(), word: self.word() }
    }

    /// The tool under a name that it has among options.
    pub(crate) fn choice(&self, name: String, fit: Option<Fit>) -> Choice {
        let signature = shorten(&self.definition.signature(), MAX_ABOUT);
        let about = match self.definition.summary() {
            Some(summary) => format!("{summary} {signature}"),
            None => signature,
        };
        Choice { name, about, fit }
    }

    pub(crate) fn schema(&self) -> &Raw {
        self.definition.schema()
    }
}

/// An option with the names of what is in it, for what is said of it may say little.
fn choice<'a>(name: &str, about: &str, inside: impl Iterator<Item = &'a str>) -> Choice {
    let about = about.split_whitespace().collect::<Vec<_>>().join(" ");
    let names = shorten(&inside.collect::<Vec<_>>().join(", "), MAX_NAMES);
    let about = match (shorten(&about, MAX_ABOUT), names.as_str()) {
        (about, "") => about,
        (about, names) if about.is_empty() => names.to_owned(),
        (about, names) => format!("{about} ({names})"),
    };
    Choice { name: name.to_owned(), about, fit: None }
}

/// Starts a server that has not been listed, again where it fails and there is time.
async fn list(
    gateway: &Gateway,
    at: &ServerRef,
    agent: &Presence,
    budget: &Budget,
    heard: &Hear<'_>,
) -> Result<(), Failure> {
    if !gateway.unlisted().contains(at) && gateway.failures().iter().all(|(server, _)| server != at)
    {
        return Ok(());
    }
    let started = start(gateway, at, agent, TRIES, budget.until(), heard).await;
    started.map_err(|why| Failure::unavailable(at.server.as_str(), &why.reason, &why.hint))
}
