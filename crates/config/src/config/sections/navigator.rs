//! The `navigator` section: how `execute_task` selects a tool.

use crate::config::sections::llm::RawLlm;
use crate::config::sections::ranges;
use crate::config::syntax::checks::{duration_from_millis, narrow_number};
use crate::config::syntax::document::Node;
use crate::config::syntax::paths::{PathResolver, resolve_path};
use crate::config::syntax::reader::{ConfigReader, Located, did_you_mean, quoted_list};
use crate::config::syntax::section::section;
use crate::settings::{BudgetConfig, ChooserKind, NavigatorConfig, Strategy, defaults};

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
            => |node: &Node<'_>, reader| read_keyword(node, &Strategy::WORDS, reader),

        /// Who chooses: the model of `llm`, the client's own where it lends it (`sampling`), or the
        /// `ranker`, which needs nothing.
        #[schemars(extend("enum" = ["llm", "sampling", "ranker", null]))]
        "chooser" as pub(crate) chooser: Located<String>
            => |node: &Node<'_>, reader| read_keyword(node, &ChooserKind::WORDS, reader),

        /// The model that chooses.
        "llm" as pub(crate) llm: Located<RawLlm>,

        /// The most that choosing may cost for one task.
        "budget" as pub(crate) budget: RawBudget,
    }
}

section! {
    /// The most that choosing may cost for one task.
    #[schemars(rename = "Budget")]
    pub(crate) struct RawBudget {
        /// How long it may take in all, in milliseconds.
        #[schemars(extend("default" = defaults::BUDGET_MS))]
        "timeoutMs" | "timeout_ms" as pub(crate) timeout_ms: Located<u64> [(1, ranges::MAX_TIMEOUT_MS)],

        /// How many tokens models may read and write for it.
        #[schemars(extend("default" = defaults::BUDGET_TOKENS))]
        "maxTokens" | "max_tokens" as pub(crate) max_tokens: Located<u64> [ranges::BUDGET_TOKENS],

        /// How often models may be asked.
        #[schemars(extend("default" = defaults::BUDGET_CALLS))]
        "maxCalls" | "max_calls" as pub(crate) max_calls: Located<u64> [ranges::BUDGET_CALLS],
    }
}

impl RawNavigator {
    pub(crate) fn checked(
        self,
        paths: &PathResolver<'_>,
        reader: &mut ConfigReader<'_>,
    ) -> NavigatorConfig {
        let Self { catalog, strategy, chooser, llm, budget } = self;
        if let (Some(chooser), None) = (&chooser, &llm)
            && chooser.value == "llm"
        {
            let hint = "write `\"llm\": {\"baseUrl\": \"…\", \"model\": \"…\"}` beside it";
            reader.report_error(
                &chooser.location,
                "there is no `llm` to choose",
                Some(hint.to_owned()),
            );
        }
        NavigatorConfig {
            folder: catalog.map(|path| resolve_path(&path.value, paths)),
            catalog: None,
            strategy: keyword_value(strategy, &Strategy::WORDS),
            chooser: keyword_value(chooser, &ChooserKind::WORDS),
            llm: llm.and_then(|raw| raw.value.checked(&raw.location, reader)),
            budget: budget.map(RawBudget::checked).unwrap_or_default(),
        }
    }
}

impl RawBudget {
    fn checked(self) -> BudgetConfig {
        let Self { timeout_ms, max_tokens, max_calls } = self;
        let default = BudgetConfig::default();
        BudgetConfig {
            time: duration_from_millis(timeout_ms).unwrap_or(default.time),
            tokens: narrow_number(max_tokens).unwrap_or(default.tokens),
            calls: narrow_number(max_calls).unwrap_or(default.calls),
        }
    }
}

fn read_keyword<T>(
    node: &Node<'_>,
    words: &[(&str, T)],
    reader: &mut ConfigReader<'_>,
) -> Option<Located<String>> {
    let word = reader.read_string(node)?;
    let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
    if !words.contains(&word.value.as_str()) {
        let message = format!("expected {}, found `{}`", quoted_list(&words, "or"), word.value);
        reader.report_error(&word.location, message, did_you_mean(&word.value, &words));
    }
    Some(word)
}

fn keyword_value<T: Copy>(word: Option<Located<String>>, words: &[(&str, T)]) -> Option<T> {
    let word = word?.value;
    words.iter().find_map(|(known, meant)| (*known == word).then_some(*meant))
}
