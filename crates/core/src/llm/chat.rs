//! A question that stands for itself, and what a model says to it.
//!
//! The request has the shape that all endpoints take that speak this API: one turn, no tools, and
//! an answer in a form that is asked for. Some refuse a part of it, and do not say which; they are
//! asked again in another [`Shape`], which is remembered for a while.

use serde_json::{Value, json};

use crate::llm::answer::{Heard, read};
use crate::llm::endpoint::MOST_BYTES;
use crate::llm::{Endpoint, Failure, Posted, Within};
use crate::raw::Raw;

/// Where the API takes questions.
const PATH: &str = "chat/completions";
/// About how many bytes are one token.
const BYTES_PER_TOKEN: usize = 4;
/// The answers of an endpoint that does not take some member: "bad request", "unprocessable".
const REFUSALS: [Failure; 2] = [Failure::Status(400), Failure::Status(422)];

/// A question that stands for itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// The role of the model, and its work.
    pub system: String,
    /// The question.
    pub user: String,
    /// The form of its answer.
    pub form: Form,
    /// The most tokens that it may write, what it thinks included.
    pub max_tokens: u32,
    /// The kind of the question, in a word of ours: `category`, `service`, `tool` or `parameters`.
    pub purpose: &'static str,
}

impl Prompt {
    /// About how many tokens a model reads of it.
    pub fn tokens(&self) -> u64 {
        estimate(self.system.len() + self.user.len())
    }
}

/// The form of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Form {
    /// `{"choice": …}`, with one of these.
    Choice(Vec<String>),
    /// A JSON object.
    Object,
}

/// An answer of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// Its words.
    pub text: String,
    /// `true` if the model had more to say and no tokens left; its text is then no answer.
    pub is_cut: bool,
    /// The tokens that it took.
    pub usage: Usage,
}

/// How many tokens a model has read and written; guessed where the endpoint does not say it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// The number of tokens that the model read.
    pub read: u64,
    /// The number of tokens that the model wrote.
    pub written: u64,
}

/// The price of asking, paid even if no answer came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// The tokens.
    pub usage: Usage,
    /// How many requests were made.
    pub requests: u32,
}

/// A form of request. No two forms limit an answer in the same words and also ask for its form in
/// the same way. So whatever an endpoint refuses, one form is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// The form that most endpoints take. Some do not know the newer word for the limit: they
    /// ignore it (Ollama) or refuse it (Mistral).
    Full,
    /// The form for those models of `OpenAI` that reason. They know the newer word alone, and do
    /// not let their temperature be set.
    Reasoning,
    /// The form for endpoints that write no JSON to order.
    Plain,
}

impl Shape {
    /// Every one, in the order in which they are tried.
    const ALL: [Self; 3] = [Self::Full, Self::Reasoning, Self::Plain];

    /// A request of this shape.
    fn request(self, model: &str, effort: Option<&str>, prompt: &Prompt) -> Value {
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
            request["response_format"] = prompt.form.wanted();
            if let Some(effort) = effort {
                request["reasoning_effort"] = json!(effort);
            }
        }
        request
    }
}

impl Form {
    /// The member of a request that asks for an answer of this form.
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
            // Schemas of tools are seldom what `strict` wants, so theirs is a part of the prompt.
            Self::Object => json!({"type": "json_object"}),
        }
    }
}

impl Endpoint {
    /// Asks the model, and adds to `cost` what that takes, as far as it is known at any moment.
    pub async fn ask(
        &self,
        prompt: &Prompt,
        within: Within,
        cost: &mut Cost,
    ) -> Result<Said, Failure> {
        let first = self.taken.first();
        let mut refusal = Failure::Status(400);
        for (at, shape) in Shape::ALL.into_iter().enumerate().skip(first) {
            let asked = cost.requests;
            let Some(requests) = within.requests.checked_sub(asked).filter(|left| *left > 0) else {
                return Err(refusal);
            };
            let config = self.config();
            let effort = config.reasoning_effort.as_deref();
            let body = Raw::encode(&shape.request(&config.model, effort, prompt));
            let before = cost.usage;
            cost.requests = asked + 1;
            cost.usage = before.and(Usage { read: prompt.tokens(), written: 0 });
            let within = Within { requests, ..within };
            let Posted { answer, attempts } =
                self.post_counted(PATH, &body, MOST_BYTES, within).await;
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
                self.taken.learn(Some(at));
            }
            let Heard { text, is_cut, read, written } = read(&answer);
            let guessed = estimate(text.as_ref().map_or(0, String::len));
            let usage = Usage {
                read: read.unwrap_or_else(|| prompt.tokens()),
                written: written.unwrap_or(guessed),
            };
            cost.usage = before.and(usage);
            return text.map(|text| Said { text, is_cut, usage });
        }
        self.taken.learn(None);
        Err(refusal)
    }
}

impl Usage {
    fn and(self, other: Self) -> Self {
        Self {
            read: self.read.saturating_add(other.read),
            written: self.written.saturating_add(other.written),
        }
    }
}

/// Returns `true` if the model may have read the question although no answer came.
fn may_have_read(failure: &Failure) -> bool {
    match failure.plain() {
        Failure::TimedOut
        | Failure::Cut(_)
        | Failure::Html
        | Failure::Unusable(_)
        | Failure::TooLong => true,
        Failure::Status(status) => *status >= 500,
        Failure::Unreachable(_)
        | Failure::Unauthorized(_)
        | Failure::UnknownModel(_)
        | Failure::Unpaid
        | Failure::TooOften(_)
        | Failure::Redirected(_)
        | Failure::Explained(..) => false,
    }
}

/// About how many tokens so many bytes are.
pub fn estimate(bytes: usize) -> u64 {
    bytes.div_ceil(BYTES_PER_TOKEN) as u64
}

#[cfg(test)]
mod tests;
