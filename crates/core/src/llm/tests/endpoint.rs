//! Requests end in time and with an accurate error, however an endpoint behaves.

use chrono::Utc;
use parking_lot::Mutex;
use pretty_assertions::assert_eq;
use serde_json::json;
use tokio::net::TcpListener;

use super::*;
use mcp_workbench_wire::json::RawJson;

const HEAD: &str = "HTTP/1.1 200 X\r\ncontent-type: application/json\r\n";
const HTML: &str = "content-type: text/html; charset=utf-8\r\n";

/// Posts a request to a fake endpoint. Returns the outcome and the number of attempts it saw.
async fn posted(script: impl Fn(usize) -> Reply + Send + Sync + 'static) -> (PostOutcome, usize) {
    let server = FakeEndpoint::start(move |asked, _| script(asked)).await;
    let body = RawJson::encode(&json!({"a": 1}));
    let posted = server.endpoint().post_with_retries("x", &body, 1000, amply()).await;
    (posted, server.asked().len())
}

async fn failure(script: impl Fn(usize) -> Reply + Send + Sync + 'static) -> LlmError {
    let (posted, asked) = posted(script).await;
    assert_eq!((posted.attempts, asked), (1, 1));
    posted.answer.unwrap_err()
}

#[tokio::test]
async fn posts_an_object_and_returns_one() {
    let server = FakeEndpoint::start(|_, _| http_response(200, "", "\n {\"b\": 1.0} ")).await;
    let body = RawJson::encode(&json!({"a": 1}));
    let path = "chat/completions";
    let got = server.endpoint().post_with_retries(path, &body, 1000, amply()).await;
    assert_eq!(got.answer.unwrap().as_str(), "{\"b\": 1.0}");
    let (head, body) = server.asked().remove(0);
    assert!(head.starts_with("post /v1/chat/completions http/1.1\r\n"), "{head}");
    assert!(head.contains("authorization: bearer hunter2-hunter2\r\n"), "{head}");
    assert!(head.contains("content-type: application/json\r\n"), "{head}");
    assert_eq!(body, json!({"a": 1}));
}

#[tokio::test]
async fn classifies_unusable_responses() {
    let page = "<!doctype html><title>Welcome</title>";
    for status in [200, 404, 405] {
        assert_eq!(failure(move |_| http_response(status, HTML, page)).await, LlmError::Html);
    }
    assert_eq!(failure(move |_| http_response(200, "", page)).await, LlmError::Html);
    for (body, why) in [("", "not JSON"), ("{", "not JSON"), ("[]", "not a JSON object")] {
        let failure = failure(move |_| http_response(200, "", body)).await;
        assert_eq!(failure, LlmError::Unusable(why.to_owned()));
    }
    for (status, expected) in [
        (400, LlmError::Status(400)),
        (401, LlmError::Unauthorized(401)),
        (402, LlmError::PaymentRequired),
        (403, LlmError::Unauthorized(403)),
        (404, LlmError::UnknownModel("m-1".to_owned())),
        (500, LlmError::Status(500)),
    ] {
        assert_eq!(failure(move |_| http_response(status, "", "x")).await, expected);
    }
    let location = "location: http://127.0.0.1:9/elsewhere\r\n";
    assert_eq!(failure(move |_| http_response(307, location, "")).await, LlmError::Redirected(307));
    let failure = failure(|_| Reply::Says("SSH-2.0-OpenSSH_9\r\n\r\n".to_owned())).await;
    assert!(matches!(failure, LlmError::Unusable(_)), "{failure}");
}

#[tokio::test]
async fn error_messages_do_not_contain_the_key() {
    let body = json!({"error": {"message": format!("no\nkey: {KEY}")}}).to_string();
    let failure = failure(move |_| http_response(401, "", &body)).await;
    assert_eq!(failure.plain(), &LlmError::Unauthorized(401));
    assert_eq!(failure.to_string(), "API key rejected (HTTP status 401): no key: ***");
}

// invariant: model-requests-bounded
#[tokio::test]
async fn stops_reading_an_endless_response_at_the_size_limit() {
    let bodies = [
        Reply::Endless("HTTP/1.1 200 X\r\n\r\n", "{\"a\": \"xxxxxxxxxxxxxxxxxxxx"),
        Reply::Endless("HTTP/1.1 200 X\r\ntransfer-encoding: chunked\r\n\r\n", "5\r\nxxxxx\r\n"),
        http_response(200, "", &format!("{{\"a\": \"{}\"}}", "x".repeat(1000))),
    ];
    for body in bodies {
        let body = Mutex::new(Some(body));
        assert_eq!(failure(move |_| body.lock().take().unwrap()).await, LlmError::AnswerTooLarge);
    }
    for piece in
        ["x: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n", "xxxxxxxxxxxxxxx"]
    {
        let failure = failure(move |_| Reply::Endless(HEAD, piece)).await;
        assert!(matches!(failure, LlmError::Unusable(_)), "{failure}");
    }
    // An oversized body doesn't replace the error status.
    let failure = failure(|_| Reply::Endless("HTTP/1.1 400 X\r\n\r\n", "xxxxxxxxxx")).await;
    assert_eq!(failure, LlmError::Status(400));
}

#[tokio::test]
async fn hanging_responses_time_out() {
    for head in ["", "HTTP/1.1 200", "HTTP/1.1 200 X\r\n\r\n{\"a\":"] {
        let mut server = FakeEndpoint::start(move |_, _| Reply::Hangs(head)).await;
        let body = RawJson::encode(&json!({}));
        let soon = Instant::now() + Duration::from_millis(50);
        let until = RequestLimits { deadline: soon, ..amply() };
        let until = server.endpoint().post_with_retries("x", &body, 1000, until).await;
        assert_eq!(until.answer.unwrap_err(), LlmError::TimedOut);
        server.config.timeout = Duration::from_millis(50);
        let timeout = server.endpoint().post_with_retries("x", &body, 1000, amply()).await;
        assert_eq!(timeout.answer.unwrap_err(), LlmError::TimedOut);
    }
}

#[tokio::test]
async fn retries_transient_errors() {
    let cut = "HTTP/1.1 200 X\r\ncontent-length: 9\r\n\r\n{";
    let passing = ["", cut, "HTTP/1.1 503 X\r\ncontent-length: 0\r\n\r\n"];
    for first in passing {
        let script = move |asked| match asked {
            0 => Reply::Says(first.to_owned()),
            _ => http_response(200, "", "{}"),
        };
        let (posted, asked) = posted(script).await;
        assert_eq!(posted.answer.unwrap().as_str(), "{}", "{first}");
        assert_eq!((posted.attempts, asked), (2, 2), "{first}");
    }
    let (posted, asked) = posted(|_| http_response(502, "", "")).await;
    assert_eq!(posted.answer.unwrap_err(), LlmError::Status(502));
    assert_eq!((posted.attempts, asked), (3, 3));
    for requests in [1, 2] {
        let server = FakeEndpoint::start(|_, _| http_response(429, "retry-after: 0\r\n", "")).await;
        let (body, within) = (RawJson::encode(&json!({})), RequestLimits { requests, ..amply() });
        let posted = server.endpoint().post_with_retries("x", &body, 1000, within).await;
        assert!(posted.answer.is_err());
        assert_eq!((posted.attempts, server.asked().len()), (requests, requests as usize));
    }
}

#[tokio::test]
async fn connection_errors_do_not_contain_the_address() {
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let mut server = FakeEndpoint::start(|_, _| http_response(200, "", "{}")).await;
    server.config.base_url = format!("http://{nobody}/v1/").parse().unwrap();
    let body = RawJson::encode(&json!({}));
    let posted = server.endpoint().post_with_retries("x", &body, 1000, amply()).await;
    assert_eq!(posted.attempts, 3);
    let failure = posted.answer.unwrap_err();
    assert!(matches!(failure, LlmError::Unreachable(_)), "{failure}");
    assert!(!failure.to_string().contains(&nobody.to_string()), "{failure}");
}

#[tokio::test]
async fn honours_retry_after() {
    let begun = Instant::now();
    let script = |asked| match asked {
        0 => http_response(429, "retry-after: 1\r\n", ""),
        _ => http_response(200, "", "{}"),
    };
    let (posted, _) = posted(script).await;
    assert!(posted.answer.is_ok() && posted.attempts == 2);
    assert!(begun.elapsed() >= Duration::from_secs(1));

    // Fails immediately if the delay exceeds the deadline.
    for wait in [
        "60".to_owned(),
        (Utc::now() + Duration::from_secs(90)).format("%a, %d %b %Y %H:%M:%S GMT").to_string(),
    ] {
        let header = format!("retry-after: {wait}\r\n");
        let failure =
            failure(move |_| http_response(429, &header, "{\"error\": \"slow down\"}")).await;
        let LlmError::RateLimited(Some(wait)) = failure.plain() else { panic!("{failure}") };
        assert!((Duration::from_mins(1)..=Duration::from_secs(90)).contains(wait), "{wait:?}");
        assert_eq!(failure.to_string(), "rate limited (HTTP status 429): slow down");
    }
}

#[tokio::test]
async fn debug_output_contains_no_secrets() {
    let server = FakeEndpoint::start(|_, _| http_response(200, "", "{}")).await;
    let shown = format!("{:?} {:?}", server.endpoint(), server.config);
    assert!(!shown.contains("hunter2") && shown.contains("m-1"), "{shown}");
}

#[tokio::test]
async fn key_that_is_no_header_value_is_not_reported_as_rejected() {
    let server = FakeEndpoint::start(|_, _| http_response(200, "", "{}")).await;
    let config = mcp_workbench_settings::LlmConfig {
        api_key: Some("a\nb".to_owned()),
        ..server.config.clone()
    };
    assert_eq!(Endpoint::new(&config).err(), Some(LlmError::InvalidKey));
    assert!(server.asked().is_empty());
}
