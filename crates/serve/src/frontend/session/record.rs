//! The record of a session, and a session made of its record.

use std::sync::Arc;

use crate::backend::Outcome;
use crate::exposure::{Surface, ToolMode};
use crate::frontend::era::RequestMeta;
use crate::frontend::primitives::subscribe_at_first;
use crate::frontend::resolve;
use crate::frontend::session::live::Live;
use crate::frontend::session::{Current, Session, State};
use crate::gateway::{Caller, Crowded, LogLevel};
use crate::state::{Key, Lists, Record, Room, SessionKey, rehearsal};

impl Session {
    /// The key of its record; `None`: it is there for one request.
    pub(crate) fn key(&self) -> Option<&SessionKey> {
        self.live.key.as_ref()
    }

    /// Puts a record of the session into the store, if it has changed.
    pub(crate) async fn save(&self) {
        let Some(key) = self.key() else { return };
        let Some(record) = self.changed_record() else { return };
        let store = self.app.gateways.store();
        let (place, record) = (Key::Session(key.clone()), Record::Session(record));
        let is_ours = store.put(place, record, Room::ENDLESS).await;
        self.live.is_confirmed(is_ours);
        if self.live.ended.is_cancelled() {
            self.live.forget();
        }
    }

    /// The record as it is now, unless the one that was put last is the same.
    fn changed_record(&self) -> Option<Arc<crate::state::Session>> {
        let introduced = self.introduced.get();
        let (isolated, configuration) = match introduced {
            Some(introduced) if self.live.is_shared() => {
                let apart = introduced.gateway.borrow().kept_apart_for(&self.live.presence);
                let lost = self.live.presence.lost();
                (
                    apart.into_iter().chain(lost).collect(),
                    self.app.gateways.fingerprint().to_string(),
                )
            }
            _ => Default::default(),
        };
        self.state(|state| {
            let record = crate::state::Session {
                agent: self.caller.agent.clone(),
                toolbox: self.caller.toolbox.clone(),
                mode: self.mode.as_str().to_owned(),
                introduction: introduced.map(|introduced| introduced.introduction.clone()),
                chosen: crate::state::Chosen::clone(&state.chosen),
                lists: Lists {
                    is_given: state.shown.is_given(),
                    is_current: self.listed.has(state.version),
                    is_ignored: state.ignored.is_some(),
                    given: state.given.clone(),
                },
                subscriptions: state.subscriptions.clone(),
                log_level: self.live.presence.log().word().map(str::to_owned),
                isolated,
                configuration,
                moves: state.moves.clone(),
                tenure: self.live.tenure.clone(),
            };
            if state.saved.as_deref() == Some(&record) {
                return None;
            }
            let record = Arc::new(record);
            state.saved = Some(Arc::clone(&record));
            Some(record)
        })
    }

    /// Takes note that the agent has subscribed to a resource, or takes that back.
    pub(crate) async fn has_subscribed(&self, uri: &str, is_on: bool) {
        self.state(|state| {
            if is_on {
                state.subscriptions.insert(uri.to_owned());
            } else {
                state.subscriptions.remove(uri);
            }
        });
        self.save().await;
    }

    /// Returns a session that is made of the record of this one and goes on in its place, with what
    /// hangs beside; this one, if it has no record yet. It is for rehearsals: nothing may be under way.
    pub(crate) async fn renewed(self: &Arc<Self>) -> Arc<Self> {
        let (Some(key), Some(introduced)) = (self.key(), self.introduced.get()) else {
            return Arc::clone(self);
        };
        let meta = RequestMeta::legacy();
        let exposure = self.exposure(&meta);
        // What is on its way is told by whoever knows of it.
        self.refresh(&exposure, None).await;
        let found = self.app.gateways.store().get(&Key::Session(key.clone())).await;
        let Some(Record::Session(record)) = found else {
            tracing::error!("rehearsal: a session has no record");
            return Arc::clone(self);
        };
        introduced.is_replaced.cancel();
        // What is in the record comes out of it alone.
        self.live.presence.set_log(LogLevel::UNSAID);
        for uri in self.state(|state| std::mem::take(&mut state.subscriptions)) {
            for (server, own) in resolve::all_known(&exposure, &uri) {
                let gateway = exposure.gateway();
                let _gone = gateway.unsubscribe(&server, &own, &self.live.presence).await;
            }
        }
        match Self::resumed(&self.live, self.current.clone(), &record).await {
            Ok(session) => {
                tracing::info!("a session goes on from its record");
                session
            }
            Err(error) => {
                tracing::error!(%error, "rehearsal: a session cannot go on");
                Arc::clone(self)
            }
        }
    }

    /// Returns a session that is made of a record, with what hangs beside. The record grants nothing: what
    /// there is, and who may use it, is as the configuration says now.
    pub(super) async fn resumed(
        live: &Arc<Live>,
        current: Option<Current>,
        record: &crate::state::Session,
    ) -> Result<Arc<Self>, Crowded> {
        let caller = Caller { agent: record.agent.clone(), toolbox: record.toolbox.clone() };
        let mode = ToolMode::from_word(&record.mode);
        let mode = mode.unwrap_or_else(|| live.app.gateways.mode(&caller));
        let state = State {
            chosen: Arc::new(record.chosen.clone()),
            subscriptions: record.subscriptions.clone(),
            given: record.lists.given.clone(),
            moves: record.moves.clone(),
            ..State::default()
        };
        let session = Self::with(Arc::clone(live), current, caller, mode, state);
        if let Some(introduction) = &record.introduction {
            session.follow(introduction.clone(), true)?;
        }
        let meta = RequestMeta::legacy();
        let exposure = session.exposure(&meta);
        let Lists { is_given, is_current, is_ignored, .. } = record.lists;
        session.state(|state| {
            let chosen = Arc::make_mut(&mut state.chosen);
            chosen.opened.retain(|toolbox| exposure.gateway().toolbox(toolbox.as_str()).is_ok());
            if is_given {
                let tools = exposure.tools(Surface::Changing, &state.chosen);
                state.shown.give(&exposure, &tools);
            }
            if is_current {
                session.listed.note(state.version);
            }
            state.ignored = is_ignored.then_some(state.version);
        });
        let presence = session.presence(&meta);
        let level = record.log_level.as_deref().and_then(LogLevel::from_word);
        presence.set_log(level.unwrap_or(LogLevel::UNSAID));
        for uri in &record.subscriptions {
            let found = resolve::known(&session, &exposure, &meta, uri).unwrap_or_default();
            let subscriber = (&presence, session.caller());
            let again = subscribe_at_first(exposure.gateway(), found, uri, subscriber).await;
            if again.is_some_and(|again| !matches!(again, Ok(Outcome::Result(_)))) {
                let rehearsal = if rehearsal::is_on() { "rehearsal: " } else { "" };
                tracing::warn!("{rehearsal}a subscription does not go on");
            }
        }
        Ok(session)
    }
}
