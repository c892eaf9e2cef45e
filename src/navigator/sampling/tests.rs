use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tokio_util::task::TaskTracker;

use super::*;
use crate::backend::{Event, Outcome, PoolOptions, Presence, events};
use crate::config::{self, BudgetConfig};
use crate::gateway::{Caller, Gateways};
use crate::navigator::{Choice, Level};

fn gateway() -> Arc<Gateway> {
    let text = r#"{"mcpServers": {"clock": {"command": "clock"}}}"#;
    let loaded = config::parse(text, Path::new("x.json"), Path::new("/"), &BTreeMap::new());
    let tasks = TaskTracker::new();
    let gateways = Gateways::new(Arc::new(loaded.unwrap().config), PoolOptions::default(), &tasks);
    gateways.of(&Caller::NOBODY, None)
}

/// What comes of asking a client for a choice of two whose model says this, or that says no.
async fn choose(says: Option<Value>, budget: &Budget) -> Result<Option<usize>, Unable> {
    let (sender, mut heard) = events::channel(1);
    let (gateway, nobody) = (gateway(), Presence::new(None));
    let origin = Origin { events: Some(&sender), ..Origin::nobody(&nobody) };
    let chooser = SamplingChooser::new(&gateway, origin, budget);
    let options =
        ["a", "b"].map(|name| Choice { name: name.to_owned(), about: String::new(), score: None });
    let question = Question {
        task: "b, please",
        level: Level::Service,
        path: &[],
        options: &options,
        may_be_none: false,
        hint: None,
    };
    let dealing = async {
        let Some(Event::Question(question)) = heard.recv().await else { panic!("no question") };
        match says {
            Some(content) => {
                let answer = json!({"role": "assistant", "model": "m", "content": content});
                question.answer(Outcome::Result(Raw::encode(&answer))).await;
            }
            None => question.decline(-32601, "no"),
        }
    };
    tokio::join!(chooser.choose(question), dealing).0
}

#[tokio::test]
async fn a_clients_model_chooses_as_any_other() {
    let budget = Budget::new(&BudgetConfig::default());
    let text = |text: &str| Some(json!({"type": "text", "text": text}));
    assert_eq!(choose(text(r#"{"choice": "2"}"#), &budget).await, Ok(Some(1)));
    assert!(budget.tokens() < BudgetConfig::default().tokens - 50);
    let nonsense = choose(text("I cannot"), &budget).await;
    assert_eq!(nonsense, Err(Unable::Nonsense("I cannot".to_owned())));
}

#[tokio::test]
async fn a_client_that_lends_no_model_or_answers_nonsense_is_one_that_cannot() {
    let budget = Budget::new(&BudgetConfig::default());
    let cannot = Err(Unable::Client("the client does not lend its model".to_owned()));
    assert_eq!(choose(None, &budget).await, cannot);
    assert_eq!(budget.tokens(), BudgetConfig::default().tokens, "nothing was read");
    let Err(Unable::Client(why)) = choose(Some(json!(7)), &budget).await else { panic!("it can") };
    assert_eq!(why, "what the client answered cannot be used: it has no text");
    let (gateway, nobody) = (gateway(), Presence::new(None));
    let chooser = SamplingChooser::new(&gateway, Origin::nobody(&nobody), &budget);
    assert_eq!(chooser.name(), "sampling");
    let schema = Raw::encode(&json!({}));
    let wanted =
        Wanted { task: "", tool: "t", description: "", schema: &schema, given: None, hint: None };
    assert!(matches!(chooser.arguments(wanted).await, Err(Unable::Client(_))));
}
