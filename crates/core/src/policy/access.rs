//! The rules for one agent and one server put together: whether the server is there for the agent,
//! and which lists decide on its tools, resources and prompts.
//!
//! The order is that of the document: the agent's `allowed_servers`, its `tool_overrides`, then
//! `exposed_tools`, then `default_policy`. What an agent says itself of a key goes before what it
//! takes over (`extends`); of several whom it extends, it has what any of them has.

use std::collections::{BTreeMap, BTreeSet};

use globset::Glob;

use crate::name::{AgentName, ServerName};
use crate::policy::rule::Rule;
use crate::settings::{AgentPolicy, PolicyConfig, Rates, When};

/// Lists as the file has them, each with where it stands.
pub(crate) type Lists<'a> = Vec<(Rule, &'a [String])>;

/// The access of one agent to one server.
#[derive(Clone, Debug)]
pub(crate) struct Access<'a> {
    /// The lists of tools: a tool in any of them may be used.
    pub(crate) lists: Lists<'a>,
    /// The rule for all other tools, and `true` if it lets them pass.
    pub(crate) otherwise: (Rule, bool),
    /// The lists of resources, likewise; `None`: it may have all of them.
    pub(crate) resources: Option<Lists<'a>>,
    /// The lists of prompts.
    pub(crate) prompts: Option<Lists<'a>>,
}

/// The kind of primitive that lists are about.
#[derive(Clone, Copy)]
enum Kind {
    Tools,
    Resources,
    Prompts,
}

impl Kind {
    /// The key of an agent's own lists, and the lists.
    fn own(self, agent: &AgentPolicy) -> (&'static str, &BTreeMap<String, Vec<String>>) {
        match self {
            Self::Tools => ("tool_overrides", &agent.tool_overrides),
            Self::Resources => ("resource_overrides", &agent.resource_overrides),
            Self::Prompts => ("prompt_overrides", &agent.prompt_overrides),
        }
    }
}

/// Finds out what an agent may have of a server.
///
/// # Errors
///
/// The rule by which the server does not exist for it.
pub(crate) fn of<'a>(
    config: &'a PolicyConfig,
    agent: Option<&AgentName>,
    server: &ServerName,
) -> Result<Access<'a>, Rule> {
    let said = said(config, agent, server, Kind::Tools);
    if !said.is_allowed {
        let unknown = || Rule::new(&["agent_policies"]);
        return Err(said.by.unwrap_or_else(unknown));
    }
    let default = &config.default;
    let key = |name: &str| Rule::new(&["default_policy", name]);
    let mut lists = said.lists;
    let mut otherwise = match lists.last() {
        Some((rule, _)) if !said.is_silent => (rule.clone(), false),
        _ => (key("allow_unknown_tools"), default.allow_unknown_tools),
    };
    if said.is_silent
        && let Some(tools) = config.exposed_tools.get(server.as_str())
    {
        let rule = Rule::new(&["exposed_tools", server.as_str()]);
        lists.push((rule.clone(), tools.as_slice()));
        otherwise = (rule, false);
    }
    let resources = besides(config, agent, server, Kind::Resources);
    let prompts = besides(config, agent, server, Kind::Prompts);
    if gives_some(resources.as_ref()) || gives_some(prompts.as_ref()) {
        // It is there for those, whatever becomes of its tools.
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
    Ok(Access { lists, otherwise, resources, prompts })
}

/// The rules of an agent for what a server has of a kind.
fn said<'a>(
    config: &'a PolicyConfig,
    agent: Option<&AgentName>,
    server: &ServerName,
    kind: Kind,
) -> Said<'a> {
    match agent {
        Some(agent) if config.agents.contains_key(agent) => {
            Lookup { config, server, kind, known: BTreeMap::new() }.of(agent)
        }
        Some(agent) if !config.knows(agent) => Said::no(),
        _ => Said::nothing(),
    }
}

/// The lists of the resources or prompts of a server that an agent may have: its own, those that it
/// takes over, else those for all; `None`: it may have all.
fn besides<'a>(
    config: &'a PolicyConfig,
    agent: Option<&AgentName>,
    server: &ServerName,
    kind: Kind,
) -> Option<Lists<'a>> {
    let said = said(config, agent, server, kind);
    let mut lists = said.lists;
    if said.is_silent {
        let (key, exposed) = match kind {
            Kind::Tools => ("exposed_tools", &config.exposed_tools),
            Kind::Resources => ("exposed_resources", &config.exposed_resources),
            Kind::Prompts => ("exposed_prompts", &config.exposed_prompts),
        };
        let patterns = exposed.get(server.as_str())?;
        lists.push((Rule::new(&[key, server.as_str()]), patterns.as_slice()));
    }
    Some(lists)
}

/// Returns `true` if lists name something that an agent may have, beside what they leave out.
fn gives_some(lists: Option<&Lists<'_>>) -> bool {
    let mut patterns = lists.into_iter().flatten().flat_map(|(_, patterns)| *patterns);
    patterns.any(|pattern| !pattern.starts_with('!'))
}

/// How much an agent may ask: what it says itself of that, then what it takes over.
pub(crate) fn rates(config: &PolicyConfig, agent: &AgentName) -> Rates {
    let Some(own) = config.agents.get(agent) else { return Rates::default() };
    own.extends.iter().fold(own.limits, |rates, parent| rates.or(self::rates(config, parent)))
}

/// The conditions of an agent and of all that it extends, in the order of their names.
pub(crate) fn conditions<'a>(
    config: &'a PolicyConfig,
    agent: Option<&AgentName>,
) -> Vec<(Rule, &'a When)> {
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
        let rule = Rule::new(&["agent_policies", agent.as_str(), "when"]);
        let when = config.agents.get(agent).into_iter().flat_map(|policy| &policy.when);
        when.enumerate().map(move |(index, when)| (rule.element(index), when))
    });
    all.collect()
}

/// The rules of an agent for a server, its own or those of agents that it extends.
#[derive(Clone, Debug)]
struct Said<'a> {
    is_allowed: bool,
    /// The list that says so, if there is one.
    by: Option<Rule>,
    lists: Lists<'a>,
    /// `true` if the rules of others for its tools count too.
    is_silent: bool,
}

impl Said<'_> {
    fn nothing() -> Self {
        Self { is_allowed: true, by: None, lists: Vec::new(), is_silent: true }
    }

    /// The rules of an agent that is not there, or that extends itself.
    fn no() -> Self {
        Self { is_allowed: false, by: None, lists: Vec::new(), is_silent: false }
    }
}

/// Asking agents about one server, each once.
struct Lookup<'a, 's> {
    config: &'a PolicyConfig,
    server: &'s ServerName,
    kind: Kind,
    /// `None` while it is being found out.
    known: BTreeMap<&'a AgentName, Option<Said<'a>>>,
}

impl<'a> Lookup<'a, '_> {
    fn of(&mut self, agent: &AgentName) -> Said<'a> {
        let Some((agent, policy)) = self.config.agents.get_key_value(agent) else {
            return Said::no();
        };
        if let Some(known) = self.known.get(agent) {
            return known.clone().unwrap_or_else(Said::no);
        }
        self.known.insert(agent, None);
        let parents: Vec<Said<'a>> = policy.extends.iter().map(|parent| self.of(parent)).collect();
        let key = |rest: &[&str]| Rule::new(&[&["agent_policies", agent.as_str()], rest].concat());
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
        let (own_key, own) = self.kind.own(policy);
        let own = own.get(self.server.as_str());
        let (lists, is_silent) = match own {
            Some(tools) => {
                let rule = key(&[own_key, self.server.as_str()]);
                (vec![(rule, tools.as_slice())], false)
            }
            None if allowing().next().is_some() => {
                (all_lists(allowing()), allowing().any(|parent| parent.is_silent))
            }
            // None of those it extends may use the server, but what they say of its tools is said.
            None => {
                let lists = all_lists(parents.iter());
                let is_silent = lists.is_empty();
                (lists, is_silent)
            }
        };
        let said = Said { is_allowed, by, lists, is_silent };
        self.known.insert(agent, Some(said.clone()));
        said
    }
}

/// The lists of all, each once: many ways may lead to one agent.
fn all_lists<'s, 'a: 's>(said: impl Iterator<Item = &'s Said<'a>>) -> Lists<'a> {
    let mut lists: Lists<'a> = Vec::new();
    for (rule, tools) in said.flat_map(|said| &said.lists) {
        if !lists.iter().any(|(other, _)| other == rule) {
            lists.push((rule.clone(), tools));
        }
    }
    lists
}

/// Returns `true` if a list of names and globs has a server. A pattern that is no valid glob has
/// none.
fn is_among(server: &str, patterns: &[String]) -> bool {
    patterns.iter().any(|pattern| {
        pattern == server
            || Glob::new(pattern).is_ok_and(|glob| glob.compile_matcher().is_match(server))
    })
}
