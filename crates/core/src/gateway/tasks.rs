//! Tasks: which server runs which, so that asking after one reaches the server that knows it.
//!
//! A server answers a call with a task's id (2026-07-28, the tasks extension; 2025-11-25, its
//! experimental forerunner). Ids stay as the server made them.

use std::sync::{Arc, LazyLock};

use memchr::memmem::Finder;
use serde::Deserialize;

use crate::backend::{ClientAbilities, Outcome};
use crate::gateway::Caller;
use crate::name::{AgentName, ServerRef};
use crate::state::{Key, Record, Store};

/// The tasks of the agents that look through one gateway, and those that take its place.
pub(crate) struct Tasks {
    store: Arc<dyn Store>,
    agent: Option<AgentName>,
    /// Tells them from those of others.
    whose: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Task {
    task_id: String,
}

impl Tasks {
    pub(crate) fn new(store: Arc<dyn Store>, caller: &Caller, abilities: ClientAbilities) -> Self {
        // Quoted as they are, no two callers are spelled alike.
        let whose = format!("{caller:?} {abilities:?}");
        Self { store, agent: caller.agent.clone(), whose }
    }

    fn key(&self, id: &str) -> Key {
        Key::Task(format!("{} {id}", self.whose))
    }

    /// Remembers which server runs a task; the first that speaks of it does.
    pub(crate) async fn learn(&self, id: &str, server: &ServerRef) {
        let key = self.key(id);
        if self.store.get(&key).await.is_none() {
            let (agent, server) = (self.agent.clone(), server.clone());
            self.store.put(key, Record::Task { agent, server }).await;
        }
    }

    /// The server that runs a task.
    pub(crate) async fn find(&self, id: &str) -> Option<ServerRef> {
        match self.store.get(&self.key(id)).await? {
            Record::Task { server, .. } => Some(server),
            _ => None,
        }
    }
}

/// The id of the task that an answer speaks of, if it does.
pub(crate) fn task_id(outcome: &Outcome) -> Option<String> {
    #[derive(Deserialize)]
    struct Nested {
        task: Task,
    }

    static TASK_ID: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"taskId\""));
    let Outcome::Result(result) = outcome else { return None };
    TASK_ID.find(result.as_bytes())?;
    let is_task = result.member("resultType").is_some_and(|kind| kind.as_bytes() == b"\"task\"");
    if is_task {
        return result.parse::<Task>().ok().map(|task| task.task_id);
    }
    result.parse::<Nested>().ok().map(|nested| nested.task.task_id)
}
