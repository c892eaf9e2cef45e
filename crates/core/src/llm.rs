//! Language models behind an endpoint that speaks the API of `OpenAI`.
//!
//! Every request stands for itself and changes nothing, so one that failed may be made again, within
//! the time that is left. What an endpoint answers is bounded, and nothing of it is trusted.

mod answer;
mod chat;
mod embeddings;
mod endpoint;
mod failure;
#[cfg(any(test, feature = "test-support"))]
pub mod scripted;
mod taken;
#[cfg(test)]
mod tests;

pub use answer::{objects, without_thoughts};
pub use chat::{Cost, Form, Prompt, Said, Usage, estimate};
pub use endpoint::{Endpoint, Posted, Within};
pub use failure::Failure;
