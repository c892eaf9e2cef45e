use std::sync::Mutex;

use pretty_assertions::assert_eq;

use super::*;
use crate::llm::scripted::{Reply, Scripted, answer, ends, says};
use crate::llm::taken::REMEMBERED;
use crate::llm::tests::amply;

/// An endpoint that answers so, and wants little thought.
async fn endpoint(
    script: impl Fn(&Value) -> Reply + Send + Sync + 'static,
) -> (Endpoint, Scripted) {
    let mut scripted = Scripted::start(move |_, asked| script(asked)).await;
    scripted.config.reasoning_effort = Some("low".to_owned());
    (scripted.endpoint(), scripted)
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
    (endpoint.ask(prompt, amply(), &mut cost).await, cost)
}

#[tokio::test]
async fn a_request_is_one_turn_with_the_form_of_its_answer() {
    let (endpoint, asked) = endpoint(|_| says("{}")).await;
    let choice = prompt(Form::Choice(vec!["1".to_owned(), "none".to_owned()]));
    let (said, cost) = ask(&endpoint, &choice).await;
    let usage = Usage { read: 7, written: 2 };
    assert_eq!(said, Ok(Said { text: "{}".to_owned(), is_cut: false, usage }));
    assert_eq!(cost, Cost { usage, requests: 1 });
    ask(&endpoint, &prompt(Form::Object)).await.0.unwrap();
    let asked = asked.bodies();
    assert_eq!(
        asked[0],
        json!({
            "model": "m-1",
            "messages": [
                {"role": "system", "content": "You choose."},
                {"role": "user", "content": "Which?"},
            ],
            "max_tokens": 10,
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

/// The members of a request that not every one has.
fn optional(asked: &Value) -> Vec<&str> {
    let members = asked.as_object().unwrap().keys().map(String::as_str);
    let mut optional: Vec<_> = members.filter(|key| !["model", "messages"].contains(key)).collect();
    optional.sort_unstable();
    optional
}

const FULL: [&str; 4] = ["max_tokens", "reasoning_effort", "response_format", "temperature"];
const REASONING: [&str; 3] = ["max_completion_tokens", "reasoning_effort", "response_format"];
const PLAIN: [&str; 2] = ["max_tokens", "temperature"];

fn refusing(refused: &'static str, status: u16) -> impl Fn(&Value) -> Reply {
    move |asked| {
        if asked.get(refused).is_some() { answer(status, "", "no") } else { says("x") }
    }
}

#[tokio::test]
async fn an_endpoint_that_refuses_a_part_is_asked_in_another_form_from_then_on() {
    for (refused, status, taken, requests) in [
        ("nothing", 400, Some(&FULL[..]), 1),
        // Mistral; Ollama ignores it.
        ("max_completion_tokens", 422, Some(&FULL), 1),
        // Models that reason.
        ("max_tokens", 400, Some(&REASONING), 2),
        ("temperature", 400, Some(&REASONING), 2),
        ("response_format", 400, Some(&PLAIN), 3),
        ("reasoning_effort", 422, Some(&PLAIN), 3),
        ("model", 400, None, 3),
    ] {
        let (endpoint, asked) = endpoint(refusing(refused, status)).await;
        let (said, cost) = ask(&endpoint, &prompt(Form::Object)).await;
        assert_eq!((cost.requests, asked.asked().len()), (requests, requests as usize));
        let Some(taken) = taken else {
            assert_eq!(said, Err(Failure::Status(status)));
            assert_eq!(cost.usage, Usage::default());
            continue;
        };
        assert_eq!(said.unwrap().text, "x", "{refused}");
        assert_eq!(cost.usage, Usage { read: 7, written: 2 });
        ask(&endpoint, &prompt(Form::Object)).await.0.unwrap();
        let asked = asked.bodies();
        assert_eq!(asked.len(), requests as usize + 1, "it is remembered");
        assert_eq!(optional(&asked[requests as usize]), taken, "{refused}");
    }
}

#[tokio::test]
async fn what_was_refused_once_is_tried_again_after_a_while() {
    let refuses = Mutex::new(1);
    let script = move |_: &Value| {
        let mut left = refuses.lock().unwrap();
        *left -= 1;
        if *left >= 0 { answer(400, "", "the weather") } else { says("x") }
    };
    let (endpoint, asked) = endpoint(script).await;
    for _ in 0..2 {
        ask(&endpoint, &prompt(Form::Object)).await.0.unwrap();
    }
    tokio::time::pause();
    tokio::time::advance(REMEMBERED).await;
    tokio::time::resume();
    for _ in 0..2 {
        ask(&endpoint, &prompt(Form::Object)).await.0.unwrap();
    }
    let asked = asked.bodies();
    let forms: Vec<_> = asked.iter().map(optional).collect();
    assert_eq!(forms, [&FULL[..], &REASONING, &REASONING, &FULL, &FULL]);
}

#[tokio::test]
async fn no_more_requests_are_made_than_there_may_be() {
    for requests in [1, 2] {
        let (endpoint, asked) = endpoint(refusing("response_format", 400)).await;
        let (mut cost, within) = (Cost::default(), Within { requests, ..amply() });
        let said = endpoint.ask(&prompt(Form::Object), within, &mut cost).await;
        assert_eq!(said, Err(Failure::Status(400)));
        assert_eq!((cost.requests, asked.asked().len()), (requests, requests as usize));
    }
    let busy = |asked: &Value| match asked.get("temperature") {
        Some(_) => answer(400, "", ""),
        None => answer(429, "retry-after: 0\r\n", ""),
    };
    let (endpoint, asked) = endpoint(busy).await;
    let (mut cost, within) = (Cost::default(), Within { requests: 3, ..amply() });
    assert!(endpoint.ask(&prompt(Form::Object), within, &mut cost).await.is_err());
    assert_eq!((cost.requests, asked.asked().len()), (3, 3));
}

#[tokio::test]
async fn an_answer_that_was_cut_is_told_from_a_whole_one() {
    for (why, is_cut) in [("length", true), ("model_length", true), ("stop", false)] {
        let (endpoint, _) = endpoint(move |_| ends("{\"a\": {}", why)).await;
        let said = ask(&endpoint, &prompt(Form::Object)).await.0.unwrap();
        assert_eq!(said.is_cut, is_cut, "{why}");
    }
}

#[tokio::test]
async fn what_is_not_said_of_tokens_is_guessed() {
    let script = |_: &Value| {
        let said = json!({"choices": [{"text": "", "message": {"content": "12345"}}]});
        answer(200, "", &said.to_string())
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
        let (endpoint, _) = endpoint(move |_| answer(status, "", body)).await;
        let (said, cost) = ask(&endpoint, &prompt(Form::Object)).await;
        assert!(matches!(said, Err(Failure::Unusable(_) | Failure::Html)), "{body}: {said:?}");
        assert_eq!(cost, Cost { usage: Usage { read: 5, written: 0 }, requests: 1 });
    }
    let (endpoint, _) = endpoint(|_| answer(401, "", "no")).await;
    assert!(ask(&endpoint, &prompt(Form::Object)).await.0.is_err());
}
