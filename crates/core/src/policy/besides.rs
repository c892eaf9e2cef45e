//! Resources, templates of them, and prompts: who may have which of a server.
//!
//! A resource that its server lists is judged by the address and the name that it has there. Of any
//! other address all is asked that it could mean: its spellings, the listed resources that it may be,
//! and the templates that it may have been made of.

use std::sync::Arc;

use crate::catalog::{Listing, Prompt, Resource, Template, fits, is_made_of};
use crate::name::{ServerName, ServerRef, ToolboxName};
use crate::policy::access::Lists;
use crate::policy::address::{Address, folded, unencoded};
use crate::policy::pattern::Patterns;
use crate::policy::rule::Rule;
use crate::policy::{Denial, Policy};
use crate::settings::ServerConfig;

/// Proof that policy let a request to one server of a toolbox through that calls no tool.
#[derive(Debug)]
pub struct Admission {
    hearing: Option<Hearing>,
}

impl Admission {
    /// The resources of the server that may be heard of besides; `None`: all.
    pub fn hearing(&self) -> Option<&Hearing> {
        self.hearing.as_ref()
    }
}

/// The resources of a server that an agent may hear of.
#[derive(Clone, Debug)]
pub struct Hearing {
    guard: Arc<Guard>,
    listing: Arc<Listing>,
}

impl Hearing {
    /// Returns `true` if the agent may know of a resource at this address.
    pub fn has(&self, uri: &str) -> bool {
        self.guard.address(uri, &self.listing).is_ok()
    }
}

impl Policy {
    /// Decides on a server as a whole: what it can do, its instructions, and requests that are about
    /// no resource and no prompt.
    pub fn admit(&self, toolbox: &ToolboxName, server: &ServerName) -> Result<Admission, Denial> {
        self.rules_at(toolbox, server).map(|_| Admission { hearing: None })
    }

    /// Decides on the address of a resource, or on a template of addresses, of a server that has this
    /// listing.
    pub fn admit_resource(
        &self,
        at: &ServerRef,
        uri: &str,
        listing: &Arc<Listing>,
    ) -> Result<Admission, Denial> {
        let guard = &self.rules_at(&at.toolbox, &at.server)?.resources;
        guard.address(uri, listing).map_err(|rule| Denial { rule: Some(rule.clone()) })?;
        let hearing = || Hearing { guard: Arc::clone(guard), listing: Arc::clone(listing) };
        Ok(Admission { hearing: (!guard.is_open()).then(hearing) })
    }

    /// Decides on a prompt, by its server's own name for it.
    pub fn admit_prompt(&self, at: &ServerRef, name: &str) -> Result<Admission, Denial> {
        let guard = &self.rules_at(&at.toolbox, &at.server)?.prompts;
        match guard.prompt(name) {
            Ok(_) => Ok(Admission { hearing: None }),
            Err(rule) => Err(Denial { rule: Some(rule.clone()) }),
        }
    }

    /// Returns `true` if the agent may have less than all resources of a server, so that it has to be
    /// known what the server lists.
    pub fn judges_resources(&self, at: &ServerRef) -> bool {
        let rules = self.rules_at(&at.toolbox, &at.server);
        rules.is_ok_and(|rules| !rules.resources.is_open())
    }

    /// Returns the resources, the templates and the prompts of a listing that the agent may have; `None`
    /// for each of which it may have all.
    pub(crate) fn shown_of(&self, at: &ServerRef, listing: &Listing) -> ShownOf {
        let Ok(rules) = self.rules_at(&at.toolbox, &at.server) else { return ShownOf::default() };
        let (resources, prompts) = (&rules.resources, &rules.prompts);
        let mut shown = ShownOf::default();
        if !resources.is_open() {
            let is_shown = |uri: &str, name: Option<String>| {
                resources.listed(uri, name.as_deref().unwrap_or_default()).is_ok()
            };
            let all = listing.resources.iter();
            let all = all.filter(|one| is_shown(&one.uri, one.name()));
            shown.resources = Some(all.cloned().collect());
            let all = listing.templates.iter();
            let all = all.filter(|one| is_shown(&one.uri, one.name()));
            shown.templates = Some(all.cloned().collect());
        }
        if !prompts.is_open() {
            let all = listing.prompts.iter().filter(|one| prompts.prompt(&one.name).is_ok());
            shown.prompts = Some(all.cloned().collect());
        }
        shown
    }
}

/// The part of a listing that an agent may have; `None`: all of it.
#[derive(Debug, Default)]
pub(crate) struct ShownOf {
    pub(crate) resources: Option<Vec<Arc<Resource>>>,
    pub(crate) templates: Option<Vec<Arc<Template>>>,
    pub(crate) prompts: Option<Vec<Arc<Prompt>>>,
}

/// The rules for the resources, or for the prompts, of one server. A resource must pass its lists and
/// the filter of the server's own entry.
#[derive(Debug)]
pub(crate) struct Guard {
    /// The lists of which one has to let it through; `None`: all may be had.
    lists: Option<Vec<(Rule, Filter)>>,
    /// The rule where there are lists and none of them is meant.
    otherwise: Rule,
    entry: (Rule, Filter),
}

impl Guard {
    /// The rules for the resources of a server.
    pub(crate) fn of_resources(server: &ServerConfig, lists: Option<Lists<'_>>) -> Arc<Self> {
        Self::new(server, "resource_filters", &server.resource_filters, lists)
    }

    /// The rules for its prompts.
    pub(crate) fn of_prompts(server: &ServerConfig, lists: Option<Lists<'_>>) -> Arc<Self> {
        Self::new(server, "prompt_filters", &server.prompt_filters, lists)
    }

    fn new(
        server: &ServerConfig,
        key: &str,
        patterns: &[String],
        lists: Option<Lists<'_>>,
    ) -> Arc<Self> {
        let rule = Rule::new(&["mcp_servers", server.name.as_str(), key]);
        let last = lists.as_ref().and_then(|lists| Some(lists.last()?.0.clone()));
        let lists = lists.map(|lists| {
            let lists = lists.into_iter().map(|(rule, patterns)| {
                // A list of what an agent may have that has nothing in it gives nothing.
                let filter =
                    if patterns.is_empty() { Filter::nothing() } else { Filter::new(patterns) };
                (rule, filter)
            });
            lists.collect()
        });
        let otherwise = last.unwrap_or_else(|| rule.clone());
        Arc::new(Self { lists, otherwise, entry: (rule, Filter::new(patterns)) })
    }

    /// Returns `true` if everything may be had.
    pub(crate) fn is_open(&self) -> bool {
        self.lists.is_none() && self.entry.1.is_open()
    }

    /// Returns `true` if both are the same rules of one configuration: a rule is where it stands in the
    /// file.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let rules = |guard: &Self| -> Option<Vec<Rule>> {
            Some(guard.lists.as_ref()?.iter().map(|(rule, _)| rule.clone()).collect())
        };
        rules(self) == rules(other)
    }

    /// Decides on an address; the rule that lets it through, or that does not.
    pub(crate) fn address(&self, uri: &str, listing: &Listing) -> Result<Option<&Rule>, &Rule> {
        if self.is_open() {
            return Ok(None);
        }
        let resources = listing.resources.iter();
        let resources = resources.map(|one| Listed { uri: &one.uri, name: one.name() });
        let templates = listing.templates.iter();
        let templates = templates.map(|one| Listed { uri: &one.uri, name: one.name() });
        let (resources, templates): (Vec<_>, Vec<_>) = (resources.collect(), templates.collect());
        let named = resources.iter().chain(&templates).find(|one| one.uri == uri);
        if let Some(named) = named {
            return self.listed(uri, named.name());
        }
        let address = Address::new(uri);
        let twins = resources.into_iter().filter(|one| address.may_be(one.uri)).collect();
        let asked = Asked { address, twins, templates };
        self.pass(|filter| filter.lets(&asked))
    }

    /// Decides on what a server lists under this address and name.
    pub(crate) fn listed(&self, uri: &str, name: &str) -> Result<Option<&Rule>, &Rule> {
        self.pass(|filter| filter.lets_listed(uri, name))
    }

    /// Decides on a prompt.
    pub(crate) fn prompt(&self, name: &str) -> Result<Option<&Rule>, &Rule> {
        self.pass(|filter| filter.has(name))
    }

    fn pass(&self, lets: impl Fn(&Filter) -> bool) -> Result<Option<&Rule>, &Rule> {
        let by = match &self.lists {
            None => None,
            Some(lists) => {
                let found = lists.iter().find(|(_, filter)| lets(filter));
                Some(found.map(|(rule, _)| rule).ok_or(&self.otherwise)?)
            }
        };
        let (rule, entry) = &self.entry;
        if lets(entry) { Ok(by) } else { Err(rule) }
    }
}

/// A resource or a template as its server lists it.
#[derive(Debug)]
struct Listed<'a> {
    uri: &'a str,
    name: Option<String>,
}

impl Listed<'_> {
    fn name(&self) -> &str {
        self.name.as_deref().unwrap_or_default()
    }
}

/// An address that its server does not list, with what it may mean.
#[derive(Debug)]
struct Asked<'a> {
    address: Address<'a>,
    /// The listed resources that it may be by another spelling.
    twins: Vec<Listed<'a>>,
    templates: Vec<Listed<'a>>,
}

/// Names, globs and `!` globs: what is among those without `!` passes (or all, if there is none) that
/// none with `!` matches.
#[derive(Debug)]
pub(crate) struct Filter {
    only: Option<Patterns>,
    never: Option<Patterns>,
}

impl Filter {
    /// Compiles patterns.
    pub(crate) fn new(patterns: &[String]) -> Self {
        let (never, only): (Vec<&str>, Vec<&str>) =
            patterns.iter().map(String::as_str).partition(|pattern| pattern.starts_with('!'));
        let never: Vec<&str> = never.into_iter().map(|pattern| &pattern[1..]).collect();
        let only = (!only.is_empty()).then(|| Patterns::allowing(&only)).transpose();
        let never = (!never.is_empty()).then(|| Patterns::forbidding(&never)).transpose();
        match (only, never) {
            (Ok(only), Ok(never)) => Self { only, never },
            // What cannot be compiled lets nothing pass.
            _ => Self::nothing(),
        }
    }

    fn nothing() -> Self {
        Self { only: Some(Patterns::default()), never: None }
    }

    fn is_open(&self) -> bool {
        self.only.is_none() && self.never.is_none()
    }

    /// Returns `true` if a name passes.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only.have(name))
            && !self.never.as_ref().is_some_and(|never| never.have(name))
    }

    fn lets_listed(&self, uri: &str, name: &str) -> bool {
        let is_among = |only: &Patterns| only.have(uri) || only.have(name);
        self.only.as_ref().is_none_or(is_among) && !self.forbids(uri, name)
    }

    fn forbids(&self, uri: &str, name: &str) -> bool {
        self.never
            .as_ref()
            .is_some_and(|never| never.have(name) || never.have_any(&Address::new(uri)))
    }

    fn lets(&self, Asked { address, twins, templates }: &Asked<'_>) -> bool {
        if self.never.as_ref().is_some_and(|never| never.have_any(address)) {
            return false;
        }
        if !twins.iter().all(|twin| self.lets_listed(twin.uri, twin.name())) {
            return false;
        }
        let may_be_of = |template: &str| {
            let spelled = folded(template);
            fits(template, address.written) || address.forms().any(|form| fits(&spelled, form))
        };
        let mut forbidden = templates.iter().filter(|one| self.forbids(one.uri, one.name()));
        if forbidden.any(|template| may_be_of(template.uri)) {
            return false;
        }
        let Some(only) = &self.only else { return true };
        let Some(plain) = &address.plain else { return false };
        let mut allowed =
            templates.iter().filter(|one| only.have(one.uri) || only.have(one.name()));
        only.have_plain(plain)
            || allowed.any(|template| is_made_of(&unencoded(template.uri), &plain.whole))
    }
}

#[cfg(test)]
mod tests;
