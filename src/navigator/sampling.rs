//! The chooser that asks the model of the agent's own client (sampling).

use tokio::time::Instant;

use crate::gateway::{Gateway, Origin, Unlent};
use crate::llm::{Prompt, Usage};
use crate::navigator::{Budget, Chooser, Choosing, Question, Unable, Wanted, prompts};
use crate::raw::Raw;

/// Asks the model of the agent's client, where it lends it.
pub struct SamplingChooser<'a> {
    gateway: &'a Gateway,
    origin: Origin<'a>,
    budget: &'a Budget,
}

impl<'a> SamplingChooser<'a> {
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
        let said = self.gateway.ask_agent_model(prompt, until, self.origin).await;
        let unknown = Usage { read: prompt.tokens(), written: 0 };
        self.budget.spend(match &said {
            Ok(said) => said.usage,
            Err(Unlent::Unable | Unlent::Declined) => Usage::default(),
            Err(_) => unknown,
        });
        said.map(|said| said.text).map_err(|why| match why {
            Unlent::TimedOut if Instant::now() >= until => Unable::Spent("time"),
            why => Unable::Client(why.to_string()),
        })
    }
}

impl Chooser for SamplingChooser<'_> {
    fn name(&self) -> &'static str {
        "sampling"
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
