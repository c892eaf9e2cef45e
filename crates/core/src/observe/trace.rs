//! The trace that a call belongs to, as it travels with the call.

use opentelemetry::Context;

use crate::raw::Member;

/// The span of one call.
pub(crate) struct Trace {
    /// Has the span.
    pub(crate) span: Context,
    /// The members of the request's `_meta` that go on to the server, with this span in place of
    /// the agent's.
    pub(crate) meta: Vec<Member>,
}
