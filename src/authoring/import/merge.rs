//! Which servers are new, and under which names they can stand beside those that are there.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::authoring::import::block::{Block, BlockLaunch, Dialect};
use crate::authoring::import::category::Top;
use crate::authoring::import::emit::{self, Addition};
use crate::authoring::import::nodes::entries;
use crate::authoring::import::places::Description;
use crate::authoring::import::source::{Found, Group};
use crate::authoring::import::{
    Added, Grade, Grouping, ImportFinding, KeepSecrets, Options, Source,
};
use crate::config;
use crate::config::keys::raw::RawServer;
use crate::config::keys::server::Means;
use crate::config::syntax::document::{self, Node};
use crate::config::syntax::finding::Report;
use crate::config::syntax::reader::Located;
use crate::settings::ToolMode;

/// The configuration as it grows.
pub(super) struct Merge<'a> {
    existing: Source,
    /// The mode of the configuration; none if it has yet to get one.
    mode: Option<String>,
    /// The categories that are there.
    categories: Vec<(String, Value)>,
    active: Vec<String>,
    options: &'a Options,
    toolboxes: Vec<Toolbox>,
    additions: Vec<Addition>,
    added: Vec<Added>,
}

/// A toolbox as far as it is known: enough to see whether a server is already there.
struct Toolbox {
    name: String,
    /// `true` if it is a server of the top-level `mcpServers`, to which nothing can be added.
    alone: bool,
    servers: Vec<(String, Option<BlockLaunch>)>,
}

impl<'a> Merge<'a> {
    pub(super) fn new(existing: Option<&Source>, options: &'a Options) -> Result<Self, Report> {
        let top = existing.and_then(top);
        let is_new = existing.is_none();
        let existing = existing.cloned().unwrap_or_else(|| Source {
            file: "workbench-config.json".to_owned(),
            text: emit::EMPTY.to_owned(),
        });
        emit::check(&existing)?;
        let top = top.unwrap_or_default();
        let words = |key: &str| top.get(key).and_then(Value::as_array).into_iter().flatten();
        let categories = top.get("categories").and_then(Value::as_object).into_iter().flatten();
        let mode = top.get("toolMode").and_then(Value::as_str);
        let default = || ToolMode::default().as_str();
        Ok(Self {
            mode: (!is_new).then(|| mode.unwrap_or_else(default).to_owned()),
            categories: categories.map(|(name, value)| (name.clone(), value.clone())).collect(),
            active: words("activeToolsets")
                .filter_map(|word| Some(word.as_str()?.to_owned()))
                .collect(),
            toolboxes: toolboxes(&existing),
            existing,
            options,
            additions: Vec::new(),
            added: Vec::new(),
        })
    }

    /// Returns `true` if the configuration has this very server.
    pub(super) fn has(&self, found: &Found) -> bool {
        self.holder(found, false).is_some()
    }

    /// The servers of the configuration, each by its name and its launch.
    pub(super) fn servers(&self) -> impl Iterator<Item = (&str, &BlockLaunch)> {
        let servers = self.toolboxes.iter().flat_map(|toolbox| &toolbox.servers);
        servers.filter_map(|(name, launch)| Some((name.as_str(), launch.as_ref()?)))
    }

    /// Adds settings that stand at the top and are not there yet.
    pub(super) fn add_settings(&mut self, settings: Map<String, Value>) {
        let settings = settings.into_iter();
        self.additions.extend(settings.map(|(key, value)| Addition::Setting(key, value)));
    }

    /// Adds the servers of a group that are not there yet. `names` learns what those are called
    /// that stand alone.
    pub(super) fn add(
        &mut self,
        group: Group,
        names: &mut HashMap<String, String>,
        findings: &mut Vec<ImportFinding>,
    ) {
        let Group { name, description, namespace, is_apart, is_top: _, servers } = group;
        let wanted = self.options.toolbox.clone().unwrap_or(name);
        let by_server = self.options.toolbox.is_none()
            && (is_apart || self.options.grouping == Grouping::Server);
        // Its name may turn out to be taken, so the toolbox is looked for once.
        let mut index = None;
        for found in servers {
            if found.block.launch.is_workbench() {
                let message = "left out: it is the workbench itself".to_owned();
                findings.push(found.note(Grade::Exact, message, None));
            } else if let Some(toolbox) = self.holder(&found, is_apart) {
                if toolbox.alone {
                    names.insert(found.name.clone(), toolbox.name.clone());
                }
                let message = format!("it is in toolbox `{}` already", toolbox.name);
                findings.push(found.note(Grade::Exact, message, None));
            } else if by_server {
                let own = found.name.clone();
                names.insert(own, self.add_alone(found, findings));
            } else {
                let index = *index.get_or_insert_with(|| {
                    let namespace = namespace.clone();
                    self.toolbox((&wanted, namespace), &description, &found, findings)
                });
                self.add_to(index, found, findings);
            }
        }
    }

    /// Adds what a file says beside its servers, which have these `names` now.
    pub(super) fn add_top(
        &mut self,
        top: Top,
        source: &Source,
        names: &HashMap<String, String>,
        findings: &mut Vec<ImportFinding>,
    ) {
        let note = |grade, path: &str, message: String, hint: &str| ImportFinding {
            grade,
            file: source.file.clone(),
            path: path.to_owned(),
            position: None,
            message,
            hint: Some(hint.to_owned()),
        };
        let Top { mode, active, categories } = top;
        for category in categories {
            let Some(server) = names.get(&category.server) else {
                let message = "not carried over: its server does not stand alone".to_owned();
                let hint = "import without `--toolbox`, and look at what is said of the server";
                let path = format!("categories.{}", category.name);
                findings.push(note(Grade::Unsupported, &path, message, hint));
                continue;
            };
            let value = category.value(server);
            if self.categories.contains(&(category.name.clone(), value.clone())) {
                continue;
            }
            let toolboxes = self.toolboxes.iter().map(|toolbox| &toolbox.name);
            // A server that is divided leaves its name to its categories.
            let mut taken: Vec<&String> = toolboxes.filter(|name| *name != server).collect();
            taken.extend(self.categories.iter().map(|(name, _)| name));
            let name = free_name(&category.name, |name| taken.iter().any(|other| *other == name));
            self.categories.push((name.clone(), value.clone()));
            self.additions.push(Addition::Category { name, category: value });
        }
        let new: Vec<_> = active.into_iter().filter(|glob| !self.active.contains(glob)).collect();
        if !new.is_empty() {
            self.active.extend(new.clone());
            self.additions.push(Addition::Active(new));
        }
        let Some(mode) = mode else { return };
        match &self.mode {
            None => {
                self.mode = Some(mode.clone());
                self.additions.push(Addition::Mode(mode));
            }
            Some(ours) if *ours == mode => {}
            Some(ours) => {
                let message = format!("it means mode `{mode}`; the configuration has `{ours}`");
                let hint =
                    format!("write `\"toolMode\": \"{mode}\"`, or start with `--mode {mode}`");
                findings.push(note(Grade::Manual, "", message, &hint));
            }
        }
    }

    /// The text with everything added, and what was added.
    pub(super) fn finish(self) -> Result<(String, Vec<Added>), Report> {
        let text = emit::extend(&self.existing, self.additions)?;
        Ok((text, self.added))
    }

    /// The toolbox that holds the very same server; one that stands alone, if it has to.
    fn holder(&self, found: &Found, is_apart: bool) -> Option<&Toolbox> {
        let mut toolboxes = self.toolboxes.iter().filter(|toolbox| toolbox.alone || !is_apart);
        toolboxes.find(|toolbox| {
            let mut servers = toolbox.servers.iter();
            servers.any(|(name, launch)| {
                *name == found.name && launch.as_ref() == Some(&found.block.launch)
            })
        })
    }

    /// The toolbox to add to, made if it is not there.
    fn toolbox(
        &mut self,
        (wanted, namespace): (&str, Option<String>),
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
        self.additions.push(Addition::Toolbox { name: name.clone(), description, namespace });
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

    /// Adds a server that is a toolbox of its own, and says what that is called.
    fn add_alone(&mut self, found: Found, findings: &mut Vec<ImportFinding>) -> String {
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
        self.additions.push(Addition::Server { name: name.clone(), block: found.block });
        name
    }
}

fn renamed(found: &Found, name: &str) -> Option<ImportFinding> {
    (found.name != name).then(|| {
        let message = format!("another `{}` is there: added as `{name}`", found.name);
        found.note(Grade::Approximate, message, None)
    })
}

/// `wanted`, or the first of `wanted-2`, `wanted-3`, … that is not taken.
pub(super) fn free_name(wanted: &str, taken: impl Fn(&str) -> bool) -> String {
    let mut name = wanted.to_owned();
    let mut number = 2;
    while taken(&name) {
        name = format!("{wanted}-{number}");
        number += 1;
    }
    name
}

/// A configuration as a value.
fn top(existing: &Source) -> Option<Value> {
    let tree = document::parse(document::without_mark(&existing.text)).ok()?;
    Some(Value::from(tree))
}

/// Returns the toolboxes that are in a configuration already.
fn toolboxes(existing: &Source) -> Vec<Toolbox> {
    let Ok(tree) = document::parse(document::without_mark(&existing.text)) else {
        return Vec::new();
    };
    let root = Node::root(&tree);
    let launch = |node: &Node<'_>| {
        let mut reader = config::Dialect::Native.reader(None).keeping_references();
        let mut fields = reader.fields(node)?;
        let raw = RawServer::block(&mut fields, &mut reader);
        let name = Located { value: String::new(), spot: node.spot.clone() };
        let means = Means::of(&raw, &name, &mut reader)?;
        let (block, _) = Block::new(raw, means, &Dialect::default(), ("", &mut KeepSecrets))?;
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
