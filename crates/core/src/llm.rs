//! Client for language models behind an `OpenAI`-compatible API.
//!
//! Every request is independent and has no side effects, so a failed one is retried while its
//! deadline allows. Responses are bounded in size and treated as untrusted.

mod answer;
mod chat;
mod dialect_cache;
mod embeddings;
mod endpoint;
mod error;
#[cfg(any(test, feature = "test-support"))]
pub mod fake_endpoint;
#[cfg(test)]
mod tests;

pub use answer::{json_objects, strip_reasoning};
pub use chat::{
    ChatAnswer, ChatPrompt, RequestCost, ResponseFormat, TokenUsage, tokens_from_bytes,
};
pub use endpoint::{Endpoint, PostOutcome, RequestLimits};
pub use error::LlmError;
