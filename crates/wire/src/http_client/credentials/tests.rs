use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use pretty_assertions::assert_eq;
use reqwest::header::{AUTHORIZATION, HeaderValue};
use serde_json::json;

use super::*;
use crate::http_client::tests::{SESSION, Server, answer, ask, ask_modern, error, result};

/// Credentials with a counter: each challenge yields the next token, up to `last`.
struct Renewed {
    used: AtomicUsize,
    last: usize,
    /// The decision once `last` is rejected.
    then: RetryDecision,
    challenges: Mutex<Vec<Challenge>>,
}

impl Renewed {
    fn new(last: usize) -> Arc<Self> {
        Self::until(last, RetryDecision::GiveUp)
    }

    fn until(last: usize, then: RetryDecision) -> Arc<Self> {
        Arc::new(Self { used: AtomicUsize::new(1), last, then, challenges: Mutex::default() })
    }
}

impl Credentials for Renewed {
    fn authorization(&self) -> BoxFuture<'_, HeaderMap> {
        let token = format!("Bearer token-{}", self.used.load(Ordering::Relaxed));
        let token = HeaderValue::try_from(token).unwrap();
        Box::pin(ready(HeaderMap::from_iter([(AUTHORIZATION, token)])))
    }

    fn on_challenge(&self, challenge: Challenge) -> BoxFuture<'_, RetryDecision> {
        let used = if challenge.is_last {
            self.used.load(Ordering::Relaxed)
        } else {
            self.used.fetch_add(1, Ordering::Relaxed)
        };
        self.challenges.lock().push(challenge);
        let is_last = used == self.last;
        Box::pin(ready(if is_last { self.then } else { RetryDecision::Retry }))
    }

    fn secrets(&self) -> Vec<String> {
        vec![format!("Bearer token-{}", self.used.load(Ordering::Relaxed))]
    }
}

const BEARER: &str = "www-authenticate: Bearer realm=\"here\"\r\nwww-authenticate: Basic\r\n";

// invariant: token-per-server
#[tokio::test]
async fn rejected_exchange_is_retried_with_renewed_credentials() {
    let mut server = Server::start().await;
    let credentials = Renewed::new(9);
    let (connection, _) = server.link_as(credentials.clone(), 1 << 20);
    for (method, status) in [("tools/list", "401 Unauthorized"), ("tools/call", "403 Forbidden")] {
        let listed = ask_modern(&connection, method, &[]).await;
        let first = server.next().await;
        let (token, body) = (first.header("authorization").to_owned(), first.body.clone());
        first.says(status, BEARER, "").await;
        let second = server.next().await;
        assert_ne!(second.header("authorization"), token);
        assert_eq!(second.body, body);
        second.answers(json!({"done": method})).await;
        assert_eq!(result(listed).await, json!({"done": method}));
    }
    let challenges = credentials.challenges.lock();
    let schemes = ["Bearer realm=\"here\"", "Basic"];
    assert!(
        challenges.iter().all(|challenge| challenge.www_authenticate == schemes),
        "{challenges:?}"
    );
}

#[tokio::test]
async fn second_rejection_is_returned_as_the_error() {
    let mut server = Server::start().await;
    let credentials = Renewed::new(9);
    let (connection, _) = server.link_as(credentials.clone(), 1 << 20);
    let call = ask_modern(&connection, "tools/call", &[]).await;
    server.next().await.says("401 Unauthorized", BEARER, "").await;
    server.next().await.says("401 Unauthorized", "", "token-2 is not known").await;
    let told = error(call).await;
    assert_eq!(told["data"], json!({"httpStatus": 401}));
    assert!(!told["message"].as_str().unwrap().contains("token-2"), "{told}");
    let challenges = credentials.challenges.lock();
    let heard: Vec<_> =
        challenges.iter().map(|heard| (heard.is_last, &heard.authorization)).collect();
    let shown = |token| Some(HeaderValue::from_static(token));
    assert_eq!(heard, [(false, &shown("Bearer token-1")), (true, &shown("Bearer token-2"))]);
    assert!(!format!("{challenges:?}").contains("token-"), "{challenges:?}");
}

#[tokio::test]
async fn await_sign_in_is_reported_as_sign_in_required() {
    for last in [1, 2] {
        let mut server = Server::start().await;
        let (connection, _) =
            server.link_as(Renewed::until(last, RetryDecision::AwaitSignIn), 1 << 20);
        let call = ask_modern(&connection, "tools/call", &[]).await;
        for _ in 0..last {
            server.next().await.says("401 Unauthorized", BEARER, "who is it?").await;
        }
        let told = error(call).await;
        assert_eq!(told["data"], json!("signIn"));
        let message = "the server requires sign-in (HTTP status 401 Unauthorized)";
        assert_eq!(told["message"], message);
    }
}

#[tokio::test]
async fn static_credentials_are_not_retried() {
    let mut server = Server::start().await;
    let (connection, _) = server.link(1 << 20);
    let call = ask_modern(&connection, "tools/call", &[]).await;
    server.next().await.says("401 Unauthorized", BEARER, "").await;
    assert_eq!(error(call).await["data"], json!({"httpStatus": 401}));
    let next = ask_modern(&connection, "tools/list", &[]).await;
    let got = server.next().await;
    assert_eq!(got.body["method"], "tools/list");
    got.answers(json!({"tools": []})).await;
    result(next).await;
}

#[tokio::test]
async fn session_continues_with_renewed_credentials() {
    let mut server = Server::start().await;
    let credentials = Renewed::new(9);
    let (connection, _) = server.link_as(credentials, 1 << 20);
    let mut request = ask(&connection, "initialize").await;
    let got = server.next().await;
    let body = answer(&got.body["id"], json!({"protocolVersion": "2025-06-18"}));
    got.says("200 OK", SESSION, &body).await;
    request.response().await.unwrap();
    connection.notify("notifications/initialized", None);
    server.next().await.says("202 Accepted", "", "").await;
    // The event stream is rejected once, too.
    server.next().await.says("401 Unauthorized", BEARER, "").await;
    let again = server.next().await;
    assert_eq!((again.line.as_str(), again.header("authorization")), ("GET", "Bearer token-2"));
    assert_eq!(again.header("mcp-session-id"), "s-1");
    again.says("405 Method Not Allowed", "", "").await;
    let call = ask(&connection, "tools/call").await;
    let got = server.next().await;
    assert_eq!(got.header("authorization"), "Bearer token-2");
    assert_eq!(got.header("mcp-session-id"), "s-1");
    got.answers(json!({})).await;
    result(call).await;
}
