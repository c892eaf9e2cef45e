//! Sign-ins at servers on behalf of a gateway's users.

mod prompt;

use std::sync::Arc;

use url::Url;

use crate::gateway::progress::with_heartbeat;
use crate::gateway::request_context::RequestContext;
use crate::gateway::scope::GatewayScope;
use crate::gateway::servers::Servers;
use crate::gateway::sign_in::prompt::{invite, message};
use mcp_workbench_login::{LoginError, LoginTarget, PendingLogin, RedirectTarget};
use mcp_workbench_names::ServerRef;
use mcp_workbench_settings::{Config, GrantType, OAuthConfig, is_loopback};

pub use mcp_workbench_login::PAGE_HEADERS;

/// Path of the OAuth redirect URIs of a workbench that serves HTTP. Clients that the workbench
/// registers itself have a segment for the issuer below it.
pub const CALLBACK_PATH: &str = "/oauth/callback";

/// Sign-ins at the servers of a gateway.
pub struct SignIns {
    scope: Arc<GatewayScope>,
    servers: Arc<Servers>,
}

impl SignIns {
    pub(crate) fn new(scope: &Arc<GatewayScope>, servers: &Arc<Servers>) -> Self {
        Self { scope: Arc::clone(scope), servers: Arc::clone(servers) }
    }

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
        let login = self.servers.managed_server(at).and_then(|server| server.spec().reach.login());
        let login = login.ok_or_else(|| {
            let hint = "check `headers` and `oauth` in its entry";
            LoginError::new("this server has no sign-in", hint)
        })?;
        self.servers.pool.sign_in(login, back).await
    }

    pub(crate) fn login_target(&self, at: &ServerRef) -> Option<LoginTarget> {
        Some(self.servers.managed_server(at)?.spec().reach.login()?.target().clone())
    }

    /// Returns the redirect target of a sign-in. `None` if it would be a listener on this machine
    /// that the user's browser can't reach.
    pub(crate) fn redirect_target(&self, target: &LoginTarget) -> Option<RedirectTarget> {
        let OAuthConfig { redirect_uri, callback_port, grant, .. } = &target.oauth;
        if matches!(grant, GrantType::DeviceCode) {
            // The device flow has no redirect.
            return Some(RedirectTarget::Listener);
        }
        let callback = callback(&self.scope.config).filter(|own| {
            // A fixed client has registered its own redirect URI.
            let is_free = redirect_uri.is_none() && callback_port.is_none();
            !self.servers.pool.is_single_agent() && (is_free || redirect_uri.as_ref() == Some(own))
        });
        match callback {
            Some(callback) => Some(RedirectTarget::External(callback)),
            None if self.servers.pool.is_served_elsewhere() => None,
            None => Some(RedirectTarget::Listener),
        }
    }

    /// Asks the agent's user to sign in at a server and waits for the sign-in, at most 5 minutes.
    /// The message says that `what` continues afterwards. Returns `false` if the user declines, or
    /// if the client can't prompt.
    pub(crate) async fn prompt_sign_in(
        &self,
        at: &ServerRef,
        what: &str,
        context: &RequestContext<'_>,
    ) -> bool {
        let Some(events) = context.events else { return false };
        let Some(back) = self.prompt_redirect_target(at) else { return false };
        let signing_in = async {
            let pending = match Box::pin(self.sign_in(at, back)).await {
                Ok(pending) => pending,
                Err(failure) => {
                    tracing::info!(server = %at.server, reason = failure.reason, "failed to begin a sign-in");
                    return false;
                }
            };
            let message = message(at, what, pending.user_code());
            let Some(message) = message else { return false };
            let has_signed_in = invite(message, &pending, events, context.is_modern).await;
            has_signed_in.unwrap_or_default()
        };
        let waiting = || format!("waiting for the user to sign in to server `{}`", at.server);
        with_heartbeat(waiting, context, signing_in).await
    }

    /// Returns `true` if a sign-in prompt is allowed during such a request.
    pub(crate) fn can_prompt_during(
        &self,
        at: &ServerRef,
        method: &str,
        context: &RequestContext<'_>,
    ) -> bool {
        if method != "completion/complete" {
            return true;
        }
        // A completion can't return `input_required` (2026-07-28), and there may be one for each
        // keystroke.
        let is_asked =
            || self.login_target(at).is_some_and(|target| self.servers.pool.is_signing_in(&target));
        !context.is_modern && !is_asked()
    }

    /// Returns the redirect target of a sign-in prompt. `None` if the client can't open URLs or the
    /// browser couldn't return here.
    fn prompt_redirect_target(&self, at: &ServerRef) -> Option<RedirectTarget> {
        let target =
            self.login_target(at).filter(|_| self.scope.capabilities.has_url_elicitation())?;
        // A remote user signs in only for their own agent, not for everyone.
        let is_own = !self.servers.pool.is_served_elsewhere() || target.account.is_some();
        self.redirect_target(&target).filter(|_| is_own)
    }

    /// Returns the sign-in that this gateway's users lack at a server, if any.
    pub fn required_sign_in(&self, at: &ServerRef) -> Option<RequiredSignIn> {
        let login = self.servers.managed_server(at)?.spec().reach.login()?;
        let target = Some(login).filter(|login| login.is_sign_in_required())?.target().clone();
        let is_waited_for = self.servers.pool.is_signing_in(&target);
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

#[cfg(test)]
mod tests;
