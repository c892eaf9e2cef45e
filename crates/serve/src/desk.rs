//! The desk of whoever runs a workbench: what is seen of it while it serves, and what can be done with it.
//!
//! *Theory of operation.* A [`View`] is all that is seen at one moment, and an [`Ask`] is something to be
//! found out or done. Both are plain data, so that the terminal (`top`), the page in a browser and the
//! socket between processes say the same. The [`Desk`] makes the one and answers the other: it looks
//! at what goes on and at servers through every gateway, and calls and searches as one caller.

mod answering;
mod ask;
mod looking;
mod papers;
pub mod socket;
mod view;

use std::sync::{Arc, Mutex};
use std::time::{Instant, SystemTime};

use crate::gateway::{Caller, Gateways};
use crate::os::Memory;

pub use crate::desk::ask::{Act, Answer, Ask, Failure, Finding, Hit, Refused, ToolDefinition};
pub use crate::desk::papers::{Findings, Idle, Papers, Patch};
pub use crate::desk::view::{
    Agent, Call, Course, Drift, Latency, Server, ServerState, SignIn, Toolbox, Unused, View,
};

/// The desk of one workbench. Clones are the same.
#[derive(Clone)]
pub struct Desk(Arc<Parts>);

struct Parts {
    gateways: Arc<Gateways>,
    /// As whom tools are searched and called.
    caller: Caller,
    papers: Papers,
    since: SystemTime,
    /// How much memory these processes held, and when that was.
    memory: Mutex<Option<(Instant, Vec<u32>, Memory)>>,
}

impl Desk {
    /// A desk at these gateways for somebody who may use what `caller` may.
    pub fn new(gateways: Arc<Gateways>, caller: Caller, papers: Papers) -> Self {
        let (since, memory) = (SystemTime::now(), Mutex::default());
        Self(Arc::new(Parts { gateways, caller, papers, since, memory }))
    }
}

#[cfg(test)]
mod tests;
