//! Catalogs before and after their services are bound to servers.

use std::collections::BTreeMap;
use std::path::Path;

use crate::loader::catalog::tree::{self, FolderNode, file_finding};
use crate::loader::catalog::{CONFIG, ParsedFile, TOOL_READER, read_text};
use crate::loader::catalog_fs::CatalogFs;
use crate::sections::root::RawServer;
use crate::sections::server;
use crate::syntax::checks::check_name;
use crate::syntax::document::{self, line_columns};
use crate::syntax::finding::{Finding, Severity};
use crate::syntax::objects::LocatedMap;
use crate::syntax::paths::PathResolver;
use crate::syntax::reader::{
    ConfigReader, ObjectFields, ServerEntryError, did_you_mean, quoted_list,
};
use mcp_workbench_names::{ServerName, ServerRef, ToolboxName};
use mcp_workbench_settings::{
    CatalogCategory, CatalogFolder, CatalogService, Config, Launch, MACROS, ServerConfig,
    ToolboxConfig,
};

/// A catalog whose services aren't bound to servers yet.
pub(crate) struct UnresolvedCatalog {
    /// The name and text of `_config.yaml`.
    pub(crate) config: Option<(String, String)>,
    /// `true` if the folder or its `_config.yaml` exists but can't be used.
    pub(crate) is_broken: bool,
    categories: Vec<DraftCategory>,
    /// The findings in all files other than `_config.yaml`.
    pub(crate) findings: Vec<Finding>,
}

struct DraftCategory {
    path: String,
    name: String,
    description: String,
    services: Vec<DraftService>,
}

struct DraftService {
    path: String,
    name: String,
    description: String,
    server: ServerBinding,
    tools: Vec<String>,
    spelled: BTreeMap<String, String>,
}

enum ServerBinding {
    /// The server's name, and the finding to report if it doesn't exist.
    Named(String, Finding),
    /// The service can't be used because of this error.
    Invalid(ServerEntryError),
}

/// How a catalog is used.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum CatalogRole {
    /// It is the configuration: each service becomes a server.
    Standalone,
    /// It belongs to a native file, which defines most of the servers.
    Attached,
}

impl UnresolvedCatalog {
    /// Reads all files except tool files.
    pub(crate) fn read(fs: &dyn CatalogFs) -> Self {
        let mut findings = Vec::new();
        let root = tree::read(fs, &mut findings);
        let mut categories = Vec::new();
        for branch in root.subfolders {
            categories.extend(category(branch, &mut findings));
        }
        Self { config: root.info_file, is_broken: root.is_broken, categories, findings }
    }

    /// Returns the names of the services whose server satisfies `is_ours` or is unknown. The server
    /// of such a service takes the service's name.
    pub(crate) fn service_names(&self, is_ours: impl Fn(&str) -> bool) -> Vec<String> {
        let services = self.categories.iter().flat_map(|category| &category.services);
        let ours = services.filter(|service| match &service.server {
            ServerBinding::Named(name, _) => is_ours(name),
            ServerBinding::Invalid(_) => true,
        });
        ours.map(|service| service.name.clone()).collect()
    }

    /// Returns a predicate for the servers that services use. If any service file is unreadable,
    /// every server counts as used.
    pub(crate) fn needed_servers(&self) -> impl Fn(&str) -> bool {
        let is_wrong = self.findings.iter().any(|finding| finding.severity == Severity::Error);
        move |name| is_wrong || !self.service_names(|server| server == name).is_empty()
    }

    /// Binds each service to its server. A server of the catalog (`own`) becomes part of a toolbox
    /// named after the category; others must exist in `config`.
    pub(crate) fn resolve(
        self,
        own: &CatalogServers,
        folder: &Path,
        home: CatalogRole,
        config: &mut Config,
    ) -> ResolvedCatalog {
        let places = config.toolboxes.iter().flat_map(|toolbox| {
            let servers = toolbox.servers.iter();
            servers.map(|s| ServerRef { toolbox: toolbox.name.clone(), server: s.name.clone() })
        });
        let (places, findings) = (places.collect(), self.findings);
        let mut placing =
            ServerBinder { own, config, home, places, findings, disabled: Vec::new() };
        let categories = self.categories.into_iter();
        let categories: Vec<_> =
            categories.filter_map(|category| placing.category(category)).collect();
        let ServerBinder { mut findings, disabled, .. } = placing;
        let is_wrong = findings.iter().any(|finding| finding.severity == Severity::Error);
        if categories.is_empty() && !is_wrong && !own.is_wrong() {
            let message = "no tools".to_owned();
            let hint = "add `<category>/<service>/<tool>.yaml`, and a `_service.yaml` with the \
                        `mcp_server` in the same folder";
            findings.push(file_finding(Severity::Error, "", message, hint));
        }
        // With errors in the catalog, the rest of the file can still be served.
        let is_empty = categories.is_empty() && (!is_wrong || config.toolboxes.is_empty());
        let catalog = CatalogFolder { folder: folder.to_owned(), categories, reader: TOOL_READER };
        ResolvedCatalog { catalog, findings, disabled, is_refused: self.is_broken || is_empty }
    }
}

pub(crate) struct ResolvedCatalog {
    pub(crate) catalog: CatalogFolder,
    pub(crate) findings: Vec<Finding>,
    pub(crate) disabled: Vec<(ToolboxName, ServerName)>,
    /// `true` if the catalog as a whole can't be used.
    pub(crate) is_refused: bool,
}

fn category(branch: FolderNode, findings: &mut Vec<Finding>) -> Option<DraftCategory> {
    if is_left_out(&branch, findings) {
        return None;
    }
    let FolderNode { path, name, info_file: about, is_broken, subfolders: folders, .. } = branch;
    let file = about.as_ref().map_or_else(|| format!("{path}/_category.yaml"), |a| a.0.clone());
    let read = about.map(|about| read_about(&about, findings));
    let (said, at) = read.unwrap_or_default();
    let description = said.description.unwrap_or_default();
    if description.is_empty() && !is_broken && !said.is_wrong {
        let hint = "add `description: …`: categories are selected by it";
        findings.push(missing(&file, at, hint));
    }
    if let Some((key, position)) = said.server {
        let message = format!("ignored: `{key}` belongs in the `_service.yaml` of a service");
        findings.push(Finding {
            position: Some(position),
            path: "mcp_server".to_owned(),
            ..file_finding(Severity::Warning, &file, message, "")
        });
    }
    let is_empty = folders.is_empty();
    let services: Vec<_> = folders.into_iter().filter_map(|b| service(b, findings)).collect();
    if is_empty && !is_broken {
        let message = "ignored: no services (subfolders)".to_owned();
        findings.push(file_finding(Severity::Warning, &path, message, ""));
    }
    (!services.is_empty()).then_some(DraftCategory { path, name, description, services })
}

/// Returns `true` if a folder contains nothing of a catalog, and warns about the outermost such
/// folder.
fn is_left_out(branch: &FolderNode, findings: &mut Vec<Finding>) -> bool {
    if branch.is_unrelated() {
        let message = "ignored: no catalog files in this folder".to_owned();
        findings.push(file_finding(Severity::Warning, &branch.path, message, ""));
    }
    branch.is_unrelated()
}

fn service(branch: FolderNode, findings: &mut Vec<Finding>) -> Option<DraftService> {
    if is_left_out(&branch, findings) {
        return None;
    }
    let FolderNode {
        path,
        name,
        info_file: about,
        is_broken,
        subfolders: _,
        tools,
        file_names: spelled,
    } = branch;
    let file = about.as_ref().map_or_else(|| format!("{path}/_service.yaml"), |a| a.0.clone());
    let read = about.map(|about| read_about(&about, findings));
    let (said, at) = read.unwrap_or_default();
    let description = said.description.unwrap_or_default();
    if description.is_empty() && !is_broken && !said.is_wrong {
        let hint = "add `description: …`: services are selected by it";
        findings.push(missing(&file, at, hint));
    }
    if said.server.is_none() && !is_broken && !said.is_wrong {
        let message = "expected an `mcp_server`".to_owned();
        let hint =
            "add `mcp_server: …` with the name of a server in `mcp_servers` of `_config.yaml`";
        let missing = file_finding(Severity::Error, &file, message, hint);
        findings.push(Finding { position: at, ..missing });
    }
    let server = match (trouble(&path, findings), said.server) {
        (Some(error), _) => ServerBinding::Invalid(error),
        (None, Some((server, position))) => {
            let unknown = Finding {
                position: Some(position),
                path: "mcp_server".to_owned(),
                ..file_finding(Severity::Error, &file, String::new(), "")
            };
            ServerBinding::Named(server, unknown)
        }
        // The missing key or broken file would be an error, so this is unreachable.
        (None, None) => return None,
    };
    if tools.is_empty() && matches!(server, ServerBinding::Named(..)) {
        let message = "ignored: no tools (`*.yaml` files)".to_owned();
        findings.push(file_finding(Severity::Warning, &path, message, ""));
    }
    Some(DraftService { path, name, description, server, tools, spelled })
}

/// Returns the first error of a service's folder or its `_service.yaml`.
fn trouble(path: &str, findings: &[Finding]) -> Option<ServerEntryError> {
    let is_its = |file: &str| {
        let inside = file.strip_prefix(path).and_then(|rest| rest.strip_prefix('/'));
        file == path || inside.and_then(tree::stem) == Some("_service")
    };
    let is_wrong = |finding: &&Finding| {
        finding.severity == Severity::Error && finding.file.as_deref().is_some_and(is_its)
    };
    findings.iter().find(is_wrong).map(entry_error_from)
}

/// Converts a finding to the reason that agents and the log get.
fn entry_error_from(finding: &Finding) -> ServerEntryError {
    let Finding { file, path, message, hint, .. } = finding;
    let file = file.as_deref().map(|file| format!("error in `{file}`: ")).unwrap_or_default();
    let place = if path.is_empty() { String::new() } else { format!("`{path}`: ") };
    let hint = hint
        .clone()
        .unwrap_or_else(|| "run `mcp-workbench check` for the position of the error".to_owned());
    ServerEntryError { reason: format!("{file}{place}{message}"), hint }
}

/// The content of `_category.yaml` or `_service.yaml`.
#[derive(Default)]
struct FolderInfo {
    description: Option<String>,
    /// The server's name, and its line and column.
    server: Option<(String, (usize, usize))>,
    /// `true` if an error was reported.
    is_wrong: bool,
}

/// The description, and the server with its byte offset.
type Keys = (Option<String>, Option<(String, usize)>);

impl FolderInfo {
    fn keys(fields: &mut ObjectFields<'_>, reader: &mut ConfigReader<'_>) -> Keys {
        let description = fields.take("description").and_then(|node| reader.read_string(&node));
        let server = fields.take("mcpServer").and_then(|node| reader.read_string(&node));
        let server = server.filter(|server| !server.value.trim().is_empty());
        (
            description.map(|text| text.value.trim().to_owned()),
            server.map(|server| (server.value, server.location.offset)),
        )
    }
}

/// Parses `_category.yaml` or `_service.yaml`. Also returns the position for findings about missing
/// keys.
fn read_about(
    (file, text): &(String, String),
    findings: &mut Vec<Finding>,
) -> (FolderInfo, Option<(usize, usize)>) {
    let ParsedFile { value, findings: found, .. } = read_text(file, text, None, |root, reader| {
        if root.is_null() {
            return None;
        }
        let mut fields = reader.read_fields(root)?;
        let keys = FolderInfo::keys(&mut fields, reader);
        fields.report_unknown_keys(reader, |_| None);
        Some(keys)
    });
    let (description, server) = value.unwrap_or_default();
    let position = |at| line_columns(document::strip_bom(text), &[at]).first().copied();
    let server = server.and_then(|(name, at)| Some((name, position(at)?)));
    let is_wrong = found.iter().any(|finding| finding.severity == Severity::Error);
    findings.extend(found);
    (FolderInfo { description, server, is_wrong }, Some((1, 1)))
}

fn missing(file: &str, position: Option<(usize, usize)>, hint: &str) -> Finding {
    let missing =
        file_finding(Severity::Warning, file, "expected a `description`".to_owned(), hint);
    Finding { position, ..missing }
}

#[derive(Default)]
pub(crate) struct CatalogServers(Vec<(String, server::ServerCheckOutcome)>);

impl CatalogServers {
    /// Checks the servers, and warns about those that no service uses according to `is_wanted`.
    pub(crate) fn check(
        servers: LocatedMap<RawServer>,
        is_wanted: impl Fn(&str) -> bool,
        paths: &PathResolver<'_>,
        reader: &mut ConfigReader<'_>,
    ) -> Self {
        let servers = servers.0.into_iter().map(|(name, raw)| {
            check_name(&name, "server", reader);
            let checked = server::check_server(&name, raw, paths, reader);
            if !is_wanted(&name.value) && !matches!(checked, server::ServerCheckOutcome::Disabled) {
                let hint = "use it as `mcp_server` in the `_service.yaml` of a service";
                reader.report_warning(
                    &name.location,
                    "no service uses this server",
                    Some(hint.to_owned()),
                );
            }
            (name.value, checked)
        });
        Self(servers.collect())
    }

    fn get(&self, name: &str) -> Option<&server::ServerCheckOutcome> {
        self.0.iter().rev().find_map(|(own, server)| (own == name).then_some(server))
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    fn is_wrong(&self) -> bool {
        self.0.iter().any(|(_, server)| matches!(server, server::ServerCheckOutcome::Invalid))
    }
}

enum BoundServer {
    Own(Box<ServerConfig>),
    Existing(ServerRef),
    Disabled,
    Missing(ServerEntryError),
}

struct ServerBinder<'a> {
    own: &'a CatalogServers,
    config: &'a mut Config,
    home: CatalogRole,
    /// The servers that the configuration has without the catalog.
    places: Vec<ServerRef>,
    findings: Vec<Finding>,
    disabled: Vec<(ToolboxName, ServerName)>,
}

impl ServerBinder<'_> {
    fn category(&mut self, category: DraftCategory) -> Option<CatalogCategory> {
        let DraftCategory { path, name, description, services } = category;
        let toolbox = ToolboxName::new(&name);
        let (mut placed, mut servers) = (Vec::new(), Vec::new());
        for service in services {
            let at = match self.find(&service) {
                BoundServer::Own(found) => {
                    let server = ServerName::new(&service.name);
                    let at = ServerRef { toolbox: toolbox.clone(), server: server.clone() };
                    let include = Some(service.tools.clone());
                    servers.push(ServerConfig { name: server, include, ..*found });
                    at
                }
                BoundServer::Existing(at) => at,
                BoundServer::Disabled => {
                    let message = "ignored: its server is disabled".to_owned();
                    self.findings.push(file_finding(Severity::Warning, &service.path, message, ""));
                    self.disabled.push((toolbox.clone(), ServerName::new(&service.name)));
                    continue;
                }
                BoundServer::Missing(error) if self.home == CatalogRole::Standalone => {
                    let server = ServerName::new(&service.name);
                    let at = ServerRef { toolbox: toolbox.clone(), server: server.clone() };
                    let ServerEntryError { reason, hint } = error;
                    let include = Some(service.tools.clone());
                    let broken = ServerConfig::new(server, Launch::Broken { reason, hint });
                    servers.push(ServerConfig { include, ..broken });
                    at
                }
                // The servers' tools remain available without the service.
                BoundServer::Missing(_) => continue,
            };
            let DraftService { path, name, description, server: _, tools, spelled } = service;
            if !tools.is_empty() {
                placed.push(CatalogService { name, description, at, tools, path, spelled });
            }
        }
        servers.retain(|server| {
            let has_tools = server.include.as_ref().is_some_and(|tools| !tools.is_empty());
            has_tools || matches!(server.launch, Launch::Broken { .. })
        });
        if !servers.is_empty() && self.config.toolbox(&name).is_some() {
            let message = format!("ignored: a toolbox `{name}` already exists");
            let hint = "rename one of them";
            self.findings.push(file_finding(Severity::Error, &path, message, hint));
            return None;
        }
        if !servers.is_empty() {
            let described = (!description.is_empty()).then(|| description.clone());
            let names: Vec<&str> = servers.iter().map(|server| server.name.as_str()).collect();
            self.config.toolboxes.push(ToolboxConfig {
                name: toolbox,
                description: described
                    .unwrap_or_else(|| format!("Tools of {}", quoted_list(&names, "and"))),
                namespace: name.clone(),
                servers,
            });
        }
        (!placed.is_empty()).then_some(CatalogCategory { name, description, services: placed })
    }

    fn find(&mut self, service: &DraftService) -> BoundServer {
        let (name, unknown) = match &service.server {
            ServerBinding::Named(name, unknown) => (name, unknown),
            ServerBinding::Invalid(error) => return BoundServer::Missing(error.clone()),
        };
        match self.own.get(name) {
            Some(server::ServerCheckOutcome::Enabled(server)) => {
                return BoundServer::Own(server.clone());
            }
            Some(server::ServerCheckOutcome::Disabled) => return BoundServer::Disabled,
            Some(server::ServerCheckOutcome::Invalid) => {
                let at = format!("mcp_servers.{name}");
                let wrong =
                    file_finding(Severity::Error, CONFIG, "invalid server entry".to_owned(), "");
                return BoundServer::Missing(entry_error_from(&Finding { path: at, ..wrong }));
            }
            None => {}
        }
        let all = &self.places;
        let full = |at: &&ServerRef| format!("{}/{}", at.toolbox, at.server) == *name;
        let whole = |at: &&ServerRef| at.toolbox.as_str() == name && at.server.as_str() == name;
        let named: Vec<&ServerRef> = all.iter().filter(|at| at.server.as_str() == name).collect();
        let found = all.iter().find(full).or_else(|| all.iter().find(whole));
        if let Some(at) = found.or(match named.as_slice() {
            [only] => Some(*only),
            _ => None,
        }) {
            return BoundServer::Existing(at.clone());
        }
        let (message, hint) = if name == MACROS || name.ends_with(&format!("/{MACROS}")) {
            let message =
                format!("no server `{name}`: macros are not supported in a catalog folder");
            (message, "agents can use macros through their toolboxes".to_owned())
        } else if named.is_empty() {
            let own = self.own.0.iter().map(|(name, _)| name.clone());
            let mut known: Vec<String> =
                own.chain(all.iter().map(|at| at.server.to_string())).collect();
            known.sort_unstable();
            known.dedup();
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            let hint = did_you_mean(name, &known).unwrap_or_else(|| match known.as_slice() {
                [] => "add it to `mcp_servers` in `_config.yaml`".to_owned(),
                known => format!("expected {}", quoted_list(known, "or")),
            });
            (format!("no server `{name}` in `mcp_servers`"), hint)
        } else {
            let places: Vec<String> =
                named.iter().map(|at| format!("{}/{}", at.toolbox, at.server)).collect();
            let message = format!("several servers have the name `{name}`");
            (message, format!("write {}", quoted_list(&places, "or")))
        };
        let unknown = Finding { message, hint: Some(hint), ..unknown.clone() };
        let error = entry_error_from(&unknown);
        self.findings.push(unknown);
        BoundServer::Missing(error)
    }
}
