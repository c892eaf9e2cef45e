//! Finds patterns in the rules that match no tool, resource or prompt. Most are typos, and a
//! misspelled rule that should deny something denies nothing.

mod primitives;
mod unmatched_pattern;

use std::collections::BTreeMap;

use crate::catalog::PrimitiveKind;
use crate::policy::agent_conditions::server_ref;
use crate::policy::filter::ToolFilter;
use crate::policy::rule::RulePath;
use crate::policy::tool_patterns::{AnnotationPattern, Candidate, ToolPatternSet};
use mcp_workbench_names::{ServerRef, ToolId};
use mcp_workbench_settings::{
    Config, ConfirmationPolicy, PolicyConfig, ServerConfig, ToolAnnotations, ToolboxConfig,
};

pub use crate::policy::unmatched_patterns::primitives::find_unmatched_primitive_patterns;
pub use crate::policy::unmatched_patterns::unmatched_pattern::UnmatchedPattern;

/// Returns the names and globs in the rules that match no tool. `known` has the tools of servers by
/// their own names. A pattern that could match a tool of a server missing from `known` is not
/// reported.
pub fn find_unmatched_tool_patterns(
    config: &Config,
    known: &BTreeMap<ServerRef, Vec<String>>,
) -> Vec<UnmatchedPattern> {
    let all = config.toolboxes.iter();
    let all = all.flat_map(|toolbox| toolbox.servers.iter().map(move |server| (toolbox, server)));
    let servers = all.map(|(toolbox, server)| Server::new(toolbox, server, known)).collect();
    let mut search = PatternSearch { config, servers, found: Vec::new() };
    search.policy(&config.policy);
    for index in 0..search.servers.len() {
        search.entry(index);
    }
    search.found
}

/// `tools` is `None` if they are not known.
struct Server<'a> {
    at: ServerRef,
    config: &'a ServerConfig,
    tools: Option<&'a [String]>,
}

impl<'a> Server<'a> {
    fn new(
        toolbox: &'a ToolboxConfig,
        config: &'a ServerConfig,
        known: &'a BTreeMap<ServerRef, Vec<String>>,
    ) -> Self {
        let at = server_ref(&toolbox.name, &config.name);
        let tools = known.get(&at).map(Vec::as_slice);
        Self { at, config, tools }
    }

    fn name(&self) -> &'a str {
        self.config.name.as_str()
    }
}

struct PatternSearch<'a> {
    config: &'a Config,
    servers: Vec<Server<'a>>,
    found: Vec<UnmatchedPattern>,
}

impl PatternSearch<'_> {
    fn policy(&mut self, policy: &PolicyConfig) {
        for (server, tools) in &policy.exposed_tools {
            self.list(&RulePath::new(&["exposed_tools", server]), tools, Some(server));
        }
        for (agent, rules) in &policy.agents {
            let key = |rest: &[&str]| {
                RulePath::new(&[&["agent_policies", agent.as_str()], rest].concat())
            };
            for (server, tools) in &rules.tool_overrides {
                self.list(&key(&["tool_overrides", server]), tools, Some(server));
            }
            for (index, when) in rules.when.iter().enumerate() {
                let tools = when.tools.as_deref().unwrap_or_default();
                self.list(&key(&["when"]).element(index), tools, None);
            }
        }
        self.list(&RulePath::new(&["dangerous_tools"]), &policy.dangerous_tools, None);
        if let ConfirmationPolicy::Dangerous(tools) = &policy.confirmation {
            self.list(&RulePath::new(&["require_confirmation"]), tools, None);
        }
    }

    /// `server` is the server that the list applies to; `None` applies to all.
    fn list(&mut self, rule: &RulePath, patterns: &[String], server: Option<&str>) {
        for pattern in patterns {
            if pattern == "*" || AnnotationPattern::parse(pattern).is_some() {
                continue;
            }
            let about = |candidate: &&Server<'_>| {
                server.is_none_or(|name| name == "*" || candidate.name() == name)
                    && self.may_mean(pattern, candidate.name())
            };
            let servers: Vec<&Server<'_>> = self.servers.iter().filter(about).collect();
            let is_undecided = servers.is_empty() || servers.iter().any(|s| s.tools.is_none());
            if !is_undecided && !servers.iter().any(|server| self.lists(server, pattern)) {
                let bare = servers.iter().find_map(|server| {
                    pattern.strip_prefix(server.name()).and_then(|rest| rest.strip_prefix(':'))
                });
                let hint = hint(bare.unwrap_or(pattern), &servers);
                let (rule, pattern, kind) = (rule.clone(), pattern.clone(), PrimitiveKind::Tool);
                self.found.push(UnmatchedPattern { rule, pattern, hint, kind });
            }
        }
    }

    /// Returns `false` if the pattern names another server before its `:`.
    fn may_mean(&self, pattern: &str, server: &str) -> bool {
        let is_of =
            |name: &str| pattern.strip_prefix(name).is_some_and(|rest| rest.starts_with(':'));
        is_of(server) || !self.servers.iter().any(|other| is_of(other.name()))
    }

    fn lists(&self, server: &Server<'_>, pattern: &str) -> bool {
        let names = ToolPatternSet::new(&[pattern.to_owned()], &server.at);
        let methods = &server.config.extension_methods;
        let own = pattern.strip_prefix(server.name()).and_then(|rest| rest.strip_prefix(':'));
        if !methods.is_empty() && ToolFilter::new(methods).allows(own.unwrap_or(pattern)) {
            return true;
        }
        server.tools.into_iter().flatten().chain(methods).any(|tool| {
            let ServerRef { toolbox, server: name } = server.at.clone();
            let id = ToolId { toolbox, server: name, tool: tool.clone() };
            let over = server.config.tool_override(tool, false);
            let shown = over.and_then(|over| over.name.as_deref());
            // A list that does not compile is a separate error.
            let (limit, claims) = (self.config.max_tool_name_length, ToolAnnotations::default());
            names.has(&Candidate::new(&id, shown, limit, claims)).unwrap_or(true)
        })
    }

    fn entry(&mut self, index: usize) {
        let Some(server) = self.servers.get(index) else { return };
        let Some(tools) = server.tools else { return };
        let (config, name) = (server.config, server.name());
        let prefix = config.client_prefix();
        let has = |written: &str| {
            let bare = written.strip_prefix(&prefix);
            tools.iter().any(|tool| tool == written || Some(tool.as_str()) == bare)
        };
        let filters = config.tool_filters.iter();
        let filters = filters.filter(|filter| AnnotationPattern::of_one_server(filter).is_none());
        let filters = filters.filter(|filter| {
            let pattern = filter.strip_prefix('!').unwrap_or(filter).to_owned();
            let filter = ToolFilter::new(&[pattern]);
            !tools.iter().chain(&config.extension_methods).any(|tool| filter.allows(tool))
        });
        let key = |key: &str| RulePath::new(&["mcp_servers", name, key]);
        let of_category =
            || RulePath::new(&["categories", server.at.toolbox.as_str(), "tools", "include_names"]);
        let mut dead: Vec<(RulePath, &str)> = Vec::new();
        dead.extend(filters.map(|filter| (key("tool_filters"), filter.as_str())));
        let included = config.include.iter().flatten().filter(|written| !has(written));
        dead.extend(included.map(|written| (of_category(), written.as_str())));
        let over = config.overrides.keys().filter(|written| !has(written));
        dead.extend(over.map(|written| (key("overrides"), written.as_str())));
        for (rule, written) in dead {
            let bare = written.strip_prefix('!').unwrap_or(written);
            let bare = bare.strip_prefix(&prefix).unwrap_or(bare);
            let hint = hint(bare, &[server]);
            let pattern = written.to_owned();
            let found = UnmatchedPattern { rule, pattern, hint, kind: PrimitiveKind::Tool };
            // Categories share the entry of their server, so a pattern can turn up twice.
            if !self.found.contains(&found) {
                self.found.push(found);
            }
        }
    }
}

fn hint(wanted: &str, servers: &[&Server<'_>]) -> Option<String> {
    let renamed = servers.iter().find_map(|server| {
        let mut all = server.config.overrides.iter();
        let (own, _) = all.find(|(_, over)| over.name.as_deref() == Some(wanted))?;
        Some(own.strip_prefix(&server.config.client_prefix()).unwrap_or(own))
    });
    if let Some(own) = renamed {
        return Some(format!(
            "rules use the server's own names: `{own}` (agents see it as `{wanted}`)"
        ));
    }
    let known = servers.iter().filter_map(|server| server.tools).flatten().map(String::as_str);
    let near = mcp_workbench_names::nearest(wanted, known, 1).pop()?;
    Some(format!("did you mean `{near}`?"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use pretty_assertions::assert_eq;
    use serde_json::{Value, json};

    use super::*;
    use mcp_workbench_names::{ServerName, ToolboxName};

    fn found(mut rules: Value, known: &[(&str, &[&str])]) -> Vec<[String; 3]> {
        rules["toolboxes"] = json!({"dev": {"description": "x", "mcpServers": {
            "git": {"command": "g"}, "files": {"command": "f", "toolFilters": ["read_*", "!wipe"],
                "overrides": {"get": {"name": "fetch"}, "gone": {"enabled": false}}},
        }}});
        let env = BTreeMap::<String, String>::new();
        let loaded = mcp_workbench_config::parse(
            &rules.to_string(),
            Path::new("x.json"),
            Path::new("/"),
            &env,
        );
        let config = loaded.unwrap_or_else(|report| panic!("{report}")).config;
        let known = known.iter().map(|(server, tools)| {
            let at = server_ref(&ToolboxName::new("dev"), &ServerName::new(server));
            (at, tools.iter().map(|&tool| tool.to_owned()).collect())
        });
        let found = find_unmatched_tool_patterns(&config, &known.collect()).into_iter();
        let found = found.map(|UnmatchedPattern { rule, pattern, hint, .. }| {
            [rule.to_string(), pattern, hint.unwrap_or_default()]
        });
        found.filter(|[rule, ..]| !rule.starts_with("mcp_servers")).collect()
    }

    #[test]
    fn patterns_of_extension_methods_are_not_reported() {
        let file = json!({"dangerousTools": ["one:acme/wipe", "acme/*", "one:acem/wipe"],
            "mcpServers": {"one": {"command": "x", "extensionMethods": ["acme/*"],
                "toolFilters": ["acme/*", "gone"]}}});
        let env = BTreeMap::<String, String>::new();
        let loaded = mcp_workbench_config::parse(
            &file.to_string(),
            Path::new("x.json"),
            Path::new("/"),
            &env,
        );
        let config = loaded.unwrap_or_else(|report| panic!("{report}")).config;
        let at = server_ref(&config.toolboxes[0].name, &ServerName::new("one"));
        let found = find_unmatched_tool_patterns(&config, &BTreeMap::from([(at, Vec::new())]));
        let found: Vec<_> = found.iter().map(|found| found.pattern.as_str()).collect();
        assert_eq!(found, ["one:acem/wipe", "gone"]);
    }

    const GIT: (&str, &[&str]) = ("git", &["git_log", "git_push"]);
    const FILES: (&str, &[&str]) = ("files", &["read_file", "write_file", "get"]);

    #[test]
    fn unmatched_names_are_found_in_every_list() {
        let rules = json!({
            "agentPolicies": {"a": {
                "toolOverrides": {"git": ["git_log", "git_logs"]},
                "when": {"tools": ["git_puhs", "write_*", "git:*"], "time": {"days": ["mon"]}},
            }},
            "exposedTools": {"files": ["reed_file", "read_*", "fetch", "*"]},
            "dangerousTools": ["git:git_psh", "dev__git__git_push", "rm_*", "destructiveHint"],
            "requireConfirmation": ["files:get", "nothing"],
        });
        let renamed = "rules use the server's own names: `get` (agents see it as `fetch`)";
        let found = found(rules, &[GIT, FILES]);
        let found: Vec<_> = found.iter().map(|one| one.each_ref().map(String::as_str)).collect();
        assert_eq!(
            found,
            [
                ["exposed_tools.files", "reed_file", "did you mean `read_file`?"],
                ["exposed_tools.files", "fetch", renamed],
                ["agent_policies.a.tool_overrides.git", "git_logs", "did you mean `git_log`?"],
                ["agent_policies.a.when[0]", "git_puhs", "did you mean `git_push`?"],
                ["dangerous_tools", "git:git_psh", "did you mean `git_push`?"],
                ["dangerous_tools", "rm_*", ""],
                ["require_confirmation", "nothing", ""],
            ]
        );
    }

    #[test]
    fn patterns_that_an_unknown_server_could_match_are_not_reported() {
        let rules = || json!({"dangerousTools": ["git_psh", "git:git_psh", "files:reed"]});
        assert_eq!(found(rules(), &[]), [[""; 3]; 0]);
        let found = found(rules(), &[GIT]);
        assert_eq!(found, [["dangerous_tools", "git:git_psh", "did you mean `git_push`?"]]);
    }

    #[test]
    fn unmatched_filters_and_overrides_are_found() {
        let text = json!({"mcpServers": {"files": {"command": "f",
            "toolFilters": ["read_*", "!wipe"],
            "overrides": {"mcp__files__get": {"name": "fetch"}, "gone": {"enabled": false}}}},
            "categories": {"c": {"description": "c", "server": "files", "tools": {
                "includeNames": ["read_file", "mcp__files__read_fil"]}}}});
        let env = BTreeMap::<String, String>::new();
        let loaded = mcp_workbench_config::parse(
            &text.to_string(),
            Path::new("x.json"),
            Path::new("/"),
            &env,
        );
        let at = server_ref(&ToolboxName::new("c"), &ServerName::new("files"));
        let known = BTreeMap::from([(at, FILES.1.iter().map(|&tool| tool.to_owned()).collect())]);
        let found = find_unmatched_tool_patterns(&loaded.unwrap().config, &known);
        let found: Vec<_> = found.iter().map(|one| (one.rule.as_str(), &*one.pattern)).collect();
        assert_eq!(
            found,
            [
                ("mcp_servers.files.tool_filters", "!wipe"),
                ("categories.c.tools.include_names", "mcp__files__read_fil"),
                ("mcp_servers.files.overrides", "gone"),
            ]
        );
    }
}
