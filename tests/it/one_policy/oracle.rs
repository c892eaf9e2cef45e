//! A second, simple implementation of the documented access rules, for comparison. It uses none of
//! the workbench's code and works on a [`world`](crate::one_policy::world).

use std::collections::BTreeMap;

use crate::one_policy::conditions::When;
use crate::one_policy::lock::{Reviewed, Rules};
use crate::one_policy::servers::ReceivedCall;
use crate::one_policy::world::{Agent, Catalog, Macro, Override, Policy, Server, Toolbox, World};

pub(crate) struct Oracle<'a> {
    policy: &'a Policy,
    rules: Rules,
    /// `true` for a named agent that no rule covers, if the default policy is missing.
    is_refused: bool,
    servers: Option<&'a Vec<String>>,
    /// The agent's conditions, then the inherited ones.
    whens: Vec<&'a When>,
    /// The agent's tool lists by server, then the inherited ones.
    overrides: Vec<(&'a String, &'a Vec<String>)>,
    resources: Vec<(&'a String, &'a Vec<String>)>,
    prompts: Vec<(&'a String, &'a Vec<String>)>,
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
            rules: world.rules,
            is_refused: agent.is_some()
                && own.is_none()
                && agents.is_some()
                && world.policy.allows_tools.is_none()
                && world.policy.allows_servers.is_none(),
            whens: entries.iter().flat_map(|entry| &entry.when).collect(),
            servers: entries.iter().find_map(|entry| entry.servers.as_ref()),
            overrides: entries.iter().flat_map(|entry| &entry.overrides).collect(),
            resources: entries.iter().flat_map(|entry| &entry.resources).collect(),
            prompts: entries.iter().flat_map(|entry| &entry.prompts).collect(),
        }
    }

    /// The tool list that applies to a server: steps 2 and 3.
    fn list(&self, server: &str) -> Option<&'a Vec<String>> {
        let own = self.overrides.iter().find(|(name, _)| *name == server).map(|(_, list)| *list);
        own.or_else(|| self.policy.exposed.as_ref()?.get(server))
    }

    fn resource_list(&self, server: &str) -> Option<&'a Vec<String>> {
        let own = self.resources.iter().find(|(name, _)| *name == server).map(|(_, list)| *list);
        own.or_else(|| self.policy.exposed_resources.get(server))
    }

    fn prompt_list(&self, server: &str) -> Option<&'a Vec<String>> {
        let own = self.prompts.iter().find(|(name, _)| *name == server).map(|(_, list)| *list);
        own.or_else(|| self.policy.exposed_prompts.get(server))
    }

    fn judges_resources(&self, server: &Server) -> bool {
        self.resource_list(&server.name).is_some()
            || !server.resource_filters.is_empty()
            || self.rules.keeps_resources_back(server)
    }

    /// Returns `true` if the agent can use the resource, listed or not, or the template.
    fn has_resource(&self, server: &Server, uri: &str) -> bool {
        let Catalog { resources, templates, .. } = &server.catalog;
        let is_listed = resources.iter().chain(templates).any(|other| other == uri);
        let name_of = |uri: &str| format!("of {uri}");
        let is_one = |glob: &str, uri: &str| {
            let names = [uri.to_owned(), name_of(uri)];
            names.iter().any(|name| glob == name || fits(glob, name))
        };
        let made = |glob: &str| {
            let start = |template: &str| template.split('{').next().unwrap_or_default().to_owned();
            let mut made = templates.iter().filter(|template| uri.starts_with(&start(template)));
            made.any(|template| is_one(glob, template))
        };
        let means = |glob: &str| {
            if is_listed { is_one(glob, uri) } else { fits(glob, uri) || made(glob) }
        };
        lets(self.resource_list(&server.name), &server.resource_filters, means)
            && !self.rules.keeps_back_resource(server, uri)
    }

    fn has_prompt(&self, server: &Server, name: &str) -> bool {
        let means = |glob: &str| fits(glob, name);
        !self.rules.keeps_back(server, name)
            && lets(self.prompt_list(&server.name), &server.prompt_filters, means)
    }

    /// Step 4.
    fn allows_the_rest(&self) -> bool {
        let has_rules = self.policy.agents.is_some() || self.policy.exposed.is_some();
        self.policy.allows_tools.unwrap_or(!has_rules)
    }

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
        let others = [self.resource_list(server), self.prompt_list(server)];
        let mut others = others.into_iter().flatten().flatten();
        if others.any(|pattern| !pattern.starts_with('!')) {
            return true;
        }
        if let Some(list) = self.list(server) {
            return !list.is_empty();
        }
        let said = self.policy.allows_servers;
        let is_refused = self.servers.is_none() && said == Some(false);
        !is_refused && (self.allows_the_rest() || said == Some(true))
    }

    pub(crate) fn has_tool(&self, toolbox: &Toolbox, server: &Server, tool: &str) -> bool {
        let is_there = server.catalog.tools.iter().any(|other| other == tool);
        if !is_there || !self.has_server(&server.name) {
            return false;
        }
        if self.rules.closes(server) || self.rules.keeps_back(server, tool) {
            return false;
        }
        let over = self.over(toolbox, server, tool);
        let shown = over.and_then(|over| over.name.as_deref()).unwrap_or(tool);
        let is_listed = self.lists([&toolbox.name, &server.name, tool], shown);
        let own = server.overrides.get(tool);
        let is_off = [own, over].into_iter().flatten().any(|over| over.is_off);
        is_listed && passes(server, tool) && !is_off && self.is_here(&server.name, tool)
    }

    fn is_here(&self, server: &str, tool: &str) -> bool {
        self.about(server, tool).all(When::is_here)
    }

    pub(crate) fn lets(
        &self,
        world: &World,
        ReceivedCall { path, tool, arguments }: &ReceivedCall,
    ) -> bool {
        world.toolboxes.iter().any(|toolbox| {
            let mut here = toolbox.servers.iter().filter(|server| server.path == *path);
            here.any(|server| {
                self.has_tool(toolbox, server, tool)
                    && self.about(&server.name, tool).all(|when| when.holds(arguments))
            })
        })
    }

    fn about(&self, server: &str, tool: &str) -> impl Iterator<Item = &'a When> {
        let whens = self.whens.iter().copied();
        whens.filter(move |when| when.is_about(server, tool))
    }

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

    /// Returns `true` if the macro and all tools that it calls exist for the agent.
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

    /// The override of a tool. Its key may have the `mcp__<server>__` prefix of clients, unless a
    /// tool of that longer name exists.
    fn over(&self, toolbox: &Toolbox, server: &'a Server, tool: &str) -> Option<&'a Override> {
        let prefixed = format!("mcp__{}__{tool}", server.name);
        let has_namesake = self.has_tool(toolbox, server, &prefixed);
        let over = |name: &str| server.overrides.get(name);
        if has_namesake { over(tool) } else { over(&prefixed).or_else(|| over(tool)) }
    }
}

fn passes(server: &Server, tool: &str) -> bool {
    filters_let(&server.filters, |glob| fits(glob, tool))
}

fn filters_let(filters: &[String], means: impl Fn(&str) -> bool) -> bool {
    let (never, only): (Vec<_>, Vec<_>) =
        filters.iter().partition(|filter| filter.starts_with('!'));
    (only.is_empty() || only.iter().any(|glob| means(glob)))
        && !never.iter().any(|glob| means(&glob[1..]))
}

/// Returns `true` if both the list for the agent and the server's filters let something through. An
/// empty list allows nothing.
fn lets(
    list: Option<&Vec<String>>,
    filters: &[String],
    means: impl Fn(&str) -> bool + Copy,
) -> bool {
    list.is_none_or(|list| !list.is_empty() && filters_let(list, means))
        && filters_let(filters, means)
}

pub(crate) fn fits(glob: &str, name: &str) -> bool {
    match glob.split_once('*') {
        None => glob == name,
        Some((start, rest)) => name
            .strip_prefix(start)
            .is_some_and(|name| (0..=name.len()).any(|at| fits(rest, &name[at..]))),
    }
}

/// The world without the items and rules that are hidden from the agent.
pub(crate) fn without_the_forbidden(world: &World, agent: Option<&str>) -> World {
    let oracle = Oracle::new(world, agent);
    let toolbox = |toolbox: &Toolbox| {
        let mut left = toolbox.clone();
        left.servers.retain(|server| oracle.has_server(&server.name));
        for server in &mut left.servers {
            let before = server.clone();
            server.catalog.tools.retain(|tool| oracle.has_tool(toolbox, &before, tool));
            server.catalog.resources.retain(|uri| oracle.has_resource(&before, uri));
            server.catalog.templates.retain(|uri| oracle.has_resource(&before, uri));
            server.catalog.unlisted.retain(|uri| oracle.has_resource(&before, uri));
            server.catalog.prompts.retain(|name| oracle.has_prompt(&before, name));
            // If any resource is hidden, the gateway writes the error for missing resources, in
            // this world too.
            server.resource_filters = Vec::new();
            if oracle.judges_resources(&before) {
                server.resource_filters.push("judged".to_owned());
                // The gateway may pass requests for missing resources to the server, which then
                // sends notifications about them.
                server.resource_filters.extend(world.addresses().into_iter().map(|uri| {
                    let sign = if oracle.has_resource(&before, &uri) { "" } else { "!" };
                    format!("{sign}{uri}")
                }));
            }
            server.prompt_filters = Vec::new();
            server.filters = Vec::new();
            if world.rules.silences(&before) {
                server.catalog.instructions = None;
            }
            // Nothing remains of a denied server. Keeping a difference to the lock makes it denied
            // here too.
            let is_closed = world.rules.closes(&before);
            if is_closed {
                server.catalog = Catalog::default();
            }
            let definitions = before.reviewed.definitions;
            server.reviewed = Reviewed { definitions, lacks_one: is_closed, ..Reviewed::default() };
            server.overrides.retain(|_, over| !over.is_off);
        }
        (!left.servers.is_empty()).then_some(left)
    };
    let toolboxes = world.toolboxes.iter().filter_map(toolbox).collect();
    let macros = world.macros.iter().filter(|of| oracle.has_macro(world, of)).cloned().collect();
    // Conditions on arguments hide nothing, and the agent may see them.
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
    let rules = Rules { has_lock: world.rules.has_lock || world.is_strict(), ..world.rules };
    let mut left = World { toolboxes, macros, policy, rules };
    share(world, &mut left);
    left
}

/// A server in several toolboxes keeps everything that remains in any of them. Filters then hide
/// the rest in each place.
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
        let own = server.catalog.clone();
        let lists: [fn(&mut Catalog) -> &mut Vec<String>; 4] = [
            |catalog| &mut catalog.resources,
            |catalog| &mut catalog.unlisted,
            |catalog| &mut catalog.templates,
            |catalog| &mut catalog.prompts,
        ];
        for list in lists {
            let mut whole = all.map(|other| other.catalog.clone()).unwrap_or_default();
            let is_there =
                |one: &String| places().any(|other| list(&mut other.catalog.clone()).contains(one));
            let left: Vec<_> =
                list(&mut whole).iter().filter(|one| is_there(one)).cloned().collect();
            *list(&mut server.catalog) = left;
        }
        let is_judged = !server.resource_filters.is_empty();
        let Catalog { resources, unlisted, prompts, .. } = &server.catalog;
        if is_judged {
            let own = [&own.resources, &own.unlisted, &own.templates].map(Vec::as_slice).concat();
            let readable = resources.iter().chain(unlisted);
            let hidden = readable.filter(|uri| !own.contains(uri)).map(|uri| format!("!{uri}"));
            server.resource_filters.extend(hidden);
            server.resource_filters.extend(own);
        }
        let hidden = prompts.iter().filter(|name| !own.prompts.contains(name));
        server.prompt_filters = hidden.map(|name| format!("!{name}")).collect();
    }
}
