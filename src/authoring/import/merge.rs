//! Decides which servers are new, and picks free names for them.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::authoring::import::entry::{ClientConventions, ImportedEntry, LaunchIdentity};
use crate::authoring::import::nodes::object_entries;
use crate::authoring::import::server_groups::ToolboxDescription;
use crate::authoring::import::source::{ServerGroup, SourceServer};
use crate::authoring::import::top_level::TopLevelSettings;
use crate::authoring::import::writer::{self, Addition};
use crate::authoring::import::{
    AddedServer, Grade, Grouping, ImportFinding, ImportOptions, NoExtraction, SourceFile,
};
use mcp_workbench_config::sections::root::RawServer;
use mcp_workbench_config::sections::server::TransportChoice;
use mcp_workbench_config::syntax::document::{self, Node};
use mcp_workbench_config::syntax::finding::ConfigReport;
use mcp_workbench_config::syntax::reader::Located;
use mcp_workbench_settings::ToolMode;

/// The configuration as it grows.
pub(super) struct ConfigMerger<'a> {
    existing: SourceFile,
    /// `None` if the configuration is new and has no mode yet.
    mode: Option<String>,
    categories: Vec<(String, Value)>,
    active: Vec<String>,
    options: &'a ImportOptions,
    toolboxes: Vec<KnownToolbox>,
    additions: Vec<Addition>,
    added: Vec<AddedServer>,
}

/// A toolbox of the configuration, with the entry of each server.
struct KnownToolbox {
    name: String,
    /// `true` if it is a server of the top-level `mcpServers`, which cannot take another server.
    is_standalone: bool,
    servers: Vec<(String, Option<ImportedEntry>)>,
}

impl<'a> ConfigMerger<'a> {
    pub(super) fn new(
        existing: Option<&SourceFile>,
        options: &'a ImportOptions,
    ) -> Result<Self, ConfigReport> {
        let top = existing.and_then(parse_members);
        let is_new = existing.is_none();
        let existing = existing.cloned().unwrap_or_else(|| SourceFile {
            file: "workbench-config.json".to_owned(),
            text: writer::EMPTY.to_owned(),
        });
        writer::check(&existing)?;
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

    /// Returns `true` if the configuration has a server of this name with the same launch.
    pub(super) fn has(&self, found: &SourceServer) -> bool {
        self.toolbox_with(found, false).is_some()
    }

    /// Returns the servers of the configuration, by name and launch.
    pub(super) fn servers(&self) -> impl Iterator<Item = (&str, &LaunchIdentity)> {
        let servers = self.toolboxes.iter().flat_map(|toolbox| &toolbox.servers);
        servers.filter_map(|(name, entry)| Some((name.as_str(), &entry.as_ref()?.launch)))
    }

    pub(super) fn add_settings(&mut self, settings: Map<String, Value>) {
        let settings = settings.into_iter();
        self.additions.extend(settings.map(|(key, value)| Addition::Setting(key, value)));
    }

    /// Adds the new servers of a group. `names` records the names of standalone servers in the
    /// configuration.
    pub(super) fn add(
        &mut self,
        group: ServerGroup,
        names: &mut HashMap<String, String>,
        findings: &mut Vec<ImportFinding>,
    ) {
        let ServerGroup {
            name,
            description,
            namespace,
            needs_own_toolboxes: is_apart,
            is_user_level,
            servers,
        } = group;
        let is_whole = is_user_level || self.options.toolbox.is_some();
        let file = servers.first().map_or("", |server| server.file.as_str());
        let all = &self.options.toolbox_descriptions;
        let text = all.iter().find(|(of, text)| is_whole && *of == file && !text.is_empty());
        let description = match (description, text) {
            (ToolboxDescription::Generated(_), Some((_, text))) => {
                ToolboxDescription::Written(text.clone())
            }
            (description, _) => description,
        };
        let wanted = self.options.toolbox.clone().unwrap_or(name);
        let by_server = self.options.toolbox.is_none()
            && (is_apart || self.options.grouping == Grouping::Server);
        // Resolve the toolbox once, because its name can change if it is taken.
        let mut index = None;
        for found in servers {
            if found.block.launch.is_workbench() {
                let message = "skipped: this entry is the workbench itself".to_owned();
                findings.push(found.note(Grade::Exact, message, None));
            } else if let Some((toolbox, kept)) = self.toolbox_with(&found, is_apart) {
                if toolbox.is_standalone {
                    names.insert(found.name.clone(), toolbox.name.clone());
                }
                let message = format!("already in toolbox `{}`", toolbox.name);
                findings.push(match found.block.restrictions_lost_in(kept).as_slice() {
                    [] => found.note(Grade::Exact, message, None),
                    keys => {
                        let keys = keys.join("`, `");
                        let hint = "copy them to the server in the configuration, or restrict the \
                                    agent with `agentPolicies`";
                        let message = format!("{message}, without the `{keys}` of this entry");
                        found.note(Grade::Manual, message, Some(hint.to_owned()))
                    }
                });
            } else if by_server {
                let own = found.name.clone();
                names.insert(own, self.add_alone(found, findings));
            } else {
                let index = *index.get_or_insert_with(|| {
                    let namespace = namespace.clone();
                    self.find_or_add_toolbox((&wanted, namespace), &description, &found, findings)
                });
                self.add_to(index, found, findings);
            }
        }
    }

    /// Adds the other settings of a file. `names` maps its server names to the names in the
    /// configuration.
    pub(super) fn add_top_level_settings(
        &mut self,
        top: TopLevelSettings,
        source: &SourceFile,
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
        let TopLevelSettings { mode, active, categories } = top;
        for category in categories {
            let Some(server) = names.get(&category.server) else {
                let message =
                    "not imported: its server is not in the top-level `mcpServers`".to_owned();
                let hint = "import without `--toolbox`, and check the findings for the server";
                let path = format!("categories.{}", category.name);
                findings.push(note(Grade::Unsupported, &path, message, hint));
                continue;
            };
            let value = category.value(server);
            if self.categories.contains(&(category.name.clone(), value.clone())) {
                continue;
            }
            let toolboxes = self.toolboxes.iter().map(|toolbox| &toolbox.name);
            // A server with categories yields its name to one of them.
            let mut taken: Vec<&String> = toolboxes.filter(|name| *name != server).collect();
            taken.extend(self.categories.iter().map(|(name, _)| name));
            let name = unique_name(&category.name, |name| taken.iter().any(|other| *other == name));
            self.categories.push((name.clone(), value.clone()));
            self.additions.push(Addition::Category { name, category: value });
        }
        let new: Vec<_> = active.into_iter().filter(|glob| !self.active.contains(glob)).collect();
        if !new.is_empty() {
            self.active.extend(new.clone());
            self.additions.push(Addition::ActiveToolsets(new));
        }
        let Some(mode) = mode else { return };
        match &self.mode {
            None => {
                self.mode = Some(mode.clone());
                self.additions.push(Addition::Mode(mode));
            }
            Some(ours) if *ours == mode => {}
            Some(ours) => {
                let message =
                    format!("this file implies mode `{mode}`, but the configuration uses `{ours}`");
                let hint =
                    format!("set `\"toolMode\": \"{mode}\"`, or start with `--tool-mode {mode}`");
                findings.push(note(Grade::Manual, "", message, &hint));
            }
        }
    }

    /// Makes agents ask before they call a tool of the servers with this launch.
    pub(super) fn add_confirmation(&mut self, launch: &LaunchIdentity, tool: &str) {
        let names = self.servers().filter(|(_, other)| *other == launch);
        let patterns: Vec<String> = names.map(|(name, _)| format!("{name}:{tool}")).collect();
        self.additions.push(Addition::Confirmations(patterns));
    }

    pub(super) fn finish(self) -> Result<(String, Vec<AddedServer>), ConfigReport> {
        let text = writer::extend(&self.existing, self.additions)?;
        Ok((text, self.added))
    }

    /// Returns the toolbox with the same server. `is_apart` considers only standalone servers.
    fn toolbox_with(
        &self,
        found: &SourceServer,
        is_apart: bool,
    ) -> Option<(&KnownToolbox, &ImportedEntry)> {
        let mut toolboxes =
            self.toolboxes.iter().filter(|toolbox| toolbox.is_standalone || !is_apart);
        toolboxes.find_map(|toolbox| {
            let mut servers = toolbox.servers.iter();
            servers.find_map(|(name, entry)| {
                let entry = entry.as_ref()?;
                let is_same = *name == found.name && entry.launch == found.block.launch;
                is_same.then_some((toolbox, entry))
            })
        })
    }

    /// Returns the index of the toolbox `wanted`, which is created if needed.
    fn find_or_add_toolbox(
        &mut self,
        (wanted, namespace): (&str, Option<String>),
        description: &ToolboxDescription,
        first: &SourceServer,
        findings: &mut Vec<ImportFinding>,
    ) -> usize {
        let there = |toolbox: &KnownToolbox| !toolbox.is_standalone && toolbox.name == wanted;
        if let Some(index) = self.toolboxes.iter().position(there) {
            return index;
        }
        let taken = |name: &str| self.toolboxes.iter().any(|toolbox| toolbox.name == name);
        let name = unique_name(wanted, taken);
        let description = match description {
            ToolboxDescription::Written(text) => text.clone(),
            ToolboxDescription::Generated(client) => {
                let hint =
                    "describe what its servers are for: agents choose toolboxes by description";
                findings.push(ImportFinding {
                    path: String::new(),
                    position: None,
                    ..first.note(
                        Grade::Manual,
                        format!("toolbox `{name}` has a generated description"),
                        Some(hint.to_owned()),
                    )
                });
                format!("Servers imported from {client}")
            }
        };
        self.additions.push(Addition::Toolbox { name: name.clone(), description, namespace });
        self.toolboxes.push(KnownToolbox { name, is_standalone: false, servers: Vec::new() });
        self.toolboxes.len() - 1
    }

    fn add_to(&mut self, index: usize, found: SourceServer, findings: &mut Vec<ImportFinding>) {
        let Some(toolbox) = self.toolboxes.get_mut(index) else {
            return;
        };
        let taken = |name: &str| toolbox.servers.iter().any(|(other, _)| other == name);
        let name = unique_name(&found.name, taken);
        findings.extend(renamed(&found, &name));
        toolbox.servers.push((name.clone(), Some(found.block.clone())));
        self.added.push(AddedServer {
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

    fn add_alone(&mut self, found: SourceServer, findings: &mut Vec<ImportFinding>) -> String {
        let taken = |name: &str| self.toolboxes.iter().any(|toolbox| toolbox.name == name);
        let name = unique_name(&found.name, taken);
        findings.extend(renamed(&found, &name));
        self.toolboxes.push(KnownToolbox {
            name: name.clone(),
            is_standalone: true,
            servers: vec![(found.name, Some(found.block.clone()))],
        });
        self.added.push(AddedServer {
            toolbox: name.clone(),
            server: name.clone(),
            file: found.file,
            grade: found.grade,
        });
        self.additions.push(Addition::Server { name: name.clone(), block: found.block });
        name
    }
}

fn renamed(found: &SourceServer, name: &str) -> Option<ImportFinding> {
    (found.name != name).then(|| {
        let message = format!("`{}` already exists: added as `{name}`", found.name);
        found.note(Grade::Approximate, message, None)
    })
}

/// Returns `wanted`, or the first of `wanted-2`, `wanted-3`, … that is not taken.
pub(super) fn unique_name(wanted: &str, taken: impl Fn(&str) -> bool) -> String {
    let mut name = wanted.to_owned();
    let mut number = 2;
    while taken(&name) {
        name = format!("{wanted}-{number}");
        number += 1;
    }
    name
}

fn parse_members(existing: &SourceFile) -> Option<Value> {
    let tree = document::parse_jsonc(document::strip_bom(&existing.text)).ok()?;
    Some(Value::from(tree))
}

fn toolboxes(existing: &SourceFile) -> Vec<KnownToolbox> {
    let Ok(tree) = document::parse_jsonc(document::strip_bom(&existing.text)) else {
        return Vec::new();
    };
    let root = Node::root(&tree);
    let entry = |node: &Node<'_>| {
        let mut reader =
            mcp_workbench_config::Dialect::Native.reader(None).with_references_preserved();
        let mut fields = reader.read_fields(node)?;
        let raw = RawServer::read_entry(&mut fields, &mut reader);
        let name = Located { value: String::new(), location: node.location.clone() };
        let means = TransportChoice::select(&raw, &name, &mut reader)?;
        let (block, _) =
            ImportedEntry::new(raw, means, &ClientConventions::default(), ("", &mut NoExtraction))?;
        Some(block)
    };
    let mut toolboxes = Vec::new();
    for (name, node) in root.get("toolboxes").iter().flat_map(object_entries) {
        let servers = node.get("mcpServers");
        let servers = servers.iter().flat_map(object_entries);
        toolboxes.push(KnownToolbox {
            name: name.value,
            is_standalone: false,
            servers: servers.map(|(name, node)| (name.value, entry(&node))).collect(),
        });
    }
    for (name, node) in root.get("mcpServers").iter().flat_map(object_entries) {
        toolboxes.push(KnownToolbox {
            servers: vec![(name.value.clone(), entry(&node))],
            name: name.value,
            is_standalone: true,
        });
    }
    toolboxes
}
