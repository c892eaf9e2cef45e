use parking_lot::Mutex;
use pretty_assertions::assert_eq;

use super::*;
use crate::llm::dialect_cache::REMEMBERED;
use crate::llm::fake_endpoint::{
    FakeEndpoint, Reply, chat_answer, chat_answer_ending, http_response,
};
use crate::llm::tests::amply;

/// An endpoint with this script and a low reasoning effort.
async fn endpoint(
    script: impl Fn(&Value) -> Reply + Send + Sync + 'static,
) -> (Endpoint, FakeEndpoint) {
    let mut scripted = FakeEndpoint::start(move |_, asked| script(asked)).await;
    scripted.config.reasoning_effort = Some("low".to_owned());
    (scripted.endpoint(), scripted)
}

fn prompt(form: ResponseFormat) -> ChatPrompt {
    ChatPrompt {
        system: "You choose.".to_owned(),
        user: "Which?".to_owned(),
        response_format: form,
        max_tokens: 10,
        purpose: "tool",
    }
}

async fn ask(
    endpoint: &Endpoint,
    prompt: &ChatPrompt,
) -> (Result<ChatAnswer, LlmError>, RequestCost) {
    let mut cost = RequestCost::default();
    (endpoint.chat(prompt, amply(), &mut cost).await, cost)
}

#[tokio::test]
async fn sends_one_turn_with_a_response_format() {
    let (endpoint, asked) = endpoint(|_| chat_answer("{}")).await;
    let choice = prompt(ResponseFormat::Choice(vec!["1".to_owned(), "none".to_owned()]));
    let (answer, cost) = ask(&endpoint, &choice).await;
    let usage = TokenUsage { input_tokens: 7, output_tokens: 2 };
    assert_eq!(answer, Ok(ChatAnswer { text: "{}".to_owned(), is_truncated: false, usage }));
    assert_eq!(cost, RequestCost { usage, requests: 1 });
    ask(&endpoint, &prompt(ResponseFormat::Object)).await.0.unwrap();
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
        if asked.get(refused).is_some() {
            http_response(status, "", "no")
        } else {
            chat_answer("x")
        }
    }
}

#[tokio::test]
async fn falls_back_to_and_remembers_an_accepted_dialect() {
    for (refused, status, taken, requests) in [
        ("nothing", 400, Some(&FULL[..]), 1),
        // Mistral; Ollama ignores it.
        ("max_completion_tokens", 422, Some(&FULL), 1),
        // Reasoning models.
        ("max_tokens", 400, Some(&REASONING), 2),
        ("temperature", 400, Some(&REASONING), 2),
        ("response_format", 400, Some(&PLAIN), 3),
        ("reasoning_effort", 422, Some(&PLAIN), 3),
        ("model", 400, None, 3),
    ] {
        let (endpoint, asked) = endpoint(refusing(refused, status)).await;
        let (answer, cost) = ask(&endpoint, &prompt(ResponseFormat::Object)).await;
        assert_eq!((cost.requests, asked.asked().len()), (requests, requests as usize));
        let Some(taken) = taken else {
            assert_eq!(answer, Err(LlmError::Status(status)));
            assert_eq!(cost.usage, TokenUsage::default());
            continue;
        };
        assert_eq!(answer.unwrap().text, "x", "{refused}");
        assert_eq!(cost.usage, TokenUsage { input_tokens: 7, output_tokens: 2 });
        ask(&endpoint, &prompt(ResponseFormat::Object)).await.0.unwrap();
        let asked = asked.bodies();
        assert_eq!(asked.len(), requests as usize + 1, "the dialect is cached");
        assert_eq!(optional(&asked[requests as usize]), taken, "{refused}");
    }
}

#[tokio::test]
async fn forgets_the_fallback_dialect_after_its_ttl() {
    let refuses = Mutex::new(1);
    let script = move |_: &Value| {
        let mut left = refuses.lock();
        *left -= 1;
        if *left >= 0 { http_response(400, "", "the weather") } else { chat_answer("x") }
    };
    let (endpoint, asked) = endpoint(script).await;
    for _ in 0..2 {
        ask(&endpoint, &prompt(ResponseFormat::Object)).await.0.unwrap();
    }
    tokio::time::pause();
    tokio::time::advance(REMEMBERED).await;
    tokio::time::resume();
    for _ in 0..2 {
        ask(&endpoint, &prompt(ResponseFormat::Object)).await.0.unwrap();
    }
    let asked = asked.bodies();
    let forms: Vec<_> = asked.iter().map(optional).collect();
    assert_eq!(forms, [&FULL[..], &REASONING, &REASONING, &FULL, &FULL]);
}

#[tokio::test]
async fn never_exceeds_the_request_limit() {
    for requests in [1, 2] {
        let (endpoint, asked) = endpoint(refusing("response_format", 400)).await;
        let (mut cost, within) = (RequestCost::default(), RequestLimits { requests, ..amply() });
        let answer = endpoint.chat(&prompt(ResponseFormat::Object), within, &mut cost).await;
        assert_eq!(answer, Err(LlmError::Status(400)));
        assert_eq!((cost.requests, asked.asked().len()), (requests, requests as usize));
    }
    let busy = |asked: &Value| match asked.get("temperature") {
        Some(_) => http_response(400, "", ""),
        None => http_response(429, "retry-after: 0\r\n", ""),
    };
    let (endpoint, asked) = endpoint(busy).await;
    let (mut cost, within) = (RequestCost::default(), RequestLimits { requests: 3, ..amply() });
    assert!(endpoint.chat(&prompt(ResponseFormat::Object), within, &mut cost).await.is_err());
    assert_eq!((cost.requests, asked.asked().len()), (3, 3));
}

#[tokio::test]
async fn marks_truncated_answers() {
    for (why, is_cut) in [("length", true), ("model_length", true), ("stop", false)] {
        let (endpoint, _) = endpoint(move |_| chat_answer_ending("{\"a\": {}", why)).await;
        let answer = ask(&endpoint, &prompt(ResponseFormat::Object)).await.0.unwrap();
        assert_eq!(answer.is_truncated, is_cut, "{why}");
    }
}

#[tokio::test]
async fn estimates_unreported_tokens() {
    let script = |_: &Value| {
        let said = json!({"choices": [{"text": "", "message": {"content": "12345"}}]});
        http_response(200, "", &said.to_string())
    };
    let (endpoint, _) = endpoint(script).await;
    let (answer, cost) = ask(&endpoint, &prompt(ResponseFormat::Object)).await;
    assert_eq!(
        (answer.unwrap().usage, cost.usage.output_tokens),
        (TokenUsage { input_tokens: 5, output_tokens: 2 }, 2)
    );
}

#[tokio::test]
async fn unusable_responses_cost_the_input_tokens() {
    for (status, body) in [
        (200, "<!doctype html><title>Sign in</title>"),
        (200, ""),
        (200, "{\"choices\": ["),
        (200, "{\"choices\": [{\"finish_reason\": \"length\", \"message\": {\"content\": null}}]}"),
    ] {
        let (endpoint, _) = endpoint(move |_| http_response(status, "", body)).await;
        let (answer, cost) = ask(&endpoint, &prompt(ResponseFormat::Object)).await;
        assert!(
            matches!(answer, Err(LlmError::Unusable(_) | LlmError::Html)),
            "{body}: {answer:?}"
        );
        assert_eq!(
            cost,
            RequestCost { usage: TokenUsage { input_tokens: 5, output_tokens: 0 }, requests: 1 }
        );
    }
    let (endpoint, _) = endpoint(|_| http_response(401, "", "no")).await;
    assert!(ask(&endpoint, &prompt(ResponseFormat::Object)).await.0.is_err());
}
