use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;
use crate::backend::AgentEvent;

fn result(value: &Value) -> RpcOutcome {
    RpcOutcome::Result(RawJson::encode(value))
}

fn required() -> InputRequired {
    let asks = RawJson::encode(&json!({
        "resultType": "input_required",
        "inputRequests": {
            "who": {"method": "elicitation/create", "params": {"message": "Who?"}},
            "where": {"method": "roots/list"},
        },
        "requestState": "s\u{e9}",
    }));
    InputRequired::parse(&asks).expect("it asks")
}

#[test]
fn only_input_required_results_are_parsed() {
    for other in [
        json!({"content": [{"type": "text", "text": "input_required"}]}),
        json!({"resultType": "complete", "inputRequests": {}, "status": "input_required"}),
        json!({"resultType": "input_required_later"}),
        json!("input_required"),
    ] {
        assert!(InputRequired::parse(&RawJson::encode(&other)).is_none(), "{other}");
    }
}

#[tokio::test]
async fn answers_are_returned_under_their_request_keys() {
    let (sender, mut events) = events::channel(1);
    let answering = async {
        let mut asked = Vec::new();
        while let Some(AgentEvent::Request(request)) = events.recv().await {
            asked.push((request.method.clone(), request.params.clone()));
            request.answer(result(&json!({"n": asked.len()}))).await;
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
            ("elicitation/create".to_owned(), Some(RawJson::encode(&json!({"message": "Who?"})))),
            ("roots/list".to_owned(), None),
        ]
    );
    let added = added.expect("answers");
    assert_eq!(
        added,
        [
            (
                "inputResponses".into(),
                RawJson::encode(&json!({"who": {"n": 1}, "where": {"n": 2}}))
            ),
            ("requestState".into(), RawJson::encode(&"s\u{e9}")),
        ]
    );
}

#[tokio::test]
async fn unanswerable_input_request_fails_the_call() {
    let message = |answer: Result<Vec<Member>, RpcOutcome>| match answer {
        Err(RpcOutcome::Error(error)) => error.as_str().into_owned(),
        other => panic!("{other:?}"),
    };
    assert!(message(required().resolve(None).await).contains("needs input"));

    let (sender, mut events) = events::channel(1);
    let declining = async {
        if let Some(AgentEvent::Request(request)) = events.recv().await {
            request.decline(-32601, "not me");
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
async fn request_state_alone_is_returned_unchanged() {
    let asks = RawJson::encode(&json!({"resultType": "input_required", "requestState": 1.5}));
    let required = InputRequired::parse(&asks).expect("it asks");
    let added = required.resolve(None).await.expect("a state");
    assert_eq!(added, [("requestState".into(), RawJson::encode(&1.5))]);
}
