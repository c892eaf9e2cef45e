use std::sync::Mutex;

use axum::body::{Body, to_bytes};
use hyper::Request;
use hyper::header::HOST;
use pretty_assertions::assert_eq;
use tower::ServiceExt;

use super::*;
use crate::backend::PoolOptions;
use crate::gateway::Gateways;
use crate::observe::{DeniedFor, Event, Kinds, Listener, Observer};
use crate::settings::Config;

/// Notes who is not let in.
#[derive(Default)]
struct Denials(Mutex<Vec<DeniedFor>>);

impl Listener for Denials {
    fn wants(&self) -> Kinds {
        Kinds::DENIALS
    }

    fn hear(&self, event: Event<'_>) {
        if let Event::AccessDenied(denied) = event {
            self.0.lock().unwrap().push(denied.why);
        }
    }
}

#[tokio::test]
async fn who_is_not_let_in_is_told_of_once_with_the_reason() {
    let denials = Arc::new(Denials::default());
    let heard: Arc<dyn Listener> = Arc::clone(&denials) as Arc<dyn Listener>;
    let observer = Arc::new(Observer::default().heard_by(heard));
    let (tasks, shutdown) = (TaskTracker::new(), CancellationToken::new());
    let options = PoolOptions { observer, ..PoolOptions::default() };
    let gateways = Arc::new(Gateways::new(Arc::new(Config::default()), options, &tasks));
    let app = AppState::new(gateways, &tasks).unwrap();
    let server = Arc::new(Server {
        identity: Identity::new(&app, None, Door::default(), &shutdown),
        under_way: UnderWay::new(CancellationToken::new()),
        sessions: Sessions::default(),
        connections: TaskTracker::new(),
        table: Table::default(),
        health: Table::default(),
        tasks,
        leaving: shutdown.child_token(),
        shutdown,
        app,
    });
    let router = router(&server);
    for (host, path, status) in [
        ("evil.example", ENDPOINT, StatusCode::FORBIDDEN),
        ("localhost", ENDPOINT, StatusCode::UNAUTHORIZED),
        ("localhost", "/metrics", StatusCode::UNAUTHORIZED),
        ("evil.example", WELL_KNOWN, StatusCode::FORBIDDEN),
        ("localhost", "/ready", StatusCode::OK),
    ] {
        let request = Request::get(path).header(HOST, host).body(Body::empty()).unwrap();
        let answer = router.clone().oneshot(request).await.unwrap();
        assert_eq!(answer.status(), status, "{host} {path}");
    }
    assert_eq!(
        *denials.0.lock().unwrap(),
        [DeniedFor::Origin, DeniedFor::NoToken, DeniedFor::NoToken, DeniedFor::Origin]
    );
}

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
