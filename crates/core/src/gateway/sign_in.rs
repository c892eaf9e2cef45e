//! Sign-ins at servers on behalf of a gateway's users.

mod prompt;

use std::sync::Arc;

use url::Url;

use crate::gateway::Gateway;
use crate::gateway::caller::Caller;
use crate::gateway::error::FailedServer;
use crate::gateway::registry::GatewayRegistry;
use crate::login::{LoginError, LoginTarget, PendingLogin, RedirectTarget};
use crate::name::ServerRef;
use crate::settings::{Config, GrantType, OAuthConfig, is_loopback};

pub use crate::login::{PAGE_HEADERS, Page as SignedInPage};

/// Path of the OAuth redirect URIs of a workbench that serves HTTP. Clients that the workbench
/// registers itself have a segment for the issuer below it.
pub const CALLBACK_PATH: &str = "/oauth/callback";

impl Gateway {
    /// Begins a sign-in at a server, or joins the pending one.
    ///
    /// # Errors
    ///
    /// Returns an error if the server has no sign-in, or its authorization server can't be
    /// determined.
    pub async fn sign_in(
        &self,
        at: &ServerRef,
        back: RedirectTarget,
    ) -> Result<Arc<PendingLogin>, LoginError> {
        let login = self
            .managed_server(&at.toolbox, &at.server)
            .and_then(|server| server.spec().reach.login());
        let login = login.ok_or_else(|| {
            let hint = "check `headers` and `oauth` in its entry";
            LoginError::new("this server has no sign-in", hint)
        })?;
        self.pool.sign_in(login, back).await
    }

    fn login_target(&self, at: &ServerRef) -> Option<LoginTarget> {
        Some(self.managed_server(&at.toolbox, &at.server)?.spec().reach.login()?.target().clone())
    }

    /// Returns the redirect target of a sign-in. `None` if it would be a listener on this machine
    /// that the user's browser can't reach.
    fn redirect_target(&self, target: &LoginTarget) -> Option<RedirectTarget> {
        let OAuthConfig { redirect_uri, callback_port, grant, .. } = &target.oauth;
        if matches!(grant, GrantType::DeviceCode) {
            // The device flow has no redirect.
            return Some(RedirectTarget::Listener);
        }
        let callback = callback(&self.config).filter(|own| {
            // A fixed client has registered its own redirect URI.
            let is_free = redirect_uri.is_none() && callback_port.is_none();
            !self.pool.is_single_agent() && (is_free || redirect_uri.as_ref() == Some(own))
        });
        match callback {
            Some(callback) => Some(RedirectTarget::External(callback)),
            None if self.pool.is_served_elsewhere() => None,
            None => Some(RedirectTarget::Listener),
        }
    }

    /// Returns the sign-in that this gateway's users lack at a server, if any.
    pub fn required_sign_in(&self, at: &ServerRef) -> Option<RequiredSignIn> {
        let login = self.managed_server(&at.toolbox, &at.server)?.spec().reach.login()?;
        let target = Some(login).filter(|login| login.is_sign_in_required())?.target().clone();
        let is_waited_for = self.pool.is_signing_in(&target);
        Some(RequiredSignIn { account: target.account, is_waited_for })
    }
}

/// Returns the public URL of [`CALLBACK_PATH`], if one is configured and safe from interception.
fn callback(config: &Config) -> Option<Url> {
    let jwt = config.auth.as_ref().and_then(|auth| auth.jwt.as_ref());
    let public = match (&config.http.public_url, jwt.and_then(|jwt| jwt.resource.as_ref())) {
        (Some(public), _) => public.clone(),
        (None, Some(resource)) if resource.scheme() == "https" || is_loopback(resource) => {
            // The resource URI is the MCP endpoint, which ends in `/mcp`.
            let mut public = resource.clone();
            public.set_path(resource.path().trim_end_matches('/').strip_suffix("/mcp")?);
            public
        }
        (None, _) => return None,
    };
    let path = format!("{}{CALLBACK_PATH}", public.path().trim_end_matches('/'));
    let mut callback = public;
    callback.set_path(&path);
    Some(callback)
}

/// A sign-in that a server requires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequiredSignIn {
    /// The agent that the login belongs to; `None` for the login of this machine.
    pub account: Option<String>,
    /// `true` if a sign-in page is pending.
    pub is_waited_for: bool,
}

/// A page for the user to open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignInPage {
    /// An `http://` or `https://` URL.
    pub address: String,
    /// The code to enter on the page, in the device flow.
    pub code: Option<String>,
}

impl GatewayRegistry {
    /// Begins a sign-in at a server for `caller` and waits for it in the background, at most 5
    /// minutes. Concurrent sign-ins share one page. The browser is redirected to the public URL or,
    /// without one, to a listener on this machine.
    ///
    /// # Errors
    ///
    /// Returns an error if the server has no sign-in, or its authorization server can't be
    /// determined.
    pub async fn begin_sign_in(
        &self,
        at: &ServerRef,
        caller: &Caller,
    ) -> Result<SignInPage, FailedServer> {
        let failed = |reason: String, hint: String| {
            let server = at.server.clone();
            FailedServer { server, reason, hint, wants_sign_in: true }
        };
        let gateway = self.any_gateway_for(caller);
        let back = gateway.login_target(at).and_then(|target| gateway.redirect_target(&target));
        let begun = gateway.sign_in(at, back.unwrap_or(RedirectTarget::Listener)).await;
        let pending = begun.map_err(|failure| failed(failure.reason, failure.hint))?;
        let address = pending.address();
        if !matches!(address.scheme(), "http" | "https") {
            let hint = "report this to the operator of the server";
            return Err(failed("its sign-in URL is not HTTP".to_owned(), hint.to_owned()));
        }
        let page = SignInPage {
            address: address.to_string(),
            code: pending.user_code().map(str::to_owned),
        };
        let (server, shutdown) = (at.server.clone(), self.pool().shutdown().clone());
        // The sign-in ends when its last holder drops it.
        self.tasks().spawn(shutdown.run_until_cancelled_owned(async move {
            if let Err(failure) = pending.done().await {
                tracing::info!(%server, reason = failure.reason, "the sign-in was not completed");
            }
        }));
        Ok(page)
    }

    /// Completes the pending sign-in that the `state` parameter of a redirect to [`CALLBACK_PATH`]
    /// identifies; a `state` is valid once. Returns the page for the browser.
    pub async fn complete_sign_in(&self, address: &Url) -> SignedInPage {
        self.pool().signed_in(address).await
    }
}

#[cfg(test)]
mod tests;
