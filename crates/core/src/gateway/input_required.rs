//! Lets legacy clients use servers that speak MCP 2026-07-28.
//!
//! Such a server asks for input with an `input_required` result and expects the request again with
//! the answers (2026-07-28, basic/patterns/mrtr). The gateway asks a legacy client with regular
//! server requests and adds its answers to the repeated request.

use std::sync::LazyLock;

use memchr::memmem::Finder;
use serde::Deserialize;

use crate::backend::{RpcOutcome, ServerRequest, events};
use mcp_workbench_wire::code::INTERNAL_ERROR;
use mcp_workbench_wire::incoming::error_object;
use mcp_workbench_wire::json::{self, Member, RawJson};

/// Maximum number of times that a server may ask for input during one request.
pub(crate) const MAX_ROUNDS: usize = 10;
/// The input that a server needs before it can continue.
pub(crate) struct InputRequired {
    requests: Vec<Member>,
    state: Option<RawJson>,
}

impl InputRequired {
    /// Parses an `input_required` result; `None` for any other result.
    pub(crate) fn parse(result: &RawJson) -> Option<Self> {
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

    /// Asks the agent, and returns the members to add to the repeated request, or the error to
    /// return to the agent.
    pub(crate) async fn resolve(
        self,
        events: Option<&events::Sender>,
    ) -> Result<Vec<Member>, RpcOutcome> {
        #[derive(Deserialize)]
        struct Wanted {
            method: String,
            #[serde(default)]
            params: Option<RawJson>,
        }

        let mut responses = Vec::new();
        for (key, wanted) in self.requests {
            let Wanted { method, params } = wanted
                .parse()
                .map_err(|_| failed("the server sent an invalid input request; tell the user"))?;
            let events = events.ok_or_else(|| failed("needs input; call it from a client"))?;
            let (request, answer) = ServerRequest::relayed(method, params);
            let unasked = events.send(request.into()).await.is_err();
            match answer.await {
                Ok(RpcOutcome::Result(response)) if !unasked => responses.push((key, response)),
                Ok(error @ RpcOutcome::Error(_)) => return Err(error),
                _ => return Err(failed("the client did not answer the server; retry")),
            }
        }
        let mut added = Vec::new();
        if !responses.is_empty() {
            let responses = json::object(responses.iter().map(|(key, value)| (&**key, value)));
            added.push(("inputResponses".into(), responses));
        }
        added.extend(self.state.map(|state| ("requestState".into(), state)));
        Ok(added)
    }
}

fn failed(reason: &str) -> RpcOutcome {
    RpcOutcome::Error(error_object(INTERNAL_ERROR, reason, None))
}

pub(crate) fn roots_withheld_error() -> RpcOutcome {
    failed(
        "the client's roots are not available to this server; its entry can allow them with \
         `\"roots\": true`",
    )
}

pub(crate) fn too_many_rounds() -> RpcOutcome {
    failed(&format!("too many input requests ({MAX_ROUNDS}); tell the user"))
}

#[cfg(test)]
mod tests;
