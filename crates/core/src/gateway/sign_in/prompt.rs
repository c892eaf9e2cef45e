//! Sign-in during a call: asks the user through URL elicitation and continues the call afterwards.

use std::time::Duration;

use serde_json::json;

use crate::backend::{AgentEvent, events};
use crate::gateway::confirmation::elicit;
use crate::gateway::open_toolbox::with_heartbeat;
use crate::gateway::{Gateway, RequestContext};
use crate::json::RawJson;
use crate::login::{PendingLogin, RedirectTarget};
use crate::name::ServerRef;
use crate::name::untrusted_text::escape_invisible;

/// How long the user has to answer and sign in.
const TIMEOUT: Duration = Duration::from_mins(5);
/// Maximum length of a user code, in characters. Longer ones are rejected.
const MAX_CODE: usize = 40;

impl Gateway {
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
            || self.login_target(at).is_some_and(|target| self.pool.is_signing_in(&target));
        !context.is_modern && !is_asked()
    }

    /// Returns the redirect target of a sign-in prompt. `None` if the client can't open URLs or the
    /// browser couldn't return here.
    fn prompt_redirect_target(&self, at: &ServerRef) -> Option<RedirectTarget> {
        let target = self.login_target(at).filter(|_| self.capabilities.has_url_elicitation())?;
        // A remote user signs in only for their own agent, not for everyone.
        let is_own = !self.pool.is_served_elsewhere() || target.account.is_some();
        self.redirect_target(&target).filter(|_| is_own)
    }
}

async fn invite(
    message: String,
    pending: &PendingLogin,
    events: &events::Sender,
    is_modern: bool,
) -> Option<bool> {
    let address = pending.address();
    // The authorization server chose the URL, and a client may open any scheme.
    if !matches!(address.scheme(), "http" | "https") {
        return None;
    }
    let mut asked = json!({
        "mode": "url",
        "message": message,
        "url": address.as_str(),
    });
    let mut id = None;
    if !is_modern {
        // From 2026-07-28 on there is neither an id nor a completion notification.
        let mut random = [0; 16];
        getrandom::fill(&mut random).ok()?;
        let text = format!("{:032x}", u128::from_ne_bytes(random));
        asked["elicitationId"] = json!(text);
        id = Some(text);
    }
    let agreed = async {
        match elicit(events, &asked, TIMEOUT).await {
            Ok(()) => pending.done().await.is_ok(),
            Err(_) => false,
        }
    };
    // Another agent may complete the same sign-in; dropping `agreed` then withdraws this prompt.
    let has_signed_in = tokio::select! {
        biased;
        done = pending.done() => done.is_ok(),
        agreed = agreed => agreed,
    };
    if let Some(id) = id.filter(|_| has_signed_in) {
        let params = Some(RawJson::encode(&json!({ "elicitationId": id })));
        let method = "notifications/elicitation/complete".to_owned();
        let _ = events.send(AgentEvent::Notification { method, params }).await;
    }
    Some(has_signed_in)
}

fn message(at: &ServerRef, what: &str, code: Option<&str>) -> Option<String> {
    let server = escape_invisible(at.server.as_str());
    let code = match code.map(escape_invisible) {
        Some(code) if code.chars().count() > MAX_CODE => return None,
        Some(code) => format!(" Enter this code there: `{code}`."),
        None => String::new(),
    };
    Some(format!(
        "Server `{server}` requires a sign-in. Open this page in your browser and approve the access. \
         {what} continues afterwards.{code}"
    ))
}
