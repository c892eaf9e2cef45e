//! Policy: who may see and call what. Every surface asks it, and only it can make a [`Permit`].

use std::fmt;
use std::sync::Arc;

use foldhash::{HashMap, HashSet};
use globset::{Glob, GlobSet, GlobSetBuilder};

use crate::config::{Config, ServerConfig, ToolMode};
use crate::name::{AgentName, ServerName, ToolId, ToolboxName};

/// Proof that policy allowed one tool. A backend calls nothing without it.
#[derive(Debug)]
pub struct Permit {
    tool: ToolId,
    confirmation: Option<Concern>,
}

/// Why a call is to be confirmed by the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Concern {
    /// `dangerousTools` names the tool.
    Dangerous,
}

impl fmt::Display for Concern {
    /// Why, in words that go on from "The user is asked because …".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Dangerous => "the configuration says that it is dangerous",
        })
    }
}

impl Permit {
    /// The tool that may be called, by its server's own name for it.
    pub fn tool(&self) -> &ToolId {
        &self.tool
    }

    /// Why the user has to confirm the call, if so.
    pub fn confirmation(&self) -> Option<Concern> {
        self.confirmation
    }
}

/// Proof that policy let a request to one server of a toolbox through that calls no tool.
#[derive(Debug)]
pub struct Admission(());

/// Policy said no. What an agent is told must be what it is told of a tool that does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Denial;

/// The rules of one configuration, for every agent.
#[derive(Debug)]
pub struct Policies {
    config: Arc<Config>,
}

impl Policies {
    /// Takes the rules out of a configuration.
    pub fn new(config: Arc<Config>) -> Self {
        Self { config }
    }

    /// The rules for one agent; `None`: one without a name.
    pub fn of(&self, _agent: Option<&AgentName>) -> Arc<Policy> {
        Arc::new(Policy::new(&self.config))
    }

    /// What of the configuration an agent may know of; of one toolbox alone, if that is all it
    /// wants: then everything in it is shown from the start.
    pub fn seen_by(
        &self,
        _agent: Option<&AgentName>,
        toolbox: Option<&ToolboxName>,
    ) -> Arc<Config> {
        let Some(toolbox) = toolbox else { return Arc::clone(&self.config) };
        let mut seen = (*self.config).clone();
        seen.toolboxes.retain(|other| other.name == *toolbox);
        seen.mode = ToolMode::Direct;
        Arc::new(seen)
    }
}

/// The rules of one configuration for one agent. What no rule speaks of is allowed.
#[derive(Debug)]
pub struct Policy {
    rules: HashMap<ToolboxName, HashMap<ServerName, Rules>>,
    /// `dangerousTools`, if there are any.
    dangerous: Option<ToolFilter>,
}

impl Policy {
    /// Takes the rules out of a configuration.
    pub fn new(config: &Config) -> Self {
        let rules = config.toolboxes.iter().map(|toolbox| {
            let servers = toolbox.servers.iter();
            let rules = servers.map(|server| (server.name.clone(), Rules::new(server))).collect();
            (toolbox.name.clone(), rules)
        });
        let dangerous = &config.dangerous_tools;
        let dangerous = (!dangerous.is_empty()).then(|| ToolFilter::new(dangerous));
        Self { rules: rules.collect(), dangerous }
    }

    /// Decides on what a server of a toolbox has besides tools: its resources and prompts.
    pub fn admit(&self, toolbox: &ToolboxName, server: &ServerName) -> Result<Admission, Denial> {
        match self.rules.get(toolbox).and_then(|servers| servers.get(server)) {
            Some(_) => Ok(Admission(())),
            None => Err(Denial),
        }
    }

    /// Decides on one tool of one server in one toolbox, by its server's own name for it.
    ///
    /// The rules may write `mcp__<server>__<tool>` for it; that is another tool where the server
    /// `has_namesake`, one that is called just so.
    pub fn decide(&self, tool: &ToolId, has_namesake: bool) -> Result<Permit, Denial> {
        match self.rules.get(&tool.toolbox).and_then(|servers| servers.get(&tool.server)) {
            Some(rules) if rules.allow(&tool.tool, has_namesake) => {
                let is_dangerous = self.dangerous.as_ref().is_some_and(|dangerous| {
                    dangerous.allows(&tool.tool)
                        || dangerous.allows(&format!("{}:{}", tool.server, tool.tool))
                });
                let confirmation = is_dangerous.then_some(Concern::Dangerous);
                Ok(Permit { tool: tool.clone(), confirmation })
            }
            _ => Err(Denial),
        }
    }
}

/// What is said of the tools of one server in one toolbox: a tool must pass all of it.
#[derive(Debug)]
struct Rules {
    filter: ToolFilter,
    /// The only tools there are (`includeNames`), as written.
    include: Option<HashSet<String>>,
    /// The tools that are switched off (`overrides`), as written.
    off: HashSet<String>,
    /// What may be written before their names.
    prefix: String,
}

impl Rules {
    fn new(server: &ServerConfig) -> Self {
        let overrides = server.overrides.iter();
        let off = overrides.filter(|(_, over)| over.enabled == Some(false));
        Self {
            filter: ToolFilter::new(&server.tool_filters),
            include: server.include.as_ref().map(|names| names.iter().cloned().collect()),
            off: off.map(|(tool, _)| tool.clone()).collect(),
            prefix: server.client_prefix(),
        }
    }

    fn allow(&self, tool: &str, has_namesake: bool) -> bool {
        let prefixed = format!("{}{tool}", self.prefix);
        let is_in = |names: &HashSet<String>| {
            names.contains(tool) || (!has_namesake && names.contains(&prefixed))
        };
        self.filter.allows(tool) && self.include.as_ref().is_none_or(is_in) && !is_in(&self.off)
    }
}

/// `toolFilters`: a tool passes when a pattern without `!` matches its name (or there is none)
/// and no pattern with `!` does. Patterns are exact names, `*`, or globs.
#[derive(Debug)]
pub struct ToolFilter {
    only: Option<GlobSet>,
    never: GlobSet,
}

impl ToolFilter {
    /// Compiles patterns. One that is no valid glob matches just the tool that has it as its name.
    pub fn new(patterns: &[String]) -> Self {
        let (never, only): (Vec<&str>, Vec<&str>) =
            patterns.iter().map(String::as_str).partition(|pattern| pattern.starts_with('!'));
        let never = never.into_iter().map(|pattern| &pattern[1..]);
        let only = (!only.is_empty()).then(|| globs(only.into_iter())).transpose();
        match (only, globs(never)) {
            (Ok(only), Ok(never)) => Self { only, never },
            // Rules that cannot be compiled, for being too many, let nothing pass.
            _ => Self { only: Some(GlobSet::empty()), never: GlobSet::empty() },
        }
    }

    /// Whether a tool of this name passes.
    pub fn allows(&self, tool: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only.is_match(tool)) && !self.never.is_match(tool)
    }
}

fn globs<'a>(patterns: impl Iterator<Item = &'a str>) -> Result<GlobSet, globset::Error> {
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        set.add(Glob::new(pattern).or_else(|_| Glob::new(&globset::escape(pattern)))?);
    }
    set.build()
}

#[cfg(test)]
mod tests;
