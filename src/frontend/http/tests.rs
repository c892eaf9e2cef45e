use axum::body::{Body, to_bytes};
use hyper::Request;
use pretty_assertions::assert_eq;
use tower::ServiceExt;

use super::*;

#[tokio::test]
async fn a_panic_is_answered_and_harms_nobody() {
    async fn panics() -> &'static str {
        assert!(std::env::args().len() == usize::MAX, "on purpose");
        "not this"
    }
    let router =
        Router::new().route("/panics", get(panics)).route("/fine", get(|| async { "fine" }));
    let router = guarded(router);
    let ask = |path: &str| {
        let request = Request::get(path).body(Body::empty()).unwrap();
        router.clone().oneshot(request)
    };
    let lost = ask("/panics").await.unwrap();
    assert_eq!(lost.status(), StatusCode::INTERNAL_SERVER_ERROR);
    let said = to_bytes(lost.into_body(), 1000).await.unwrap();
    let said: serde_json::Value = serde_json::from_slice(&said).unwrap();
    assert_eq!(said["error"]["code"], INTERNAL_ERROR);
    assert_eq!(ask("/fine").await.unwrap().status(), StatusCode::OK);
}
