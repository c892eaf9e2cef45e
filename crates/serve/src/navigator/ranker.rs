//! The ranker as a chooser: deterministic, and without a model.

use serde_json::json;
use tokio::task::spawn_blocking;

use crate::navigator::chooser::{
    ArgumentsRequest, ChoiceOption, ChoiceRequest, Chooser, ChooserFuture, TreeLevel,
};
use mcp_workbench_core::catalog::rank::{RankingMethod, Relevance, SearchIndex, ToolDocument};
use mcp_workbench_core::catalog::{Definition, ToolDefinition};
use mcp_workbench_wire::json::{self, RawJson};

pub(crate) const RANKER: &str = "ranker";

/// Chooses the option with the best score from [`score_options`], or none if no option has one.
/// Among the tools of all services it needs a clear winner, because that tool is called. For
/// arguments it returns those that the agent gave.
#[derive(Debug)]
pub(crate) struct Ranker;

impl Chooser for Ranker {
    fn name(&self) -> &'static str {
        RANKER
    }

    fn choose<'a>(&'a self, request: ChoiceRequest<'a>) -> ChooserFuture<'a, Option<usize>> {
        let is_of_all = request.level == TreeLevel::Tool && request.path.is_empty();
        let best = top_option(request.options);
        let best = best.filter(|best| !is_of_all || best.fit.is_confident(best.next));
        Box::pin(std::future::ready(Ok(best.map(|best| best.index))))
    }

    fn is_model_backed(&self) -> bool {
        // Options are sorted best first, and a service's description says less than its tools.
        false
    }

    fn derive_arguments<'a>(&'a self, request: ArgumentsRequest<'a>) -> ChooserFuture<'a, RawJson> {
        let given = request.given.cloned().unwrap_or_else(|| json::object([]));
        Box::pin(std::future::ready(Ok(given)))
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TopOption {
    /// Index among the options.
    pub(crate) index: usize,
    pub(crate) fit: Relevance,
    /// The second-best score.
    pub(crate) next: Option<Relevance>,
}

/// Returns the best of the scored options; the first one wins a tie.
pub(crate) fn top_option(options: &[ChoiceOption]) -> Option<TopOption> {
    let mut best: Option<TopOption> = None;
    for (index, option) in options.iter().enumerate() {
        let Some(fit) = option.fit else { continue };
        best = match best {
            Some(best) if fit.rank <= best.fit.rank => {
                let is_next = best.next.is_none_or(|next| fit.rank > next.rank);
                Some(TopOption { next: if is_next { Some(fit) } else { best.next }, ..best })
            }
            other => Some(TopOption { index, fit, next: other.map(|other| other.fit) }),
        };
    }
    best
}

/// Scores the options by a search index built on a blocking thread. Options without a match have no
/// score.
pub(crate) async fn score_options(task: &str, options: Vec<ChoiceOption>) -> Vec<ChoiceOption> {
    let (task, mut ranked) = (task.to_owned(), options.clone());
    let ranking = spawn_blocking(move || {
        for (index, fit) in fits(&task, &ranked) {
            ranked[index].fit = Some(fit);
        }
        ranked
    });
    // Fails only on a panic or at shutdown; return the options without scores.
    ranking.await.unwrap_or(options)
}

fn fits(task: &str, options: &[ChoiceOption]) -> Vec<(usize, Relevance)> {
    let definitions: Vec<_> = options.iter().map(definition).collect();
    let places: Vec<_> = (0..options.len()).filter(|at| definitions[*at].is_some()).collect();
    let entries =
        definitions.iter().flatten().map(|tool| ToolDocument { server: "", about: "", tool });
    let hits =
        SearchIndex::new(entries, RankingMethod::Hybrid).search(task, options.len(), |_| true);
    hits.iter().filter_map(|hit| Some((*places.get(hit.index)?, hit.relevance()))).collect()
}

fn definition(option: &ChoiceOption) -> Option<ToolDefinition> {
    let definition = json!({"name": option.name, "description": option.about, "inputSchema": {}});
    ToolDefinition::parse(RawJson::encode(&definition)).ok()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use mcp_workbench_core::catalog::rank::{CONFIDENT_MARGIN, CONFIDENT_SCORE};

    fn option(name: &str, about: &str, score: Option<f32>) -> ChoiceOption {
        let fit = score.map(|score| Relevance { score, rank: score });
        ChoiceOption { name: name.to_owned(), about: about.to_owned(), fit }
    }

    async fn chosen(task: &str, options: &[ChoiceOption]) -> Option<usize> {
        let options = &score_options(task, options.to_vec()).await;
        let request =
            ChoiceRequest { task, level: TreeLevel::Category, path: &[], options, hint: None };
        Ranker.choose(request).await.expect("the ranker never fails")
    }

    #[tokio::test]
    async fn chooses_the_best_match_or_none() {
        let options = [
            option("communication", "Chat and mail (slack, email)", None),
            option("database", "Queries of relational databases (postgres)", None),
        ];
        assert_eq!(chosen("run a query on the database", &options).await, Some(1));
        assert_eq!(chosen("send a chat message", &options).await, Some(0));
        assert_eq!(chosen("xyzzy", &options).await, None);
    }

    #[tokio::test]
    async fn tool_of_all_services_needs_a_clear_lead() {
        let inside = ["pets".to_owned(), "dog".to_owned()];
        for (first, second, level, path, chosen) in [
            (
                CONFIDENT_SCORE,
                Some(CONFIDENT_SCORE - CONFIDENT_MARGIN - 0.01),
                TreeLevel::Tool,
                &[][..],
                Some(0),
            ),
            (CONFIDENT_SCORE, None, TreeLevel::Tool, &[][..], Some(0)),
            (CONFIDENT_SCORE - 0.01, None, TreeLevel::Tool, &[][..], None),
            (0.9, Some(0.9 - CONFIDENT_MARGIN + 0.01), TreeLevel::Tool, &[][..], None),
            (0.9, Some(0.9), TreeLevel::Tool, &inside[..], Some(0)),
            (0.9, Some(0.9), TreeLevel::Category, &[][..], Some(0)),
        ] {
            let options = [option("walk", "", Some(first)), option("feed", "", second)];
            let request =
                ChoiceRequest { task: "walk", level, path, options: &options, hint: None };
            assert_eq!(Ranker.choose(request).await, Ok(chosen), "{first} {second:?} {level}");
        }
    }

    #[test]
    fn top_option_includes_the_runner_up() {
        let fit = |score| Relevance { score, rank: score };
        let options = [0.2, 0.7, 0.5, 0.7].map(|score| option("a", "", Some(score)));
        let expected = TopOption { index: 1, fit: fit(0.7), next: Some(fit(0.7)) };
        assert_eq!(top_option(&options), Some(expected));
        assert_eq!(
            top_option(&options[..1]),
            Some(TopOption { index: 0, fit: fit(0.2), next: None })
        );
        assert_eq!(top_option(&[option("a", "", None)]), None);
    }

    #[tokio::test]
    async fn first_option_wins_a_tie_and_misses_have_no_score() {
        let options =
            [option("a", "", Some(0.5)), option("b", "", Some(0.7)), option("c", "", Some(0.7))];
        let request = ChoiceRequest {
            task: "a",
            level: TreeLevel::Category,
            path: &[],
            options: &options,
            hint: None,
        };
        assert_eq!(Ranker.choose(request).await, Ok(Some(1)));
        let options = vec![option("pay the invoice", "", None), option("feed the cat", "", None)];
        let options = score_options("the cat", options).await;
        assert!(options[0].fit.is_none() && options[1].fit.is_some(), "{options:?}");
    }

    #[tokio::test]
    async fn arguments_are_those_the_agent_gave() {
        let (schema, given) = (RawJson::encode(&json!({})), RawJson::encode(&json!({"a": 1})));
        let request = |given| ArgumentsRequest {
            task: "send b",
            tool: "t",
            description: "",
            schema: &schema,
            given,
            hint: None,
        };
        assert_eq!(Ranker.derive_arguments(request(Some(&given))).await, Ok(given.clone()));
        assert_eq!(Ranker.derive_arguments(request(None)).await, Ok(json::object([])));
    }
}
