//! Several replicas that share an in-memory store, and requests of their agents.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use hyper::Request;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio_util::task::AbortOnDropHandle;
use tower::ServiceExt;

use crate::takeover::*;
use crate::tests::server_over;
use crate::{ENDPOINT, router};
use mcp_workbench_core::state::{
    MemoryStateStore, PutOutcome, Rate, SessionLease, StateStore, StoreFuture,
};
use mcp_workbench_core::telemetry::{EventKinds, EventListener, Telemetry};
use mcp_workbench_names::AgentName;
use mcp_workbench_settings::{AnonymousPolicy, AuthConfig, Config, TokenConfig, token_digest};

pub(super) const COUNT: &str = "box__srv__count";
pub(super) const SLOW: &str = "box__srv__slow";
pub(super) const UNKNOWN: &str = "unknown or expired session; start a new one with initialize";

#[derive(Default)]
pub(super) struct SharedMemoryStore {
    pub(super) memory: MemoryStateStore,
    pub(super) looked: AtomicUsize,
    /// A member that session records lose, to show that takeovers need it.
    pub(super) without: Mutex<Option<&'static str>>,
}

impl StateStore for SharedMemoryStore {
    fn is_shared(&self) -> bool {
        true
    }

    fn put(
        &self,
        key: RecordKey,
        record: StateRecord,
        capacity: Capacity,
    ) -> StoreFuture<'_, PutOutcome> {
        // Encode and decode, as a remote store does.
        let mut text: Value = serde_json::from_str(&record.encode().unwrap()).unwrap();
        let session = text["record"].get_mut("session").and_then(Value::as_object_mut);
        if let (Some(session), Some(lost)) = (session, *self.without.lock()) {
            session.remove(lost).unwrap();
        }
        self.memory.put(key, StateRecord::decode(&text.to_string()).unwrap(), capacity)
    }

    fn get<'a>(&'a self, key: &'a RecordKey) -> StoreFuture<'a, Option<StateRecord>> {
        self.looked.fetch_add(1, Ordering::Relaxed);
        self.memory.get(key)
    }

    fn take<'a>(&'a self, key: &'a RecordKey) -> StoreFuture<'a, Option<StateRecord>> {
        self.memory.take(key)
    }

    fn count<'a>(&'a self, subject: &'a str, rate: Rate) -> StoreFuture<'a, Result<(), Duration>> {
        self.memory.count(subject, rate)
    }

    fn renew_lease<'a>(
        &'a self,
        session: &'a SessionKey,
        tenure: &'a SessionLease,
    ) -> StoreFuture<'a, bool> {
        self.memory.renew_lease(session, tenure)
    }

    fn end(&self, session: &SessionKey, tenure: &SessionLease) {
        self.memory.end(session, tenure);
    }

    fn remove(&self, key: &RecordKey) {
        self.memory.remove(key);
    }
}

#[derive(Default)]
pub(super) struct CountingServer {
    called: Mutex<Vec<Value>>,
    pub(super) began: Notify,
    pub(super) goes_on: Notify,
    sessions: AtomicUsize,
}

async fn serve(State(counting): State<Arc<CountingServer>>, body: String) -> Response {
    let asked: Value = serde_json::from_str(&body).unwrap();
    let tool = |name| json!({"name": name, "inputSchema": {"type": "object"}});
    let answer = |member: &str, value: Value| {
        let number = counting.sessions.fetch_add(1, Ordering::Relaxed).to_string();
        let answer = json!({"jsonrpc": "2.0", "id": asked["id"], member: value});
        let headers = [("content-type", "application/json"), ("mcp-session-id", &number)];
        (headers, answer.to_string()).into_response()
    };
    let result = match asked["method"].as_str().unwrap() {
        "initialize" => json!({
            "protocolVersion": "2025-06-18", "serverInfo": {"name": "x", "version": "1"},
            "capabilities": {"tools": {}},
        }),
        "tools/list" => json!({"tools": [tool("count"), tool("long"), tool("slow"), tool("task")]}),
        "tasks/get" => json!({"taskId": "t1", "status": "working", "from": "the server"}),
        "tools/call" => {
            counting.called.lock().push(asked["params"]["arguments"].clone());
            if asked["params"]["name"] == "task" {
                return answer("result", json!({"task": {"taskId": "t1", "status": "working"}}));
            }
            let said = match asked["params"]["name"].as_str().unwrap() {
                "slow" => {
                    counting.began.notify_one();
                    counting.goes_on.notified().await;
                    "late".to_owned()
                }
                "long" => "line\n".repeat(2000),
                _ => "counted".to_owned(),
            };
            json!({"content": [{"type": "text", "text": said}]})
        }
        _ if asked["id"].is_null() => return StatusCode::ACCEPTED.into_response(),
        _ => return answer("error", json!({"code": -32601, "message": "unknown"})),
    };
    answer("result", result)
}

#[derive(Default)]
pub(super) struct RecordingListener(Mutex<Vec<String>>);

impl EventListener for RecordingListener {
    fn interest(&self) -> EventKinds {
        EventKinds::SESSIONS.union(EventKinds::PROGRAM)
    }

    fn on_event(&self, event: Event<'_>) {
        let told = match event {
            Event::SessionAdopted(session, times) => {
                format!("adopted {} {times}", session.agent.as_ref().unwrap())
            }
            Event::SessionAffinityLost(_) => "hops".to_owned(),
            _ => return,
        };
        self.0.lock().push(told);
    }
}

pub(super) struct ReplicaTestbed {
    pub(super) store: Arc<SharedMemoryStore>,
    pub(super) counting: Arc<CountingServer>,
    address: String,
    told: Arc<RecordingListener>,
    _serving: AbortOnDropHandle<()>,
}

#[derive(Debug)]
pub(super) struct HttpReply {
    pub(super) status: u16,
    pub(super) session: Option<String>,
    pub(super) message: Value,
}

impl HttpReply {
    /// The text of a tool result, prefixed with `error: ` for an error.
    #[track_caller]
    pub(super) fn text(&self) -> String {
        let result = &self.message["result"];
        let text = result["content"][0]["text"].as_str();
        let text = text.unwrap_or_else(|| panic!("no text in {self:?}"));
        if result["isError"] == true { format!("error: {text}") } else { text.to_owned() }
    }

    /// The HTTP status, and code and message of the error.
    pub(super) fn refusal(&self) -> (u16, i64, String) {
        let error = &self.message["error"];
        let message = error["message"].as_str().unwrap_or_default().to_owned();
        (self.status, error["code"].as_i64().unwrap_or_default(), message)
    }
}

/// A replica and the agent that sends requests to it.
#[derive(Clone)]
pub(super) struct Replica(pub(super) Arc<HttpServer>, &'static str);

impl ReplicaTestbed {
    pub(super) async fn new() -> Self {
        let counting = Arc::new(CountingServer::default());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}/mcp", listener.local_addr().unwrap());
        let router = Router::new().route("/mcp", post(serve)).with_state(Arc::clone(&counting));
        #[expect(clippy::disallowed_methods, reason = "ends with the test")]
        let serving = tokio::spawn(async { axum::serve(listener, router).await.unwrap() });
        let serving = AbortOnDropHandle::new(serving);
        Self { store: Arc::default(), counting, address, told: Arc::default(), _serving: serving }
    }

    pub(super) fn config(&self, server: &Value) -> Config {
        let mut entry = json!({"type": "http", "url": self.address});
        for (key, value) in server.as_object().unwrap() {
            entry[key] = value.clone();
        }
        let text = json!({
            "toolMode": "dynamic",
            "toolboxes": {"box": {"description": "Counts", "mcpServers": {"srv": entry}}},
        });
        let env = BTreeMap::new();
        let (file, folder) = (Path::new("x.json"), Path::new("/"));
        let loaded = mcp_workbench_config::parse(&text.to_string(), file, folder, &env).unwrap();
        let entry = |agent: &str| TokenConfig {
            agent: AgentName::new(agent),
            digest: token_digest(agent),
            variable: None,
            referred: None,
        };
        let auth = AuthConfig {
            tokens: vec![entry("ann"), entry("bob")],
            operators: Vec::new(),
            jwt: None,
            anonymous: AnonymousPolicy::Refused,
        };
        Config { auth: Some(auth), ..loaded.config }
    }

    pub(super) fn replica(&self) -> Replica {
        self.replica_of(self.config(&json!({})))
    }

    pub(super) fn replica_of(&self, config: Config) -> Replica {
        let told: Arc<dyn EventListener> = Arc::clone(&self.told) as Arc<dyn EventListener>;
        let store: Arc<dyn StateStore> = Arc::clone(&self.store) as Arc<dyn StateStore>;
        let observer = Telemetry::default().with_listener(told);
        Replica(server_over(Some(store), Some("127.0.0.1:80"), config, observer), "ann")
    }

    pub(super) async fn record(&self, id: &str) -> Option<state::SessionRecord> {
        match self.store.memory.get(&RecordKey::Session(SessionKey::of_id(id))).await {
            Some(StateRecord::Session(record)) => Some(Arc::unwrap_or_clone(record)),
            _ => None,
        }
    }

    pub(super) async fn put(&self, id: &str, record: state::SessionRecord) {
        let record = StateRecord::Session(Arc::new(record));
        let key = RecordKey::Session(SessionKey::of_id(id));
        self.store.memory.remove(&key);
        assert!(self.store.memory.put(key, record, Capacity::UNLIMITED).await.is_stored());
    }

    pub(super) async fn until(&self, id: &str, is_such: impl Fn(&state::SessionRecord) -> bool) {
        while !self.record(id).await.is_some_and(|record| is_such(&record)) {
            tokio::task::yield_now().await;
        }
    }

    /// Opens the toolbox and lists the tools again. Returns when the record has both.
    pub(super) async fn open(&self, at: &Replica, id: &str) {
        let opening = at.call(id, "open_toolbox", json!({"toolbox": "box"}));
        let listing = async {
            self.until(id, |record| !record.chosen.opened.is_empty()).await;
            assert!(at.tools(id).await.contains(&COUNT.to_owned()));
        };
        let (opened, ()) = tokio::join!(opening, listing);
        assert_eq!(opened.message["result"]["isError"], Value::Null, "{opened:?}");
        let is_kept = *self.store.without.lock() != Some("lists");
        self.until(id, |record| !is_kept || record.lists.digests.tools.is_some()).await;
    }

    pub(super) fn told(&self) -> Vec<String> {
        self.told.0.lock().clone()
    }

    pub(super) fn called(&self) -> Vec<Value> {
        self.counting.called.lock().clone()
    }
}

impl Replica {
    pub(super) fn of(&self, agent: &'static str) -> Self {
        Self(Arc::clone(&self.0), agent)
    }

    pub(super) fn request(
        &self,
        method: &str,
        session: Option<&str>,
        body: &Value,
    ) -> Request<Body> {
        let request = Request::builder()
            .method(method)
            .uri(ENDPOINT)
            .header(HOST, "localhost")
            .header(AUTHORIZATION, format!("Bearer {}", self.1))
            .header(CONTENT_TYPE, "application/json");
        let request = match method {
            "GET" => request.header(ACCEPT, "text/event-stream"),
            _ => request.header(ACCEPT, "application/json"),
        };
        let request = match session {
            Some(session) => request.header("mcp-session-id", session),
            None => request,
        };
        let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
        request.body(body).unwrap()
    }

    pub(super) async fn send(&self, method: &str, session: Option<&str>, body: Value) -> HttpReply {
        let router = router(&self.0);
        let reply = router.oneshot(self.request(method, session, &body)).await.unwrap();
        let status = reply.status().as_u16();
        let session = reply.headers().get("mcp-session-id");
        let session = session.map(|id| id.to_str().unwrap().to_owned());
        let text = to_bytes(reply.into_body(), 1_000_000).await.unwrap();
        HttpReply { status, session, message: serde_json::from_slice(&text).unwrap_or_default() }
    }

    pub(super) async fn begin(&self) -> String {
        let client = json!({"name": "client", "version": "1"});
        let params =
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
        let body = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        self.send("POST", None, body).await.session.expect("an id")
    }

    pub(super) async fn ask(&self, session: &str, method: &str, params: Value) -> HttpReply {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        self.send("POST", Some(session), body).await
    }

    pub(super) async fn call(&self, session: &str, name: &str, arguments: Value) -> HttpReply {
        self.ask(session, "tools/call", json!({"name": name, "arguments": arguments})).await
    }

    pub(super) async fn tools(&self, session: &str) -> Vec<String> {
        let given = self.ask(session, "tools/list", json!({})).await;
        let tools = given.message["result"]["tools"].as_array();
        let tools = tools.unwrap_or_else(|| panic!("no tools in {given:?}"));
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }

    pub(super) fn name(&self) -> String {
        self.0.app.replica.to_string()
    }

    pub(super) fn here(&self) -> usize {
        self.0.sessions.count()
    }
}

pub(super) async fn pass(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}
