//! A catalog that is a folder: categories of services, and a file for each tool.
//!
//! What is where is read with the configuration, `_config.yaml`, `_category.yaml` and
//! `_service.yaml`; the file of a tool is read when its service has been chosen. `tree` looks at what
//! there is, `draft` gives services their servers, `tool` reads the file of a tool, and `spelling`
//! knows what files are called.

use std::path::{Path, PathBuf};

use crate::config::catalog::spelling::{decode, encode};
use crate::config::catalog::tree::{finding, stem};
use crate::config::check::{self, Places};
use crate::config::document::{self, Node};
use crate::config::env::EnvSource;
use crate::config::file::Loaded;
use crate::config::finding::{Finding, Report, Severity};
use crate::config::folder::Disk;
use crate::config::llm::RawLlm;
use crate::config::raw::{self, Entries, RawConfig, RawServer, located, object};
use crate::config::reader::Reader;
use crate::config::{Config, Dialect, ToolMode};
use crate::name::{Place, ServerName, ToolboxName};

mod draft;
mod spelling;
#[cfg(test)]
mod tests;
mod tool;
mod tree;
mod write;

pub use spelling::FileNames;
pub use write::{tool_file as catalog_tool_file, yaml as to_yaml};

use draft::{Draft, OwnServers, Placed};
pub(super) use tree::{Item, Kind, Shelf};

/// The most bytes of one file.
pub(super) const MAX_BYTES: usize = 4 * 1024 * 1024;

/// A catalog: what is in its folder, by the names of the folders and files in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Catalog {
    /// The folder; absolute.
    pub folder: PathBuf,
    /// The categories, by name.
    pub categories: Vec<CatalogCategory>,
}

impl Catalog {
    /// Takes out the tools that are not to be kept, and services and categories without any.
    pub fn retain(&mut self, keeps: impl Fn(&Place, &str) -> bool) {
        for category in &mut self.categories {
            for service in &mut category.services {
                let at = &service.at;
                service.tools.retain(|tool| keeps(at, tool));
            }
            category.services.retain(|service| !service.tools.is_empty());
        }
        self.categories.retain(|category| !category.services.is_empty());
    }
}

/// A folder of services.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogCategory {
    /// What the folder is called.
    pub name: String,
    /// What is in it (`_category.yaml`); empty if nobody said.
    pub description: String,
    /// Its services, by name; never empty.
    pub services: Vec<CatalogService>,
}

/// A folder of tools, all of one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogService {
    /// What the folder is called.
    pub name: String,
    /// What it is for (`_service.yaml`); empty if nobody said.
    pub description: String,
    /// The server that has the tools.
    pub at: Place,
    /// The names of its tools, which are those of the files; never empty.
    pub tools: Vec<String>,
}

/// What the file of a tool says of it.
#[derive(Clone, Debug, PartialEq)]
pub struct CatalogTool {
    /// The server's name for it.
    pub name: String,
    /// What it does.
    pub description: String,
    /// The JSON Schema of its arguments.
    pub schema: serde_json::Value,
}

/// Reads the file of one tool, as it is now.
///
/// # Errors
///
/// What is wrong with the file, and where.
pub fn read_catalog_tool(
    catalog: &Catalog,
    category: &str,
    service: &str,
    tool: &str,
) -> Result<CatalogTool, Report> {
    let (read, findings) = tool_of(&Disk::new(&catalog.folder), [category, service, tool]);
    let errors = findings.into_iter().filter(|finding| finding.severity == Severity::Error);
    let report =
        || Report { file: catalog.folder.display().to_string(), findings: errors.collect() };
    read.ok_or_else(report)
}

/// Reads the files of all tools; what is wrong or odd in them. Files are named from `shown` on, what
/// the folder of the catalog is called; as they are in it, if that is empty.
pub fn check_catalog_tools(catalog: &Catalog, shown: &str) -> Vec<Finding> {
    let mut findings = check_tools(&Disk::new(&catalog.folder), catalog);
    if !shown.is_empty() {
        within(shown, &mut findings);
    }
    findings
}

fn check_tools(shelf: &dyn Shelf, catalog: &Catalog) -> Vec<Finding> {
    let services = catalog.categories.iter();
    let services =
        services.flat_map(|category| category.services.iter().map(move |s| (category, s)));
    let tools = services.flat_map(|(category, service)| {
        service.tools.iter().map(move |tool| [&*category.name, &*service.name, &**tool])
    });
    tools.flat_map(|tool| tool_of(shelf, tool).1).collect()
}

fn tool_of(shelf: &dyn Shelf, names: [&str; 3]) -> (Option<CatalogTool>, Vec<Finding>) {
    let [category, service, tool] = names;
    let usual = names.map(encode).join("/");
    let wrong = |file: &str, reason: &str| {
        (None, vec![finding(Severity::Error, file, reason.to_owned(), "")])
    };
    let mut file = format!("{usual}.yaml");
    let mut text = shelf.read(&file);
    if matches!(text, Ok(None)) {
        // It may be spelled otherwise, and mean the same.
        let folder = named(shelf, "", category, |name| Some(name));
        let folder = folder.and_then(|folder| named(shelf, &folder, service, |name| Some(name)));
        if let Some(found) = folder.and_then(|folder| named(shelf, &folder, tool, stem)) {
            file = found;
            text = shelf.read(&file);
        }
    }
    let text = match text {
        Ok(Some(text)) => text,
        Ok(None) => return wrong(&file, "there is no such file any more"),
        Err(reason) => return wrong(&file, &format!("cannot be read: {reason}")),
    };
    let (tool, findings) = tool::parse(&text, tool);
    let findings =
        findings.into_iter().map(|one| Finding { file: Some(file.as_str().into()), ..one });
    (tool, findings.collect())
}

/// The path of what stands for `name` in a folder, with the part of its own name that says so.
fn named(
    shelf: &dyn Shelf,
    folder: &str,
    name: &str,
    part: impl Fn(&str) -> Option<&str>,
) -> Option<String> {
    let items = shelf.list(folder).ok()?.into_iter();
    let mut items = items.filter(|item| !item.name.starts_with('_'));
    let found = items.find(|item| part(&item.name).and_then(decode).as_deref() == Some(name))?;
    let found = found.name;
    Some(if folder.is_empty() { found } else { format!("{folder}/{found}") })
}

/// Reads the keys of `_config.yaml`: ours, `llm` beside them, and no toolboxes.
pub(super) fn read(root: &Node<'_>, reader: &mut Reader<'_>) -> Option<RawConfig> {
    if root.is_null() {
        return Some(RawConfig::default());
    }
    object(root, reader, |fields, reader| {
        for key in ["toolboxes", "categories"] {
            if let Some(node) = fields.take(key) {
                let message = "a catalog's categories and services are folders beside this file";
                let hint =
                    format!("remove `{key}`, or make a JSON file with a `navigator.catalog`");
                reader.error(&node.spot, message, Some(hint));
            }
        }
        if let Some(node) = fields.take("macros") {
            let message = "macros have no place in a catalog";
            let hint = "write them in a JSON file with a `navigator.catalog`".to_owned();
            reader.error(&node.spot, message, Some(hint));
        }
        let llm = fields.take("llm").and_then(|node| located(&node, reader, RawLlm::read));
        let mut raw = RawConfig::read(fields, reader);
        if let Some(folder) = raw.navigator.as_mut().and_then(|raw| raw.catalog.take()) {
            let hint = "remove it".to_owned();
            reader.error(&folder.spot, "this file is in the catalog itself", Some(hint));
        }
        if let Some(llm) = llm {
            let navigator = raw.navigator.get_or_insert_default();
            if navigator.llm.is_some() {
                let hint = Some("remove one of the two".to_owned());
                reader.error(&llm.spot, "there is `navigator.llm` too", hint);
            }
            navigator.llm = Some(llm);
        }
        raw
    })
}

/// Whether the folder is that of a category or a service.
fn is_inside(shelf: &dyn Shelf) -> bool {
    let has = |name: &str| matches!(shelf.read(name), Ok(Some(_)));
    has("_category.yaml") || has("_service.yaml")
}

/// Reads a catalog that is the configuration itself; `shown` is what the user calls its folder.
pub(super) fn load(
    shelf: &dyn Shelf,
    shown: &Path,
    folder: &Path,
    env: &dyn EnvSource,
) -> Result<Loaded, Report> {
    let file = shown.display().to_string();
    let refused = |findings| Err(Report { file: file.clone(), findings });
    let mut draft = Draft::read(shelf);
    let Some((name, text)) = draft.config.take() else {
        if !draft.is_broken {
            // What lies where it should not says nothing then but that this is another folder.
            draft.findings.retain(|one| one.severity == Severity::Error);
            let message = "there is no such file".to_owned();
            let hint = if is_inside(shelf) { INSIDE } else { SERVERS };
            draft.findings.insert(0, finding(Severity::Error, CONFIG, message, hint));
        }
        return refused(draft.findings);
    };
    let text = document::without_mark(&text);
    let in_it = |one: Finding| Finding { file: Some(name.as_str().into()), ..one };
    let tree = match document::yaml::parse(text) {
        Ok(tree) => tree,
        Err(finding) => {
            draft.findings.insert(0, in_it(finding));
            return refused(draft.findings);
        }
    };
    let root = Node::root(&tree);
    let mut reader = Dialect::Catalog.reader(Some(env));
    reader.note_duplicates(text, &root);
    let Some(mut raw) = Dialect::Catalog.read(&root, Some(env), &mut reader) else {
        let found = reader.into_findings(text).into_iter().map(in_it);
        return refused(found.chain(draft.findings).collect());
    };
    let places = Places { folder, env };
    let servers = raw.mcp_servers.take().unwrap_or_default();
    let has_error = |key| reader.has_error_under(&root.spot, key);
    if servers.0.is_empty() && !has_error("mcp_servers") && !has_error("mcpServers") {
        reader.error(&root.spot, "expected `mcp_servers`", Some(SERVERS.to_owned()));
    }
    let mode = raw.tool_mode.as_ref().map_or(ToolMode::Navigate, |mode| mode.value.checked());
    let own = OwnServers::check(servers, draft.wants(), &places, &mut reader);
    let names = draft.services(|_| true);
    // What macros there are is refused.
    let (mut config, _) = check::config(raw, Some(names), &places, &mut reader);
    let Placed { catalog, findings, disabled } = draft.placed(&own, folder, &mut config);
    check::withhold_tokens(&mut config);
    config.mode = mode;
    config.navigator.folder = Some(folder.to_owned());
    config.navigator.catalog = Some(catalog);
    let found = reader.into_findings(text).into_iter().map(in_it);
    let findings: Vec<_> = found.chain(findings).collect();
    if findings.iter().any(|finding| finding.severity == Severity::Error) {
        return refused(findings);
    }
    Ok(Loaded { config, dialect: Dialect::Catalog, disabled, warnings: findings, file })
}

/// The file that a catalog has its servers in.
const CONFIG: &str = "_config.yaml";
/// What to do where a part of a catalog is named.
const INSIDE: &str = "this is a folder in a catalog: name the one above it that has `_config.yaml`";
/// What to write into it.
const SERVERS: &str = "write the servers into it:\nmcp_servers:\n  slack-mcp:\n    command: npx\n    \
                       args: [\"-y\", \"…\"]";

/// The folder that is meant where its `_config.yaml` is named.
pub(super) fn folder_of(file: &Path) -> Option<&Path> {
    let is_meant = file.file_name().is_some_and(|name| name == CONFIG || name == "_config.yml");
    is_meant.then(|| file.parent())?
}

/// Whether a file of this name is YAML.
pub(super) fn is_yaml(file: &Path) -> bool {
    file.file_name().and_then(|name| name.to_str()).and_then(stem).is_some()
}

/// What is said of a YAML file that is named alone.
pub(super) fn alone() -> Finding {
    let message = "YAML is read in the folder of a catalog, and nowhere else";
    let hint = "name the folder, in which `_config.yaml` has the servers; or write JSON";
    let whole = finding(Severity::Error, "", message.to_owned(), hint);
    Finding { file: None, position: Some((1, 1)), ..whole }
}

/// A catalog that a file of ours names.
pub(super) struct Attached {
    draft: Draft,
    own: OwnServers,
    /// The folder as the file has it, and in full.
    shown: String,
    folder: PathBuf,
}

impl Attached {
    /// Reads it, its own servers too, of which there may be none.
    pub(super) fn read(
        shelf: &dyn Shelf,
        shown: String,
        folder: PathBuf,
        env: &dyn EnvSource,
    ) -> Self {
        let mut draft = Draft::read(shelf);
        let mut own = OwnServers::default();
        if let Some((name, text)) = draft.config.take() {
            let text = document::without_mark(&text);
            let in_it = |one: Finding| Finding { file: Some(name.as_str().into()), ..one };
            match document::yaml::parse(text) {
                Err(finding) => draft.findings.push(in_it(finding)),
                Ok(tree) => {
                    let root = Node::root(&tree);
                    let mut reader = Dialect::Catalog.reader(Some(env));
                    reader.note_duplicates(text, &root);
                    let servers = servers_alone(&root, &mut reader);
                    let places = Places { folder: &folder, env };
                    own = OwnServers::check(servers, draft.wants(), &places, &mut reader);
                    draft.findings.extend(reader.into_findings(text).into_iter().map(in_it));
                }
            }
        }
        Self { draft, own, shown, folder }
    }

    /// The names of the servers that it adds.
    pub(super) fn names(&self) -> Vec<String> {
        self.draft.services(|server| self.own.has(server))
    }

    /// Adds it to a configuration; what is wrong or odd in it, and what is switched off.
    pub(super) fn attach(
        self,
        config: &mut Config,
    ) -> (Vec<Finding>, Vec<(ToolboxName, ServerName)>) {
        let Self { draft, own, shown, folder } = self;
        let Placed { catalog, mut findings, disabled } = draft.placed(&own, &folder, config);
        check::withhold_tokens(config);
        config.navigator.catalog = Some(catalog);
        within(&shown, &mut findings);
        (findings, disabled)
    }
}

/// Names files from where the folder of the catalog is named.
fn within(folder: &str, findings: &mut [Finding]) {
    for file in findings.iter_mut().filter_map(|finding| finding.file.as_mut()) {
        *file = if **file == *"." { folder.into() } else { format!("{folder}/{file}").into() };
    }
}

/// The servers of a `_config.yaml`, whose other keys have no effect.
fn servers_alone(root: &Node<'_>, reader: &mut Reader<'_>) -> Entries<RawServer> {
    if root.is_null() {
        return Entries::default();
    }
    let Some(mut fields) = reader.fields(root) else { return Entries::default() };
    let servers = fields.take("mcpServers").map(|node| raw::servers(&node, reader));
    for entry in fields.take_all(|_| true) {
        let message = "no effect: the file that names this catalog has the settings";
        reader.warn(&entry.key.spot, message, None);
    }
    servers.unwrap_or_default()
}
