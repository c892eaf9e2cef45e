//! The `navigator` section: how `execute_task` selects a tool.

use crate::sections::llm::RawLlm;
use crate::sections::ranges;
use crate::syntax::checks::{duration_from_millis, narrow_number};
use crate::syntax::document::Node;
use crate::syntax::paths::{PathResolver, resolve_path};
use crate::syntax::reader::{ConfigReader, Located, did_you_mean, quoted_list};
use crate::syntax::section::section;
use mcp_workbench_settings::{BudgetConfig, ChooserKind, NavigatorConfig, Strategy, defaults};

section! {
    /// How `execute_task` selects a tool.
    #[schemars(rename = "Navigator")]
    pub(crate) struct RawNavigator {
        /// Catalog folder to navigate. Without one, the toolboxes are used: each is a category, and
        /// its servers are the services.
        "catalog" as pub(crate) catalog: Located<String>,

        /// `hierarchy` selects a category, then a service, then a tool (default with a `catalog`).
        /// `retrieve` selects among the tools that the ranker finds (default without).
        #[schemars(extend("enum" = ["hierarchy", "retrieve", null]))]
        "strategy" as pub(crate) strategy: Located<String>
            => |node: &Node<'_>, reader| read_keyword(node, &Strategy::WORDS, reader),

        /// `llm`: the model of `llm` selects. `sampling`: the client's model. `ranker`: the
        /// built-in ranking, without a model. Default: `llm` if configured, otherwise `ranker`.
        #[schemars(extend("enum" = ["llm", "sampling", "ranker", null]))]
        "chooser" as pub(crate) chooser: Located<String>
            => |node: &Node<'_>, reader| read_keyword(node, &ChooserKind::WORDS, reader),

        /// Model that selects.
        "llm" as pub(crate) llm: Located<RawLlm>,

        /// Limits on selecting the tool for one task.
        "budget" as pub(crate) budget: RawBudget,
    }
}

section! {
    /// Limits on selecting the tool for one task.
    #[schemars(rename = "Budget")]
    pub(crate) struct RawBudget {
        /// Maximum time, in milliseconds.
        #[schemars(extend("default" = defaults::BUDGET_MS))]
        "timeoutMs" | "timeout_ms" as pub(crate) timeout_ms: Located<u64> [(1, ranges::MAX_TIMEOUT_MS)],

        /// Maximum input and output tokens of all model requests.
        #[schemars(extend("default" = defaults::BUDGET_TOKENS))]
        "maxTokens" | "max_tokens" as pub(crate) max_tokens: Located<u64> [ranges::BUDGET_TOKENS],

        /// Maximum number of model requests.
        #[schemars(extend("default" = defaults::BUDGET_REQUESTS))]
        "maxRequests" | "max_requests" as pub(crate) max_requests: Located<u64> [ranges::BUDGET_REQUESTS],
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
            let hint = "add `\"llm\": {\"baseUrl\": \"…\", \"model\": \"…\"}` to `navigator`";
            reader.report_error(
                &chooser.location,
                "`chooser` is `llm`, but no `llm` is configured",
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
        let Self { timeout_ms, max_tokens, max_requests } = self;
        let default = BudgetConfig::default();
        BudgetConfig {
            time: duration_from_millis(timeout_ms).unwrap_or(default.time),
            tokens: narrow_number(max_tokens).unwrap_or(default.tokens),
            requests: narrow_number(max_requests).unwrap_or(default.requests),
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
