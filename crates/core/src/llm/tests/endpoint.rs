//! However an endpoint behaves, a request ends, in time, with what is wrong.

use std::sync::Mutex;

use chrono::Utc;
use pretty_assertions::assert_eq;
use serde_json::json;
use tokio::net::TcpListener;

use super::*;
use crate::raw::Raw;

const HEAD: &str = "HTTP/1.1 200 X\r\ncontent-type: application/json\r\n";
const HTML: &str = "content-type: text/html; charset=utf-8\r\n";

/// Makes a request that `script` answers. Returns the outcome, and how many attempts there were.
async fn posted(script: impl Fn(usize) -> Reply + Send + Sync + 'static) -> (Posted, usize) {
    let server = Scripted::start(move |asked, _| script(asked)).await;
    let body = Raw::encode(&json!({"a": 1}));
    let posted = server.endpoint().post_counted("x", &body, 1000, amply()).await;
    (posted, server.asked().len())
}

async fn failure(script: impl Fn(usize) -> Reply + Send + Sync + 'static) -> Failure {
    let (posted, asked) = posted(script).await;
    assert_eq!((posted.attempts, asked), (1, 1));
    posted.answer.unwrap_err()
}

#[tokio::test]
async fn an_object_is_posted_and_one_comes_back() {
    let server = Scripted::start(|_, _| answer(200, "", "\n {\"b\": 1.0} ")).await;
    let body = Raw::encode(&json!({"a": 1}));
    let path = "chat/completions";
    let got = server.endpoint().post_counted(path, &body, 1000, amply()).await;
    assert_eq!(got.answer.unwrap().as_str(), "{\"b\": 1.0}");
    let (head, body) = server.asked().remove(0);
    assert!(head.starts_with("post /v1/chat/completions http/1.1\r\n"), "{head}");
    assert!(head.contains("authorization: bearer hunter2-hunter2\r\n"), "{head}");
    assert!(head.contains("content-type: application/json\r\n"), "{head}");
    assert_eq!(body, json!({"a": 1}));
}

#[tokio::test]
async fn what_is_no_answer_is_told_by_what_it_is() {
    let page = "<!doctype html><title>Welcome</title>";
    for status in [200, 404, 405] {
        assert_eq!(failure(move |_| answer(status, HTML, page)).await, Failure::Html);
    }
    assert_eq!(failure(move |_| answer(200, "", page)).await, Failure::Html);
    for (body, why) in
        [("", "it is no JSON"), ("{", "it is no JSON"), ("[]", "it is no JSON object")]
    {
        let failure = failure(move |_| answer(200, "", body)).await;
        assert_eq!(failure, Failure::Unusable(why.to_owned()));
    }
    for (status, expected) in [
        (400, Failure::Status(400)),
        (401, Failure::Unauthorized(401)),
        (402, Failure::Unpaid),
        (403, Failure::Unauthorized(403)),
        (404, Failure::UnknownModel("m-1".to_owned())),
        (500, Failure::Status(500)),
    ] {
        assert_eq!(failure(move |_| answer(status, "", "x")).await, expected);
    }
    let location = "location: http://127.0.0.1:9/elsewhere\r\n";
    assert_eq!(failure(move |_| answer(307, location, "")).await, Failure::Redirected(307));
    let failure = failure(|_| Reply::Says("SSH-2.0-OpenSSH_9\r\n\r\n".to_owned())).await;
    assert!(matches!(failure, Failure::Unusable(_)), "{failure}");
}

#[tokio::test]
async fn what_an_endpoint_says_of_an_error_is_told_without_the_key() {
    let body = json!({"error": {"message": format!("no\nkey: {KEY}")}}).to_string();
    let failure = failure(move |_| answer(401, "", &body)).await;
    assert_eq!(failure.plain(), &Failure::Unauthorized(401));
    assert_eq!(failure.to_string(), "it does not take the key (status 401): no key: ***");
}

#[tokio::test]
async fn an_answer_without_end_is_not_read_to_the_end() {
    let bodies = [
        Reply::Endless("HTTP/1.1 200 X\r\n\r\n", "{\"a\": \"xxxxxxxxxxxxxxxxxxxx"),
        Reply::Endless("HTTP/1.1 200 X\r\ntransfer-encoding: chunked\r\n\r\n", "5\r\nxxxxx\r\n"),
        answer(200, "", &format!("{{\"a\": \"{}\"}}", "x".repeat(1000))),
    ];
    for body in bodies {
        let body = Mutex::new(Some(body));
        assert_eq!(failure(move |_| body.lock().unwrap().take().unwrap()).await, Failure::TooLong);
    }
    for piece in
        ["x: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n", "xxxxxxxxxxxxxxx"]
    {
        let failure = failure(move |_| Reply::Endless(HEAD, piece)).await;
        assert!(matches!(failure, Failure::Unusable(_)), "{failure}");
    }
    // An error stays the error that it is.
    let failure = failure(|_| Reply::Endless("HTTP/1.1 400 X\r\n\r\n", "xxxxxxxxxx")).await;
    assert_eq!(failure, Failure::Status(400));
}

#[tokio::test]
async fn whoever_says_nothing_is_not_waited_for() {
    for head in ["", "HTTP/1.1 200", "HTTP/1.1 200 X\r\n\r\n{\"a\":"] {
        let mut server = Scripted::start(move |_, _| Reply::Hangs(head)).await;
        let body = Raw::encode(&json!({}));
        let soon = Instant::now() + Duration::from_millis(50);
        let until = Within { until: soon, ..amply() };
        let until = server.endpoint().post_counted("x", &body, 1000, until).await;
        assert_eq!(until.answer.unwrap_err(), Failure::TimedOut);
        server.config.timeout = Duration::from_millis(50);
        let timeout = server.endpoint().post_counted("x", &body, 1000, amply()).await;
        assert_eq!(timeout.answer.unwrap_err(), Failure::TimedOut);
    }
}

#[tokio::test]
async fn what_passes_is_tried_again() {
    let cut = "HTTP/1.1 200 X\r\ncontent-length: 9\r\n\r\n{";
    let passing = ["", cut, "HTTP/1.1 503 X\r\ncontent-length: 0\r\n\r\n"];
    for first in passing {
        let script = move |asked| match asked {
            0 => Reply::Says(first.to_owned()),
            _ => answer(200, "", "{}"),
        };
        let (posted, asked) = posted(script).await;
        assert_eq!(posted.answer.unwrap().as_str(), "{}", "{first}");
        assert_eq!((posted.attempts, asked), (2, 2), "{first}");
    }
    let (posted, asked) = posted(|_| answer(502, "", "")).await;
    assert_eq!(posted.answer.unwrap_err(), Failure::Status(502));
    assert_eq!((posted.attempts, asked), (3, 3));
    for requests in [1, 2] {
        let server = Scripted::start(|_, _| answer(429, "retry-after: 0\r\n", "")).await;
        let (body, within) = (Raw::encode(&json!({})), Within { requests, ..amply() });
        let posted = server.endpoint().post_counted("x", &body, 1000, within).await;
        assert!(posted.answer.is_err());
        assert_eq!((posted.attempts, server.asked().len()), (requests, requests as usize));
    }
}

#[tokio::test]
async fn what_cannot_be_reached_is_told_without_the_address() {
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let mut server = Scripted::start(|_, _| answer(200, "", "{}")).await;
    server.config.base_url = format!("http://{nobody}/v1/").parse().unwrap();
    let body = Raw::encode(&json!({}));
    let posted = server.endpoint().post_counted("x", &body, 1000, amply()).await;
    assert_eq!(posted.attempts, 3);
    let failure = posted.answer.unwrap_err();
    assert!(matches!(failure, Failure::Unreachable(_)), "{failure}");
    assert!(!failure.to_string().contains(&nobody.to_string()), "{failure}");
}

#[tokio::test]
async fn who_wants_to_be_left_alone_is_left_alone() {
    let begun = Instant::now();
    let script = |asked| match asked {
        0 => answer(429, "retry-after: 1\r\n", ""),
        _ => answer(200, "", "{}"),
    };
    let (posted, _) = posted(script).await;
    assert!(posted.answer.is_ok() && posted.attempts == 2);
    assert!(begun.elapsed() >= Duration::from_secs(1));

    // For longer than there is time: at once.
    for wait in [
        "60".to_owned(),
        (Utc::now() + Duration::from_secs(90)).format("%a, %d %b %Y %H:%M:%S GMT").to_string(),
    ] {
        let header = format!("retry-after: {wait}\r\n");
        let failure = failure(move |_| answer(429, &header, "{\"error\": \"slow down\"}")).await;
        let Failure::TooOften(Some(wait)) = failure.plain() else { panic!("{failure}") };
        assert!((Duration::from_mins(1)..=Duration::from_secs(90)).contains(wait), "{wait:?}");
        assert_eq!(failure.to_string(), "it was asked too often (status 429): slow down");
    }
}

#[tokio::test]
async fn no_secret_is_in_what_is_shown_of_an_endpoint() {
    let server = Scripted::start(|_, _| answer(200, "", "{}")).await;
    let shown = format!("{:?} {:?}", server.endpoint(), server.config);
    assert!(!shown.contains("hunter2") && shown.contains("m-1"), "{shown}");
}
