use std::time::Duration;

use pretty_assertions::assert_eq;
use url::Url;

use super::*;
use crate::config::LlmConfig;
use crate::llm::scripted::{Scripted, says};

/// An endpoint that answers so.
async fn endpoint(
    script: impl Fn(&Value) -> (u16, String) + Send + Sync + 'static,
) -> (Endpoint, Scripted) {
    let scripted = Scripted::start(script).await;
    let config = LlmConfig {
        base_url: Url::parse(&scripted.base_url).unwrap(),
        model: "small".to_owned(),
        api_key: None,
        timeout: Duration::from_secs(20),
        reasoning_effort: Some("low".to_owned()),
    };
    (Endpoint::new(&config).unwrap(), scripted)
}

fn prompt(form: Form) -> Prompt {
    Prompt {
        system: "You choose.".to_owned(),
        user: "Which?".to_owned(),
        form,
        max_tokens: 10,
        purpose: "tool",
    }
}

async fn ask(endpoint: &Endpoint, prompt: &Prompt) -> (Result<Said, Failure>, Cost) {
    let mut cost = Cost::default();
    let until = Instant::now() + Duration::from_secs(30);
    (endpoint.ask(prompt, until, &mut cost).await, cost)
}

#[tokio::test]
async fn a_request_is_one_turn_with_the_form_of_its_answer() {
    let (endpoint, asked) = endpoint(|_| says("{}")).await;
    let choice = prompt(Form::Choice(vec!["1".to_owned(), "none".to_owned()]));
    let (said, cost) = ask(&endpoint, &choice).await;
    let usage = Usage { read: 7, written: 2 };
    assert_eq!(said, Ok(Said { text: "{}".to_owned(), usage }));
    assert_eq!(cost, Cost { usage, requests: 1 });
    ask(&endpoint, &prompt(Form::Object)).await.0.unwrap();
    let asked = asked.asked();
    assert_eq!(
        asked[0],
        json!({
            "model": "small",
            "messages": [
                {"role": "system", "content": "You choose."},
                {"role": "user", "content": "Which?"},
            ],
            "max_completion_tokens": 1000,
            "response_format": {"type": "json_schema", "json_schema": {
                "name": "choice",
                "strict": true,
                "schema": {
                    "type": "object",
                    "properties": {"choice": {"type": "string", "enum": ["1", "none"]}},
                    "required": ["choice"],
                    "additionalProperties": false,
                },
            }},
            "reasoning_effort": "low",
            "temperature": 0,
        })
    );
    assert_eq!(asked[1]["response_format"], json!({"type": "json_object"}));
}

#[tokio::test]
async fn an_endpoint_that_refuses_a_part_is_asked_in_a_simpler_form_from_then_on() {
    for (refused, status, taken) in [
        ("temperature", 400, Some("response_format")),
        ("response_format", 400, Some("max_tokens")),
        ("max_completion_tokens", 422, Some("max_tokens")),
        ("model", 400, None),
    ] {
        let script = move |asked: &Value| {
            if asked.get(refused).is_some() { (status, "no".to_owned()) } else { says("x") }
        };
        let (endpoint, asked) = endpoint(script).await;
        let (said, cost) = ask(&endpoint, &prompt(Form::Object)).await;
        let Some(taken) = taken else {
            assert_eq!(said, Err(Failure::Status(status)));
            assert_eq!(cost, Cost { usage: Usage::default(), requests: 3 });
            continue;
        };
        assert_eq!(said.unwrap().text, "x", "{refused}");
        let before = asked.asked().len();
        assert_eq!(cost.requests as usize, before);
        assert_eq!(cost.usage, Usage { read: 7, written: 2 });
        ask(&endpoint, &prompt(Form::Object)).await.0.unwrap();
        let asked = asked.asked();
        assert_eq!(asked.len(), before + 1, "it is remembered");
        let last = &asked[before];
        assert!(last.get(refused).is_none() && last.get(taken).is_some(), "{last}");
    }
}

#[tokio::test]
async fn what_is_not_said_of_tokens_is_guessed() {
    let script = |_: &Value| {
        (200, json!({"choices": [{"text": "", "message": {"content": "12345"}}]}).to_string())
    };
    let (endpoint, _) = endpoint(script).await;
    let (said, cost) = ask(&endpoint, &prompt(Form::Object)).await;
    assert_eq!((said.unwrap().usage, cost.usage.written), (Usage { read: 5, written: 2 }, 2));
}

#[tokio::test]
async fn rubbish_is_a_failure_and_costs_what_was_asked() {
    for (status, body) in [
        (200, "<!doctype html><title>Sign in</title>"),
        (200, ""),
        (200, "{\"choices\": ["),
        (200, "{\"choices\": [{\"finish_reason\": \"length\", \"message\": {\"content\": null}}]}"),
    ] {
        let (endpoint, _) = endpoint(move |_| (status, body.to_owned())).await;
        let (said, cost) = ask(&endpoint, &prompt(Form::Object)).await;
        assert!(matches!(said, Err(Failure::Unusable(_) | Failure::Html)), "{body}: {said:?}");
        assert_eq!(cost, Cost { usage: Usage { read: 5, written: 0 }, requests: 1 });
    }
    let (endpoint, _) = endpoint(|_| (401, "no".to_owned())).await;
    assert!(ask(&endpoint, &prompt(Form::Object)).await.0.is_err());
}
