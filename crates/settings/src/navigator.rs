//! Settings of `execute_task` (`navigator`).

use std::path::PathBuf;
use std::time::Duration;

use crate::catalog::CatalogFolder;
use crate::defaults;
use crate::llm::LlmConfig;

/// Settings of `execute_task`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct NavigatorConfig {
    /// The catalog folder as written in the configuration.
    pub folder: Option<PathBuf>,
    /// The catalog to search, or `None` for the toolboxes.
    pub catalog: Option<CatalogFolder>,
    /// `None`: `Strategy::Hierarchy` with a catalog, else `Strategy::Retrieve`.
    pub strategy: Option<Strategy>,
    /// `None`: `ChooserKind::Llm` if `llm` is set, else `ChooserKind::Ranker`.
    pub chooser: Option<ChooserKind>,
    pub llm: Option<LlmConfig>,
    pub budget: BudgetConfig,
}

impl NavigatorConfig {
    /// Returns the configured or default search strategy.
    pub fn strategy(&self) -> Strategy {
        let default = if self.catalog.is_some() { Strategy::Hierarchy } else { Strategy::Retrieve };
        self.strategy.unwrap_or(default)
    }

    /// Returns the configured or default selector.
    pub fn chooser(&self) -> ChooserKind {
        let default = if self.llm.is_some() { ChooserKind::Llm } else { ChooserKind::Ranker };
        self.chooser.unwrap_or(default)
    }
}

/// How `execute_task` searches for a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Strategy {
    /// Choose a category, then a service, then a tool.
    Hierarchy,
    /// Choose from the best matches of the ranker.
    Retrieve,
}

impl Strategy {
    /// All variants with their spelling in the configuration.
    pub const WORDS: [(&str, Self); 2] =
        [("hierarchy", Self::Hierarchy), ("retrieve", Self::Retrieve)];
}

/// How a tool is selected from the candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChooserKind {
    Llm,
    /// The model of the client through sampling. Falls back to the ranker if the client lacks it.
    Sampling,
    Ranker,
}

impl ChooserKind {
    /// All variants with their spelling in the configuration.
    pub const WORDS: [(&str, Self); 3] =
        [("llm", Self::Llm), ("sampling", Self::Sampling), ("ranker", Self::Ranker)];
}

/// Limits for selecting the tool of one task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BudgetConfig {
    pub time: Duration,
    /// Input and output tokens of all model calls.
    pub tokens: u64,
    /// Requests to the model (`maxRequests`).
    pub requests: u32,
}

impl Default for BudgetConfig {
    fn default() -> Self {
        Self {
            time: Duration::from_millis(defaults::BUDGET_MS),
            tokens: defaults::BUDGET_TOKENS,
            requests: defaults::BUDGET_REQUESTS,
        }
    }
}
