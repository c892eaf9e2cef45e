//! Navigator: finds the tool for a task given in words, calls it and returns the result.
//!
//! A task passes through the levels of a `tree`: category, service, tool. The tree contains only
//! tools that the agent can use. A [`Chooser`] picks an option at each level: a language
//! `model_chooser`, at an endpoint or lent by the client, or the ranker. Its answer is only
//! accepted if it names one of the options. `tool_search` finds the tool, `arguments` its
//! arguments, and `execution` calls it like any other tool. Tasks leave no state behind.

mod arguments;
mod budget;
mod chooser;
mod error;
mod execution;
pub mod model_chooser;
mod prompts;
mod ranker;
mod result;
mod retrying_chooser;
mod server_start;
mod step;
mod task;
mod tool_search;
mod tree;

#[cfg(test)]
mod tests;

use tokio::time::Instant;

use crate::navigator::arguments::ArgumentResolver;
use crate::navigator::model_chooser::{ModelChooser, ModelSource};
use crate::navigator::ranker::Ranker;
use crate::navigator::retrying_chooser::RetryingChooser;
use crate::navigator::tool_search::ToolSearch;
use crate::navigator::tree::catalog::CatalogTree;
use crate::navigator::tree::toolboxes::ToolboxTree;
use mcp_workbench_core::gateway::{CallError, Gateway, RequestContext};
use mcp_workbench_settings::{BudgetConfig, ChooserKind, Strategy};

pub use budget::NavigationBudget;
pub use chooser::{
    ArgumentsRequest, ChoiceOption, ChoiceRequest, Chooser, ChooserError, ChooserFuture, TreeLevel,
};
pub use error::{Candidate, TaskError, TaskErrorKind};
pub use result::{outcome_json, tool_result};
pub use step::{NavigationStep, StepListener};
pub use task::{NavigationTask, TaskOutcome, ToolOutcome};
pub use tree::{CategoryNode, SelectedTool, ServiceNode, ToolNode, ToolTree};

/// Finds the tool for a task and calls it. Dropping the future cancels the call.
pub async fn navigate(
    gateway: &Gateway,
    context: &RequestContext<'_>,
    task: NavigationTask<'_>,
    heard: &StepListener<'_>,
) -> TaskOutcome {
    gateway.views().wait_for_stored_listings().await;
    match &gateway.config().navigator.catalog {
        Some(catalog) => {
            let tree = CatalogTree::new(gateway, catalog);
            navigate_tree(&tree, gateway, context, task, heard).await
        }
        None => {
            navigate_tree(&ToolboxTree::new(gateway, context, heard), gateway, context, task, heard)
                .await
        }
    }
}

async fn navigate_tree<T: ToolTree>(
    tree: &T,
    gateway: &Gateway,
    context: &RequestContext<'_>,
    task: NavigationTask<'_>,
    heard: &StepListener<'_>,
) -> TaskOutcome {
    let config = &gateway.config().navigator;
    let budget = NavigationBudget::new(&config.budget);
    let chooser = chooser_for(config.chooser(), gateway, context, &budget);
    let asker = RetryingChooser::new(task.text, &*chooser, &budget, heard);
    let walk = ToolSearch::new(tree, &asker, heard).with_arguments(task.arguments);
    let found = match task.tool {
        Some(name) => walk.find_by_name(name).await,
        None => walk.find(config.strategy()).await,
    };
    let mut tool = match found {
        Ok(tool) => tool,
        Err(failure) => return TaskOutcome::failed(None, failure),
    };
    if task.tool.is_none()
        && !asker.is_helped_by_others()
        && arguments::omits_all_optional_arguments(&tool, task.arguments)
    {
        let failure =
            TaskError::arguments_not_derived(&tool.qualified_name(), tool.definition.parameters());
        return TaskOutcome::failed(Some(&tool), failure);
    }
    let mut filling = ArgumentResolver::new(task.arguments);
    loop {
        let arguments = match filling.resolve(&tool, &asker, heard).await {
            Ok(arguments) => arguments,
            Err(failure) => return TaskOutcome::failed(Some(&tool), failure),
        };
        if task.is_dry_run {
            return TaskOutcome {
                tool: Some(tool.used()),
                outcome: ToolOutcome::DryRun(arguments),
            };
        }
        let began = Instant::now();
        let called = execution::call(gateway, context, &tool, arguments.as_ref(), &budget, heard);
        let called = Box::pin(called).await;
        let explained =
            |outcome| gateway.views().with_argument_hints(&tool.id, arguments.as_ref(), outcome);
        let called = called.map(explained);
        budget.extend(began.elapsed());
        if let Err(CallError::InvalidArguments { mismatches, .. }) = &called {
            // Nothing was called. The definition of the macro can be outdated, so reload it.
            if let Some(now) = execution::current_definition(gateway, &tool) {
                tool.definition = now;
            }
            filling.reject(mismatches);
            continue;
        }
        let came = match execution::outcome_from_call(called, &tool, arguments.as_ref()) {
            ToolOutcome::Failed(failure) if failure.kind == TaskErrorKind::ToolExecutionError => {
                let others = tool_search::others(tree, task.text, &tool).await;
                ToolOutcome::Failed(failure.with_alternatives(others))
            }
            came => came,
        };
        return TaskOutcome { tool: Some(tool.used()), outcome: came };
    }
}

/// Returns the tool that the ranker picks for a task, without calling it. Measured by `just eval`.
pub async fn pick_with_ranker(
    tree: &impl ToolTree,
    task: &str,
    strategy: Strategy,
) -> Result<ToolNode, TaskError> {
    let budget = NavigationBudget::new(&BudgetConfig::default());
    let heard = |_: &NavigationStep<'_>| {};
    let asker = RetryingChooser::new(task, &Ranker, &budget, &heard);
    ToolSearch::new(tree, &asker, &heard).find(strategy).await
}

fn chooser_for<'a>(
    kind: ChooserKind,
    gateway: &'a Gateway,
    context: &'a RequestContext<'a>,
    budget: &'a NavigationBudget,
) -> Box<dyn Chooser + 'a> {
    let source = match kind {
        ChooserKind::Llm => ModelSource::Endpoint,
        // If the client doesn't support sampling, `RetryingChooser` falls back to the ranker.
        ChooserKind::Sampling => ModelSource::Client,
        ChooserKind::Ranker => return Box::new(Ranker),
    };
    Box::new(ModelChooser::new(source, gateway, context, budget))
}
