//! The prompt of a sign-in during a call: URL elicitation.

use std::time::Duration;

use serde_json::json;

use crate::backend::{AgentEvent, events};
use crate::gateway::confirmation::elicit;
use mcp_workbench_login::PendingLogin;
use mcp_workbench_names::ServerRef;
use mcp_workbench_names::untrusted_text::escape_invisible;
use mcp_workbench_wire::json::RawJson;

/// How long the user has to answer and sign in.
const TIMEOUT: Duration = Duration::from_mins(5);
/// Maximum length of a user code, in characters. Longer ones are rejected.
const MAX_CODE: usize = 40;

pub(crate) async fn invite(
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

pub(crate) fn message(at: &ServerRef, what: &str, code: Option<&str>) -> Option<String> {
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
