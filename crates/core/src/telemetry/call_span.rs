//! The span of a call, stored with the call.

use opentelemetry::Context;

use mcp_workbench_wire::json::Member;

pub(crate) struct CallSpan {
    pub(crate) span: Context,
    /// Members of the request's `_meta` for the server, with this span as the parent instead of the
    /// agent's.
    pub(crate) meta: Vec<Member>,
}
