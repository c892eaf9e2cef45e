//! Queries a chooser within the budget: retries invalid answers with a hint, and switches to the
//! ranker if sampling stops working.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::time::timeout_at;

use crate::navigator::budget::NavigationBudget;
use crate::navigator::chooser::{
    ArgumentsRequest, ChoiceOption, ChoiceRequest, Chooser, ChooserError, ChooserFuture, TreeLevel,
};
use crate::navigator::error::TaskError;
use crate::navigator::ranker::Ranker;
use crate::navigator::step::{NavigationStep, StepListener};
use mcp_workbench_wire::json::RawJson;

/// Maximum number of attempts per choice.
const TIMES: u32 = 3;
const PARAMETERS: &str = "parameters";

pub(crate) struct RetryingChooser<'a> {
    task: &'a str,
    chooser: &'a dyn Chooser,
    budget: &'a NavigationBudget,
    heard: &'a StepListener<'a>,
    is_gone: AtomicBool,
}

enum ChooserReply<T> {
    Answer(T),
    Nonsense(String),
    /// The chooser failed for good; use the ranker for the rest of the task.
    Gone,
}

impl<'a> RetryingChooser<'a> {
    pub(crate) fn new(
        task: &'a str,
        chooser: &'a dyn Chooser,
        budget: &'a NavigationBudget,
        heard: &'a StepListener<'a>,
    ) -> Self {
        Self { task, chooser, budget, heard, is_gone: AtomicBool::new(false) }
    }

    pub(crate) fn task(&self) -> &'a str {
        self.task
    }

    pub(crate) fn budget(&self) -> &'a NavigationBudget {
        self.budget
    }

    fn current(&self) -> &dyn Chooser {
        if self.is_gone.load(Ordering::Relaxed) { &Ranker } else { self.chooser }
    }

    pub(crate) fn is_helped_by_others(&self) -> bool {
        self.current().is_model_backed()
    }

    /// Returns the index of the option that fits the task, `None` if none does.
    pub(crate) async fn choose(
        &self,
        level: TreeLevel,
        path: &[String],
        options: &[ChoiceOption],
    ) -> Result<Option<usize>, TaskError> {
        let (mut who, mut hint): (_, Option<String>) = (self.current(), None);
        let mut asked = 0;
        loop {
            let request =
                ChoiceRequest { task: self.task, level, path, options, hint: hint.as_deref() };
            let why = match self.within_budget(who.choose(request)).await? {
                ChooserReply::Answer(Some(index)) if index >= options.len() => {
                    format!("no such option: {index}")
                }
                ChooserReply::Answer(chosen) => {
                    let chosen_name = chosen.map(|index| options[index].name.as_str());
                    let by = who.name();
                    (self.heard)(&NavigationStep::Chosen {
                        level,
                        options,
                        chosen: chosen_name,
                        by,
                    });
                    return Ok(chosen);
                }
                ChooserReply::Nonsense(why) => why,
                ChooserReply::Gone => {
                    (who, hint) = (self.current(), None);
                    continue;
                }
            };
            asked += 1;
            if asked == TIMES {
                return Err(TaskError::invalid_choice(level.as_str(), who.name(), &why));
            }
            (self.heard)(&NavigationStep::InvalidAnswer {
                what: level.as_str(),
                why: &why,
                by: who.name(),
            });
            hint = Some(why);
        }
    }

    /// Returns the arguments found in the task, an object, and the name of the chooser.
    pub(crate) async fn arguments(
        &self,
        request: ArgumentsRequest<'_>,
    ) -> Result<(RawJson, &'static str), TaskError> {
        let (mut who, mut hint) = (self.current(), request.hint.map(str::to_owned));
        let mut asked = 0;
        loop {
            let request = ArgumentsRequest { hint: hint.as_deref(), ..request };
            let why = match self.within_budget(who.derive_arguments(request)).await? {
                ChooserReply::Answer(said) if said.members().is_some() => {
                    return Ok((said, who.name()));
                }
                ChooserReply::Answer(_) => "not a JSON object".to_owned(),
                ChooserReply::Nonsense(why) => why,
                ChooserReply::Gone => {
                    who = self.current();
                    continue;
                }
            };
            asked += 1;
            if asked == TIMES {
                return Err(TaskError::invalid_choice("tool's arguments", who.name(), &why));
            }
            (self.heard)(&NavigationStep::InvalidAnswer {
                what: PARAMETERS,
                why: &why,
                by: who.name(),
            });
            hint = Some(why);
        }
    }

    async fn within_budget<T>(
        &self,
        asked: ChooserFuture<'_, T>,
    ) -> Result<ChooserReply<T>, TaskError> {
        match timeout_at(self.budget.deadline(), asked).await {
            Ok(Ok(said)) => Ok(ChooserReply::Answer(said)),
            Ok(Err(ChooserError::InvalidAnswer(why))) => Ok(ChooserReply::Nonsense(why)),
            Ok(Err(ChooserError::TooLong { bytes, most })) => Err(TaskError::too_long(bytes, most)),
            Ok(Err(ChooserError::BudgetExhausted(what))) => Err(TaskError::spent(what)),
            Ok(Err(ChooserError::Endpoint(failure))) => Err(TaskError::no_model(&failure)),
            Ok(Err(ChooserError::SamplingUnavailable(why))) => {
                self.is_gone.store(true, Ordering::Relaxed);
                tracing::info!(why, "sampling is not available; the ranker chooses instead");
                Ok(ChooserReply::Gone)
            }
            Err(_) => Err(TaskError::spent("time")),
        }
    }
}
