//! Saves sessions to the state store and restores them.

use std::sync::Arc;

use crate::backend::RpcOutcome;
use crate::exposure::{ListMutability, ToolMode};
use crate::frontend::era::RequestMeta;
use crate::frontend::name_resolution;
use crate::frontend::primitives::subscribe_at_first;
use crate::frontend::session::runtime::SessionRuntime;
use crate::frontend::session::{AgentSession, CurrentSession, SessionState};
use crate::gateway::{Caller, GatewayLimitError, LogLevel};
use crate::state::{Capacity, ListState, RecordKey, SessionKey, StateRecord, round_trip};

impl AgentSession {
    /// `None` if the session lasts for one request.
    pub(crate) fn key(&self) -> Option<&SessionKey> {
        self.live.key.as_ref()
    }

    pub(crate) async fn save(&self) {
        let Some(key) = self.key() else { return };
        let Some(record) = self.changed_record() else { return };
        let store = self.app.gateways.store();
        let (place, record) = (RecordKey::Session(key.clone()), StateRecord::Session(record));
        let put = store.put(place, record, Capacity::UNLIMITED).await;
        self.live.record_ownership(put.is_stored());
        if self.live.ended.is_cancelled() {
            self.live.remove_record();
        }
    }

    fn changed_record(&self) -> Option<Arc<crate::state::SessionRecord>> {
        let introduced = self.introduced.get();
        let (isolated, configuration) = match introduced {
            Some(introduced) if self.live.is_shared() => {
                let apart = introduced.gateway.borrow().isolated_servers_of(&self.live.agent);
                let lost = self.live.agent.lost();
                (
                    apart.into_iter().chain(lost).collect(),
                    self.app.gateways.fingerprint().to_string(),
                )
            }
            _ => Default::default(),
        };
        self.state(|state| {
            let record = crate::state::SessionRecord {
                agent: self.caller.agent.clone(),
                toolbox: self.caller.toolbox.clone(),
                mode: self.mode.as_str().to_owned(),
                introduction: introduced.map(|introduced| introduced.introduction.clone()),
                chosen: crate::state::SessionChoices::clone(&state.chosen),
                lists: ListState {
                    is_given: state.shown.has_given_tools(),
                    is_current: self.listed.has(state.version),
                    is_ignored: state.ignored.is_some(),
                    digests: state.digests.clone(),
                },
                subscriptions: state.subscriptions.clone(),
                log_level: self.live.agent.log_level().as_str().map(str::to_owned),
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

    pub(crate) async fn record_subscription(&self, uri: &str, is_on: bool) {
        self.state(|state| {
            if is_on {
                state.subscriptions.insert(uri.into());
            } else {
                state.subscriptions.remove(uri);
            }
        });
        self.save().await;
    }

    /// Replaces the session by one restored from its record, to test that the record is complete.
    /// Returns `self` without a record. No request may be in flight.
    pub(crate) async fn restored_copy(self: &Arc<Self>) -> Arc<Self> {
        let (Some(key), Some(introduced)) = (self.key(), self.introduced.get()) else {
            return Arc::clone(self);
        };
        let meta = RequestMeta::legacy();
        let exposure = self.exposure(&meta);
        // Flush pending list changes, which the restored session can't detect.
        self.refresh(&exposure, None).await;
        let found = self.app.gateways.store().get(&RecordKey::Session(key.clone())).await;
        let Some(StateRecord::Session(record)) = found else {
            tracing::error!("rehearsal: a session has no record");
            return Arc::clone(self);
        };
        introduced.replaced.cancel();
        // Clear the state that must come from the record.
        self.live.agent.set_log_level(LogLevel::UNSET);
        for uri in self.state(|state| std::mem::take(&mut state.subscriptions)) {
            for (server, own) in name_resolution::all_resource_owners(&exposure, &uri) {
                let gateway = exposure.gateway();
                let _gone = gateway.unsubscribe(&server, &own, &self.live.agent).await;
            }
        }
        match Self::restore(&self.live, self.current.clone(), &record).await {
            Ok(session) => {
                tracing::info!("restored a session from its record");
                session
            }
            Err(error) => {
                tracing::error!(%error, "rehearsal: failed to restore a session");
                Arc::clone(self)
            }
        }
    }

    /// Restores a session around an existing runtime part. The record grants no access: the current
    /// configuration decides which toolboxes and servers the caller can use.
    pub(super) async fn restore(
        live: &Arc<SessionRuntime>,
        current: Option<CurrentSession>,
        record: &crate::state::SessionRecord,
    ) -> Result<Arc<Self>, GatewayLimitError> {
        let caller = Caller { agent: record.agent.clone(), toolbox: record.toolbox.clone() };
        let mode = ToolMode::from_word(&record.mode);
        let mode = mode.unwrap_or_else(|| live.app.gateways.mode(&caller));
        let state = SessionState {
            chosen: Arc::new(record.chosen.clone()),
            subscriptions: record.subscriptions.clone(),
            digests: record.lists.digests.clone(),
            moves: record.moves.clone(),
            ..SessionState::default()
        };
        let session = Self::with(Arc::clone(live), current, caller, mode, state);
        if let Some(introduction) = &record.introduction {
            session.attach_gateway(introduction.clone(), true)?;
        }
        let meta = RequestMeta::legacy();
        let exposure = session.exposure(&meta);
        let ListState { is_given, is_current, is_ignored, .. } = record.lists;
        session.state(|state| {
            let chosen = Arc::make_mut(&mut state.chosen);
            chosen.opened.retain(|toolbox| exposure.gateway().toolbox(toolbox.as_str()).is_ok());
            if is_given {
                let tools = exposure.tools(ListMutability::Mutable, &state.chosen);
                state.shown.give(&exposure, &tools);
            }
            if is_current {
                session.listed.note(state.version);
            }
            state.ignored = is_ignored.then_some(state.version);
        });
        let presence = session.presence(&meta);
        let level = record.log_level.as_deref().and_then(LogLevel::from_word);
        presence.set_log_level(level.unwrap_or(LogLevel::UNSET));
        for uri in &record.subscriptions {
            let found = name_resolution::resource_owners(&session, &exposure, &meta, uri)
                .unwrap_or_default();
            let subscriber = (&presence, session.caller());
            let again = subscribe_at_first(exposure.gateway(), found, uri, subscriber).await;
            if again.is_some_and(|again| !matches!(again, Ok(RpcOutcome::Result(_)))) {
                let rehearsal = if round_trip::is_on() { "rehearsal: " } else { "" };
                tracing::warn!("{rehearsal}failed to restore a subscription");
            }
        }
        Ok(session)
    }
}
