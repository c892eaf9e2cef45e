//! Creates sessions, and restores them from records: of another process, or to test that a record
//! is complete.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::exposure::{ListMutability, ToolMode};
use crate::frontend::AppState;
use crate::frontend::era::RequestMeta;
use crate::frontend::primitives::subscribe_at_first;
use crate::frontend::session::ownership::RecordOwnership;
use crate::frontend::session::push::forward_events;
use crate::frontend::session::runtime::SessionRuntime;
use crate::frontend::session::state::SessionState;
use crate::frontend::session::{AgentSession, CurrentSession};
use crate::frontend::shown_lists::ListChanges;
use crate::frontend::{lists, name_resolution};
use mcp_workbench_core::backend::RpcOutcome;
use mcp_workbench_core::gateway::{Caller, CallerQuota, GatewayLimitError, LogLevel};
use mcp_workbench_core::state::{
    ListDigests, ListState, RecordKey, SessionKey, SessionLease, SessionRecord, StateRecord,
    round_trip,
};
use mcp_workbench_wire::agent::Notifier;
use mcp_workbench_wire::json::RawJson;

/// Time to wait for servers of opened toolboxes to be listed after a takeover.
const LISTING_TIMEOUT: Duration = Duration::from_secs(2);

/// Creates a session. Without a `notifier`, the agent can't receive messages outside of
/// requests. Without a `key`, no record is saved.
pub fn create(
    app: &AppState,
    caller: Caller,
    quota: Arc<CallerQuota>,
    notifier: Option<Notifier>,
    key: Option<SessionKey>,
) -> Arc<AgentSession> {
    let tenure = match &key {
        Some(_) => SessionLease { owner: app.replica.to_string(), epoch: 0 },
        None => SessionLease::default(),
    };
    let ownership = RecordOwnership::new(app.gateways.store(), key, tenure);
    let none_lost = BTreeSet::new();
    let (live, events) = SessionRuntime::new(app, &caller, quota, notifier, ownership, none_lost);
    let mode = app.gateways.mode(&caller);
    let current = live.notifier.is_some().then(CurrentSession::default);
    let session = AgentSession::with(live, current, caller, mode, SessionState::default());
    if let (Some(notifier), Some(current)) = (&session.live.notifier, &session.current) {
        let (notifier, current) = (notifier.clone(), Arc::clone(current));
        session.spawn(forward_events(notifier, current, events));
    }
    session
}

/// Restores a session from `record`, which names this process as the owner already. Until
/// [`RecordOwnership::commit_takeover`], dropping the session keeps its record.
pub async fn adopt(
    app: &AppState,
    quota: Arc<CallerQuota>,
    notifier: Notifier,
    key: SessionKey,
    record: &SessionRecord,
) -> Result<Arc<AgentSession>, GatewayLimitError> {
    let caller = caller_of(record);
    let (tenure, lost) = (record.tenure.clone(), record.isolated.clone());
    let ownership = RecordOwnership::new(app.gateways.store(), Some(key), tenure);
    ownership.keep_record(true);
    let connected = Some(notifier.clone());
    let (live, events) = SessionRuntime::new(app, &caller, quota, connected, ownership, lost);
    let current = CurrentSession::default();
    let session = restore(&live, Some(Arc::clone(&current)), record).await?;
    session.spawn(forward_events(notifier, current, events));
    if let (Some(guest), Some(introduction)) = (&live.guest, &record.introduction) {
        guest.report_client(&introduction.client.name, &introduction.client.version);
        guest.report_adoption(record.tenure.epoch);
    }
    notify_missed_changes(&session).await;
    Ok(session)
}

fn caller_of(record: &SessionRecord) -> Caller {
    let (agent, toolbox) = (record.agent.clone(), record.toolbox.clone());
    Caller { agent, toolbox, subject: record.subject.clone() }
}

/// Notifies the agent of lists that differ from the ones last given, by any process.
async fn notify_missed_changes(session: &AgentSession) {
    let exposure = session.exposure(&RequestMeta::legacy());
    let gateway = exposure.gateway();
    gateway.views().wait_for_stored_listings().await;
    let (chosen, _) = session.chosen();
    if exposure.starts_all_servers() {
        session.start_unlisted_servers(&exposure, &chosen.opened, &session.live.agent);
    } else {
        gateway.startup().list_within(&chosen.opened, &session.live.agent, LISTING_TIMEOUT).await;
    }
    session.refresh(&exposure, None).await;
    let digests = session.state(|state| state.digests.clone());
    let differs = |given: Option<String>, now: &dyn Fn() -> Vec<RawJson>| {
        given.is_some_and(|given| given != ListDigests::digest(&now()))
    };
    let mutability = ListMutability::Mutable;
    let changed = ListChanges {
        tools: differs(digests.tools, &|| exposure.tools(mutability, &chosen)),
        resources: differs(digests.resources, &|| {
            lists::all_resources(&exposure, mutability, &chosen)
        }),
        prompts: differs(digests.prompts, &|| lists::all_prompts(&exposure, mutability, &chosen)),
    };
    session.state(|state| state.version += u64::from(changed.tools));
    session.notify_list_changes(changed).await;
}

/// Replaces the session by one restored from its record, to test that the record is complete.
/// Returns the same session without a record. No request may be in flight.
pub async fn restored_copy(session: &Arc<AgentSession>) -> Arc<AgentSession> {
    let (Some(key), Some(introduced)) = (session.key(), session.introduced.get()) else {
        return Arc::clone(session);
    };
    let meta = RequestMeta::legacy();
    let exposure = session.exposure(&meta);
    // Flush pending list changes, which the restored session can't detect.
    session.refresh(&exposure, None).await;
    let found = session.app.gateways.store().get(&RecordKey::Session(key.clone())).await;
    let Some(StateRecord::Session(record)) = found else {
        tracing::error!("rehearsal: a session has no record");
        return Arc::clone(session);
    };
    introduced.replaced.cancel();
    // Clear the state that must come from the record.
    session.live.agent.set_log_level(LogLevel::UNSET);
    for uri in session.state(|state| std::mem::take(&mut state.subscriptions)) {
        for (server, own) in name_resolution::all_resource_owners(&exposure, &uri) {
            let gateway = exposure.gateway();
            let _gone = gateway.calls().unsubscribe(&server, &own, &session.live.agent).await;
        }
    }
    match restore(&session.live, session.current.clone(), &record).await {
        Ok(restored) => {
            tracing::info!("restored a session from its record");
            restored
        }
        Err(error) => {
            tracing::error!(%error, "rehearsal: failed to restore a session");
            Arc::clone(session)
        }
    }
}

/// Restores a session around an existing runtime part. The record grants no access: the current
/// configuration decides which toolboxes and servers the caller can use.
async fn restore(
    live: &Arc<SessionRuntime>,
    current: Option<CurrentSession>,
    record: &SessionRecord,
) -> Result<Arc<AgentSession>, GatewayLimitError> {
    let caller = caller_of(record);
    let mode = ToolMode::from_word(&record.mode);
    let mode = mode.unwrap_or_else(|| live.app.gateways.mode(&caller));
    let state = SessionState {
        chosen: Arc::new(record.chosen.clone()),
        subscriptions: record.subscriptions.clone(),
        digests: record.lists.digests.clone(),
        moves: record.moves.clone(),
        ..SessionState::default()
    };
    let session = AgentSession::with(Arc::clone(live), current, caller, mode, state);
    if let Some(introduction) = &record.introduction {
        session.attach_gateway(introduction.clone(), true)?;
    }
    let meta = RequestMeta::legacy();
    let exposure = session.exposure(&meta);
    let ListState { is_given, is_current, is_ignored, .. } = record.lists;
    session.state(|state| {
        let chosen = Arc::make_mut(&mut state.chosen);
        chosen
            .opened
            .retain(|toolbox| exposure.gateway().scope().toolbox(toolbox.as_str()).is_ok());
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
        let found =
            name_resolution::resource_owners(&session, &exposure, &meta, uri).unwrap_or_default();
        let subscriber = (&presence, session.caller());
        let again = subscribe_at_first(exposure.gateway(), found, uri, subscriber).await;
        if again.is_some_and(|again| !matches!(again, Ok(RpcOutcome::Result(_)))) {
            let rehearsal = if round_trip::is_on() { "rehearsal: " } else { "" };
            tracing::warn!("{rehearsal}failed to restore a subscription");
        }
    }
    Ok(session)
}
