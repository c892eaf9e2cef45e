//! The capabilities of the server, and those that requests need from the client.

use serde_json::{Value, json};

use crate::request::Request;
use crate::wire::Fault;

pub(crate) const TASKS: &str = "io.modelcontextprotocol/tasks";
pub(crate) const SKILLS: &str = "io.modelcontextprotocol/skills";

/// Extensions are declared only to modern clients.
pub(crate) fn ours(modern: bool) -> Value {
    let mut capabilities = json!({
        "tools": { "listChanged": true },
        "prompts": { "listChanged": true },
        "resources": { "subscribe": true, "listChanged": true },
        "completions": {},
        "logging": {},
    });
    if modern {
        capabilities["extensions"] = json!({ TASKS: {}, SKILLS: { "directoryRead": true } });
    }
    capabilities
}

pub(crate) fn needed_for(method: &str) -> &'static str {
    match method {
        "elicitation/create" => "elicitation",
        "sampling/createMessage" => "sampling",
        "roots/list" => "roots",
        _ => panic!("no question uses `{method}`"),
    }
}

impl Request {
    pub(crate) fn can(&self, capability: &str) -> bool {
        self.capabilities[capability].is_object()
    }

    pub(crate) fn has_tasks(&self) -> bool {
        self.modern && self.capabilities["extensions"][TASKS].is_object()
    }

    pub(crate) fn need(&self, capabilities: &[&str]) -> Result<(), Fault> {
        let mut missing = json!({});
        for capability in capabilities.iter().filter(|capability| !self.can(capability)) {
            missing[*capability] = json!({});
        }
        if missing == json!({}) { Ok(()) } else { Err(Fault::missing_capability(&missing)) }
    }

    pub(crate) fn need_tasks(&self) -> Result<(), Fault> {
        if self.has_tasks() {
            return Ok(());
        }
        Err(Fault::missing_capability(&json!({ "extensions": { TASKS: {} } })))
    }
}
