//! Tasks: which server runs a task, and which agent owns it.
//!
//! A server answers a call with a task id (2026-07-28: tasks extension; 2025-11-25: its
//! experimental predecessor). Ids are passed through unchanged. A task belongs to the agent that
//! began it: a named agent, a session without a name or, without either, any anonymous agent that
//! knows the id. Servers can't tell agents apart, so requests about another owner's task are
//! refused and task lists are filtered. If a process issues one id to several owners, none of them
//! owns it.

use std::sync::{Arc, LazyLock};

use memchr::memmem::Finder;
use serde::Deserialize;
use serde_json::json;

use crate::backend::{Affinity, AgentHandle, ClientCapabilities, RpcOutcome, task_key};
use crate::catalog::ServerCapabilities;
use crate::gateway::access::RequestTarget;
use crate::gateway::{CallError, Caller, Gateway, RequestContext};
use crate::json::{Member, RawJson};
use crate::name::{AgentName, ServerRef};
use crate::state::{Capacity, RecordKey, SessionKey, StateRecord, StateStore};
use crate::wire::code::INTERNAL_ERROR;
use crate::wire::incoming::error_object;

/// Maximum number of `tasks/list` pages read for one filtered list.
const MAX_PAGES: usize = 100;
/// Maximum number of stored tasks of one agent.
const ROOM: Capacity = Capacity { count: 10_000, ..Capacity::UNLIMITED };
/// Version of the encoding of task owners, which is part of the keys in the state store.
const OWNER_VERSION: u32 = 2;

/// The tasks of a gateway's agents, also found by the gateways that replace it.
pub(crate) struct TaskRegistry {
    store: Arc<dyn StateStore>,
    agent: Option<AgentName>,
    /// Prefix of this gateway's keys in the state store.
    owner_key: Arc<str>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Task {
    task_id: String,
}

impl TaskRegistry {
    pub(crate) fn new(
        store: Arc<dyn StateStore>,
        caller: &Caller,
        capabilities: ClientCapabilities,
    ) -> Self {
        let owner = json!([OWNER_VERSION, caller.agent, caller.toolbox, capabilities.bits()]);
        let owner_key = owner.to_string().into();
        Self { store, agent: caller.agent.clone(), owner_key }
    }

    /// Returns the owner key of the tasks that an agent begins.
    pub(crate) fn holder(&self, agent: &AgentHandle, session: Option<&SessionKey>) -> Arc<str> {
        match session {
            Some(session) if self.agent.is_none() && agent.affinity == Affinity::Session => {
                format!("{} {}", self.owner_key, session.as_str()).into()
            }
            _ => Arc::clone(&self.owner_key),
        }
    }

    fn key(id: &str, holder: &str) -> RecordKey {
        RecordKey::Task(format!("{holder} {}", task_key(id)))
    }

    /// Stores the server of a task, unless one is already known.
    pub(crate) async fn learn(&self, id: &str, holder: &str, server: &ServerRef) {
        let key = Self::key(id, holder);
        if self.store.get(&key).await.is_none() {
            let (agent, server) = (self.agent.clone(), server.clone());
            self.store.put(key, StateRecord::Task { agent, server }, ROOM).await;
        }
    }

    async fn find(&self, id: &str, holder: &str) -> Option<ServerRef> {
        match self.store.get(&Self::key(id, holder)).await? {
            StateRecord::Task { server, .. } => Some(server),
            _ => None,
        }
    }
}

impl Gateway {
    /// Returns the server of a task that this agent owns.
    pub async fn task_server(
        &self,
        id: &str,
        agent: &AgentHandle,
        session: Option<&SessionKey>,
    ) -> Option<ServerRef> {
        let holder = self.tasks.holder(agent, session);
        let at = self.tasks.find(id, &holder).await?;
        let server = self.managed_server(&at.toolbox, &at.server)?;
        server.current_backend(agent).can_access_task(id, &holder).then_some(at)
    }

    /// Returns the running servers that declare tasks, in the order of the configuration.
    pub fn running_servers_with_tasks(&self) -> Vec<ServerRef> {
        let snapshot = self.snapshot();
        let mut running = self.running_servers();
        running.retain(|at| {
            let view = snapshot.view(&at.toolbox);
            view.abilities_of(&at.server).is_some_and(ServerCapabilities::has_tasks)
        });
        running
    }

    /// Returns `true` if all agents may see all tasks: there is one agent, and no per-agent rules.
    pub fn can_list_all_tasks(&self) -> bool {
        self.pool.is_single_agent() && !self.policy.has_agent_policies()
    }

    /// Returns `true` if an agent may query a task that isn't known to be its own: no other agent
    /// exists or, without named agents, no other owner is known.
    pub fn can_query_task(
        &self,
        id: &str,
        at: &ServerRef,
        agent: &AgentHandle,
        session: Option<&SessionKey>,
    ) -> bool {
        let is_free = || {
            let holder = self.tasks.holder(agent, session);
            let server = self.managed_server(&at.toolbox, &at.server);
            server.is_some_and(|server| server.current_backend(agent).can_access_task(id, &holder))
        };
        let is_named = self.tasks.agent.is_some() || self.policy.has_agent_policies();
        self.can_list_all_tasks() || (!is_named && is_free())
    }

    /// Returns a server's tasks that this agent owns, on one page: a cursor could reveal another
    /// agent's task.
    pub async fn list_own_tasks(
        &self,
        at: &ServerRef,
        params: &[Member],
        context: &RequestContext<'_>,
    ) -> Result<RpcOutcome, CallError> {
        let rest: Vec<_> = params.iter().filter(|(key, _)| &**key != "cursor").cloned().collect();
        let (mut own, mut cursor): (Vec<RawJson>, Option<RawJson>) = (Vec::new(), None);
        let mut room = self.config.limits.max_message_bytes;
        for _ in 0..MAX_PAGES {
            let cursors = cursor.take().map(|cursor| ("cursor".into(), cursor));
            let params: Vec<_> = rest.iter().cloned().chain(cursors).collect();
            let outcome =
                self.request(at, &RequestTarget::Task("tasks/list"), &params, context).await?;
            let RpcOutcome::Result(page) = &outcome else { return Ok(outcome) };
            let tasks = page.member("tasks").and_then(|tasks| tasks.items());
            let Some(tasks) = tasks else { return Ok(malformed()) };
            for task in tasks {
                if let Ok(Task { task_id }) = task.parse()
                    && self.task_server(&task_id, context.agent, context.session).await.as_ref()
                        == Some(at)
                {
                    let Some(rest) = room.checked_sub(task.len()) else { return Ok(too_many()) };
                    room = rest;
                    // A copy doesn't keep its page in memory.
                    own.push(task.to_detached());
                }
            }
            cursor = page.member("nextCursor").filter(|next| next.as_bytes() != b"null");
            if cursor.is_none() {
                let list = page.without_member("nextCursor");
                let list = list.and_then(|list| list.with_member("tasks", &RawJson::encode(&own)));
                return Ok(RpcOutcome::from_edit(list));
            }
        }
        Ok(too_many())
    }
}

fn too_many() -> RpcOutcome {
    let message = "too many tasks to list; get them by ID";
    RpcOutcome::Error(error_object(INTERNAL_ERROR, message, None))
}

fn malformed() -> RpcOutcome {
    let message = "the server's task list is invalid";
    RpcOutcome::Error(error_object(INTERNAL_ERROR, message, None))
}

pub(crate) fn task_id(outcome: &RpcOutcome) -> Option<String> {
    #[derive(Deserialize)]
    struct Nested {
        task: Task,
    }

    static TASK_ID: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"taskId\""));
    let RpcOutcome::Result(result) = outcome else { return None };
    TASK_ID.find(result.as_bytes())?;
    let is_task = result.member("resultType").is_some_and(|kind| kind.as_bytes() == b"\"task\"");
    if is_task {
        return result.parse::<Task>().ok().map(|task| task.task_id);
    }
    result.parse::<Nested>().ok().map(|nested| nested.task.task_id)
}
