//! A toolbox's servers, and which backend of a server serves which agent.
//!
//! Agents share one backend unless the server is isolated per session. A server that sends requests
//! to its client can't say which agent it means, so each agent gets a dedicated backend: the first
//! one takes over the shared backend, if no other agent has used it. Dedicated backends count
//! toward the caller's quota ([`QuotaKind::Processes`]).

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use crate::backend::{
    self, Affinity, AgentHandle, AgentId, Backend, BackendId, BackendSpec, CallTimeouts, Pool,
    QuotaExceededError, QuotaGuard, StartError,
};
use crate::gateway::limits::Limiter;
use crate::gateway::response_cache::ResponseCache;
use crate::telemetry::{QuotaKind, QuotaOwner, ServerMetrics};
use mcp_workbench_settings::{Isolation, ServerConfig};

/// A configured server in one toolbox.
pub(crate) enum ServerEntry {
    Managed(Box<ManagedServer>),
    Unavailable(Arc<StartError>),
    /// A virtual server whose tools are macros, with its metrics.
    Macros(Arc<ServerMetrics>),
}

/// The settings of a server that a reload can change while its backends keep running.
pub(crate) struct CallSettings {
    pub(crate) limiter: Option<Arc<Limiter>>,
    pub(crate) answers: Option<ResponseCache>,
    /// Maximum number of dedicated backends of a caller, over all servers.
    pub(crate) max_dedicated_backends: usize,
}

pub(crate) struct ManagedServer {
    pub(crate) patience: CallTimeouts,
    pub(crate) meters: Arc<ServerMetrics>,
    /// The backend that all agents share. Its listings are shown to everyone.
    pub(crate) shared: Backend,
    pub(crate) settings: CallSettings,
    spec: Arc<BackendSpec>,
    is_shared: bool,
    is_isolated: bool,
    /// Owner for agents with a name but no session. One is enough: agents with other names use
    /// other gateways.
    sessionless_owner: AgentId,
    /// Backend owners, which outlive a reload. Created with the first dedicated backend; most
    /// servers never have one.
    owners: OnceLock<Arc<Mutex<BackendOwners>>>,
}

#[derive(Default)]
struct BackendOwners {
    /// The agent that the shared backend is reserved for, if any.
    shared: Option<AgentId>,
    /// That agent's quota guard, if the server is isolated.
    shared_place: Option<QuotaGuard>,
    /// `true` once the session that owned the shared backend has ended. It is not handed to another
    /// session.
    is_shared_retired: bool,
    others: HashMap<AgentId, DedicatedBackend>,
}

struct DedicatedBackend {
    backend: Backend,
    _place: Option<QuotaGuard>,
}

impl ManagedServer {
    pub(crate) fn new(
        config: &ServerConfig,
        settings: CallSettings,
        spec: Arc<BackendSpec>,
        meters: Arc<ServerMetrics>,
        pool: &Pool,
    ) -> Self {
        let is_isolated = config.isolation == Isolation::Session;
        let is_shared = config.shares_process && !is_isolated;
        Self {
            patience: patience(config),
            meters,
            shared: pool.get_or_create(Arc::clone(&spec), is_shared),
            settings,
            spec,
            is_shared,
            is_isolated,
            sessionless_owner: AgentId::next(),
            owners: OnceLock::new(),
        }
    }

    /// Returns `true` if a server with this configuration can keep the backends of this one.
    pub(crate) fn is_same_server(&self, config: &ServerConfig, spec: &BackendSpec) -> bool {
        let is_isolated = config.isolation == Isolation::Session;
        let is_shared = config.shares_process && !is_isolated;
        self.spec.is_same_server(spec)
            && (self.is_shared, self.is_isolated) == (is_shared, is_isolated)
    }

    /// Returns this server with a changed configuration.
    pub(crate) fn reconfigured(
        &self,
        config: &ServerConfig,
        settings: CallSettings,
        spec: Arc<BackendSpec>,
    ) -> Self {
        if self.spec != spec {
            self.for_each_backend(|backend| backend.update_spec(Arc::clone(&spec)));
        }
        Self {
            patience: patience(config),
            meters: Arc::clone(&self.meters),
            shared: self.shared.clone(),
            settings,
            spec,
            is_shared: self.is_shared,
            is_isolated: self.is_isolated,
            sessionless_owner: self.sessionless_owner,
            owners: Arc::clone(self.owners.get_or_init(Arc::default)).into(),
        }
    }

    /// Stops the backends that aren't in `in_use` once they are idle.
    pub(crate) fn dismiss(&self, in_use: &HashSet<BackendId>) {
        self.for_each_backend(|backend| {
            if !in_use.contains(&backend.id()) {
                backend.stop_when_unused();
            }
        });
    }

    pub(crate) fn for_each_backend(&self, mut f: impl FnMut(&Backend)) {
        f(&self.shared);
        self.known_owners(|owners| owners.others.values().map(|own| &own.backend).for_each(f));
    }

    pub(crate) fn spec(&self) -> &Arc<BackendSpec> {
        &self.spec
    }

    pub(crate) fn has_roots(&self) -> bool {
        self.spec.capabilities.has_roots()
    }

    fn owners<T>(&self, f: impl FnOnce(&mut BackendOwners) -> T) -> T {
        let owners = self.owners.get_or_init(Arc::default);
        f(&mut owners.lock())
    }

    fn known_owners<T>(&self, f: impl FnOnce(&mut BackendOwners) -> T) -> Option<T> {
        self.owners.get().map(|_| self.owners(f))
    }

    pub(crate) fn is_isolated(&self) -> bool {
        self.is_isolated
    }

    pub(crate) fn has_dedicated_backend(&self, agent: &AgentHandle) -> bool {
        let owner = self.owner(agent);
        let has_own = |owners: &mut BackendOwners| {
            owners.shared == Some(owner) || owners.others.contains_key(&owner)
        };
        self.is_isolated && self.known_owners(has_own) == Some(true)
    }

    fn owner(&self, agent: &AgentHandle) -> AgentId {
        if self.is_isolated && agent.affinity == Affinity::AgentName {
            self.sessionless_owner
        } else {
            agent.connection_owner
        }
    }

    /// Returns the backend for an agent's requests, creating a dedicated one if needed. Fails if
    /// the server is isolated and the request has no affinity, or if the caller's quota is
    /// exhausted.
    pub(crate) fn backend(
        &self,
        agent: &AgentHandle,
        pool: &Pool,
    ) -> Result<Backend, backend::BackendError> {
        // A listener sends no requests and receives events of its agent's backend.
        if agent.is_listener() {
            return Ok(self.current_backend(agent));
        }
        if self.is_isolated && agent.affinity == Affinity::None {
            return Err(backend::BackendError::StartFailed(Arc::new(session_required_error())));
        }
        if !self.is_isolated && !self.shared.is_interactive() {
            return Ok(self.shared.clone());
        }
        let owner = self.owner(agent);
        self.owners(|owners| {
            if let Some(own) = owners.others.get(&owner) {
                return Ok(own.backend.clone());
            }
            if !owners.is_shared_retired && owners.shared.is_none_or(|it| it == owner) {
                if self.is_isolated && owners.shared_place.is_none() {
                    owners.shared_place = self.acquire_quota(agent)?;
                }
                if self.shared.claim(agent) {
                    owners.shared = Some(owner);
                    return Ok(self.shared.clone());
                }
                owners.shared_place = None;
            }
            let place = self.acquire_quota(agent)?;
            // Events of the shared backend are not for this agent any more.
            self.shared.detach(agent.id);
            // Only the shared backend reports listings; this one lists the same.
            let backend = pool.get_or_create(Arc::clone(&self.spec), false);
            owners
                .others
                .insert(owner, DedicatedBackend { backend: backend.clone(), _place: place });
            Ok(backend)
        })
    }

    fn acquire_quota(
        &self,
        agent: &AgentHandle,
    ) -> Result<Option<QuotaGuard>, backend::BackendError> {
        let Some(quota) = agent.purse() else { return Ok(None) };
        let place = quota
            .try_acquire(QuotaKind::Processes, self.settings.max_dedicated_backends)
            .map_err(|QuotaExceededError| {
            backend::BackendError::StartFailed(Arc::new(too_many(
                quota.payer(),
                self.settings.max_dedicated_backends,
            )))
        })?;
        Ok(Some(place))
    }

    /// Removes an agent that has left and stops its dedicated backend.
    pub(crate) fn remove_agent(&self, agent: AgentId) {
        self.shared.detach(agent);
        self.known_owners(|owners| {
            if owners.shared == Some(agent) {
                owners.shared = None;
                owners.shared_place = None;
                if self.is_isolated {
                    owners.is_shared_retired = true;
                    self.shared.recycle();
                } else {
                    self.shared.release();
                }
            }
            owners.others.remove(&agent);
            for other in owners.others.values() {
                other.backend.detach(agent);
            }
        });
    }

    /// Returns the backend that an agent currently uses, else the shared one.
    pub(crate) fn current_backend(&self, agent: &AgentHandle) -> Backend {
        let owner = self.owner(agent);
        self.known_owners(|owners| owners.others.get(&owner).map(|own| own.backend.clone()))
            .flatten()
            .unwrap_or_else(|| self.shared.clone())
    }
}

fn patience(config: &ServerConfig) -> CallTimeouts {
    CallTimeouts { idle: config.call_timeout, total: config.total_call_timeout }
}

fn too_many(owner: &QuotaOwner, most: usize) -> StartError {
    StartError::new(
        format!(
            "{owner} already has {most} server processes of its own, the maximum \
             (`limits.perCaller.maxProcesses`)"
        ),
        "end unused sessions, or raise `limits.perCaller.maxProcesses`",
    )
}

fn session_required_error() -> StartError {
    StartError::new(
        "it needs a session (`\"isolation\": \"session\"`), but the request has none",
        "use a protocol version with sessions (2025-11-25), or authenticate as a named agent",
    )
}

#[cfg(test)]
mod tests;
