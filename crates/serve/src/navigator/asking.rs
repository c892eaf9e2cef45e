//! Asking a chooser: within the budget, again with a hint where its answer is none, and the ranker
//! in place of a client that lends its model no more.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::time::timeout_at;

use crate::navigator::ranker::Ranker;
use crate::navigator::{
    Budget, Choice, Chooser, Choosing, Failure, Hear, Level, Question, Step, Unable, Wanted,
};
use crate::raw::Raw;

/// How often one thing is asked in all.
const TIMES: u32 = 3;
/// The word for what is asked of whoever finds arguments.
const PARAMETERS: &str = "parameters";

/// Who is asked, for one task.
pub(crate) struct Asker<'a> {
    task: &'a str,
    chooser: &'a dyn Chooser,
    budget: &'a Budget,
    heard: &'a Hear<'a>,
    /// `true` if the chooser is not there any more.
    is_gone: AtomicBool,
}

/// The outcome of asking once.
enum Said<T> {
    This(T),
    /// It is no answer, for this reason.
    Nonsense(String),
    /// Who was asked is not there any more.
    Gone,
}

impl<'a> Asker<'a> {
    pub(crate) fn new(
        task: &'a str,
        chooser: &'a dyn Chooser,
        budget: &'a Budget,
        heard: &'a Hear<'a>,
    ) -> Self {
        Self { task, chooser, budget, heard, is_gone: AtomicBool::new(false) }
    }

    pub(crate) fn task(&self) -> &'a str {
        self.task
    }

    pub(crate) fn budget(&self) -> &'a Budget {
        self.budget
    }

    /// Who is asked now.
    fn who(&self) -> &dyn Chooser {
        if self.is_gone.load(Ordering::Relaxed) { &Ranker } else { self.chooser }
    }

    /// Returns `true` if it may help the chooser to see more options, or fewer on a step.
    pub(crate) fn is_helped_by_others(&self) -> bool {
        self.who().is_helped_by_others()
    }

    /// Which of some options the task wants; none if no one fits.
    pub(crate) async fn choose(
        &self,
        level: Level,
        path: &[String],
        options: &[Choice],
    ) -> Result<Option<usize>, Failure> {
        let (mut who, mut hint): (_, Option<String>) = (self.who(), None);
        let mut asked = 0;
        loop {
            let question =
                Question { task: self.task, level, path, options, hint: hint.as_deref() };
            let why = match self.within_budget(who.choose(question)).await? {
                Said::This(Some(place)) if place >= options.len() => {
                    format!("there is no option {place}")
                }
                Said::This(chosen) => {
                    let chosen_name = chosen.map(|place| options[place].name.as_str());
                    let by = who.name();
                    (self.heard)(&Step::Chosen { level, options, chosen: chosen_name, by });
                    return Ok(chosen);
                }
                Said::Nonsense(why) => why,
                Said::Gone => {
                    (who, hint) = (self.who(), None);
                    continue;
                }
            };
            asked += 1;
            if asked == TIMES {
                return Err(Failure::invalid_choice(level.as_str(), who.name(), &why));
            }
            (self.heard)(&Step::Misled { what: level.as_str(), why: &why, by: who.name() });
            hint = Some(why);
        }
    }

    /// The arguments of a tool as the task has them, an object, and who found them.
    pub(crate) async fn arguments(
        &self,
        wanted: Wanted<'_>,
    ) -> Result<(Raw, &'static str), Failure> {
        let (mut who, mut hint) = (self.who(), wanted.hint.map(str::to_owned));
        let mut asked = 0;
        loop {
            let wanted = Wanted { hint: hint.as_deref(), ..wanted };
            let why = match self.within_budget(who.arguments(wanted)).await? {
                Said::This(said) if said.members().is_some() => return Ok((said, who.name())),
                Said::This(_) => "it is no JSON object".to_owned(),
                Said::Nonsense(why) => why,
                Said::Gone => {
                    who = self.who();
                    continue;
                }
            };
            asked += 1;
            if asked == TIMES {
                return Err(Failure::invalid_choice("tool's arguments", who.name(), &why));
            }
            (self.heard)(&Step::Misled { what: PARAMETERS, why: &why, by: who.name() });
            hint = Some(why);
        }
    }

    async fn within_budget<T>(&self, asked: Choosing<'_, T>) -> Result<Said<T>, Failure> {
        match timeout_at(self.budget.until(), asked).await {
            Ok(Ok(said)) => Ok(Said::This(said)),
            Ok(Err(Unable::Nonsense(why))) => Ok(Said::Nonsense(why)),
            Ok(Err(Unable::TooLong { bytes, most })) => Err(Failure::too_long(bytes, most)),
            Ok(Err(Unable::Spent(what))) => Err(Failure::spent(what)),
            Ok(Err(Unable::Endpoint(failure))) => Err(Failure::no_model(&failure)),
            Ok(Err(Unable::Client(why))) => {
                self.is_gone.store(true, Ordering::Relaxed);
                tracing::info!(why, "the agent's client lends no model, so the ranker chooses");
                Ok(Said::Gone)
            }
            Err(_) => Err(Failure::spent("time")),
        }
    }
}
