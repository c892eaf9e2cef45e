//! The navigator: from a task in words to the tool for it, and to its result.
//!
//! *Theory of operation.* A task takes steps: category, service, tool, parameters, execution. What
//! there is to choose from comes of a [`tree`], which has nothing that the agent may not know of,
//! and who chooses is a [`Chooser`]: a language [`model`], behind an endpoint or the agent's own, or
//! the ranker. What a chooser says is taken for nothing but one of the options it was given
//! ([`asking`]). [`walk`] finds the tool, [`filling`] its arguments, and [`executing`] has it called
//! in the one way in which all tools are called. Nothing is kept of a task when it is done.

mod answer;
mod asking;
mod budget;
mod chooser;
mod executing;
mod failure;
mod filling;
pub mod model;
mod prompts;
mod ranker;
mod starting;
mod step;
mod tree;
mod walk;

#[cfg(test)]
mod tests;

use tokio::time::Instant;

use crate::gateway::{CallError, Gateway, RequestContext};
use crate::name::ToolId;
use crate::navigator::asking::Asker;
use crate::navigator::filling::Filling;
use crate::navigator::model::{ModelChooser, Whose};
use crate::navigator::ranker::Ranker;
use crate::navigator::tree::{Folder, Toolboxes};
use crate::navigator::walk::Walk;
use crate::raw::Raw;
use crate::settings::{BudgetConfig, ChooserKind, Strategy};

pub use answer::{answer, shape};
pub use budget::Budget;
pub use chooser::{Choice, Chooser, Choosing, Level, Question, Unable, Wanted};
pub use failure::{Candidate, Failure, Kind};
pub use step::{Hear, Step};
pub use tree::{Category, Service, Tool, Tree};

/// A task.
#[derive(Clone, Copy, Debug)]
pub struct Task<'a> {
    /// The task in the agent's words.
    pub words: &'a str,
    /// The tool that is to do it, where the agent has named it: `<service>.<tool>`.
    pub tool: Option<&'a str>,
    /// The tool's arguments as far as the agent has given them: an object.
    pub arguments: Option<&'a Raw>,
    /// `true` if it is to end before anything is called.
    pub is_rehearsal: bool,
}

/// The outcome of a task.
#[derive(Debug)]
pub struct Done {
    /// The tool that was found, if one was.
    pub tool: Option<Used>,
    /// The outcome of the tool.
    pub came: Came,
}

/// The tool for a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Used {
    /// Which one.
    pub id: ToolId,
    /// The name that an agent is told: its service and its name.
    pub word: String,
}

/// The outcome of a tool.
#[derive(Debug)]
pub enum Came {
    /// Its result, as its server wrote it.
    Result(Raw),
    /// It was not called, or failed.
    Failed(Failure),
    /// It would be called with these arguments.
    Rehearsed(Option<Raw>),
}

impl Done {
    fn failed(tool: Option<&Tool>, failure: Failure) -> Self {
        Self { tool: tool.map(Tool::used), came: Came::Failed(failure) }
    }
}

/// Does a task: finds the tool for it, and calls it. Dropping the future gives it up, and cancels
/// the call.
pub async fn navigate(
    gateway: &Gateway,
    context: &RequestContext<'_>,
    task: Task<'_>,
    heard: &Hear<'_>,
) -> Done {
    gateway.recalled().await;
    match &gateway.config().navigator.catalog {
        Some(catalog) => {
            let tree = Folder::new(gateway, catalog);
            on(&tree, gateway, context, task, heard).await
        }
        None => on(&Toolboxes::new(gateway, context, heard), gateway, context, task, heard).await,
    }
}

async fn on<T: Tree>(
    tree: &T,
    gateway: &Gateway,
    context: &RequestContext<'_>,
    task: Task<'_>,
    heard: &Hear<'_>,
) -> Done {
    let config = &gateway.config().navigator;
    let budget = Budget::new(&config.budget);
    let chooser = chooser_for(config.chooser(), gateway, context, &budget);
    let asker = Asker::new(task.words, &*chooser, &budget, heard);
    let walk = Walk::new(tree, &asker, heard);
    let found = match task.tool {
        Some(name) => walk.named(name).await,
        None => walk.find(config.strategy()).await,
    };
    let mut tool = match found {
        Ok(tool) => tool,
        Err(failure) => return Done::failed(None, failure),
    };
    if task.tool.is_none()
        && !asker.is_helped_by_others()
        && filling::leaves_out_what_may_matter(&tool, task.arguments)
    {
        let failure = Failure::unasked(&tool.word(), tool.definition.parameters());
        return Done::failed(Some(&tool), failure);
    }
    let mut filling = Filling::new(task.arguments);
    loop {
        let arguments = match filling.next(&tool, &asker, heard).await {
            Ok(arguments) => arguments,
            Err(failure) => return Done::failed(Some(&tool), failure),
        };
        if task.is_rehearsal {
            return Done { tool: Some(tool.used()), came: Came::Rehearsed(arguments) };
        }
        let began = Instant::now();
        let called = executing::call(gateway, context, &tool, arguments.as_ref(), &budget, heard);
        let called = Box::pin(called).await;
        let explained = |outcome| gateway.explained(&tool.id, arguments.as_ref(), outcome);
        let called = called.map(explained);
        budget.give_back(began.elapsed());
        if let Err(CallError::BadArguments { mismatches, .. }) = &called {
            // Nothing was done. What was said of the macro may be older than the configuration.
            if let Some(now) = executing::as_listed(gateway, &tool) {
                tool.definition = now;
            }
            filling.did_not_fit(mismatches);
            continue;
        }
        let came = match executing::judge(called, &tool, arguments.as_ref()) {
            Came::Failed(failure) if failure.kind == Kind::ToolExecutionError => {
                let others = walk::others(tree, task.words, &tool).await;
                Came::Failed(failure.or_else(others))
            }
            came => came,
        };
        return Done { tool: Some(tool.used()), came };
    }
}

/// The tool that the ranker picks for a task, with nobody to ask and nothing called: what
/// `just eval` measures of it.
pub async fn pick(tree: &impl Tree, task: &str, strategy: Strategy) -> Result<Tool, Failure> {
    let budget = Budget::new(&BudgetConfig::default());
    let heard = |_: &Step<'_>| {};
    let asker = Asker::new(task, &Ranker, &budget, &heard);
    Walk::new(tree, &asker, &heard).find(strategy).await
}

/// Who chooses: what the configuration wants, and the ranker where that cannot be had.
fn chooser_for<'a>(
    kind: ChooserKind,
    gateway: &'a Gateway,
    context: &'a RequestContext<'a>,
    budget: &'a Budget,
) -> Box<dyn Chooser + 'a> {
    let whose = match kind {
        ChooserKind::Llm => Whose::Endpoint,
        // A client that cannot be asked says so, and the ranker chooses.
        ChooserKind::Sampling => Whose::Client,
        ChooserKind::Ranker => return Box::new(Ranker),
    };
    Box::new(ModelChooser::new(whose, gateway, context, budget))
}
