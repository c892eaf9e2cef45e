//! The chooser that asks a language model: that of an endpoint, or of the agent's own client.

use tokio::time::Instant;

use crate::gateway::{Asked, Gateway, RequestContext, Unlent};
use crate::llm::{Failure, Prompt};
use crate::navigator::{Budget, Chooser, Choosing, Question, Unable, Wanted, prompts};
use crate::raw::Raw;

/// The reason for not reading an answer that lacks a part: the whole may mean something else.
const CUT: &str = "the answer was cut, for it is too long";

/// The owner of the model that is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// The endpoint that the configuration names.
    Endpoint,
    /// The agent's client, where it lends its model (sampling).
    Client,
}

/// Asks a model.
pub struct ModelChooser<'a> {
    whose: Whose,
    gateway: &'a Gateway,
    context: &'a RequestContext<'a>,
    budget: &'a Budget,
}

impl<'a> ModelChooser<'a> {
    /// Makes a chooser for the task of this request.
    pub fn new(
        whose: Whose,
        gateway: &'a Gateway,
        context: &'a RequestContext<'a>,
        budget: &'a Budget,
    ) -> Self {
        Self { whose, gateway, context, budget }
    }

    fn clean(&self, text: &str) -> String {
        self.gateway.without_secrets(text).into_owned()
    }

    async fn ask(&self, prompt: &Prompt) -> Result<String, Unable> {
        let within = self.budget.within().map_err(Unable::Spent)?;
        let said = match self.whose {
            Whose::Endpoint => {
                let asked = self.gateway.ask_model(prompt, within, self.context).await;
                let Some(Asked { said, cost }) = asked else {
                    let nowhere = "the configuration has no `navigator.llm`";
                    return Err(Unable::Endpoint(Failure::Unreachable(nowhere.to_owned())));
                };
                self.budget.spend(cost);
                let is_late = |why: &Failure| *why.plain() == Failure::TimedOut;
                said.map_err(|why| (is_late(&why), Unable::Endpoint(why)))
            }
            Whose::Client => {
                let asked = self.gateway.ask_agent_model(prompt, within, self.context).await;
                let Asked { said, cost } = asked;
                self.budget.spend(cost);
                said.map_err(|why| (why == Unlent::TimedOut, Unable::Client(why.to_string())))
            }
        };
        match said {
            Ok(said) if said.is_cut => Err(Unable::Nonsense(CUT.to_owned())),
            Ok(said) => Ok(said.text),
            Err((true, _)) if Instant::now() >= within.until => Err(Unable::Spent("time")),
            Err((_, why)) => Err(why),
        }
    }
}

impl Chooser for ModelChooser<'_> {
    fn name(&self) -> &'static str {
        match self.whose {
            Whose::Endpoint => "llm",
            Whose::Client => "sampling",
        }
    }

    fn choose<'a>(&'a self, question: Question<'a>) -> Choosing<'a, Option<usize>> {
        Box::pin(async move {
            let tokens = self.budget.tokens();
            let pick = prompts::pick(&question, tokens, &|text| self.clean(text))?;
            pick.meant(&self.ask(&pick.prompt).await?, question.options)
        })
    }

    fn arguments<'a>(&'a self, wanted: Wanted<'a>) -> Choosing<'a, Raw> {
        Box::pin(async move {
            let tokens = self.budget.tokens();
            let prompt = prompts::arguments(&wanted, tokens, &|text| self.clean(text))?;
            prompts::found(&self.ask(&prompt).await?, &wanted)
        })
    }
}

#[cfg(test)]
mod tests;
