//! Signing in at servers on behalf of whoever looks through a gateway.

mod asked;

use std::sync::Arc;

use url::Url;

use crate::gateway::Gateway;
use crate::gateway::caller::Caller;
use crate::gateway::error::FailedServer;
use crate::gateway::gateways::Gateways;
use crate::login::{Back, Failure, Pending, Place};
use crate::name::ServerRef;
use crate::settings::{Config, Grant, OAuth, is_loopback};

pub use crate::login::{PAGE_HEADERS, Page as SignedInPage};

/// The path at which browsers come back to a workbench that is served over HTTP.
pub const CALLBACK: &str = "/oauth/callback";

impl Gateway {
    /// Begins a sign-in at a server for whoever looks through this gateway, or joins the one that is
    /// waited for.
    ///
    /// # Errors
    ///
    /// When one does not sign in there, or how to cannot be found out.
    pub async fn sign_in(&self, at: &ServerRef, back: Back) -> Result<Arc<Pending>, Failure> {
        let login = self.at(&at.toolbox, &at.server).and_then(|server| server.spec().reach.login());
        let login = login.ok_or_else(|| Failure {
            reason: "nobody signs in at this server".to_owned(),
            hint: "see what its entry says of `headers` and `oauth`".to_owned(),
        })?;
        self.pool.sign_in(login, back).await
    }

    /// The place where somebody signs in at a server; nothing where nobody does.
    fn place(&self, at: &ServerRef) -> Option<Place> {
        Some(self.at(&at.toolbox, &at.server)?.spec().reach.login()?.place().clone())
    }

    /// Where a browser is sent that has signed in at this place; `None`: to a listener on this machine, which the
    /// browser would not reach.
    fn way_back(&self, place: &Place) -> Option<Back> {
        let OAuth { redirect_uri, callback_port, grant, .. } = &place.oauth;
        if matches!(grant, Grant::Device) {
            // None comes back.
            return Some(Back::Listener);
        }
        let callback = callback(&self.config).filter(|own| {
            // Only what is registered for the entry's client will do.
            let is_free = redirect_uri.is_none() && callback_port.is_none();
            !self.pool.is_sole() && (is_free || redirect_uri.as_ref() == Some(own))
        });
        match callback {
            Some(callback) => Some(Back::At(callback)),
            None if self.pool.is_served_elsewhere() => None,
            None => Some(Back::Listener),
        }
    }

    /// The sign-in at a server that whoever looks through this gateway lacks; nothing where only others lack theirs.
    pub fn signing_in(&self, at: &ServerRef) -> Option<SigningIn> {
        let login = self.at(&at.toolbox, &at.server)?.spec().reach.login()?;
        let place = Some(login).filter(|login| login.is_wanted())?.place().clone();
        let is_waited_for = self.pool.is_signing_in(&place);
        Some(SigningIn { account: place.account, is_waited_for })
    }
}

/// The address of [`CALLBACK`] for browsers on other machines, where one is known over which nobody can listen.
fn callback(config: &Config) -> Option<Url> {
    let jwt = config.auth.as_ref().and_then(|auth| auth.jwt.as_ref());
    let public = match (&config.http.public_url, jwt.and_then(|jwt| jwt.resource.as_ref())) {
        (Some(public), _) => public.clone(),
        (None, Some(resource)) if resource.scheme() == "https" || is_loopback(resource) => {
            // It names `/mcp`, as clients know it.
            let mut public = resource.clone();
            public.set_path(resource.path().trim_end_matches('/').strip_suffix("/mcp")?);
            public
        }
        (None, _) => return None,
    };
    let path = format!("{}{CALLBACK}", public.path().trim_end_matches('/'));
    let mut callback = public;
    callback.set_path(&path);
    Some(callback)
}

/// A sign-in at a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SigningIn {
    /// The agent whose login it is; `None`: one for all who use this machine's account.
    pub account: Option<String>,
    /// `true` if a page is open, or is to be opened, on which somebody agrees.
    pub is_waited_for: bool,
}

/// A page that somebody is to open in order to sign in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignInPage {
    /// Its address, which begins with `http://` or `https://`.
    pub address: String,
    /// A code to type there, where one is needed.
    pub code: Option<String>,
}

impl Gateways {
    /// Begins a sign-in at a server for `caller`, which is waited for until somebody has agreed, for 5 min at
    /// most. Another that begins the same gets the same page. Browsers come back to where those of agents'
    /// users do; where these would not find back, to a listener on this machine.
    ///
    /// # Errors
    ///
    /// When one does not sign in there, or how to cannot be found out.
    pub async fn begin_sign_in(
        &self,
        at: &ServerRef,
        caller: &Caller,
    ) -> Result<SignInPage, FailedServer> {
        let failed = |reason: String, hint: String| {
            let server = at.server.clone();
            FailedServer { server, reason, hint, wants_sign_in: true }
        };
        let gateway = self.at_hand(caller);
        let back = gateway.place(at).and_then(|place| gateway.way_back(&place));
        let begun = gateway.sign_in(at, back.unwrap_or(Back::Listener)).await;
        let pending = begun.map_err(|failure| failed(failure.reason, failure.hint))?;
        let address = pending.address();
        if !matches!(address.scheme(), "http" | "https") {
            let hint = "sign in another way, or tell whoever runs that server";
            return Err(failed("its page to sign in is no web page".to_owned(), hint.to_owned()));
        }
        let page =
            SignInPage { address: address.to_string(), code: pending.code().map(str::to_owned) };
        let (server, shutdown) = (at.server.clone(), self.pool().shutdown().clone());
        // It is waited for as long as somebody holds it.
        self.tasks().spawn(shutdown.run_until_cancelled_owned(async move {
            if let Err(failure) = pending.done().await {
                tracing::info!(%server, reason = failure.reason, "nobody has signed in");
            }
        }));
        Ok(page)
    }

    /// Hands a browser that has come back to [`CALLBACK`] on to the sign-in that waits for it, by the `state` in
    /// the address, which counts once. Returns the page that the browser is to show.
    pub async fn signed_in(&self, address: &Url) -> SignedInPage {
        self.pool().signed_in(address).await
    }
}

#[cfg(test)]
mod tests;
