//! The parts that explanations of tools, resources and prompts have in common.

use serde::Serialize;
use serde_json::{Value, json};

use mcp_workbench_config::KeyLocation;
use mcp_workbench_names::{AgentName, ServerRef};

/// Whose access is explained, and to which server.
#[derive(Serialize)]
pub(super) struct ExplainedAccess<'a> {
    pub(super) agent: Option<&'a str>,
    pub(super) agent_has_entry: bool,
    pub(super) toolbox: &'a str,
    pub(super) server: &'a str,
}

/// The place of the rule, why it decides so, and the change that would reverse the decision.
#[derive(Serialize)]
pub(super) struct RuleReason<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    change: Option<String>,
}

impl<'a> RuleReason<'a> {
    pub(super) fn new(
        key: Option<&'a KeyLocation>,
        (reason, change): (impl Into<String>, Option<String>),
    ) -> Self {
        let (path, line) = key.map(|key| (key.path.as_str(), key.line)).unzip();
        Self { key: path, line, reason: reason.into(), change }
    }
}

pub(super) fn shown_agent(agent: Option<&AgentName>) -> String {
    agent.map_or_else(|| "unnamed agents".to_owned(), |agent| format!("agent `{agent}`"))
}

/// Returns the line of the rule in the file, in parentheses.
pub(super) fn shown_place(key: Option<&KeyLocation>, file: &str) -> String {
    key.map(|key| format!(" ({file}:{})", key.line)).unwrap_or_default()
}

pub(super) fn disabled_text(
    at: &ServerRef,
    tool: &str,
    key: Option<&KeyLocation>,
    file: &str,
) -> String {
    let line = shown_place(key, file);
    format!(
        "`{tool}` of `{}/{}` is hidden from all agents\n  rule      {}{line}\n  reason    {DISABLED_REASON}\n  \
         change    {SWITCH_ON}",
        at.toolbox,
        at.server,
        key.map_or("disabled", |key| key.path.as_str()),
    )
}

pub(super) fn switched_off_as_json(
    at: &ServerRef,
    of: Option<&AgentName>,
    tool: &str,
    key: Option<&KeyLocation>,
) -> Value {
    json!({
        "agent": of.map(AgentName::as_str),
        "toolbox": at.toolbox.as_str(),
        "server": at.server.as_str(),
        "tool": tool,
        "visible": false,
        "allowed": false,
        "rule": "disabled",
        "key": key.map(|key| &key.path),
        "line": key.map(|key| key.line),
        "reason": DISABLED_REASON,
        "change": SWITCH_ON,
    })
}

const DISABLED_REASON: &str = "the server is disabled";
const SWITCH_ON: &str = "remove `\"disabled\": true` or `\"enabled\": false`";
