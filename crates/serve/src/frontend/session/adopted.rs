//! Sessions that another process has begun and that go on here, and those that go on elsewhere.

use std::sync::Arc;
use std::time::Duration;

use crate::exposure::Surface;
use crate::frontend::AppState;
use crate::frontend::era::RequestMeta;
use crate::frontend::lists;
use crate::frontend::session::live::{Live, Place};
use crate::frontend::session::{Current, Session};
use crate::frontend::shown::Changed;
use crate::gateway::{Crowded, Purse};
use crate::raw::Raw;
use crate::state::{Key, Listings, Record, Room, SessionKey};
use crate::wire::agent::Notifier;

/// How long the store's word that a session is ours is good.
pub(crate) const GOOD_FOR: Duration = Duration::from_secs(5);
/// How long servers are waited for that are new to this process and whose tools the agent has been shown.
const PATIENCE: Duration = Duration::from_secs(2);

impl Session {
    /// Returns a session that goes on here from the record that another process has made of it and that
    /// says already that it is ours. Until it [`Self::stays`], nothing is lost where it is dropped.
    pub(crate) async fn adopted(
        app: &AppState,
        purse: Arc<Purse>,
        notifier: Notifier,
        key: SessionKey,
        record: &crate::state::Session,
    ) -> Result<Arc<Self>, Crowded> {
        let caller =
            crate::gateway::Caller { agent: record.agent.clone(), toolbox: record.toolbox.clone() };
        let (tenure, lost) = (record.tenure.clone(), record.isolated.clone());
        let place = Place { key, tenure, lost };
        let (live, events) = Live::new(app, &caller, purse, Some(notifier.clone()), Some(place));
        live.outlive(true);
        let current = Current::default();
        let session = Self::resumed(&live, Some(Arc::clone(&current)), record).await?;
        session.spawn(Self::tell_events(notifier, current, events));
        if let (Some(guest), Some(introduction)) = (&live.guest, &record.introduction) {
            guest.is_called(&introduction.client.name);
            guest.is_adopted(record.tenure.epoch);
        }
        session.catches_up().await;
        Ok(session)
    }

    /// Takes note that it has been taken in: where it ends from now on, it ends everywhere.
    pub(crate) fn stays(&self) {
        self.live.outlive(false);
    }

    /// Tells the agent of the lists that differ from those that it was given last, by whichever process.
    async fn catches_up(&self) {
        let exposure = self.exposure(&RequestMeta::legacy());
        let gateway = exposure.gateway();
        gateway.recalled().await;
        let (chosen, _) = self.chosen();
        if exposure.starts_everything() {
            self.start_new(&exposure, &chosen.opened, &self.live.presence);
        } else {
            gateway.list_soon(&chosen.opened, &self.live.presence, PATIENCE).await;
        }
        self.refresh(&exposure, None).await;
        let given = self.state(|state| state.given.clone());
        let differs = |given: Option<String>, now: &dyn Fn() -> Vec<Raw>| {
            given.is_some_and(|given| given != Listings::digest(&now()))
        };
        let surface = Surface::Changing;
        let changed = Changed {
            tools: differs(given.tools, &|| exposure.tools(surface, &chosen)),
            resources: differs(given.resources, &|| {
                lists::all_resources(&exposure, surface, &chosen)
            }),
            prompts: differs(given.prompts, &|| lists::all_prompts(&exposure, surface, &chosen)),
        };
        self.state(|state| state.version += u64::from(changed.tools));
        self.tell(changed).await;
    }

    /// Takes note of a list that the agent is given, where another process may go on with its session.
    /// Returns `true` if one may.
    pub(crate) fn has_given(
        &self,
        which: impl FnOnce(&mut Listings) -> &mut Option<String>,
        entries: &[Raw],
    ) -> bool {
        let is_shared = self.live.is_shared();
        if is_shared {
            let digest = Listings::digest(entries);
            self.state(|state| *which(&mut state.given) = Some(digest));
        }
        is_shared
    }

    /// Puts a record of the session, if a call may have given it a server of its own that another process
    /// would not have.
    pub(crate) async fn save_kept_apart(&self) {
        let Some(introduced) = self.introduced.get().filter(|_| self.live.is_shared()) else {
            return;
        };
        let keeps_apart = introduced.gateway.borrow().keeps_sessions_apart();
        if keeps_apart {
            self.save().await;
        }
    }

    /// Ends the record of the session, so that no other process goes on with it.
    pub(crate) async fn is_over(&self) {
        let Some(key) = self.key().filter(|_| self.live.is_shared()) else { return };
        let Some(ended) = crate::state::Session::ended(&self.live.tenure) else { return };
        let (key, ended) = (Key::Session(key.clone()), Record::Session(Arc::new(ended)));
        self.app.gateways.store().put(key, ended, Room::ENDLESS).await;
        self.live.outlive(true);
    }

    /// How often it was taken over.
    pub(crate) fn epoch(&self) -> u64 {
        self.live.tenure.epoch
    }

    /// Returns `true` unless another process goes on with the session, as far as is known. The store is
    /// asked where it has not said so for 5 s.
    pub(crate) async fn is_ours(&self) -> bool {
        self.is_ours_since(GOOD_FOR).await
    }

    /// Like [`Self::is_ours`], where the store has not said so for as long as this.
    pub(crate) async fn is_ours_since(&self, good_for: Duration) -> bool {
        let Some(key) = self.key().filter(|_| self.live.is_shared()) else { return true };
        if self.is_here() && self.live.unconfirmed_for() >= good_for {
            let is_ours = self.app.gateways.store().keep(key, &self.live.tenure).await;
            self.live.is_confirmed(is_ours);
        }
        self.is_here()
    }

    /// Returns `true` unless it is known that another process goes on with the session.
    pub(crate) fn is_here(&self) -> bool {
        !self.live.is_elsewhere.is_cancelled()
    }

    /// Resolves when another process goes on with the session; never, where none could.
    pub(crate) fn goes_elsewhere(&self) -> Option<impl Future<Output = ()> + Send + use<>> {
        self.live.is_shared().then(|| self.live.is_elsewhere.clone().cancelled_owned())
    }

    /// Ends it here, and leaves its record to another process, if one could go on with it.
    pub(crate) fn leave(&self) {
        if self.live.is_shared() {
            self.live.outlive(true);
        }
        self.end();
    }
}
