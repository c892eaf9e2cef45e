//! Access policy: which agents may see and use which tools, resources and prompts. Every surface
//! asks it, and only it can create a [`Permit`].
//!
//! *Theory of operation.* [`Policies`] holds the rules of a configuration for all agents. For one
//! agent it returns the visible part of the configuration ([`Policies::visible_config`]) and a
//! [`Policy`], which decides on single tools. The rules are compiled when a policy is created
//! (`access` selects the lists that apply, `tool_patterns` compiles them), so a decision takes a
//! few lookups. A call passes the same check as the display of its tool, and also a check of its
//! arguments ([`Grant::permit`]). Rules that don't compile deny.

mod access;
mod condition;
mod drift_action;
mod explanation;
mod filter;
mod interner;
mod primitives;
mod resource_uri;
mod rule;
mod time_window;
mod tool_patterns;
mod unmatched_patterns;
mod uri_patterns;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use foldhash::HashMap;

use crate::name::untrusted_text::is_invisible;
use crate::name::{AgentName, ServerName, ServerRef, ToolId, ToolboxName};
use crate::policy::access::Access;
use crate::policy::condition::Condition;
use crate::policy::filter::ServerEntryFilter;
use crate::policy::interner::PolicyInterner;
use crate::policy::primitives::PrimitiveRules;
use crate::policy::tool_patterns::{Candidate, ToolPatternSet};
use crate::settings::{
    Config, ConfirmationPolicy, DriftPolicy, Launch, PolicyConfig, ServerConfig, ToolAnnotation,
    ToolAnnotations, is_core_method,
};

pub use crate::policy::access::PrimitiveKind;
pub use crate::policy::condition::Refusal;
pub use crate::policy::drift_action::DriftAction;
pub use crate::policy::explanation::{ConditionStatus, Explanation, ResourceOrPrompt, Verdict};
pub use crate::policy::filter::ToolFilter;
pub(crate) use crate::policy::primitives::PermittedPrimitives;
pub use crate::policy::primitives::{Admission, ResourceScope};
pub use crate::policy::resource_uri::may_be_same_resource;
pub use crate::policy::rule::{RiskReason, RulePath};
pub use crate::policy::time_window::UnixTime;
pub use crate::policy::unmatched_patterns::{
    UnmatchedPattern, find_unmatched_primitive_patterns, find_unmatched_tool_patterns,
};

#[cfg(test)]
mod tests;

/// Proof that policy allowed one call of one tool. Backends call nothing without it.
#[derive(Debug)]
pub struct Permit {
    tool: ToolId,
    rule: RulePath,
    danger: Option<RiskReason>,
    confirmation: Option<RiskReason>,
    /// The conditions that allowed the call only at this time.
    windows: Vec<Arc<Condition>>,
}

impl Permit {
    /// Returns the tool, under its server's own name.
    pub fn tool(&self) -> &ToolId {
        &self.tool
    }

    /// Returns the rule that allowed the call.
    pub fn rule(&self) -> &RulePath {
        &self.rule
    }

    /// Returns why the tool is dangerous, if it is, whether or not a confirmation is required.
    pub fn danger(&self) -> Option<RiskReason> {
        self.danger
    }

    /// Returns why the user has to confirm the call, if so.
    pub fn confirmation(&self) -> Option<RiskReason> {
        self.confirmation
    }

    /// Returns `true` if the time windows that allowed the call are still open.
    pub fn is_in_time(&self, now: impl Fn() -> UnixTime) -> bool {
        self.windows.iter().all(|condition| condition.holds(&now))
    }
}

/// Permission to see a tool, and to call it with suitable arguments.
#[derive(Debug)]
pub struct Grant {
    permit: Permit,
    conditions: Vec<Arc<Condition>>,
}

impl Grant {
    /// Returns the rule that allows the tool.
    pub fn rule(&self) -> &RulePath {
        &self.permit.rule
    }

    pub fn is_dangerous(&self) -> bool {
        self.permit.danger.is_some()
    }

    /// Returns the permit for a call with these arguments, the JSON that the server receives.
    ///
    /// # Errors
    ///
    /// Returns the first condition that doesn't hold.
    pub fn permit(self, arguments: Option<&[u8]>) -> Result<Permit, Refusal> {
        condition::check(self.conditions.iter().map(|condition| &**condition), arguments)?;
        Ok(self.permit)
    }
}

/// A denial. An agent must get the same answer as for a tool that doesn't exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    rule: Option<RulePath>,
}

impl Denial {
    /// Returns the rule that denied, to be shown to users and not to agents. `None` if the agent
    /// can't see the server.
    pub fn rule(&self) -> Option<&RulePath> {
        self.rule.as_ref()
    }
}

/// Facts about a tool that a decision needs in addition to its name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ToolTraits {
    /// `true` if the agent has another tool of the same server called `mcp__<server>__<name>`.
    pub has_prefixed_twin: bool,
    pub annotations: ToolAnnotations,
}

/// The rules of one configuration, for all agents.
#[derive(Debug)]
pub struct Policies {
    config: Arc<Config>,
    /// The visible configuration of each agent that has a policy, and of all others (`None`).
    seen: BTreeMap<Option<AgentName>, OnceLock<Arc<Config>>>,
    made: PolicyInterner,
}

impl Policies {
    pub fn new(config: Arc<Config>) -> Self {
        let agents = config.policy.agents.keys().cloned().map(Some);
        let seen = agents.chain([None]).map(|agent| (agent, OnceLock::new())).collect();
        Self { config, seen, made: PolicyInterner::default() }
    }

    /// Returns the part of the configuration that an agent may know about.
    ///
    /// For an agent that is limited to one toolbox, that is the toolbox, with all its tools shown
    /// from the start.
    pub fn visible_config(
        &self,
        agent: Option<&AgentName>,
        toolbox: Option<&ToolboxName>,
    ) -> Arc<Config> {
        let agent = agent.cloned();
        let is_known = agent.as_ref().is_none_or(|agent| self.config.policy.knows(agent));
        let others = || self.seen.get(&None).filter(|_| is_known);
        let slot = self.seen.get(&agent).or_else(others);
        let see = || {
            let seen = self.restricted_config(agent.as_ref());
            // Most agents see the same configuration, so share it.
            let mut known = self.seen.values().filter_map(OnceLock::get);
            let same = known.find(|known| ***known == seen);
            same.map_or_else(|| Arc::new(seen), Arc::clone)
        };
        let seen = slot.map_or_else(see, |slot| Arc::clone(slot.get_or_init(see)));
        let Some(toolbox) = toolbox else { return seen };
        let mut seen = Arc::unwrap_or_clone(seen);
        seen.toolboxes.retain(|other| other.name == *toolbox);
        seen.keep_macros(|tool| tool.toolbox == *toolbox);
        if let Some(catalog) = &mut seen.navigator.catalog {
            catalog.retain(|at, _| at.toolbox == *toolbox);
        }
        seen.mode = seen.mode.of_one_toolbox();
        Arc::new(seen)
    }

    /// Returns the configuration without policy rules, and without servers and macros that the
    /// agent can't use.
    fn restricted_config(&self, agent: Option<&AgentName>) -> Config {
        let mut seen = (*self.config).clone();
        let rules = &self.config.policy;
        let whens = AgentConditions::new(rules, agent);
        for toolbox in &mut seen.toolboxes {
            let at = |server: &ServerConfig| server_ref(&toolbox.name, &server.name);
            toolbox
                .servers
                .retain(|server| resolve_access(rules, agent, &whens, &at(server)).is_ok());
        }
        self.narrow_macros(&mut seen, agent);
        seen.toolboxes.retain(|toolbox| !toolbox.servers.is_empty());
        if let Some(catalog) = &mut seen.navigator.catalog {
            let policy = Policy::of(&self.config, agent);
            catalog.retain(|at, tool| {
                let (toolbox, server) = (at.toolbox.clone(), at.server.clone());
                policy.can_ever_grant(&ToolId { toolbox, server, tool: tool.to_owned() })
            });
        }
        if let Some(agent) = agent {
            seen.limits.per_agent = access::rates(rules, agent).or(seen.limits.per_agent);
        }
        seen.policy = PolicyConfig::default();
        seen
    }
}

impl Policies {
    /// Removes macros that the agent can never use, or that call a tool it can never use.
    fn narrow_macros(&self, seen: &mut Config, agent: Option<&AgentName>) {
        if seen.toolboxes.iter().all(|toolbox| toolbox.macros().next().is_none()) {
            return;
        }
        let policy = Policy::of(&self.config, agent);
        for toolbox in &mut seen.toolboxes {
            let own = |server: &ServerName, tool: &str| ToolId {
                toolbox: toolbox.name.clone(),
                server: server.clone(),
                tool: tool.to_owned(),
            };
            for server in &mut toolbox.servers {
                if let Launch::Macros(macros) = &mut server.launch {
                    macros.retain(|config| policy.can_ever_grant(&own(&server.name, &config.name)));
                }
            }
        }
        seen.keep_macros(|tool| policy.can_ever_grant(&self.config.original_tool_id(tool)));
    }
}

/// The rules of one configuration for one agent.
#[derive(Debug)]
pub struct Policy {
    /// Contains only servers that the agent may use in part or as a whole.
    rules: HashMap<ToolboxName, HashMap<ServerName, ServerRules>>,
    /// The conditions that depend on the time.
    timed: Vec<Arc<Condition>>,
    uses_annotations: bool,
    tells_agents_apart: bool,
}

impl Policy {
    /// Returns the rules for an anonymous agent.
    pub fn new(config: &Config) -> Self {
        Self::of(config, None)
    }

    fn of(config: &Config, agent: Option<&AgentName>) -> Self {
        let whens = AgentConditions::new(&config.policy, agent);
        let rules = config.toolboxes.iter().map(|toolbox| {
            let rules = toolbox.servers.iter().filter_map(|server| {
                let at = server_ref(&toolbox.name, &server.name);
                let access = resolve_access(&config.policy, agent, &whens, &at).ok()?;
                let rules = ServerRules::new(config, access, &whens, server, &at);
                Some((server.name.clone(), rules))
            });
            (toolbox.name.clone(), rules.collect())
        });
        let rules: HashMap<ToolboxName, HashMap<ServerName, ServerRules>> = rules.collect();
        let uses_annotations = rules.values().flat_map(HashMap::values);
        let uses_annotations = uses_annotations.into_iter().any(ServerRules::uses_annotations);
        let timed = whens.0.into_iter().map(|(condition, _)| condition);
        Self {
            rules,
            timed: timed.filter(|condition| condition.window().is_some()).collect(),
            uses_annotations,
            tells_agents_apart: !config.policy.agents.is_empty(),
        }
    }

    /// Returns `true` if the configuration has rules for single agents.
    pub fn has_agent_policies(&self) -> bool {
        self.tells_agents_apart
    }

    /// Decides on one tool, under its server's own name. `now` is called only if a time condition
    /// applies.
    pub fn decide(
        &self,
        tool: &ToolId,
        traits: ToolTraits,
        now: impl Fn() -> UnixTime,
    ) -> Result<Grant, Denial> {
        let rules = self.server_rules(&tool.toolbox, &tool.server)?;
        rules.decide(tool, traits, now).map_err(|rule| Denial { rule: Some(rule) })
    }

    /// Decides on a method of a protocol extension. The entry of the server must list it; the
    /// other rules treat it like a tool of that name.
    pub fn decide_extension_method(
        &self,
        method: &ToolId,
        now: impl Fn() -> UnixTime,
    ) -> Result<Grant, Denial> {
        let rules = self.server_rules(&method.toolbox, &method.server)?;
        if !rules.lists_extension_method(&method.tool) {
            let rule = RulePath::new(&["mcp_servers", method.server.as_str(), "extension_methods"]);
            return Err(Denial { rule: Some(rule) });
        }
        rules.decide(method, ToolTraits::default(), now).map_err(|rule| Denial { rule: Some(rule) })
    }

    /// Returns `true` if the entry of the server lists the method. Other rules may deny it.
    pub fn lists_extension_method(&self, method: &ToolId) -> bool {
        let rules = self.server_rules(&method.toolbox, &method.server);
        rules.is_ok_and(|rules| rules.lists_extension_method(&method.tool))
    }

    /// Returns `true` if the agent may use a tool at some time, judging by its name.
    pub fn can_ever_grant(&self, tool: &ToolId) -> bool {
        let rules = self.server_rules(&tool.toolbox, &tool.server);
        rules.is_ok_and(|rules| rules.rule_at_any_time(tool).is_some())
    }

    /// Returns `true` if the agent may use a tool now, whose annotations aren't known yet.
    pub fn can_grant_unlisted(&self, tool: &ToolId, now: impl Fn() -> UnixTime) -> bool {
        let Ok(rules) = self.server_rules(&tool.toolbox, &tool.server) else { return false };
        rules.possible_traits().any(|traits| rules.decide(tool, traits, &now).is_ok())
    }

    /// Returns `true` if decisions depend on the annotations of tools.
    pub fn uses_annotations(&self) -> bool {
        self.uses_annotations
    }

    /// Returns when a decision may next change because of the time, if ever.
    pub fn next_transition(&self, now: UnixTime) -> Option<UnixTime> {
        let windows = self.timed.iter().filter_map(|condition| condition.window());
        windows.filter_map(|window| time_window::next_change(window, now)).min()
    }

    fn server_rules(
        &self,
        toolbox: &ToolboxName,
        server: &ServerName,
    ) -> Result<&ServerRules, Denial> {
        self.rules.get(toolbox).and_then(|servers| servers.get(server)).ok_or(Denial { rule: None })
    }
}

fn server_ref(toolbox: &ToolboxName, server: &ServerName) -> ServerRef {
    ServerRef { toolbox: toolbox.clone(), server: server.clone() }
}

/// The compiled conditions of an agent, each with the tools it applies to (`None`: all).
struct AgentConditions<'a>(Vec<(Arc<Condition>, Option<&'a [String]>)>);

impl<'a> AgentConditions<'a> {
    fn new(config: &'a PolicyConfig, agent: Option<&AgentName>) -> Self {
        let folder = config.working_directory.as_deref();
        let whens = access::conditions(config, agent).into_iter().map(|(rule, when)| {
            (Arc::new(Condition::new(rule, when, folder)), when.tools.as_deref())
        });
        Self(whens.collect())
    }

    fn at<'w>(
        &'w self,
        at: &'w ServerRef,
    ) -> impl Iterator<Item = (&'w Arc<Condition>, ToolPatternSet)> {
        self.0.iter().map(|(condition, tools)| {
            (
                condition,
                tools.map_or_else(ToolPatternSet::all, |tools| ToolPatternSet::new(tools, at)),
            )
        })
    }
}

/// Returns the agent's access to a server, or the rule that hides the server.
fn resolve_access<'a>(
    config: &'a PolicyConfig,
    agent: Option<&AgentName>,
    whens: &AgentConditions<'_>,
    at: &ServerRef,
) -> Result<Access<'a>, RulePath> {
    let access = access::resolve(config, agent, &at.server)?;
    let mut elsewhere = whens.at(at).filter(|(condition, _)| !condition.matches_directory());
    match elsewhere.find(|(_, names)| names.has_all()) {
        Some((condition, _)) => Err(condition.rule().clone()),
        None => Ok(access),
    }
}

/// All rules for one server in one toolbox. A tool must satisfy every one.
#[derive(Debug)]
struct ServerRules {
    resources: Arc<PrimitiveRules>,
    prompts: Arc<PrimitiveRules>,
    /// Allowlists: a tool in any of them may be used.
    lists: Vec<(RulePath, ToolPatternSet)>,
    /// The rule for unlisted tools, and `true` if it allows them.
    otherwise: (RulePath, bool),
    entry: ServerEntryFilter,
    /// The methods of protocol extensions that the server's entry lists; `None` means none.
    extension_methods: Option<ToolFilter>,
    /// Conditions that must hold, with the tools they apply to.
    conditions: Vec<(Arc<Condition>, ToolPatternSet)>,
    concerns: RiskRules,
    definitions: DriftPolicy,
    /// The configured names of tools, looked up as [`ServerConfig::tool_override`] does.
    renamed: HashMap<String, Option<String>>,
    prefix: String,
    name_limit: usize,
}

#[derive(Debug)]
struct RiskRules {
    dangerous: ToolPatternSet,
    is_hint_dangerous: bool,
    /// `None` disables confirmations.
    confirmed: Option<ToolPatternSet>,
    is_unknown_confirmed: bool,
}

impl ServerRules {
    fn new(
        config: &Config,
        access: Access<'_>,
        whens: &AgentConditions<'_>,
        server: &ServerConfig,
        at: &ServerRef,
    ) -> Self {
        let policy = &config.policy;
        let Access { lists, otherwise, resources, prompts } = access;
        let all: Vec<_> = config.servers().map(|(t, s)| server_ref(&t.name, &s.name)).collect();
        let lists = lists
            .into_iter()
            .map(|(rule, tools)| (rule, ToolPatternSet::allowing(tools, at, &all)));
        let overrides = server.overrides.iter();
        let renamed = overrides.map(|(own, over)| (own.clone(), over.name.clone()));
        Self {
            resources: PrimitiveRules::of_resources(server, resources),
            prompts: PrimitiveRules::of_prompts(server, prompts),
            lists: lists.collect(),
            otherwise,
            entry: ServerEntryFilter::new(server),
            extension_methods: server
                .extension_methods
                .iter()
                .any(|pattern| !pattern.starts_with('!'))
                .then(|| ToolFilter::new(&server.extension_methods)),
            conditions: whens.at(at).map(|(c, names)| (Arc::clone(c), names)).collect(),
            concerns: RiskRules {
                dangerous: ToolPatternSet::new(&policy.dangerous_tools, at),
                is_hint_dangerous: policy.is_hint_dangerous,
                confirmed: match &policy.confirmation {
                    ConfirmationPolicy::Never => None,
                    ConfirmationPolicy::Dangerous(besides) => {
                        Some(ToolPatternSet::new(besides, at))
                    }
                },
                is_unknown_confirmed: policy.default.require_explicit_approval,
            },
            definitions: server.effective_drift_policy(),
            renamed: renamed.collect(),
            prefix: server.client_prefix(),
            name_limit: config.max_tool_name_length,
        }
    }

    fn lists_extension_method(&self, method: &str) -> bool {
        let listed = self.extension_methods.as_ref();
        let is_plain = !is_core_method(method) && !method.chars().any(is_invisible);
        is_plain && listed.is_some_and(|all| all.allows(method))
    }

    /// Decides on a tool, or returns the rule that hides it.
    fn decide(
        &self,
        tool: &ToolId,
        traits: ToolTraits,
        now: impl Fn() -> UnixTime,
    ) -> Result<Grant, RulePath> {
        let candidate = self.candidate(tool, traits);
        let (rule, is_listed) = self.listed(&candidate, traits)?;
        let (mut conditions, mut windows) = (Vec::new(), Vec::new());
        for (condition, names) in &self.conditions {
            if !names.has(&candidate).unwrap_or(true) {
                continue;
            }
            if !condition.holds(&now) {
                return Err(condition.rule().clone());
            }
            if condition.asks_for_arguments() {
                conditions.push(Arc::clone(condition));
            }
            if condition.window().is_some() {
                windows.push(Arc::clone(condition));
            }
        }
        let danger = self.concerns.danger(&candidate, traits);
        let confirmation = self.concerns.confirmation(&candidate, danger, is_listed);
        let rule = rule.clone();
        let permit = Permit { tool: tool.clone(), rule, danger, confirmation, windows };
        Ok(Grant { permit, conditions })
    }

    fn uses_annotations(&self) -> bool {
        let RiskRules { dangerous, is_hint_dangerous, confirmed, .. } = &self.concerns;
        let lists = self.lists.iter().map(|(_, names)| names);
        let conditions = self.conditions.iter().map(|(_, names)| names);
        let mut lists = lists.chain(conditions).chain([dangerous]).chain(confirmed);
        *is_hint_dangerous
            || self.entry.uses_annotations()
            || lists.any(ToolPatternSet::uses_annotations)
    }

    /// Returns the traits that a tool can have whose definition isn't known yet.
    fn possible_traits(&self) -> impl Iterator<Item = ToolTraits> + use<> {
        let sets = if self.uses_annotations() { usize::MAX } else { 1 };
        let sets = ToolAnnotations::all_sets().take(sets);
        sets.map(|annotations| ToolTraits { annotations, ..ToolTraits::default() })
    }

    /// Returns the rule that allows a tool at some time, if any does.
    fn rule_at_any_time(&self, tool: &ToolId) -> Option<&RulePath> {
        self.possible_traits().find_map(|traits| self.rule_for_traits(tool, traits))
    }

    fn rule_for_traits(&self, tool: &ToolId, traits: ToolTraits) -> Option<&RulePath> {
        let candidate = self.candidate(tool, traits);
        let mut elsewhere =
            self.conditions.iter().filter(|(condition, _)| !condition.matches_directory());
        let (rule, _) = self.listed(&candidate, traits).ok()?;
        let is_elsewhere = elsewhere.any(|(_, names)| names.has(&candidate).unwrap_or(true));
        (!is_elsewhere).then_some(rule)
    }

    fn candidate<'a>(&'a self, tool: &'a ToolId, traits: ToolTraits) -> Candidate<'a> {
        let shown = self.shown(&tool.tool, traits.has_prefixed_twin);
        Candidate::new(tool, shown, self.name_limit, traits.annotations)
    }

    /// Decides by name and annotations only. Returns the rule, and `true` if it is a list that contains
    /// the tool.
    fn listed(
        &self,
        candidate: &Candidate<'_>,
        traits: ToolTraits,
    ) -> Result<(&RulePath, bool), RulePath> {
        // Fail closed: a list that doesn't compile allows nothing.
        let listed = self.lists.iter().find(|(_, names)| names.has(candidate).unwrap_or(false));
        let rule = match listed {
            Some((rule, _)) => rule,
            None if self.otherwise.1 => &self.otherwise.0,
            None => return Err(self.otherwise.0.clone()),
        };
        let tool = candidate.id();
        let passed = self.entry.pass(&tool.tool, traits);
        passed.map_err(|key| RulePath::new(&["mcp_servers", tool.server.as_str(), key]))?;
        Ok((rule, listed.is_some()))
    }

    fn shown(&self, tool: &str, has_namesake: bool) -> Option<&str> {
        if self.renamed.is_empty() {
            return None;
        }
        let prefixed = || self.renamed.get(&format!("{}{tool}", self.prefix));
        let prefixed = if has_namesake { None } else { prefixed() };
        prefixed.or_else(|| self.renamed.get(tool))?.as_deref()
    }
}

impl RiskRules {
    fn danger(&self, tool: &Candidate<'_>, traits: ToolTraits) -> Option<RiskReason> {
        if self.dangerous.has(tool).unwrap_or(true) {
            Some(RiskReason::Dangerous)
        } else {
            let is_destructive = traits.annotations.has(ToolAnnotation::Destructive);
            (self.is_hint_dangerous && is_destructive).then_some(RiskReason::Destructive)
        }
    }

    fn confirmation(
        &self,
        tool: &Candidate<'_>,
        danger: Option<RiskReason>,
        is_listed: bool,
    ) -> Option<RiskReason> {
        let confirmed = self.confirmed.as_ref()?;
        let named = || confirmed.has(tool).unwrap_or(true).then_some(RiskReason::Listed);
        let unknown = || (self.is_unknown_confirmed && !is_listed).then_some(RiskReason::Unknown);
        danger.or_else(named).or_else(unknown)
    }
}
