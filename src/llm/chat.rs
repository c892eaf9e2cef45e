//! A question that stands for itself, and what a model says to it.
//!
//! The request has the shape that all endpoints take that speak this API: one turn, no tools, and
//! an answer in a form that is asked for. Some refuse a part of it, and do not say which; they are
//! asked again in a simpler [`Shape`], which is remembered.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::llm::answer::{Heard, read};
use crate::llm::endpoint::MOST_BYTES;
use crate::llm::{Endpoint, Failure, Posted};
use crate::raw::Raw;

/// Where the API takes questions.
const PATH: &str = "chat/completions";
/// The fewest tokens that a model is given: one that reasons says nothing with less.
const LEAST_TOKENS: u32 = 1_000;
/// About how many bytes are one token.
const BYTES_PER_TOKEN: usize = 4;
/// What an endpoint answers that does not take a member: "bad request", "unprocessable".
const REFUSALS: [Failure; 2] = [Failure::Status(400), Failure::Status(422)];

/// A question that stands for itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// What the model is, and what it is to do.
    pub system: String,
    /// What it is asked.
    pub user: String,
    /// The form of its answer.
    pub form: Form,
    /// The most tokens that it may write, what it thinks included.
    pub max_tokens: u32,
    /// What it is asked for, in a word of ours: `category`, `service`, `tool` or `parameters`.
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

/// What a model said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// Its words.
    pub text: String,
    /// What it took.
    pub usage: Usage,
}

/// How many tokens a model has read and written; guessed where the endpoint does not say it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Those it has read.
    pub read: u64,
    /// Those it has written.
    pub written: u64,
}

/// What asking has cost, whatever came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// The tokens.
    pub usage: Usage,
    /// How many requests were made.
    pub requests: u32,
}

/// How much of a request an endpoint takes, from all of it to what every one takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// Everything.
    Full,
    /// What models take that reason, and will not have their temperature set.
    Reasoning,
    /// What endpoints take that know the first version of the API alone.
    Plain,
}

/// The shape that an endpoint has taken last.
#[derive(Debug, Default)]
pub(crate) struct Taken(AtomicUsize);

impl Shape {
    /// Every one, the simplest last.
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
        let tokens = prompt.max_tokens.max(LEAST_TOKENS);
        if self == Self::Plain {
            request["max_tokens"] = json!(tokens);
            return request;
        }
        request["max_completion_tokens"] = json!(tokens);
        request["response_format"] = prompt.form.wanted();
        if let Some(effort) = effort {
            request["reasoning_effort"] = json!(effort);
        }
        if self == Self::Full {
            request["temperature"] = json!(0);
        }
        request
    }
}

impl Form {
    /// What asks for an answer of this form.
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
        until: Instant,
        cost: &mut Cost,
    ) -> Result<Said, Failure> {
        let first = self.taken.0.load(Ordering::Relaxed);
        let mut refusal = Failure::Status(400);
        for (at, shape) in Shape::ALL.into_iter().enumerate().skip(first) {
            let config = self.config();
            let effort = config.reasoning_effort.as_deref();
            let body = Raw::encode(&shape.request(&config.model, effort, prompt));
            let before = cost.usage;
            let asked = cost.requests;
            cost.requests = asked + 1;
            cost.usage = before.and(Usage { read: prompt.tokens(), written: 0 });
            let Posted { answer, attempts } =
                self.post_counted(PATH, &body, MOST_BYTES, until).await;
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
            self.taken.0.store(at, Ordering::Relaxed);
            let Heard { text, read, written } = read(&answer);
            let guessed = estimate(text.as_ref().map_or(0, String::len));
            let usage = Usage {
                read: read.unwrap_or_else(|| prompt.tokens()),
                written: written.unwrap_or(guessed),
            };
            cost.usage = before.and(usage);
            return text.map(|text| Said { text, usage });
        }
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

/// Whether a model may have read a question of which nothing came.
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
