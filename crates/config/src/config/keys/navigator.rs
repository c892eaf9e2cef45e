//! How `execute_task` finds its way (`navigator`).

use std::path::PathBuf;
use std::time::Duration;

use crate::config::keys::llm::RawLlm;
use crate::config::keys::numbers;
use crate::config::syntax::checks::{milliseconds, number};
use crate::config::syntax::document::Node;
use crate::config::syntax::places::{Places, located_path};
use crate::config::syntax::reader::{Located, Reader, did_you_mean, listed};
use crate::config::syntax::section::section;
use crate::config::{Catalog, LlmConfig};

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
    /// What choosing may cost.
    pub budget: BudgetConfig,
}

impl NavigatorConfig {
    /// How a tool is looked for.
    pub fn strategy(&self) -> Strategy {
        let default = if self.catalog.is_some() { Strategy::Hierarchy } else { Strategy::Retrieve };
        self.strategy.unwrap_or(default)
    }

    /// Who chooses.
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
    /// Every one, by the word for it in the file.
    pub(crate) const WORDS: [(&str, Self); 2] =
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
    /// Every one, by the word for it in the file.
    pub(crate) const WORDS: [(&str, Self); 3] =
        [("llm", Self::Llm), ("sampling", Self::Sampling), ("ranker", Self::Ranker)];
}

/// What choosing may cost for one task.
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
            time: Duration::from_millis(numbers::DEFAULT_BUDGET_MS),
            tokens: numbers::DEFAULT_BUDGET_TOKENS,
            calls: numbers::DEFAULT_BUDGET_CALLS,
        }
    }
}

// === raw ===

section! {
    /// How `execute_task` finds its way, in `navigate` mode.
    #[schemars(rename = "Navigator")]
    pub(crate) struct RawNavigator {
        /// The folder with the catalog that is walked. Without one the toolboxes are: a category is
        /// a toolbox, a service one of its servers.
        "catalog" as pub(crate) catalog: Located<String>,

        /// `hierarchy`: category, then service, then tool; the default with a `catalog`.
        /// `retrieve`: among the tools that the ranker finds; the default without.
        #[schemars(extend("enum" = ["hierarchy", "retrieve", null]))]
        "strategy" as pub(crate) strategy: Located<String>
            => |node: &Node<'_>, reader| word(node, &Strategy::WORDS, reader),

        /// Who chooses: the model of `llm`, the client's own where it lends it (`sampling`), or the
        /// `ranker`, which needs nothing.
        #[schemars(extend("enum" = ["llm", "sampling", "ranker", null]))]
        "chooser" as pub(crate) chooser: Located<String>
            => |node: &Node<'_>, reader| word(node, &ChooserKind::WORDS, reader),

        /// The model that chooses.
        "llm" as pub(crate) llm: Located<RawLlm>,

        /// What choosing may cost for one task.
        "budget" as pub(crate) budget: RawBudget,
    }
}

section! {
    /// What choosing may cost for one task.
    #[schemars(rename = "Budget")]
    pub(crate) struct RawBudget {
        /// How long it may take in all, in milliseconds.
        #[schemars(extend("default" = numbers::DEFAULT_BUDGET_MS))]
        "timeoutMs" | "timeout_ms" as pub(crate) timeout_ms: Located<u64> [(1, numbers::MAX_TIMEOUT_MS)],

        /// How many tokens models may read and write for it.
        #[schemars(extend("default" = numbers::DEFAULT_BUDGET_TOKENS))]
        "maxTokens" | "max_tokens" as pub(crate) max_tokens: Located<u64> [numbers::BUDGET_TOKENS],

        /// How often models may be asked.
        #[schemars(extend("default" = numbers::DEFAULT_BUDGET_CALLS))]
        "maxCalls" | "max_calls" as pub(crate) max_calls: Located<u64> [numbers::BUDGET_CALLS],
    }
}

impl RawNavigator {
    pub(crate) fn checked(self, places: &Places<'_>, reader: &mut Reader<'_>) -> NavigatorConfig {
        let Self { catalog, strategy, chooser, llm, budget } = self;
        if let (Some(chooser), None) = (&chooser, &llm)
            && chooser.value == "llm"
        {
            let hint = "write `\"llm\": {\"baseUrl\": \"…\", \"model\": \"…\"}` beside it";
            reader.error(&chooser.spot, "there is no `llm` to choose", Some(hint.to_owned()));
        }
        NavigatorConfig {
            folder: catalog.map(|path| located_path(&path.value, places)),
            catalog: None,
            strategy: meant(strategy, &Strategy::WORDS),
            chooser: meant(chooser, &ChooserKind::WORDS),
            llm: llm.and_then(|raw| raw.value.checked(&raw.spot, reader)),
            budget: budget.map(RawBudget::checked).unwrap_or_default(),
        }
    }
}

impl RawBudget {
    fn checked(self) -> BudgetConfig {
        let Self { timeout_ms, max_tokens, max_calls } = self;
        let default = BudgetConfig::default();
        BudgetConfig {
            time: milliseconds(timeout_ms).unwrap_or(default.time),
            tokens: number(max_tokens).unwrap_or(default.tokens),
            calls: number(max_calls).unwrap_or(default.calls),
        }
    }
}

/// Reads one of `words`.
fn word<T>(
    node: &Node<'_>,
    words: &[(&str, T)],
    reader: &mut Reader<'_>,
) -> Option<Located<String>> {
    let word = reader.string(node)?;
    let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
    if !words.contains(&word.value.as_str()) {
        let message = format!("expected {}, found `{}`", listed(&words, "or"), word.value);
        reader.error(&word.spot, message, did_you_mean(&word.value, &words));
    }
    Some(word)
}

fn meant<T: Copy>(word: Option<Located<String>>, words: &[(&str, T)]) -> Option<T> {
    let word = word?.value;
    words.iter().find_map(|(known, meant)| (*known == word).then_some(*meant))
}
