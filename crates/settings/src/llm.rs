//! Model endpoint settings (`navigator.llm`, `search.embeddings`).

use std::fmt;
use std::time::Duration;

use url::Url;

/// A model at an endpoint with an `OpenAI`-compatible API.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct LlmConfig {
    /// Prefix of all API paths. Ends in `/`, such as `https://api.cerebras.ai/v1/`.
    pub base_url: Url,
    pub model: String,
    /// Sent as a bearer token.
    pub api_key: Option<String>,
    /// Timeout of one request.
    pub timeout: Duration,
    /// Sent verbatim as `reasoning_effort`, or left out if `None`.
    pub reasoning_effort: Option<String>,
}

/// Omits the API key.
impl fmt::Debug for LlmConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LlmConfig")
            .field("base_url", &self.base_url.as_str())
            .field("model", &self.model)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}
