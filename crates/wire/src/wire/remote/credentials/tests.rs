use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use pretty_assertions::assert_eq;
use reqwest::header::{AUTHORIZATION, HeaderValue};
use serde_json::json;

use super::*;
use crate::wire::remote::lock;
use crate::wire::remote::tests::{SESSION, Server, answer, ask, ask_modern, error, result};

/// Credentials that count up: each refusal brings the next one, up to a last.
struct Renewed {
    used: AtomicUsize,
    last: usize,
    /// The decision after the last.
    then: Again,
    challenges: Mutex<Vec<Challenge>>,
}

impl Renewed {
    fn new(last: usize) -> Arc<Self> {
        Self::until(last, Again::No)
    }

    fn until(last: usize, then: Again) -> Arc<Self> {
        Arc::new(Self { used: AtomicUsize::new(1), last, then, challenges: Mutex::default() })
    }
}

impl Credentials for Renewed {
    fn authorization(&self) -> Later<'_, HeaderMap> {
        let token = format!("Bearer token-{}", self.used.load(Ordering::Relaxed));
        let token = HeaderValue::try_from(token).unwrap();
        Box::pin(ready(HeaderMap::from_iter([(AUTHORIZATION, token)])))
    }

    fn refused(&self, challenge: Challenge) -> Later<'_, Again> {
        let used = if challenge.is_last {
            self.used.load(Ordering::Relaxed)
        } else {
            self.used.fetch_add(1, Ordering::Relaxed)
        };
        lock(&self.challenges).push(challenge);
        let is_last = used == self.last;
        Box::pin(ready(if is_last { self.then } else { Again::Once }))
    }

    fn secrets(&self) -> Vec<String> {
        vec![format!("Bearer token-{}", self.used.load(Ordering::Relaxed))]
    }
}

const BEARER: &str = "www-authenticate: Bearer realm=\"here\"\r\nwww-authenticate: Basic\r\n";

#[tokio::test]
async fn what_is_refused_is_sent_once_more_with_renewed_credentials() {
    let mut server = Server::start().await;
    let credentials = Renewed::new(9);
    let (link, _) = server.link_as(credentials.clone(), 1 << 20);
    for (method, status) in [("tools/list", "401 Unauthorized"), ("tools/call", "403 Forbidden")] {
        let listed = ask_modern(&link, method, &[]).await;
        let first = server.next().await;
        let (token, body) = (first.header("authorization").to_owned(), first.body.clone());
        first.says(status, BEARER, "").await;
        let second = server.next().await;
        assert_ne!(second.header("authorization"), token);
        assert_eq!(second.body, body);
        second.answers(json!({"done": method})).await;
        assert_eq!(result(listed).await, json!({"done": method}));
    }
    let challenges = lock(&credentials.challenges);
    let schemes = ["Bearer realm=\"here\"", "Basic"];
    assert!(challenges.iter().all(|challenge| challenge.schemes == schemes), "{challenges:?}");
}

#[tokio::test]
async fn what_is_refused_twice_is_the_answer_and_is_not_sent_again() {
    let mut server = Server::start().await;
    let credentials = Renewed::new(9);
    let (link, _) = server.link_as(credentials.clone(), 1 << 20);
    let call = ask_modern(&link, "tools/call", &[]).await;
    server.next().await.says("401 Unauthorized", BEARER, "").await;
    server.next().await.says("401 Unauthorized", "", "token-2 is not known").await;
    let told = error(call).await;
    assert_eq!(told["data"], json!({"httpStatus": 401}));
    assert!(!told["message"].as_str().unwrap().contains("token-2"), "{told}");
    let challenges = lock(&credentials.challenges);
    let heard: Vec<_> = challenges.iter().map(|heard| (heard.is_last, &heard.shown)).collect();
    let shown = |token| Some(HeaderValue::from_static(token));
    assert_eq!(heard, [(false, &shown("Bearer token-1")), (true, &shown("Bearer token-2"))]);
    assert!(!format!("{challenges:?}").contains("token-"), "{challenges:?}");
}

#[tokio::test]
async fn a_refusal_that_only_a_person_can_change_says_so() {
    for last in [1, 2] {
        let mut server = Server::start().await;
        let (link, _) = server.link_as(Renewed::until(last, Again::SignIn), 1 << 20);
        let call = ask_modern(&link, "tools/call", &[]).await;
        for _ in 0..last {
            server.next().await.says("401 Unauthorized", BEARER, "who is it?").await;
        }
        let told = error(call).await;
        assert_eq!(told["data"], json!("signIn"));
        let message = "the server wants a sign-in (HTTP status 401 Unauthorized)";
        assert_eq!(told["message"], message);
    }
}

#[tokio::test]
async fn credentials_that_stay_the_same_are_not_shown_again() {
    let mut server = Server::start().await;
    let (link, _) = server.link(1 << 20);
    let call = ask_modern(&link, "tools/call", &[]).await;
    server.next().await.says("401 Unauthorized", BEARER, "").await;
    assert_eq!(error(call).await["data"], json!({"httpStatus": 401}));
    let next = ask_modern(&link, "tools/list", &[]).await;
    let got = server.next().await;
    assert_eq!(got.body["method"], "tools/list");
    got.answers(json!({"tools": []})).await;
    result(next).await;
}

#[tokio::test]
async fn a_session_goes_on_under_renewed_credentials() {
    let mut server = Server::start().await;
    let credentials = Renewed::new(9);
    let (link, _) = server.link_as(credentials, 1 << 20);
    let mut request = ask(&link, "initialize").await;
    let got = server.next().await;
    let body = answer(&got.body["id"], json!({"protocolVersion": "2025-06-18"}));
    got.says("200 OK", SESSION, &body).await;
    request.done().await.unwrap();
    link.notify("notifications/initialized", None);
    server.next().await.says("202 Accepted", "", "").await;
    // The stream for what is unasked is refused at first, too.
    server.next().await.says("401 Unauthorized", BEARER, "").await;
    let again = server.next().await;
    assert_eq!((again.line.as_str(), again.header("authorization")), ("GET", "Bearer token-2"));
    assert_eq!(again.header("mcp-session-id"), "s-1");
    again.says("405 Method Not Allowed", "", "").await;
    let call = ask(&link, "tools/call").await;
    let got = server.next().await;
    assert_eq!(got.header("authorization"), "Bearer token-2");
    assert_eq!(got.header("mcp-session-id"), "s-1");
    got.answers(json!({})).await;
    result(call).await;
}
