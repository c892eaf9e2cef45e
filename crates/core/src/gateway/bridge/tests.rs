use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;
use crate::backend::Event;

fn result(value: &Value) -> Outcome {
    Outcome::Result(Raw::encode(value))
}

fn required() -> InputRequired {
    let asks = Raw::encode(&json!({
        "resultType": "input_required",
        "inputRequests": {
            "who": {"method": "elicitation/create", "params": {"message": "Who?"}},
            "where": {"method": "roots/list"},
        },
        "requestState": "s\u{e9}",
    }));
    InputRequired::read(&asks).expect("it asks")
}

#[test]
fn only_a_result_that_says_so_asks() {
    for other in [
        json!({"content": [{"type": "text", "text": "input_required"}]}),
        json!({"resultType": "complete", "inputRequests": {}, "status": "input_required"}),
        json!({"resultType": "input_required_later"}),
        json!("input_required"),
    ] {
        assert!(InputRequired::read(&Raw::encode(&other)).is_none(), "{other}");
    }
}

#[tokio::test]
async fn the_answers_go_back_under_the_keys_of_the_questions() {
    let (sender, mut events) = events::channel(1);
    let answering = async {
        let mut asked = Vec::new();
        while let Some(Event::Question(question)) = events.recv().await {
            asked.push((question.method.clone(), question.params.clone()));
            question.answer(result(&json!({"n": asked.len()}))).await;
        }
        asked
    };
    let resolving = async {
        let added = required().resolve(Some(&sender)).await;
        drop(sender);
        added
    };
    let (asked, added) = tokio::join!(answering, resolving);
    assert_eq!(
        asked,
        [
            ("elicitation/create".to_owned(), Some(Raw::encode(&json!({"message": "Who?"})))),
            ("roots/list".to_owned(), None),
        ]
    );
    let added = added.expect("answers");
    assert_eq!(
        added,
        [
            ("inputResponses".into(), Raw::encode(&json!({"who": {"n": 1}, "where": {"n": 2}}))),
            ("requestState".into(), Raw::encode(&"s\u{e9}")),
        ]
    );
}

#[tokio::test]
async fn what_the_agent_cannot_answer_ends_the_request() {
    let message = |answer: Result<Vec<Member>, Outcome>| match answer {
        Err(Outcome::Error(error)) => error.as_str().into_owned(),
        other => panic!("{other:?}"),
    };
    assert!(message(required().resolve(None).await).contains("nobody can answer"));

    let (sender, mut events) = events::channel(1);
    let declining = async {
        if let Some(Event::Question(question)) = events.recv().await {
            question.decline(-32601, "not me");
        }
    };
    let (answer, ()) = tokio::join!(required().resolve(Some(&sender)), declining);
    assert_eq!(message(answer), r#"{"code":-32601,"message":"not me"}"#);

    let dropping = async { drop(events.recv().await) };
    let (answer, ()) = tokio::join!(required().resolve(Some(&sender)), dropping);
    assert!(message(answer).contains("did not answer"));
    drop(events);
    assert!(message(required().resolve(Some(&sender)).await).contains("did not answer"));
}

#[tokio::test]
async fn a_state_alone_is_brought_back_as_it_is() {
    let asks = Raw::encode(&json!({"resultType": "input_required", "requestState": 1.5}));
    let required = InputRequired::read(&asks).expect("it asks");
    let added = required.resolve(None).await.expect("a state");
    assert_eq!(added, [("requestState".into(), Raw::encode(&1.5))]);
}
