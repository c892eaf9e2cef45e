//! Patterns in the rules that mean no resource, no template and no prompt.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::catalog::Listing;
use crate::name::{self, ServerRef};
use crate::policy::address::{Address, folded};
use crate::policy::pattern::Patterns;
use crate::policy::rule::Rule;
use crate::policy::server_ref;
use crate::policy::unmatched::{About, Unmatched};
use crate::settings::Config;

/// Returns the patterns over resources and prompts in the rules of a configuration that mean nothing,
/// as far as that is known: `known` has what servers list. A pattern that addresses may fit which are
/// made of a template is not among them.
pub fn unmatched_besides(
    config: &Config,
    known: &BTreeMap<ServerRef, Arc<Listing>>,
) -> Vec<Unmatched> {
    let mut search = Search { config, known, found: Vec::new() };
    let policy = &config.policy;
    for (server, patterns) in &policy.exposed_resources {
        let rule = Rule::new(&["exposed_resources", server]);
        search.list(&rule, patterns, server, About::Resources);
    }
    for (server, patterns) in &policy.exposed_prompts {
        let rule = Rule::new(&["exposed_prompts", server]);
        search.list(&rule, patterns, server, About::Prompts);
    }
    for (agent, rules) in &policy.agents {
        for (key, lists, about) in [
            ("resource_overrides", &rules.resource_overrides, About::Resources),
            ("prompt_overrides", &rules.prompt_overrides, About::Prompts),
        ] {
            for (server, patterns) in lists {
                let rule = Rule::new(&["agent_policies", agent.as_str(), key, server]);
                search.list(&rule, patterns, server, about);
            }
        }
    }
    for (toolbox, server) in config.servers() {
        let Some(listing) = known.get(&server_ref(&toolbox.name, &server.name)) else { continue };
        for (key, patterns, about) in [
            ("resource_filters", &server.resource_filters, About::Resources),
            ("prompt_filters", &server.prompt_filters, About::Prompts),
        ] {
            let rule = Rule::new(&["mcp_servers", server.name.as_str(), key]);
            search.patterns(&rule, patterns, &[listing], about);
        }
    }
    search.found
}

struct Search<'a> {
    config: &'a Config,
    known: &'a BTreeMap<ServerRef, Arc<Listing>>,
    found: Vec<Unmatched>,
}

impl Search<'_> {
    /// Looks through a list about the servers of a name, if it is known what all of them have.
    fn list(&mut self, rule: &Rule, patterns: &[String], server: &str, about: About) {
        let servers = self.config.servers().filter(|(_, other)| other.name.as_str() == server);
        let places = servers.map(|(toolbox, server)| server_ref(&toolbox.name, &server.name));
        let listings: Option<Vec<_>> = places.map(|at| self.known.get(&at)).collect();
        if let Some(listings) = listings.filter(|listings| !listings.is_empty()) {
            self.patterns(rule, patterns, &listings, about);
        }
    }

    fn patterns(
        &mut self,
        rule: &Rule,
        patterns: &[String],
        listings: &[&Arc<Listing>],
        about: About,
    ) {
        for pattern in patterns {
            let bare = pattern.strip_prefix('!').unwrap_or(pattern);
            if bare == "*" || listings.iter().any(|listing| means_some(bare, listing, about)) {
                continue;
            }
            let names = listings.iter().flat_map(|listing| names(listing, about));
            let near = name::nearest(bare, names, 1).pop();
            let hint = near.map(|near| format!("did you mean `{near}`?"));
            let found = Unmatched { rule: rule.clone(), pattern: pattern.clone(), hint, about };
            // Categories share the entry of their server.
            if !self.found.contains(&found) {
                self.found.push(found);
            }
        }
    }
}

/// The names and addresses that may have been meant.
fn names(listing: &Listing, about: About) -> Vec<&str> {
    match about {
        About::Tools => Vec::new(),
        About::Prompts => listing.prompts.iter().map(|prompt| prompt.name.as_str()).collect(),
        About::Resources => {
            let resources = listing.resources.iter().map(|resource| resource.uri.as_str());
            resources
                .chain(listing.templates.iter().map(|template| template.uri.as_str()))
                .collect()
        }
    }
}

/// Returns `true` if a pattern means something that is listed, or may mean what a template makes. One
/// that cannot be compiled is an error of its own.
fn means_some(pattern: &str, listing: &Listing, about: About) -> bool {
    let Ok(patterns) = Patterns::forbidding(&[pattern]) else { return true };
    if about == About::Prompts {
        return listing.prompts.iter().any(|prompt| patterns.have(&prompt.name));
    }
    let start =
        |text: &str, special: &[char]| folded(text.split(special).next().unwrap_or_default());
    let literal = start(pattern, &['*', '?', '[', '{', '\\']);
    let may_be_made = |template: &str| {
        let head = start(template, &['{']);
        head.starts_with(&literal) || literal.starts_with(&head)
    };
    let means = |uri: &str, name: Option<String>| {
        patterns.have_any(&Address::new(uri)) || name.is_some_and(|name| patterns.have(&name))
    };
    listing.resources.iter().any(|one| means(&one.uri, one.name()))
        || listing.templates.iter().any(|one| means(&one.uri, one.name()) || may_be_made(&one.uri))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;
    use crate::catalog::Definition;
    use crate::config;
    use crate::name::{ServerName, ToolboxName};
    use crate::raw::Raw;

    #[test]
    fn patterns_that_mean_nothing_are_found_in_every_list() {
        let file = json!({
            "mcpServers": {"files": {"command": "x",
                "resourceFilters": ["note://a", "!note://c*", "Readme", "db://*"],
                "promptFilters": ["sum", "!plam"]}},
            "exposedResources": {"files": ["*", "!file:///secret/*", "NOTE://A", "other:///x"]},
            "exposedPrompts": {"files": ["pl*", "none"]},
            "agentPolicies": {"ann": {
                "resourceOverrides": {"files": ["note://b"]}, "promptOverrides": {"files": ["sun"]},
            }},
        });
        let env = BTreeMap::<String, String>::new();
        let loaded = config::parse(&file.to_string(), Path::new("x.json"), Path::new("/"), &env);
        let config = loaded.unwrap_or_else(|report| panic!("{report}")).config;
        let read = |value: serde_json::Value| Raw::encode(&value);
        let (resources, _) =
            Definition::read_all([read(json!({"uri": "note://a", "name": "Readme"}))]);
        let (templates, _) =
            Definition::read_all([read(json!({"uriTemplate": "file:///{path}", "name": "file"}))]);
        let (prompts, _) =
            Definition::read_all(["sum", "plan"].map(|name| read(json!({"name": name}))));
        let listing = Listing { resources, templates, prompts, ..Listing::default() };
        let at = server_ref(&ToolboxName::new("files"), &ServerName::new("files"));
        let known = BTreeMap::from([(at, Arc::new(listing))]);
        let found = unmatched_besides(&config, &known);
        let found = found
            .iter()
            .map(|one| (one.rule.as_str(), &*one.pattern, one.hint.as_deref().unwrap_or_default()));
        let found: Vec<_> = found.collect();
        assert_eq!(
            found,
            [
                ("exposed_resources.files", "other:///x", ""),
                ("exposed_prompts.files", "none", ""),
                (
                    "agent_policies.ann.resource_overrides.files",
                    "note://b",
                    "did you mean `note://a`?"
                ),
                ("agent_policies.ann.prompt_overrides.files", "sun", "did you mean `sum`?"),
                ("mcp_servers.files.resource_filters", "!note://c*", "did you mean `note://a`?"),
                ("mcp_servers.files.resource_filters", "db://*", ""),
                ("mcp_servers.files.prompt_filters", "!plam", "did you mean `plan`?"),
            ]
        );
        assert_eq!(unmatched_besides(&config, &BTreeMap::new()), []);
    }
}
