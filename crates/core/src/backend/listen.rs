//! Hearing a modern server out: one subscription that holds what is wanted of it.
//!
//! What the server tells comes over the link like everything it says unasked; here it is only
//! asked to tell. When the wanted resources change, the new subscription begins before the old one
//! ends, so that nothing falls between them.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::time::sleep;

use crate::backend::handshake::Greeting;
use crate::backend::lists::Kinds;
use crate::backend::switchboard::Switchboard;
use crate::raw::Raw;
use crate::wire::remote::Failure;
use crate::wire::server::{Link, Outcome, Pending, RequestError};

/// The pause before listening again to a server that ended the last subscription. It doubles for as
/// long as the server is not there, up to the longest.
const RELISTEN: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

/// The extension whose tasks can be listened for.
const TASKS: &str = "io.modelcontextprotocol/tasks";

/// Asks the server to tell of its changes; `None` when there is nothing it could tell of.
pub(crate) async fn listen(
    link: &Link,
    greeting: &Greeting,
    board: &Switchboard,
) -> Option<Pending> {
    let abilities = &greeting.abilities;
    let lists = [
        ("toolsListChanged", &abilities.tools),
        ("resourcesListChanged", &abilities.resources),
        ("promptsListChanged", &abilities.prompts),
    ];
    let mut wanted: Map<String, Value> = lists
        .into_iter()
        .filter(|(_, ability)| ability.is_some())
        .map(|(name, _)| (name.to_owned(), true.into()))
        .collect();
    let uris = board.subscriptions();
    if !uris.is_empty() {
        wanted.insert("resourceSubscriptions".to_owned(), uris.into());
    }
    let tasks = board.tasks();
    let knows_tasks = abilities.extensions.as_ref().is_some_and(|e| e.member(TASKS).is_some());
    if knows_tasks && !tasks.is_empty() {
        wanted.insert("taskIds".to_owned(), tasks.into());
    }
    if wanted.is_empty() {
        return None;
    }
    let wanted = Raw::encode(&wanted);
    let params = [("notifications", &wanted)];
    link.request("subscriptions/listen", &params, &greeting.meta, false).await.ok()
}

/// Keeps a subscription going for as long as the link lives.
pub(crate) async fn keep(
    mut listening: Option<Pending>,
    link: Link,
    greeting: Arc<Greeting>,
    board: Arc<Switchboard>,
) {
    let mut trouble = link.trouble();
    let (mut pause, mut is_behind) = (RELISTEN, false);
    loop {
        let answered = async {
            match &mut listening {
                Some(listening) => listening.done().await,
                None => std::future::pending().await,
            }
        };
        let is_back = async { trouble.wait_for(Option::is_none).await.is_ok() };
        let answer = tokio::select! {
            () = link.closed() => return,
            true = is_back, if is_behind => {
                is_behind = false;
                // What changed while nobody listened would otherwise be lost.
                board.changed(Kinds::ALL);
                continue;
            }
            () = board.subscriptions_changed.notified() => None,
            answer = answered => Some(answer),
        };
        let has_ended = answer.is_some();
        let is_away = answer.as_ref().is_some_and(is_away);
        if answer.is_some_and(|answer| is_refusal(&answer)) {
            tracing::debug!("the server does not tell of changes");
            listening = None;
            continue;
        }
        if has_ended {
            tokio::select! {
                () = link.closed() => return,
                () = sleep(pause) => {}
            }
            pause = if is_away { LONGEST_PAUSE.min(pause * 2) } else { RELISTEN };
        }
        let next = listen(&link, &greeting, &board).await;
        drop(std::mem::replace(&mut listening, next));
        is_behind |= has_ended;
    }
}

/// Returns `true` if nothing of the server was there to answer.
fn is_away(answer: &Result<Outcome, RequestError>) -> bool {
    let failure = match answer {
        Ok(Outcome::Error(error)) => Failure::of(error),
        _ => None,
    };
    matches!(failure, Some(Failure::Unreachable | Failure::HttpStatus(502..=504)))
}

/// Returns `true` if the server itself answers that it does not tell.
fn is_refusal(answer: &Result<Outcome, RequestError>) -> bool {
    matches!(answer, Ok(Outcome::Error(error)) if Failure::of(error).is_none())
}
