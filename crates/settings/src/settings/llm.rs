//! The endpoint of a language model (`navigator.llm`, `search.embeddings`).

use std::fmt;
use std::time::Duration;

use url::Url;

/// An endpoint that speaks the API of `OpenAI`, and the model to ask there.
#[derive(Clone, PartialEq, Eq)]
pub struct LlmConfig {
    /// The address that the API's paths are put behind, with a `/` at the end:
    /// `https://api.cerebras.ai/v1/`.
    pub base_url: Url,
    /// The model.
    pub model: String,
    /// The key, which is sent as bearer token.
    pub api_key: Option<String>,
    /// How long one answer may take.
    pub timeout: Duration,
    /// `reasoning_effort`, sent as it is; nothing is sent if there is none.
    pub reasoning_effort: Option<String>,
}

/// The key is for nobody's eyes.
impl fmt::Debug for LlmConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LlmConfig")
            .field("base_url", &self.base_url.as_str())
            .field("model", &self.model)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}
