//! The log, as far as it tells of events.

use crate::catalog::ChangedDefinition;
use crate::name::AgentName;
use crate::observe::event::{
    DeniedAccess, DeniedFor, Drift, Event, Kinds, SignInChange, SignInContext, StoppedFor,
};
use crate::observe::listeners::Listener;

/// How much of an agent's name is repeated, in characters.
const MAX_NAME: usize = 100;
/// How many definitions of one listing that are not as the lock has them are told of.
const MAX_DRIFTED: usize = 20;

/// The target of its lines, for whoever wants fewer of them.
pub const TARGET: &str = module_path!();

/// The log, as somebody who hears of events.
pub(crate) struct Log;

impl Listener for Log {
    fn wants(&self) -> Kinds {
        let servers = Kinds::SERVERS.and(Kinds::LISTINGS).and(Kinds::SIGN_INS);
        servers.and(Kinds::DENIALS).and(Kinds::PROGRAM)
    }

    fn hear(&self, event: Event<'_>) {
        match event {
            Event::ServerStarted(server, listing) => {
                let tools = listing.tools.len();
                tracing::info!(server = server.label, tools, "the server is ready");
            }
            Event::DefinitionsChanged(server, changed) => {
                let server = &server.label;
                for ChangedDefinition { word, name, members, before, after, untold } in changed {
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
            Event::ServerAway(server, Some(why)) => {
                tracing::warn!(server = server.label, "{why}");
            }
            Event::ServerAway(server, None) => {
                tracing::info!(server = server.label, "it can be reached again");
            }
            Event::ServerStopped(server, why) if server.was_ready => {
                let server = &server.label;
                match why {
                    StoppedFor::Idle => tracing::info!(server, "stopped, having been idle"),
                    StoppedFor::Lost => {
                        let what = "its connection has ended while it was not in use; the next use";
                        tracing::info!(server, "{what} connects again");
                    }
                    StoppedFor::Dismissal => {
                        tracing::info!(server, "stopped, being in use no more");
                    }
                    StoppedFor::NoUse => {
                        tracing::info!(server, "stopped, for nobody needs it any more");
                    }
                    StoppedFor::Wish => tracing::info!(server, "stopped, as its user wanted"),
                    StoppedFor::Renewal | StoppedFor::Shutdown => {}
                }
            }
            // Of those whom nobody knows there may be any number, and each answer says why.
            Event::AccessDenied(
                DeniedAccess { agent: Some(agent), why: DeniedFor::NoRules },
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
                    SignInChange::Wanted => {
                        tracing::info!(server, account, "it wants a sign-in: {why}");
                    }
                    SignInChange::SignedOut => tracing::info!(server, account, "signed out"),
                }
            }
            Event::SessionsHop(how) => tracing::warn!(
                "the proxy sends one session to several replicas ({how}): see docs/replicas.md"
            ),
            Event::Serving(address) => tracing::info!("serving MCP at {address}"),
            Event::Reloaded { changes, .. } => {
                tracing::info!("the configuration was read anew: {changes}");
            }
            Event::ReloadHeld { changes, difference } => tracing::warn!(
                "the configuration has changed in what agents may do, what is launched or who may \
                 ask, and waits: `mcp-workbench reload`, SIGHUP or a restart takes it over \
                 ({changes})\n{difference}"
            ),
            Event::ReloadRefused(error) => tracing::error!(
                "the configuration is not read anew, and what was served goes on: {error}"
            ),
            Event::CertificateShown(_) => {
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

/// Says what is not as the lock has it, and what helps.
fn drifted(Drift { server: at, found, becomes, accept }: Drift<'_>) {
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
