//! The desk of whoever runs a workbench: what is seen of it while it serves, and what can be done with it.
//!
//! *Theory of operation.* A [`View`] is all that is seen at one moment, and an [`Ask`] is something to be
//! found out or done. Both are plain data, so that the terminal (`top`), the page in a browser and the
//! socket between processes say the same.

mod ask;
mod view;

pub use crate::desk::ask::{Act, Answer, Ask, Failure, Finding, Hit, Refused, ToolDefinition};
pub use crate::desk::view::{
    Agent, Call, Course, Latency, Server, ServerState, Toolbox, Unused, View,
};
