//! From a request of an agent to whoever answers it.

use std::sync::Arc;

use crate::backend::Outcome;
use crate::exposure;
use crate::frontend::asked::{Answering, Asked, send, unknown};
use crate::frontend::era::fit;
use crate::frontend::session::Session;
use crate::frontend::{calls, extensions, handshake, lists, primitives, subscriptions};
use crate::gateway::AtLimit;
use crate::observe::Holding;
use crate::raw;
use crate::wire::code::UNAVAILABLE;
use crate::wire::incoming::{Reply, Request, error_object};

/// Answers one request; ready when the answer is queued, or at once when the agent cancels it.
pub(crate) fn answer(session: Arc<Session>, request: Request) -> Answering {
    let Request { method, params, reply } = request;
    let mut asked = match Asked::read(method, params.as_ref()) {
        Ok(asked) => asked,
        Err(error) => return Box::pin(send(reply, Outcome::Error(error))),
    };
    if let Err(error) = session.admit(&asked.meta) {
        return Box::pin(send(reply, handshake::crowded(error)));
    }
    if !is_brief(&asked.method) {
        let most = session.app().gateways.config().limits.per_caller.max_calls;
        match session.purse().take(Holding::Calls, most) {
            Ok(place) => asked.place = Some(place),
            Err(AtLimit) => return Box::pin(send(reply, too_many(&session, &asked, most))),
        }
    }
    // Each has a future of its own size, for calls are many and some others are large.
    match asked.method.as_str() {
        "tools/call" => calls::call(session, asked, reply),
        "resources/read" => primitives::read(session, asked, reply),
        "prompts/get" => primitives::get_prompt(session, asked, reply),
        "completion/complete" => primitives::complete(session, asked, reply),
        _ => Box::pin(answer_other(session, asked, reply)),
    }
}

/// Returns `true` for a method that is answered at once, by ourselves. Such a request needs no place,
/// so that an agent that has none left can still be greeted and show that it is alive.
fn is_brief(method: &str) -> bool {
    matches!(method, "initialize" | "ping" | "server/discover" | "logging/setLevel")
}

/// The answer to a request for which its agent has no place left.
fn too_many(session: &Session, asked: &Asked, most: usize) -> Outcome {
    let whose = session.purse().payer();
    let reason = format!(
        "{most} requests of {whose} are under way, and there may be no more \
         (`limits.perCaller.maxCalls`)"
    );
    let hint = "wait for others to be answered, then make it again";
    if asked.method == "tools/call" {
        let name = asked.text("name").unwrap_or_default();
        let text = format!("`{name}` was not called: {reason}.\nWhat to do: {hint}.");
        return fit(exposure::tool_error(&text), asked.meta.is_modern);
    }
    Outcome::Error(error_object(UNAVAILABLE, &format!("{reason}: {hint}"), None))
}

async fn answer_other(session: Arc<Session>, asked: Asked, reply: Reply) {
    let outcome = match (asked.method.as_str(), asked.meta.is_modern) {
        ("initialize", false) => handshake::initialize(&session, &asked).await,
        ("ping", false) => Ok(Outcome::Result(raw::object([]))),
        ("server/discover", true) => handshake::discover(&session, &asked).await,
        ("tools/list", _) => return lists::tools(&session, &asked, reply).await,
        ("resources/list", _) => lists::resources(&session, &asked).await,
        ("resources/templates/list", _) => lists::templates(&session, &asked).await,
        ("prompts/list", _) => lists::prompts(&session, &asked).await,
        ("logging/setLevel", false) => primitives::set_log_level(&session, &asked).await,
        ("resources/subscribe", false) => primitives::subscribe(&session, &asked).await,
        ("resources/unsubscribe", false) => primitives::unsubscribe(&session, &asked).await,
        ("subscriptions/listen", true) => {
            return subscriptions::listen(session, asked, reply).await;
        }
        ("server/discover" | "subscriptions/listen", false)
        | (
            "initialize"
            | "ping"
            | "logging/setLevel"
            | "resources/subscribe"
            | "resources/unsubscribe",
            true,
        ) => Ok(unknown(&asked.method)),
        _ => return extensions::pass(session, asked, reply).await,
    };
    send(reply, outcome.unwrap_or_else(|refusal| refusal)).await;
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::raw::Raw;

    #[test]
    fn parameters_are_an_object() {
        let read = |params| Asked::read("x".to_owned(), Some(&Raw::encode(&params)));
        assert!(read(json!({"name": "x"})).is_ok());
        assert!(read(json!(["x"])).is_err());
        assert!(read(json!("x")).is_err());
        assert!(Asked::read("x".to_owned(), None).is_ok());
    }
}
