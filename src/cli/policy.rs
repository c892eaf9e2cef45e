//! `policy diff`: what each agent gains and loses between two configurations. The log says the same of
//! one that waits.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Subcommand;
use serde::Serialize;

use crate::catalog::Listing;
use crate::cli::error::Error;
use crate::cli::global::as_run;
use crate::cli::known::{self, Known};
use crate::cli::size::count;
use crate::cli::values::Looking;
use crate::cli::{Global, print};
use crate::config;
use crate::config::env::ProcessEnv;
use crate::name::{AgentName, ServerRef, ToolId};
use crate::policy::{Besides, Moment, Policies, Traits};
use crate::settings::{Config, Launch, ServerConfig};

const EXAMPLES: &str = "\
Examples:
  mcp-workbench policy diff old.json workbench-config.json
  git show HEAD:workbench-config.json > /tmp/old.json
  mcp-workbench policy diff /tmp/old.json workbench-config.json --json";

/// Compare who may use what
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show what each agent gains and loses from one configuration to another
    ///
    /// Starts nothing. Of servers that have run before, the tools are named that they have; of
    /// others, what the lists name. Conditions and confirmations count as changes.
    ///
    /// Exits with 0 if nothing changes, 1 if something does, 2 if a configuration cannot be used.
    Diff {
        /// The configuration as it was
        old: PathBuf,
        /// The configuration as it is to be
        new: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// Does what the command line says.
pub(crate) fn run(global: &Global, args: &Args) -> Result<ExitCode, Error> {
    let Command::Diff { old, new, json } = &args.command;
    let [old, new] = [load(global, old)?, load(global, new)?];
    let known = known_of(global, &old, &new)?;
    note_unknown(&[&old, &new], &known);
    let listings = listings_of(global, &old, &new)?;
    let changes = changes(old, new, &known, &listings);
    if *json {
        print::json(&changes)?;
    } else {
        print::prose(&in_words(&changes))?;
    }
    let is_same = changes.is_empty();
    Ok(if is_same { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Says what each agent gains and loses from one configuration to another that is read while it is
/// served, and which servers are launched in another way.
pub(crate) fn difference(global: &Global, old: &Config, new: &Config) -> Result<String, Error> {
    let known = known_of(global, old, new)?;
    let launched = |config: &Config| -> BTreeMap<String, Launch> {
        let toolboxes = config.toolboxes.iter();
        let servers = toolboxes.flat_map(|toolbox| {
            let name = |server: &ServerConfig| place(toolbox.name.as_str(), server.name.as_str());
            toolbox.launched().map(move |server| (name(server), server.launch.clone()))
        });
        servers.collect()
    };
    let (before, now) = (launched(old), launched(new));
    let is_other = |server: &&String| before.get(*server).is_some_and(|was| *was != now[*server]);
    let mut lines: Vec<String> =
        now.keys().filter(is_other).map(|name| format!("launched otherwise: {name}")).collect();
    let listings = listings_of(global, old, new)?;
    lines.push(in_words(&changes(old.clone(), new.clone(), &known, &listings)));
    Ok(lines.join("\n"))
}

/// The tools of the servers of two configurations: what either knows of a server is known of it.
fn known_of(global: &Global, old: &Config, new: &Config) -> Result<Known, Error> {
    let mut known = known::tools(global, old)?;
    known.extend(known::tools(global, new)?);
    Ok(known)
}

/// Looks up all that the servers of two configurations list.
fn listings_of(global: &Global, old: &Config, new: &Config) -> Result<Listings, Error> {
    let mut known = known::listings(global, old)?;
    known.extend(known::listings(global, new)?);
    Ok(known)
}

/// Says of which servers it is not known what they have, for then less can be compared.
fn note_unknown(configs: &[&Config], known: &Known) {
    let mut unknown = BTreeSet::new();
    for toolbox in configs.iter().flat_map(|config| &config.toolboxes) {
        for server in toolbox.launched() {
            let at = ServerRef { toolbox: toolbox.name.clone(), server: server.name.clone() };
            if !known.contains_key(&at) {
                unknown.insert(format!("`{}`", server.name));
            }
        }
    }
    if !unknown.is_empty() {
        let names: Vec<String> = unknown.into_iter().collect();
        print::note(&format!(
            "nothing is kept of what these servers have, so that only what lists name is compared: \
             {}\n\
             hint: `mcp-workbench cache refresh` starts servers once and keeps what they list",
            names.join(", ")
        ));
    }
}

fn load(global: &Global, file: &Path) -> Result<Config, Error> {
    let folder = std::env::current_dir().map_err(Error::internal)?;
    let location = config::locate(Some(file.to_owned()), &ProcessEnv, &folder);
    let loaded = config::load(&location, &ProcessEnv, &Looking).map_err(Error::config)?;
    Ok(as_run(loaded, global.mode, &folder).config)
}

/// The changes for one agent.
#[derive(Debug, Serialize)]
struct Changes {
    /// `None`: all without an entry.
    agent: Option<String>,
    gained: Vec<Entry>,
    lost: Vec<Entry>,
    changed: Vec<Changed>,
}

#[derive(Debug, Serialize)]
struct Entry {
    toolbox: String,
    server: String,
    /// `None`: the server as such, with its resources and prompts, or one of those.
    tool: Option<String>,
    #[serde(flatten)]
    besides: Option<Of>,
    /// `true` if a server stands for all of its resources and prompts.
    #[serde(skip)]
    is_whole: bool,
}

/// A resource or a prompt.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
enum Of {
    Resource(String),
    Prompt(String),
}

impl Of {
    fn as_asked(&self) -> Besides<'_> {
        match self {
            Self::Resource(uri) => Besides::Resource(uri),
            Self::Prompt(name) => Besides::Prompt(name),
        }
    }
}

type Listings = HashMap<ServerRef, Arc<Listing>>;

#[derive(Debug, Serialize)]
struct Changed {
    #[serde(flatten)]
    entry: Entry,
    before: Terms,
    after: Terms,
}

/// On which terms a tool may be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Terms {
    /// `true` if the user confirms each call.
    confirmed: bool,
    /// The conditions that have to hold, in words.
    conditions: Vec<String>,
}

/// The tools that no list names, of a server of which nothing is kept.
const ANY_OTHER: &str = "(any other tool)";
/// The resources and prompts that no list names, likewise.
const ANY_OTHER_RESOURCE: &str = "(any other resource)";
const ANY_OTHER_PROMPT: &str = "(any other prompt)";

fn changes(old: Config, new: Config, known: &Known, listings: &Listings) -> Vec<Changes> {
    let names = |config: &Config| config.policy.agents.keys().cloned().collect::<Vec<_>>();
    let agents: BTreeSet<AgentName> = [names(&old), names(&new)].into_iter().flatten().collect();
    let candidates = candidates(&[&old, &new], known);
    let besides = besides(&[&old, &new], listings);
    let [old, new] = [old, new].map(|config| Policies::new(Arc::new(config)));
    let agents = agents.into_iter().map(Some).chain([None]);
    let compare = |agent: Option<AgentName>| {
        let mut changes = Changes {
            agent: agent.as_ref().map(ToString::to_string),
            gained: Vec::new(),
            lost: Vec::new(),
            changed: Vec::new(),
        };
        for (at, tools) in &candidates {
            let entry = |tool: Option<&str>, is_whole| Entry {
                toolbox: at.toolbox.to_string(),
                server: at.server.to_string(),
                tool: tool.map(str::to_owned),
                besides: None,
                is_whole,
            };
            let is_there = |policies: &Policies| {
                let seen = policies.seen_by(agent.as_ref(), None);
                seen.toolbox(at.toolbox.as_str())
                    .is_some_and(|toolbox| toolbox.server(at.server.as_str()).is_some())
            };
            let listing = listings.get(at).cloned().unwrap_or_default();
            let may_have = |policies: &Policies, one: &Of| {
                let asked = one.as_asked();
                let verdict = policies.explain_besides(agent.as_ref(), at, asked, &listing);
                verdict.is_some_and(|verdict| verdict.is_visible)
            };
            let besides = || besides.get(at).into_iter().flatten();
            // A server stands for what it has where the agent may have all of that.
            let has_all = |policies: &Policies| besides().all(|one| may_have(policies, one));
            let is_whole = match (is_there(&old), is_there(&new)) {
                (false, true) => has_all(&new),
                (true, false) => has_all(&old),
                _ => false,
            };
            match (is_there(&old), is_there(&new)) {
                (false, true) => changes.gained.push(entry(None, is_whole)),
                (true, false) => changes.lost.push(entry(None, is_whole)),
                _ => {}
            }
            for one in besides().filter(|_| !is_whole) {
                let entry = || Entry { besides: Some(one.clone()), ..entry(None, true) };
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
                        changes.changed.push(Changed {
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

/// On which terms an agent may use a tool, if it may.
fn terms(
    policies: &Policies,
    agent: Option<&AgentName>,
    at: &ServerRef,
    tool: &str,
    traits: Traits,
) -> Option<Terms> {
    let ServerRef { toolbox, server } = at.clone();
    let id = ToolId { toolbox, server, tool: tool.to_owned() };
    // What depends on the time is compared in words.
    let explanation = policies.explain(agent, &id, traits, Moment::new(0))?;
    explanation.is_allowed.then(|| Terms {
        confirmed: explanation.confirmation.is_some(),
        conditions: explanation.demands.into_iter().map(|demand| demand.words).collect(),
    })
}

/// The tools to compare: those that servers have, and where that is not known, what the lists name.
fn candidates(configs: &[&Config], known: &Known) -> BTreeMap<ServerRef, BTreeMap<String, Traits>> {
    let mut all: BTreeMap<ServerRef, BTreeMap<String, Traits>> = BTreeMap::new();
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
                // A glob matches itself, so that it stands for what it means.
                let named = named.map(|name| name.strip_prefix(&prefix).unwrap_or(name));
                let named = named.chain([ANY_OTHER]);
                tools.extend(named.map(|name| (name.to_owned(), Traits::default())));
            }
        }
    }
    all
}

/// The resources and prompts to compare: those that servers list, and those that lists name. An address
/// need not be listed to be read.
fn besides(configs: &[&Config], known: &Listings) -> BTreeMap<ServerRef, BTreeSet<Of>> {
    let mut all: BTreeMap<ServerRef, BTreeSet<Of>> = BTreeMap::new();
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
            // A glob matches itself, so that it stands for what it means.
            let bare = |pattern: &String| pattern.strip_prefix('!').unwrap_or(pattern).to_owned();
            let (has_resources, has_prompts) = (!resources.is_empty(), !prompts.is_empty());
            found.extend(resources.iter().map(bare).map(Of::Resource));
            if has_resources && listing.is_none() {
                found.insert(Of::Resource(ANY_OTHER_RESOURCE.to_owned()));
            }
            let Some(listing) = listing else {
                found.extend(prompts.iter().map(bare).map(Of::Prompt));
                found.extend(has_prompts.then(|| Of::Prompt(ANY_OTHER_PROMPT.to_owned())));
                continue;
            };
            found.extend(listing.resources.iter().map(|one| Of::Resource(one.uri.clone())));
            found.extend(listing.templates.iter().map(|one| Of::Resource(one.uri.clone())));
            found.extend(listing.prompts.iter().map(|one| Of::Prompt(one.name.clone())));
        }
    }
    all
}

fn in_words(changes: &[Changes]) -> String {
    if changes.is_empty() {
        return "nothing changes for any agent".to_owned();
    }
    let mut lines = Vec::new();
    for Changes { agent, gained, lost, changed } in changes {
        lines.push(match agent {
            Some(agent) => format!("agent `{agent}`"),
            None => "any other agent".to_owned(),
        });
        lines.extend(gained.iter().map(|entry| format!("  + {}", entry.in_words())));
        lines.extend(lost.iter().map(|entry| format!("  - {}", entry.in_words())));
        lines.extend(changed.iter().map(|Changed { entry, before, after }| {
            format!("  ~ {}: {}, was {}", entry.in_words(), after.in_words(), before.in_words())
        }));
        lines.push(String::new());
    }
    let sum = |of: fn(&Changes) -> usize| changes.iter().map(of).sum::<usize>();
    lines.push(format!(
        "{}: {} gained, {} lost, {} changed",
        count(changes.len(), "agent"),
        sum(|c| c.gained.len()),
        sum(|c| c.lost.len()),
        sum(|c| c.changed.len()),
    ));
    lines.join("\n")
}

/// A server in its toolbox, as users read it.
fn place(toolbox: &str, server: &str) -> String {
    if toolbox == server { server.to_owned() } else { format!("{toolbox}/{server}") }
}

impl Entry {
    fn in_words(&self) -> String {
        let Self { toolbox, server, tool, besides, is_whole } = self;
        let place = place(toolbox, server);
        match (tool, besides) {
            (Some(tool), _) => format!("{place}: {tool}"),
            (None, Some(Of::Resource(uri))) => format!("{place}: resource {uri}"),
            (None, Some(Of::Prompt(name))) => format!("{place}: prompt {name}"),
            (None, None) if *is_whole => {
                format!("{place}: the server, with its resources and prompts")
            }
            (None, None) => format!("{place}: the server"),
        }
    }
}

impl Terms {
    fn in_words(&self) -> String {
        let mut words = Vec::new();
        if self.confirmed {
            words.push("confirmed by the user".to_owned());
        }
        words.extend(self.conditions.iter().map(|condition| format!("when {condition}")));
        if words.is_empty() { "freely".to_owned() } else { words.join(", ") }
    }
}
