//! Takes over sessions from other processes, and detects that another process took one over.

use std::sync::Arc;
use std::time::Duration;

use crate::exposure::ListMutability;
use crate::frontend::AppState;
use crate::frontend::era::RequestMeta;
use crate::frontend::lists;
use crate::frontend::session::runtime::{RecordOwnership, SessionRuntime};
use crate::frontend::session::{AgentSession, CurrentSession};
use crate::frontend::shown_lists::ListChanges;
use crate::gateway::{CallerQuota, GatewayLimitError};
use crate::json::RawJson;
use crate::state::{Capacity, ListDigests, RecordKey, SessionKey, StateRecord};
use crate::wire::agent::Notifier;

pub(crate) const OWNERSHIP_TTL: Duration = Duration::from_secs(5);
/// Time to wait for servers of opened toolboxes to be listed after a takeover.
const LISTING_TIMEOUT: Duration = Duration::from_secs(2);

impl AgentSession {
    /// Restores a session from `record`, which names this process as the owner already. Until
    /// [`Self::commit_takeover`], dropping the session keeps its record.
    pub(crate) async fn adopt(
        app: &AppState,
        quota: Arc<CallerQuota>,
        notifier: Notifier,
        key: SessionKey,
        record: &crate::state::SessionRecord,
    ) -> Result<Arc<Self>, GatewayLimitError> {
        let caller =
            crate::gateway::Caller { agent: record.agent.clone(), toolbox: record.toolbox.clone() };
        let (tenure, lost) = (record.tenure.clone(), record.isolated.clone());
        let place = RecordOwnership { key, tenure, lost };
        let (live, events) =
            SessionRuntime::new(app, &caller, quota, Some(notifier.clone()), Some(place));
        live.outlive(true);
        let current = CurrentSession::default();
        let session = Self::restore(&live, Some(Arc::clone(&current)), record).await?;
        session.spawn(Self::tell_events(notifier, current, events));
        if let (Some(guest), Some(introduction)) = (&live.guest, &record.introduction) {
            guest.report_client(&introduction.client.name, &introduction.client.version);
            guest.report_adoption(record.tenure.epoch);
        }
        session.notify_missed_changes().await;
        Ok(session)
    }

    /// Commits the takeover: when the session ends from now on, its record is removed.
    pub(crate) fn commit_takeover(&self) {
        self.live.outlive(false);
    }

    /// Notifies the agent of lists that differ from the ones last given, by any process.
    async fn notify_missed_changes(&self) {
        let exposure = self.exposure(&RequestMeta::legacy());
        let gateway = exposure.gateway();
        gateway.wait_for_stored_listings().await;
        let (chosen, _) = self.chosen();
        if exposure.starts_all_servers() {
            self.start_unlisted_servers(&exposure, &chosen.opened, &self.live.agent);
        } else {
            gateway.list_within(&chosen.opened, &self.live.agent, LISTING_TIMEOUT).await;
        }
        self.refresh(&exposure, None).await;
        let digests = self.state(|state| state.digests.clone());
        let differs = |given: Option<String>, now: &dyn Fn() -> Vec<RawJson>| {
            given.is_some_and(|given| given != ListDigests::digest(&now()))
        };
        let mutability = ListMutability::Mutable;
        let changed = ListChanges {
            tools: differs(digests.tools, &|| exposure.tools(mutability, &chosen)),
            resources: differs(digests.resources, &|| {
                lists::all_resources(&exposure, mutability, &chosen)
            }),
            prompts: differs(digests.prompts, &|| {
                lists::all_prompts(&exposure, mutability, &chosen)
            }),
        };
        self.state(|state| state.version += u64::from(changed.tools));
        self.notify_list_changes(changed).await;
    }

    /// Records the digest of a list given to the agent, if another process could take the session
    /// over. Returns whether one could.
    pub(crate) fn record_list_given(
        &self,
        which: impl FnOnce(&mut ListDigests) -> &mut Option<String>,
        entries: &[RawJson],
    ) -> bool {
        let is_shared = self.live.is_shared();
        if is_shared {
            let digest = ListDigests::digest(entries);
            self.state(|state| *which(&mut state.digests) = Some(digest));
        }
        is_shared
    }

    /// Saves the record if the session may have isolated servers, whose state a takeover would
    /// lose.
    pub(crate) async fn save_if_isolated(&self) {
        let Some(introduced) = self.introduced.get().filter(|_| self.live.is_shared()) else {
            return;
        };
        let keeps_apart = introduced.gateway.borrow().has_isolated_servers();
        if keeps_apart {
            self.save().await;
        }
    }

    /// Marks the record as ended, so that no process can take the session over.
    pub(crate) async fn end_record(&self) {
        let Some(key) = self.key().filter(|_| self.live.is_shared()) else { return };
        let Some(ended) = crate::state::SessionRecord::ended(&self.live.tenure) else { return };
        let (key, ended) = (RecordKey::Session(key.clone()), StateRecord::Session(Arc::new(ended)));
        self.app.gateways.store().put(key, ended, Capacity::UNLIMITED).await;
        self.live.outlive(true);
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.live.tenure.epoch
    }

    /// `true` unless another process has taken the session over. Asks the state store if the last
    /// confirmation is older than 5 s.
    pub(crate) async fn confirm_ownership(&self) -> bool {
        self.confirm_ownership_within(OWNERSHIP_TTL).await
    }

    pub(crate) async fn confirm_ownership_within(&self, good_for: Duration) -> bool {
        let Some(key) = self.key().filter(|_| self.live.is_shared()) else { return true };
        if self.is_owned() && self.live.unconfirmed_for() >= good_for {
            let is_ours = self.app.gateways.store().renew_lease(key, &self.live.tenure).await;
            self.live.record_ownership(is_ours);
        }
        self.is_owned()
    }

    /// `true` unless a takeover is known. Doesn't ask the state store.
    pub(crate) fn is_owned(&self) -> bool {
        !self.live.ownership_lost.is_cancelled()
    }

    /// Resolves when another process takes the session over. `None` if none could.
    pub(crate) fn ownership_lost(&self) -> Option<impl Future<Output = ()> + Send + use<>> {
        self.live.is_shared().then(|| self.live.ownership_lost.clone().cancelled_owned())
    }

    /// Ends the session here. Its record stays if another process could take it over.
    pub(crate) fn release(&self) {
        if self.live.is_shared() {
            self.live.outlive(true);
        }
        self.end();
    }
}
