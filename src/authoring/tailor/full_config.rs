//! The full configuration in native form: its servers, and who can use their tools.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::authoring::import::SourceFile;
use crate::authoring::tailor::native_keys;
use mcp_workbench_config::dialect::{Dialect, is_toml};
use mcp_workbench_config::loader::client_file;
use mcp_workbench_config::syntax::document::{self, Node};
use mcp_workbench_config::syntax::finding::{ConfigReport, Finding, Severity};
use mcp_workbench_core::policy::{Policies, Policy, RulePath, ToolFilter};
use mcp_workbench_names::{AgentName, ServerRef, ToolId};
use mcp_workbench_settings::{Config, PolicyConfig, ToolMode};

pub(super) struct FullConfig {
    /// All settings, by native key.
    pub(super) root: Map<String, Value>,
    /// The tool mode of the file's program, if it always uses the same one.
    pub(super) mode: Option<&'static str>,
    servers: Vec<ConfiguredServer>,
    /// Toolboxes and policy. The agents' conditions (`when`) are cleared, because they stay as they
    /// are.
    config: Arc<Config>,
    /// The policy for anonymous agents and for agents without an entry.
    default_policy: Arc<Policy>,
    /// The agents under `agentPolicies`, in file order.
    agents: Vec<AgentPolicies>,
    /// Warnings about settings that have no native form.
    pub(super) warnings: Vec<String>,
}

struct ConfiguredServer {
    name: String,
    is_on: bool,
}

/// An agent with an entry under `agentPolicies`.
struct AgentPolicies {
    name: String,
    policy: Arc<Policy>,
    /// A policy with the agent's own tool lists as the lists for everyone.
    own: Arc<Policy>,
}

/// The agents that can use a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ToolAccess {
    /// All agents except these, which have their own rules.
    AllExcept(Vec<String>),
    Only(Vec<String>),
}

impl FullConfig {
    /// Reads a configuration of any dialect except TOML.
    pub(super) fn read(source: &SourceFile) -> Result<Self, ConfigReport> {
        let file = Path::new(&source.file);
        let refuse = |findings| ConfigReport { file: source.file.clone(), findings };
        let plain = |message: &str, hint: &str| Finding {
            severity: Severity::Error,
            file: None,
            path: String::new(),
            position: None,
            message: message.to_owned(),
            hint: Some(hint.to_owned()),
        };
        if is_toml(file) {
            let hint = "convert it with `mcp-workbench import FILE`, then tailor the result";
            return Err(refuse(vec![plain("cannot tailor a Toolman file", hint)]));
        }
        let text = document::strip_bom(&source.text);
        let tree = document::parse_jsonc(text).map_err(|finding| refuse(vec![finding]))?;
        let node = Node::root(&tree);
        let dialect = Dialect::detect(file, &node);
        let mut reader = dialect.reader(None).with_references_preserved();
        let raw = dialect.read(&node, None, &mut reader);
        let findings = reader.into_findings(text);
        if findings.iter().any(|finding| finding.severity == Severity::Error) {
            return Err(refuse(findings));
        }
        let whole = match dialect {
            Dialect::Client => client_file::extract_servers(&node),
            _ => Value::from(tree),
        };
        let Value::Object(root) = whole else { return Err(refuse(findings)) };
        let mut warnings = Vec::new();
        let root = native_keys::to_native(root, dialect, &mut warnings);
        let config = raw
            .map(|raw| mcp_workbench_config::unexpanded_config(raw, Path::new("/")))
            .unwrap_or_default();
        Ok(Self { warnings, ..Self::of(root, config, dialect) })
    }

    fn of(root: Map<String, Value>, mut config: Config, dialect: Dialect) -> Self {
        for agent in config.policy.agents.values_mut() {
            agent.when.clear();
        }
        let config = Arc::new(config);
        let policies = Policies::new(Arc::clone(&config));
        let agents = entries(root.get("agentPolicies")).map(|(name, _)| {
            let agent = AgentName::new(name);
            let lists = config.policy.agents.get(&agent).map(|agent| &agent.tool_overrides);
            let exposed_tools = lists.cloned().unwrap_or_default();
            let policy = PolicyConfig { exposed_tools, ..PolicyConfig::default() };
            let alone = Policies::new(Arc::new(Config { policy, ..(*config).clone() }));
            AgentPolicies {
                name: name.clone(),
                policy: policies.for_agent(Some(&agent)),
                own: alone.for_agent(None),
            }
        });
        Self {
            mode: dialect.mode().map(ToolMode::as_str),
            servers: servers(&root),
            agents: agents.collect(),
            default_policy: policies.for_agent(None),
            config,
            warnings: Vec::new(),
            root,
        }
    }

    /// Returns `true` if a server of this name is enabled, and `None` if no server has it.
    pub(super) fn server_enabled(&self, server: &str) -> Option<bool> {
        let mut servers = self.servers.iter().filter(|other| other.name == server);
        let first = servers.next()?;
        Some(first.is_on || servers.any(|server| server.is_on))
    }

    pub(super) fn servers(&self) -> Vec<&str> {
        let mut servers: Vec<&str> = Vec::new();
        for server in self.servers.iter().filter(|server| server.is_on) {
            if !servers.contains(&server.name.as_str()) {
                servers.push(&server.name);
            }
        }
        servers
    }

    /// Returns the tools of `server` that match the name or glob `wanted` and that anyone can use,
    /// with those agents.
    ///
    /// The server's real tools aren't known here. If a glob isn't allowed as a whole, the names
    /// from the policy that match it are returned.
    pub(super) fn tools(&self, server: &str, wanted: &str) -> Vec<(String, ToolAccess)> {
        if self.server_enabled(server) != Some(true) {
            return Vec::new();
        }
        let mut names = vec![wanted.to_owned()];
        if is_glob(wanted) {
            let glob = ToolFilter::new(&[wanted.to_owned()]);
            let known = self.tool_lists(server).flatten().map(|name| {
                name.strip_prefix(server).and_then(|n| n.strip_prefix(':')).unwrap_or(name)
            });
            let known = known.filter(|name| wanted == "*" || (!is_glob(name) && glob.allows(name)));
            names.extend(known.map(str::to_owned));
        }
        let mut found: Vec<(String, ToolAccess)> = Vec::new();
        for name in names {
            let is_there = found.iter().any(|(other, _)| *other == name);
            if let Some(holder) = self.holder(server, &name).filter(|_| !is_there) {
                found.push((name, holder));
            }
        }
        found
    }

    /// Returns the agents that can use a tool, or `None` if no agent can.
    fn holder(&self, server: &str, tool: &str) -> Option<ToolAccess> {
        let names =
            |agents: Vec<&AgentPolicies>| agents.iter().map(|agent| agent.name.clone()).collect();
        let (may, may_not): (Vec<_>, Vec<_>) =
            self.agents.iter().partition(|agent| self.rule(&agent.policy, server, tool).is_some());
        if self.exposes(server, tool) {
            return Some(ToolAccess::AllExcept(names(may_not)));
        }
        (!may.is_empty()).then(|| ToolAccess::Only(names(may)))
    }

    /// Returns the rule that allows a tool in any toolbox. A glob counts as allowed only if every
    /// tool that could match it is allowed.
    fn rule<'a>(&self, policy: &'a Policy, server: &str, tool: &str) -> Option<&'a RulePath> {
        self.config.toolboxes.iter().find_map(|toolbox| {
            let (toolbox, server) = (toolbox.name.clone(), toolbox.server(server)?.name.clone());
            if is_glob(tool) {
                return policy.rule_for_glob(&ServerRef { toolbox, server }, tool);
            }
            policy.rule_for(&ToolId { toolbox, server, tool: tool.to_owned() })
        })
    }

    /// Returns `true` if the default policy allows a tool.
    pub(super) fn exposes(&self, server: &str, tool: &str) -> bool {
        self.rule(&self.default_policy, server, tool).is_some()
    }

    pub(super) fn allows(&self, agent: &str, server: &str, tool: &str) -> bool {
        let mut agents = self.agents.iter().filter(|other| other.name == agent);
        agents.any(|agent| self.rule(&agent.policy, server, tool).is_some())
    }

    /// Returns `true` if an agent can use a tool only because `allowUnknownTools` applies to it,
    /// and the default policy denies the tool.
    pub(super) fn allows_by_default(&self, agent: &str, server: &str, tool: &str) -> bool {
        let is_default = |agent: &AgentPolicies| {
            let rule = self.rule(&agent.policy, server, tool);
            rule.is_some_and(|rule| rule.path().first().is_some_and(|key| key == "default_policy"))
        };
        let agent = self.agents.iter().find(|other| other.name == agent);
        agent.is_some_and(is_default) && !self.exposes(server, tool)
    }

    /// Returns `true` if the agent's own list allows a tool, and `None` if it has no list for the
    /// server.
    pub(super) fn overrides(&self, agent: &str, server: &str, tool: &str) -> Option<bool> {
        self.own_list(agent, server)?;
        let agent = self.agents.iter().find(|other| other.name == agent)?;
        Some(self.rule(&agent.own, server, tool).is_some())
    }

    pub(super) fn own_list(&self, agent: &str, server: &str) -> Option<&Vec<String>> {
        self.config.policy.agents.get(&AgentName::new(agent))?.tool_overrides.get(server)
    }

    /// Returns all lists that name tools of a server.
    fn tool_lists(&self, server: &str) -> impl Iterator<Item = &Vec<String>> {
        let own = self.agents.iter().filter_map(move |agent| self.own_list(&agent.name, server));
        self.config.policy.exposed_tools.get(server).into_iter().chain(own)
    }
}

/// Returns every server: first those in toolboxes, then the standalone ones, each in file order.
fn servers(root: &Map<String, Value>) -> Vec<ConfiguredServer> {
    let server = |(name, block): (&String, &Value)| {
        let flag = |key: &str| block.get(key).and_then(Value::as_bool);
        let is_on = flag("disabled") != Some(true) && flag("enabled") != Some(false);
        ConfiguredServer { name: name.clone(), is_on }
    };
    let boxed = entries(root.get("toolboxes"));
    let boxed = boxed.flat_map(|(_, entry)| entries(entry.get("mcpServers")));
    boxed.chain(entries(root.get("mcpServers"))).map(server).collect()
}

fn is_glob(text: &str) -> bool {
    text.contains(['*', '?', '[', '{'])
}

/// Returns the members of an object. Any other value has none.
pub(super) fn entries(value: Option<&Value>) -> impl Iterator<Item = (&String, &Value)> {
    value.and_then(Value::as_object).into_iter().flatten()
}

/// Returns the strings of an array. Any other value has none.
pub(super) fn strings(value: Option<&Value>) -> Vec<String> {
    let array = value.and_then(Value::as_array).into_iter().flatten();
    array.filter_map(|value| Some(value.as_str()?.to_owned())).collect()
}
