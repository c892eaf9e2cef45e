//! The ranker as a chooser: it needs no model, says the same each time, and guesses nothing.

use serde_json::json;
use tokio::task::spawn_blocking;

use crate::catalog::rank::{Entry, Fit, Index, Method};
use crate::catalog::{Definition, ToolDefinition};
use crate::navigator::{Choice, Chooser, Choosing, Level, Question, Wanted};
use crate::raw::{self, Raw};

/// The word for the ranker as a chooser.
pub(crate) const RANKER: &str = "ranker";

/// Chooses the option whose words are nearest to the task's, as [`rank`] has found, and none if no
/// one is near; among the tools of all services only one that is clearly ahead of the others, since
/// it is called then. Of arguments it knows what the agent has given.
#[derive(Debug)]
pub(crate) struct Ranker;

impl Chooser for Ranker {
    fn name(&self) -> &'static str {
        RANKER
    }

    fn choose<'a>(&'a self, question: Question<'a>) -> Choosing<'a, Option<usize>> {
        let is_of_all = question.level == Level::Tool && question.path.is_empty();
        let best = best(question.options);
        let best = best.filter(|best| !is_of_all || best.fit.is_clear(best.next));
        Box::pin(std::future::ready(Ok(best.map(|best| best.place))))
    }

    fn is_helped_by_others(&self) -> bool {
        // The first are the best, and what is said of a service says less than its tools do.
        false
    }

    fn arguments<'a>(&'a self, wanted: Wanted<'a>) -> Choosing<'a, Raw> {
        let given = wanted.given.cloned().unwrap_or_else(|| raw::object([]));
        Box::pin(std::future::ready(Ok(given)))
    }
}

/// The best of some options.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Best {
    /// Its place among them.
    pub(crate) place: usize,
    /// How well it fits.
    pub(crate) fit: Fit,
    /// How well the next one fits, if there is one that does.
    pub(crate) next: Option<Fit>,
}

/// Finds the best of those options that are near; of equals the first.
pub(crate) fn best(options: &[Choice]) -> Option<Best> {
    let mut best: Option<Best> = None;
    for (place, option) in options.iter().enumerate() {
        let Some(fit) = option.fit else { continue };
        best = match best {
            Some(best) if fit.rank <= best.fit.rank => {
                let is_next = best.next.is_none_or(|next| fit.rank > next.rank);
                Some(Best { next: if is_next { Some(fit) } else { best.next }, ..best })
            }
            other => Some(Best { place, fit, next: other.map(|other| other.fit) }),
        };
    }
    best
}

/// Says of options how near they are to a task; nothing of those that are not. An index of them is
/// made for that, on a thread of its own.
pub(crate) async fn rank(task: &str, options: Vec<Choice>) -> Vec<Choice> {
    let (task, mut ranked) = (task.to_owned(), options.clone());
    let ranking = spawn_blocking(move || {
        for (place, fit) in fits(&task, &ranked) {
            ranked[place].fit = Some(fit);
        }
        ranked
    });
    // Where it is lost, the runtime ends or it panicked; nothing is known of them then.
    ranking.await.unwrap_or(options)
}

/// The options that are near to a task, the nearest first.
fn fits(task: &str, options: &[Choice]) -> Vec<(usize, Fit)> {
    let definitions: Vec<_> = options.iter().map(definition).collect();
    let places: Vec<_> = (0..options.len()).filter(|at| definitions[*at].is_some()).collect();
    let entries = definitions.iter().flatten().map(|tool| Entry { server: "", about: "", tool });
    let hits = Index::new(entries, Method::Mixed).search(task, options.len(), |_| true);
    hits.iter().filter_map(|hit| Some((*places.get(hit.place)?, hit.fit()))).collect()
}

fn definition(option: &Choice) -> Option<ToolDefinition> {
    let definition = json!({"name": option.name, "description": option.about, "inputSchema": {}});
    ToolDefinition::parse(Raw::encode(&definition)).ok()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::catalog::rank::{LEAD, SURE};

    fn option(name: &str, about: &str, score: Option<f32>) -> Choice {
        let fit = score.map(|score| Fit { score, rank: score });
        Choice { name: name.to_owned(), about: about.to_owned(), fit }
    }

    async fn chosen(task: &str, options: &[Choice]) -> Option<usize> {
        let options = &rank(task, options.to_vec()).await;
        let question = Question { task, level: Level::Category, path: &[], options, hint: None };
        Ranker.choose(question).await.expect("it always knows")
    }

    #[tokio::test]
    async fn the_nearest_option_is_chosen_and_none_if_no_one_is_near() {
        let options = [
            option("communication", "Chat and mail (slack, email)", None),
            option("database", "Queries of relational databases (postgres)", None),
        ];
        assert_eq!(chosen("run a query on the database", &options).await, Some(1));
        assert_eq!(chosen("send a chat message", &options).await, Some(0));
        assert_eq!(chosen("xyzzy", &options).await, None);
    }

    #[tokio::test]
    async fn a_tool_among_all_is_chosen_where_it_is_clearly_ahead() {
        let inside = ["pets".to_owned(), "dog".to_owned()];
        for (first, second, level, path, chosen) in [
            (SURE, Some(SURE - LEAD - 0.01), Level::Tool, &[][..], Some(0)),
            (SURE, None, Level::Tool, &[][..], Some(0)),
            (SURE - 0.01, None, Level::Tool, &[][..], None),
            (0.9, Some(0.9 - LEAD + 0.01), Level::Tool, &[][..], None),
            (0.9, Some(0.9), Level::Tool, &inside[..], Some(0)),
            (0.9, Some(0.9), Level::Category, &[][..], Some(0)),
        ] {
            let options = [option("walk", "", Some(first)), option("feed", "", second)];
            let question = Question { task: "walk", level, path, options: &options, hint: None };
            assert_eq!(Ranker.choose(question).await, Ok(chosen), "{first} {second:?} {level}");
        }
    }

    #[test]
    fn the_best_option_is_told_with_the_next_one() {
        let fit = |score| Fit { score, rank: score };
        let options = [0.2, 0.7, 0.5, 0.7].map(|score| option("a", "", Some(score)));
        let expected = Best { place: 1, fit: fit(0.7), next: Some(fit(0.7)) };
        assert_eq!(best(&options), Some(expected));
        assert_eq!(best(&options[..1]), Some(Best { place: 0, fit: fit(0.2), next: None }));
        assert_eq!(best(&[option("a", "", None)]), None);
    }

    #[tokio::test]
    async fn of_equals_the_first_is_chosen_and_what_is_not_near_has_no_score() {
        let options =
            [option("a", "", Some(0.5)), option("b", "", Some(0.7)), option("c", "", Some(0.7))];
        let question = Question {
            task: "a",
            level: Level::Category,
            path: &[],
            options: &options,
            hint: None,
        };
        assert_eq!(Ranker.choose(question).await, Ok(Some(1)));
        let options = vec![option("pay the invoice", "", None), option("feed the cat", "", None)];
        let options = rank("the cat", options).await;
        assert!(options[0].fit.is_none() && options[1].fit.is_some(), "{options:?}");
    }

    #[tokio::test]
    async fn of_arguments_it_knows_what_was_given() {
        let (schema, given) = (Raw::encode(&json!({})), Raw::encode(&json!({"a": 1})));
        let wanted = |given| Wanted {
            task: "send b",
            tool: "t",
            description: "",
            schema: &schema,
            given,
            hint: None,
        };
        assert_eq!(Ranker.arguments(wanted(Some(&given))).await, Ok(given.clone()));
        assert_eq!(Ranker.arguments(wanted(None)).await, Ok(raw::object([])));
    }
}
