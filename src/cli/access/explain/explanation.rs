//! The parts that explanations of tools, resources and prompts have in common.

use std::fmt;
use std::path::Path;

use serde::Serialize;
use serde_json::{Value, json};

use mcp_workbench_config::{KeyLocation, locate_key};
use mcp_workbench_core::policy::RulePath;
use mcp_workbench_names::{AgentName, ServerRef};
use mcp_workbench_os::read_input_text;

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
    /// The project file that has the rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a str>,
    reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    change: Option<String>,
}

impl<'a> RuleReason<'a> {
    pub(super) fn new(
        place: &'a RulePlace,
        (reason, change): (impl Into<String>, Option<String>),
    ) -> Self {
        let (path, line) = place.key.as_ref().map(|key| (key.path.as_str(), key.line)).unzip();
        let file = place.is_project.then_some(place.file.as_str());
        Self { key: path, line, file, reason: reason.into(), change }
    }
}

/// The texts of the files with rules.
pub(super) struct RuleFiles {
    /// The configuration, or of a catalog its `_config.yaml`.
    own: (String, Option<String>),
    project: Option<(String, Option<String>)>,
}

/// The file that has a rule, and the rule's place in it if it is known.
#[derive(Default)]
pub(super) struct RulePlace {
    file: String,
    is_project: bool,
    key: Option<KeyLocation>,
}

impl RuleFiles {
    pub(super) fn new(own: (String, Option<String>), project: Option<&str>) -> Self {
        let project = project.map(|file| (file.to_owned(), read_input_text(Path::new(file)).ok()));
        Self { own, project }
    }

    /// Finds a rule that decided about a server.
    pub(super) fn locate(&self, rule: &RulePath, is_project_server: bool) -> RulePlace {
        let is_of_entry = rule.path().first().is_some_and(|key| key == "mcp_servers");
        let project = self.project.as_ref().map(|(file, _)| file.as_str());
        let file = rule.project_file().or(project.filter(|_| is_of_entry && is_project_server));
        match file {
            None => Self::find(&self.own, rule.path(), false),
            // For a changed file, the rules of the trusted text apply.
            Some(file) if Some(file) != project => {
                RulePlace { file: file.to_owned(), is_project: true, key: None }
            }
            Some(_) => self
                .project
                .as_ref()
                .map(|project| Self::find(project, rule.path(), true))
                .unwrap_or_default(),
        }
    }

    /// Finds a key of the configuration.
    pub(super) fn locate_own(&self, path: &[String]) -> RulePlace {
        Self::find(&self.own, path, false)
    }

    fn find(
        (file, text): &(String, Option<String>),
        path: &[String],
        is_project: bool,
    ) -> RulePlace {
        let key = text.as_deref().and_then(|text| locate_key(text, Path::new(file), path));
        RulePlace { file: file.clone(), is_project, key }
    }
}

/// Shows the file and the line of the rule, in parentheses.
impl fmt::Display for RulePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.key {
            Some(key) => write!(f, " ({}:{})", self.file, key.line),
            None if self.is_project => write!(f, " ({})", self.file),
            None => Ok(()),
        }
    }
}

pub(super) fn shown_agent(agent: Option<&AgentName>) -> String {
    agent.map_or_else(|| "unnamed agents".to_owned(), |agent| format!("agent `{agent}`"))
}

pub(super) fn disabled_text(at: &ServerRef, tool: &str, place: &RulePlace) -> String {
    let key = place.key.as_ref();
    format!(
        "`{tool}` of `{}/{}` is hidden from all agents\n  rule      {}{place}\n  reason    {DISABLED_REASON}\n  \
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
    place: &RulePlace,
) -> Value {
    let key = place.key.as_ref();
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
