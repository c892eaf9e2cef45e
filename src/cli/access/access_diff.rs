//! What each agent gains and loses between two configurations: for `policy diff`, and for the log of
//! a workbench whose changed configuration waits for a reload.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use serde::Serialize;

use crate::cli::args::GlobalArgs;
use crate::cli::output::{CommandError, format_count};
use crate::cli::servers::cached_listings::{self, CachedTools};
use mcp_workbench_core::catalog::Listing;
use mcp_workbench_core::policy::{Policies, ResourceOrPrompt, ToolTraits, UnixTime};
use mcp_workbench_names::{AgentName, ServerRef, ToolId};
use mcp_workbench_settings::{Config, Launch, ServerConfig};

/// Describes what each agent gains and loses if `new` replaces `old`, and which servers would be
/// launched differently.
pub(crate) fn describe_diff(
    global: &GlobalArgs,
    old: &Config,
    new: &Config,
) -> Result<String, CommandError> {
    let known = cached_tools(global, old, new)?;
    let launched = |config: &Config| -> BTreeMap<String, Launch> {
        let toolboxes = config.toolboxes.iter();
        let servers = toolboxes.flat_map(|toolbox| {
            let name = |server: &ServerConfig| place(toolbox.name.as_str(), server.name.as_str());
            toolbox.launchable_servers().map(move |server| (name(server), server.launch.clone()))
        });
        servers.collect()
    };
    let (before, now) = (launched(old), launched(new));
    let is_other = |server: &&String| before.get(*server).is_some_and(|was| *was != now[*server]);
    let mut lines: Vec<String> =
        now.keys().filter(is_other).map(|name| format!("launch changed: {name}")).collect();
    lines.push(in_words(&diff(global, old.clone(), new.clone(), &known)?));
    Ok(lines.join("\n"))
}

pub(crate) fn cached_tools(
    global: &GlobalArgs,
    old: &Config,
    new: &Config,
) -> Result<CachedTools, CommandError> {
    let mut known = cached_listings::tools(global, old)?;
    known.extend(cached_listings::tools(global, new)?);
    Ok(known)
}

pub(crate) fn diff(
    global: &GlobalArgs,
    old: Config,
    new: Config,
    known: &CachedTools,
) -> Result<Vec<AgentChanges>, CommandError> {
    let mut listings = cached_listings::listings(global, &old)?;
    listings.extend(cached_listings::listings(global, &new)?);
    Ok(changes(old, new, known, &listings))
}

#[derive(Debug, Serialize)]
pub(crate) struct AgentChanges {
    /// `None` for agents without their own policy.
    agent: Option<String>,
    gained: Vec<AccessEntry>,
    lost: Vec<AccessEntry>,
    changed: Vec<ChangedTerms>,
}

#[derive(Debug, Serialize)]
struct AccessEntry {
    toolbox: String,
    server: String,
    /// `None` for the server itself, or one of its resources or prompts.
    tool: Option<String>,
    #[serde(flatten)]
    primitive: Option<PrimitiveRef>,
    /// `true` if the row covers all resources and prompts of the server.
    #[serde(skip)]
    is_whole: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
enum PrimitiveRef {
    Resource(String),
    Prompt(String),
}

impl PrimitiveRef {
    fn as_query(&self) -> ResourceOrPrompt<'_> {
        match self {
            Self::Resource(uri) => ResourceOrPrompt::Resource(uri),
            Self::Prompt(name) => ResourceOrPrompt::Prompt(name),
        }
    }
}

type CachedListings = HashMap<ServerRef, Arc<Listing>>;

#[derive(Debug, Serialize)]
struct ChangedTerms {
    #[serde(flatten)]
    entry: AccessEntry,
    before: AccessTerms,
    after: AccessTerms,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct AccessTerms {
    confirmed: bool,
    conditions: Vec<String>,
}

/// Stands for tools that no pattern names, if the server has no cached listing.
const ANY_OTHER: &str = "(any other tool)";
/// Stand for resources and prompts in the same case.
const ANY_OTHER_RESOURCE: &str = "(any other resource)";
const ANY_OTHER_PROMPT: &str = "(any other prompt)";

fn changes(
    old: Config,
    new: Config,
    known: &CachedTools,
    listings: &CachedListings,
) -> Vec<AgentChanges> {
    let names = |config: &Config| config.policy.agents.keys().cloned().collect::<Vec<_>>();
    let agents: BTreeSet<AgentName> = [names(&old), names(&new)].into_iter().flatten().collect();
    let candidates = candidates(&[&old, &new], known);
    let besides = primitives_to_compare(&[&old, &new], listings);
    let [old, new] = [old, new].map(|config| Policies::new(Arc::new(config)));
    let agents = agents.into_iter().map(Some).chain([None]);
    let compare = |agent: Option<AgentName>| {
        let mut changes = AgentChanges {
            agent: agent.as_ref().map(ToString::to_string),
            gained: Vec::new(),
            lost: Vec::new(),
            changed: Vec::new(),
        };
        for (at, tools) in &candidates {
            let entry = |tool: Option<&str>, is_whole| AccessEntry {
                toolbox: at.toolbox.to_string(),
                server: at.server.to_string(),
                tool: tool.map(str::to_owned),
                primitive: None,
                is_whole,
            };
            let is_there = |policies: &Policies| {
                let seen = policies.visible_config(agent.as_ref(), None);
                seen.toolbox(at.toolbox.as_str())
                    .is_some_and(|toolbox| toolbox.server(at.server.as_str()).is_some())
            };
            let listing = listings.get(at).cloned().unwrap_or_default();
            let may_have = |policies: &Policies, one: &PrimitiveRef| {
                let asked = one.as_query();
                let verdict = policies.explain_primitive(agent.as_ref(), at, asked, &listing);
                verdict.is_some_and(|verdict| verdict.is_visible)
            };
            let besides = || besides.get(at).into_iter().flatten();
            // If the agent can use everything the server has, one row for the server is enough.
            let has_all = |policies: &Policies| besides().all(|one| may_have(policies, one));
            let (was_there, is_there) = (is_there(&old), is_there(&new));
            let is_whole = was_there != is_there && has_all(if is_there { &new } else { &old });
            if was_there != is_there {
                let side = if is_there { &mut changes.gained } else { &mut changes.lost };
                side.push(entry(None, is_whole));
            }
            for one in besides().filter(|_| !is_whole) {
                let entry = || AccessEntry { primitive: Some(one.clone()), ..entry(None, true) };
                match (may_have(&old, one), may_have(&new, one)) {
                    (false, true) => changes.gained.push(entry()),
                    (true, false) => changes.lost.push(entry()),
                    _ => {}
                }
            }
            for (tool, traits) in tools {
                let terms =
                    |policies: &Policies| terms(policies, agent.as_ref(), at, tool, *traits);
                match (terms(&old), terms(&new)) {
                    (None, Some(_)) => changes.gained.push(entry(Some(tool), true)),
                    (Some(_), None) => changes.lost.push(entry(Some(tool), true)),
                    (Some(before), Some(after)) if before != after => {
                        changes.changed.push(ChangedTerms {
                            entry: entry(Some(tool), true),
                            before,
                            after,
                        });
                    }
                    _ => {}
                }
            }
        }
        changes
    };
    let all = agents.map(compare);
    all.filter(|c| !c.gained.is_empty() || !c.lost.is_empty() || !c.changed.is_empty()).collect()
}

fn terms(
    policies: &Policies,
    agent: Option<&AgentName>,
    at: &ServerRef,
    tool: &str,
    traits: ToolTraits,
) -> Option<AccessTerms> {
    let ServerRef { toolbox, server } = at.clone();
    let id = ToolId { toolbox, server, tool: tool.to_owned() };
    // The time doesn't matter: time limits are compared as text.
    let explanation = policies.explain(agent, &id, traits, UnixTime::new(0))?;
    explanation.is_allowed.then(|| AccessTerms {
        confirmed: explanation.confirmation.is_some(),
        conditions: explanation.conditions.into_iter().map(|demand| demand.words).collect(),
    })
}

/// Collects the tools to compare: from cached listings, or else the names and patterns in rules.
fn candidates(
    configs: &[&Config],
    known: &CachedTools,
) -> BTreeMap<ServerRef, BTreeMap<String, ToolTraits>> {
    let mut all: BTreeMap<ServerRef, BTreeMap<String, ToolTraits>> = BTreeMap::new();
    for config in configs {
        for toolbox in &config.toolboxes {
            for server in &toolbox.servers {
                let at = ServerRef { toolbox: toolbox.name.clone(), server: server.name.clone() };
                let tools = all.entry(at.clone()).or_default();
                if let Some(known) = known.get(&at) {
                    tools.extend(known.iter().cloned());
                    continue;
                }
                let policy = &config.policy;
                let lists = policy
                    .agents
                    .values()
                    .filter_map(|agent| agent.tool_overrides.get(server.name.as_str()));
                let named = lists.chain(policy.exposed_tools.get(server.name.as_str())).flatten();
                let prefix = format!("{}:", server.name);
                // A glob matches itself, so it can stand for the tools it matches.
                let named = named.map(|name| name.strip_prefix(&prefix).unwrap_or(name));
                let named = named.chain([ANY_OTHER]);
                tools.extend(named.map(|name| (name.to_owned(), ToolTraits::default())));
            }
        }
    }
    all
}

/// Collects the resources and prompts to compare, from cached listings and rules. An unlisted URI
/// can be readable, too.
fn primitives_to_compare(
    configs: &[&Config],
    known: &CachedListings,
) -> BTreeMap<ServerRef, BTreeSet<PrimitiveRef>> {
    let mut all: BTreeMap<ServerRef, BTreeSet<PrimitiveRef>> = BTreeMap::new();
    for config in configs {
        let policy = &config.policy;
        for (toolbox, server) in config.servers() {
            let at = ServerRef { toolbox: toolbox.name.clone(), server: server.name.clone() };
            let listing = known.get(&at);
            let found = all.entry(at).or_default();
            let name = server.name.as_str();
            let (agents, of) = (policy.agents.values(), |lists: &BTreeMap<String, Vec<String>>| {
                lists.get(name).cloned().unwrap_or_default()
            });
            let (mut resources, mut prompts) =
                (of(&policy.exposed_resources), of(&policy.exposed_prompts));
            for agent in agents {
                resources.extend(of(&agent.resource_overrides));
                prompts.extend(of(&agent.prompt_overrides));
            }
            resources.extend(server.resource_filters.iter().cloned());
            prompts.extend(server.prompt_filters.iter().cloned());
            // A glob matches itself, so it can stand for the entries it matches.
            let bare = |pattern: &String| pattern.strip_prefix('!').unwrap_or(pattern).to_owned();
            let (has_resources, has_prompts) = (!resources.is_empty(), !prompts.is_empty());
            found.extend(resources.iter().map(bare).map(PrimitiveRef::Resource));
            if has_resources && listing.is_none() {
                found.insert(PrimitiveRef::Resource(ANY_OTHER_RESOURCE.to_owned()));
            }
            let Some(listing) = listing else {
                found.extend(prompts.iter().map(bare).map(PrimitiveRef::Prompt));
                found
                    .extend(has_prompts.then(|| PrimitiveRef::Prompt(ANY_OTHER_PROMPT.to_owned())));
                continue;
            };
            found.extend(
                listing.resources.iter().map(|one| PrimitiveRef::Resource(one.uri.clone())),
            );
            found.extend(
                listing.templates.iter().map(|one| PrimitiveRef::Resource(one.uri.clone())),
            );
            found.extend(listing.prompts.iter().map(|one| PrimitiveRef::Prompt(one.name.clone())));
        }
    }
    all
}

pub(crate) fn in_words(changes: &[AgentChanges]) -> String {
    if changes.is_empty() {
        return "no changes for any agent".to_owned();
    }
    let mut lines = Vec::new();
    for AgentChanges { agent, gained, lost, changed } in changes {
        lines.push(match agent {
            Some(agent) => format!("agent `{agent}`"),
            None => "any other agent".to_owned(),
        });
        lines.extend(gained.iter().map(|entry| format!("  + {}", entry.in_words())));
        lines.extend(lost.iter().map(|entry| format!("  - {}", entry.in_words())));
        lines.extend(changed.iter().map(|ChangedTerms { entry, before, after }| {
            format!("  ~ {}: {}, was {}", entry.in_words(), after.in_words(), before.in_words())
        }));
        lines.push(String::new());
    }
    let sum = |of: fn(&AgentChanges) -> usize| changes.iter().map(of).sum::<usize>();
    lines.push(format!(
        "{}: {} gained, {} lost, {} changed",
        format_count(changes.len(), "agent"),
        sum(|c| c.gained.len()),
        sum(|c| c.lost.len()),
        sum(|c| c.changed.len()),
    ));
    lines.join("\n")
}

fn place(toolbox: &str, server: &str) -> String {
    if toolbox == server { server.to_owned() } else { format!("{toolbox}/{server}") }
}

impl AccessEntry {
    fn in_words(&self) -> String {
        let Self { toolbox, server, tool, primitive: besides, is_whole } = self;
        let place = place(toolbox, server);
        match (tool, besides) {
            (Some(tool), _) => format!("{place}: {tool}"),
            (None, Some(PrimitiveRef::Resource(uri))) => format!("{place}: resource {uri}"),
            (None, Some(PrimitiveRef::Prompt(name))) => format!("{place}: prompt {name}"),
            (None, None) if *is_whole => {
                format!("{place}: the server, with its resources and prompts")
            }
            (None, None) => format!("{place}: the server"),
        }
    }
}

impl AccessTerms {
    fn in_words(&self) -> String {
        let mut words = Vec::new();
        if self.confirmed {
            words.push("with user confirmation".to_owned());
        }
        words.extend(self.conditions.iter().map(|condition| format!("when {condition}")));
        if words.is_empty() { "without conditions".to_owned() } else { words.join(", ") }
    }
}
