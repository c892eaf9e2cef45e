//! A server of 2026-07-28 behind an agent of an older revision.
//!
//! The server asks by answering that input is required, and wants the request again with the
//! answers (2026-07-28, basic/patterns/mrtr). The agent is asked in its own way, and what it
//! answers goes into the request that is made again.

use std::sync::LazyLock;

use memchr::memmem::Finder;
use serde::Deserialize;

use crate::backend::{Outcome, Question, events};
use crate::raw::{self, Member, Raw};
use crate::wire::code::INTERNAL_ERROR;
use crate::wire::incoming::error_object;

/// How often a server may ask for one request.
pub(crate) const MAX_ROUNDS: usize = 10;
/// The questions of a server that it wants answered before it goes on.
pub(crate) struct InputRequired {
    requests: Vec<Member>,
    state: Option<Raw>,
}

impl InputRequired {
    /// Reads a result that says that input is required; `None` if it is another one.
    pub(crate) fn read(result: &Raw) -> Option<Self> {
        static KIND: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("input_required"));
        KIND.find(result.as_bytes())?;
        let (mut kind, mut requests, mut state) = (None, None, None);
        for (key, value) in result.members()? {
            match &*key {
                "resultType" => kind = Some(value),
                "inputRequests" => requests = value.members(),
                "requestState" => state = Some(value),
                _ => {}
            }
        }
        (kind?.as_bytes() == br#""input_required""#)
            .then_some(Self { requests: requests.unwrap_or_default(), state })
    }

    /// Asks the agent, and makes of its answers what is to be added to the request; an error is
    /// what to answer it with.
    pub(crate) async fn resolve(
        self,
        events: Option<&events::Sender>,
    ) -> Result<Vec<Member>, Outcome> {
        #[derive(Deserialize)]
        struct Wanted {
            method: String,
            #[serde(default)]
            params: Option<Raw>,
        }

        let mut responses = Vec::new();
        for (key, wanted) in self.requests {
            let Wanted { method, params } = wanted.parse().map_err(|_| {
                failed("the server asked for input in a way that nobody understands")
            })?;
            let events = events.ok_or_else(|| failed("the server asks, and nobody can answer"))?;
            let (question, answer) = Question::relayed(method, params);
            let unasked = events.send(question.into()).await.is_err();
            match answer.await {
                Ok(Outcome::Result(response)) if !unasked => responses.push((key, response)),
                Ok(error @ Outcome::Error(_)) => return Err(error),
                _ => return Err(failed("the agent did not answer what the server asked")),
            }
        }
        let mut added = Vec::new();
        if !responses.is_empty() {
            let responses = raw::object(responses.iter().map(|(key, value)| (&**key, value)));
            added.push(("inputResponses".into(), responses));
        }
        added.extend(self.state.map(|state| ("requestState".into(), state)));
        Ok(added)
    }
}

fn failed(reason: &str) -> Outcome {
    Outcome::Error(error_object(INTERNAL_ERROR, reason, None))
}

/// The answer when a server asks for roots that are not for it.
pub(crate) fn no_roots() -> Outcome {
    failed("the server asks for the agent's roots, but no roots are given to this server (`roots`)")
}

/// The answer when a server never has enough.
pub(crate) fn too_many_rounds() -> Outcome {
    failed(&format!("the server asked for input more than {MAX_ROUNDS} times"))
}

#[cfg(test)]
mod tests;
