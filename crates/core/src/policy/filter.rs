//! The rules of a server's own entry for its tools: `toolFilters`, `includeNames`, `overrides`.

use foldhash::HashSet;
use globset::{Glob, GlobSet, GlobSetBuilder};

use crate::settings::ServerConfig;

/// The rules of a server's own entry for its tools. A tool must pass all of them.
#[derive(Debug)]
pub(crate) struct Entry {
    filter: ToolFilter,
    /// The only tools there are (`includeNames`), as written.
    include: Option<HashSet<String>>,
    /// The tools that are switched off (`overrides`), as written.
    off: HashSet<String>,
    /// The prefix that may be written before their names.
    prefix: String,
}

impl Entry {
    pub(crate) fn new(server: &ServerConfig) -> Self {
        let overrides = server.overrides.iter();
        let off = overrides.filter(|(_, over)| over.enabled == Some(false));
        Self {
            filter: ToolFilter::new(&server.tool_filters),
            include: server.include.as_ref().map(|names| names.iter().cloned().collect()),
            off: off.map(|(tool, _)| tool.clone()).collect(),
            prefix: server.client_prefix(),
        }
    }

    /// Lets a tool pass, or says which key does not. The keys may write `mcp__<server>__<tool>` for
    /// it; that is another tool where it `has_namesake`, one that is called just so.
    pub(crate) fn pass(&self, tool: &str, has_namesake: bool) -> Result<(), &'static str> {
        let is_in = |names: &HashSet<String>| {
            let is_prefixed = || names.contains(&format!("{}{tool}", self.prefix));
            !names.is_empty() && (names.contains(tool) || (!has_namesake && is_prefixed()))
        };
        if !self.filter.allows(tool) {
            return Err("tool_filters");
        }
        if !self.include.as_ref().is_none_or(is_in) {
            return Err("include_names");
        }
        if is_in(&self.off) { Err("overrides") } else { Ok(()) }
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

    /// Returns `true` if a tool of this name passes.
    pub fn allows(&self, tool: &str) -> bool {
        // A set of no globs takes a name apart before it finds that out.
        let is_never = || !self.never.is_empty() && self.never.is_match(tool);
        self.only.as_ref().is_none_or(|only| only.is_match(tool)) && !is_never()
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
