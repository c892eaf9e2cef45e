//! Logins of whoever uses servers over HTTP: which is used where, and what is shown to a server.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use reqwest::header::{AUTHORIZATION, HeaderMap};
use tokio::sync::Mutex;

use crate::login::{Back, Failure, Logins, Pending, Place, SignIn, Told};
use crate::name::AgentName;
use crate::observe::{Event, Observer, SignInChange, SignInContext};
use crate::settings::{AccountOf, HttpLaunch};
use crate::wire::remote::{Again, Challenge, Credentials, Later, StaticHeaders};

/// Somebody who uses servers, as far as their logins depend on who it is.
#[derive(Clone, Default)]
pub struct Whose {
    logins: Option<Arc<Logins>>,
    agent: Option<AgentName>,
    is_one_of_many: bool,
}

impl Whose {
    /// The one agent of this machine's user, with or without a name. Only what its logins are called is
    /// known: nothing is signed in to with it.
    pub fn only(agent: Option<&AgentName>) -> Self {
        Self::new(None, agent, false)
    }

    /// An agent, which is the only one or one of many that can come.
    pub(crate) fn new(
        logins: Option<&Arc<Logins>>,
        agent: Option<&AgentName>,
        is_one_of_many: bool,
    ) -> Self {
        Self { logins: logins.cloned(), agent: agent.cloned(), is_one_of_many }
    }

    /// The place where a login is used for an entry of this name; `None`: its headers say who asks, or
    /// nobody is to sign in.
    pub fn place(&self, server: &str, launch: &HttpLaunch) -> Option<Place> {
        if launch.oauth.is_off || launch.headers.iter().any(|(name, _)| name == AUTHORIZATION) {
            return None;
        }
        let is_own = match launch.oauth.account {
            AccountOf::Auto => self.is_one_of_many,
            AccountOf::Shared => false,
            AccountOf::Agent => true,
        };
        let agent = self.agent.as_ref().filter(|_| is_own);
        Some(Place {
            server: server.to_owned(),
            url: launch.url.clone(),
            account: agent.map(ToString::to_string),
            oauth: launch.oauth.clone(),
        })
    }

    /// The login at a place, where any are kept.
    pub(crate) fn login(&self, place: Place) -> Option<Arc<SignIn>> {
        self.logins.as_ref().map(|logins| logins.at(place))
    }
}

/// The sign-ins that somebody waits for, of which there is one for each place.
#[derive(Default)]
pub(crate) struct SigningIn(Mutex<HashMap<Place, Weak<Pending>>>);

impl SigningIn {
    /// Returns `true` if somebody waits for the one at this place. While another begins, that is not known.
    pub(crate) fn has(&self, place: &Place) -> bool {
        let all = self.0.try_lock();
        let pending = all.ok().and_then(|all| all.get(place).and_then(Weak::upgrade));
        pending.is_some_and(|pending| !pending.is_over())
    }

    /// The one at this place, or a new one.
    pub(crate) async fn join(
        &self,
        login: &Arc<SignIn>,
        back: Back,
    ) -> Result<Arc<Pending>, Failure> {
        // Those who come meanwhile wait for how it begins, whichever place they mean.
        let mut all = self.0.lock().await;
        if let Some(pending) = all.get(login.place()).and_then(Weak::upgrade)
            && !pending.is_over()
        {
            return Ok(pending);
        }
        all.retain(|_, pending| pending.strong_count() > 0);
        let pending = Arc::new(login.begin(back).await?);
        all.insert(login.place().clone(), Arc::downgrade(&pending));
        Ok(pending)
    }
}

/// Tells who listens of a login that has changed.
pub fn tell_of_login(observer: &Observer, told: Told<'_>) {
    let (place, change, why) = match told {
        Told::SignedIn(place) => (place, SignInChange::SignedIn, ""),
        Told::Renewed(place) => (place, SignInChange::Renewed, ""),
        Told::Wanted(place, why) => (place, SignInChange::Wanted, why),
        Told::SignedOut(place) => (place, SignInChange::SignedOut, ""),
    };
    let context = SignInContext { server: &place.server, account: place.account.as_deref(), why };
    observer.listeners().tell(Event::SignIn(&context, change));
}

/// The headers of an entry, and beside them the token of who has signed in.
pub(crate) struct Shown {
    pub(crate) headers: StaticHeaders,
    pub(crate) login: Arc<SignIn>,
}

impl Credentials for Shown {
    fn authorization(&self) -> Later<'_, HeaderMap> {
        Box::pin(async {
            let mut all = self.headers.authorization().await;
            all.extend(self.login.authorization().await);
            all
        })
    }

    fn refused(&self, challenge: Challenge) -> Later<'_, Again> {
        self.login.refused(challenge)
    }

    fn secrets(&self) -> Vec<String> {
        let mut all = self.headers.secrets();
        all.extend(self.login.secrets());
        all
    }
}
