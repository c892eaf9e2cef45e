//! Tool search settings (`search`).

use crate::llm::LlmConfig;

/// Settings of tool search.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct SearchConfig {
    /// `true` if `search_tools` is also offered in the modes `dynamic`, `proxy` and `auto`
    /// (`search.tool`).
    pub offers_tool: bool,
    /// An embedding model that replaces the built-in vectors.
    pub embeddings: Option<LlmConfig>,
}
