//! Catalog folders: a folder for each category, a subfolder for each service, and a file for each
//! tool.
//!
//! Loading reads `_config.yaml`, `_category.yaml` and `_service.yaml`. Tool files are read on
//! demand, once their service was selected. `tree` walks the folder, `draft` binds services to
//! servers, and `tool` parses tool files.

use std::path::{Path, PathBuf};

use crate::Dialect;
use crate::env::EnvSource;
use crate::loader::catalog::draft::{
    CatalogRole, CatalogServers, ResolvedCatalog, UnresolvedCatalog,
};
use crate::loader::catalog::tree::{file_finding, stem};
use crate::loader::catalog_fs::CatalogFs;
use crate::loader::disk::DiskFs;
use crate::loader::loaded_config::LoadedConfig;
use crate::loader::validation;
use crate::secret_values::SecretLookup;
use crate::sections::llm::RawLlm;
use crate::sections::root::{RawConfig, RawServer};
use crate::syntax::document::{self, Node};
use crate::syntax::finding::{ConfigReport, Finding, Severity};
use crate::syntax::objects::{LocatedMap, read_closed_object};
use crate::syntax::paths::PathResolver;
use crate::syntax::reader::{ConfigReader, Located, ReferenceContext};
use crate::syntax::section::{ConfigSection, FromNode};
use mcp_workbench_names::{ServerName, ToolboxName};
use mcp_workbench_settings::{CatalogFolder, CatalogTool, Config, ToolMode, ToolReader};

mod draft;
#[cfg(test)]
mod tests;
pub mod tool;
mod tree;

/// Reads one tool of the catalog in `folder` from its current
/// [file](mcp_workbench_settings::CatalogService::file).
///
/// # Errors
///
/// Fails if the file is missing, unreadable or invalid.
pub fn read_catalog_tool(
    folder: &Path,
    file: &str,
    tool: &str,
) -> Result<CatalogTool, ConfigReport> {
    let (read, findings) = read_tool(&DiskFs::new(folder), file, tool);
    let errors = findings.into_iter().filter(|finding| finding.severity == Severity::Error);
    let report = || ConfigReport { file: folder.display().to_string(), findings: errors.collect() };
    read.ok_or_else(report)
}

/// Checks all tool files of a catalog and returns the findings. Paths in the findings start with
/// `shown`, the user's name for the folder, unless it is empty.
pub fn check_catalog_tools(catalog: &CatalogFolder, shown: &str) -> Vec<Finding> {
    let mut findings = check_tools(&DiskFs::new(&catalog.folder), catalog);
    if !shown.is_empty() {
        prefix_files(shown, &mut findings);
    }
    findings
}

const TOOL_READER: ToolReader = ToolReader(|folder, file, tool| {
    read_catalog_tool(folder, file, tool).map_err(|report| report.without_label().to_string())
});

fn check_tools(fs: &dyn CatalogFs, catalog: &CatalogFolder) -> Vec<Finding> {
    let services = catalog.categories.iter().flat_map(|category| &category.services);
    let tools = services.flat_map(|service| service.tools.iter().map(move |tool| (service, tool)));
    tools.flat_map(|(service, tool)| read_tool(fs, &service.file(tool), tool).1).collect()
}

fn read_tool(fs: &dyn CatalogFs, file: &str, tool: &str) -> (Option<CatalogTool>, Vec<Finding>) {
    match fs.read(file) {
        Ok(Some(text)) => tool::parse_tool_file(file, &text, tool),
        Ok(None) => nothing(file, "the file no longer exists"),
        Err(reason) => nothing(file, &format!("failed to read: {reason}")),
    }
}

fn nothing<T>(file: &str, reason: &str) -> (Option<T>, Vec<Finding>) {
    (None, vec![file_finding(Severity::Error, file, reason.to_owned(), "")])
}

struct ParsedFile<T> {
    value: Option<T>,
    findings: Vec<Finding>,
    /// `true` if an error invalidates the file as a whole, not just one server entry.
    is_refused: bool,
}

fn read_text<T>(
    file: &str,
    text: &str,
    outside: Option<ReferenceContext<'_>>,
    read: impl FnOnce(&Node<'_>, &mut ConfigReader<'_>) -> Option<T>,
) -> ParsedFile<T> {
    let text = document::strip_bom(text);
    let in_it = |one: Finding| Finding { file: Some(file.into()), ..one };
    let tree = match document::yaml::parse(text) {
        Ok(tree) => tree,
        Err(finding) => {
            return ParsedFile { value: None, findings: vec![in_it(finding)], is_refused: true };
        }
    };
    let root = Node::root(&tree);
    let mut reader = Dialect::Catalog.reader(outside.map(|outside| outside.paths.env));
    if let Some(ReferenceContext { paths: places, secrets: values }) = outside {
        reader = reader.with_reference_context(places, values);
    }
    reader.report_duplicate_keys(text, &root, |_| true);
    let value = read(&root, &mut reader);
    let is_refused = reader.is_rejected();
    let findings = reader.into_findings(text).into_iter().map(in_it).collect();
    ParsedFile { value, findings, is_refused }
}

/// Reads `_config.yaml`: the native keys except toolboxes and macros, and `llm` at the top level.
pub(crate) fn read(root: &Node<'_>, reader: &mut ConfigReader<'_>) -> Option<RawConfig> {
    if root.is_null() {
        return Some(RawConfig::default());
    }
    read_closed_object(root, reader, |fields, reader| {
        for key in ["toolboxes", "categories"] {
            if let Some(node) = fields.take(key) {
                let message = "in a catalog folder, categories and services are subfolders";
                let hint = format!("remove `{key}`, or use a JSON file with a `navigator.catalog`");
                reader.report_error(&node.location, message, Some(hint));
            }
        }
        if let Some(node) = fields.take("macros") {
            let message = "macros are not supported in a catalog folder";
            let hint = "move them to a JSON file with a `navigator.catalog`".to_owned();
            reader.report_error(&node.location, message, Some(hint));
        }
        let llm = fields.take("llm");
        let llm: Option<Located<RawLlm>> = llm.and_then(|node| FromNode::from_node(&node, reader));
        let mut raw = RawConfig::read_keys(fields, reader);
        if let Some(folder) = raw.navigator.as_mut().and_then(|raw| raw.catalog.take()) {
            let hint = "remove it".to_owned();
            reader.report_error(
                &folder.location,
                "the catalog is the folder of this file",
                Some(hint),
            );
        }
        if let Some(llm) = llm {
            let navigator = raw.navigator.get_or_insert_default();
            if navigator.llm.is_some() {
                let hint = Some("remove one of them".to_owned());
                reader.report_error(
                    &llm.location,
                    "expected `llm` or `navigator.llm`, found both",
                    hint,
                );
            }
            navigator.llm = Some(llm);
        }
        raw
    })
}

/// Returns `true` for the folder of a category or a service.
fn is_inside(fs: &dyn CatalogFs) -> bool {
    let has = |name: &str| matches!(fs.read(name), Ok(Some(_)));
    has("_category.yaml") || has("_service.yaml")
}

/// Loads a standalone catalog. `shown` is the folder as the user wrote it.
pub(crate) fn load_catalog(
    fs: &dyn CatalogFs,
    shown: &Path,
    folder: &Path,
    env: &dyn EnvSource,
    values: &SecretLookup,
) -> Result<LoadedConfig, ConfigReport> {
    let file = shown.display().to_string();
    let refused = |findings| Err(ConfigReport { file: file.clone(), findings });
    let mut draft = UnresolvedCatalog::read(fs);
    let Some((name, text)) = draft.config.take() else {
        if !draft.is_broken {
            // Without `_config.yaml` this is probably not a catalog, so warnings about its files
            // are noise.
            draft.findings.retain(|one| one.severity == Severity::Error);
            let message = "file not found".to_owned();
            let hint = if is_inside(fs) { INSIDE } else { SERVERS };
            draft.findings.insert(0, file_finding(Severity::Error, CONFIG, message, hint));
        }
        return refused(draft.findings);
    };
    let places = PathResolver { base_dir: folder, env };
    let outside = ReferenceContext { paths: places, secrets: values };
    let read = read_text(&name, &text, Some(outside), |root, reader| {
        let mut raw = read(root, reader)?;
        let servers = raw.mcp_servers.take().unwrap_or_default();
        if servers.0.is_empty() && !reader.has_error_under(&root.location, "mcpServers") {
            reader.report_error(&root.location, "expected `mcp_servers`", Some(SERVERS.to_owned()));
        }
        let mode = raw.tool_mode.as_ref().map_or(ToolMode::Navigate, |mode| mode.value.checked());
        let own = CatalogServers::check(servers, draft.needed_servers(), &places, reader);
        // Macros were rejected by `read`.
        let (config, _) =
            validation::validate_config(raw, Some(draft.service_names(|_| true)), &places, reader);
        Some((own, config, mode))
    });
    let ParsedFile { value, findings: found, is_refused } = read;
    let Some((own, mut config, mode)) = value else {
        return refused(found.into_iter().chain(draft.findings).collect());
    };
    let placed = draft.resolve(&own, folder, CatalogRole::Standalone, &mut config);
    validation::apply_launch_defaults(&mut config);
    config.mode = mode;
    config.navigator.folder = Some(folder.to_owned());
    config.navigator.catalog = Some(placed.catalog);
    let findings: Vec<_> = found.into_iter().chain(placed.findings).collect();
    if is_refused || placed.is_refused {
        return refused(findings);
    }
    let (dialect, disabled) = (Dialect::Catalog, placed.disabled);
    Ok(LoadedConfig {
        config,
        dialect,
        disabled,
        findings,
        file,
        unresolved_secrets: values.unresolved(),
        project: None,
    })
}

const CONFIG: &str = "_config.yaml";
const INSIDE: &str = "this is a folder inside a catalog: use the parent folder with `_config.yaml`";
const SERVERS: &str = "add the servers to it:\nmcp_servers:\n  slack-mcp:\n    command: npx\n    \
                       args: [\"-y\", \"…\"]";

/// Returns the catalog folder if `file` is its `_config.yaml`.
pub fn catalog_root(file: &Path) -> Option<&Path> {
    let is_meant = file.file_name().is_some_and(|name| name == CONFIG || name == "_config.yml");
    is_meant.then(|| file.parent())?
}

/// Returns `true` if `file` has a YAML extension.
pub fn is_yaml(file: &Path) -> bool {
    file.file_name().and_then(|name| name.to_str()).and_then(stem).is_some()
}

/// The error for a YAML file outside a catalog.
pub(crate) fn standalone_yaml_error() -> Finding {
    let message = "YAML is supported only in catalog folders";
    let hint = "use the catalog folder, with the servers in its `_config.yaml`, or a JSON file";
    let whole = file_finding(Severity::Error, "", message.to_owned(), hint);
    Finding { file: None, position: Some((1, 1)), ..whole }
}

/// A catalog that `navigator.catalog` of a native file refers to.
pub(crate) struct AttachedCatalog {
    draft: UnresolvedCatalog,
    own: CatalogServers,
    /// The folder as written in the file. `folder` is absolute.
    shown: String,
    folder: PathBuf,
    /// `true` if `_config.yaml` is invalid as a whole.
    is_refused: bool,
}

impl AttachedCatalog {
    /// Reads the catalog. Its `_config.yaml` is optional.
    pub(crate) fn read(
        fs: &dyn CatalogFs,
        shown: String,
        folder: PathBuf,
        env: &dyn EnvSource,
        values: &SecretLookup,
    ) -> Self {
        let mut draft = UnresolvedCatalog::read(fs);
        let mut own = CatalogServers::default();
        let mut is_refused = false;
        if let Some((name, text)) = draft.config.take() {
            let places = PathResolver { base_dir: &folder, env };
            let outside = ReferenceContext { paths: places, secrets: values };
            let read = read_text(&name, &text, Some(outside), |root, reader| {
                let servers = read_servers_only(root, reader);
                Some(CatalogServers::check(servers, draft.needed_servers(), &places, reader))
            });
            own = read.value.unwrap_or_default();
            draft.findings.extend(read.findings);
            is_refused = read.is_refused;
        }
        Self { draft, own, shown, folder, is_refused }
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.draft.service_names(|server| self.own.has(server))
    }

    pub(crate) fn attach(self, config: &mut Config) -> AttachOutcome {
        let Self { draft, own, shown, folder, is_refused } = self;
        let placed = draft.resolve(&own, &folder, CatalogRole::Attached, config);
        validation::apply_launch_defaults(config);
        let ResolvedCatalog { catalog, mut findings, disabled, .. } = placed;
        config.navigator.catalog = Some(catalog);
        prefix_files(&shown, &mut findings);
        AttachOutcome { findings, disabled, is_refused: is_refused || placed.is_refused }
    }
}

#[derive(Default)]
pub(crate) struct AttachOutcome {
    pub(crate) findings: Vec<Finding>,
    pub(crate) disabled: Vec<(ToolboxName, ServerName)>,
    /// `true` if the catalog as a whole can't be used.
    pub(crate) is_refused: bool,
}

fn prefix_files(folder: &str, findings: &mut [Finding]) {
    for file in findings.iter_mut().filter_map(|finding| finding.file.as_mut()) {
        *file = if **file == *"." { folder.into() } else { format!("{folder}/{file}").into() };
    }
}

/// Reads the servers of an attached catalog's `_config.yaml`, and warns that other keys have no
/// effect.
fn read_servers_only(root: &Node<'_>, reader: &mut ConfigReader<'_>) -> LocatedMap<RawServer> {
    if root.is_null() {
        return LocatedMap::default();
    }
    let Some(mut fields) = reader.read_fields(root) else { return LocatedMap::default() };
    let servers = fields.take("mcpServers");
    let servers = servers.and_then(|node| FromNode::from_node(&node, reader));
    for entry in fields.take_keys_if(|_| true) {
        let message = "no effect: settings belong to the file that refers to this catalog";
        reader.report_warning(&entry.key.location, message, None);
    }
    servers.unwrap_or_default()
}
