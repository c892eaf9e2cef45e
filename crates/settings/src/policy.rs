//! Access rules as configured: `agentPolicies`, `exposedTools`, `exposedResources`,
//! `exposedPrompts`, `defaultPolicy`, `dangerousTools` and `requireConfirmation`. `policy`
//! evaluates them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Number, Value};

use crate::limits::RateLimits;
use mcp_workbench_names::{AgentName, ToolboxName};

/// Validated access rules: every pattern compiles, and every agent in `extends` exists.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PolicyConfig {
    pub agents: BTreeMap<AgentName, AgentPolicy>,
    /// `exposedTools` by server name.
    pub exposed_tools: BTreeMap<String, Vec<String>>,
    /// `exposedResources` by server name: names, globs and `!` globs.
    pub exposed_resources: BTreeMap<String, Vec<String>>,
    /// `exposedPrompts` by server name: names, globs and `!` globs.
    pub exposed_prompts: BTreeMap<String, Vec<String>>,
    pub default: DefaultPolicy,
    /// How to treat agents that `agents` doesn't list.
    pub strangers: UnknownAgentPolicy,
    /// `dangerousTools`: names, globs and `server:tool`.
    pub dangerous_tools: Vec<String>,
    /// `true` if tools with `destructiveHint` count as dangerous.
    pub is_hint_dangerous: bool,
    pub confirmation: ConfirmationPolicy,
    /// The rules of project files. A request must pass all of them.
    pub projects: Vec<ProjectRules>,
    /// The toolboxes of the project file. Its own lists don't apply to them.
    pub project_toolboxes: BTreeSet<ToolboxName>,
    /// The folder that the workbench was started in. `None` if unknown.
    pub working_directory: Option<PathBuf>,
}

impl PolicyConfig {
    /// Returns `true` if any rule restricts agents.
    pub fn has_rules(&self) -> bool {
        !self.agents.is_empty()
            || !self.exposed_tools.is_empty()
            || !self.exposed_resources.is_empty()
            || !self.exposed_prompts.is_empty()
            || self.default != DefaultPolicy::default()
            || self.projects.iter().any(ProjectRules::has_lists)
    }

    /// Returns `true` if any call can require confirmation by the user.
    pub fn has_confirmations(&self) -> bool {
        if self.projects.iter().any(|project| !project.dangerous_tools.is_empty()) {
            return true;
        }
        let has_listed = match &self.confirmation {
            ConfirmationPolicy::Never => return false,
            ConfirmationPolicy::Dangerous(listed) => !listed.is_empty(),
        };
        has_listed
            || !self.dangerous_tools.is_empty()
            || self.is_hint_dangerous
            || self.default.require_explicit_approval
    }

    /// Returns `true` if the rules admit an agent with this name.
    pub fn knows(&self, agent: &AgentName) -> bool {
        self.strangers == UnknownAgentPolicy::Allow || self.agents.contains_key(agent)
    }
}

/// The rules of a project file. They narrow the access to the servers of the user's configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ProjectRules {
    /// The file, as messages name it.
    pub file: Arc<str>,
    /// `allowedServers`: names and globs. `None` allows all.
    pub allowed_servers: Option<Vec<String>>,
    /// `exposedTools` by server name.
    pub exposed_tools: BTreeMap<String, Vec<String>>,
    /// `exposedResources` by server name: names, globs and `!` globs.
    pub exposed_resources: BTreeMap<String, Vec<String>>,
    /// `exposedPrompts` by server name: names, globs and `!` globs.
    pub exposed_prompts: BTreeMap<String, Vec<String>>,
    /// `deniedTools`: names, globs and `server:tool`.
    pub denied_tools: Vec<String>,
    /// `dangerousTools`: the same. Their calls need confirmation, whatever the user's
    /// `requireConfirmation` is.
    pub dangerous_tools: Vec<String>,
    /// `limits`: rate limits of each agent.
    pub limits: RateLimits,
}

impl ProjectRules {
    /// Returns `true` if the rules hide anything.
    pub fn has_lists(&self) -> bool {
        self.allowed_servers.is_some()
            || !self.exposed_tools.is_empty()
            || !self.exposed_resources.is_empty()
            || !self.exposed_prompts.is_empty()
            || !self.denied_tools.is_empty()
    }

    /// Returns the keys that the file sets.
    pub fn keys(&self) -> Vec<&'static str> {
        let keys = [
            ("allowedServers", self.allowed_servers.is_some()),
            ("exposedTools", !self.exposed_tools.is_empty()),
            ("exposedResources", !self.exposed_resources.is_empty()),
            ("exposedPrompts", !self.exposed_prompts.is_empty()),
            ("deniedTools", !self.denied_tools.is_empty()),
            ("dangerousTools", !self.dangerous_tools.is_empty()),
            ("limits", self.limits != RateLimits::default()),
        ];
        keys.into_iter().filter(|(_, is_set)| *is_set).map(|(key, _)| key).collect()
    }
}

/// How to treat an agent that `agentPolicies` doesn't list. Its name can be a typo.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum UnknownAgentPolicy {
    /// Apply `exposedTools` and `defaultPolicy`, as for an anonymous agent.
    #[default]
    Allow,
    /// Allow nothing: there are `agentPolicies` but no `defaultPolicy`.
    Deny,
}

/// The permissions of one agent (`agentPolicies.<agent>`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct AgentPolicy {
    /// `extends`: agents whose permissions are inherited.
    pub extends: Vec<AgentName>,
    /// `allowedServers`: names and globs.
    pub allowed_servers: Option<Vec<String>>,
    /// `toolOverrides` by server name.
    pub tool_overrides: BTreeMap<String, Vec<String>>,
    /// `resourceOverrides` by server name: URIs, names, globs and `!` globs.
    pub resource_overrides: BTreeMap<String, Vec<String>>,
    /// `promptOverrides` by server name: names, globs and `!` globs.
    pub prompt_overrides: BTreeMap<String, Vec<String>>,
    /// `when`: every condition that applies to a tool must hold.
    pub when: Vec<PolicyCondition>,
    /// `limits`: rate limits of the agent.
    pub limits: RateLimits,
}

/// The rules for tools that no list mentions (`defaultPolicy`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DefaultPolicy {
    /// `allowUnknownTools`. Its default depends on whether other rules exist.
    pub allow_unknown_tools: bool,
    /// `allowUnknownServers`. `None` if not configured.
    pub allow_unknown_servers: Option<bool>,
    /// `requireExplicitApproval`: `true` if the user must confirm every call of such a tool.
    pub require_explicit_approval: bool,
}

impl Default for DefaultPolicy {
    fn default() -> Self {
        Self {
            allow_unknown_tools: true,
            allow_unknown_servers: None,
            require_explicit_approval: false,
        }
    }
}

/// Which calls need confirmation by the user (`requireConfirmation`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ConfirmationPolicy {
    /// No calls, not even of dangerous tools.
    Never,
    /// Calls of dangerous tools and of these: names, globs and `server:tool`.
    Dangerous(Vec<String>),
}

impl Default for ConfirmationPolicy {
    fn default() -> Self {
        Self::Dangerous(Vec::new())
    }
}

/// A condition for using some tools (an entry of `when`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PolicyCondition {
    /// The tools it applies to: names, globs and `server:tool`. `None`: all tools.
    pub tools: Option<Vec<String>>,
    /// Tests of arguments, by JSON pointer.
    pub arguments: Vec<(String, ArgumentTest)>,
    /// Absolute globs. At least one must match the folder that the workbench was started in.
    pub working_directory: Option<Vec<String>>,
    /// When the tools are available.
    pub time: Option<TimeWindow>,
}

/// Tests of one argument. All that are set must pass.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ArgumentTest {
    /// A regular expression that must match somewhere in the string.
    pub matches: Option<String>,
    /// A regular expression that must not match anywhere in the string.
    pub not_matches: Option<String>,
    /// Minimum, inclusive.
    pub min: Option<Number>,
    /// Maximum, inclusive.
    pub max: Option<Number>,
    pub one_of: Option<Vec<Value>>,
}

/// A daily time window, optionally limited to some weekdays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TimeWindow {
    /// Start, in minutes since midnight.
    pub from: u32,
    /// End (exclusive), in minutes since midnight. On the next day if not after `from`.
    pub to: u32,
    /// The weekdays that the window starts on, Monday first.
    pub days: [bool; 7],
    /// Offset of the clock from UTC, in minutes. Positive is ahead.
    pub utc_offset: i32,
}
