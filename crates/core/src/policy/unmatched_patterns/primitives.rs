//! Finds patterns in the rules that match no resource, URI template or prompt.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::catalog::{Listing, PrimitiveKind};
use crate::policy::agent_conditions::server_ref;
use crate::policy::resource_uri::{ResourceUri, normalize_ignoring_case};
use crate::policy::rule::RulePath;
use crate::policy::unmatched_patterns::unmatched_pattern::UnmatchedPattern;
use crate::policy::uri_patterns::UriPatternSet;
use mcp_workbench_names::ServerRef;
use mcp_workbench_settings::Config;

/// Returns the resource and prompt patterns in the rules that match nothing in the `known`
/// listings. A pattern that could match a URI expanded from a template is not reported.
pub fn find_unmatched_primitive_patterns(
    config: &Config,
    known: &BTreeMap<ServerRef, Arc<Listing>>,
) -> Vec<UnmatchedPattern> {
    let mut search = PrimitiveSearch { config, known, found: Vec::new() };
    let policy = &config.policy;
    for (server, patterns) in &policy.exposed_resources {
        let rule = RulePath::new(&["exposed_resources", server]);
        search.list(&rule, patterns, server, PrimitiveKind::Resource);
    }
    for (server, patterns) in &policy.exposed_prompts {
        let rule = RulePath::new(&["exposed_prompts", server]);
        search.list(&rule, patterns, server, PrimitiveKind::Prompt);
    }
    for (agent, rules) in &policy.agents {
        for (key, lists, kind) in [
            ("resource_overrides", &rules.resource_overrides, PrimitiveKind::Resource),
            ("prompt_overrides", &rules.prompt_overrides, PrimitiveKind::Prompt),
        ] {
            for (server, patterns) in lists {
                let rule = RulePath::new(&["agent_policies", agent.as_str(), key, server]);
                search.list(&rule, patterns, server, kind);
            }
        }
    }
    for (toolbox, server) in config.servers() {
        let Some(listing) = known.get(&server_ref(&toolbox.name, &server.name)) else { continue };
        for (key, patterns, kind) in [
            ("resource_filters", &server.resource_filters, PrimitiveKind::Resource),
            ("prompt_filters", &server.prompt_filters, PrimitiveKind::Prompt),
        ] {
            let rule = RulePath::new(&["mcp_servers", server.name.as_str(), key]);
            search.patterns(&rule, patterns, &[listing], kind);
        }
    }
    search.found
}

struct PrimitiveSearch<'a> {
    config: &'a Config,
    known: &'a BTreeMap<ServerRef, Arc<Listing>>,
    found: Vec<UnmatchedPattern>,
}

impl PrimitiveSearch<'_> {
    /// Does nothing unless the listings of all servers with this name are known.
    fn list(&mut self, rule: &RulePath, patterns: &[String], server: &str, kind: PrimitiveKind) {
        let servers = self.config.servers().filter(|(_, other)| other.name.as_str() == server);
        let places = servers.map(|(toolbox, server)| server_ref(&toolbox.name, &server.name));
        let listings: Option<Vec<_>> = places.map(|at| self.known.get(&at)).collect();
        if let Some(listings) = listings.filter(|listings| !listings.is_empty()) {
            self.patterns(rule, patterns, &listings, kind);
        }
    }

    fn patterns(
        &mut self,
        rule: &RulePath,
        patterns: &[String],
        listings: &[&Arc<Listing>],
        kind: PrimitiveKind,
    ) {
        for pattern in patterns {
            let bare = pattern.strip_prefix('!').unwrap_or(pattern);
            if bare == "*" || listings.iter().any(|listing| means_some(bare, listing, kind)) {
                continue;
            }
            let names = listings.iter().flat_map(|listing| names(listing, kind));
            let near = mcp_workbench_names::nearest(bare, names, 1).pop();
            let hint = near.map(|near| format!("did you mean `{near}`?"));
            let found =
                UnmatchedPattern { rule: rule.clone(), pattern: pattern.clone(), hint, kind };
            // Categories share the entry of their server, so a pattern can turn up twice.
            if !self.found.contains(&found) {
                self.found.push(found);
            }
        }
    }
}

/// The candidates for a spelling hint.
fn names(listing: &Listing, kind: PrimitiveKind) -> Vec<&str> {
    match kind {
        PrimitiveKind::Tool => Vec::new(),
        PrimitiveKind::Prompt => {
            listing.prompts.iter().map(|prompt| prompt.name.as_str()).collect()
        }
        PrimitiveKind::Resource | PrimitiveKind::ResourceTemplate => {
            let resources = listing.resources.iter().map(|resource| resource.uri.as_str());
            resources
                .chain(listing.templates.iter().map(|template| template.uri.as_str()))
                .collect()
        }
    }
}

/// Returns `true` if the pattern matches a listed primitive, or could match a URI expanded from a
/// template. A pattern that does not compile is a separate error, so it counts as matching.
fn means_some(pattern: &str, listing: &Listing, kind: PrimitiveKind) -> bool {
    let Ok(patterns) = UriPatternSet::forbidding(&[pattern]) else { return true };
    if kind == PrimitiveKind::Prompt {
        return listing.prompts.iter().any(|prompt| patterns.have(&prompt.name));
    }
    let start = |text: &str, special: &[char]| {
        normalize_ignoring_case(text.split(special).next().unwrap_or_default())
    };
    let literal = start(pattern, &['*', '?', '[', '{', '\\']);
    let may_be_made = |template: &str| {
        let head = start(template, &['{']);
        head.starts_with(&literal) || literal.starts_with(&head)
    };
    let means = |uri: &str, name: Option<String>| {
        patterns.matches_any_spelling(&ResourceUri::new(uri))
            || name.is_some_and(|name| patterns.have(&name))
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
    use mcp_workbench_names::{ServerName, ToolboxName};
    use mcp_workbench_wire::json::RawJson;

    #[test]
    fn unmatched_patterns_are_found_in_every_list() {
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
        let loaded = mcp_workbench_config::parse(
            &file.to_string(),
            Path::new("x.json"),
            Path::new("/"),
            &env,
        );
        let config = loaded.unwrap_or_else(|report| panic!("{report}")).config;
        let read = |value: serde_json::Value| RawJson::encode(&value);
        let (resources, _) =
            Definition::read_all([read(json!({"uri": "note://a", "name": "Readme"}))]);
        let (templates, _) =
            Definition::read_all([read(json!({"uriTemplate": "file:///{path}", "name": "file"}))]);
        let (prompts, _) =
            Definition::read_all(["sum", "plan"].map(|name| read(json!({"name": name}))));
        let listing = Listing { resources, templates, prompts, ..Listing::default() };
        let at = server_ref(&ToolboxName::new("files"), &ServerName::new("files"));
        let known = BTreeMap::from([(at, Arc::new(listing))]);
        let found = find_unmatched_primitive_patterns(&config, &known);
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
        assert_eq!(find_unmatched_primitive_patterns(&config, &BTreeMap::new()), []);
    }
}
