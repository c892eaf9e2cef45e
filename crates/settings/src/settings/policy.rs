//! The rules on who may use what (`agentPolicies`, `exposedTools`, `exposedResources`, `exposedPrompts`,
//! `defaultPolicy`, `dangerousTools`, `requireConfirmation`), as they are written; `policy` makes decisions of them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Number, Value};

use crate::name::AgentName;
use crate::settings::limits::Rates;

/// The rules for agents and tools, checked: every pattern can be compiled, and every agent that is
/// named in `extends` is there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyConfig {
    /// `agentPolicies`.
    pub agents: BTreeMap<AgentName, AgentPolicy>,
    /// `exposedTools`, by the servers' names.
    pub exposed_tools: BTreeMap<String, Vec<String>>,
    /// `exposedResources`, by the servers' names: names, globs and `!` globs.
    pub exposed_resources: BTreeMap<String, Vec<String>>,
    /// `exposedPrompts`, likewise.
    pub exposed_prompts: BTreeMap<String, Vec<String>>,
    /// `defaultPolicy`.
    pub default: DefaultPolicy,
    /// How agents are treated that `agents` does not have.
    pub strangers: Strangers,
    /// `dangerousTools`: names, globs and `server:tool`.
    pub dangerous_tools: Vec<String>,
    /// `true` if every tool counts as dangerous that its server calls destructive.
    pub is_hint_dangerous: bool,
    /// `requireConfirmation`.
    pub confirmation: Confirmation,
    /// The folder that the workbench was started in, where that is known.
    pub working_directory: Option<PathBuf>,
}

impl PolicyConfig {
    /// Returns `true` if agents may use less than everything.
    pub fn has_rules(&self) -> bool {
        !self.agents.is_empty()
            || !self.exposed_tools.is_empty()
            || !self.exposed_resources.is_empty()
            || !self.exposed_prompts.is_empty()
            || self.default != DefaultPolicy::default()
    }

    /// Returns `true` if there are calls that the user confirms.
    pub fn has_confirmations(&self) -> bool {
        let has_listed = match &self.confirmation {
            Confirmation::Never => return false,
            Confirmation::Dangerous(listed) => !listed.is_empty(),
        };
        has_listed
            || !self.dangerous_tools.is_empty()
            || self.is_hint_dangerous
            || self.default.require_explicit_approval
    }

    /// Returns `true` if the rules say what an agent of this name may use.
    pub fn knows(&self, agent: &AgentName) -> bool {
        self.strangers == Strangers::Served || self.agents.contains_key(agent)
    }
}

/// How an agent is treated whose name `agentPolicies` does not have; it may be misspelt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strangers {
    /// It may use what `exposedTools` and `defaultPolicy` say, like an agent without a name.
    #[default]
    Served,
    /// It may use nothing: there are `agentPolicies`, and no `defaultPolicy` that speaks of others.
    Refused,
}

/// The permissions of one agent (`agentPolicies.<agent>`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentPolicy {
    /// `extends`: the agents whose permissions it takes over.
    pub extends: Vec<AgentName>,
    /// `allowedServers`: names and globs.
    pub allowed_servers: Option<Vec<String>>,
    /// `toolOverrides`, by the servers' names.
    pub tool_overrides: BTreeMap<String, Vec<String>>,
    /// `resourceOverrides`, by the servers' names: addresses, names, globs and `!` globs.
    pub resource_overrides: BTreeMap<String, Vec<String>>,
    /// `promptOverrides`, by the servers' names: names, globs and `!` globs.
    pub prompt_overrides: BTreeMap<String, Vec<String>>,
    /// `when`: all that apply to a tool must hold.
    pub when: Vec<When>,
    /// `limits`: how much it may ask.
    pub limits: Rates,
}

/// The permissions for tools that no list mentions (`defaultPolicy`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DefaultPolicy {
    /// `true` if they may be used: `allowUnknownTools`, or the default that depends on other rules.
    pub allow_unknown_tools: bool,
    /// `allowUnknownServers`, where the file has it.
    pub allow_unknown_servers: Option<bool>,
    /// `requireExplicitApproval`: `true` if the user confirms every call of them.
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

/// Which calls the user confirms (`requireConfirmation`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Confirmation {
    /// None, not even of dangerous tools.
    Never,
    /// Calls of dangerous tools, and of these: names, globs and `server:tool`.
    Dangerous(Vec<String>),
}

impl Default for Confirmation {
    fn default() -> Self {
        Self::Dangerous(Vec::new())
    }
}

/// A condition for the use of some tools (an entry of `when`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct When {
    /// The tools that it applies to: names, globs and `server:tool`; all if there is no such list.
    pub tools: Option<Vec<String>>,
    /// Tests of their arguments, by JSON pointer.
    pub arguments: Vec<(String, ArgumentTest)>,
    /// Absolute globs, of which one must match the folder that the workbench was started in.
    pub working_directory: Option<Vec<String>>,
    /// The time in which they are there.
    pub time: Option<TimeWindow>,
}

/// A test of one argument.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArgumentTest {
    /// A regular expression that a string must match somewhere.
    pub matches: Option<String>,
    /// One that it must match nowhere.
    pub not_matches: Option<String>,
    /// The least number it may be.
    pub min: Option<Number>,
    /// The greatest.
    pub max: Option<Number>,
    /// The only values it may have.
    pub one_of: Option<Vec<Value>>,
}

/// A part of each day, or of some days of the week.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeWindow {
    /// The minute of the day it begins with.
    pub from: u32,
    /// The minute it ends before; on the next day, if that is not after `from`.
    pub to: u32,
    /// The days it begins on, from Monday.
    pub days: [bool; 7],
    /// How many minutes its clock is ahead of UTC.
    pub utc_offset: i32,
}
