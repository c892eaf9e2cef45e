//! An endpoint on loopback that says what a test wants, and keeps what it was asked.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::http::StatusCode;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::task::TaskTracker;

/// A scripted endpoint, for as long as the test's runtime.
pub(crate) struct Scripted {
    /// What a configuration calls it.
    pub(crate) base_url: String,
    asked: Arc<Mutex<Vec<Value>>>,
}

impl Scripted {
    /// Begins to listen on a port of its own; the script makes a status and a body of a request.
    pub(crate) async fn start(
        script: impl Fn(&Value) -> (u16, String) + Send + Sync + 'static,
    ) -> Self {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (kept, script) = (Arc::clone(&asked), Arc::new(script));
        let answer = move |body: Bytes| {
            let (kept, script) = (Arc::clone(&kept), Arc::clone(&script));
            async move {
                let body: Value = serde_json::from_slice(&body).unwrap();
                kept.lock().unwrap().push(body.clone());
                let (status, body) = script(&body);
                (StatusCode::from_u16(status).unwrap(), body)
            }
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base_url = format!("http://{}/v1/", listener.local_addr().unwrap());
        let app = Router::new().fallback(answer);
        TaskTracker::new().spawn(async { axum::serve(listener, app).await.unwrap() });
        Self { base_url, asked }
    }

    /// What it was asked so far.
    pub(crate) fn asked(&self) -> Vec<Value> {
        self.asked.lock().unwrap().clone()
    }
}

/// These words, in the form of the API.
pub(crate) fn says(text: &str) -> (u16, String) {
    let usage = json!({"prompt_tokens": 7, "completion_tokens": 2});
    (200, json!({"choices": [{"message": {"content": text}}], "usage": usage}).to_string())
}
