//! How tools are searched for (`search`).

use crate::settings::llm::LlmConfig;

/// How tools are searched for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SearchConfig {
    /// `true` if `search_tools` is offered in `dynamic`, `proxy` and `auto` mode too.
    pub is_offered: bool,
    /// A model that turns texts into vectors, in place of the table that is compiled in.
    pub embeddings: Option<LlmConfig>,
}
