//! A request of an agent, read as far as everybody needs it, and the way back for its answer.

use std::borrow::Cow;
use std::pin::Pin;

use crate::backend::Outcome;
use crate::frontend::era::RequestMeta;
use crate::gateway::Held;
use crate::raw::{Member, Raw};
use crate::wire::code::{INVALID_PARAMS, METHOD_NOT_FOUND};
use crate::wire::incoming::{Reply, error_object};

/// A request, read no further than its members.
pub(crate) struct Asked {
    pub(crate) method: String,
    /// The members of `params`, less `_meta`.
    pub(crate) params: Vec<Member>,
    pub(crate) meta: RequestMeta,
    /// Its place among the requests of its agent that are under way.
    pub(crate) place: Option<Held>,
}

impl Asked {
    /// Reads a request; an error is the error object to answer with.
    pub(crate) fn read(method: String, params: Option<&Raw>) -> Result<Self, Raw> {
        let not_an_object =
            || error_object(INVALID_PARAMS, "the parameters are not an object", None);
        let mut params =
            params.map(|params| params.members().ok_or_else(not_an_object)).transpose()?;
        let params = params.get_or_insert_default();
        let meta = params.iter().position(|(key, _)| key == "_meta").map(|at| params.remove(at).1);
        let meta = RequestMeta::read(meta.as_ref())?;
        Ok(Self { method, params: std::mem::take(params), meta, place: None })
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
