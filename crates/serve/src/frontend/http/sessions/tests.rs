use std::collections::BTreeMap;
use std::path::Path;

use pretty_assertions::assert_eq;

use super::*;
use crate::backend::PoolOptions;
use crate::config;
use crate::frontend::AppState;
use crate::gateway::Gateways;
use crate::name::{AgentName, ToolboxName};

const CONFIG: &str = r#"{"mcpServers": {"box": {"command": "/no/such/program"}}}"#;

/// The parts that sessions are made of here.
struct Stage {
    app: AppState,
    tasks: TaskTracker,
    sessions: Sessions,
}

impl Stage {
    fn new() -> Self {
        let env = BTreeMap::new();
        let loaded = config::parse(CONFIG, Path::new("x.json"), Path::new("/"), &env).unwrap();
        let tasks = TaskTracker::new();
        let config = Arc::new(loaded.config);
        let gateways = Arc::new(Gateways::new(config, PoolOptions::default(), &tasks));
        let app = AppState::new(gateways, &tasks).unwrap();
        Self { app, tasks, sessions: Sessions::default() }
    }

    fn session(&self, id: &str, caller: &Caller) -> Arc<Connected> {
        let purse = self.app.gateways.payers().purse(&Payer::new(caller.agent.as_ref(), None));
        let session = Session::new(&self.app, caller.clone(), purse, None, None);
        let (peer, ended) = (Peer::new(), CancellationToken::new());
        Arc::new(Connected::new(id.to_owned(), session, peer, ended))
    }

    fn insert(&self, id: &str, most: usize) -> Result<Arc<Connected>, Full> {
        let connected = self.session(id, &Caller::NOBODY);
        self.sessions.insert(Arc::clone(&connected), [most, 9]).map(|()| connected)
    }

    /// Lets the agent of a session listen until what is returned is dropped.
    fn listen(&self, connected: &Connected) -> mpsc::Receiver<Bytes> {
        let (writer, outbox) = crate::wire::writer::Writer::detached();
        self.tasks.spawn(async move { writer.closed().await });
        assert_eq!(connected.carry(outbox, None, None, &self.tasks), OWN_STREAM);
        let (events, receiver) = mpsc::channel(1);
        assert!(connected.read(OWN_STREAM, Reader { events, after: None, is_primed: false }));
        receiver
    }

    fn ids(&self) -> Vec<String> {
        let mut ids: Vec<_> = self.sessions.table().keys().cloned().collect();
        ids.sort();
        ids
    }
}

#[tokio::test(start_paused = true)]
async fn the_one_that_was_idle_for_longest_makes_room() {
    let stage = Stage::new();
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
    // Those that listen leave last, and one that has something under way never.
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
async fn one_that_nobody_uses_ends() {
    let stage = Stage::new();
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

#[tokio::test]
async fn one_is_found_by_its_own_caller_alone() {
    let stage = Stage::new();
    let caller = |agent: Option<&str>, toolbox: Option<&str>| Caller {
        agent: agent.map(AgentName::new),
        toolbox: toolbox.map(ToolboxName::new),
    };
    let ann = caller(Some("ann"), None);
    stage.sessions.insert(stage.session("id", &ann), [9, 9]).unwrap();
    assert!(stage.sessions.get("id", &ann).is_some());
    let others = [Caller::NOBODY, caller(Some("bob"), None), caller(Some("ann"), Some("box"))];
    for other in others {
        assert!(stage.sessions.get("id", &other).is_none(), "{other:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn no_session_ends_for_that_of_another_caller() {
    let stage = Stage::new();
    let named = |agent: &str| Caller { agent: Some(AgentName::new(agent)), toolbox: None };
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
    // Where there is no room at all, whoever has none is not let in at another's expense.
    assert!(!insert("eve", "eve", [2, 3]));
    assert!(insert("ann again", "ann", [2, 3]));
    assert_eq!(stage.ids(), ["ann again", "bob 998", "bob 999"]);
}
