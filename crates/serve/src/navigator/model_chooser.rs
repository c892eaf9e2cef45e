//! A chooser that queries a language model, at an endpoint or through the client.

use tokio::time::Instant;

use crate::navigator::budget::NavigationBudget;
use crate::navigator::chooser::{
    ArgumentsRequest, ChoiceRequest, Chooser, ChooserError, ChooserFuture,
};
use crate::navigator::prompts;
use mcp_workbench_core::gateway::{Gateway, ModelReply, RequestContext, SamplingError};
use mcp_workbench_core::llm::{ChatPrompt, LlmError};
use mcp_workbench_wire::json::RawJson;

/// A truncated answer is rejected: in full it can mean something else.
const CUT: &str = "the answer was truncated";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelSource {
    Endpoint,
    /// The agent's client, through sampling.
    Client,
}

pub struct ModelChooser<'a> {
    source: ModelSource,
    gateway: &'a Gateway,
    context: &'a RequestContext<'a>,
    budget: &'a NavigationBudget,
}

impl<'a> ModelChooser<'a> {
    pub fn new(
        source: ModelSource,
        gateway: &'a Gateway,
        context: &'a RequestContext<'a>,
        budget: &'a NavigationBudget,
    ) -> Self {
        Self { source, gateway, context, budget }
    }

    fn clean(&self, text: &str) -> String {
        self.gateway.models().redact(text).into_owned()
    }

    async fn ask(&self, prompt: &ChatPrompt) -> Result<String, ChooserError> {
        let within = self.budget.next_request_limits().map_err(ChooserError::BudgetExhausted)?;
        let answer = match self.source {
            ModelSource::Endpoint => {
                let asked = self.gateway.models().query_llm(prompt, within, self.context).await;
                let Some(ModelReply { result: answer, cost }) = asked else {
                    let nowhere = "the configuration has no `navigator.llm`";
                    return Err(ChooserError::Endpoint(LlmError::Unreachable(nowhere.to_owned())));
                };
                self.budget.spend(cost);
                let is_late = |why: &LlmError| *why.plain() == LlmError::TimedOut;
                answer.map_err(|why| (is_late(&why), ChooserError::Endpoint(why)))
            }
            ModelSource::Client => {
                let asked = self.gateway.models().sample_client(prompt, within, self.context).await;
                let ModelReply { result: answer, cost } = asked;
                self.budget.spend(cost);
                answer.map_err(|why| {
                    (
                        why == SamplingError::TimedOut,
                        ChooserError::SamplingUnavailable(why.to_string()),
                    )
                })
            }
        };
        match answer {
            Ok(answer) if answer.is_truncated => Err(ChooserError::InvalidAnswer(CUT.to_owned())),
            Ok(answer) => Ok(answer.text),
            Err((true, _)) if Instant::now() >= within.deadline => {
                Err(ChooserError::BudgetExhausted("time"))
            }
            Err((_, why)) => Err(why),
        }
    }
}

impl Chooser for ModelChooser<'_> {
    fn name(&self) -> &'static str {
        match self.source {
            ModelSource::Endpoint => "llm",
            ModelSource::Client => "sampling",
        }
    }

    fn choose<'a>(&'a self, request: ChoiceRequest<'a>) -> ChooserFuture<'a, Option<usize>> {
        Box::pin(async move {
            let tokens = self.budget.tokens();
            let pick = prompts::choice_prompt(&request, tokens, &|text| self.clean(text))?;
            pick.parse_answer(&self.ask(&pick.prompt).await?, request.options)
        })
    }

    fn derive_arguments<'a>(&'a self, request: ArgumentsRequest<'a>) -> ChooserFuture<'a, RawJson> {
        Box::pin(async move {
            let tokens = self.budget.tokens();
            let prompt = prompts::arguments(&request, tokens, &|text| self.clean(text))?;
            prompts::parse_arguments(&self.ask(&prompt).await?, &request)
        })
    }
}

#[cfg(test)]
mod tests;
