//! How `execute_task` finds its way (`navigator`).

use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;

use crate::config::keys::limits;
use crate::config::keys::llm::RawLlm;
use crate::config::syntax::bounds::bounded;
use crate::config::syntax::document::Node;
use crate::config::syntax::entries::{located, object};
use crate::config::syntax::places::{Places, located_path};
use crate::config::syntax::reader::{Fields, Located, Reader, did_you_mean, listed};
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
            time: Duration::from_millis(limits::DEFAULT_BUDGET_MS),
            tokens: limits::DEFAULT_BUDGET_TOKENS,
            calls: limits::DEFAULT_BUDGET_CALLS,
        }
    }
}

// === raw ===

/// How `execute_task` finds its way, in `navigate` mode.
#[derive(Default, JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields, rename = "Navigator")]
pub(crate) struct RawNavigator {
    /// The folder with the catalog that is walked. Without one the toolboxes are: a category is a
    /// toolbox, a service one of its servers.
    pub(crate) catalog: Option<Located<String>>,

    /// `hierarchy`: category, then service, then tool; the default with a `catalog`. `retrieve`:
    /// among the tools that the ranker finds; the default without.
    #[schemars(extend("enum" = ["hierarchy", "retrieve", null]))]
    pub(crate) strategy: Option<Located<String>>,

    /// Who chooses: the model of `llm`, the client's own where it lends it (`sampling`), or the
    /// `ranker`, which needs nothing.
    #[schemars(extend("enum" = ["llm", "sampling", "ranker", null]))]
    pub(crate) chooser: Option<Located<String>>,

    /// The model that chooses.
    pub(crate) llm: Option<Located<RawLlm>>,

    /// What choosing may cost for one task.
    pub(crate) budget: Option<RawBudget>,
}

/// What choosing may cost for one task.
#[derive(Default, JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields, rename = "Budget")]
pub(crate) struct RawBudget {
    /// How long it may take in all, in milliseconds.
    #[schemars(range(min = 1, max = limits::MAX_TIMEOUT_MS))]
    #[schemars(extend("default" = limits::DEFAULT_BUDGET_MS))]
    pub(crate) timeout_ms: Option<Located<u64>>,

    /// How many tokens models may read and write for it.
    #[schemars(range(min = limits::BUDGET_TOKENS.0, max = limits::BUDGET_TOKENS.1))]
    #[schemars(extend("default" = limits::DEFAULT_BUDGET_TOKENS))]
    pub(crate) max_tokens: Option<Located<u64>>,

    /// How often models may be asked.
    #[schemars(range(min = limits::BUDGET_CALLS.0, max = limits::BUDGET_CALLS.1))]
    #[schemars(extend("default" = limits::DEFAULT_BUDGET_CALLS))]
    pub(crate) max_calls: Option<Located<u64>>,
}

impl RawNavigator {
    pub(crate) fn read(fields: &mut Fields<'_>, reader: &mut Reader<'_>) -> Self {
        Self {
            catalog: fields.take("catalog").and_then(|node| reader.string(&node)),
            strategy: fields
                .take("strategy")
                .and_then(|node| word(&node, &Strategy::WORDS.map(|(word, _)| word), reader)),
            chooser: fields
                .take("chooser")
                .and_then(|node| word(&node, &ChooserKind::WORDS.map(|(word, _)| word), reader)),
            llm: fields.take("llm").and_then(|node| located(&node, reader, RawLlm::read)),
            budget: fields.take("budget").and_then(|node| object(&node, reader, RawBudget::read)),
        }
    }

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
            budget: budget.map(|raw| raw.checked(reader)).unwrap_or_default(),
        }
    }
}

impl RawBudget {
    pub(crate) fn read(fields: &mut Fields<'_>, reader: &mut Reader<'_>) -> Self {
        let mut number =
            |key, other| fields.either(key, other, reader).and_then(|node| reader.number(&node));
        Self {
            timeout_ms: number("timeoutMs", "timeout_ms"),
            max_tokens: number("maxTokens", "max_tokens"),
            max_calls: number("maxCalls", "max_calls"),
        }
    }

    fn checked(self, reader: &mut Reader<'_>) -> BudgetConfig {
        let Self { timeout_ms, max_tokens, max_calls } = self;
        let default = BudgetConfig::default();
        let (fewest, most) = limits::BUDGET_TOKENS;
        let tokens = bounded(max_tokens, fewest..=most, reader);
        let (fewest, most) = limits::BUDGET_CALLS;
        let time = bounded(timeout_ms, 1..=limits::MAX_TIMEOUT_MS, reader);
        BudgetConfig {
            time: time.map_or(default.time, Duration::from_millis),
            tokens: tokens.unwrap_or(default.tokens),
            calls: bounded(max_calls, fewest..=most, reader).unwrap_or(default.calls),
        }
    }
}

fn word(node: &Node<'_>, words: &[&str], reader: &mut Reader<'_>) -> Option<Located<String>> {
    let word = reader.string(node)?;
    if !words.contains(&word.value.as_str()) {
        let message = format!("expected {}, found `{}`", listed(words, "or"), word.value);
        reader.error(&word.spot, message, did_you_mean(&word.value, words));
    }
    Some(word)
}

fn meant<T: Copy>(word: Option<Located<String>>, words: &[(&str, T)]) -> Option<T> {
    let word = word?.value;
    words.iter().find_map(|(known, meant)| (*known == word).then_some(*meant))
}
