//! Policy: who may see and call what. Every surface asks it, and only it can make a [`Permit`].
//!
//! *Theory of operation.* [`Policies`] has the rules of a file, for every agent. For one of them it
//! gives the part of the configuration that the agent may know of ([`Policies::seen_by`]), and a
//! [`Policy`], which decides on single tools. All that the file says is worked out when a policy is
//! made ([`access`] finds out which lists count, [`names`] makes them ready), so that a decision is
//! a few look-ups. What is asked before each call is the same as what was asked before the tool was
//! shown; arguments come to it there ([`Grant::permit`]). Whatever cannot be compiled is denied.

mod access;
mod address;
mod besides;
mod condition;
mod explain;
mod filter;
mod heed;
mod hours;
mod names;
mod pattern;
mod rule;
mod shared;
pub(crate) mod strict;
mod unmatched;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use foldhash::HashMap;

use crate::name::{AgentName, ServerName, ServerRef, ToolId, ToolboxName};
use crate::policy::access::Access;
use crate::policy::besides::Guard;
use crate::policy::condition::Condition;
use crate::policy::filter::Entry;
use crate::policy::names::{Candidate, Names};
use crate::policy::shared::Made;
use crate::settings::{Config, Confirmation, Definitions, Launch, PolicyConfig, ServerConfig};

pub(crate) use crate::policy::besides::ShownOf;
pub use crate::policy::besides::{Admission, Hearing};
pub use crate::policy::condition::Refusal;
pub use crate::policy::explain::{Besides, Demand, Explanation, Verdict};
pub use crate::policy::filter::ToolFilter;
pub use crate::policy::heed::Heed;
pub use crate::policy::hours::Moment;
pub use crate::policy::rule::{Concern, Rule};
pub use crate::policy::unmatched::{About, Unmatched, unmatched, unmatched_besides};

#[cfg(test)]
mod tests;

/// Proof that policy allowed one call of one tool. A backend calls nothing without it.
#[derive(Debug)]
pub struct Permit {
    tool: ToolId,
    rule: Rule,
    danger: Option<Concern>,
    confirmation: Option<Concern>,
}

impl Permit {
    /// The tool that may be called, by its server's own name for it.
    pub fn tool(&self) -> &ToolId {
        &self.tool
    }

    /// The rule that let it through.
    pub fn rule(&self) -> &Rule {
        &self.rule
    }

    /// Why the tool is dangerous, if it is, whether or not anybody is asked.
    pub fn danger(&self) -> Option<Concern> {
        self.danger
    }

    /// Why the user has to confirm the call, if so.
    pub fn confirmation(&self) -> Option<Concern> {
        self.confirmation
    }
}

/// A tool may be seen, and may be called with the right arguments.
#[derive(Debug)]
pub struct Grant {
    permit: Permit,
    /// The conditions for its arguments.
    conditions: Vec<Arc<Condition>>,
}

impl Grant {
    /// The rule that lets it through.
    pub fn rule(&self) -> &Rule {
        &self.permit.rule
    }

    /// Returns `true` if the tool is dangerous.
    pub fn is_dangerous(&self) -> bool {
        self.permit.danger.is_some()
    }

    /// Returns the permit to call the tool with these arguments, which are JSON and what its server gets.
    ///
    /// # Errors
    ///
    /// The first condition that does not hold.
    pub fn permit(self, arguments: Option<&[u8]>) -> Result<Permit, Refusal> {
        condition::check(self.conditions.iter().map(|condition| &**condition), arguments)?;
        Ok(self.permit)
    }
}

/// Policy said no. What an agent is told must be what it is told of a tool that does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    rule: Option<Rule>,
}

impl Denial {
    /// The rule that said no, for whoever may be told; `None`: there is no such server for the
    /// agent.
    pub fn rule(&self) -> Option<&Rule> {
        self.rule.as_ref()
    }
}

/// The facts about a tool that policy needs besides its name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traits {
    /// `true` if the agent has another tool of its server that is called `mcp__<server>__<this
    /// one>`.
    pub has_namesake: bool,
    /// `true` if its server says that it is destructive (`destructiveHint`).
    pub is_destructive: bool,
}

/// The rules of one configuration, for every agent.
#[derive(Debug)]
pub struct Policies {
    config: Arc<Config>,
    /// The configuration as each agent that the file speaks of may see it, and as all others may.
    seen: BTreeMap<Option<AgentName>, OnceLock<Arc<Config>>>,
    made: Made,
}

impl Policies {
    /// Takes the rules out of a configuration.
    pub fn new(config: Arc<Config>) -> Self {
        let agents = config.policy.agents.keys().cloned().map(Some);
        let seen = agents.chain([None]).map(|agent| (agent, OnceLock::new())).collect();
        Self { config, seen, made: Made::default() }
    }

    /// The part of the configuration that an agent may know of. For an agent that wants one toolbox
    /// alone, it is that toolbox, and everything in it is shown from the start.
    pub fn seen_by(&self, agent: Option<&AgentName>, toolbox: Option<&ToolboxName>) -> Arc<Config> {
        let agent = agent.cloned();
        let is_known = agent.as_ref().is_none_or(|agent| self.config.policy.knows(agent));
        let others = || self.seen.get(&None).filter(|_| is_known);
        let slot = self.seen.get(&agent).or_else(others);
        let see = || {
            let seen = self.narrowed(agent.as_ref());
            // Most agents may know of the same.
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

    /// The configuration without the servers of which an agent can have nothing, and without what
    /// is said of agents.
    fn narrowed(&self, agent: Option<&AgentName>) -> Config {
        let mut seen = (*self.config).clone();
        let rules = &self.config.policy;
        let whens = Whens::new(rules, agent);
        for toolbox in &mut seen.toolboxes {
            let at = |server: &ServerConfig| server_ref(&toolbox.name, &server.name);
            toolbox.servers.retain(|server| standing(rules, agent, &whens, &at(server)).is_ok());
        }
        self.narrow_macros(&mut seen, agent);
        seen.toolboxes.retain(|toolbox| !toolbox.servers.is_empty());
        if let Some(catalog) = &mut seen.navigator.catalog {
            let policy = Policy::of(&self.config, agent);
            catalog.retain(|at, tool| {
                let (toolbox, server) = (at.toolbox.clone(), at.server.clone());
                policy.may_have(&ToolId { toolbox, server, tool: tool.to_owned() })
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
    /// Leaves out the macros that an agent can never have, or one of whose tools it cannot.
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
                    macros.retain(|config| policy.may_have(&own(&server.name, &config.name)));
                }
            }
        }
        seen.keep_macros(|tool| policy.may_have(&self.config.own_id(tool)));
    }
}

/// The rules of one configuration for one agent.
#[derive(Debug)]
pub struct Policy {
    /// The servers that the agent may have something of.
    rules: HashMap<ToolboxName, HashMap<ServerName, Rules>>,
    /// The conditions that depend on the time.
    timed: Vec<Arc<Condition>>,
    heeds_hints: bool,
    tells_agents_apart: bool,
}

impl Policy {
    /// The rules for an agent without a name.
    pub fn new(config: &Config) -> Self {
        Self::of(config, None)
    }

    fn of(config: &Config, agent: Option<&AgentName>) -> Self {
        let whens = Whens::new(&config.policy, agent);
        let rules = config.toolboxes.iter().map(|toolbox| {
            let rules = toolbox.servers.iter().filter_map(|server| {
                let at = server_ref(&toolbox.name, &server.name);
                let access = standing(&config.policy, agent, &whens, &at).ok()?;
                let rules = Rules::new(config, access, &whens, server, &at);
                Some((server.name.clone(), rules))
            });
            (toolbox.name.clone(), rules.collect())
        });
        let rules = rules.collect();
        let timed = whens.0.into_iter().map(|(condition, _)| condition);
        Self {
            rules,
            timed: timed.filter(|condition| condition.window().is_some()).collect(),
            heeds_hints: config.policy.is_hint_dangerous,
            tells_agents_apart: !config.policy.agents.is_empty(),
        }
    }

    /// Returns `true` if some agents may have things that others may not.
    pub fn tells_agents_apart(&self) -> bool {
        self.tells_agents_apart
    }

    /// Decides on one tool of one server in one toolbox, by its server's own name for it. The clock
    /// is only looked at where the tool has its hours.
    pub fn decide(
        &self,
        tool: &ToolId,
        traits: Traits,
        now: impl Fn() -> Moment,
    ) -> Result<Grant, Denial> {
        let rules = self.rules_at(&tool.toolbox, &tool.server)?;
        rules.judge(tool, traits, now).map_err(|rule| Denial { rule: Some(rule) })
    }

    /// Returns `true` if the agent may have a tool, at some time, as far as its name tells.
    pub fn may_have(&self, tool: &ToolId) -> bool {
        let rules = self.rules_at(&tool.toolbox, &tool.server);
        rules.is_ok_and(|rules| rules.may_pass(tool).is_some())
    }

    /// Returns `true` if anything depends on servers' hints that tools are destructive.
    pub fn heeds_hints(&self) -> bool {
        self.heeds_hints
    }

    /// When it may next decide otherwise on some tool, if it ever does.
    pub fn next_change(&self, now: Moment) -> Option<Moment> {
        let windows = self.timed.iter().filter_map(|condition| condition.window());
        windows.filter_map(|window| hours::next_change(window, now)).min()
    }

    fn rules_at(&self, toolbox: &ToolboxName, server: &ServerName) -> Result<&Rules, Denial> {
        self.rules.get(toolbox).and_then(|servers| servers.get(server)).ok_or(Denial { rule: None })
    }
}

fn server_ref(toolbox: &ToolboxName, server: &ServerName) -> ServerRef {
    ServerRef { toolbox: toolbox.clone(), server: server.clone() }
}

/// The conditions of an agent, made ready, each with the tools that it is about.
struct Whens<'a>(Vec<(Arc<Condition>, Option<&'a [String]>)>);

impl<'a> Whens<'a> {
    fn new(config: &'a PolicyConfig, agent: Option<&AgentName>) -> Self {
        let folder = config.working_directory.as_deref();
        let whens = access::conditions(config, agent).into_iter().map(|(rule, when)| {
            (Arc::new(Condition::new(rule, when, folder)), when.tools.as_deref())
        });
        Self(whens.collect())
    }

    fn at<'w>(&'w self, at: &'w ServerRef) -> impl Iterator<Item = (&'w Arc<Condition>, Names)> {
        self.0.iter().map(|(condition, tools)| {
            (condition, tools.map_or_else(Names::all, |tools| Names::new(tools, at)))
        })
    }
}

/// The agent's access to this server; else the rule by which the server is not there.
fn standing<'a>(
    config: &'a PolicyConfig,
    agent: Option<&AgentName>,
    whens: &Whens<'_>,
    at: &ServerRef,
) -> Result<Access<'a>, Rule> {
    let access = access::of(config, agent, &at.server)?;
    let mut elsewhere = whens.at(at).filter(|(condition, _)| !condition.is_here());
    match elsewhere.find(|(_, names)| names.has_all()) {
        Some((condition, _)) => Err(condition.rule().clone()),
        None => Ok(access),
    }
}

/// All rules for what one server in one toolbox has. A tool must pass every one.
#[derive(Debug)]
struct Rules {
    resources: Arc<Guard>,
    prompts: Arc<Guard>,
    /// The lists that the tools are in which may be used.
    lists: Vec<(Rule, Names)>,
    /// The rule for all other tools, and `true` if it lets them pass.
    otherwise: (Rule, bool),
    /// The filter of the server's own entry.
    entry: Entry,
    /// The conditions that have to hold, and the tools that they are for.
    conditions: Vec<(Arc<Condition>, Names)>,
    concerns: Concerns,
    definitions: Definitions,
    /// The configuration's own names for tools, as [`ServerConfig::tool_override`] finds them.
    renamed: HashMap<String, Option<String>>,
    prefix: String,
    name_limit: usize,
}

/// Which of its tools are dangerous, and which are confirmed.
#[derive(Debug)]
struct Concerns {
    dangerous: Names,
    is_hint_dangerous: bool,
    /// `None`: nobody is asked.
    confirmed: Option<Names>,
    is_unknown_confirmed: bool,
}

impl Rules {
    fn new(
        config: &Config,
        access: Access<'_>,
        whens: &Whens<'_>,
        server: &ServerConfig,
        at: &ServerRef,
    ) -> Self {
        let policy = &config.policy;
        let Access { lists, otherwise, resources, prompts } = access;
        let all: Vec<_> = config.servers().map(|(t, s)| server_ref(&t.name, &s.name)).collect();
        let lists = lists.into_iter().map(|(rule, tools)| (rule, Names::allowing(tools, at, &all)));
        let overrides = server.overrides.iter();
        let renamed = overrides.map(|(own, over)| (own.clone(), over.name.clone()));
        Self {
            resources: Guard::of_resources(server, resources),
            prompts: Guard::of_prompts(server, prompts),
            lists: lists.collect(),
            otherwise,
            entry: Entry::new(server),
            conditions: whens.at(at).map(|(c, names)| (Arc::clone(c), names)).collect(),
            concerns: Concerns {
                dangerous: Names::new(&policy.dangerous_tools, at),
                is_hint_dangerous: policy.is_hint_dangerous,
                confirmed: match &policy.confirmation {
                    Confirmation::Never => None,
                    Confirmation::Dangerous(besides) => Some(Names::new(besides, at)),
                },
                is_unknown_confirmed: policy.default.require_explicit_approval,
            },
            definitions: server.definitions(),
            renamed: renamed.collect(),
            prefix: server.client_prefix(),
            name_limit: config.max_tool_name_length,
        }
    }

    /// Decides on a tool; else the rule by which it is not there.
    fn judge(
        &self,
        tool: &ToolId,
        traits: Traits,
        now: impl Fn() -> Moment,
    ) -> Result<Grant, Rule> {
        let candidate = self.candidate(tool, traits);
        let (rule, is_listed) = self.listed(&candidate, traits)?;
        let mut conditions = Vec::new();
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
        }
        let danger = self.concerns.danger(&candidate, traits);
        let confirmation = self.concerns.confirmation(&candidate, danger, is_listed);
        let rule = rule.clone();
        Ok(Grant { permit: Permit { tool: tool.clone(), rule, danger, confirmation }, conditions })
    }

    /// Returns the rule by which it may let a tool through at some time, if it ever may.
    fn may_pass(&self, tool: &ToolId) -> Option<&Rule> {
        let candidate = self.candidate(tool, Traits::default());
        let mut elsewhere = self.conditions.iter().filter(|(condition, _)| !condition.is_here());
        let (rule, _) = self.listed(&candidate, Traits::default()).ok()?;
        let is_elsewhere = elsewhere.any(|(_, names)| names.has(&candidate).unwrap_or(true));
        (!is_elsewhere).then_some(rule)
    }

    fn candidate<'a>(&'a self, tool: &'a ToolId, traits: Traits) -> Candidate<'a> {
        Candidate::new(tool, self.shown(&tool.tool, traits.has_namesake), self.name_limit)
    }

    /// Decides on a tool by its name alone: the rule, and whether it is a list with the tool in it.
    fn listed(&self, candidate: &Candidate<'_>, traits: Traits) -> Result<(&Rule, bool), Rule> {
        // What is broken lets nothing through.
        let listed = self.lists.iter().find(|(_, names)| names.has(candidate).unwrap_or(false));
        let rule = match listed {
            Some((rule, _)) => rule,
            None if self.otherwise.1 => &self.otherwise.0,
            None => return Err(self.otherwise.0.clone()),
        };
        let tool = candidate.id();
        let passed = self.entry.pass(&tool.tool, traits.has_namesake);
        passed.map_err(|key| Rule::new(&["mcp_servers", tool.server.as_str(), key]))?;
        Ok((rule, listed.is_some()))
    }

    /// The configuration's own name for a tool, if it has one.
    fn shown(&self, tool: &str, has_namesake: bool) -> Option<&str> {
        if self.renamed.is_empty() {
            return None;
        }
        let prefixed = || self.renamed.get(&format!("{}{tool}", self.prefix));
        let prefixed = if has_namesake { None } else { prefixed() };
        prefixed.or_else(|| self.renamed.get(tool))?.as_deref()
    }
}

impl Concerns {
    fn danger(&self, tool: &Candidate<'_>, traits: Traits) -> Option<Concern> {
        if self.dangerous.has(tool).unwrap_or(true) {
            Some(Concern::Dangerous)
        } else {
            (self.is_hint_dangerous && traits.is_destructive).then_some(Concern::Destructive)
        }
    }

    fn confirmation(
        &self,
        tool: &Candidate<'_>,
        danger: Option<Concern>,
        is_listed: bool,
    ) -> Option<Concern> {
        let confirmed = self.confirmed.as_ref()?;
        let named = || confirmed.has(tool).unwrap_or(true).then_some(Concern::Listed);
        let unknown = || (self.is_unknown_confirmed && !is_listed).then_some(Concern::Unknown);
        danger.or_else(named).or_else(unknown)
    }
}
