use std::collections::BTreeMap;
use std::path::Path;

use pretty_assertions::assert_eq;

use super::*;
use mcp_workbench_core::backend::PoolOptions;
use mcp_workbench_core::gateway::GatewayRegistry;
use mcp_workbench_names::{AgentName, ToolboxName};
use mcp_workbench_serve::frontend::AppState;

const CONFIG: &str = r#"{"mcpServers": {"box": {"command": "/no/such/program"}}}"#;

struct SessionTestbed {
    app: AppState,
    tasks: TaskTracker,
    sessions: SessionRegistry,
}

impl SessionTestbed {
    fn new() -> Self {
        let env = BTreeMap::new();
        let loaded =
            mcp_workbench_config::parse(CONFIG, Path::new("x.json"), Path::new("/"), &env).unwrap();
        let tasks = TaskTracker::new();
        let config = Arc::new(loaded.config);
        let gateways = Arc::new(GatewayRegistry::new(config, PoolOptions::default(), &tasks));
        let app = AppState::new(gateways, &tasks).unwrap();
        Self { app, tasks, sessions: SessionRegistry::default() }
    }

    fn session(&self, id: &str, caller: &Caller) -> Arc<HttpSession> {
        let quota =
            self.app.gateways.quotas().quota_for(&QuotaOwner::new(caller.agent.as_ref(), None));
        let session = creation::create(&self.app, caller.clone(), quota, None, None);
        let (peer, ended) = (Peer::new(), CancellationToken::new());
        Arc::new(HttpSession::new(id.to_owned(), session, peer, ended))
    }

    fn insert(&self, id: &str, most: usize) -> Result<Arc<HttpSession>, SessionLimitError> {
        let connected = self.session(id, &Caller::ANONYMOUS);
        self.sessions.insert(Arc::clone(&connected), [most, 9]).map(|()| connected)
    }

    fn listen(&self, connected: &HttpSession) -> mpsc::Receiver<Bytes> {
        let (writer, outbox) = mcp_workbench_wire::writer::MessageWriter::detached();
        self.tasks.spawn(async move { writer.closed().await });
        assert_eq!(connected.open_stream(outbox, None, None, &self.tasks), SESSION_STREAM);
        let (events, receiver) = mpsc::channel(1);
        assert!(connected.attach_reader(
            SESSION_STREAM,
            StreamReader { events, after: None, wants_priming: false }
        ));
        receiver
    }

    fn ids(&self) -> Vec<String> {
        let mut ids: Vec<_> = self.sessions.table().keys().cloned().collect();
        ids.sort();
        ids
    }
}

#[tokio::test(start_paused = true)]
async fn evicts_the_session_that_was_idle_longest() {
    let stage = SessionTestbed::new();
    let mut all = Vec::new();
    for id in ["a", "b", "c", "d"] {
        all.push(stage.insert(id, 4).unwrap());
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    let busy = all[0].requests.token();
    let listening = stage.listen(&all[1]);
    all[2].touch();
    tokio::time::advance(Duration::from_secs(1)).await;
    stage.insert("e", 4).unwrap();
    assert_eq!(stage.ids(), ["a", "b", "c", "e"]);
    assert!(all[3].ended.is_cancelled());
    stage.insert("f", 3).unwrap();
    assert_eq!(stage.ids(), ["a", "b", "f"]);
    // Listening clients are evicted last, and those with requests in flight never.
    stage.insert("g", 2).unwrap();
    assert_eq!(stage.ids(), ["a", "g"]);
    drop(listening);
    assert!(stage.insert("h", 1).is_err());
    assert_eq!(stage.ids(), ["a", "g"]);
    drop(busy);
    stage.insert("h", 1).unwrap();
    assert_eq!(stage.ids(), ["h"]);
}

#[tokio::test(start_paused = true)]
async fn ends_idle_sessions() {
    let stage = SessionTestbed::new();
    let (idle, listens) = (stage.insert("idle", 9).unwrap(), stage.insert("listens", 9).unwrap());
    let busy = stage.insert("busy", 9).unwrap();
    let (_listening, _busy) = (stage.listen(&listens), busy.requests.token());
    tokio::time::advance(Duration::from_secs(9)).await;
    stage.sessions.end_idle(Duration::from_secs(10));
    assert_eq!(stage.ids(), ["busy", "idle", "listens"]);
    tokio::time::advance(Duration::from_secs(1)).await;
    stage.sessions.end_idle(Duration::from_secs(10));
    assert_eq!(stage.ids(), ["busy", "listens"]);
    assert!(idle.ended.is_cancelled());
}

// invariant: caller-owns-state
#[tokio::test]
async fn only_its_caller_finds_a_session() {
    let stage = SessionTestbed::new();
    let caller = |agent: Option<&str>, toolbox: Option<&str>| Caller {
        agent: agent.map(AgentName::new),
        toolbox: toolbox.map(ToolboxName::new),
        subject: None,
    };
    let ann = caller(Some("ann"), None);
    stage.sessions.insert(stage.session("id", &ann), [9, 9]).unwrap();
    assert!(stage.sessions.get("id", &ann).is_some());
    let holder = Caller { subject: Some("digest".into()), ..ann.clone() };
    let others =
        [Caller::ANONYMOUS, caller(Some("bob"), None), caller(Some("ann"), Some("box")), holder];
    for other in others {
        assert!(stage.sessions.get("id", &other).is_none(), "{other:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn sessions_of_other_callers_are_never_evicted() {
    let stage = SessionTestbed::new();
    let named = |agent: &str| Caller { agent: Some(AgentName::new(agent)), ..Caller::default() };
    let insert = |id: &str, agent: &str, most| {
        stage.sessions.insert(stage.session(id, &named(agent)), most).is_ok()
    };
    assert!(insert("ann", "ann", [2, 3]));
    tokio::time::advance(Duration::from_secs(1)).await;
    for number in 0..1000 {
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(insert(&format!("bob {number}"), "bob", [2, 3]));
    }
    assert_eq!(stage.ids(), ["ann", "bob 998", "bob 999"]);
    // A caller without sessions can't evict another caller's.
    assert!(!insert("eve", "eve", [2, 3]));
    assert!(insert("ann again", "ann", [2, 3]));
    assert_eq!(stage.ids(), ["ann again", "bob 998", "bob 999"]);
}
