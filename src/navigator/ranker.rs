//! The ranker as a chooser: it needs no model, says the same each time, and guesses nothing.

use std::cmp::Ordering;

use serde_json::json;
use tokio::task::spawn_blocking;

use crate::catalog::rank::{Entry, Index, Method};
use crate::catalog::{Definition, ToolDefinition};
use crate::navigator::{Choice, Chooser, Choosing, Level, Question, Wanted};
use crate::raw::{self, Raw};

/// How well a tool must fit to be chosen among those of all services. Of what scores less, few are
/// right: `tests/eval/README.md` has what that keeps out, and what it loses.
const SURE: f32 = 0.3;

/// Chooses the option whose words are nearest to the task's, as [`rank`] has found, and none if no
/// one is near. Of arguments it knows what the agent has given.
#[derive(Debug)]
pub(crate) struct Ranker;

impl Chooser for Ranker {
    fn name(&self) -> &'static str {
        "ranker"
    }

    fn choose<'a>(&'a self, question: Question<'a>) -> Choosing<'a, Option<usize>> {
        let is_of_all = question.level == Level::Tool && question.path.is_empty();
        let best = best(question.options).filter(|(_, score)| !is_of_all || *score >= SURE);
        Box::pin(std::future::ready(Ok(best.map(|(place, _)| place))))
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

/// The best of those options that are near, and its score.
fn best(options: &[Choice]) -> Option<(usize, f32)> {
    let scores = options.iter().enumerate();
    let scores = scores.filter_map(|(place, option)| Some((place, option.score?)));
    // Of equals the first.
    let order = |a: &(usize, f32), b: &(usize, f32)| match a.1.total_cmp(&b.1) {
        Ordering::Equal => b.0.cmp(&a.0),
        other => other,
    };
    scores.max_by(order)
}

/// Says of options how near they are to a task; nothing of those that are not. An index of them is
/// made for that, on a thread of its own.
pub(crate) async fn rank(task: &str, options: Vec<Choice>) -> Vec<Choice> {
    let (task, mut ranked) = (task.to_owned(), options.clone());
    let ranking = spawn_blocking(move || {
        for (place, score) in scores(&task, &ranked) {
            ranked[place].score = Some(score);
        }
        ranked
    });
    // Where it is lost, the runtime ends or it panicked; nothing is known of them then.
    ranking.await.unwrap_or(options)
}

/// The options that are near to a task, the nearest first.
fn scores(task: &str, options: &[Choice]) -> Vec<(usize, f32)> {
    let definitions: Vec<_> = options.iter().map(definition).collect();
    let places: Vec<_> = (0..options.len()).filter(|at| definitions[*at].is_some()).collect();
    let entries = definitions.iter().flatten().map(|tool| Entry { server: "", about: "", tool });
    let hits = Index::new(entries, Method::Mixed).search(task, options.len(), |_| true);
    hits.iter().filter_map(|hit| Some((*places.get(hit.place)?, hit.score))).collect()
}

fn definition(option: &Choice) -> Option<ToolDefinition> {
    let definition = json!({"name": option.name, "description": option.about, "inputSchema": {}});
    ToolDefinition::parse(Raw::encode(&definition)).ok()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn option(name: &str, about: &str, score: Option<f32>) -> Choice {
        Choice { name: name.to_owned(), about: about.to_owned(), score }
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
    async fn a_tool_among_all_is_chosen_where_it_is_sure() {
        for (score, level, path, chosen) in [
            (SURE, Level::Tool, &[][..], Some(0)),
            (SURE - 0.01, Level::Tool, &[][..], None),
            (SURE - 0.01, Level::Tool, &["pets".to_owned(), "dog".to_owned()][..], Some(0)),
            (SURE - 0.01, Level::Category, &[][..], Some(0)),
        ] {
            let options = [option("walk", "", Some(score)), option("feed", "", Some(score / 2.0))];
            let question = Question { task: "walk", level, path, options: &options, hint: None };
            assert_eq!(Ranker.choose(question).await, Ok(chosen), "{score} {level}");
        }
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
        assert!(options[0].score.is_none() && options[1].score.is_some(), "{options:?}");
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
