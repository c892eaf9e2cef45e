//! The listener that writes events to the log.

use crate::catalog::DefinitionChange;
use crate::name::AgentName;
use crate::telemetry::event::{
    AccessDenial, AccessDenialReason, DriftEvent, Event, EventKinds, ServerStopReason,
    SignInChange, SignInContext,
};
use crate::telemetry::event_bus::EventListener;

/// Maximum length of a logged agent name, in characters.
const MAX_NAME: usize = 100;
/// Maximum number of drifted definitions logged per listing.
const MAX_DRIFTED: usize = 20;

/// The log target of events, for filters.
pub const TARGET: &str = module_path!();

pub(crate) struct LogListener;

impl EventListener for LogListener {
    fn interest(&self) -> EventKinds {
        let servers = EventKinds::SERVERS.union(EventKinds::LISTINGS).union(EventKinds::SIGN_INS);
        servers.union(EventKinds::DENIALS).union(EventKinds::PROGRAM)
    }

    fn on_event(&self, event: Event<'_>) {
        match event {
            Event::ServerStarted(server, listing) => {
                let tools = listing.tools.len();
                tracing::info!(server = server.label, tools, "the server is ready");
            }
            Event::DefinitionsChanged(server, changed) => {
                let server = &server.label;
                for DefinitionChange { word, name, members, before, after, suppressed: untold } in
                    changed
                {
                    let members = members.join(", ");
                    let untold = (*untold > 0).then_some(untold);
                    tracing::warn!(
                        server,
                        members,
                        before,
                        after,
                        untold,
                        "the definition of {word} `{name}` has changed"
                    );
                }
            }
            Event::DefinitionsDrifted(drift) => drifted(drift),
            Event::ServerFailed(server, reason) => {
                let server = &server.label;
                tracing::warn!(server, "the server could not be started: {reason}");
            }
            Event::ServerDied(server, cause) => {
                tracing::warn!(server = server.label, "the server ended: {cause}");
            }
            Event::ServerUnreachable(server, Some(why)) => {
                tracing::warn!(server = server.label, "{why}");
            }
            Event::ServerUnreachable(server, None) => {
                tracing::info!(server = server.label, "it can be reached again");
            }
            Event::ServerStopped(server, why) if server.was_ready => {
                let server = &server.label;
                match why {
                    ServerStopReason::Idle => tracing::info!(server, "stopped, having been idle"),
                    ServerStopReason::ConnectionLost => {
                        let what = "its connection has ended while it was not in use; the next use";
                        tracing::info!(server, "{what} connects again");
                    }
                    ServerStopReason::RemovedFromConfig => {
                        tracing::info!(server, "stopped, being in use no more");
                    }
                    ServerStopReason::NoUsersLeft => {
                        tracing::info!(server, "stopped, for nobody needs it any more");
                    }
                    ServerStopReason::UserRequest => {
                        tracing::info!(server, "stopped, as its user wanted");
                    }
                    ServerStopReason::Renewal | ServerStopReason::Shutdown => {}
                }
            }
            // Other denials are not logged: there can be any number, and each response gives the
            // reason.
            Event::AccessDenied(
                AccessDenial { agent: Some(agent), why: AccessDenialReason::NoRules },
                _,
            ) => {
                tracing::warn!(
                    agent = cut(agent),
                    "refused: `agentPolicies` has no such agent, and there is no `defaultPolicy`"
                );
            }
            Event::SignIn(login, change) => {
                let SignInContext { server, account, why } = login;
                match change {
                    SignInChange::SignedIn => tracing::info!(server, account, "signed in"),
                    SignInChange::Renewed => tracing::debug!(server, account, "its token is new"),
                    SignInChange::Required => {
                        tracing::info!(server, account, "it wants a sign-in: {why}");
                    }
                    SignInChange::SignedOut => tracing::info!(server, account, "signed out"),
                }
            }
            Event::SessionAffinityLost(how) => tracing::warn!(
                "the proxy sends one session to several replicas ({how}): see docs/replicas.md"
            ),
            Event::Serving(address) => tracing::info!("serving MCP at {address}"),
            Event::Reloaded { changes, .. } => {
                tracing::info!("the configuration was read anew: {changes}");
            }
            Event::ReloadPending { changes, difference } => tracing::warn!(
                "the configuration has changed in what agents may do, what is launched or who may \
                 ask, and waits: `mcp-workbench reload`, SIGHUP or a restart takes it over \
                 ({changes})\n{difference}"
            ),
            Event::ReloadRefused(error) => tracing::error!(
                "the configuration is not read anew, and what was served goes on: {error}"
            ),
            Event::CertificateLoaded(_) => {
                tracing::info!("the certificates for TLS were read, and are shown from now on");
            }
            Event::CertificateRefused(error) => tracing::error!(
                "the certificates for TLS are not taken over, and those from before go on: {error}"
            ),
            _ => {}
        }
    }
}

fn cut(agent: &AgentName) -> String {
    agent.as_str().chars().take(MAX_NAME).collect()
}

/// Logs the differences from the lock, and the commands that show and accept them.
fn drifted(
    DriftEvent { server: at, drift: found, action: becomes, accept_command: accept }: DriftEvent<
        '_,
    >,
) {
    let server = format!("{}/{}", at.toolbox, at.server);
    for one in found.iter().take(MAX_DRIFTED) {
        tracing::warn!(server, definitions = becomes, "not as `workbench.lock` has it: {one}");
    }
    let more = found.len().saturating_sub(MAX_DRIFTED);
    if more > 0 {
        tracing::warn!(server, "{more} more are not as `workbench.lock` has them");
    }
    tracing::warn!(server, "`mcp-workbench lock --diff` shows it, `{accept}` takes it over");
}
