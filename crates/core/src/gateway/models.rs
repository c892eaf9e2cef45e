//! Requests to language models: the configured endpoint, and the model of the agent's client
//! (sampling).
//!
//! Prompts and errors are redacted of all secrets in the configuration, and every request is
//! audited, even if it fails.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use crate::backend::{RpcOutcome, ServerRequest, events};
use crate::catalog::shorten;
use crate::gateway::request_context::RequestContext;
use crate::llm::{
    ChatAnswer, ChatPrompt, Endpoint, LlmError, RequestCost, RequestLimits, TokenUsage,
    strip_reasoning, tokens_from_bytes,
};
use crate::telemetry::{EventBus, LlmOutcome, LlmRequestGuard, LlmRequestInfo, Redactor};
use mcp_workbench_settings::Config;
use mcp_workbench_wire::code::{METHOD_NOT_FOUND, USER_REJECTED};
use mcp_workbench_wire::json::RawJson;

const METHOD: &str = "sampling/createMessage";
/// Model name in the audit log until the client reports one.
const SAMPLING: &str = "sampling";
/// Maximum length of a client's error message, in characters.
const MAX_QUOTED: usize = 200;

/// The outcome of a model request, with its cost.
#[derive(Debug)]
pub struct ModelReply<E> {
    pub result: Result<ChatAnswer, E>,
    pub cost: RequestCost,
}

/// Reason why the model of the agent's client gave no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SamplingError {
    /// The client doesn't support sampling, or no client is connected.
    #[error("the client does not support sampling")]
    Unsupported,
    #[error("the client declined the sampling request")]
    Declined,
    #[error("the client's model did not answer in time")]
    TimedOut,
    #[error("the client's model failed: {0}")]
    Failed(String),
    #[error("invalid response from the client: {0}")]
    Unusable(String),
}

/// Queries language models for agents. Removes the secrets of the configuration from prompts.
pub struct Models {
    config: Arc<Config>,
    listeners: EventBus,
    /// The model of the navigator, set by the first query.
    endpoint: OnceLock<Result<Endpoint, LlmError>>,
    secrets: OnceLock<Redactor>,
}

impl Models {
    pub(crate) fn new(config: Arc<Config>, listeners: EventBus) -> Self {
        Self { config, listeners, endpoint: OnceLock::new(), secrets: OnceLock::new() }
    }

    /// Queries the navigator's model; `None` if none is configured.
    pub async fn query_llm(
        &self,
        prompt: &ChatPrompt,
        within: RequestLimits,
        context: &RequestContext<'_>,
    ) -> Option<ModelReply<LlmError>> {
        let config = self.config.navigator.llm.as_ref()?;
        let prompt = self.clean(prompt);
        let mut request = self.begin_request(&config.model, &prompt, context);
        let mut cost = RequestCost::default();
        let answer = match self.endpoint.get_or_init(|| Endpoint::new(config)) {
            Ok(endpoint) => Box::pin(endpoint.chat(&prompt, within, &mut cost)).await,
            Err(failure) => Err(failure.clone()),
        };
        // The model may repeat parts of the prompt.
        let answer = answer.map_err(|failure| match failure {
            LlmError::Unusable(why) => LlmError::Unusable(self.redact(&why).into_owned()),
            LlmError::WithMessage(plain, words) => {
                LlmError::WithMessage(plain, self.redact(&words).into_owned())
            }
            failure => failure,
        });
        request.context.tokens = [cost.usage.input_tokens, cost.usage.output_tokens];
        request.context.attempts = cost.requests;
        request.end(answer.as_ref().map_or_else(of_failure, of_said));
        Some(ModelReply { result: answer, cost })
    }

    /// Queries the model of the agent's client (`sampling/createMessage`).
    pub async fn sample_client(
        &self,
        prompt: &ChatPrompt,
        within: RequestLimits,
        context: &RequestContext<'_>,
    ) -> ModelReply<SamplingError> {
        let prompt = self.clean(prompt);
        let mut request = self.begin_request(SAMPLING, &prompt, context);
        let answered = match context.events {
            Some(events) => Box::pin(request_sampling(events, &prompt, within.deadline)).await,
            None => Err(SamplingError::Unsupported),
        };
        let said = answered.and_then(|answer| {
            if let Some(model) = answer.get("model").and_then(Value::as_str) {
                request.context.reported_model = Some(model.to_owned());
            }
            parse_sampling_result(&answer, &prompt)
        });
        let usage = match &said {
            Ok(said) => said.usage,
            Err(SamplingError::Unsupported | SamplingError::Declined) => TokenUsage::default(),
            Err(_) => TokenUsage { input_tokens: prompt.tokens(), output_tokens: 0 },
        };
        request.context.tokens = [usage.input_tokens, usage.output_tokens];
        let said = said.map_err(|why| match why {
            SamplingError::Failed(why) => SamplingError::Failed(self.redact(&why).into_owned()),
            why => why,
        });
        request.end(said.as_ref().map_or_else(of_unlent, of_said));
        ModelReply { result: said, cost: RequestCost { usage, requests: 1 } }
    }

    /// Redacts the secrets in the configuration.
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.secrets().redact_json_text(text)
    }

    pub(crate) fn secrets(&self) -> &Redactor {
        self.secrets.get_or_init(|| Redactor::from_config(&self.config))
    }

    fn clean(&self, prompt: &ChatPrompt) -> ChatPrompt {
        ChatPrompt {
            system: self.redact(&prompt.system).into_owned(),
            user: self.redact(&prompt.user).into_owned(),
            ..prompt.clone()
        }
    }

    /// Starts the audit record. A cancelled request counts the prompt's tokens as read.
    fn begin_request<'a>(
        &'a self,
        model: &'a str,
        prompt: &ChatPrompt,
        context: &RequestContext<'a>,
    ) -> LlmRequestGuard<'a> {
        let prompted = LlmRequestInfo {
            agent: context.caller.agent.as_ref(),
            session: context.agent.id.number(),
            model,
            purpose: prompt.purpose,
        };
        let mut request = LlmRequestGuard::begin(&self.listeners, prompted);
        request.context.tokens = [prompt.tokens(), 0];
        request
    }
}

/// Sends the request to the client. It is withdrawn at `until` or when the future is dropped.
async fn request_sampling(
    events: &events::Sender,
    prompt: &ChatPrompt,
    until: Instant,
) -> Result<Value, SamplingError> {
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
    let (request, answer) =
        ServerRequest::from_workbench(METHOD.to_owned(), Some(RawJson::encode(&asked)));
    let answered = async {
        events.send(request.into()).await.map_err(|_| SamplingError::Unsupported)?;
        // The sender is dropped if no client supports it.
        answer.await.map_err(|_| SamplingError::Unsupported)
    };
    match timeout_at(until, answered).await.map_err(|_| SamplingError::TimedOut)?? {
        RpcOutcome::Result(answer) => {
            answer.parse().map_err(|_| SamplingError::Unusable("nested too deeply".to_owned()))
        }
        RpcOutcome::Error(error) => Err(of_error(&error.parse().unwrap_or_default())),
    }
}

/// Concatenates the text parts of the response.
fn parse_sampling_result(answer: &Value, prompt: &ChatPrompt) -> Result<ChatAnswer, SamplingError> {
    let part = |part: &Value| {
        let is_text = part.get("type").is_none_or(|kind| kind == "text");
        part.get("text").and_then(Value::as_str).filter(|_| is_text).map(str::to_owned)
    };
    let text: String = match answer.get("content") {
        Some(Value::Array(parts)) => parts.iter().filter_map(part).collect(),
        Some(content) => part(content).unwrap_or_default(),
        None => String::new(),
    };
    let text = strip_reasoning(&text);
    let is_cut = answer.get("stopReason").is_some_and(|why| why == "maxTokens");
    if text.is_empty() {
        let why = if is_cut { "the model ran out of tokens" } else { "no text" };
        return Err(SamplingError::Unusable(why.to_owned()));
    }
    let usage =
        TokenUsage { input_tokens: prompt.tokens(), output_tokens: tokens_from_bytes(text.len()) };
    Ok(ChatAnswer { text: text.to_owned(), is_truncated: is_cut, usage })
}

fn of_error(error: &Value) -> SamplingError {
    match error.get("code").and_then(Value::as_i64) {
        Some(METHOD_NOT_FOUND) => SamplingError::Unsupported,
        Some(USER_REJECTED) => SamplingError::Declined,
        _ => {
            let message = error.get("message").and_then(Value::as_str).unwrap_or("no reason given");
            let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
            SamplingError::Failed(shorten(&message.replace(char::is_control, "�"), MAX_QUOTED))
        }
    }
}

fn of_said(answer: &ChatAnswer) -> LlmOutcome {
    if answer.is_truncated { LlmOutcome::InvalidResponse } else { LlmOutcome::Ok }
}

pub(crate) fn of_failure(failure: &LlmError) -> LlmOutcome {
    match failure.plain() {
        LlmError::Unreachable(_) | LlmError::Disconnected(_) => LlmOutcome::Unreachable,
        LlmError::TimedOut => LlmOutcome::TimedOut,
        LlmError::Unauthorized(_) | LlmError::InvalidKey => LlmOutcome::Unauthorized,
        LlmError::UnknownModel(_) => LlmOutcome::UnknownModel,
        LlmError::PaymentRequired => LlmOutcome::PaymentRequired,
        LlmError::RateLimited(_) => LlmOutcome::RateLimited,
        LlmError::Status(_) | LlmError::Redirected(_) | LlmError::WithMessage(..) => {
            LlmOutcome::Error
        }
        LlmError::Html | LlmError::Unusable(_) => LlmOutcome::InvalidResponse,
        LlmError::AnswerTooLarge => LlmOutcome::ResponseTooLarge,
    }
}

fn of_unlent(why: &SamplingError) -> LlmOutcome {
    match why {
        SamplingError::Unsupported => LlmOutcome::SamplingUnsupported,
        SamplingError::Declined => LlmOutcome::Declined,
        SamplingError::TimedOut => LlmOutcome::TimedOut,
        SamplingError::Failed(_) => LlmOutcome::Error,
        SamplingError::Unusable(_) => LlmOutcome::InvalidResponse,
    }
}

#[cfg(test)]
mod tests;
