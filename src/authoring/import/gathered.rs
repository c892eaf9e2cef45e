//! Servers that were gathered from files: what can be started before it is decided in which
//! toolboxes they are to be, and the plan once that is known.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value, json};

use crate::authoring::import::block::{Block, BlockLaunch, Doubt};
use crate::authoring::import::merge::{Merge, free_name};
use crate::authoring::import::places::Description;
use crate::authoring::import::source::{self, Contents, Found, Group};
use crate::authoring::import::{
    Grade, HideSecrets, ImportFinding, ImportPlan, KeepSecrets, Options, Outcome, Source, launches,
};
use crate::config::syntax::document;
use crate::config::syntax::finding::Report;

/// The servers of some files, each once, and what there is to say of them.
#[derive(Debug)]
pub struct Gathered {
    existing: Option<Source>,
    sources: Vec<Source>,
    contents: Vec<Contents>,
    servers: Vec<Server>,
}

/// A server that a configuration does not have yet, and for which a toolbox can be proposed.
#[derive(Clone, Debug)]
pub struct Server {
    /// A name that no other of them has.
    pub name: String,
    /// The file it is from.
    pub file: String,
    /// Its description in its file.
    pub description: Option<String>,
    /// The words that start it, or its address; without its environment.
    pub words: Vec<String>,
    /// `true` if it is switched off.
    pub is_off: bool,
    /// Its block, as a configuration of ours has it.
    pub block: Map<String, Value>,
    key: (String, BlockLaunch),
}

/// A server of a client's file that the configuration has, or is going to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Carried {
    /// The file, as its source names it.
    pub file: String,
    /// Its name there.
    pub name: String,
    /// Its place among the servers that were gathered; `None`: the configuration has it already.
    pub server: Option<usize>,
}

/// Returns `true` if a file has servers in it, or cannot be read.
pub fn has_servers(source: &Source) -> bool {
    !source::read(source, &mut KeepSecrets).is_beside_the_point
}

/// Reads `sources`, and finds the servers in them that `existing` does not have. Secrets in their
/// arguments and addresses are hidden by `secrets`.
pub fn gather(
    existing: Option<&Source>,
    sources: &[Source],
    secrets: &mut dyn HideSecrets,
) -> Result<Gathered, Report> {
    let contents = sources.iter().map(|source| source::read(source, secrets)).collect();
    gather_from(existing, sources, contents)
}

/// Like [`gather`], without the servers that are switched off and those of single projects. Servers
/// that start alike are one, whatever each client calls it.
pub fn gather_own(
    existing: Option<&Source>,
    sources: &[Source],
    secrets: &mut dyn HideSecrets,
) -> Result<Gathered, Report> {
    let own = sources.iter().map(|source| {
        let mut contents = source::read(source, secrets);
        (contents.top, contents.rules) = (None, None);
        contents.groups.retain(|group| group.is_top && is_open(group));
        for group in &mut contents.groups {
            group.servers.retain(|found| !is_off(&found.block));
        }
        contents
    });
    let mut own: Vec<Contents> = own.collect();
    let options = Options::default();
    let merge = Merge::new(existing, &options)?;
    let known = merge.servers().map(|(name, launch)| (name.to_owned(), launch.clone()));
    one_name_each(known.collect(), &mut own);
    gather_from(existing, sources, own)
}

/// Gives each server the name of the first that starts alike, of those that are known and of these.
fn one_name_each(mut known: Vec<(String, BlockLaunch)>, contents: &mut [Contents]) {
    let groups = contents.iter_mut().flat_map(|contents| &mut contents.groups);
    for found in groups.flat_map(|group| &mut group.servers) {
        let launch = &found.block.launch;
        match known.iter().find(|(_, other)| other == launch) {
            Some((name, _)) => found.name.clone_from(name),
            None => known.push((found.name.clone(), launch.clone())),
        }
    }
}

/// Returns `wanted`, or a name like it that none of these servers has.
fn free_of(servers: &[Server], wanted: &str) -> String {
    free_name(wanted, |name| servers.iter().any(|server| server.name == name))
}

fn gather_from(
    existing: Option<&Source>,
    sources: &[Source],
    contents: Vec<Contents>,
) -> Result<Gathered, Report> {
    let options = Options::default();
    let merge = Merge::new(existing, &options)?;
    let mut servers: Vec<Server> = Vec::new();
    let groups = contents.iter().flat_map(|contents| &contents.groups);
    for found in groups.filter(|group| is_open(group)).flat_map(|group| &group.servers) {
        let key = key(found);
        let is_known = servers.iter().any(|server| server.key == key);
        if is_known || found.block.launch.is_workbench() || merge.has(found) {
            continue;
        }
        let Value::Object(block) = launches::value(found.block.clone().into_value()) else {
            continue;
        };
        servers.push(Server {
            name: free_of(&servers, &found.name),
            file: found.file.clone(),
            description: block.get("description").and_then(Value::as_str).map(str::to_owned),
            words: words(&found.block),
            is_off: is_off(&found.block),
            block,
            key,
        });
    }
    let (existing, sources) = (existing.cloned(), sources.to_vec());
    Ok(Gathered { existing, sources, contents, servers })
}

fn is_off(block: &Block) -> bool {
    let block = launches::value(block.clone().into_value());
    block.get("disabled") == Some(&Value::Bool(true))
}

/// Returns `true` if the servers of a group may be put into other toolboxes than their file has.
fn is_open(group: &Group) -> bool {
    !group.is_apart && matches!(group.description, Description::Client(_))
}

/// Returns the parts of a server that make two of two files the same.
fn key(found: &Found) -> (String, BlockLaunch) {
    (found.name.clone(), found.block.launch.clone())
}

fn words(block: &Block) -> Vec<String> {
    match &block.launch {
        BlockLaunch::Command { command, args, .. } => {
            [command].into_iter().chain(args).cloned().collect()
        }
        BlockLaunch::Url { url, .. } => vec![url.clone()],
    }
}

impl Gathered {
    /// The servers for which toolboxes can be proposed.
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// Every server of the files that the configuration has or is going to have.
    pub fn carried(&self) -> Vec<Carried> {
        let found = self.found().filter(|found| !found.block.launch.is_workbench());
        let carried = found.map(|found| Carried {
            file: found.file.clone(),
            name: found.called.clone(),
            server: self.servers.iter().position(|server| server.key == key(found)),
        });
        carried.collect()
    }

    /// The servers of the files that are the workbench itself, each by its file and its name there.
    pub fn workbenches(&self) -> Vec<(String, String)> {
        let found = self.found().filter(|found| found.block.launch.is_workbench());
        found.map(|found| (found.file.clone(), found.called.clone())).collect()
    }

    /// The rest, without the servers in these places.
    #[must_use]
    pub fn without(mut self, places: &[usize]) -> Self {
        let servers = std::mem::take(&mut self.servers).into_iter().enumerate();
        let (left, kept): (Vec<_>, Vec<_>) = servers.partition(|(place, _)| places.contains(place));
        let left: Vec<_> = left.into_iter().map(|(_, server)| server.key).collect();
        for group in self.contents.iter_mut().flat_map(|contents| &mut contents.groups) {
            group.servers.retain(|found| !left.contains(&key(found)));
        }
        let mut servers: Vec<Server> = Vec::new();
        for (_, server) in kept {
            // What it is called may have been the name of one that is left out.
            let found = self.found().find(|found| key(found) == server.key);
            let wanted = found.map_or(server.name.as_str(), |found| found.name.as_str());
            servers.push(Server { name: free_of(&servers, wanted), ..server });
        }
        self.servers = servers;
        self
    }

    fn found(&self) -> impl Iterator<Item = &Found> {
        let groups = self.contents.iter().flat_map(|contents| &contents.groups);
        groups.flat_map(|group| &group.servers)
    }

    /// The text of a configuration with one of them in it, by itself.
    pub fn trial(&self, index: usize) -> Option<String> {
        let server = self.servers.get(index)?;
        let mut block = server.block.clone();
        block.remove("namespace");
        Some(json!({ "mcpServers": { (server.name.as_str()): block } }).to_string())
    }

    /// Works out what importing them comes to.
    pub fn plan(self, options: &Options) -> Result<ImportPlan, Report> {
        let Self { existing, sources, contents, servers } = self;
        let top = existing.as_ref().map(top);
        let mut merge = Merge::new(existing.as_ref(), options)?;
        let mut placing = Placing::new(&servers, options);
        let mut findings = Vec::new();
        let mut has_refused_rules = false;
        // Beside other files the rules of one would hold for their servers too.
        let (is_alone, nothing) = (sources.len() == 1, Map::new());
        for (source, contents) in sources.iter().zip(contents) {
            let Contents { groups, top: own, rules, findings: notes, .. } = contents;
            findings.extend(notes);
            if let Some(rules) = rules {
                let into = if is_alone { top.as_ref() } else { top.as_ref().or(Some(&nothing)) };
                match rules.settings(into) {
                    Ok(settings) => merge.add_settings(settings),
                    Err(why) => {
                        findings.push(refused(source, &why));
                        has_refused_rules = true;
                        continue;
                    }
                }
            }
            let mut names = HashMap::new();
            for mut group in groups {
                for found in &mut group.servers {
                    findings.extend(placing.settle(found));
                }
                if is_open(&group) && !options.proposal.is_empty() {
                    placing.take(group.servers);
                } else {
                    merge.add(group, &mut names, &mut findings);
                }
            }
            if let Some(own) = own {
                merge.add_top(own, source, &names, &mut findings);
            }
        }
        for group in placing.into_groups(options) {
            merge.add(group, &mut HashMap::new(), &mut findings);
        }
        let place =
            |finding: &ImportFinding| sources.iter().position(|source| source.file == finding.file);
        findings.sort_by_key(place);
        let (text, added) = merge.finish()?;
        Ok(ImportPlan { text, added, findings, has_refused_rules })
    }
}

fn top(existing: &Source) -> Map<String, Value> {
    let tree = document::parse(document::without_mark(&existing.text));
    match tree.map(Value::from) {
        Ok(Value::Object(members)) => members,
        _ => Map::new(),
    }
}

fn refused(source: &Source, why: &str) -> ImportFinding {
    ImportFinding {
        grade: Grade::Unsupported,
        file: source.file.clone(),
        path: String::new(),
        position: None,
        message: format!("not carried over, and none of its servers either: {why}"),
        hint: Some(
            "import it alone into a new file (`--config new.json`), or serve the file as it is"
                .to_owned(),
        ),
    }
}

/// The servers of files on their way into the toolboxes that are proposed.
struct Placing<'a> {
    servers: &'a [Server],
    outcomes: &'a [Outcome],
    /// The servers for each toolbox that is proposed.
    proposed: Vec<Vec<Found>>,
    /// The servers that nobody has proposed a toolbox for: there already, or the workbench itself.
    rest: Vec<Found>,
    /// For each of the servers which toolbox it goes to.
    toolbox_of: HashMap<usize, usize>,
    told: HashSet<usize>,
}

impl<'a> Placing<'a> {
    fn new(servers: &'a [Server], options: &'a Options) -> Self {
        let toolboxes = options.proposal.iter().enumerate();
        let toolbox_of = toolboxes.flat_map(|(toolbox, proposal)| {
            proposal.servers.iter().map(move |server| (*server, toolbox))
        });
        Self {
            servers,
            outcomes: &options.outcomes,
            proposed: options.proposal.iter().map(|_| Vec::new()).collect(),
            rest: Vec::new(),
            toolbox_of: toolbox_of.collect(),
            told: HashSet::new(),
        }
    }

    fn index(&self, found: &Found) -> Option<usize> {
        self.servers
            .iter()
            .position(|server| server.key.0 == found.name && server.key.1 == found.block.launch)
    }

    /// Grades a server by what came of starting it, and says what there is to say of that.
    fn settle(&mut self, found: &mut Found) -> Option<ImportFinding> {
        let index = self.index(found);
        let is_first = index.is_none_or(|index| self.told.insert(index));
        let outcome = index.and_then(|index| self.outcomes.get(index));
        let (grade, message, hint) = match outcome.unwrap_or(&Outcome::NotStarted) {
            Outcome::Started => return None,
            Outcome::WantsSignIn => (
                Grade::Approximate,
                "it wants its user to sign in".to_owned(),
                sign_in(&found.name),
            ),
            Outcome::Failed { reason, hint } => (
                Grade::Manual,
                format!(
                    "it could not be started, so its name alone says where it belongs: {reason}"
                ),
                hint.clone(),
            ),
            Outcome::NotStarted => match found.doubt? {
                Doubt::SignIn => (
                    Grade::Approximate,
                    "it may want its user to sign in".to_owned(),
                    sign_in(&found.name),
                ),
            },
        };
        found.grade = found.grade.max(grade);
        is_first.then(|| found.note(grade, message, Some(hint)))
    }

    fn take(&mut self, servers: Vec<Found>) {
        for found in servers {
            let index = self.index(&found);
            let toolbox = index.and_then(|index| self.toolbox_of.get(&index));
            match toolbox.and_then(|toolbox| self.proposed.get_mut(*toolbox)) {
                Some(servers) => servers.push(found),
                None => self.rest.push(found),
            }
        }
    }

    fn into_groups(self, options: &Options) -> Vec<Group> {
        let group = |name: &str, description, servers| Group {
            name: name.to_owned(),
            description,
            namespace: None,
            is_apart: false,
            is_top: false,
            servers,
        };
        let proposed = options.proposal.iter().zip(self.proposed).map(|(proposal, servers)| {
            let description = Description::Written(proposal.description.clone());
            group(&proposal.name, description, servers)
        });
        let rest = group("imported", Description::Client("other clients"), self.rest);
        proposed.chain([rest]).filter(|group| !group.servers.is_empty()).collect()
    }
}

/// The advice for a server that wants its user to sign in.
fn sign_in(server: &str) -> String {
    format!(
        "run `mcp-workbench auth login {server}`, or write a token that it takes into `headers`: \
         `\"Authorization\": \"Bearer ${{TOKEN}}\"`"
    )
}
