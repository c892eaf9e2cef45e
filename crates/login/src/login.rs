//! Signing in at servers over HTTP: finding out how, getting tokens, keeping them and renewing them.
//!
//! [`Logins`] is all of it in one process. Each server that wants a login has a [`SignIn`] for each
//! [`Place`], which is the credentials of the links to it. A person who signs in goes through a
//! [`Pending`], whoever began it: the command line, an agent that was asked to, or a button.
//!
//! *Theory of operation.* A [`Place`] has one record, which every process finds without asking anybody
//! (`record`, `keep`), and everything that is needed to use and renew a token stands in it. A login begins with
//! `discovery` (how to sign in), a client (`register`) and an address to open (`begin`); it ends with a `callback`,
//! which a `listener`, the user's clipboard or another part of the program hands on (`pending`), or with a `device`.
//! It may have `begun` in another process.
//! From then on `credentials` show the token, and `renewal` gets the next one, once for all who wait. All
//! requests go through `http`, all for tokens through `token`.

mod assertion;
mod attempt;
mod begin;
mod begun;
mod callback;
mod credentials;
mod device;
mod discovery;
mod http;
mod keep;
mod listener;
mod machine;
mod page;
mod pending;
mod pkce;
mod place;
mod record;
mod register;
mod renewal;
mod revocation;
mod shared;
mod sign_in;
mod token;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio_util::task::TaskTracker;
use url::Url;

use crate::login::begun::Attempt;
use crate::login::callback::{Callback, STRANGER};
use crate::login::pending::Waiting;
use crate::login::record::Record;
use crate::login::renewal::renew;
use crate::login::shared::Shared;
use crate::login::sign_in::{Login, Renewal};
use crate::settings::OAuth;
use crate::wire::remote::{Again, Challenge, Credentials, Later};

pub use crate::login::begin::WANTS_NONE;
pub use crate::login::keep::{Chosen, Guard, Home, Keyring, Store};
pub use crate::login::page::{PAGE_HEADERS, Page};
pub use crate::login::pending::Pending;
pub use crate::login::place::{Back, Failure, Keep, Place, Standing, Told};

/// The logins of this process.
pub struct Logins {
    shared: Arc<Shared>,
    at: Mutex<HashMap<Place, Weak<SignIn>>>,
    /// The logins whose browsers come back to another part of the program.
    waiting: Arc<Mutex<Vec<Weak<Waiting>>>>,
}

impl Logins {
    /// Logins that are kept there; what is under way runs on `tasks`, and `told` hears what happens.
    pub fn new(
        keep: Keep,
        tasks: TaskTracker,
        told: impl Fn(Told<'_>) + Send + Sync + 'static,
    ) -> Arc<Self> {
        let shared = Arc::new(Shared::new(keep, tasks, Box::new(told)));
        Arc::new(Self { shared, at: Mutex::default(), waiting: Arc::default() })
    }

    /// The login for a place; the same for equal places for as long as somebody has it.
    pub fn at(self: &Arc<Self>, place: Place) -> Arc<SignIn> {
        let mut all = self.at.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = all.get(&place).and_then(Weak::upgrade) {
            return known;
        }
        all.retain(|_, login| login.strong_count() > 0);
        let login = Arc::new(Login::new(Arc::clone(&self.shared), place.clone()));
        let sign_in = Arc::new(SignIn { login, waiting: Arc::clone(&self.waiting) });
        all.insert(place, Arc::downgrade(&sign_in));
        sign_in
    }

    /// Every login that is kept, with how it stands. What entries say of signing in is not kept, so that it is left
    /// out of the places.
    ///
    /// # Errors
    ///
    /// When what is kept cannot be read.
    pub async fn all(&self) -> Result<Vec<(Place, Standing)>, Failure> {
        let records = self.shared.all().await?;
        let all = records.into_iter().map(|record| {
            let standing = sign_in::standing_of(&record);
            let (server, url, account) = (record.server, record.url, record.account);
            (Place { server, url, account, oauth: OAuth::default() }, standing)
        });
        Ok(all.collect())
    }

    /// Hands on where a browser came back to, to whoever waits for it by its `state`, and returns the place where
    /// somebody is signed in then. A `state` counts once, and only where browsers are sent to [`Back::At`].
    ///
    /// # Errors
    ///
    /// When nobody waits for it, or no token is given for it.
    pub async fn returned(&self, address: &Url) -> Result<Place, Failure> {
        let stranger = || Failure::new(STRANGER, "sign in again");
        let callback = Callback::read(address).ok_or_else(stranger)?;
        let waiting = {
            let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            let mut waiting = waiting.iter().filter_map(Weak::upgrade);
            waiting.find(|waiting| waiting.is_for(&callback))
        };
        let kept = self.shared.returned(&callback.state).await;
        let waiting = match (waiting, kept) {
            // Another process has had it.
            (Some(waiting), Ok(None)) if waiting.is_kept() => return Err(stranger()),
            (Some(waiting), _) => waiting,
            (None, Ok(Some(attempt))) => self.taken_over(attempt),
            (None, _) => return Err(stranger()),
        };
        waiting.take(callback).await?;
        Ok(waiting.login().place.clone())
    }

    /// A sign-in that another process has begun.
    fn taken_over(&self, attempt: Attempt) -> Arc<Waiting> {
        let Record { server, url, account, .. } = &attempt.record;
        let all = self.at.lock().unwrap_or_else(PoisonError::into_inner);
        let here = all.iter().find_map(|(place, sign_in)| {
            let is_it = (&place.server, &place.url, &place.account) == (server, url, account);
            sign_in.upgrade().filter(|_| is_it)
        });
        drop(all);
        let login = here.map_or_else(
            || {
                let (server, url, account) = (server.clone(), url.clone(), account.clone());
                let place = Place { server, url, account, oauth: OAuth::default() };
                Arc::new(Login::new(Arc::clone(&self.shared), place))
            },
            |here| Arc::clone(&here.login),
        );
        Waiting::new(&login, attempt)
    }

    /// Like [`Self::returned`], as the page that the browser is to show. No code, token or `state` is on it.
    pub async fn page_for(&self, address: &Url) -> Page {
        match self.returned(address).await {
            Ok(place) => Page::signed_in_at(&place),
            Err(mut failure) => {
                // An authorization server may say again what it was told.
                for (name, value) in address.query_pairs() {
                    if matches!(name.as_ref(), "code" | "state") && !value.is_empty() {
                        failure.reason = failure.reason.replace(value.as_ref(), "\u{2026}");
                    }
                }
                Page::failed(&failure)
            }
        }
    }

    /// Waits for what must not be cut off: a token that is being renewed. At most 5 s.
    pub async fn close(&self) {
        self.shared.close().await;
    }
}

/// The login at one place: the credentials of the links to its server.
pub struct SignIn {
    login: Arc<Login>,
    waiting: Arc<Mutex<Vec<Weak<Waiting>>>>,
}

impl SignIn {
    /// The place.
    pub fn place(&self) -> &Place {
        &self.login.place
    }

    /// How it stands now, as far as is known without asking anybody else.
    pub async fn standing(&self) -> Standing {
        self.login.standing().await
    }

    /// Returns `true` if the server has asked for a sign-in here that has not come about yet.
    pub fn is_wanted(&self) -> bool {
        self.login.is_wanted()
    }

    /// Why there is no token where it should be got without anybody; `None` where a person signs in, or there
    /// is one as far as is known.
    pub fn why_no_token(&self) -> Option<String> {
        self.login.why_wanted().filter(|_| self.login.is_machine())
    }

    /// Asks the server what it wants, where that is not known yet, and begins a login.
    ///
    /// # Errors
    ///
    /// When the server wants none, or how to sign in cannot be found out.
    pub async fn begin(self: &Arc<Self>, back: Back) -> Result<Pending, Failure> {
        let is_elsewhere = matches!(back, Back::At(_));
        let pending = begin::begin(&self.login, back).await?;
        if !is_elsewhere {
            return Ok(pending);
        }
        pending.waiting().keep().await;
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.retain(|waiting| waiting.strong_count() > 0);
        waiting.push(Arc::downgrade(pending.waiting()));
        Ok(pending)
    }

    /// Gets a token without anybody, where the entry's grant is of that kind.
    ///
    /// # Errors
    ///
    /// When a person has to sign in, or no token is given.
    pub async fn get(self: &Arc<Self>) -> Result<(), Failure> {
        if !self.login.is_machine() {
            let hint = format!("run `mcp-workbench auth login {}`", self.login.place.server);
            return Err(Failure::new("a person has to sign in at this server", hint));
        }
        let token = self.login.reload().await.and_then(|record| record.token.clone());
        let stale = token.filter(record::Token::is_ending).map(|token| token.value);
        match renew(&self.login, stale.as_deref()).await {
            Renewal::Fresh => Ok(()),
            Renewal::Ended(why) => Err(Failure::new(why, "look at `oauth` in the server's entry")),
            Renewal::Trouble(why) => Err(Failure::new(why, "try again later")),
        }
    }

    /// Resolves when somebody has signed in, in this process or another, since `standing` was other.
    pub async fn signed_in(&self) {
        self.login.signed_in().await;
    }

    /// Forgets the login, and tells the authorization server so (RFC 7009) where it can be told.
    /// Returns whether there was one.
    ///
    /// # Errors
    ///
    /// When it cannot be forgotten. That the authorization server cannot be told is no error.
    pub async fn sign_out(&self) -> Result<bool, Failure> {
        revocation::sign_out(&self.login).await
    }
}

impl Credentials for SignIn {
    fn authorization(&self) -> Later<'_, reqwest::header::HeaderMap> {
        Box::pin(credentials::headers(&self.login))
    }

    fn refused(&self, challenge: Challenge) -> Later<'_, Again> {
        Box::pin(credentials::refused(&self.login, challenge))
    }

    fn secrets(&self) -> Vec<String> {
        self.login.secrets()
    }
}

#[cfg(test)]
mod tests;
