//! Finds the tool for a task, in the tree or among the ranked tools.

use std::collections::HashSet;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use crate::navigator::arguments;
use crate::navigator::chooser::{ChoiceOption, TreeLevel};
use crate::navigator::error::{Candidate, NoCallReason, TaskError};
use crate::navigator::ranker;
use crate::navigator::retrying_chooser::RetryingChooser;
use crate::navigator::step::{NavigationStep, StepListener};
use crate::navigator::tree::{CategoryNode, ServiceNode, ToolNode, ToolTree};
use mcp_workbench_core::catalog::rank::{MIN_SCORE, Relevance, is_unrequested_delete};
use mcp_workbench_core::catalog::shorten;
use mcp_workbench_settings::Strategy;
use mcp_workbench_wire::json::RawJson;

/// Number of ranked tools offered, in the first and in the second round.
const OPTION_COUNTS: [usize; 2] = [20, 50];
/// Maximum number of candidates returned if no tool is called.
const CANDIDATES: usize = 3;
/// The minimum score of the only tool that can be called. `tests/eval/README.md` has the error rate.
const ONLY_CALLABLE_SCORE: f32 = 0.4;
/// The length of the list of available tools, and of each toolbox in it, in characters.
const MAX_AVAILABLE: usize = 400;
const MIN_AVAILABLE: usize = 40;
/// Maximum number of alternatives to a failed tool, and how long finding them can take.
const OTHERS: usize = 3;
const ALTERNATIVES_TIMEOUT: Duration = Duration::from_secs(1);

/// Service, name and definition. Tools that agree in all three look the same to a chooser.
type ToolFingerprint = (String, String, Vec<u8>);

pub(crate) struct ToolSearch<'a, T> {
    tree: &'a T,
    asker: &'a RetryingChooser<'a>,
    heard: &'a StepListener<'a>,
    /// Arguments that the agent gave.
    given: Option<&'a RawJson>,
}

impl<'a, T: ToolTree> ToolSearch<'a, T> {
    pub(crate) fn new(
        tree: &'a T,
        asker: &'a RetryingChooser<'a>,
        heard: &'a StepListener<'a>,
    ) -> Self {
        Self { tree, asker, heard, given: None }
    }

    pub(crate) fn with_arguments(self, given: Option<&'a RawJson>) -> Self {
        Self { given, ..self }
    }

    pub(crate) async fn find(&self, strategy: Strategy) -> Result<ToolNode, TaskError> {
        if strategy == Strategy::Hierarchy {
            let tool = self.descend(&HashSet::new()).await?;
            return self.require_clear_winner(tool).await;
        }
        let mut rejected = HashSet::new();
        if let Some(tool) = self.retrieve(&mut rejected).await? {
            return Ok(tool);
        }
        let last = self.descend(&rejected).await?;
        if self.asker.is_helped_by_others() {
            return Ok(last);
        }
        // Being the only option left doesn't make it a match. Its server may have been listed only
        // now, so rank once more.
        match self.retrieve(&mut rejected).await? {
            Some(found) => Ok(found),
            None => Err(self.unsure(&[last], NoCallReason::NothingFits)),
        }
    }

    /// Returns the tool with a name given by the agent: `<service>.<tool>`,
    /// `<category>.<service>.<tool>`, or a tool name that only one service has.
    pub(crate) async fn find_by_name(&self, name: &str) -> Result<ToolNode, TaskError> {
        let name = name.trim();
        let categories = self.tree.categories();
        let services = || categories.iter().flat_map(|category| &category.services);
        for service in services() {
            for tool in spellings(name, service) {
                let tools = self.off_budget(self.tree.tools(service, self.asker.budget())).await?;
                if let Some(found) = tools.into_iter().find(|known| known.name == tool) {
                    (self.heard)(&NavigationStep::Named { tool: &found.qualified_name() });
                    return Ok(found);
                }
            }
        }
        let mut only = services().filter(|service| service.tools.iter().any(|tool| tool == name));
        if let (Some(service), None) = (only.next(), only.next()) {
            let tools = self.off_budget(self.tree.tools(service, self.asker.budget())).await?;
            if let Some(found) = tools.into_iter().find(|known| known.name == name) {
                (self.heard)(&NavigationStep::Named { tool: &found.qualified_name() });
                return Ok(found);
            }
        }
        let ranked =
            self.off_budget(self.tree.rank_tools(self.asker.task(), OPTION_COUNTS[0])).await?;
        let near: Vec<_> = first_of_each(ranked).into_iter().map(|(tool, _)| tool).collect();
        Err(self.unsure(&near, NoCallReason::NoSuchTool(name)))
    }

    /// Checks a tool that was chosen level by level. The ranker's scores per level are weak
    /// evidence, so its tool also has to lead clearly among all listed tools.
    async fn require_clear_winner(&self, tool: ToolNode) -> Result<ToolNode, TaskError> {
        if self.asker.is_helped_by_others() {
            return Ok(tool);
        }
        let mut ranked =
            self.off_budget(self.tree.rank_tools(self.asker.task(), OPTION_COUNTS[0])).await?;
        ranked.retain(|(_, fit)| fit.score >= MIN_SCORE);
        let ranked = first_of_each(ranked);
        let fits: Vec<_> = ranked.iter().map(|(_, fit)| *fit).collect();
        let is_first = ranked.first().is_some_and(|(first, _)| identity(first) == identity(&tool));
        let is_clear = fits.first().is_some_and(|first| first.is_confident(fits.get(1).copied()));
        if is_first && is_clear {
            return self.require_safe_to_call(tool, &ranked).await;
        }
        (self.heard)(&NavigationStep::Unclear { tool: &tool.qualified_name(), fits: &fits });
        let nearest: Vec<_> = ranked.into_iter().map(|(tool, _)| tool).collect();
        Err(self.unsure(&nearest, doubt(&fits)))
    }

    /// Rejects the tool if the task names a service that isn't available, or if the tool deletes
    /// something and the task doesn't say so.
    async fn require_safe_to_call(
        &self,
        tool: ToolNode,
        ranked: &[(ToolNode, Relevance)],
    ) -> Result<ToolNode, TaskError> {
        let task = self.asker.task();
        let absent = self.off_budget(self.tree.absent_services(task)).await;
        let doubt = if !absent.is_empty() {
            NoCallReason::Absent(&absent)
        } else if is_unrequested_delete(&tool.name, task) {
            NoCallReason::Deletes
        } else {
            return Ok(tool);
        };
        let nearest: Vec<_> = ranked.iter().map(|(tool, _)| tool.clone()).collect();
        Err(self.unsure(&nearest, doubt))
    }

    fn unsure(&self, nearest: &[ToolNode], doubt: NoCallReason<'_>) -> TaskError {
        let categories = self.tree.categories();
        let candidates = nearest.iter().take(CANDIDATES).map(|tool| {
            let places = categories.iter().flat_map(|category| &category.services);
            let name = match places.filter(|service| service.name == tool.service).count() {
                0 | 1 => tool.qualified_name(),
                _ => format!("{}.{}", tool.category, tool.qualified_name()),
            };
            Candidate::new(&name, &tool.definition)
        });
        let available = toolboxes_with_tools(&categories);
        let available: Vec<_> = available.iter().map(String::as_str).collect();
        TaskError::no_clear_tool(doubt, candidates.collect(), &available)
    }

    /// Chooses among the ranked tools. If none fits, adds them to `rejected`.
    async fn retrieve(
        &self,
        rejected: &mut HashSet<ToolFingerprint>,
    ) -> Result<Option<ToolNode>, TaskError> {
        let [_, most] = OPTION_COUNTS;
        let ranking = async {
            self.tree.ensure_listed().await;
            self.tree.rank_tools(self.asker.task(), most).await
        };
        let mut ranked = self.off_budget(ranking).await?;
        if !self.asker.is_helped_by_others() {
            // Only a model can judge tools that barely match.
            ranked.retain(|(_, fit)| fit.score >= MIN_SCORE);
        }
        rejected.extend(ranked.iter().map(|(tool, _)| identity(tool)));
        let options = distinct(&mut ranked);
        let mut seen = 0;
        for offered in OPTION_COUNTS {
            let options = &options[..options.len().min(offered)];
            if options.len() <= seen {
                break;
            }
            seen = options.len();
            if let Some(index) = self.asker.choose(TreeLevel::Tool, &[], options).await? {
                if self.asker.is_helped_by_others() {
                    return Ok(Some(ranked.swap_remove(index).0));
                }
                let tool = ranked[index].0.clone();
                return self.require_safe_to_call(tool, &ranked).await.map(Some);
            }
            if !self.asker.is_helped_by_others() {
                if let Some(tool) = self.only_callable(&ranked) {
                    let options = &options[..1];
                    let (level, by) = (TreeLevel::Tool, ranker::RANKER);
                    let chosen = Some(options[0].name.as_str());
                    (self.heard)(&NavigationStep::Chosen { level, options, chosen, by });
                    return self.require_safe_to_call(tool, &ranked).await.map(Some);
                }
                let fits: Vec<_> = ranked.iter().map(|(_, fit)| *fit).collect();
                let absent = self.off_budget(self.tree.absent_services(self.asker.task())).await;
                let doubt =
                    if absent.is_empty() { doubt(&fits) } else { NoCallReason::Absent(&absent) };
                let nearest: Vec<_> = ranked.into_iter().map(|(tool, _)| tool).collect();
                return Err(self.unsure(&nearest, doubt));
            }
        }
        Ok(None)
    }

    /// Returns the best tool if it only reads, fits well, and is the only matching tool that can be
    /// called: the others belong to the same server and need arguments that weren't given.
    fn only_callable(&self, ranked: &[(ToolNode, Relevance)]) -> Option<ToolNode> {
        let ((tool, fit), others) = ranked.split_first()?;
        let needs_more = |other: &ToolNode| {
            other.id.server_ref() == tool.id.server_ref()
                && !arguments::are_complete(other, self.given)
        };
        let is_only = fit.score >= ONLY_CALLABLE_SCORE
            && arguments::only_reads(tool)
            && arguments::are_complete(tool, self.given)
            && !(arguments::are_none(self.given) && names_values(self.asker.task()))
            && others.iter().all(|(other, _)| needs_more(other));
        is_only.then(|| tool.clone())
    }

    /// Chooses a category, a service and a tool. A level with one option isn't asked, so a rejected
    /// tool must not be chosen that way.
    async fn descend(&self, rejected: &HashSet<ToolFingerprint>) -> Result<ToolNode, TaskError> {
        let mut path = Vec::new();
        let categories = self.tree.categories();
        let category =
            self.pick(TreeLevel::Category, categories, CategoryNode::choice, &mut path).await?;
        let services = category.services;
        let service =
            self.pick(TreeLevel::Service, services, ServiceNode::choice, &mut path).await?;
        let tools = self.off_budget(self.tree.tools(&service, self.asker.budget())).await?;
        if let [only] = tools.as_slice()
            && rejected.contains(&identity(only))
        {
            return Err(self.unsure(std::slice::from_ref(only), NoCallReason::NothingFits));
        }
        self.pick(TreeLevel::Tool, tools, |tool| tool.choice(tool.name.clone(), None), &mut path)
            .await
    }

    async fn pick<O>(
        &self,
        level: TreeLevel,
        mut from: Vec<O>,
        choice: impl Fn(&O) -> ChoiceOption,
        path: &mut Vec<String>,
    ) -> Result<O, TaskError> {
        let mut options: Vec<_> = from.iter().map(choice).collect();
        let place = match options.as_slice() {
            [] => None,
            [only] => {
                (self.heard)(&NavigationStep::Skipped { level, only: &only.name });
                Some(0)
            }
            _ => {
                options = ranker::score_options(self.asker.task(), options).await;
                self.asker.choose(level, path, &options).await?
            }
        };
        let Some(index) = place else {
            let available = toolboxes_with_tools(&self.tree.categories());
            let available: Vec<_> = available.iter().map(String::as_str).collect();
            return Err(TaskError::no_match(level.as_str(), &available));
        };
        path.push(options[index].name.clone());
        Ok(from.swap_remove(index))
    }

    /// Awaits `work` without charging its time to the budget.
    async fn off_budget<R>(&self, work: impl Future<Output = R>) -> R {
        let began = Instant::now();
        let done = work.await;
        self.asker.budget().extend(began.elapsed());
        done
    }
}

/// Returns each category with the tools of its services, such as `clock (time.now, time.elapsed)`.
fn toolboxes_with_tools(categories: &[CategoryNode]) -> Vec<String> {
    let service = |service: &ServiceNode| match service.tools.as_slice() {
        [] => service.name.clone(),
        tools => {
            let names = tools.iter().map(|tool| format!("{}.{tool}", service.name));
            names.collect::<Vec<_>>().join(", ")
        }
    };
    let all = categories.iter().map(|category| {
        let services: Vec<_> = category.services.iter().map(service).collect();
        // Each toolbox gets a share of the text.
        let max = (MAX_AVAILABLE / categories.len()).max(MIN_AVAILABLE);
        format!("{} ({})", category.name, shorten(&services.join(", "), max))
    });
    all.collect()
}

/// Returns the tools as options with unique names. Drops duplicates, as from a server in two
/// toolboxes.
fn distinct(ranked: &mut Vec<(ToolNode, Relevance)>) -> Vec<ChoiceOption> {
    *ranked = first_of_each(std::mem::take(ranked));
    let mut names = HashSet::new();
    let mut name = |tool: &ToolNode| {
        let qualified =
            [tool.qualified_name(), format!("{}.{}", tool.category, tool.qualified_name())];
        let free = qualified.into_iter().find(|name| names.insert(name.clone()));
        free.unwrap_or_else(|| format!("{}/{}", tool.category, tool.id))
    };
    ranked.iter().map(|(tool, fit)| tool.choice(name(tool), Some(*fit))).collect()
}

fn first_of_each(mut ranked: Vec<(ToolNode, Relevance)>) -> Vec<(ToolNode, Relevance)> {
    let mut same = HashSet::new();
    ranked.retain(|(tool, _)| same.insert(identity(tool)));
    ranked
}

/// Returns `true` if a task contains a number, a quotation, a path or the like: a tool without
/// arguments would ignore it.
fn names_values(task: &str) -> bool {
    task.contains(|c: char| c.is_numeric() || "\"`“”„«»/\\@=".contains(c))
}

fn doubt(fits: &[Relevance]) -> NoCallReason<'static> {
    if fits.first().is_some_and(|first| first.is_strong()) {
        NoCallReason::SeveralFit
    } else {
        NoCallReason::NothingFits
    }
}

/// Returns the tool names that `name` can stand for in this service.
fn spellings<'n>(name: &'n str, service: &ServiceNode) -> impl Iterator<Item = &'n str> {
    let after = |text: &'n str, word: &str| {
        let rest = text.strip_prefix(word)?;
        rest.strip_prefix(['.', '/', ':']).filter(|rest| !rest.is_empty())
    };
    let qualified = after(name, &service.category).and_then(|rest| after(rest, &service.name));
    qualified.into_iter().chain(after(name, &service.name))
}

fn identity(tool: &ToolNode) -> ToolFingerprint {
    (tool.service.clone(), tool.name.clone(), tool.definition.raw.as_bytes().to_vec())
}

/// Returns listed tools that are alternatives to `than`.
pub(crate) async fn others(tree: &impl ToolTree, task: &str, than: &ToolNode) -> Vec<String> {
    let ranked = timeout(ALTERNATIVES_TIMEOUT, tree.rank_tools(task, OTHERS + 1)).await;
    let ranked = ranked.ok().and_then(Result::ok).unwrap_or_default();
    let others = ranked.iter().filter(|(tool, fit)| tool.id != than.id && fit.score >= MIN_SCORE);
    others.map(|(tool, _)| tool.qualified_name()).take(OTHERS).collect()
}
