//! The state of the HTTP server that its parts share.

use std::sync::Arc;

use hyper::http::request::Parts;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::admin_page::page::AdminPage;
use crate::auth::Authenticator;
use crate::auth_throttle::AuthThrottle;
use crate::connections::connection_info::{ConnectionInfo, address};
use crate::connections::slots::SlotTable;
use crate::drain::InFlightTracker;
use crate::response::{HttpError, HttpResponse};
use crate::session_lookups::SessionTakeover;
use crate::sessions::{HttpSession, SessionLimitError, SessionRegistry};
use crate::tls::TlsCertificates;
use mcp_workbench_core::gateway::{Caller, CallerQuota};
use mcp_workbench_core::state::Rate;
use mcp_workbench_core::telemetry::{
    AccessDenial, AccessDenialReason, Event, QuotaKind, QuotaOwner,
};
use mcp_workbench_serve::admin::AdminApi;
use mcp_workbench_serve::frontend::AppState;
use mcp_workbench_settings::Config;
use mcp_workbench_wire::writer::Outbox;

pub(crate) struct HttpServer {
    pub(crate) app: AppState,
    pub(crate) identity: Authenticator,
    pub(crate) delays: AuthThrottle,
    pub(crate) under_way: InFlightTracker,
    pub(crate) sessions: Arc<SessionRegistry>,
    pub(crate) adopting: SessionTakeover,
    pub(crate) connections: OpenConnections,
    pub(crate) tasks: TaskTracker,
    pub(crate) page: Arc<AdminPage<AdminApi>>,
    pub(crate) ending: ServerShutdown,
}

pub(crate) struct OpenConnections {
    pub(crate) open: TaskTracker,
    pub(crate) agents: SlotTable,
    /// Connections to the health listener.
    pub(crate) health: SlotTable,
    /// `None` means plain HTTP.
    pub(crate) tls: Option<Arc<TlsCertificates>>,
}

pub(crate) struct ServerShutdown {
    /// Cancelled when streams and connections have to close.
    pub(crate) closing: CancellationToken,
    pub(crate) shutdown: CancellationToken,
}

pub(crate) struct RequestScope {
    pub(crate) caller: Caller,
    pub(crate) quota: Arc<CallerQuota>,
    pub(crate) config: Arc<Config>,
}

impl HttpServer {
    pub(crate) fn quota(&self, head: &Parts, caller: &Caller) -> Arc<CallerQuota> {
        self.app.gateways.quotas().quota_for(&QuotaOwner::new(caller.agent.as_ref(), address(head)))
    }

    /// Reports denied access, and delays the response to a client that sends wrong tokens.
    pub(crate) async fn deny(&self, head: &Parts, reply: HttpResponse) -> HttpResponse {
        let Some(denied) = reply.extensions().get::<AccessDenial>() else { return reply };
        let address = address(head);
        let listeners = self.app.gateways.observer().bus();
        listeners.emit(Event::AccessDenied(denied, address));
        if denied.reason == AccessDenialReason::InvalidToken
            && let Some(ConnectionInfo { address, slot, .. }) = head.extensions.get()
            && let Some(delay) =
                self.delays.record_failure(QuotaOwner::new(None, Some(*address)), Instant::now())
        {
            slot.pause(delay.time).await;
        }
        reply
    }

    /// Checks the caller's rate limit for starting sessions, or taking them over.
    pub(crate) async fn count_session(&self, who: &RequestScope) -> Result<(), HttpError> {
        let limits = self.app.gateways.config().limits.per_caller;
        let rate = Rate { per_minute: limits.sessions_per_minute };
        let subject = format!("sessions of {}", who.quota.payer().counter_key());
        self.app.gateways.store().count(&subject, rate).await.map_err(|wait| {
            who.quota.report_limit_reached(QuotaKind::Sessions);
            HttpError::too_many_requests(
                &format!(
                    "{} has reached its limit of {} new sessions per minute \
                     (limits.perCaller.sessionsPerMinute)",
                    who.quota.payer(),
                    limits.sessions_per_minute
                ),
                wait,
            )
        })
    }

    /// Registers a session, if the limits allow it. `outbox` yields the messages that belong to no
    /// request.
    pub(crate) fn register_session(
        &self,
        connected: &Arc<HttpSession>,
        outbox: Outbox,
    ) -> Result<(), HttpError> {
        // The first stream opened gets the number of the session stream.
        connected.open_stream(outbox, None, None, &self.tasks);
        let config = self.app.gateways.config();
        let most = [config.limits.per_caller.max_sessions, config.http.max_sessions];
        self.sessions.insert(Arc::clone(connected), most).map_err(|SessionLimitError| {
            HttpError::unavailable(
                "session limit reached (limits.perCaller.maxSessions, http.maxSessions), and no \
                 session of this caller can be evicted",
            )
        })?;
        self.sessions.watch(connected, self.under_way.closed_token(), &self.tasks);
        Ok(())
    }
}
