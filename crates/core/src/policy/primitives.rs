//! Access to resources, resource templates and prompts.
//!
//! A listed resource is judged by its listed URI and name. Any other URI is judged by everything it
//! could mean: its spellings, the listed resources it may equal, and the templates it may be an
//! expansion of.

use std::sync::Arc;

use crate::catalog::{Listing, Prompt, Resource, ResourceTemplate, expands_to, may_expand_to};
use crate::policy::access::RuleLists;
use crate::policy::resource_uri::{ResourceUri, normalize_ignoring_case, unencoded};
use crate::policy::rule::RulePath;
use crate::policy::uri_patterns::UriPatternSet;
use mcp_workbench_settings::ServerConfig;

/// Proof that policy allowed a request to one server of a toolbox, other than a tool call.
#[derive(Debug)]
pub struct Admission {
    pub(super) hearing: Option<ResourceScope>,
}

impl Admission {
    /// Returns the server's resources that the agent may learn about; `None` means all.
    pub fn resource_scope(&self) -> Option<&ResourceScope> {
        self.hearing.as_ref()
    }
}

/// The resources of a server that an agent may learn about.
#[derive(Clone, Debug)]
pub struct ResourceScope {
    pub(super) guard: Arc<PrimitiveRules>,
    pub(super) listing: Arc<Listing>,
}

impl ResourceScope {
    /// Returns `true` if the agent may know about the resource at `uri`.
    pub fn contains(&self, uri: &str) -> bool {
        self.guard.decide_uri(uri, &self.listing).is_ok()
    }
}

/// The part of a listing that an agent may use. `None` means all of that kind.
#[derive(Debug, Default)]
pub(crate) struct PermittedPrimitives {
    pub(crate) resources: Option<Vec<Arc<Resource>>>,
    pub(crate) templates: Option<Vec<Arc<ResourceTemplate>>>,
    pub(crate) prompts: Option<Vec<Arc<Prompt>>>,
}

/// The rules for the resources, or for the prompts, of one server. A resource must pass its lists
/// and the filter in the server's own entry.
#[derive(Debug)]
pub(crate) struct PrimitiveRules {
    /// One of these lists must allow a resource; `None` allows all.
    lists: Option<Vec<(RulePath, PrimitiveFilter)>>,
    /// The rule that denies if none of the lists matches.
    otherwise: RulePath,
    /// The lists of project files. All must allow it.
    project: Vec<(RulePath, PrimitiveFilter)>,
    entry: (RulePath, PrimitiveFilter),
}

impl PrimitiveRules {
    pub(crate) fn of_resources(
        server: &ServerConfig,
        lists: Option<RuleLists<'_>>,
        project: RuleLists<'_>,
    ) -> Arc<Self> {
        Self::new(server, "resource_filters", &server.resource_filters, (lists, project))
    }

    pub(crate) fn of_prompts(
        server: &ServerConfig,
        lists: Option<RuleLists<'_>>,
        project: RuleLists<'_>,
    ) -> Arc<Self> {
        Self::new(server, "prompt_filters", &server.prompt_filters, (lists, project))
    }

    fn new(
        server: &ServerConfig,
        key: &str,
        patterns: &[String],
        (lists, project): (Option<RuleLists<'_>>, RuleLists<'_>),
    ) -> Arc<Self> {
        let rule = RulePath::new(&["mcp_servers", server.name.as_str(), key]);
        let last = lists.as_ref().and_then(|lists| Some(lists.last()?.0.clone()));
        let compiled = |lists: RuleLists<'_>| {
            let lists = lists.into_iter().map(|(rule, patterns)| {
                // An empty allowlist allows nothing, whereas an empty filter allows everything.
                let filter = if patterns.is_empty() {
                    PrimitiveFilter::nothing()
                } else {
                    PrimitiveFilter::new(patterns)
                };
                (rule, filter)
            });
            lists.collect()
        };
        let lists = lists.map(compiled);
        let project = compiled(project);
        let otherwise = last.unwrap_or_else(|| rule.clone());
        Arc::new(Self { lists, otherwise, project, entry: (rule, PrimitiveFilter::new(patterns)) })
    }

    pub(crate) fn allows_all(&self) -> bool {
        self.lists.is_none() && self.project.is_empty() && self.entry.1.is_open()
    }

    /// Returns `true` if both are the same rules of one configuration. Equal paths mean equal
    /// rules.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let rules = |guard: &Self| -> Option<Vec<RulePath>> {
            Some(guard.lists.as_ref()?.iter().map(|(rule, _)| rule.clone()).collect())
        };
        rules(self) == rules(other)
    }

    /// Decides on a URI. Returns the rule that allows or denies it; `Ok(None)` if no list applies.
    pub(crate) fn decide_uri(
        &self,
        uri: &str,
        listing: &Listing,
    ) -> Result<Option<&RulePath>, &RulePath> {
        if self.allows_all() {
            return Ok(None);
        }
        let resources = listing.resources.iter();
        let resources = resources.map(|one| ListedResource { uri: &one.uri, name: one.name() });
        let templates = listing.templates.iter();
        let templates = templates.map(|one| ListedResource { uri: &one.uri, name: one.name() });
        let (resources, templates): (Vec<_>, Vec<_>) = (resources.collect(), templates.collect());
        let named = resources.iter().chain(&templates).find(|one| one.uri == uri);
        if let Some(named) = named {
            return self.decide_listed(uri, named.name());
        }
        let address = ResourceUri::new(uri);
        let twins = resources.into_iter().filter(|one| address.may_equal(one.uri)).collect();
        let asked = UnlistedUri { address, twins, templates };
        self.pass(|filter| filter.allows_uri(&asked))
    }

    pub(crate) fn decide_listed(
        &self,
        uri: &str,
        name: &str,
    ) -> Result<Option<&RulePath>, &RulePath> {
        self.pass(|filter| filter.lets_listed(uri, name))
    }

    pub(crate) fn decide_prompt(&self, name: &str) -> Result<Option<&RulePath>, &RulePath> {
        self.pass(|filter| filter.has(name))
    }

    fn pass(
        &self,
        lets: impl Fn(&PrimitiveFilter) -> bool,
    ) -> Result<Option<&RulePath>, &RulePath> {
        let by = match &self.lists {
            None => None,
            Some(lists) => {
                let found = lists.iter().find(|(_, filter)| lets(filter));
                Some(found.map(|(rule, _)| rule).ok_or(&self.otherwise)?)
            }
        };
        if let Some((rule, _)) = self.project.iter().find(|(_, filter)| !lets(filter)) {
            return Err(rule);
        }
        let (rule, entry) = &self.entry;
        if lets(entry) { Ok(by) } else { Err(rule) }
    }
}

#[derive(Debug)]
struct ListedResource<'a> {
    uri: &'a str,
    name: Option<String>,
}

impl ListedResource<'_> {
    fn name(&self) -> &str {
        self.name.as_deref().unwrap_or_default()
    }
}

/// A URI that its server doesn't list, with its possible meanings.
#[derive(Debug)]
struct UnlistedUri<'a> {
    address: ResourceUri<'a>,
    /// The listed resources that may be the same in another spelling.
    twins: Vec<ListedResource<'a>>,
    templates: Vec<ListedResource<'a>>,
}

/// Names, globs and `!` globs. A name passes if it matches some pattern without `!`, if any exist,
/// and no pattern with `!`.
#[derive(Debug)]
pub(crate) struct PrimitiveFilter {
    only: Option<UriPatternSet>,
    never: Option<UriPatternSet>,
}

impl PrimitiveFilter {
    pub(crate) fn new(patterns: &[String]) -> Self {
        let (never, only): (Vec<&str>, Vec<&str>) =
            patterns.iter().map(String::as_str).partition(|pattern| pattern.starts_with('!'));
        let never: Vec<&str> = never.into_iter().map(|pattern| &pattern[1..]).collect();
        let only = (!only.is_empty()).then(|| UriPatternSet::allowing(&only)).transpose();
        let never = (!never.is_empty()).then(|| UriPatternSet::forbidding(&never)).transpose();
        match (only, never) {
            (Ok(only), Ok(never)) => Self { only, never },
            // Fail closed: patterns that don't compile let nothing pass.
            _ => Self::nothing(),
        }
    }

    fn nothing() -> Self {
        Self { only: Some(UriPatternSet::default()), never: None }
    }

    fn is_open(&self) -> bool {
        self.only.is_none() && self.never.is_none()
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only.have(name))
            && !self.never.as_ref().is_some_and(|never| never.have(name))
    }

    fn lets_listed(&self, uri: &str, name: &str) -> bool {
        let is_among = |only: &UriPatternSet| only.have(uri) || only.have(name);
        self.only.as_ref().is_none_or(is_among) && !self.forbids(uri, name)
    }

    fn forbids(&self, uri: &str, name: &str) -> bool {
        self.never.as_ref().is_some_and(|never| {
            never.have(name) || never.matches_any_spelling(&ResourceUri::new(uri))
        })
    }

    fn allows_uri(&self, UnlistedUri { address, twins, templates }: &UnlistedUri<'_>) -> bool {
        if self.never.as_ref().is_some_and(|never| never.matches_any_spelling(address)) {
            return false;
        }
        if !twins.iter().all(|twin| self.lets_listed(twin.uri, twin.name())) {
            return false;
        }
        let may_be_of = |template: &str| {
            let spelled = normalize_ignoring_case(template);
            may_expand_to(template, address.written)
                || address.forms().any(|form| may_expand_to(&spelled, form))
        };
        let mut forbidden = templates.iter().filter(|one| self.forbids(one.uri, one.name()));
        if forbidden.any(|template| may_be_of(template.uri)) {
            return false;
        }
        let Some(only) = &self.only else { return true };
        let Some(plain) = &address.plain else { return false };
        let mut allowed =
            templates.iter().filter(|one| only.have(one.uri) || only.have(one.name()));
        only.matches_canonical(plain)
            || allowed.any(|template| expands_to(&unencoded(template.uri), &plain.whole))
    }
}

#[cfg(test)]
mod tests;
