//! The tool filters of a server's own entry: `toolFilters`, `includeNames` and `overrides`.

use foldhash::HashSet;
use globset::{Glob, GlobSet, GlobSetBuilder};

use crate::policy::permit::ToolTraits;
use crate::policy::tool_patterns::AnnotationPattern;
use mcp_workbench_settings::{ServerConfig, ToolAnnotation, ToolAnnotations};

/// The filters of a server's own entry. A tool must pass all of them.
#[derive(Debug)]
pub(crate) struct ServerEntryFilter {
    filter: ToolFilter,
    /// `includeNames`, as written; `None` includes all tools.
    include: Option<HashSet<String>>,
    /// Tools with `enabled: false` in `overrides`, as written.
    off: HashSet<String>,
    /// `mcp__<server>__`, a prefix that the configuration can put before tool names.
    prefix: String,
}

impl ServerEntryFilter {
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

    pub(crate) fn uses_annotations(&self) -> bool {
        !self.filter.annotations.is_empty()
    }

    /// Returns the key that excludes the tool as the error. A name in the configuration can have
    /// the prefix `mcp__<server>__`, unless another tool of the server has exactly that prefixed
    /// name.
    pub(crate) fn pass(&self, tool: &str, traits: ToolTraits) -> Result<(), &'static str> {
        let is_in = |names: &HashSet<String>| {
            let is_prefixed = || names.contains(&format!("{}{tool}", self.prefix));
            !names.is_empty()
                && (names.contains(tool) || (!traits.has_prefixed_twin && is_prefixed()))
        };
        if !self.filter.allows_annotated(tool, traits.annotations) {
            return Err("tool_filters");
        }
        if !self.include.as_ref().is_none_or(is_in) {
            return Err("include_names");
        }
        if is_in(&self.off) { Err("overrides") } else { Ok(()) }
    }
}

/// `toolFilters`: a tool passes if its name matches a pattern without `!` (or there is none) and no
/// pattern with `!`. Patterns are exact names, globs, or annotations such as `@readOnly`.
#[derive(Debug)]
pub struct ToolFilter {
    only: Option<GlobSet>,
    never: GlobSet,
    /// Annotations, with `false` for those after a `!`.
    annotations: Vec<(ToolAnnotation, bool)>,
}

impl ToolFilter {
    /// Compiles the patterns. An invalid glob matches only the tool with exactly that name.
    pub fn new(patterns: &[String]) -> Self {
        let annotations: Vec<_> =
            patterns.iter().filter_map(|text| AnnotationPattern::of_one_server(text)).collect();
        let names = patterns.iter().map(String::as_str);
        let names = names.filter(|text| AnnotationPattern::of_one_server(text).is_none());
        let (never, only): (Vec<&str>, Vec<&str>) =
            names.partition(|pattern| pattern.starts_with('!'));
        let is_limited = !only.is_empty() || annotations.iter().any(|(_, is_wanted)| *is_wanted);
        let never = never.into_iter().map(|pattern| &pattern[1..]);
        let only = is_limited.then(|| globs(only.into_iter())).transpose();
        if let (Ok(only), Ok(never)) = (only, globs(never)) {
            Self { only, never, annotations }
        } else {
            // Fail closed: a set that is too large to compile allows nothing.
            let (only, never) = (Some(GlobSet::empty()), GlobSet::empty());
            Self { only, never, annotations: Vec::new() }
        }
    }

    /// Returns `true` if a tool with this name passes, without any annotations.
    pub fn allows(&self, tool: &str) -> bool {
        self.allows_annotated(tool, ToolAnnotations::default())
    }

    fn allows_annotated(&self, tool: &str, claims: ToolAnnotations) -> bool {
        let is_claimed = |wanted: bool| {
            let mut named = self.annotations.iter().filter(|(_, is_wanted)| *is_wanted == wanted);
            named.any(|(annotation, _)| claims.has(*annotation))
        };
        // Skip an empty set: it would take the name apart before it finds nothing to match.
        let is_never = || !self.never.is_empty() && self.never.is_match(tool);
        self.only.as_ref().is_none_or(|only| only.is_match(tool) || is_claimed(true))
            && !is_never()
            && !is_claimed(false)
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
