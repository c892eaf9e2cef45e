//! Requests to a server, repeated if the server requires input from the agent.

use crate::backend::{self, Backend, CallTimeouts, OutgoingRequest, RequestGuard, RpcOutcome};
use crate::gateway::request_context::RequestContext;
use crate::policy::{Admission, Permit};
use mcp_workbench_wire::json::{Member, RawJson};

#[derive(Clone, Copy)]
pub(crate) enum RelayedRequest<'a> {
    Call {
        permit: &'a Permit,
        arguments: Option<&'a RawJson>,
        rest: &'a [Member],
    },
    /// A method of a protocol extension, named by the permit.
    Extension {
        permit: &'a Permit,
        params: &'a [Member],
    },
    Other {
        admission: &'a Admission,
        method: &'a str,
        params: &'a [Member],
    },
}

impl RelayedRequest<'_> {
    /// Sends the request. Members of `added` replace parameters of the same name.
    pub(crate) async fn send(
        self,
        backend: &Backend,
        added: &[Member],
        context: &RequestContext<'_>,
        patience: CallTimeouts,
        guard: &RequestGuard,
    ) -> Result<RpcOutcome, backend::BackendError> {
        match self {
            Self::Call { permit, arguments, rest } => {
                let arguments = arguments.map(|arguments| ("arguments", arguments));
                let params: Vec<_> = arguments.into_iter().chain(members(rest, added)).collect();
                backend.call(permit, outgoing_request(context, &params, patience), guard).await
            }
            Self::Extension { permit, params } => {
                let params: Vec<_> = members(params, added).collect();
                backend
                    .call_extension_method(
                        permit,
                        outgoing_request(context, &params, patience),
                        guard,
                    )
                    .await
            }
            Self::Other { admission, method, params } => {
                let params: Vec<_> = members(params, added).collect();
                backend
                    .request(admission, method, outgoing_request(context, &params, patience), guard)
                    .await
            }
        }
    }
}

fn outgoing_request<'a>(
    context: &'a RequestContext<'_>,
    params: &'a [(&'a str, &'a RawJson)],
    patience: CallTimeouts,
) -> OutgoingRequest<'a> {
    let RequestContext { meta, log, events, sent_flag: sent, .. } = *context;
    OutgoingRequest { params, meta, log, events, patience, sent }
}

fn members<'a>(
    params: &'a [Member],
    added: &'a [Member],
) -> impl Iterator<Item = (&'a str, &'a RawJson)> {
    let kept = params.iter().filter(|(key, _)| added.iter().all(|(other, _)| other != key));
    kept.chain(added).map(|(key, value)| (&**key, value))
}
