//! Requests to a server, sent once or again with what an agent was asked for meanwhile.

use crate::backend::{self, Backend, Outcome, Patience, Seat};
use crate::gateway::RequestContext;
use crate::policy::{Admission, Permit};
use crate::raw::{Member, Raw};

/// A request that is sent to a server.
#[derive(Clone, Copy)]
pub(crate) enum Sending<'a> {
    Call { permit: &'a Permit, arguments: Option<&'a Raw>, rest: &'a [Member] },
    Other { admission: &'a Admission, method: &'a str, params: &'a [Member] },
}

impl Sending<'_> {
    /// Sends it with these members added to its parameters.
    pub(crate) async fn send(
        self,
        backend: &Backend,
        added: &[Member],
        context: &RequestContext<'_>,
        patience: Patience,
        seat: &Seat,
    ) -> Result<Outcome, backend::Error> {
        match self {
            Self::Call { permit, arguments, rest } => {
                let arguments = arguments.map(|arguments| ("arguments", arguments));
                let params: Vec<_> = arguments.into_iter().chain(members(rest, added)).collect();
                backend.call(permit, context.call(&params, patience), seat).await
            }
            Self::Other { admission, method, params } => {
                let params: Vec<_> = members(params, added).collect();
                backend.request(admission, method, context.call(&params, patience), seat).await
            }
        }
    }
}

/// The members of `params` with those of `added` in place of their namesakes.
fn members<'a>(
    params: &'a [Member],
    added: &'a [Member],
) -> impl Iterator<Item = (&'a str, &'a Raw)> {
    let kept = params.iter().filter(|(key, _)| added.iter().all(|(other, _)| other != key));
    kept.chain(added).map(|(key, value)| (&**key, value))
}
