//! A small JWT issuer: metadata and keys, which a test can change.

use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::support::signer::Signer;

pub(crate) struct FakeJwtIssuer {
    /// The issuer, which is its URL.
    pub(crate) name: String,
    keys: Arc<Mutex<Vec<Value>>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl FakeJwtIssuer {
    pub(crate) fn start(signers: &[&Signer]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.set_nonblocking(true).expect("a non-blocking listener");
        let name = format!("http://{}", listener.local_addr().expect("an address"));
        let keys = Arc::<Mutex<Vec<Value>>>::default();
        let metadata = json!({
            "issuer": name,
            "jwks_uri": format!("{name}/jwks"),
            "authorization_endpoint": format!("{name}/authorize"),
            "token_endpoint": format!("{name}/token"),
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
        })
        .to_string();
        let given = |State(keys): State<Arc<Mutex<Vec<Value>>>>| async move {
            json!({ "keys": *keys.lock().expect("the keys") }).to_string()
        };
        let router = Router::new()
            .route("/.well-known/oauth-authorization-server", get(move || async move { metadata }))
            .route("/jwks", get(given))
            .with_state(Arc::clone(&keys));
        let (stop, stopped) = oneshot::channel();
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
                tokio::select! {
                    served = async { axum::serve(listener, router).await } => served.expect("no error"),
                    _ = stopped => {}
                }
            });
        });
        let issuer = Self { name, keys, stop: Some(stop), thread: Some(thread) };
        issuer.has(signers);
        issuer
    }

    /// Replaces the published keys.
    pub(crate) fn has(&self, signers: &[&Signer]) {
        let keys = signers.iter().map(|signer| signer.public()).collect();
        *self.keys.lock().expect("the keys") = keys;
    }
}

impl Drop for FakeJwtIssuer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
