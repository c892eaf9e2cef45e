//! Which servers are new, and under which names they can stand beside those that are there.

use crate::config::document::{self, Node};
use crate::config::finding::Report;
use crate::config::import::block::{Block, BlockLaunch, Dialect};
use crate::config::import::source::{Description, Found, Group, entries};
use crate::config::import::{Added, Grade, Grouping, ImportFinding, Options, Source, emit};
use crate::config::raw::RawServer;
use crate::config::reader::{Located, Reader};
use crate::config::server::Means;

/// One change to the text of a configuration.
pub(super) enum Addition {
    /// A toolbox, with no servers yet.
    Toolbox { name: String, description: String },
    /// A server in a toolbox that is there.
    ToToolbox { toolbox: String, name: String, block: Block },
    /// A server under the top-level `mcpServers`.
    Server { name: String, block: Block },
}

/// The configuration as it grows.
pub(super) struct Merge<'a> {
    existing: Source,
    options: &'a Options,
    toolboxes: Vec<Toolbox>,
    additions: Vec<Addition>,
    added: Vec<Added>,
}

/// What is known of a toolbox: enough to see whether a server is already there.
struct Toolbox {
    name: String,
    /// Whether it is a server of the top-level `mcpServers`, to which nothing can be added.
    alone: bool,
    servers: Vec<(String, Option<BlockLaunch>)>,
}

impl<'a> Merge<'a> {
    pub(super) fn new(existing: Option<&Source>, options: &'a Options) -> Result<Self, Report> {
        let existing = existing.cloned().unwrap_or_else(|| Source {
            file: "workbench-config.json".to_owned(),
            text: emit::EMPTY.to_owned(),
        });
        emit::check(&existing)?;
        Ok(Self {
            toolboxes: toolboxes(&existing),
            existing,
            options,
            additions: Vec::new(),
            added: Vec::new(),
        })
    }

    /// Adds the servers of a group that are not there yet.
    pub(super) fn add(&mut self, group: Group, findings: &mut Vec<ImportFinding>) {
        let Group { name, description, servers } = group;
        let wanted = self.options.toolbox.clone().unwrap_or(name);
        let by_server = self.options.toolbox.is_none() && self.options.grouping == Grouping::Server;
        // Its name may turn out to be taken, so the toolbox is looked for once.
        let mut index = None;
        for found in servers {
            if found.block.launch.is_workbench() {
                let message = "left out: it is the workbench itself".to_owned();
                findings.push(found.note(Grade::Exact, message, None));
            } else if let Some(toolbox) = self.holder(&found) {
                let message = format!("it is in toolbox `{toolbox}` already");
                findings.push(found.note(Grade::Exact, message, None));
            } else if by_server {
                self.add_alone(found, findings);
            } else {
                let index = *index
                    .get_or_insert_with(|| self.toolbox(&wanted, &description, &found, findings));
                self.add_to(index, found, findings);
            }
        }
    }

    /// The text with everything added, and what was added.
    pub(super) fn finish(self) -> Result<(String, Vec<Added>), Report> {
        let text = emit::extend(&self.existing, self.additions)?;
        Ok((text, self.added))
    }

    /// The toolbox that holds the very same server.
    fn holder(&self, found: &Found) -> Option<&str> {
        let holder = self.toolboxes.iter().find(|toolbox| {
            let mut servers = toolbox.servers.iter();
            servers.any(|(name, launch)| {
                *name == found.name && launch.as_ref() == Some(&found.block.launch)
            })
        });
        holder.map(|toolbox| toolbox.name.as_str())
    }

    /// The toolbox to add to, made if it is not there.
    fn toolbox(
        &mut self,
        wanted: &str,
        description: &Description,
        first: &Found,
        findings: &mut Vec<ImportFinding>,
    ) -> usize {
        let there = |toolbox: &Toolbox| !toolbox.alone && toolbox.name == wanted;
        if let Some(index) = self.toolboxes.iter().position(there) {
            return index;
        }
        let taken = |name: &str| self.toolboxes.iter().any(|toolbox| toolbox.name == name);
        let name = free_name(wanted, taken);
        let description = match description {
            Description::Written(text) => text.clone(),
            Description::Client(client) => {
                let hint = "say what its servers are for: agents choose by it";
                findings.push(ImportFinding {
                    path: String::new(),
                    position: None,
                    ..first.note(
                        Grade::Manual,
                        format!("toolbox `{name}` has a description made by machine"),
                        Some(hint.to_owned()),
                    )
                });
                format!("Servers imported from {client}")
            }
        };
        self.additions.push(Addition::Toolbox { name: name.clone(), description });
        self.toolboxes.push(Toolbox { name, alone: false, servers: Vec::new() });
        self.toolboxes.len() - 1
    }

    fn add_to(&mut self, index: usize, found: Found, findings: &mut Vec<ImportFinding>) {
        let Some(toolbox) = self.toolboxes.get_mut(index) else {
            return;
        };
        let taken = |name: &str| toolbox.servers.iter().any(|(other, _)| other == name);
        let name = free_name(&found.name, taken);
        findings.extend(renamed(&found, &name));
        let launch = found.block.launch.clone();
        toolbox.servers.push((name.clone(), Some(launch)));
        self.added.push(Added {
            toolbox: toolbox.name.clone(),
            server: name.clone(),
            file: found.file,
            grade: found.grade,
        });
        self.additions.push(Addition::ToToolbox {
            toolbox: toolbox.name.clone(),
            name,
            block: found.block,
        });
    }

    fn add_alone(&mut self, found: Found, findings: &mut Vec<ImportFinding>) {
        let taken = |name: &str| self.toolboxes.iter().any(|toolbox| toolbox.name == name);
        let name = free_name(&found.name, taken);
        findings.extend(renamed(&found, &name));
        self.toolboxes.push(Toolbox {
            name: name.clone(),
            alone: true,
            servers: vec![(found.name, Some(found.block.launch.clone()))],
        });
        self.added.push(Added {
            toolbox: name.clone(),
            server: name.clone(),
            file: found.file,
            grade: found.grade,
        });
        self.additions.push(Addition::Server { name, block: found.block });
    }
}

fn renamed(found: &Found, name: &str) -> Option<ImportFinding> {
    (found.name != name).then(|| {
        let message = format!("another `{}` is there: added as `{name}`", found.name);
        found.note(Grade::Approximate, message, None)
    })
}

/// `wanted`, or the first of `wanted-2`, `wanted-3`, … that is not taken.
fn free_name(wanted: &str, taken: impl Fn(&str) -> bool) -> String {
    let mut name = wanted.to_owned();
    let mut number = 2;
    while taken(&name) {
        name = format!("{wanted}-{number}");
        number += 1;
    }
    name
}

/// What is in a configuration already.
fn toolboxes(existing: &Source) -> Vec<Toolbox> {
    let Ok(tree) = document::parse(document::without_mark(&existing.text)) else {
        return Vec::new();
    };
    let root = Node::root(&tree);
    let launch = |node: &Node<'_>| {
        let mut reader = Reader::new(None);
        let mut fields = reader.fields(node)?;
        let raw = RawServer::read(&mut fields, &mut reader);
        let name = Located { value: String::new(), spot: node.spot.clone() };
        let means = Means::of(&raw, &name, &mut reader)?;
        let (block, _) = Block::new(raw, means, &Dialect::default())?;
        Some(block.launch)
    };
    let mut toolboxes = Vec::new();
    for (name, node) in root.get("toolboxes").iter().flat_map(entries) {
        let servers = node.get("mcpServers");
        let servers = servers.iter().flat_map(entries);
        toolboxes.push(Toolbox {
            name: name.value,
            alone: false,
            servers: servers.map(|(name, node)| (name.value, launch(&node))).collect(),
        });
    }
    for (name, node) in root.get("mcpServers").iter().flat_map(entries) {
        toolboxes.push(Toolbox {
            servers: vec![(name.value.clone(), launch(&node))],
            name: name.value,
            alone: true,
        });
    }
    toolboxes
}
