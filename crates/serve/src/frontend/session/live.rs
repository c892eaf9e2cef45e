//! The live part of a session, which cannot be written down: the ways to its agent and to its servers.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::backend::events;
use crate::frontend::AppState;
use crate::gateway::{Caller, Presence, Purse, Tie};
use crate::observe::Guest;
use crate::state::SessionKey;
use crate::wire::agent::Notifier;

/// How much may wait for an agent that does not take what it is told.
const EVENTS: usize = 256;

/// The live part of a session, which stays when another session takes its place.
pub(crate) struct Live {
    pub(super) app: AppState,
    /// The key of its record; `None`: it is there for one request.
    pub(super) key: Option<SessionKey>,
    /// The agent as servers can reach it.
    pub(super) presence: Presence,
    /// The counts of everything that the agent holds.
    pub(super) purse: Arc<Purse>,
    pub(super) notifier: Option<Notifier>,
    /// The count of what the agent is given, if it is there for longer than a request.
    pub(super) guest: Option<Guest>,
    /// Cancelled when nothing more is read of the agent.
    pub(super) is_leaving: CancellationToken,
    pub(super) ended: CancellationToken,
}

impl Live {
    /// Returns what a new session needs, and what servers tell its agent.
    pub(super) fn new(
        app: &AppState,
        caller: &Caller,
        purse: Arc<Purse>,
        notifier: Option<Notifier>,
        key: Option<SessionKey>,
    ) -> (Arc<Self>, events::Receiver) {
        let (standing, events) = events::channel(EVENTS);
        let tie = match (&notifier, &caller.agent) {
            (Some(_), _) => Tie::Session,
            (None, Some(_)) => Tie::Name,
            (None, None) => Tie::Nothing,
        };
        let presence = Presence::new(notifier.is_some().then_some(standing));
        let presence = presence.tied_by(tie).named(caller.agent.clone());
        let presence = presence.paying_with(Arc::clone(&purse));
        let guest = notifier.is_some().then(|| app.gateways.welcome(caller, presence.id));
        let live = Self {
            app: app.clone(),
            key,
            presence,
            purse,
            notifier,
            guest,
            is_leaving: CancellationToken::new(),
            ended: CancellationToken::new(),
        };
        (Arc::new(live), events)
    }

    /// Ends the session: what was for this agent alone ends with it.
    pub(super) fn end(&self) {
        self.is_leaving.cancel();
        self.ended.cancel();
        self.app.gateways.leave(self.presence.id);
        if let Some(key) = &self.key {
            self.app.gateways.store().end(key);
        }
    }
}

/// A session that nobody ends, such as that of a single request, ends when it is not needed any
/// more.
impl Drop for Live {
    fn drop(&mut self) {
        self.end();
    }
}
