//! A catalog that is a folder: categories of services, and a file for each tool.
//!
//! What is where is read with the configuration, `_config.yaml`, `_category.yaml` and
//! `_service.yaml`; the file of a tool is read when its service has been chosen. `tree` looks at what
//! there is, `draft` gives services their servers, and `tool` reads the file of a tool.

use std::path::{Path, PathBuf};

use crate::config::Dialect;
use crate::config::env::EnvSource;
use crate::config::keys::llm::RawLlm;
use crate::config::keys::raw::{RawConfig, RawServer};
use crate::config::load::catalog::draft::{Draft, Home, OwnServers, Placed};
use crate::config::load::catalog::tree::{finding, stem};
use crate::config::load::check;
use crate::config::load::folder::Disk;
use crate::config::load::loaded::Loaded;
use crate::config::load::shelf::Shelf;
use crate::config::syntax::document::{self, Node};
use crate::config::syntax::entries::{Entries, object};
use crate::config::syntax::finding::{Finding, Report, Severity};
use crate::config::syntax::places::Places;
use crate::config::syntax::reader::{Located, Outside, Reader};
use crate::config::syntax::section::{Described, FromNode};
use crate::config::values::Known;
use crate::name::{ServerName, ToolboxName};
use crate::settings::{Catalog, CatalogTool, Config, ToolMode, ToolReader};

mod draft;
#[cfg(test)]
mod tests;
pub mod tool;
mod tree;

/// Reads the [file](crate::settings::CatalogService::file) of one tool of the catalog in `folder`, as it is now.
///
/// # Errors
///
/// What is wrong with the file, and where.
pub fn read_catalog_tool(folder: &Path, file: &str, tool: &str) -> Result<CatalogTool, Report> {
    let (read, findings) = tool_of(&Disk::new(folder), file, tool);
    let errors = findings.into_iter().filter(|finding| finding.severity == Severity::Error);
    let report = || Report { file: folder.display().to_string(), findings: errors.collect() };
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

/// Reads tools of catalogs that are served.
const TOOL_READER: ToolReader = ToolReader(|folder, file, tool| {
    read_catalog_tool(folder, file, tool).map_err(|report| report.body().to_string())
});

fn check_tools(shelf: &dyn Shelf, catalog: &Catalog) -> Vec<Finding> {
    let services = catalog.categories.iter().flat_map(|category| &category.services);
    let tools = services.flat_map(|service| service.tools.iter().map(move |tool| (service, tool)));
    tools.flat_map(|(service, tool)| tool_of(shelf, &service.file(tool), tool).1).collect()
}

fn tool_of(shelf: &dyn Shelf, file: &str, tool: &str) -> (Option<CatalogTool>, Vec<Finding>) {
    match shelf.read(file) {
        Ok(Some(text)) => tool::parse(file, &text, tool),
        Ok(None) => nothing(file, "there is no such file any more"),
        Err(reason) => nothing(file, &format!("cannot be read: {reason}")),
    }
}

/// The result for a file that cannot be read at all.
fn nothing<T>(file: &str, reason: &str) -> (Option<T>, Vec<Finding>) {
    (None, vec![finding(Severity::Error, file, reason.to_owned(), "")])
}

/// One file that was read.
struct Text<T> {
    /// The value in it, unless it cannot be read.
    value: Option<T>,
    /// The things that are wrong or odd in it.
    findings: Vec<Finding>,
    /// True if what is wrong costs more than the server in whose entry it stands.
    is_refused: bool,
}

/// Reads the text of a file with `read`.
fn read_text<T>(
    file: &str,
    text: &str,
    outside: Option<Outside<'_>>,
    read: impl FnOnce(&Node<'_>, &mut Reader<'_>) -> Option<T>,
) -> Text<T> {
    let text = document::without_mark(text);
    let in_it = |one: Finding| Finding { file: Some(file.into()), ..one };
    let tree = match document::yaml::parse(text) {
        Ok(tree) => tree,
        Err(finding) => {
            return Text { value: None, findings: vec![in_it(finding)], is_refused: true };
        }
    };
    let root = Node::root(&tree);
    let mut reader = Dialect::Catalog.reader(outside.map(|outside| outside.places.env));
    if let Some(Outside { places, values }) = outside {
        reader = reader.referring(places, values);
    }
    reader.note_duplicates(text, &root, |_| true);
    let value = read(&root, &mut reader);
    let is_refused = reader.is_refused();
    let findings = reader.into_findings(text).into_iter().map(in_it).collect();
    Text { value, findings, is_refused }
}

/// Reads the keys of `_config.yaml`: ours, `llm` beside them, and no toolboxes.
pub(crate) fn read(root: &Node<'_>, reader: &mut Reader<'_>) -> Option<RawConfig> {
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
        let llm = fields.take("llm");
        let llm: Option<Located<RawLlm>> = llm.and_then(|node| FromNode::from_node(&node, reader));
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

/// Returns `true` if the folder is that of a category or a service.
fn is_inside(shelf: &dyn Shelf) -> bool {
    let has = |name: &str| matches!(shelf.read(name), Ok(Some(_)));
    has("_category.yaml") || has("_service.yaml")
}

/// Reads a catalog that is the configuration itself; `shown` is what the user calls its folder.
pub(crate) fn load(
    shelf: &dyn Shelf,
    shown: &Path,
    folder: &Path,
    env: &dyn EnvSource,
    values: &Known,
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
    let places = Places { folder, env };
    let outside = Outside { places, values };
    let read = read_text(&name, &text, Some(outside), |root, reader| {
        let mut raw = read(root, reader)?;
        let servers = raw.mcp_servers.take().unwrap_or_default();
        if servers.0.is_empty() && !reader.has_error_under(&root.spot, "mcpServers") {
            reader.error(&root.spot, "expected `mcp_servers`", Some(SERVERS.to_owned()));
        }
        let mode = raw.tool_mode.as_ref().map_or(ToolMode::Navigate, |mode| mode.value.checked());
        let own = OwnServers::check(servers, draft.wants(), &places, reader);
        // What macros there are is refused.
        let (config, _) = check::config(raw, Some(draft.services(|_| true)), &places, reader);
        Some((own, config, mode))
    });
    let Text { value, findings: found, is_refused } = read;
    let Some((own, mut config, mode)) = value else {
        return refused(found.into_iter().chain(draft.findings).collect());
    };
    let placed = draft.placed(&own, folder, Home::Catalog, &mut config);
    check::settle_launches(&mut config);
    config.mode = mode;
    config.navigator.folder = Some(folder.to_owned());
    config.navigator.catalog = Some(placed.catalog);
    let findings: Vec<_> = found.into_iter().chain(placed.findings).collect();
    if is_refused || placed.is_refused {
        return refused(findings);
    }
    let (dialect, disabled) = (Dialect::Catalog, placed.disabled);
    Ok(Loaded { config, dialect, disabled, warnings: findings, file, unasked: values.unknown() })
}

/// The file that a catalog has its servers in.
const CONFIG: &str = "_config.yaml";
/// The hint where a part of a catalog is named.
const INSIDE: &str = "this is a folder in a catalog: name the one above it that has `_config.yaml`";
/// The hint about what to write into that file.
const SERVERS: &str = "write the servers into it:\nmcp_servers:\n  slack-mcp:\n    command: npx\n    \
                       args: [\"-y\", \"…\"]";

/// The folder that is meant where its `_config.yaml` is named.
pub fn folder_of(file: &Path) -> Option<&Path> {
    let is_meant = file.file_name().is_some_and(|name| name == CONFIG || name == "_config.yml");
    is_meant.then(|| file.parent())?
}

/// Returns `true` if a file of this name is YAML.
pub fn is_yaml(file: &Path) -> bool {
    file.file_name().and_then(|name| name.to_str()).and_then(stem).is_some()
}

/// The finding about a YAML file that is named alone.
pub(crate) fn alone() -> Finding {
    let message = "YAML is read in the folder of a catalog, and nowhere else";
    let hint = "name the folder, in which `_config.yaml` has the servers; or write JSON";
    let whole = finding(Severity::Error, "", message.to_owned(), hint);
    Finding { file: None, position: Some((1, 1)), ..whole }
}

/// A catalog that a file of ours names.
pub(crate) struct Attached {
    draft: Draft,
    own: OwnServers,
    /// The folder as the file has it, and in full.
    shown: String,
    folder: PathBuf,
    /// True if its `_config.yaml` cannot be used.
    is_refused: bool,
}

impl Attached {
    /// Reads it, its own servers too, of which there may be none.
    pub(crate) fn read(
        shelf: &dyn Shelf,
        shown: String,
        folder: PathBuf,
        env: &dyn EnvSource,
        values: &Known,
    ) -> Self {
        let mut draft = Draft::read(shelf);
        let mut own = OwnServers::default();
        let mut is_refused = false;
        if let Some((name, text)) = draft.config.take() {
            let places = Places { folder: &folder, env };
            let outside = Outside { places, values };
            let read = read_text(&name, &text, Some(outside), |root, reader| {
                let servers = servers_alone(root, reader);
                Some(OwnServers::check(servers, draft.wants(), &places, reader))
            });
            own = read.value.unwrap_or_default();
            draft.findings.extend(read.findings);
            is_refused = read.is_refused;
        }
        Self { draft, own, shown, folder, is_refused }
    }

    /// The names of the servers that it adds.
    pub(crate) fn names(&self) -> Vec<String> {
        self.draft.services(|server| self.own.has(server))
    }

    /// Adds it to a configuration.
    pub(crate) fn attach(self, config: &mut Config) -> Added {
        let Self { draft, own, shown, folder, is_refused } = self;
        let placed = draft.placed(&own, &folder, Home::File, config);
        check::settle_launches(config);
        let Placed { catalog, mut findings, disabled, .. } = placed;
        config.navigator.catalog = Some(catalog);
        within(&shown, &mut findings);
        Added { findings, disabled, is_refused: is_refused || placed.is_refused }
    }
}

/// The outcome of adding a catalog, besides what is in the configuration then.
#[derive(Default)]
pub(crate) struct Added {
    /// The things that are wrong or odd in it.
    pub(crate) findings: Vec<Finding>,
    /// The services whose servers are switched off.
    pub(crate) disabled: Vec<(ToolboxName, ServerName)>,
    /// True if what is wrong costs more than single services, tools and descriptions.
    pub(crate) is_refused: bool,
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
    let servers = fields.take("mcpServers");
    let servers = servers.and_then(|node| FromNode::from_node(&node, reader));
    for entry in fields.take_all(|_| true) {
        let message = "no effect: the file that names this catalog has the settings";
        reader.warn(&entry.key.spot, message, None);
    }
    servers.unwrap_or_default()
}
