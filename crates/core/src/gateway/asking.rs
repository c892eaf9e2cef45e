//! Requests to language models: the one way to the endpoint that the configuration names, and to
//! the model of the agent's own client.
//!
//! Nothing goes either way with a secret in it that is known from the configuration, and either way
//! keeps an account of what was asked, whatever came of it.

use std::borrow::Cow;

use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use crate::backend::{Outcome, Question, events};
use crate::catalog::shorten;
use crate::gateway::{Gateway, RequestContext};
use crate::llm::{
    Cost, Endpoint, Failure, Prompt, Said, Usage, Within, estimate, without_thoughts,
};
use crate::observe::{LlmOutcome, LlmRequest, Prompted, Secrets};
use crate::raw::Raw;
use crate::wire::code::{DECLINED, METHOD_NOT_FOUND};

/// The method that asks a client for a completion of its model.
const METHOD: &str = "sampling/createMessage";
/// The name of a model that only the agent's client knows.
const SAMPLING: &str = "sampling";
/// The most characters of a client's words in an error.
const MAX_QUOTED: usize = 200;

/// The end of a request to a model.
#[derive(Debug)]
pub struct Asked<E> {
    /// The words of the model, or why it said nothing.
    pub said: Result<Said, E>,
    /// The cost of that.
    pub cost: Cost,
}

/// Why the model of an agent's client said nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unlent {
    /// The client has none for us, or nobody is there.
    #[error("the client does not lend its model")]
    Unable,
    /// The user, or the client, said no.
    #[error("the client was asked for its model, and declined")]
    Declined,
    /// Nothing came in time.
    #[error("the client's model did not answer in time")]
    TimedOut,
    /// The client answered with an error.
    #[error("the client could not ask its model: {0}")]
    Failed(String),
    /// The answer is not what the protocol says.
    #[error("what the client answered cannot be used: {0}")]
    Unusable(String),
}

impl Gateway {
    /// Asks the model that the configuration names for the navigator; `None` if it names none.
    pub async fn ask_model(
        &self,
        prompt: &Prompt,
        within: Within,
        context: &RequestContext<'_>,
    ) -> Option<Asked<Failure>> {
        let config = self.config.navigator.llm.as_ref()?;
        let prompt = self.clean(prompt);
        let mut request = self.begin_request(&config.model, &prompt, context);
        let mut cost = Cost::default();
        let said = match self.llm.get_or_init(|| Endpoint::new(config)) {
            Ok(endpoint) => Box::pin(endpoint.ask(&prompt, within, &mut cost)).await,
            Err(failure) => Err(failure.clone()),
        };
        // What it says may be what it was told.
        let said = said.map_err(|failure| match failure {
            Failure::Unusable(why) => Failure::Unusable(self.without_secrets(&why).into_owned()),
            Failure::Explained(plain, words) => {
                Failure::Explained(plain, self.without_secrets(&words).into_owned())
            }
            failure => failure,
        });
        request.context.tokens = [cost.usage.read, cost.usage.written];
        request.context.attempts = cost.requests;
        request.end(said.as_ref().map_or_else(of_failure, of_said));
        Some(Asked { said, cost })
    }

    /// Asks the model of the agent's client (sampling), in the way of the agent's era.
    pub async fn ask_agent_model(
        &self,
        prompt: &Prompt,
        within: Within,
        context: &RequestContext<'_>,
    ) -> Asked<Unlent> {
        let prompt = self.clean(prompt);
        let mut request = self.begin_request(SAMPLING, &prompt, context);
        let answered = match context.events {
            Some(events) => Box::pin(put(events, &prompt, within.until)).await,
            None => Err(Unlent::Unable),
        };
        let said = answered.and_then(|answer| {
            if let Some(model) = answer.get("model").and_then(Value::as_str) {
                request.context.named = Some(model.to_owned());
            }
            said(&answer, &prompt)
        });
        let usage = match &said {
            Ok(said) => said.usage,
            Err(Unlent::Unable | Unlent::Declined) => Usage::default(),
            Err(_) => Usage { read: prompt.tokens(), written: 0 },
        };
        request.context.tokens = [usage.read, usage.written];
        let said = said.map_err(|why| match why {
            Unlent::Failed(why) => Unlent::Failed(self.without_secrets(&why).into_owned()),
            why => why,
        });
        request.end(said.as_ref().map_or_else(of_unlent, of_said));
        Asked { said, cost: Cost { usage, requests: 1 } }
    }

    /// A text without the secrets that are known from the configuration.
    pub fn without_secrets<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.secrets().redact_written(text)
    }

    /// The secrets that are known from the configuration.
    pub(crate) fn secrets(&self) -> &Secrets {
        self.secrets.get_or_init(|| Secrets::of_config(&self.config))
    }

    fn clean(&self, prompt: &Prompt) -> Prompt {
        Prompt {
            system: self.without_secrets(&prompt.system).into_owned(),
            user: self.without_secrets(&prompt.user).into_owned(),
            ..prompt.clone()
        }
    }

    /// Begins a request to a model. What is given up counts as read.
    fn begin_request<'a>(
        &'a self,
        model: &'a str,
        prompt: &Prompt,
        context: &RequestContext<'a>,
    ) -> LlmRequest<'a> {
        let prompted = Prompted {
            agent: context.caller.agent.as_ref(),
            session: context.agent.id.number(),
            model,
            purpose: prompt.purpose,
        };
        let mut request = self.listeners.begin_llm_request(prompted);
        request.context.tokens = [prompt.tokens(), 0];
        request
    }
}

/// Puts a question to the client. It is taken back when the time is up, or this is dropped.
async fn put(events: &events::Sender, prompt: &Prompt, until: Instant) -> Result<Value, Unlent> {
    let asked = json!({
        "messages": [{"role": "user", "content": {"type": "text", "text": prompt.user}}],
        "systemPrompt": prompt.system,
        "includeContext": "none",
        "temperature": 0,
        "maxTokens": prompt.max_tokens,
        "modelPreferences": {
            "hints": [{"name": "haiku"}, {"name": "flash"}, {"name": "mini"}],
            "costPriority": 0.8,
            "speedPriority": 1,
            "intelligencePriority": 0.2,
        },
    });
    let (question, answer) = Question::here(METHOD.to_owned(), Some(Raw::encode(&asked)));
    let answered = async {
        events.send(question.into()).await.map_err(|_| Unlent::Unable)?;
        // It is dropped by who has nobody to ask.
        answer.await.map_err(|_| Unlent::Unable)
    };
    match timeout_at(until, answered).await.map_err(|_| Unlent::TimedOut)?? {
        Outcome::Result(answer) => {
            answer.parse().map_err(|_| Unlent::Unusable("it is nested too deeply".to_owned()))
        }
        Outcome::Error(error) => Err(of_error(&error.parse().unwrap_or_default())),
    }
}

/// Reads the answer of the client's model: a text, or parts of which some are texts.
fn said(answer: &Value, prompt: &Prompt) -> Result<Said, Unlent> {
    let part = |part: &Value| {
        let is_text = part.get("type").is_none_or(|kind| kind == "text");
        part.get("text").and_then(Value::as_str).filter(|_| is_text).map(str::to_owned)
    };
    let text: String = match answer.get("content") {
        Some(Value::Array(parts)) => parts.iter().filter_map(part).collect(),
        Some(content) => part(content).unwrap_or_default(),
        None => String::new(),
    };
    let text = without_thoughts(&text);
    let is_cut = answer.get("stopReason").is_some_and(|why| why == "maxTokens");
    if text.is_empty() {
        let why = if is_cut { "the model used up all its tokens" } else { "it has no text" };
        return Err(Unlent::Unusable(why.to_owned()));
    }
    let usage = Usage { read: prompt.tokens(), written: estimate(text.len()) };
    Ok(Said { text: text.to_owned(), is_cut, usage })
}

fn of_error(error: &Value) -> Unlent {
    match error.get("code").and_then(Value::as_i64) {
        Some(METHOD_NOT_FOUND) => Unlent::Unable,
        Some(DECLINED) => Unlent::Declined,
        _ => {
            let message =
                error.get("message").and_then(Value::as_str).unwrap_or("it does not say why");
            let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
            Unlent::Failed(shorten(&message.replace(char::is_control, "�"), MAX_QUOTED))
        }
    }
}

fn of_said(said: &Said) -> LlmOutcome {
    if said.is_cut { LlmOutcome::Unusable } else { LlmOutcome::Ok }
}

/// Returns the outcome that is recorded of a failure.
pub(crate) fn of_failure(failure: &Failure) -> LlmOutcome {
    match failure.plain() {
        Failure::Unreachable(_) | Failure::Cut(_) => LlmOutcome::Unreachable,
        Failure::TimedOut => LlmOutcome::TimedOut,
        Failure::Unauthorized(_) => LlmOutcome::Unauthorized,
        Failure::UnknownModel(_) => LlmOutcome::UnknownModel,
        Failure::Unpaid => LlmOutcome::Unpaid,
        Failure::TooOften(_) => LlmOutcome::RateLimited,
        Failure::Status(_) | Failure::Redirected(_) | Failure::Explained(..) => LlmOutcome::Failed,
        Failure::Html | Failure::Unusable(_) => LlmOutcome::Unusable,
        Failure::TooLong => LlmOutcome::Oversized,
    }
}

fn of_unlent(why: &Unlent) -> LlmOutcome {
    match why {
        Unlent::Unable => LlmOutcome::Unable,
        Unlent::Declined => LlmOutcome::Declined,
        Unlent::TimedOut => LlmOutcome::TimedOut,
        Unlent::Failed(_) => LlmOutcome::Failed,
        Unlent::Unusable(_) => LlmOutcome::Unusable,
    }
}

#[cfg(test)]
mod tests;
