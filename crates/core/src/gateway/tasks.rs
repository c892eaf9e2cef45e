//! Tasks: which server runs which, so that asking after one reaches the server that knows it, and
//! whose it is.
//!
//! A server answers a call with a task's id (2026-07-28, the tasks extension; 2025-11-25, its
//! experimental forerunner). Ids stay as the server made them. A task belongs to whoever began it: an
//! agent with a name, a session without one, or, where a request is all that there is, those who come
//! without a name and know its id. The server cannot tell them apart, so nobody else's request about
//! it is passed on, and of its list each is given their own. Where a process gives several the same
//! id, it is nobody's.

use std::sync::{Arc, LazyLock};

use memchr::memmem::Finder;
use serde::Deserialize;
use serde_json::json;

use crate::backend::{ClientAbilities, Outcome, Presence, Tie};
use crate::gateway::{CallError, Caller, Gateway, RequestContext};
use crate::name::{AgentName, ServerRef};
use crate::raw::{Member, Raw};
use crate::state::{Key, Record, Room, SessionKey, Store};
use crate::wire::code::INTERNAL_ERROR;
use crate::wire::incoming::error_object;

/// The most pages of a server's list of tasks that are read for one list of an agent's own.
const MAX_PAGES: usize = 100;
/// How many tasks of one agent are remembered.
const ROOM: Room = Room { count: 10_000, ..Room::ENDLESS };
/// Version of the encoding of task owners, which is part of the keys in the state store.
const OWNER_VERSION: u32 = 2;

/// The tasks of the agents that look through one gateway, and those that take its place.
pub(crate) struct Tasks {
    store: Arc<dyn Store>,
    agent: Option<AgentName>,
    /// Tells them from those of others.
    whose: Arc<str>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Task {
    task_id: String,
}

impl Tasks {
    pub(crate) fn new(store: Arc<dyn Store>, caller: &Caller, abilities: ClientAbilities) -> Self {
        let owner = json!([OWNER_VERSION, caller.agent, caller.toolbox, abilities.bits()]);
        let whose = owner.to_string().into();
        Self { store, agent: caller.agent.clone(), whose }
    }

    /// Names those who may ask after the tasks that an agent begins.
    pub(crate) fn holder(&self, agent: &Presence, session: Option<&SessionKey>) -> Arc<str> {
        match session {
            Some(session) if self.agent.is_none() && agent.tie == Tie::Session => {
                format!("{} {}", self.whose, session.as_str()).into()
            }
            _ => Arc::clone(&self.whose),
        }
    }

    fn key(id: &str, holder: &str) -> Key {
        Key::Task(format!("{holder} {id}"))
    }

    /// Remembers which server runs a task; the first that speaks of it does.
    pub(crate) async fn learn(&self, id: &str, holder: &str, server: &ServerRef) {
        let key = Self::key(id, holder);
        if self.store.get(&key).await.is_none() {
            let (agent, server) = (self.agent.clone(), server.clone());
            self.store.put(key, Record::Task { agent, server }, ROOM).await;
        }
    }

    /// The server that runs a task.
    async fn find(&self, id: &str, holder: &str) -> Option<ServerRef> {
        match self.store.get(&Self::key(id, holder)).await? {
            Record::Task { server, .. } => Some(server),
            _ => None,
        }
    }
}

impl Gateway {
    /// The server that runs a task which is this agent's; `None` for everybody else's.
    pub async fn task(
        &self,
        id: &str,
        agent: &Presence,
        session: Option<&SessionKey>,
    ) -> Option<ServerRef> {
        let holder = self.tasks.holder(agent, session);
        let at = self.tasks.find(id, &holder).await?;
        let server = self.at(&at.toolbox, &at.server)?;
        server.used_by(agent).may_hold_task(id, &holder).then_some(at)
    }

    /// Returns `true` if its agents may see all tasks of a server: nobody else can have begun them.
    pub fn shares_tasks(&self) -> bool {
        self.pool.is_sole() && !self.policy.tells_agents_apart()
    }

    /// Returns `true` if an agent may ask a server after a task that is not known to be its own: nobody
    /// else can have begun it, or, where agents have no names, nobody is known to have.
    pub fn may_ask_after(
        &self,
        id: &str,
        at: &ServerRef,
        agent: &Presence,
        session: Option<&SessionKey>,
    ) -> bool {
        let is_free = || {
            let holder = self.tasks.holder(agent, session);
            let server = self.at(&at.toolbox, &at.server);
            server.is_some_and(|server| server.used_by(agent).may_hold_task(id, &holder))
        };
        let is_named = self.tasks.agent.is_some() || self.policy.tells_agents_apart();
        self.shares_tasks() || (!is_named && is_free())
    }

    /// The list of a server's tasks with those alone that are this agent's, all on one page: where
    /// the next one begins may be another's task.
    pub async fn own_tasks(
        &self,
        at: &ServerRef,
        params: &[Member],
        context: &RequestContext<'_>,
    ) -> Result<Outcome, CallError> {
        let rest: Vec<_> = params.iter().filter(|(key, _)| &**key != "cursor").cloned().collect();
        let (mut own, mut cursor): (Vec<Raw>, Option<Raw>) = (Vec::new(), None);
        for _ in 0..MAX_PAGES {
            let cursors = cursor.take().map(|cursor| ("cursor".into(), cursor));
            let params: Vec<_> = rest.iter().cloned().chain(cursors).collect();
            let outcome = self.request(at, "tasks/list", &params, context).await?;
            let Outcome::Result(page) = &outcome else { return Ok(outcome) };
            let tasks = page.member("tasks").and_then(|tasks| tasks.items());
            let Some(tasks) = tasks else { return Ok(malformed()) };
            for task in tasks {
                if let Ok(Task { task_id }) = task.parse()
                    && self.task(&task_id, context.agent, context.session).await.as_ref()
                        == Some(at)
                {
                    own.push(task);
                }
            }
            cursor = page.member("nextCursor").filter(|next| next.as_bytes() != b"null");
            if cursor.is_none() {
                let list = page.without_member("nextCursor").unwrap_or_else(|| page.clone());
                let list = list.with_member("tasks", &Raw::encode(&own));
                return Ok(list.map_or_else(malformed, Outcome::Result));
            }
        }
        let message = "the server has more tasks than are looked through";
        Ok(Outcome::Error(error_object(INTERNAL_ERROR, message, None)))
    }
}

fn malformed() -> Outcome {
    let message = "the server's list of tasks is none";
    Outcome::Error(error_object(INTERNAL_ERROR, message, None))
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
