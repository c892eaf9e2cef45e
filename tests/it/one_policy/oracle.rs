//! The rules once more, as simple as the document says them, to compare with.
//!
//! It knows nothing of the workbench's own code, and works on the worlds of [`world`](crate::one_policy::world).

use std::collections::BTreeMap;

use crate::one_policy::conditions::When;
use crate::one_policy::servers::Called;
use crate::one_policy::world::{Agent, Macro, Override, Policy, Server, Toolbox, World};

/// Who asks, and of what.
pub(crate) struct Oracle<'a> {
    policy: &'a Policy,
    /// An agent's name that no rule knows, while the file does not say what others get.
    is_refused: bool,
    servers: Option<&'a Vec<String>>,
    /// The conditions of the agent, then those that it has inherited.
    whens: Vec<&'a When>,
    /// Lists of the agent's own, those that it has inherited after them.
    overrides: Vec<(&'a String, &'a Vec<String>)>,
}

impl<'a> Oracle<'a> {
    pub(crate) fn new(world: &'a World, agent: Option<&str>) -> Self {
        let agents = world.policy.agents.as_ref();
        let entry = |name: &str| agents.and_then(|agents| agents.get(name));
        let own = agent.and_then(entry);
        let inherited = own.and_then(|own| own.extends.as_deref()).and_then(entry);
        let entries: Vec<&Agent> = own.into_iter().chain(inherited).collect();
        Self {
            policy: &world.policy,
            is_refused: agent.is_some()
                && own.is_none()
                && agents.is_some()
                && world.policy.allows_tools.is_none()
                && world.policy.allows_servers.is_none(),
            whens: entries.iter().flat_map(|entry| &entry.when).collect(),
            servers: entries.iter().find_map(|entry| entry.servers.as_ref()),
            overrides: entries.iter().flat_map(|entry| &entry.overrides).collect(),
        }
    }

    /// The list that decides on the tools of a server: steps 2 and 3.
    fn list(&self, server: &str) -> Option<&'a Vec<String>> {
        let own = self.overrides.iter().find(|(name, _)| *name == server).map(|(_, list)| *list);
        own.or_else(|| self.policy.exposed.as_ref()?.get(server))
    }

    /// Step 4.
    fn allows_the_rest(&self) -> bool {
        let has_rules = self.policy.agents.is_some() || self.policy.exposed.is_some();
        self.policy.allows_tools.unwrap_or(!has_rules)
    }

    /// Returns `true` if there is such a server at all.
    pub(crate) fn has_server(&self, server: &str) -> bool {
        if self.is_refused {
            return false;
        }
        // 1. Check if agent can access this server
        if self.servers.is_some_and(|servers| !servers.iter().any(|glob| fits(glob, server))) {
            return false;
        }
        let mut elsewhere = self.whens.iter().filter(|when| !when.is_here());
        if elsewhere.any(|when| when.is_about_all_of(server)) {
            return false;
        }
        if let Some(list) = self.list(server) {
            return !list.is_empty();
        }
        let said = self.policy.allows_servers;
        let is_refused = self.servers.is_none() && said == Some(false);
        !is_refused && (self.allows_the_rest() || said == Some(true))
    }

    /// Returns `true` if there is such a tool, by its server's own name for it.
    pub(crate) fn has_tool(&self, toolbox: &Toolbox, server: &Server, tool: &str) -> bool {
        let is_there = server.catalog.tools.iter().any(|other| other == tool);
        if !is_there || !self.has_server(&server.name) {
            return false;
        }
        let over = self.over(toolbox, server, tool);
        let shown = over.and_then(|over| over.name.as_deref()).unwrap_or(tool);
        let is_listed = self.lists([&toolbox.name, &server.name, tool], shown);
        let own = server.overrides.get(tool);
        let is_off = [own, over].into_iter().flatten().any(|over| over.is_off);
        is_listed && passes(server, tool) && !is_off && self.is_here(&server.name, tool)
    }

    /// Returns `true` unless a tool is there in another folder alone.
    fn is_here(&self, server: &str, tool: &str) -> bool {
        self.about(server, tool).all(When::is_here)
    }

    /// Returns `true` if a call may have reached the server at this path.
    pub(crate) fn lets(&self, world: &World, Called { path, tool, arguments }: &Called) -> bool {
        world.toolboxes.iter().any(|toolbox| {
            let mut here = toolbox.servers.iter().filter(|server| server.path == *path);
            here.any(|server| {
                self.has_tool(toolbox, server, tool)
                    && self.about(&server.name, tool).all(|when| when.holds(arguments))
            })
        })
    }

    /// The conditions about a tool.
    fn about(&self, server: &str, tool: &str) -> impl Iterator<Item = &'a When> {
        let whens = self.whens.iter().copied();
        whens.filter(move |when| when.is_about(server, tool))
    }

    /// Returns `true` if the lists let a tool through.
    fn lists(&self, [toolbox, server, tool]: [&str; 3], shown: &str) -> bool {
        // 2. Check agent-specific tool overrides
        // 3. Fall back to global exposed tools
        // 4. Check default policy
        let Some(list) = self.list(server) else { return self.allows_the_rest() };
        let qualified = format!("{server}:{tool}");
        let exposed = format!("{toolbox}__{server}__{shown}");
        list.iter().any(|pattern| {
            fits(pattern, tool)
                || (pattern.contains(':') && fits(pattern, &qualified))
                || (pattern.contains("__") && fits(pattern, &exposed))
        })
    }

    /// Returns `true` if there is such a macro: it may be had itself, and so may all that it calls.
    fn has_macro(&self, world: &World, of: &Macro) -> bool {
        let calls = |[toolbox, server, tool]: &[String; 3]| {
            let toolbox = world.toolboxes.iter().find(|other| other.name == *toolbox);
            let found = toolbox.and_then(|toolbox| {
                let server = toolbox.servers.iter().find(|other| other.name == *server)?;
                Some((toolbox, server))
            });
            found.is_some_and(|(toolbox, server)| self.has_tool(toolbox, server, tool))
        };
        self.has_server("macros")
            && self.lists([&of.toolbox, "macros", &of.name], &of.name)
            && self.is_here("macros", &of.name)
            && of.steps.iter().all(calls)
    }

    /// The changes to a tool. They may be written under its name with the prefix of clients before
    /// it; where a tool of that longer name exists, they are for that one.
    fn over(&self, toolbox: &Toolbox, server: &'a Server, tool: &str) -> Option<&'a Override> {
        let prefixed = format!("mcp__{}__{tool}", server.name);
        let has_namesake = self.has_tool(toolbox, server, &prefixed);
        let over = |name: &str| server.overrides.get(name);
        if has_namesake { over(tool) } else { over(&prefixed).or_else(|| over(tool)) }
    }
}

/// Returns `true` if the filters of a server let a tool through.
fn passes(server: &Server, tool: &str) -> bool {
    let (never, only): (Vec<_>, Vec<_>) =
        server.filters.iter().partition(|filter| filter.starts_with('!'));
    (only.is_empty() || only.iter().any(|glob| fits(glob, tool)))
        && !never.iter().any(|glob| fits(&glob[1..], tool))
}

/// Returns `true` if a glob of stars matches a name.
pub(crate) fn fits(glob: &str, name: &str) -> bool {
    match glob.split_once('*') {
        None => glob == name,
        Some((start, rest)) => name
            .strip_prefix(start)
            .is_some_and(|name| (0..=name.len()).any(|at| fits(rest, &name[at..]))),
    }
}

/// The world without what an agent may not know of, and without the rules by which it may not.
pub(crate) fn without_the_forbidden(world: &World, agent: Option<&str>) -> World {
    let oracle = Oracle::new(world, agent);
    let toolbox = |toolbox: &Toolbox| {
        let mut left = toolbox.clone();
        left.servers.retain(|server| oracle.has_server(&server.name));
        for server in &mut left.servers {
            let before = server.clone();
            server.catalog.tools.retain(|tool| oracle.has_tool(toolbox, &before, tool));
            server.filters = Vec::new();
            server.overrides.retain(|_, over| !over.is_off);
        }
        (!left.servers.is_empty()).then_some(left)
    };
    let toolboxes = world.toolboxes.iter().filter_map(toolbox).collect();
    let macros = world.macros.iter().filter(|of| oracle.has_macro(world, of)).cloned().collect();
    // The conditions on arguments say nothing of what is there; the agent may be told them.
    let when: Vec<_> =
        oracle.whens.iter().filter(|when| when.is_here()).copied().cloned().collect();
    let agents = agent.filter(|_| !when.is_empty()).map(|agent| {
        let alone = Agent { when, ..Agent::default() };
        BTreeMap::from([(agent.to_owned(), alone)])
    });
    let policy = Policy {
        allows_tools: agents.is_some().then_some(true),
        agents,
        dangerous: world.policy.dangerous.clone(),
        ..Policy::default()
    };
    let mut left = World { toolboxes, macros, policy };
    share(world, &mut left);
    left
}

/// A server that stands in several places has what is left in any of them. What only the others may
/// have can only be left out by filters then.
fn share(world: &World, left: &mut World) {
    let of = |world: &World| -> Vec<Server> {
        world.toolboxes.iter().flat_map(|toolbox| toolbox.servers.clone()).collect()
    };
    let (before, after) = (of(world), of(left));
    for server in left.toolboxes.iter_mut().flat_map(|toolbox| &mut toolbox.servers) {
        let all = before.iter().find(|other| other.path == server.path);
        let mut tools = all.map(|other| other.catalog.tools.clone()).unwrap_or_default();
        let places = || after.iter().filter(|other| other.path == server.path);
        tools.retain(|tool| places().any(|other| other.catalog.tools.contains(tool)));
        let hidden = tools.iter().filter(|tool| !server.catalog.tools.contains(tool));
        server.filters = hidden.map(|tool| format!("!{tool}")).collect();
        server.catalog.tools = tools;
    }
}
