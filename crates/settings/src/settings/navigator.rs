//! How `execute_task` finds its way (`navigator`).

use std::path::PathBuf;
use std::time::Duration;

use crate::settings::catalog::Catalog;
use crate::settings::defaults;
use crate::settings::llm::LlmConfig;

/// How `execute_task` finds its way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NavigatorConfig {
    /// The folder with the catalog that is walked, as the file names it.
    pub folder: Option<PathBuf>,
    /// The catalog that is walked; `None`: the toolboxes are.
    pub catalog: Option<Catalog>,
    /// How a tool is looked for; `None`: by the hierarchy where there is a catalog, else by
    /// retrieval.
    pub strategy: Option<Strategy>,
    /// Who chooses; `None`: the model of `llm` where there is one, else the ranker.
    pub chooser: Option<ChooserKind>,
    /// The model that chooses.
    pub llm: Option<LlmConfig>,
    /// The most that choosing may cost.
    pub budget: BudgetConfig,
}

impl NavigatorConfig {
    /// Returns how a tool is looked for.
    pub fn strategy(&self) -> Strategy {
        let default = if self.catalog.is_some() { Strategy::Hierarchy } else { Strategy::Retrieve };
        self.strategy.unwrap_or(default)
    }

    /// Returns who chooses.
    pub fn chooser(&self) -> ChooserKind {
        let default = if self.llm.is_some() { ChooserKind::Llm } else { ChooserKind::Ranker };
        self.chooser.unwrap_or(default)
    }
}

/// How a tool is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// Category, then service, then tool.
    Hierarchy,
    /// Among the tools that the ranker finds.
    Retrieve,
}

impl Strategy {
    /// All of them, by the words for them in the file.
    pub const WORDS: [(&str, Self); 2] =
        [("hierarchy", Self::Hierarchy), ("retrieve", Self::Retrieve)];
}

/// Who chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChooserKind {
    /// The model of `llm`.
    Llm,
    /// The agent's own model, where its client lends it; else the ranker.
    Sampling,
    /// The ranker, which needs nothing.
    Ranker,
}

impl ChooserKind {
    /// All of them, by the words for them in the file.
    pub const WORDS: [(&str, Self); 3] =
        [("llm", Self::Llm), ("sampling", Self::Sampling), ("ranker", Self::Ranker)];
}

/// The most that choosing may cost for one task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetConfig {
    /// How long it may take in all.
    pub time: Duration,
    /// How many tokens models may read and write for it.
    pub tokens: u64,
    /// How often models may be asked.
    pub calls: u32,
}

impl Default for BudgetConfig {
    fn default() -> Self {
        Self {
            time: Duration::from_millis(defaults::BUDGET_MS),
            tokens: defaults::BUDGET_TOKENS,
            calls: defaults::BUDGET_CALLS,
        }
    }
}
