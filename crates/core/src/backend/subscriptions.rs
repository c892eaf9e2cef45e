//! Subscription to the notifications of a modern server.
//!
//! The notifications arrive like other unsolicited messages; this module only requests them. When
//! the set of resources changes, the new subscription starts before the old one ends, so that no
//! notification is lost.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::time::{Instant, sleep};

use crate::backend::handshake::HandshakeResult;
use crate::backend::listing_reader::ListKinds;
use crate::backend::message_router::MessageRouter;
use mcp_workbench_wire::http_client::HttpTransportError;
use mcp_workbench_wire::json::RawJson;
use mcp_workbench_wire::server::{PendingRequest, RequestError, RpcOutcome, ServerConnection};

/// Delay before resubscribing when the server has ended a subscription. It doubles while the server
/// is unreachable or ends each subscription at once, up to `LONGEST_PAUSE`.
const RELISTEN: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

/// Opens a subscription; `None` if the server has nothing to subscribe to.
pub(crate) async fn open_subscription(
    connection: &ServerConnection,
    handshake: &HandshakeResult,
    router: &MessageRouter,
) -> Option<PendingRequest> {
    let capabilities = &handshake.capabilities;
    let lists = [
        ("toolsListChanged", &capabilities.tools),
        ("resourcesListChanged", &capabilities.resources),
        ("promptsListChanged", &capabilities.prompts),
    ];
    let mut wanted: Map<String, Value> = lists
        .into_iter()
        .filter(|(_, ability)| ability.is_some())
        .map(|(name, _)| (name.to_owned(), true.into()))
        .collect();
    let uris = router.subscriptions();
    if !uris.is_empty() {
        wanted.insert("resourceSubscriptions".to_owned(), uris.into());
    }
    let tasks = router.tasks();
    if capabilities.has_tasks_extension() && !tasks.is_empty() {
        wanted.insert("taskIds".to_owned(), tasks.into());
    }
    if wanted.is_empty() {
        return None;
    }
    let wanted = RawJson::encode(&wanted);
    let params = [("notifications", &wanted)];
    connection.send_request("subscriptions/listen", &params, &handshake.meta, false).await.ok()
}

/// Renews the subscription for as long as the connection lives.
pub(crate) async fn run_subscription(
    mut listening: Option<PendingRequest>,
    connection: ServerConnection,
    handshake: Arc<HandshakeResult>,
    router: Arc<MessageRouter>,
) {
    let mut trouble = connection.unavailable_reason();
    let (mut pause, mut is_behind) = (RELISTEN, false);
    let mut since = Instant::now();
    loop {
        let answered = async {
            match &mut listening {
                Some(listening) => listening.response().await,
                None => std::future::pending().await,
            }
        };
        let is_back = async { trouble.wait_for(Option::is_none).await.is_ok() };
        let answer = tokio::select! {
            () = connection.closed() => return,
            true = is_back, if is_behind => {
                is_behind = false;
                // Reread all lists: changes during the gap were not reported.
                router.mark_lists_changed(ListKinds::ALL);
                continue;
            }
            // Without a delay: an update right after the subscription would be lost.
            () = router.subscriptions_changed.notified() => None,
            answer = answered => Some(answer),
        };
        let has_ended = answer.is_some();
        let is_away = answer.as_ref().is_some_and(is_away);
        if answer.is_some_and(|answer| is_refusal(&answer)) {
            tracing::debug!("the server does not support subscriptions");
            listening = None;
            continue;
        }
        if has_ended {
            tokio::select! {
                () = connection.closed() => return,
                () = sleep(pause) => {}
            }
            // The time includes the pause before.
            let is_short = since.elapsed() < 2 * pause + RELISTEN;
            pause = if is_away || is_short { LONGEST_PAUSE.min(pause * 2) } else { RELISTEN };
            since = Instant::now();
        }
        let next = open_subscription(&connection, &handshake, &router).await;
        drop(std::mem::replace(&mut listening, next));
        is_behind |= has_ended;
    }
}

fn is_away(answer: &Result<RpcOutcome, RequestError>) -> bool {
    let failure = match answer {
        Ok(RpcOutcome::Error(error)) => HttpTransportError::from_error_object(error),
        _ => None,
    };
    matches!(
        failure,
        Some(HttpTransportError::Unreachable | HttpTransportError::HttpStatus(502..=504))
    )
}

fn is_refusal(answer: &Result<RpcOutcome, RequestError>) -> bool {
    matches!(answer, Ok(RpcOutcome::Error(error)) if HttpTransportError::from_error_object(error).is_none())
}
