//! From a request of an agent to whoever answers it.

use std::borrow::Cow;
use std::pin::Pin;
use std::sync::Arc;

use crate::backend::Outcome;
use crate::frontend::era::RequestMeta;
use crate::frontend::session::Session;
use crate::frontend::{calls, extensions, handshake, lists, subscriptions, things};
use crate::raw::{self, Member, Raw};
use crate::wire::incoming::{Reply, Request, error_object};

/// JSON-RPC: nobody here knows this method.
const METHOD_NOT_FOUND: i64 = -32601;
/// JSON-RPC: the parameters are not what the method takes.
const INVALID_PARAMS: i64 = -32602;

/// A request, read no further than its members.
pub(crate) struct Asked {
    pub(crate) method: String,
    /// The members of `params`, less `_meta`.
    pub(crate) params: Vec<Member>,
    pub(crate) meta: RequestMeta,
}

impl Asked {
    /// Reads a request; an error is the error object to answer with.
    fn read(method: String, params: Option<&Raw>) -> Result<Self, Raw> {
        let not_an_object =
            || error_object(INVALID_PARAMS, "the parameters are not an object", None);
        let mut params =
            params.map(|params| params.members().ok_or_else(not_an_object)).transpose()?;
        let params = params.get_or_insert_default();
        let meta = params.iter().position(|(key, _)| key == "_meta").map(|at| params.remove(at).1);
        let meta = RequestMeta::read(meta.as_ref())?;
        Ok(Self { method, params: std::mem::take(params), meta })
    }

    /// The member of the parameters called `key`.
    pub(crate) fn param(&self, key: &str) -> Option<&Raw> {
        self.params.iter().find_map(|(name, value)| (name == key).then_some(value))
    }

    /// A member as a text.
    pub(crate) fn text(&self, key: &str) -> Result<String, Outcome> {
        self.borrowed_text(key).map(Cow::into_owned)
    }

    /// A member as a text, without a copy where it has no escapes.
    pub(crate) fn borrowed_text(&self, key: &str) -> Result<Cow<'_, str>, Outcome> {
        self.param(key).and_then(Raw::text).ok_or_else(|| {
            let message = format!("`{key}` is missing, or is no text");
            Outcome::Error(error_object(INVALID_PARAMS, &message, None))
        })
    }
}

/// The future that answers a request.
pub(crate) type Answering = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Answers one request; ready when the answer is queued, or at once when the agent cancels it.
pub(crate) fn answer(session: Arc<Session>, request: Request) -> Answering {
    let Request { method, params, reply } = request;
    let asked = match Asked::read(method, params.as_ref()) {
        Ok(asked) => asked,
        Err(error) => return Box::pin(send(reply, Outcome::Error(error))),
    };
    // Each has a future of its own size, for calls are many and some others are large.
    match asked.method.as_str() {
        "tools/call" => calls::call(session, asked, reply),
        "resources/read" => things::read(session, asked, reply),
        "prompts/get" => things::get_prompt(session, asked, reply),
        "completion/complete" => things::complete(session, asked, reply),
        _ => Box::pin(answer_other(session, asked, reply)),
    }
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
        ("logging/setLevel", false) => things::set_log_level(&session, &asked).await,
        ("resources/subscribe", false) => things::subscribe(&session, &asked).await,
        ("resources/unsubscribe", false) => things::unsubscribe(&session, &asked).await,
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

/// Sends an answer.
pub(crate) async fn send(reply: Reply, outcome: Outcome) {
    if reply.answer(outcome).await.is_err() {
        tracing::debug!("the agent left before its answer");
    }
}

/// The answer to a method that nobody here knows.
pub(crate) fn unknown(method: &str) -> Outcome {
    let message = format!("the method `{method}` is not known here");
    Outcome::Error(error_object(METHOD_NOT_FOUND, &message, None))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parameters_are_an_object() {
        let read = |params| Asked::read("x".to_owned(), Some(&Raw::encode(&params)));
        assert!(read(json!({"name": "x"})).is_ok());
        assert!(read(json!(["x"])).is_err());
        assert!(read(json!("x")).is_err());
        assert!(Asked::read("x".to_owned(), None).is_ok());
    }
}
