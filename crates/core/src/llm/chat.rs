//! Chat completions: one self-contained prompt, one answer.
//!
//! A request has one turn, no tools, and a requested response format. Some endpoints reject a part
//! of it without saying which; the request is then sent again in another [`RequestDialect`], which
//! is remembered for a while.

use serde_json::{Value, json};

use crate::llm::answer::{ChatResponse, read};
use crate::llm::endpoint::MAX_BYTES;
use crate::llm::{Endpoint, LlmError, PostOutcome, RequestLimits};
use mcp_workbench_wire::json::RawJson;

const PATH: &str = "chat/completions";
/// Approximate.
const BYTES_PER_TOKEN: usize = 4;
/// Statuses of endpoints that reject a member of the request: "bad request" and "unprocessable".
const REFUSALS: [LlmError; 2] = [LlmError::Status(400), LlmError::Status(422)];

/// A self-contained question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChatPrompt {
    /// Role and task of the model.
    pub system: String,
    pub user: String,
    pub response_format: ResponseFormat,
    /// Maximum number of output tokens, including reasoning.
    pub max_tokens: u32,
    /// Purpose for the audit log: `category`, `service`, `tool` or `parameters`.
    pub purpose: &'static str,
}

impl ChatPrompt {
    /// Returns the approximate number of input tokens.
    pub fn tokens(&self) -> u64 {
        tokens_from_bytes(self.system.len() + self.user.len())
    }
}

/// The response format to request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResponseFormat {
    /// `{"choice": …}` with one of these values.
    Choice(Vec<String>),
    /// A JSON object.
    Object,
}

/// A model's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChatAnswer {
    pub text: String,
    /// `true` if the answer hit a token limit; the text is then incomplete.
    pub is_truncated: bool,
    pub usage: TokenUsage,
}

/// Token counts, estimated if the endpoint doesn't report them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenUsage {
    pub input_tokens: u64,
    pub output_tokens: u64,
}

/// Tokens and requests spent, including failed requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestCost {
    pub usage: TokenUsage,
    pub requests: u32,
}

/// A form of request. Each optional member is missing from at least one dialect, so if an endpoint
/// rejects one of them, a dialect without it is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestDialect {
    /// Accepted by most endpoints. Uses `max_tokens`, because some endpoints ignore (Ollama) or
    /// reject (Mistral) `max_completion_tokens`.
    Full,
    /// For the reasoning models of `OpenAI`, which require `max_completion_tokens` and reject a
    /// temperature.
    Reasoning,
    /// For endpoints that reject response formats.
    Plain,
}

impl RequestDialect {
    /// In order of preference.
    const ALL: [Self; 3] = [Self::Full, Self::Reasoning, Self::Plain];

    fn request(self, model: &str, effort: Option<&str>, prompt: &ChatPrompt) -> Value {
        let mut request = json!({
            "model": model,
            "messages": [
                {"role": "system", "content": prompt.system},
                {"role": "user", "content": prompt.user},
            ],
        });
        let limit = match self {
            Self::Full | Self::Plain => "max_tokens",
            Self::Reasoning => "max_completion_tokens",
        };
        request[limit] = json!(prompt.max_tokens);
        if self != Self::Reasoning {
            request["temperature"] = json!(0);
        }
        if self != Self::Plain {
            request["response_format"] = prompt.response_format.wanted();
            if let Some(effort) = effort {
                request["reasoning_effort"] = json!(effort);
            }
        }
        request
    }
}

impl ResponseFormat {
    fn wanted(&self) -> Value {
        match self {
            Self::Choice(ids) => json!({
                "type": "json_schema",
                "json_schema": {
                    "name": "choice",
                    "strict": true,
                    "schema": {
                        "type": "object",
                        "properties": {"choice": {"type": "string", "enum": ids}},
                        "required": ["choice"],
                        "additionalProperties": false,
                    },
                },
            }),
            // Tool schemas rarely meet the rules of `strict`, so they are part of the prompt
            // instead.
            Self::Object => json!({"type": "json_object"}),
        }
    }
}

impl Endpoint {
    /// Sends a prompt. `cost` is updated before each request and corrected after it, so it is up to
    /// date even if the future is dropped.
    pub async fn chat(
        &self,
        prompt: &ChatPrompt,
        within: RequestLimits,
        cost: &mut RequestCost,
    ) -> Result<ChatAnswer, LlmError> {
        let first = self.dialect.preferred();
        let mut refusal = LlmError::Status(400);
        for (at, shape) in RequestDialect::ALL.into_iter().enumerate().skip(first) {
            let asked = cost.requests;
            let Some(requests) = within.requests.checked_sub(asked).filter(|left| *left > 0) else {
                return Err(refusal);
            };
            let config = self.config();
            let effort = config.reasoning_effort.as_deref();
            let body = RawJson::encode(&shape.request(&config.model, effort, prompt));
            let before = cost.usage;
            cost.requests = asked + 1;
            cost.usage = before.and(TokenUsage { input_tokens: prompt.tokens(), output_tokens: 0 });
            let within = RequestLimits { requests, ..within };
            let PostOutcome { answer, attempts } =
                self.post_with_retries(PATH, &body, MAX_BYTES, within).await;
            cost.requests = asked + attempts;
            let answer = match answer {
                Ok(answer) => answer,
                Err(failure) => {
                    if !may_have_read(&failure) {
                        cost.usage = before;
                    }
                    if REFUSALS.contains(failure.plain()) {
                        refusal = failure;
                        continue;
                    }
                    return Err(failure);
                }
            };
            if at != first {
                self.dialect.learn(Some(at));
            }
            let ChatResponse { text, is_cut, read, written } = read(&answer);
            let guessed = tokens_from_bytes(text.as_ref().map_or(0, String::len));
            let usage = TokenUsage {
                input_tokens: read.unwrap_or_else(|| prompt.tokens()),
                output_tokens: written.unwrap_or(guessed),
            };
            cost.usage = before.and(usage);
            return text.map(|text| ChatAnswer { text, is_truncated: is_cut, usage });
        }
        self.dialect.learn(None);
        Err(refusal)
    }
}

impl TokenUsage {
    fn and(self, other: Self) -> Self {
        Self {
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
        }
    }
}

/// Returns `true` if the model may have processed the prompt before the request failed.
fn may_have_read(failure: &LlmError) -> bool {
    match failure.plain() {
        LlmError::TimedOut
        | LlmError::Disconnected(_)
        | LlmError::Html
        | LlmError::Unusable(_)
        | LlmError::AnswerTooLarge => true,
        LlmError::Status(status) => *status >= 500,
        LlmError::Unreachable(_)
        | LlmError::Unauthorized(_)
        | LlmError::InvalidKey
        | LlmError::UnknownModel(_)
        | LlmError::PaymentRequired
        | LlmError::RateLimited(_)
        | LlmError::Redirected(_)
        | LlmError::WithMessage(..) => false,
    }
}

/// Estimates the number of tokens in a text of this length.
pub fn tokens_from_bytes(bytes: usize) -> u64 {
    bytes.div_ceil(BYTES_PER_TOKEN) as u64
}

#[cfg(test)]
mod tests;
