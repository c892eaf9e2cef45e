//! Combines the rules for one agent and one server: whether the agent sees the server, and which
//! lists apply to its tools, resources and prompts.
//!
//! The order of precedence is the agent's `allowed_servers`, its `tool_overrides`, then
//! `exposed_tools`, then `default_policy`. An agent's own key overrides inherited ones (`extends`).
//! Several parents grant the union of their permissions.

use std::collections::{BTreeMap, BTreeSet};

use globset::Glob;

use crate::catalog::PrimitiveKind;
use crate::policy::rule::RulePath;
use mcp_workbench_names::{AgentName, ServerName, ServerRef};
use mcp_workbench_settings::{
    AgentPolicy, PolicyCondition, PolicyConfig, ProjectRules, RateLimits,
};

/// The key of lists for all servers without their own list.
const ANY_SERVER: &str = "*";

pub(crate) type RuleLists<'a> = Vec<(RulePath, &'a [String])>;

#[derive(Clone, Debug)]
pub(crate) struct Access<'a> {
    /// Allowlists of tools: a tool in any of them may be used.
    pub(crate) lists: RuleLists<'a>,
    /// The rule for unlisted tools, and `true` if it allows them.
    pub(crate) otherwise: (RulePath, bool),
    /// Allowlists of resources; `None` allows all.
    pub(crate) resources: Option<RuleLists<'a>>,
    pub(crate) prompts: Option<RuleLists<'a>>,
    pub(crate) project: ProjectAccess<'a>,
}

/// The lists of project files that apply to a server. A request must pass all of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProjectAccess<'a> {
    pub(crate) tools: RuleLists<'a>,
    pub(crate) resources: RuleLists<'a>,
    pub(crate) prompts: RuleLists<'a>,
    pub(crate) denied_tools: RuleLists<'a>,
    pub(crate) dangerous_tools: Vec<&'a [String]>,
}

impl<'a> ProjectAccess<'a> {
    /// # Errors
    ///
    /// Returns the rule that hides the server.
    fn new(config: &'a PolicyConfig, at: &ServerRef) -> Result<Self, RulePath> {
        let mut access = Self::default();
        let is_own = config.project_toolboxes.contains(&at.toolbox);
        for project in &config.projects {
            access.add_tool_patterns(project);
            if !is_own {
                access.add_lists(project, &at.server)?;
            }
        }
        Ok(access)
    }

    fn add_tool_patterns(&mut self, project: &'a ProjectRules) {
        if !project.denied_tools.is_empty() {
            let rule = RulePath::in_project(&project.file, &["denied_tools"]);
            self.denied_tools.push((rule, &project.denied_tools));
        }
        if !project.dangerous_tools.is_empty() {
            self.dangerous_tools.push(&project.dangerous_tools);
        }
    }

    fn add_lists(
        &mut self,
        project: &'a ProjectRules,
        server: &ServerName,
    ) -> Result<(), RulePath> {
        if let Some(allowed) = &project.allowed_servers
            && !is_among(server.as_str(), allowed)
        {
            return Err(RulePath::in_project(&project.file, &["allowed_servers"]));
        }
        for (key, lists, access) in [
            ("exposed_tools", &project.exposed_tools, &mut self.tools),
            ("exposed_resources", &project.exposed_resources, &mut self.resources),
            ("exposed_prompts", &project.exposed_prompts, &mut self.prompts),
        ] {
            if let Some((of, patterns)) = list_of_server(lists, server) {
                let rule = RulePath::in_project(&project.file, &[key, of]);
                access.push((rule, patterns.as_slice()));
            }
        }
        Ok(())
    }
}

/// Resolves an agent's access to a server.
///
/// # Errors
///
/// Returns the rule that hides the server.
pub(crate) fn resolve<'a>(
    config: &'a PolicyConfig,
    agent: Option<&AgentName>,
    at: &ServerRef,
) -> Result<Access<'a>, RulePath> {
    let server = &at.server;
    let said = agent_rules(config, agent, server, PrimitiveKind::Tool);
    if !said.is_allowed {
        let unknown = || RulePath::new(&["agent_policies"]);
        return Err(said.by.unwrap_or_else(unknown));
    }
    let default = &config.default;
    let key = |name: &str| RulePath::new(&["default_policy", name]);
    let mut lists = said.lists;
    let mut otherwise = match lists.last() {
        Some((rule, _)) if !said.uses_defaults => (rule.clone(), false),
        _ => (key("allow_unknown_tools"), default.allow_unknown_tools),
    };
    if said.uses_defaults
        && let Some((key, tools)) = list_of_server(&config.exposed_tools, server)
    {
        let rule = RulePath::new(&["exposed_tools", key]);
        lists.push((rule.clone(), tools.as_slice()));
        otherwise = (rule, false);
    }
    let resources = primitive_lists(config, agent, server, PrimitiveKind::Resource);
    let prompts = primitive_lists(config, agent, server, PrimitiveKind::Prompt);
    if gives_some(resources.as_ref()) || gives_some(prompts.as_ref()) {
        // Granted resources or prompts make the server visible, even without any tools.
    } else if lists.is_empty() {
        if said.by.is_none() && default.allow_unknown_servers == Some(false) {
            return Err(key("allow_unknown_servers"));
        }
        if !default.allow_unknown_tools && default.allow_unknown_servers != Some(true) {
            return Err(key("allow_unknown_tools"));
        }
    } else if !otherwise.1 && lists.iter().all(|(_, tools)| tools.is_empty()) {
        return Err(otherwise.0);
    }
    let project = ProjectAccess::new(config, at)?;
    Ok(Access { lists, otherwise, resources, prompts, project })
}

fn agent_rules<'a>(
    config: &'a PolicyConfig,
    agent: Option<&AgentName>,
    server: &ServerName,
    kind: PrimitiveKind,
) -> AgentRules<'a> {
    match agent {
        Some(agent) if config.agents.contains_key(agent) => {
            InheritanceResolver { config, server, kind, known: BTreeMap::new() }.of(agent)
        }
        Some(agent) if !config.knows(agent) => AgentRules::denied(),
        _ => AgentRules::nothing(),
    }
}

/// Returns the lists of resources or prompts that an agent may use: its own or inherited ones, or
/// else the ones for all agents. `None` allows everything.
fn primitive_lists<'a>(
    config: &'a PolicyConfig,
    agent: Option<&AgentName>,
    server: &ServerName,
    kind: PrimitiveKind,
) -> Option<RuleLists<'a>> {
    let said = agent_rules(config, agent, server, kind);
    let mut lists = said.lists;
    if said.uses_defaults {
        let (key, exposed) = match kind {
            PrimitiveKind::Tool => ("exposed_tools", &config.exposed_tools),
            PrimitiveKind::Resource | PrimitiveKind::ResourceTemplate => {
                ("exposed_resources", &config.exposed_resources)
            }
            PrimitiveKind::Prompt => ("exposed_prompts", &config.exposed_prompts),
        };
        let (of, patterns) = list_of_server(exposed, server)?;
        lists.push((RulePath::new(&[key, of]), patterns.as_slice()));
    }
    Some(lists)
}

/// Returns the list of a server and its key. A list under `*` applies to servers without their own.
fn list_of_server<'a>(
    lists: &'a BTreeMap<String, Vec<String>>,
    server: &ServerName,
) -> Option<(&'a str, &'a Vec<String>)> {
    let found = lists.get_key_value(server.as_str()).or_else(|| lists.get_key_value(ANY_SERVER));
    found.map(|(key, list)| (key.as_str(), list))
}

fn gives_some(lists: Option<&RuleLists<'_>>) -> bool {
    let mut patterns = lists.into_iter().flatten().flat_map(|(_, patterns)| *patterns);
    patterns.any(|pattern| !pattern.starts_with('!'))
}

/// Returns the agent's rate limits: its own, then inherited ones.
pub(crate) fn rates(config: &PolicyConfig, agent: &AgentName) -> RateLimits {
    let Some(own) = config.agents.get(agent) else { return RateLimits::default() };
    own.extends.iter().fold(own.limits, |rates, parent| rates.or(self::rates(config, parent)))
}

/// Returns the conditions of an agent and of all agents that it extends, sorted by agent name.
pub(crate) fn conditions<'a>(
    config: &'a PolicyConfig,
    agent: Option<&AgentName>,
) -> Vec<(RulePath, &'a PolicyCondition)> {
    let mut open: Vec<&AgentName> = agent.into_iter().collect();
    let mut found: BTreeSet<&AgentName> = BTreeSet::new();
    while let Some(agent) = open.pop() {
        if let Some((agent, policy)) = config.agents.get_key_value(agent)
            && found.insert(agent)
        {
            open.extend(&policy.extends);
        }
    }
    let all = found.into_iter().flat_map(|agent| {
        let rule = RulePath::new(&["agent_policies", agent.as_str(), "when"]);
        let when = config.agents.get(agent).into_iter().flat_map(|policy| &policy.when);
        when.enumerate().map(move |(index, when)| (rule.element(index), when))
    });
    all.collect()
}

#[derive(Clone, Debug)]
struct AgentRules<'a> {
    is_allowed: bool,
    /// The list that decided on the server, if there is one.
    by: Option<RulePath>,
    lists: RuleLists<'a>,
    /// `true` if the rules for all agents apply as well.
    uses_defaults: bool,
}

impl AgentRules<'_> {
    fn nothing() -> Self {
        Self { is_allowed: true, by: None, lists: Vec::new(), uses_defaults: true }
    }

    /// Denies everything: the agent does not exist, or its `extends` is cyclic.
    fn denied() -> Self {
        Self { is_allowed: false, by: None, lists: Vec::new(), uses_defaults: false }
    }
}

/// Returns the agent's own lists of a kind of primitive, and their key.
fn own_lists(
    agent: &AgentPolicy,
    kind: PrimitiveKind,
) -> (&'static str, &BTreeMap<String, Vec<String>>) {
    match kind {
        PrimitiveKind::Tool => ("tool_overrides", &agent.tool_overrides),
        PrimitiveKind::Resource | PrimitiveKind::ResourceTemplate => {
            ("resource_overrides", &agent.resource_overrides)
        }
        PrimitiveKind::Prompt => ("prompt_overrides", &agent.prompt_overrides),
    }
}

/// Resolves the rules of agents for one server, each agent once.
struct InheritanceResolver<'a, 's> {
    config: &'a PolicyConfig,
    server: &'s ServerName,
    kind: PrimitiveKind,
    /// `None` while the agent is being resolved, which detects cycles.
    known: BTreeMap<&'a AgentName, Option<AgentRules<'a>>>,
}

impl<'a> InheritanceResolver<'a, '_> {
    fn of(&mut self, agent: &AgentName) -> AgentRules<'a> {
        let Some((agent, policy)) = self.config.agents.get_key_value(agent) else {
            return AgentRules::denied();
        };
        if let Some(known) = self.known.get(agent) {
            return known.clone().unwrap_or_else(AgentRules::denied);
        }
        self.known.insert(agent, None);
        let parents: Vec<AgentRules<'a>> =
            policy.extends.iter().map(|parent| self.of(parent)).collect();
        let key =
            |rest: &[&str]| RulePath::new(&[&["agent_policies", agent.as_str()], rest].concat());
        let allowing = || parents.iter().filter(|parent| parent.is_allowed);
        let (is_allowed, by) = match &policy.allowed_servers {
            Some(servers) => {
                (is_among(self.server.as_str(), servers), Some(key(&["allowed_servers"])))
            }
            None if parents.is_empty() => (true, None),
            None => {
                let found = allowing().next();
                let first = found.or(parents.first());
                (found.is_some(), first.and_then(|parent| parent.by.clone()))
            }
        };
        let (own_key, own) = own_lists(policy, self.kind);
        let own = list_of_server(own, self.server);
        let (lists, is_silent) = match own {
            Some((of, tools)) => {
                let rule = key(&[own_key, of]);
                (vec![(rule, tools.as_slice())], false)
            }
            None if allowing().next().is_some() => {
                (all_lists(allowing()), allowing().any(|parent| parent.uses_defaults))
            }
            // No parent allows the server, but their lists apply to its tools anyway.
            None => {
                let lists = all_lists(parents.iter());
                let is_silent = lists.is_empty();
                (lists, is_silent)
            }
        };
        let said = AgentRules { is_allowed, by, lists, uses_defaults: is_silent };
        self.known.insert(agent, Some(said.clone()));
        said
    }
}

/// Merges lists without duplicates: several paths may lead to the same ancestor.
fn all_lists<'s, 'a: 's>(said: impl Iterator<Item = &'s AgentRules<'a>>) -> RuleLists<'a> {
    let mut lists: RuleLists<'a> = Vec::new();
    for (rule, tools) in said.flat_map(|said| &said.lists) {
        if !lists.iter().any(|(other, _)| other == rule) {
            lists.push((rule.clone(), tools));
        }
    }
    lists
}

/// Returns `true` if a name or glob in the list matches a server. An invalid glob matches only its
/// own text.
fn is_among(server: &str, patterns: &[String]) -> bool {
    patterns.iter().any(|pattern| {
        pattern == server
            || Glob::new(pattern).is_ok_and(|glob| glob.compile_matcher().is_match(server))
    })
}
