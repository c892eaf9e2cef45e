//! A full configuration as it is written: its servers, and what it lets through of them.

use std::path::Path;

use globset::{Glob, GlobSet, GlobSetBuilder};
use serde_json::{Map, Value};

use crate::authoring::import::Source;
use crate::authoring::tailor::keys;
use crate::config::ToolMode;
use crate::config::dialect::{Dialect, is_toml};
use crate::config::keys::limits;
use crate::config::load::foreign_file;
use crate::config::syntax::document::{self, Node};
use crate::config::syntax::finding::{Finding, Report, Severity};
use crate::name::{ExposedName, ServerName, ToolId, ToolboxName, client_prefix};

/// A configuration, put in our own keys.
pub(super) struct Full {
    /// All of it, each key with what is written there.
    pub(super) root: Map<String, Value>,
    /// How its program presents tools, where that is not ours.
    pub(super) mode: Option<&'static str>,
    places: Vec<Place>,
    name_limit: usize,
    /// What everybody may have, by server; what nothing is said of, if `allows_rest`.
    exposed: Vec<(String, Globs)>,
    allows_rest: bool,
    /// Whether a server is there of which nothing is said.
    allows_others: bool,
    agents: Vec<Agent>,
    /// What of it cannot be said in our keys.
    pub(super) warnings: Vec<String>,
}

/// A server where it stands.
struct Place {
    toolbox: String,
    server: String,
    is_on: bool,
    /// The tools that its own block leaves out.
    hides: Hidden,
    /// What its block calls tools instead.
    renamed: Vec<(String, String)>,
}

/// What is said of one agent.
struct Agent {
    name: String,
    /// The agents whose permissions it takes over.
    extends: Vec<String>,
    servers: Option<Globs>,
    overrides: Vec<(String, Globs)>,
}

/// How many agents may take over permissions from each other in a row, as the rules allow.
const MAX_DEPTH: usize = 50;

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
        let mut reader = dialect.reader(None);
        dialect.read(&node, None, &mut reader);
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
        Ok(Self { warnings, ..Self::of(root, dialect) })
    }

    fn of(root: Map<String, Value>, dialect: Dialect) -> Self {
        let places = places(&root);
        let exposed = entries(root.get("exposedTools"))
            .map(|(server, list)| (server.clone(), Globs::of(list)));
        let exposed: Vec<_> = exposed.collect();
        let agents = entries(root.get("agentPolicies")).map(|(name, entry)| Agent {
            name: name.clone(),
            extends: match entry.get("extends") {
                Some(Value::String(one)) => vec![one.clone()],
                all => strings(all),
            },
            servers: entry.get("allowedServers").filter(|l| !l.is_null()).map(Globs::of),
            overrides: entries(entry.get("toolOverrides"))
                .map(|(server, list)| (server.clone(), Globs::of(list)))
                .collect(),
        });
        let agents: Vec<_> = agents.collect();
        let has_rules = root.contains_key("exposedTools") || root.contains_key("agentPolicies");
        let default = root.get("defaultPolicy");
        let said = |key: &str| default.and_then(|policy| policy.get(key)).and_then(Value::as_bool);
        let limit = root.get("maxToolNameLength").and_then(Value::as_u64);
        Self {
            mode: dialect.mode().map(ToolMode::as_str),
            places,
            name_limit: limit.and_then(|n| n.try_into().ok()).unwrap_or(limits::DEFAULT_NAME_LIMIT),
            exposed,
            allows_rest: said("allowUnknownTools").unwrap_or(!has_rules),
            allows_others: said("allowUnknownServers").unwrap_or(true),
            agents,
            warnings: Vec::new(),
            root,
        }
    }

    /// Whether a server is switched on; none if there is no such server.
    pub(super) fn is_on(&self, server: &str) -> Option<bool> {
        let mut places = self.places.iter().filter(|place| place.server == server);
        let first = places.next()?;
        Some(first.is_on || places.any(|place| place.is_on))
    }

    /// The servers that are switched on, each once.
    pub(super) fn servers(&self) -> Vec<&str> {
        let mut servers: Vec<&str> = Vec::new();
        for place in self.places.iter().filter(|place| place.is_on) {
            if !servers.contains(&place.server.as_str()) {
                servers.push(&place.server);
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
            let glob = Globs::new([wanted.to_owned()]);
            let lists = self.lists(server).flat_map(|list| list.written.iter());
            let known = lists.map(|name| {
                name.strip_prefix(server).and_then(|n| n.strip_prefix(':')).unwrap_or(name)
            });
            let known = known.filter(|name| wanted == "*" || (!is_glob(name) && glob.has(name)));
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
        let mut places = self.places.iter().filter(|place| place.server == server && place.is_on);
        if places.all(|place| place.hides.has(tool)) {
            return None;
        }
        if self.exposes(server, tool) {
            let others = self.agents.iter().filter(|agent| !self.may_have(agent, server, tool));
            return Some(Holder::AllBut(others.map(|agent| agent.name.clone()).collect()));
        }
        let agents = self.agents.iter().filter(|agent| self.gives(agent, server, tool));
        let agents: Vec<_> = agents.map(|agent| agent.name.clone()).collect();
        (!agents.is_empty()).then_some(Holder::Agents(agents))
    }

    /// Whether a tool is for everybody of whom nothing else is said.
    pub(super) fn exposes(&self, server: &str, tool: &str) -> bool {
        match self.exposed.iter().find(|(other, _)| other == server) {
            Some((_, list)) => self.means(list, server, tool),
            None => self.allows_rest && self.allows_others,
        }
    }

    fn gives(&self, agent: &Agent, server: &str, tool: &str) -> bool {
        let own = agent.overrides.iter().find(|(other, _)| other == server);
        agent.servers.as_ref().is_none_or(|servers| servers.has(server))
            && own.is_some_and(|(_, list)| self.means(list, server, tool))
    }

    /// Returns true if an agent may have a tool, by what it says itself, by what it takes over, or
    /// by what holds for everybody.
    fn may_have(&self, agent: &Agent, server: &str, tool: &str) -> bool {
        self.says_of_server(agent, server, MAX_DEPTH)
            && self
                .says_of_tool(agent, server, tool, MAX_DEPTH)
                .unwrap_or_else(|| self.exposes(server, tool))
    }

    fn parents(&self, agent: &Agent) -> impl Iterator<Item = &Agent> {
        self.agents.iter().filter(|other| agent.extends.contains(&other.name))
    }

    fn says_of_server(&self, agent: &Agent, server: &str, depth: usize) -> bool {
        let Some(depth) = depth.checked_sub(1) else { return false };
        match &agent.servers {
            Some(servers) => servers.has(server),
            None if agent.extends.is_empty() => true,
            None => self.parents(agent).any(|parent| self.says_of_server(parent, server, depth)),
        }
    }

    /// Returns what lists of the agent say of a tool; none if what holds for everybody counts.
    fn says_of_tool(&self, agent: &Agent, server: &str, tool: &str, depth: usize) -> Option<bool> {
        if let Some((_, list)) = agent.overrides.iter().find(|(other, _)| other == server) {
            return Some(self.means(list, server, tool));
        }
        let depth = depth.checked_sub(1)?;
        let parents = || self.parents(agent);
        let may = |parent: &&Agent| self.says_of_server(parent, server, depth);
        let is_any_allowed = parents().any(|parent| may(&parent));
        let said = parents().filter(|parent| !is_any_allowed || may(parent));
        let said: Vec<_> =
            said.map(|parent| self.says_of_tool(parent, server, tool, depth)).collect();
        if said.contains(&Some(true)) {
            return Some(true);
        }
        let is_silent = |says: &Option<bool>| says.is_none();
        let counts_for_all =
            if is_any_allowed { said.iter().any(is_silent) } else { said.iter().all(is_silent) };
        (!counts_for_all).then_some(false)
    }

    /// Whether a list of an agent's own has a tool; none if it has no such list.
    pub(super) fn overrides(&self, agent: &str, server: &str, tool: &str) -> Option<bool> {
        let agent = self.agents.iter().find(|other| other.name == agent)?;
        let (_, list) = agent.overrides.iter().find(|(other, _)| other == server)?;
        Some(self.means(list, server, tool))
    }

    /// Whether a list that is about a server means one of its tools, by whichever name.
    fn means(&self, list: &Globs, server: &str, tool: &str) -> bool {
        if is_glob(tool) {
            return list.written.iter().any(|written| written == tool || written == "*");
        }
        let places = self.places.iter().filter(|place| place.server == server);
        let mut exposed = places.map(|place| {
            let renamed = place.renamed.iter().find(|(own, _)| own == tool);
            let id = ToolId {
                toolbox: ToolboxName::new(&place.toolbox),
                server: ServerName::new(server),
                tool: renamed.map_or(tool, |(_, name)| name).to_owned(),
            };
            ExposedName::registered(&id, self.name_limit)
        });
        list.has(tool)
            || list.has(&format!("{server}:{tool}"))
            || exposed.any(|name| list.has(name.as_str()))
    }

    /// The lists that are about a server.
    fn lists(&self, server: &str) -> impl Iterator<Item = &Globs> {
        let own = self.agents.iter().flat_map(|agent| &agent.overrides);
        let lists = self.exposed.iter().chain(own);
        lists.filter(move |(other, _)| other == server).map(|(_, list)| list)
    }
}

/// Every server, in the order in which they are written: those in toolboxes, then those alone.
fn places(root: &Map<String, Value>) -> Vec<Place> {
    let place = |toolbox: &str, server: &str, block: &Value| {
        let flag = |key: &str| block.get(key).and_then(Value::as_bool);
        Place {
            toolbox: toolbox.to_owned(),
            server: server.to_owned(),
            is_on: flag("disabled") != Some(true) && flag("enabled") != Some(false),
            hides: Hidden::of(server, block),
            renamed: entries(block.get("overrides"))
                .filter_map(|(own, over)| {
                    let own = own.strip_prefix(&client_prefix(server)).unwrap_or(own);
                    Some((own.to_owned(), over.get("name")?.as_str()?.to_owned()))
                })
                .collect(),
        }
    };
    let boxed = entries(root.get("toolboxes")).flat_map(|(toolbox, entry)| {
        entries(entry.get("mcpServers")).map(move |(server, block)| place(toolbox, server, block))
    });
    let alone = entries(root.get("mcpServers"));
    let alone = alone.map(|(server, block)| place(server, server, block));
    boxed.chain(alone).collect()
}

/// What the block of a server leaves out by itself.
struct Hidden {
    only: Option<Globs>,
    never: Globs,
    off: Vec<String>,
}

impl Hidden {
    fn of(server: &str, block: &Value) -> Self {
        let filters = strings(block.get("toolFilters"));
        let (never, only): (Vec<_>, Vec<_>) =
            filters.into_iter().partition(|filter| filter.starts_with('!'));
        let is_off = |over: &Value| over.get("enabled").and_then(Value::as_bool) == Some(false);
        let off = entries(block.get("overrides")).filter(|(_, over)| is_off(over));
        let prefix = client_prefix(server);
        Self {
            only: (!only.is_empty()).then(|| Globs::new(only)),
            never: Globs::new(never.into_iter().map(|filter| filter[1..].to_owned())),
            off: off
                .map(|(name, _)| name.strip_prefix(&prefix).unwrap_or(name).to_owned())
                .collect(),
        }
    }

    /// Whether a tool is left out. Of a glob that cannot be said.
    fn has(&self, tool: &str) -> bool {
        !is_glob(tool)
            && (self.only.as_ref().is_some_and(|only| !only.has(tool))
                || self.never.has(tool)
                || self.off.iter().any(|off| off == tool))
    }
}

/// A list of names and globs.
struct Globs {
    written: Vec<String>,
    set: GlobSet,
}

impl Globs {
    fn of(list: &Value) -> Self {
        Self::new(strings(Some(list)))
    }

    fn new(written: impl IntoIterator<Item = String>) -> Self {
        let written: Vec<String> = written.into_iter().collect();
        let mut set = GlobSetBuilder::new();
        for pattern in &written {
            let glob = Glob::new(pattern).or_else(|_| Glob::new(&globset::escape(pattern)));
            if let Ok(glob) = glob {
                set.add(glob);
            }
        }
        Self { set: set.build().unwrap_or_else(|_| GlobSet::empty()), written }
    }

    fn has(&self, name: &str) -> bool {
        self.set.is_match(name)
    }
}

/// Whether something is meant as a glob.
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
