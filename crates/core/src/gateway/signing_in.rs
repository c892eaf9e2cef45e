//! Signing in at servers on behalf of whoever looks through a gateway.

mod asked;

use std::sync::Arc;

use crate::gateway::Gateway;
use crate::gateway::caller::Caller;
use crate::gateway::error::FailedServer;
use crate::gateway::gateways::Gateways;
use crate::login::{Back, Failure, Pending};
use crate::name::ServerRef;

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

    /// The sign-in at a server for whoever looks through this gateway; nothing where nobody signs in.
    pub fn signing_in(&self, at: &ServerRef) -> Option<SigningIn> {
        let place = self.at(&at.toolbox, &at.server)?.spec().reach.login()?.place().clone();
        let is_waited_for = self.pool.is_signing_in(&place);
        Some(SigningIn { account: place.account, is_waited_for })
    }
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
    /// Begins a sign-in at a server for `caller`, which is waited for at a listener on this machine until
    /// somebody has agreed, for 5 min at most. Another that begins the same gets the same page.
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
        let begun = self.at_hand(caller).sign_in(at, Back::Listener).await;
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
}
