//! Names and globs in the rules that mean no tool: most are misspelt, and a rule that is meant to
//! forbid forbids nothing then. The same of resources and prompts.

mod besides;

use std::collections::BTreeMap;
use std::fmt;

use crate::name::{self, ServerRef, ToolId};
use crate::policy::filter::ToolFilter;
use crate::policy::names::{Candidate, Names};
use crate::policy::rule::Rule;
use crate::policy::server_ref;
use crate::settings::{Config, Confirmation, PolicyConfig, ServerConfig, ToolboxConfig};

pub use crate::policy::unmatched::besides::unmatched_besides;

/// A name or a glob of the rules that no tool has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unmatched {
    /// The list that it stands in.
    pub rule: Rule,
    /// The name or the glob.
    pub pattern: String,
    /// A name that may have been meant, or the right name of the tool.
    pub hint: Option<String>,
    /// The kind of primitive that it is about.
    pub about: About,
}

/// The kind of primitive that a list is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// Tools.
    Tools,
    /// Resources and templates of them.
    Resources,
    /// Prompts.
    Prompts,
}

impl fmt::Display for Unmatched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pattern = &self.pattern;
        match self.about {
            About::Tools => write!(f, "no tool is called `{pattern}`, so that this has no effect"),
            About::Prompts => {
                write!(f, "no prompt is called `{pattern}`, so that this has no effect")
            }
            About::Resources => {
                write!(
                    f,
                    "no resource or template that is listed has the address or the name `{pattern}`"
                )
            }
        }
    }
}

/// Returns the names and globs in the rules of a configuration that mean no tool, as far as that is
/// known: `known` has the tools of servers by their own names. Names that a server may have of which
/// nothing is known are not among them.
pub fn unmatched(config: &Config, known: &BTreeMap<ServerRef, Vec<String>>) -> Vec<Unmatched> {
    let all = config.toolboxes.iter();
    let all = all.flat_map(|toolbox| toolbox.servers.iter().map(move |server| (toolbox, server)));
    let servers = all.map(|(toolbox, server)| Server::new(toolbox, server, known)).collect();
    let mut search = Search { config, servers, found: Vec::new() };
    search.policy(&config.policy);
    for index in 0..search.servers.len() {
        search.entry(index);
    }
    search.found
}

/// A server with its tools, if they are known.
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

struct Search<'a> {
    config: &'a Config,
    servers: Vec<Server<'a>>,
    found: Vec<Unmatched>,
}

impl Search<'_> {
    /// Looks through what is said of agents and of dangerous tools.
    fn policy(&mut self, policy: &PolicyConfig) {
        for (server, tools) in &policy.exposed_tools {
            self.list(&Rule::new(&["exposed_tools", server]), tools, Some(server));
        }
        for (agent, rules) in &policy.agents {
            let key =
                |rest: &[&str]| Rule::new(&[&["agent_policies", agent.as_str()], rest].concat());
            for (server, tools) in &rules.tool_overrides {
                self.list(&key(&["tool_overrides", server]), tools, Some(server));
            }
            for (index, when) in rules.when.iter().enumerate() {
                let tools = when.tools.as_deref().unwrap_or_default();
                self.list(&key(&["when"]).element(index), tools, None);
            }
        }
        self.list(&Rule::new(&["dangerous_tools"]), &policy.dangerous_tools, None);
        if let Confirmation::Dangerous(tools) = &policy.confirmation {
            self.list(&Rule::new(&["require_confirmation"]), tools, None);
        }
    }

    /// Looks through a list of names, globs and `server:tool`, about one server or about all.
    fn list(&mut self, rule: &Rule, patterns: &[String], server: Option<&str>) {
        for pattern in patterns.iter().filter(|pattern| *pattern != "*") {
            let about = |candidate: &&Server<'_>| {
                server.is_none_or(|name| candidate.name() == name)
                    && self.may_mean(pattern, candidate.name())
            };
            let servers: Vec<&Server<'_>> = self.servers.iter().filter(about).collect();
            let is_undecided = servers.is_empty() || servers.iter().any(|s| s.tools.is_none());
            if !is_undecided && !servers.iter().any(|server| self.lists(server, pattern)) {
                let bare = servers.iter().find_map(|server| {
                    pattern.strip_prefix(server.name()).and_then(|rest| rest.strip_prefix(':'))
                });
                let hint = hint(bare.unwrap_or(pattern), &servers);
                let (rule, pattern, about) = (rule.clone(), pattern.clone(), About::Tools);
                self.found.push(Unmatched { rule, pattern, hint, about });
            }
        }
    }

    /// Returns false if the pattern names another server before its `:`.
    fn may_mean(&self, pattern: &str, server: &str) -> bool {
        let is_of =
            |name: &str| pattern.strip_prefix(name).is_some_and(|rest| rest.starts_with(':'));
        is_of(server) || !self.servers.iter().any(|other| is_of(other.name()))
    }

    /// Returns true if a tool of the server is meant.
    fn lists(&self, server: &Server<'_>, pattern: &str) -> bool {
        let names = Names::new(&[pattern.to_owned()], &server.at);
        server.tools.into_iter().flatten().any(|tool| {
            let ServerRef { toolbox, server: name } = server.at.clone();
            let id = ToolId { toolbox, server: name, tool: tool.clone() };
            let over = server.config.tool_override(tool, false);
            let shown = over.and_then(|over| over.name.as_deref());
            // A list that cannot be compiled is an error of its own.
            names.has(&Candidate::new(&id, shown, self.config.max_tool_name_length)).unwrap_or(true)
        })
    }

    /// Looks through what the entry of a server says of its tools.
    fn entry(&mut self, index: usize) {
        let Some(server) = self.servers.get(index) else { return };
        let Some(tools) = server.tools else { return };
        let (config, name) = (server.config, server.name());
        let prefix = config.client_prefix();
        let has = |written: &str| {
            let bare = written.strip_prefix(&prefix);
            tools.iter().any(|tool| tool == written || Some(tool.as_str()) == bare)
        };
        let filters = config.tool_filters.iter().filter(|filter| {
            let pattern = filter.strip_prefix('!').unwrap_or(filter).to_owned();
            let filter = ToolFilter::new(&[pattern]);
            !tools.iter().any(|tool| filter.allows(tool))
        });
        let key = |key: &str| Rule::new(&["mcp_servers", name, key]);
        let of_category =
            || Rule::new(&["categories", server.at.toolbox.as_str(), "tools", "include_names"]);
        let mut dead: Vec<(Rule, &str)> = Vec::new();
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
            let found = Unmatched { rule, pattern, hint, about: About::Tools };
            // Categories share the entry of their server.
            if !self.found.contains(&found) {
                self.found.push(found);
            }
        }
    }
}

/// Returns what may have been meant by a name that no tool has.
fn hint(wanted: &str, servers: &[&Server<'_>]) -> Option<String> {
    let renamed = servers.iter().find_map(|server| {
        let mut all = server.config.overrides.iter();
        let (own, _) = all.find(|(_, over)| over.name.as_deref() == Some(wanted))?;
        Some(own.strip_prefix(&server.config.client_prefix()).unwrap_or(own))
    });
    if let Some(own) = renamed {
        return Some(format!(
            "rules have the names that servers give: `{own}`, which agents see as `{wanted}`"
        ));
    }
    let known = servers.iter().filter_map(|server| server.tools).flatten().map(String::as_str);
    let near = name::nearest(wanted, known, 1).pop()?;
    Some(format!("did you mean `{near}`?"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use pretty_assertions::assert_eq;
    use serde_json::{Value, json};

    use super::*;
    use crate::config;
    use crate::name::{ServerName, ToolboxName};

    /// Each rule with the pattern that means nothing, and the hint.
    fn found(mut rules: Value, known: &[(&str, &[&str])]) -> Vec<[String; 3]> {
        rules["toolboxes"] = json!({"dev": {"description": "x", "mcpServers": {
            "git": {"command": "g"}, "files": {"command": "f", "toolFilters": ["read_*", "!wipe"],
                "overrides": {"get": {"name": "fetch"}, "gone": {"enabled": false}}},
        }}});
        let env = BTreeMap::<String, String>::new();
        let loaded = config::parse(&rules.to_string(), Path::new("x.json"), Path::new("/"), &env);
        let config = loaded.unwrap_or_else(|report| panic!("{report}")).config;
        let known = known.iter().map(|(server, tools)| {
            let at = server_ref(&ToolboxName::new("dev"), &ServerName::new(server));
            (at, tools.iter().map(|&tool| tool.to_owned()).collect())
        });
        let found = unmatched(&config, &known.collect()).into_iter();
        let found = found.map(|Unmatched { rule, pattern, hint, .. }| {
            [rule.to_string(), pattern, hint.unwrap_or_default()]
        });
        found.filter(|[rule, ..]| !rule.starts_with("mcp_servers")).collect()
    }

    const GIT: (&str, &[&str]) = ("git", &["git_log", "git_push"]);
    const FILES: (&str, &[&str]) = ("files", &["read_file", "write_file", "get"]);

    #[test]
    fn names_that_no_tool_has_are_found_in_every_list() {
        let rules = json!({
            "agentPolicies": {"a": {
                "toolOverrides": {"git": ["git_log", "git_logs"]},
                "when": {"tools": ["git_puhs", "write_*", "git:*"], "time": {"days": ["mon"]}},
            }},
            "exposedTools": {"files": ["reed_file", "read_*", "fetch", "*"]},
            "dangerousTools": ["git:git_psh", "dev__git__git_push", "rm_*", "destructiveHint"],
            "requireConfirmation": ["files:get", "nothing"],
        });
        let renamed = "rules have the names that servers give: `get`, which agents see as `fetch`";
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
    fn a_name_that_an_unknown_server_may_have_is_not_reported() {
        let rules = || json!({"dangerousTools": ["git_psh", "git:git_psh", "files:reed"]});
        assert_eq!(found(rules(), &[]), [[""; 3]; 0]);
        let found = found(rules(), &[GIT]);
        assert_eq!(found, [["dangerous_tools", "git:git_psh", "did you mean `git_push`?"]]);
    }

    #[test]
    fn filters_and_overrides_of_an_entry_are_looked_through() {
        let text = json!({"mcpServers": {"files": {"command": "f",
            "toolFilters": ["read_*", "!wipe"],
            "overrides": {"mcp__files__get": {"name": "fetch"}, "gone": {"enabled": false}}}},
            "categories": {"c": {"description": "c", "server": "files", "tools": {
                "includeNames": ["read_file", "mcp__files__read_fil"]}}}});
        let env = BTreeMap::<String, String>::new();
        let loaded = config::parse(&text.to_string(), Path::new("x.json"), Path::new("/"), &env);
        let at = server_ref(&ToolboxName::new("c"), &ServerName::new("files"));
        let known = BTreeMap::from([(at, FILES.1.iter().map(|&tool| tool.to_owned()).collect())]);
        let found = unmatched(&loaded.unwrap().config, &known);
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
