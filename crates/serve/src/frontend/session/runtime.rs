//! The runtime part of a session, which its record can't contain: connections to agent and servers.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio_util::sync::CancellationToken;
use tracing::Span;

use crate::frontend::AppState;
use crate::frontend::session::ownership::RecordOwnership;
use mcp_workbench_core::backend::events;
use mcp_workbench_core::gateway::{Affinity, AgentHandle, Caller, CallerQuota};
use mcp_workbench_core::telemetry::SessionGuard;
use mcp_workbench_names::ServerRef;
use mcp_workbench_wire::agent::Notifier;

const EVENTS: usize = 256;

/// The part of a session that stays when it is restored from its record.
pub(crate) struct SessionRuntime {
    pub(super) app: AppState,
    pub(super) ownership: RecordOwnership,
    pub(super) agent: AgentHandle,
    pub(super) span: Span,
    pub(super) quota: Arc<CallerQuota>,
    pub(super) notifier: Option<Notifier>,
    /// Reports to telemetry. `None` if the session lasts for one request.
    pub(super) guest: Option<SessionGuard>,
    /// Cancelled when no more requests are read.
    pub(super) closing: CancellationToken,
    pub(super) ended: CancellationToken,
    has_ended: AtomicBool,
}

impl SessionRuntime {
    /// `lost`: isolated servers whose state was lost in a takeover.
    pub(super) fn new(
        app: &AppState,
        caller: &Caller,
        quota: Arc<CallerQuota>,
        notifier: Option<Notifier>,
        ownership: RecordOwnership,
        lost: BTreeSet<ServerRef>,
    ) -> (Arc<Self>, events::Receiver) {
        let (standing, events) = events::channel(EVENTS);
        let affinity = match (&notifier, &caller.agent) {
            (Some(_), _) => Affinity::Session,
            (None, Some(_)) => Affinity::AgentName,
            (None, None) => Affinity::None,
        };
        let agent = AgentHandle::new(notifier.is_some().then_some(standing));
        let agent = agent.with_affinity(affinity).with_name(caller.agent.clone());
        let agent = agent.with_quota(Arc::clone(&quota)).with_lost_servers(lost);
        let guest = notifier.is_some().then(|| app.gateways.register_agent(caller, agent.id));
        let span = app.gateways.observer().session_span(agent.id.number());
        let live = Self {
            app: app.clone(),
            ownership,
            agent,
            span,
            quota,
            notifier,
            guest,
            closing: CancellationToken::new(),
            ended: CancellationToken::new(),
            has_ended: AtomicBool::new(false),
        };
        (Arc::new(live), events)
    }

    pub(super) fn end(&self) {
        if self.has_ended.swap(true, Ordering::Relaxed) {
            return;
        }
        self.closing.cancel();
        self.ended.cancel();
        self.app.gateways.remove_agent(self.agent.id);
        self.ownership.remove_record(&self.app.tasks);
    }
}

/// Ends sessions that are never ended explicitly, such as those for one request.
impl Drop for SessionRuntime {
    fn drop(&mut self) {
        self.end();
    }
}
