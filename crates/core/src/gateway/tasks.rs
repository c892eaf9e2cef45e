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

use crate::backend::{Affinity, AgentHandle, RpcOutcome, task_key};
use crate::gateway::request_context::RequestContext;
use crate::gateway::scope::GatewayScope;
use crate::gateway::servers::Servers;
use crate::state::{Capacity, RecordKey, SessionKey, StateRecord, StateStore};
use mcp_workbench_names::ServerRef;
use mcp_workbench_wire::code::INTERNAL_ERROR;
use mcp_workbench_wire::incoming::error_object;
use mcp_workbench_wire::json::RawJson;

/// Maximum number of `tasks/list` pages read for one filtered list.
pub(crate) const MAX_TASK_PAGES: usize = 100;
/// Maximum number of stored tasks of one agent.
const ROOM: Capacity = Capacity { count: 10_000, ..Capacity::UNLIMITED };
/// Version of the encoding of task owners, which is part of the keys in the state store.
const OWNER_VERSION: u32 = 2;

/// The tasks of a gateway's agents, also found by the gateways that replace it.
pub struct TaskRegistry {
    scope: Arc<GatewayScope>,
    servers: Arc<Servers>,
    store: Arc<dyn StateStore>,
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
        scope: &Arc<GatewayScope>,
        servers: &Arc<Servers>,
        store: &Arc<dyn StateStore>,
    ) -> Self {
        let GatewayScope { caller, capabilities, .. } = &**scope;
        let mut owner = json!([OWNER_VERSION, caller.agent, caller.toolbox, capabilities.bits()]);
        if let (Some(subject), Some(owner)) = (&caller.subject, owner.as_array_mut()) {
            owner.push(subject.to_string().into());
        }
        Self {
            scope: Arc::clone(scope),
            servers: Arc::clone(servers),
            store: Arc::clone(store),
            owner_key: owner.to_string().into(),
        }
    }

    /// Returns the owner key of the tasks that an agent begins.
    pub(crate) fn holder(&self, agent: &AgentHandle, session: Option<&SessionKey>) -> Arc<str> {
        match session {
            Some(session)
                if self.scope.caller.agent.is_none() && agent.affinity == Affinity::Session =>
            {
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
            let (agent, server) = (self.scope.caller.agent.clone(), server.clone());
            self.store.put(key, StateRecord::Task { agent, server }, ROOM).await;
        }
    }

    async fn find(&self, id: &str, holder: &str) -> Option<ServerRef> {
        match self.store.get(&Self::key(id, holder)).await? {
            StateRecord::Task { server, .. } => Some(server),
            _ => None,
        }
    }

    /// Returns the server of a task that this agent owns.
    pub async fn task_server(
        &self,
        id: &str,
        agent: &AgentHandle,
        session: Option<&SessionKey>,
    ) -> Option<ServerRef> {
        let holder = self.holder(agent, session);
        let at = self.find(id, &holder).await?;
        let server = self.servers.managed_server(&at)?;
        server.current_backend(agent).can_access_task(id, &holder).then_some(at)
    }

    /// Returns `true` if all agents may see all tasks: there is one agent, and no per-agent rules.
    pub fn can_list_all_tasks(&self) -> bool {
        self.servers.pool.is_single_agent() && !self.scope.policy.has_agent_policies()
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
            let holder = self.holder(agent, session);
            let server = self.servers.managed_server(at);
            server.is_some_and(|server| server.current_backend(agent).can_access_task(id, &holder))
        };
        let is_named = self.scope.caller.agent.is_some() || self.scope.policy.has_agent_policies();
        self.can_list_all_tasks() || (!is_named && is_free())
    }

    /// Returns the tasks on a page of a server's list that this agent owns, and subtracts their
    /// length from `room`; or the error for the agent.
    pub(crate) async fn own_tasks_on(
        &self,
        page: &RawJson,
        at: &ServerRef,
        room: &mut usize,
        context: &RequestContext<'_>,
    ) -> Result<Vec<RawJson>, RpcOutcome> {
        let tasks = page.member("tasks").and_then(|tasks| tasks.items()).ok_or_else(malformed)?;
        let mut own = Vec::new();
        for task in tasks {
            if let Ok(Task { task_id }) = task.parse()
                && self.task_server(&task_id, context.agent, context.session).await.as_ref()
                    == Some(at)
            {
                *room = room.checked_sub(task.len()).ok_or_else(too_many_tasks)?;
                // A copy doesn't keep its page in memory.
                own.push(task.to_detached());
            }
        }
        Ok(own)
    }
}

pub(crate) fn too_many_tasks() -> RpcOutcome {
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
