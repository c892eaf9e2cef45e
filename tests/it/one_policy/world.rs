//! Random catalogs with random rules, and the configuration that describes them.

use std::collections::BTreeMap;

use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{Index, select, subsequence};
use serde_json::{Map, Value, json};

use crate::one_policy::conditions::{When, whens};
use crate::one_policy::lock::{Reviewed, Rules, reviewed, rules};

#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) toolboxes: Vec<Toolbox>,
    pub(crate) macros: Vec<Macro>,
    pub(crate) policy: Policy,
    pub(crate) rules: Rules,
}

#[derive(Clone, Debug)]
pub(crate) struct Macro {
    pub(crate) name: String,
    /// The toolbox of its first tool, or `macros`.
    pub(crate) toolbox: String,
    /// Toolbox, server and tool of each step.
    pub(crate) steps: Vec<[String; 3]>,
}

#[derive(Clone, Debug)]
pub(crate) struct Toolbox {
    pub(crate) name: String,
    pub(crate) namespace: Option<String>,
    /// `true` for a server in the top-level `mcpServers`.
    pub(crate) is_alone: bool,
    pub(crate) servers: Vec<Server>,
}

#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub(crate) name: String,
    /// Path of the URL. Servers in several toolboxes may share it.
    pub(crate) path: String,
    pub(crate) state: State,
    pub(crate) filters: Vec<String>,
    pub(crate) resource_filters: Vec<String>,
    pub(crate) prompt_filters: Vec<String>,
    pub(crate) overrides: BTreeMap<String, Override>,
    pub(crate) reviewed: Reviewed,
    pub(crate) catalog: Catalog,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Up,
    Unsupported,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Override {
    pub(crate) is_off: bool,
    pub(crate) name: Option<String>,
    pub(crate) description: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Catalog {
    pub(crate) tools: Vec<String>,
    pub(crate) resources: Vec<String>,
    pub(crate) unlisted: Vec<String>,
    pub(crate) templates: Vec<String>,
    pub(crate) prompts: Vec<String>,
    pub(crate) instructions: Option<String>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Policy {
    pub(crate) agents: Option<BTreeMap<String, Agent>>,
    pub(crate) exposed: Option<BTreeMap<String, Vec<String>>>,
    pub(crate) exposed_resources: BTreeMap<String, Vec<String>>,
    pub(crate) exposed_prompts: BTreeMap<String, Vec<String>>,
    pub(crate) allows_tools: Option<bool>,
    pub(crate) allows_servers: Option<bool>,
    /// Tools that need confirmation, which doesn't affect access.
    pub(crate) dangerous: Vec<String>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Agent {
    pub(crate) extends: Option<String>,
    pub(crate) when: Vec<When>,
    pub(crate) servers: Option<Vec<String>>,
    pub(crate) overrides: BTreeMap<String, Vec<String>>,
    pub(crate) resources: BTreeMap<String, Vec<String>>,
    pub(crate) prompts: BTreeMap<String, Vec<String>>,
}

/// Few names, so that they collide.
const TOOLS: [&str; 6] = ["read", "write", "read_all", "list", "drop", "mcp__one__read"];
const SERVERS: [&str; 3] = ["one", "two", "ten"];
const TOOLBOXES: [&str; 3] = ["desk", "lab", "pub"];
const ALONE: [&str; 3] = ["solo", "one", "extra"];
const MACROS: [&str; 3] = ["read", "blend", "list_all"];
const RESOURCES: [&str; 3] = ["note://a", "note://b", "file:///x"];
const TEMPLATES: [&str; 2] = ["note://{id}", "file:///{path}"];
const PROMPTS: [&str; 2] = ["sum", "plan"];
const UNLISTED: [&str; 2] = ["note://7", "file:///y"];

/// Patterns in resource lists. A resource's name is `of <uri>`.
const ADDRESSES: [&str; 16] = [
    "*",
    "!*",
    "note://a",
    "note://*",
    "file:///*",
    "*x",
    "of note://b",
    "of *id*",
    "note://7",
    "note://{id}",
    "!note://a",
    "!note://*",
    "!*x",
    "!of note://a",
    "!note://{id}",
    "!file:///y",
];
const PROMPT_PATTERNS: [&str; 6] = ["sum", "p*", "*", "!plan", "!s*", "nothing"];
const PATTERNS: [&str; 14] = [
    "read",
    "write",
    "list",
    "drop",
    "r*",
    "*",
    "*e*",
    "one:read",
    "one:*",
    "two:write",
    "desk__one__read",
    "lab__*",
    "mcp__one__read",
    "nothing",
];

fn words(of: &[&'static str], most: usize) -> impl Strategy<Value = Vec<String>> + use<> {
    let of = of.to_vec();
    let most = most.min(of.len());
    subsequence(of, 0..=most)
        .prop_shuffle()
        .prop_map(|words| words.into_iter().map(str::to_owned).collect())
}

fn catalog() -> impl Strategy<Value = Catalog> {
    let lists = (words(&TOOLS, 5), words(&RESOURCES, 2), words(&TEMPLATES, 1), words(&PROMPTS, 2));
    let parts = (lists, words(&UNLISTED, 2), any::<bool>());
    parts.prop_map(|((tools, resources, templates, prompts), unlisted, speaks)| Catalog {
        tools,
        resources,
        unlisted,
        templates,
        prompts,
        instructions: speaks.then(|| "Be kind.".to_owned()),
    })
}

fn overrides() -> impl Strategy<Value = BTreeMap<String, Override>> {
    let one = (any::<bool>(), option::of(select(vec!["renamed", "read", "peek"])), any::<bool>());
    let one = one.prop_map(|(is_off, name, is_described)| Override {
        is_off,
        name: name.map(str::to_owned),
        description: is_described.then(|| "Said otherwise.".to_owned()),
    });
    let quiet = Just(BTreeMap::new());
    let keys = select(vec!["read", "write", "list", "mcp__one__read"]).prop_map(str::to_owned);
    prop_oneof![3 => quiet, 1 => btree_map(keys, one, 1..3)]
}

fn server(names: &[&'static str]) -> impl Strategy<Value = Server> + use<> {
    let state = prop_oneof![
        8 => Just(State::Up),
        1 => Just(State::Unsupported),
    ];
    let filters = prop_oneof![
        4 => Just(Vec::new()),
        1 => Just(vec!["!drop".to_owned()]),
        1 => Just(vec!["r*".to_owned(), "list".to_owned()]),
    ];
    let quiet = || Just(Vec::new());
    let resources = prop_oneof![3 => quiet(), 1 => words(&ADDRESSES, 3)];
    let prompts = prop_oneof![3 => quiet(), 1 => words(&PROMPT_PATTERNS, 2)];
    let filters = (filters, resources, prompts);
    let reviewed = reviewed([&TOOLS[..], &TEMPLATES[..], &PROMPTS[..]].concat());
    (select(names.to_vec()), state, filters, overrides(), (catalog(), reviewed)).prop_map(
        |(name, state, filters, overrides, (catalog, reviewed))| Server {
            name: name.to_owned(),
            path: String::new(),
            state,
            filters: filters.0,
            resource_filters: filters.1,
            prompt_filters: filters.2,
            overrides,
            reviewed,
            catalog,
        },
    )
}

fn toolboxes() -> impl Strategy<Value = Vec<Toolbox>> {
    let boxed =
        (vec(server(&SERVERS), 1..4), option::weighted(0.3, select(vec!["", "ns", "desk"])));
    let boxed = vec(boxed, 0..3).prop_map(|all| {
        all.into_iter()
            .zip(TOOLBOXES)
            .map(|((mut servers, namespace), name)| {
                let mut names = Vec::new();
                servers.retain(|server| {
                    let is_new = !names.contains(&server.name);
                    names.push(server.name.clone());
                    is_new
                });
                let (name, namespace) = (name.to_owned(), namespace.map(str::to_owned));
                Toolbox { name, namespace, is_alone: false, servers }
            })
            .collect::<Vec<_>>()
    });
    let alone = (btree_set(select(ALONE.to_vec()), 0..3), vec(server(&SERVERS), 3));
    let alone = alone.prop_map(|(names, servers)| {
        names
            .into_iter()
            .zip(servers)
            .map(|(name, server)| Toolbox {
                name: name.to_owned(),
                namespace: None,
                is_alone: true,
                servers: vec![Server { name: name.to_owned(), ..server }],
            })
            .collect::<Vec<_>>()
    });
    let both = (boxed, alone).prop_map(|(boxed, alone)| [boxed, alone].concat());
    both.prop_filter("a toolbox or a server", |all| !all.is_empty())
}

fn lists() -> impl Strategy<Value = BTreeMap<String, Vec<String>>> {
    let names = select(vec!["one", "two", "ten", "solo", "extra", "macros"]);
    let names = names.prop_map(str::to_owned);
    btree_map(names, words(&PATTERNS, 3), 0..4)
}

fn others(
    patterns: &[&'static str],
) -> impl Strategy<Value = BTreeMap<String, Vec<String>>> + use<> {
    let names = select(vec!["one", "two", "ten", "solo", "extra"]).prop_map(str::to_owned);
    let lists = btree_map(names, words(patterns, 3), 1..4);
    prop_oneof![2 => Just(BTreeMap::new()), 1 => lists]
}

fn policy() -> impl Strategy<Value = Policy> {
    let servers = words(&["one", "two", "ten", "solo", "extra", "macros", "t*", "*"], 4);
    let extends = option::weighted(0.2, Just("bob".to_owned()));
    let besides = (others(&ADDRESSES).boxed(), others(&PROMPT_PATTERNS).boxed());
    let agent = (extends, whens(), option::of(servers), lists(), besides.clone());
    let agent = agent.prop_map(|(extends, when, servers, overrides, besides)| {
        let (resources, prompts) = besides;
        Agent { extends, when, servers, overrides, resources, prompts }
    });
    let agent = agent.boxed();
    let agents = (agent.clone(), agent).prop_map(|(ann, mut bob)| {
        bob.extends = None;
        BTreeMap::from([("ann".to_owned(), ann), ("bob".to_owned(), bob)])
    });
    let parts = (
        option::weighted(0.8, agents),
        option::weighted(0.6, lists()),
        option::of(any::<bool>()),
        option::weighted(0.2, any::<bool>()),
        prop_oneof![3 => Just(Vec::new()), 1 => words(&PATTERNS, 2)],
        besides,
    );
    parts.prop_map(|(agents, exposed, allows_tools, allows_servers, dangerous, besides)| {
        let (exposed_resources, exposed_prompts) = besides;
        Policy {
            agents,
            exposed,
            exposed_resources,
            exposed_prompts,
            allows_tools,
            allows_servers,
            dangerous,
        }
    })
}

/// A macro before its tools exist: whether it has its own toolbox, and the indexes of its tools.
type Drawn = (bool, Vec<Index>);

fn macros() -> impl Strategy<Value = Vec<Drawn>> {
    vec((any::<bool>(), vec(any::<Index>(), 1..3)), 0..=MACROS.len())
}

/// Turns drawn macros into macros over tools without overrides.
fn over(toolboxes: &[Toolbox], drawn: Vec<Drawn>) -> Vec<Macro> {
    let servers = toolboxes.iter().flat_map(|t| t.servers.iter().map(move |server| (t, server)));
    let plain = servers.filter(|(_, server)| server.overrides.is_empty());
    let tools = plain.flat_map(|(toolbox, server)| {
        let at = |tool: &String| [toolbox.name.clone(), server.name.clone(), tool.clone()];
        server.catalog.tools.iter().map(at).collect::<Vec<_>>()
    });
    let tools: Vec<_> = tools.collect();
    if tools.is_empty() {
        return Vec::new();
    }
    let made = drawn.into_iter().zip(MACROS).map(|((is_apart, steps), name)| {
        let steps: Vec<_> = steps.iter().map(|step| step.get(&tools).clone()).collect();
        let toolbox = if is_apart { "macros".to_owned() } else { steps[0][0].clone() };
        Macro { name: name.to_owned(), toolbox, steps }
    });
    made.collect()
}

pub(crate) fn world() -> impl Strategy<Value = World> {
    let parts = (toolboxes(), policy(), any::<bool>(), macros(), rules());
    parts.prop_map(|(mut toolboxes, policy, is_shared, drawn, mut rules)| {
        for toolbox in &mut toolboxes {
            for server in &mut toolbox.servers {
                server.path = format!("{}/{}", toolbox.name, server.name);
            }
        }
        // Puts one server into two toolboxes, under the same or different names.
        if is_shared && toolboxes.len() > 1 {
            let first = toolboxes[0].servers[0].clone();
            let other = &mut toolboxes[1].servers[0];
            (other.path, other.catalog, other.state) = (first.path, first.catalog, first.state);
            // How soon a shared server's listing appears depends on the other toolbox, so its
            // definitions are never withheld.
            rules = Rules { definitions: rules.definitions.and(Some("warn")), ..rules };
            for toolbox in &mut toolboxes[..2] {
                let reviewed = &mut toolbox.servers[0].reviewed;
                reviewed.definitions = reviewed.definitions.and(Some("warn"));
            }
        }
        let macros = over(&toolboxes, drawn);
        let mut world = World { toolboxes, macros, policy, rules };
        // The gateway can't compare a tool with the lock before its server is listed. Until then
        // macros that call it are visible, although nothing of the server is.
        let reviewed = world.clone();
        world.macros.retain(|of| of.steps.iter().all(|step| reviewed.is_reviewed(step)));
        world
    })
}

impl World {
    pub(crate) fn judges_resources(&self) -> bool {
        let mut servers = self.toolboxes.iter().flat_map(|toolbox| &toolbox.servers);
        let mut agents = self.policy.agents.iter().flatten();
        self.is_strict()
            || !self.policy.exposed_resources.is_empty()
            || servers.any(|server| !server.resource_filters.is_empty())
            || agents.any(|(_, agent)| !agent.resources.is_empty())
    }

    /// Every URI that a request may contain, existing or not. A URI with a namespace prefix can
    /// also be the server's own.
    pub(crate) fn addresses(&self) -> Vec<String> {
        let plain = [&RESOURCES[..], &UNLISTED[..], &TEMPLATES[..]].concat();
        let namespaces = self
            .toolboxes
            .iter()
            .map(|toolbox| toolbox.namespace.as_deref().unwrap_or(&toolbox.name));
        let prefixes = namespaces.filter(|name| !name.is_empty()).map(|name| format!("{name}_"));
        let prefixes: Vec<_> = prefixes.chain([String::new()]).collect();
        let all = prefixes
            .iter()
            .flat_map(|prefix| plain.iter().map(move |uri| format!("{prefix}{uri}")));
        all.collect()
    }

    pub(crate) fn names(&self) -> Vec<String> {
        let places = self.toolboxes.iter().flat_map(|toolbox| &toolbox.servers);
        let names = places.flat_map(|server| {
            let tools = server.catalog.tools.iter().map(|tool| format!("{}/{tool}", server.path));
            let Catalog { resources, unlisted, templates, prompts, .. } = &server.catalog;
            let others = [resources, unlisted, templates, prompts].into_iter().flatten();
            let others = others.map(|other| format!("{}: {other}", server.path));
            tools.chain(others).chain([server.path.clone()])
        });
        let macros = self.macros.iter().map(|of| format!("{}/macros/{}", of.toolbox, of.name));
        names.chain(macros).collect()
    }

    pub(crate) fn config(&self, mode: &str, address: &str, is_eager: bool) -> Value {
        let mut config = json!({"toolMode": mode});
        if let Some(definitions) = self.rules.definitions {
            config["onDefinitionChange"] = definitions.into();
        }
        if self.toolboxes.is_empty() {
            // A configuration needs at least one server, which may be disabled.
            config["mcpServers"]["off"] = json!({"command": "off", "disabled": true});
        }
        for toolbox in &self.toolboxes {
            let blocks: Map<String, Value> = toolbox
                .servers
                .iter()
                .map(|server| (server.name.clone(), server.block(address, is_eager)))
                .collect();
            if toolbox.is_alone {
                for (name, block) in blocks {
                    config["mcpServers"][name] = block;
                }
                continue;
            }
            let entry = &mut config["toolboxes"][&toolbox.name];
            entry["description"] = format!("What {} is for", toolbox.name).into();
            entry["mcpServers"] = blocks.into();
            if let Some(namespace) = &toolbox.namespace {
                entry["namespace"] = namespace.as_str().into();
            }
        }
        for Macro { name, toolbox, steps } in &self.macros {
            let entry = &mut config["macros"][name];
            *entry = json!({"description": format!("To {name} in steps"), "toolbox": toolbox});
            for (at, [toolbox, server, tool]) in steps.iter().enumerate() {
                let tool = json!({"toolbox": toolbox, "server": server, "tool": tool});
                let arguments = json!({"n": 1});
                entry["steps"][format!("s{at}")] = json!({"tool": tool, "arguments": arguments});
                if let Some(before) = at.checked_sub(1) {
                    entry["steps"][format!("s{at}")]["after"] = json!([format!("s{before}")]);
                }
            }
        }
        let Policy { agents, exposed, allows_tools, allows_servers, dangerous, .. } = &self.policy;
        for (key, lists) in [
            ("exposedResources", &self.policy.exposed_resources),
            ("exposedPrompts", &self.policy.exposed_prompts),
        ] {
            if !lists.is_empty() {
                config[key] = json!(lists);
            }
        }
        if !dangerous.is_empty() {
            config["dangerousTools"] = json!(dangerous);
        }
        if let Some(agents) = agents {
            let agents = agents.iter().map(|(name, agent)| (name.clone(), agent.entry()));
            config["agentPolicies"] = Value::Object(agents.collect());
        }
        if let Some(exposed) = exposed {
            config["exposedTools"] = json!(exposed);
        }
        for (key, flag) in
            [("allowUnknownTools", allows_tools), ("allowUnknownServers", allows_servers)]
        {
            if let Some(flag) = flag {
                config["defaultPolicy"][key] = (*flag).into();
            }
        }
        config
    }
}

impl Agent {
    fn entry(&self) -> Value {
        let mut entry = json!({
            "toolOverrides": self.overrides,
            "resourceOverrides": self.resources,
            "promptOverrides": self.prompts,
        });
        if let Some(servers) = &self.servers {
            entry["allowedServers"] = json!(servers);
        }
        if let Some(extends) = &self.extends {
            entry["extends"] = extends.as_str().into();
        }
        if !self.when.is_empty() {
            entry["when"] = self.when.iter().map(When::entry).collect();
        }
        entry
    }
}

impl Server {
    fn block(&self, address: &str, is_eager: bool) -> Value {
        let url = format!("http://{address}/{}", self.path);
        // Agents share a server only if it has no login.
        let mut block =
            json!({"url": url, "protocol": "legacy", "eager": is_eager, "oauth": false});
        if self.state == State::Unsupported {
            block["type"] = "ws".into();
        }
        if let Some(definitions) = self.reviewed.definitions {
            block["onDefinitionChange"] = definitions.into();
        }
        if !self.filters.is_empty() {
            block["toolFilters"] = json!(self.filters);
        }
        for (key, filters) in
            [("resourceFilters", &self.resource_filters), ("promptFilters", &self.prompt_filters)]
        {
            if !filters.is_empty() {
                block[key] = json!(filters);
            }
        }
        for (tool, over) in &self.overrides {
            let entry = &mut block["overrides"][tool];
            *entry = json!({});
            if over.is_off {
                entry["enabled"] = false.into();
            }
            if let Some(name) = &over.name {
                entry["name"] = name.as_str().into();
            }
            if let Some(description) = &over.description {
                entry["description"] = description.as_str().into();
            }
        }
        block
    }
}
