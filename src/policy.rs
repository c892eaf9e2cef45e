//! Policy: who may see and call what. Every surface asks it, and only it can make a [`Permit`].

use foldhash::HashMap;
use globset::{Glob, GlobSet, GlobSetBuilder};

use crate::config::Config;
use crate::name::{ServerName, ToolId, ToolboxName};

/// Proof that policy allowed one tool. A backend calls nothing without it.
#[derive(Debug)]
pub struct Permit {
    tool: ToolId,
}

impl Permit {
    /// The tool that may be called.
    pub fn tool(&self) -> &ToolId {
        &self.tool
    }
}

/// Proof that policy let a request to one server of a toolbox through that calls no tool.
#[derive(Debug)]
pub struct Admission(());

/// Policy said no. What an agent is told must be what it is told of a tool that does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Denial;

/// The rules of one configuration. What no rule speaks of is allowed.
#[derive(Debug)]
pub struct Policy {
    filters: HashMap<ToolboxName, HashMap<ServerName, ToolFilter>>,
}

impl Policy {
    /// Takes the rules out of a configuration.
    pub fn new(config: &Config) -> Self {
        let filters = config.toolboxes.iter().map(|toolbox| {
            let servers = toolbox.servers.iter();
            let filters = servers
                .map(|server| (server.name.clone(), ToolFilter::new(&server.tool_filters)))
                .collect();
            (toolbox.name.clone(), filters)
        });
        Self { filters: filters.collect() }
    }

    /// Decides on what a server of a toolbox has besides tools: its resources and prompts.
    pub fn admit(&self, toolbox: &ToolboxName, server: &ServerName) -> Result<Admission, Denial> {
        match self.filters.get(toolbox).and_then(|servers| servers.get(server)) {
            Some(_) => Ok(Admission(())),
            None => Err(Denial),
        }
    }

    /// Decides on one tool of one server in one toolbox.
    pub fn decide(&self, tool: &ToolId) -> Result<Permit, Denial> {
        match self.filters.get(&tool.toolbox).and_then(|servers| servers.get(&tool.server)) {
            Some(filter) if filter.allows(&tool.tool) => Ok(Permit { tool: tool.clone() }),
            _ => Err(Denial),
        }
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
