//! The chooser that asks the language model of an endpoint.

use tokio::time::Instant;

use crate::gateway::{Asked, Gateway, Origin};
use crate::llm::{Failure, Prompt};
use crate::navigator::{Budget, Chooser, Choosing, Question, Unable, Wanted, prompts};
use crate::raw::Raw;

/// Asks the model of the endpoint that the configuration names.
pub struct ModelChooser<'a> {
    gateway: &'a Gateway,
    origin: Origin<'a>,
    budget: &'a Budget,
}

impl<'a> ModelChooser<'a> {
    /// One for the task of this origin.
    pub fn new(gateway: &'a Gateway, origin: Origin<'a>, budget: &'a Budget) -> Self {
        Self { gateway, origin, budget }
    }

    fn clean(&self, text: &str) -> String {
        self.gateway.without_secrets(text).into_owned()
    }

    async fn ask(&self, prompt: &Prompt) -> Result<String, Unable> {
        self.budget.take_request().map_err(Unable::Spent)?;
        let until = self.budget.until();
        let asked = self.gateway.ask_model(prompt, until, self.origin).await;
        let Some(Asked { said, cost }) = asked else {
            let nowhere = "the configuration has no `navigator.llm`";
            return Err(Unable::Endpoint(Failure::Unreachable(nowhere.to_owned())));
        };
        self.budget.spend(cost.usage);
        // An endpoint that had to be asked in another form has cost more than one.
        for _ in 1..cost.requests {
            let _ = self.budget.take_request();
        }
        said.map(|said| said.text).map_err(|failure| match failure {
            failure if *failure.plain() == Failure::TimedOut && Instant::now() >= until => {
                Unable::Spent("time")
            }
            failure => Unable::Endpoint(failure),
        })
    }
}

impl Chooser for ModelChooser<'_> {
    fn name(&self) -> &'static str {
        "llm"
    }

    fn choose<'a>(&'a self, question: Question<'a>) -> Choosing<'a, Option<usize>> {
        Box::pin(async move {
            let tokens = self.budget.tokens();
            let prompt = prompts::pick(&question, tokens, &|text| self.clean(text))?;
            prompts::picked(&self.ask(&prompt).await?, &question)
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
