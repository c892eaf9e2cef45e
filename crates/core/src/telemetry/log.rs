//! The listener that writes events to the log.

use std::time::Instant;

use crate::catalog::DefinitionChange;
use crate::telemetry::event::{
    AccessDenialReason, Approver, DriftEvent, Event, EventKinds, ServerStopReason, SignInChange,
    SignInContext,
};
use crate::telemetry::event_bus::EventListener;
use crate::telemetry::quota::QuotaOwner;
use crate::telemetry::rejections::{Rejection, RejectionCause, RejectionCounter};
use mcp_workbench_names::AgentName;
use mcp_workbench_names::untrusted_text::display_name;

/// Maximum length of a logged agent name, in characters.
const MAX_NAME: usize = 100;
/// Maximum number of drifted definitions logged per listing.
const MAX_DRIFTED: usize = 20;

/// The log target of events, for filters.
pub const TARGET: &str = module_path!();

#[derive(Default)]
pub(crate) struct LogListener {
    rejections: RejectionCounter,
}

impl LogListener {
    fn reject(&self, owner: QuotaOwner, cause: RejectionCause) {
        let rejection = Rejection { who: Some(owner), cause };
        for (rejection, times) in self.rejections.count(rejection, Instant::now()) {
            rejected(&rejection, times);
        }
    }
}

impl EventListener for LogListener {
    fn interest(&self) -> EventKinds {
        let servers = EventKinds::SERVERS.union(EventKinds::LISTINGS).union(EventKinds::SIGN_INS);
        servers.union(EventKinds::DENIALS).union(EventKinds::APPROVALS).union(EventKinds::PROGRAM)
    }

    fn on_event(&self, event: Event<'_>) {
        match event {
            Event::ServerStarted(server, listing) => {
                let tools = listing.tools.len();
                tracing::info!(server = server.label, tools, "server is ready");
            }
            Event::DefinitionsChanged(server, changed) => {
                let server = &server.label;
                for DefinitionChange { word, name, members, before, after, suppressed } in changed {
                    let members = members.join(", ");
                    let suppressed = (*suppressed > 0).then_some(suppressed);
                    tracing::warn!(
                        server,
                        members,
                        before,
                        after,
                        suppressed,
                        "the definition of {word} `{name}` changed"
                    );
                }
            }
            Event::DefinitionsDrifted(drift) => drifted(drift),
            Event::ServerFailed(server, reason) => {
                let server = &server.label;
                tracing::warn!(server, "server failed to start: {reason}");
            }
            Event::ServerDied(server, cause) => {
                tracing::warn!(server = server.label, "server exited unexpectedly: {cause}");
            }
            Event::ServerUnreachable(server, Some(why)) => {
                tracing::warn!(server = server.label, "{why}");
            }
            Event::ServerUnreachable(server, None) => {
                tracing::info!(server = server.label, "server is reachable again");
            }
            Event::ServerStopped(server, why) if server.was_ready => stopped(&server.label, why),
            Event::AccessDenied(denied, address) => {
                let owner = QuotaOwner::new(denied.agent.as_ref(), address);
                self.reject(owner, RejectionCause::Denied(denied.reason));
            }
            Event::LimitReached(reached) => {
                self.reject(reached.owner.clone(), RejectionCause::Limit(reached.quota));
            }
            Event::SignIn(login, change) => {
                let SignInContext { server, account, why } = login;
                match change {
                    SignInChange::SignedIn => tracing::info!(server, account, "signed in"),
                    SignInChange::Renewed => {
                        tracing::debug!(server, account, "access token renewed");
                    }
                    SignInChange::Required => {
                        tracing::info!(server, account, "sign-in required: {why}");
                    }
                    SignInChange::SignedOut => tracing::info!(server, account, "signed out"),
                }
            }
            Event::ApprovalRequested(call) => {
                let (id, agent) = (call.id, shown_agent(call.agent));
                tracing::info!(
                    id,
                    agent,
                    "a call waits for an approval: run `mcp-workbench approvals`"
                );
            }
            // The client has shown its own question.
            Event::ApprovalEnded(call, outcome, by) if !call.id.is_empty() => {
                let (id, agent, outcome) = (call.id, shown_agent(call.agent), outcome.as_str());
                let operator = shown_agent(by.and_then(Approver::operator));
                let by = by.map(Approver::as_str);
                tracing::info!(id, agent, by, operator, "approval of a call: {outcome}");
            }
            Event::SessionAffinityLost(how) => tracing::warn!(
                "the load balancer does not keep sessions on one replica: {how}; enable session affinity"
            ),
            Event::Serving(address) => tracing::info!("serving MCP at {address}"),
            Event::Reloaded { changes, .. } => {
                tracing::info!("configuration reloaded: {changes}");
            }
            Event::ReloadPending { changes, difference } => tracing::warn!(
                "the configuration changed access rules, server launches or authentication; apply \
                 it with `mcp-workbench reload`, SIGHUP or a restart ({changes})\n{difference}"
            ),
            Event::ConfigUnchanged => tracing::info!("the configuration has not changed"),
            Event::ReloadRefused(error) => tracing::error!(
                "configuration not reloaded, the previous one stays active: {error}"
            ),
            Event::CertificateLoaded(_) => {
                tracing::info!("TLS certificates loaded for new connections");
            }
            Event::CertificateRefused(error) => tracing::error!(
                "TLS certificates not reloaded, the previous ones stay in use: {error}"
            ),
            _ => {}
        }
    }
}

fn shown_agent(agent: Option<&AgentName>) -> Option<String> {
    agent.map(|agent| display_name(agent.as_str(), MAX_NAME))
}

/// Logs a rejection, or its repeats in the last minute. Contains no text from the request but the
/// authenticated name of an agent.
fn rejected(rejection: &Rejection, times: u64) {
    let (agent, address, server) = match &rejection.who {
        Some(QuotaOwner::Agent(agent)) => {
            (Some(display_name(agent.as_str(), MAX_NAME)), None, None)
        }
        Some(QuotaOwner::Address(address)) => (None, Some(tracing::field::display(address)), None),
        Some(QuotaOwner::Server(at)) => {
            (None, None, Some(display_name(&format!("{}/{}", at.toolbox, at.server), MAX_NAME)))
        }
        Some(QuotaOwner::Local) | None => (None, None, None),
    };
    let times = (times > 1).then_some(times);
    let reason = match rejection.cause {
        RejectionCause::Limit(quota) => {
            let quota = quota.as_str();
            return tracing::warn!(agent, address, server, quota, times, "limit reached");
        }
        RejectionCause::Denied(reason) => reason,
    };
    let (why, reason) = (reason.describe(), reason.as_str());
    // Clients with OAuth send their first request without a token.
    if rejection.cause == RejectionCause::Denied(AccessDenialReason::NoToken) {
        tracing::info!(agent, address, reason, times, "access denied: {why}");
    } else {
        tracing::warn!(agent, address, reason, times, "access denied: {why}");
    }
}

fn stopped(server: &str, why: ServerStopReason) {
    match why {
        ServerStopReason::Idle => tracing::info!(server, "stopped after the idle timeout"),
        ServerStopReason::ConnectionLost => {
            tracing::info!(server, "connection closed while idle; the next use reconnects");
        }
        ServerStopReason::RemovedFromConfig => {
            tracing::info!(server, "stopped: removed from the configuration");
        }
        ServerStopReason::NoUsersLeft => {
            tracing::info!(server, "stopped: no agent can use it any longer");
        }
        ServerStopReason::UserRequest => tracing::info!(server, "stopped by request"),
        ServerStopReason::Renewal | ServerStopReason::Shutdown => {}
    }
}

/// Logs the differences from the lock, and the commands that show and accept them.
fn drifted(event: DriftEvent<'_>) {
    let DriftEvent { server: at, drift: found, action, accept_command: accept } = event;
    let server = format!("{}/{}", at.toolbox, at.server);
    for one in found.iter().take(MAX_DRIFTED) {
        tracing::warn!(server, action, "differs from `workbench.lock`: {one}");
    }
    let more = found.len().saturating_sub(MAX_DRIFTED);
    if more > 0 {
        tracing::warn!(server, "{more} more definitions differ from `workbench.lock`");
    }
    tracing::warn!(server, "review with `mcp-workbench lock --diff`, accept with `{accept}`");
}
