//! Sign-ins in the midst of a call: the user of the agent is asked to open the page (URL elicitation), and
//! the call goes on once somebody has agreed there.

use std::time::Duration;

use serde_json::json;

use crate::backend::{Event, events};
use crate::gateway::confirming::put;
use crate::gateway::opening::while_waiting;
use crate::gateway::{Gateway, RequestContext};
use crate::login::{Back, Pending};
use crate::name::ServerRef;
use crate::name::seen::escaped;
use crate::raw::Raw;

/// How long the user may take to answer; the sign-in itself is waited for no longer.
const PATIENCE: Duration = Duration::from_mins(5);
/// The most characters of a code that the user is to type. What is longer is none.
const MAX_CODE: usize = 40;

impl Gateway {
    /// Asks the user of an agent to sign in at a server that wants it, and waits until that is done, for
    /// 5 min at most. `what` goes on then, as the user is told. Returns `false` if nobody has signed in: the
    /// user does not want to, or cannot be asked.
    pub(crate) async fn ask_to_sign_in(
        &self,
        at: &ServerRef,
        what: &str,
        context: &RequestContext<'_>,
    ) -> bool {
        let Some(events) = context.events else { return false };
        let Some(back) = self.can_be_asked(at) else { return false };
        let signing_in = async {
            let pending = match Box::pin(self.sign_in(at, back)).await {
                Ok(pending) => pending,
                Err(failure) => {
                    tracing::info!(server = %at.server, reason = failure.reason, "no sign-in begins");
                    return false;
                }
            };
            let message = message(at, what, pending.code());
            let Some(message) = message else { return false };
            let has_signed_in = invite(message, &pending, events, context.is_modern).await;
            has_signed_in.unwrap_or_default()
        };
        let waiting = || format!("waiting for the user to sign in at server `{}`", at.server);
        while_waiting(waiting, context, signing_in).await
    }

    /// Returns `true` if the user of an agent may be asked something within such a request.
    pub(crate) fn may_ask_within(
        &self,
        at: &ServerRef,
        method: &str,
        context: &RequestContext<'_>,
    ) -> bool {
        if method != "completion/complete" {
            return true;
        }
        // Its answer can be nothing else from 2026-07-28 on; and there may be one for each key that a user hits.
        let is_asked = || self.place(at).is_some_and(|place| self.pool.is_signing_in(&place));
        !context.is_modern && !is_asked()
    }

    /// Where a user's browser comes back to who may be asked to sign in at a server; `None`: the agent's client
    /// opens no addresses, or the browser would not come back here.
    fn can_be_asked(&self, at: &ServerRef) -> Option<Back> {
        let place = self.place(at).filter(|_| self.abilities.opens_addresses())?;
        // Whoever signs in on another machine does so for its own agent, and not for everybody.
        let is_own = !self.pool.is_served_elsewhere() || place.account.is_some();
        self.way_back(&place).filter(|_| is_own)
    }
}

/// Shows the page of a sign-in to the user, and waits for how it comes out; `None` if it cannot be shown.
async fn invite(
    message: String,
    pending: &Pending,
    events: &events::Sender,
    is_modern: bool,
) -> Option<bool> {
    let address = pending.address();
    // The authorization server has chosen it, and a client may open whatever it gets.
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
        // From 2026-07-28 on there is none, and nothing is said of the end.
        let mut random = [0; 16];
        getrandom::fill(&mut random).ok()?;
        let text = format!("{:032x}", u128::from_ne_bytes(random));
        asked["elicitationId"] = json!(text);
        id = Some(text);
    }
    let agreed = async {
        match put(events, &asked, PATIENCE).await {
            Ok(()) => pending.done().await.is_ok(),
            Err(_) => false,
        }
    };
    // Others may wait for the same page; once it has come out, the question is taken back.
    let has_signed_in = tokio::select! {
        biased;
        done = pending.done() => done.is_ok(),
        agreed = agreed => agreed,
    };
    if let Some(id) = id.filter(|_| has_signed_in) {
        let params = Some(Raw::encode(&json!({ "elicitationId": id })));
        let method = "notifications/elicitation/complete".to_owned();
        // An agent that is gone hears nothing of it; its call ends elsewhere.
        let _ = events.send(Event::Notice { method, params }).await;
    }
    Some(has_signed_in)
}

/// The words that the user is asked with; `None` if there is a code that nobody could type.
fn message(at: &ServerRef, what: &str, code: Option<&str>) -> Option<String> {
    let server = escaped(at.server.as_str());
    let code = match code.map(escaped) {
        Some(code) if code.chars().count() > MAX_CODE => return None,
        Some(code) => format!(" The code to type there is `{code}`."),
        None => String::new(),
    };
    Some(format!(
        "Server `{server}` wants you to sign in. Open this page in your browser and agree there; {what} goes on when \
         that is done.{code}"
    ))
}
