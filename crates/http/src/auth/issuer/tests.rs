use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use axum::Router;
use axum::extract::State as Shared;
use axum::http::Uri;
use axum::response::{IntoResponse, Response};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::*;
use crate::auth::tests::signing::{Signer, config};

#[derive(Default)]
struct FakeIssuer {
    keys: Mutex<Vec<Value>>,
    issuer: Mutex<String>,
    metadata_at: &'static str,
    is_down: AtomicBool,
    asked: AtomicUsize,
    tasks: TaskTracker,
}

async fn answer(Shared(made): Shared<Arc<FakeIssuer>>, uri: Uri) -> Response {
    made.asked.fetch_add(1, Ordering::SeqCst);
    let issuer = made.issuer.lock().clone();
    if made.is_down.load(Ordering::SeqCst) {
        StatusCode::INTERNAL_SERVER_ERROR.into_response()
    } else if uri.path() == made.metadata_at {
        json!({ "issuer": issuer, "jwks_uri": format!("{issuer}/jwks") })
            .to_string()
            .into_response()
    } else if uri.path().ends_with("/jwks") {
        json!({ "keys": *made.keys.lock() }).to_string().into_response()
    } else if uri.path() == "/long" {
        format!("{{\"keys\": [], \"x\": \"{}\"}}", "x".repeat(MAX_BYTES)).into_response()
    } else if uri.path() == "/elsewhere" {
        (StatusCode::FOUND, [("location", "/jwks")]).into_response()
    } else {
        StatusCode::NOT_FOUND.into_response()
    }
}

async fn small(metadata_at: &'static str) -> (Arc<FakeIssuer>, String) {
    let made = Arc::new(FakeIssuer { metadata_at, ..FakeIssuer::default() });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let name = format!("http://{}/realm", listener.local_addr().unwrap());
    made.issuer.lock().clone_from(&name);
    let router = Router::new().fallback(answer).with_state(Arc::clone(&made));
    made.tasks.spawn(async move { axum::serve(listener, router).await });
    (made, name)
}

fn issuer(more: &Value) -> Arc<Issuer> {
    Arc::new(Issuer::new(&config(more), &TaskTracker::new(), &CancellationToken::new()))
}

const METADATA: &str = "/.well-known/oauth-authorization-server/realm";

#[tokio::test]
async fn keys_are_fetched_once_and_again_for_an_unknown_key_id() {
    let (made, name) = small(METADATA).await;
    made.keys.lock().push(Signer::new(Algorithm::ES256, "one").public());
    let issuer = issuer(&json!({ "issuer": name }));
    let find = async |id: &str| issuer.keys(Some(id), Algorithm::ES256).await.map(|k| k.len());
    let both = tokio::join!(find("one"), find("one"));
    assert_eq!(both, (Ok(1), Ok(1)));
    assert_eq!(made.asked.load(Ordering::SeqCst), 2);
    assert_eq!(find("one").await, Ok(1));
    assert_eq!(made.asked.load(Ordering::SeqCst), 2);
    made.keys.lock().push(Signer::new(Algorithm::ES256, "two").public());
    assert_eq!(find("two").await, Ok(1));
    assert_eq!(made.asked.load(Ordering::SeqCst), 4);
    // Unknown key ids run into the rate limit.
    for number in 0..30 {
        assert_eq!(find(&format!("unknown-{number}")).await, Ok(0));
    }
    assert_eq!(made.asked.load(Ordering::SeqCst), 12);
    assert_eq!(find("one").await, Ok(1));
}

#[tokio::test]
async fn finds_openid_metadata() {
    for metadata in
        ["/.well-known/openid-configuration/realm", "/realm/.well-known/openid-configuration"]
    {
        let (made, name) = small(metadata).await;
        made.keys.lock().push(Signer::new(Algorithm::EdDSA, "one").public());
        let found = issuer(&json!({ "issuer": name })).keys(None, Algorithm::EdDSA).await;
        assert_eq!(found.map(|keys| keys.len()), Ok(1), "{metadata}");
    }
}

#[tokio::test]
async fn rejects_metadata_of_another_issuer() {
    let (made, name) = small(METADATA).await;
    made.keys.lock().push(Signer::new(Algorithm::EdDSA, "one").public());
    "https://other.example.com".clone_into(&mut made.issuer.lock());
    let found = issuer(&json!({ "issuer": name })).keys(None, Algorithm::EdDSA).await;
    assert_eq!(found.map(|keys| keys.len()), Err(AuthError::Unavailable));
}

#[tokio::test]
async fn cached_keys_outlive_an_issuer_outage_for_a_day() {
    let (made, name) = small(METADATA).await;
    made.keys.lock().push(Signer::new(Algorithm::ES256, "one").public());
    let issuer = issuer(&json!({ "issuer": name, "jwksUrl": format!("{name}/jwks") }));
    let find = async || issuer.keys(Some("one"), Algorithm::ES256).await.map(|keys| keys.len());
    let age = |by: Duration| {
        let mut state = issuer.state();
        let (keys, since) = state.keys.take().unwrap();
        state.keys = Some((keys, since.checked_sub(by).unwrap()));
    };
    made.is_down.store(true, Ordering::SeqCst);
    assert_eq!(find().await, Err(AuthError::Unavailable));
    made.is_down.store(false, Ordering::SeqCst);
    assert_eq!(find().await, Ok(1));
    made.is_down.store(true, Ordering::SeqCst);
    let mut ended = issuer.ended.subscribe();
    age(REFRESH_AFTER);
    assert_eq!(find().await, Ok(1));
    ended.changed().await.unwrap();
    assert_eq!(made.asked.load(Ordering::SeqCst), 3);
    assert_eq!(find().await, Ok(1));
    age(MAX_KEY_AGE);
    assert_eq!(find().await, Err(AuthError::Unavailable));
}

#[tokio::test]
async fn rejects_long_documents_and_redirects() {
    let (made, name) = small(METADATA).await;
    made.keys.lock().push(Signer::new(Algorithm::ES256, "one").public());
    for path in ["/long", "/elsewhere", "/nothing"] {
        let jwks = name.replace("/realm", path);
        let issuer = issuer(&json!({ "issuer": name, "jwksUrl": jwks }));
        let found = issuer.keys(None, Algorithm::ES256).await;
        assert_eq!(found.map(|keys| keys.len()), Err(AuthError::Unavailable), "{path}");
    }
}
