//! A full configuration as it is written: its servers, and what policy lets through of them.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::authoring::import::Source;
use crate::authoring::tailor::keys;
use crate::config;
use crate::config::dialect::{Dialect, is_toml};
use crate::config::load::foreign_file;
use crate::config::syntax::document::{self, Node};
use crate::config::syntax::finding::{Finding, Report, Severity};
use crate::name::{AgentName, ServerRef, ToolId};
use crate::policy::{Policies, Policy, Rule, ToolFilter};
use crate::settings::{Config, PolicyConfig, ToolMode};

/// A configuration, put in our own keys.
pub(super) struct Full {
    /// All of it, each key with what is written there.
    pub(super) root: Map<String, Value>,
    /// How its program presents tools, where that is not ours.
    pub(super) mode: Option<&'static str>,
    servers: Vec<Server>,
    /// The toolboxes and rules that policy decides by, without conditions, which stay as they are.
    config: Arc<Config>,
    /// The rules for an agent without a name, which are those for everybody of whom nothing is said.
    everybody: Arc<Policy>,
    /// The agents that the file speaks of, in the order of the file.
    agents: Vec<Agent>,
    /// Warnings of what cannot be said in our keys.
    pub(super) warnings: Vec<String>,
}

/// A server where it stands.
struct Server {
    name: String,
    is_on: bool,
}

/// One agent that the file speaks of.
struct Agent {
    name: String,
    policy: Arc<Policy>,
    /// The policy in which the agent's own lists of tools hold for everybody.
    own: Arc<Policy>,
}

/// Who may have a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Holder {
    /// Everybody but these agents, of whom something else is said.
    AllBut(Vec<String>),
    /// These agents alone.
    Agents(Vec<String>),
}

impl Full {
    /// Reads a configuration in whatever way it is written, but for TOML.
    pub(super) fn read(source: &Source) -> Result<Self, Report> {
        let file = Path::new(&source.file);
        let refuse = |findings| Report { file: source.file.clone(), findings };
        let plain = |message: &str, hint: &str| Finding {
            severity: Severity::Error,
            file: None,
            path: String::new(),
            position: None,
            message: message.to_owned(),
            hint: Some(hint.to_owned()),
        };
        if is_toml(file) {
            let hint = "`mcp-workbench import FILE` makes a configuration of it, to tailor";
            return Err(refuse(vec![plain("a file of Toolman cannot be tailored", hint)]));
        }
        let text = document::without_mark(&source.text);
        let tree = document::parse(text).map_err(|finding| refuse(vec![finding]))?;
        let node = Node::root(&tree);
        let dialect = Dialect::of(file, &node);
        let mut reader = dialect.reader(None).keeping_references();
        let raw = dialect.read(&node, None, &mut reader);
        let findings = reader.into_findings(text);
        if findings.iter().any(|finding| finding.severity == Severity::Error) {
            return Err(refuse(findings));
        }
        let whole = match dialect {
            Dialect::Client => foreign_file::servers_alone(&node),
            _ => Value::from(tree),
        };
        let Value::Object(root) = whole else { return Err(refuse(findings)) };
        let mut warnings = Vec::new();
        let root = keys::ours(root, dialect, &mut warnings);
        let config = raw.map(|raw| config::as_written(raw, Path::new("/"))).unwrap_or_default();
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
            Agent { name: name.clone(), policy: policies.of(Some(&agent)), own: alone.of(None) }
        });
        Self {
            mode: dialect.mode().map(ToolMode::as_str),
            servers: servers(&root),
            agents: agents.collect(),
            everybody: policies.of(None),
            config,
            warnings: Vec::new(),
            root,
        }
    }

    /// Returns `true` if a server is switched on; none if there is no such server.
    pub(super) fn is_on(&self, server: &str) -> Option<bool> {
        let mut servers = self.servers.iter().filter(|other| other.name == server);
        let first = servers.next()?;
        Some(first.is_on || servers.any(|server| server.is_on))
    }

    /// The servers that are switched on, each once.
    pub(super) fn servers(&self) -> Vec<&str> {
        let mut servers: Vec<&str> = Vec::new();
        for server in self.servers.iter().filter(|server| server.is_on) {
            if !servers.contains(&server.name.as_str()) {
                servers.push(&server.name);
            }
        }
        servers
    }

    /// The tools of a server that a rule means by a name or a glob, as far as they are let through,
    /// and for whom.
    ///
    /// What tools a server has is not known here. So of a glob that is not let through as it is,
    /// those names are taken that are.
    pub(super) fn tools(&self, server: &str, wanted: &str) -> Vec<(String, Holder)> {
        if self.is_on(server) != Some(true) {
            return Vec::new();
        }
        let mut names = vec![wanted.to_owned()];
        if is_glob(wanted) {
            let glob = ToolFilter::new(&[wanted.to_owned()]);
            let known = self.lists(server).flatten().map(|name| {
                name.strip_prefix(server).and_then(|n| n.strip_prefix(':')).unwrap_or(name)
            });
            let known = known.filter(|name| wanted == "*" || (!is_glob(name) && glob.allows(name)));
            names.extend(known.map(str::to_owned));
        }
        let mut found: Vec<(String, Holder)> = Vec::new();
        for name in names {
            let is_there = found.iter().any(|(other, _)| *other == name);
            if let Some(holder) = self.holder(server, &name).filter(|_| !is_there) {
                found.push((name, holder));
            }
        }
        found
    }

    /// Who may have a tool, if anybody may.
    fn holder(&self, server: &str, tool: &str) -> Option<Holder> {
        let names = |agents: Vec<&Agent>| agents.iter().map(|agent| agent.name.clone()).collect();
        let (may, may_not): (Vec<_>, Vec<_>) =
            self.agents.iter().partition(|agent| self.rule(&agent.policy, server, tool).is_some());
        if self.exposes(server, tool) {
            return Some(Holder::AllBut(names(may_not)));
        }
        (!may.is_empty()).then(|| Holder::Agents(names(may)))
    }

    /// Returns the rule by which a policy lets a tool through in some toolbox. What tools a server has
    /// is not known here, so a glob is let through if its tools are whatever they are.
    fn rule<'a>(&self, policy: &'a Policy, server: &str, tool: &str) -> Option<&'a Rule> {
        self.config.toolboxes.iter().find_map(|toolbox| {
            let (toolbox, server) = (toolbox.name.clone(), toolbox.server(server)?.name.clone());
            if is_glob(tool) {
                return policy.rule_for_glob(&ServerRef { toolbox, server }, tool);
            }
            policy.rule_for(&ToolId { toolbox, server, tool: tool.to_owned() })
        })
    }

    /// Returns true if a tool is for everybody of whom nothing else is said.
    pub(super) fn exposes(&self, server: &str, tool: &str) -> bool {
        self.rule(&self.everybody, server, tool).is_some()
    }

    /// Returns true if an agent may have a tool, by whatever rule.
    pub(super) fn allows(&self, agent: &str, server: &str, tool: &str) -> bool {
        let mut agents = self.agents.iter().filter(|other| other.name == agent);
        agents.any(|agent| self.rule(&agent.policy, server, tool).is_some())
    }

    /// Returns true if an agent has a tool because no list speaks of it, and not everybody has it.
    pub(super) fn allows_by_default(&self, agent: &str, server: &str, tool: &str) -> bool {
        let is_default = |agent: &Agent| {
            let rule = self.rule(&agent.policy, server, tool);
            rule.is_some_and(|rule| rule.path().first().is_some_and(|key| key == "default_policy"))
        };
        let agent = self.agents.iter().find(|other| other.name == agent);
        agent.is_some_and(is_default) && !self.exposes(server, tool)
    }

    /// Returns whether a list of an agent's own has a tool; none if it has no such list.
    pub(super) fn overrides(&self, agent: &str, server: &str, tool: &str) -> Option<bool> {
        self.own_list(agent, server)?;
        let agent = self.agents.iter().find(|other| other.name == agent)?;
        Some(self.rule(&agent.own, server, tool).is_some())
    }

    /// Returns an agent's own list for a server.
    pub(super) fn own_list(&self, agent: &str, server: &str) -> Option<&Vec<String>> {
        self.config.policy.agents.get(&AgentName::new(agent))?.tool_overrides.get(server)
    }

    /// The lists that are about a server.
    fn lists(&self, server: &str) -> impl Iterator<Item = &Vec<String>> {
        let own = self.agents.iter().filter_map(move |agent| self.own_list(&agent.name, server));
        self.config.policy.exposed_tools.get(server).into_iter().chain(own)
    }
}

/// Every server, in the order in which they are written: those in toolboxes, then those alone.
fn servers(root: &Map<String, Value>) -> Vec<Server> {
    let server = |(name, block): (&String, &Value)| {
        let flag = |key: &str| block.get(key).and_then(Value::as_bool);
        let is_on = flag("disabled") != Some(true) && flag("enabled") != Some(false);
        Server { name: name.clone(), is_on }
    };
    let boxed = entries(root.get("toolboxes"));
    let boxed = boxed.flat_map(|(_, entry)| entries(entry.get("mcpServers")));
    boxed.chain(entries(root.get("mcpServers"))).map(server).collect()
}

/// Returns `true` if something is meant as a glob.
fn is_glob(text: &str) -> bool {
    text.contains(['*', '?', '[', '{'])
}

/// The members of an object; of what is none, nothing.
pub(super) fn entries(value: Option<&Value>) -> impl Iterator<Item = (&String, &Value)> {
    value.and_then(Value::as_object).into_iter().flatten()
}

/// The strings of an array; of what is none, nothing.
pub(super) fn strings(value: Option<&Value>) -> Vec<String> {
    let array = value.and_then(Value::as_array).into_iter().flatten();
    array.filter_map(|value| Some(value.as_str()?.to_owned())).collect()
}
